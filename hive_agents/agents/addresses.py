"""Addresses that web tools may connect to: those of the public internet, and private ones that are listed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from hive_agents.base import HiveError

PORTS = {"http": 80, "https": 443}
# Not every release of Python counts these as private: 6to4 relays, documentation, local NAT64, segment routing.
_UNLISTED = "192.0.0.0/24 192.88.99.0/24 100::/63 2001::/23 3fff::/20 5f00::/16 64:ff9b:1::/48 fec0::/10"
_CLOSED = tuple(map(ip_network, _UNLISTED.split()))
_TAILS = tuple(map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
"""Networks whose last 32 bits are the IPv4 address that is really reached."""
_6TO4 = IPv6Network("2002::/16")
_ISATAP = (0x00005EFE, 0x02005EFE)


@dataclass(frozen=True)
class Destination:
    """A checked URL and the one address to connect to: the name isn't resolved a second time."""

    url: str
    host: str
    port: int
    address: str


async def destination(url: str, private_hosts: Collection[str] = ()) -> Destination:
    """Return where a URL leads.

    Raises: HIVE-409 for a URL that isn't http(s), has a user or leads to a private address; `socket.gaierror`.
    """
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
        resolved = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise _refused("its host is no name") from None
    # IPv4 first: many networks have no IPv6 route, and only one address is tried.
    addresses = sorted((str(entry[4][0]) for entry in resolved), key=lambda address: ":" in address)
    # All of them: a name with a public and a private address is an attack.
    if not addresses or not (allowed or all(is_public(address) for address in addresses)):
        raise _refused("it leads to a private address")
    return Destination(parts._replace(fragment="").geturl(), host, port, addresses[0])


def is_public(address: str) -> bool:
    """Return whether an address, and any IPv4 address embedded in it, is of the public internet.

    >>> [is_public(one) for one in ("93.184.216.34", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fd00::1")]
    [True, False, False, False, False]
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if any(parsed in network for network in _CLOSED):
        return False
    if isinstance(parsed, IPv6Address):
        number = int(parsed)
        if any(parsed in network for network in _TAILS):
            return is_public(str(IPv4Address(number & 0xFFFFFFFF)))
        if parsed in _6TO4 and not is_public(str(IPv4Address(number >> 80 & 0xFFFFFFFF))):
            return False
        if number >> 32 & 0xFFFFFFFF in _ISATAP and not is_public(str(IPv4Address(number & 0xFFFFFFFF))):
            return False
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved


def _refused(why: str) -> HiveError:
    fix = "use the address of a public web page"
    return HiveError.of("HIVE-409", f"this address is not opened: {why}", fix=fix)
