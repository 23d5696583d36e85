"""Where web tools may connect to: addresses of the public internet, and private ones only by name."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from hive_agents.errors import HiveError

PORTS = {"http": 80, "https": 443}
# Not every release of Python knows them: relays of 6to4, examples, local translations, segment routing.
_UNLISTED = "192.0.0.0/24 192.88.99.0/24 100::/63 2001::/23 3fff::/20 5f00::/16 64:ff9b:1::/48 fec0::/10"
_CLOSED = tuple(map(ip_network, _UNLISTED.split()))
_TAILS = tuple(map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
"""The last 32 bits of an address in one of these are an IPv4 address: it is where the way leads."""
_6TO4 = IPv6Network("2002::/16")
_ISATAP = (0x00005EFE, 0x02005EFE)


@dataclass(frozen=True)
class Destination:
    """A URL that was looked at, and the one address to connect to: what a name says a moment later doesn't count."""

    url: str
    host: str
    port: int
    address: str


async def destination(url: str, private_hosts: Collection[str] = ()) -> Destination:
    """Raises: HIVE-409 for a URL that isn't http(s), has a user or leads to a private address; `socket.gaierror`."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        raise _refused("it is no URL") from None
    host = parts.hostname or ""
    if parts.scheme not in PORTS or not host or not url.isprintable() or " " in url:
        raise _refused("it is no http or https URL")
    if parts.username is not None or parts.password is not None:
        raise _refused("it holds a user or a password")
    allowed = bool({host, f"{host}:{port}"} & set(private_hosts))
    if port != PORTS[parts.scheme] and not allowed:
        raise _refused(f"its port {port} is none of the web's")
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise _refused("its host is no name") from None
    # IPv4 first: many a network has no way to IPv6, and only one address is tried.
    addresses = sorted((str(entry[4][0]) for entry in found), key=lambda address: ":" in address)
    # All of them: a name that leads to a public and to a private address is somebody's attempt.
    if not addresses or not (allowed or all(is_public(address) for address in addresses)):
        raise _refused("it leads to a private address")
    return Destination(_without_fragment(parts), host, port, addresses[0])


def is_public(address: str) -> bool:
    """
    >>> [is_public(one) for one in ("93.184.216.34", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fd00::1")]
    [True, False, False, False, False]
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if any(found in network for network in _CLOSED):
        return False
    if isinstance(found, IPv6Address):
        number = int(found)
        if any(found in network for network in _TAILS):
            return is_public(str(IPv4Address(number & 0xFFFFFFFF)))
        if found in _6TO4 and not is_public(str(IPv4Address(number >> 80 & 0xFFFFFFFF))):
            return False
        if number >> 32 & 0xFFFFFFFF in _ISATAP and not is_public(str(IPv4Address(number & 0xFFFFFFFF))):
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def _without_fragment(parts: SplitResult) -> str:
    return parts._replace(fragment="").geturl()


def _refused(why: str) -> HiveError:
    fix = "use the address of a public web page"
    return HiveError.of("HIVE-409", f"this address is not opened: {why}", fix=fix)
