"""Who may hold a connection, and for how long: caps in all and per address, deadlines for whoever is waited for.

A connection waits for its client while the head or the body of a request is due, or while the client reads too slowly.
Where a cap is reached, one that waits for its client makes room: the first that came among those that were never
answered, else the first of all. A newcomer is refused only where every other connection is being answered.
"""

from __future__ import annotations

import asyncio
import ipaddress
import sys
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hive_agents.settings import ServerSettings

HEAD_BYTES = 16_384
SWEEP = 1.0
"""Seconds between two looks at the deadlines."""
ROUNDS = 8
"""More rounds of the event loop than pass between a connection and the first that is read from it."""
_LATE = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

Wait: TypeAlias = Literal["head", "body", "read"]
"""What a client is waited for: the head or the body of its request, or that it reads its answer."""


class Connections:
    """All connections of one server, in the order in which they came."""

    def __init__(self, limits: ServerSettings) -> None:
        self._most = min(limits.connections, _open_files() // 2)
        self._most_of_one = min(limits.connections_per_address, self._most)
        # An answer to a late body is the application's, which is told first.
        self._seconds: dict[Wait, float] = {
            "head": limits.header_seconds,
            "body": limits.body_seconds + SWEEP,
            "read": limits.read_seconds,
        }
        self._all: dict[Connection, None] = {}
        self._of: dict[str, dict[Connection, None]] = {}

    @property
    def accepted_at_once(self) -> int:
        """How many may be accepted before anybody is read from: who has just come must not be cut off unheard."""
        return max(self._most_of_one // ROUNDS, 1)

    def admit(self, connection: Connection) -> bool:
        """Return whether there is room for the connection, after another one made it where a cap was reached."""
        mine = self._of.get(connection.address, {})
        for group, most in ((mine, self._most_of_one), (self._all, self._most)):
            if len(group) >= most:
                late = _first(group, answered=False) or _first(group, answered=True)
                if late is None:
                    return False
                late.end()
        self._all[connection] = None
        self._of.setdefault(connection.address, {})[connection] = None
        return True

    def remove(self, connection: Connection) -> None:
        self._all.pop(connection, None)
        mine = self._of.get(connection.address, {})
        mine.pop(connection, None)
        if not mine:
            self._of.pop(connection.address, None)

    def end_waiting(self) -> None:
        """End the connections that wait for their client: a server that closes doesn't wait along."""
        for connection in list(self._all):
            if connection.waits_for() is not None:
                connection.end()

    async def watch(self) -> None:
        """End the connections whose client is late, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP)
            now = loop.time()
            for connection in list(self._all):
                waits, seconds = connection.waits_for(), connection.waited(now)
                if waits is not None and seconds >= self._seconds[waits]:
                    connection.end()


def _first(group: Iterable[Connection], *, answered: bool) -> Connection | None:
    """Return the first to come of those that wait for their client, and were answered before or never."""
    return next((one for one in group if one.answered is answered and one.waits_for() is not None), None)


class Connection(H11Protocol):
    """One client's connection; `connections` is set by the class that `protocol` makes."""

    connections_of_server: Connections
    address = ""
    answered = False
    """Whether a request of this connection was answered."""
    _admitted = False
    _reads = 0
    """How often the client has caught up with what was written."""
    _waiting: tuple[Any, ...] | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        peer = transport.get_extra_info("peername")
        self.address = network_of(str(peer[0])) if peer else ""
        super().connection_made(transport)
        self._admitted = self.connections_of_server.admit(self)
        if not self._admitted:
            transport.write(_FULL)
            transport.abort()
        self.waited(self.loop.time())

    def data_received(self, data: bytes) -> None:
        if self._admitted:
            super().data_received(data)

    def on_response_complete(self) -> None:
        self.answered = True
        super().on_response_complete()

    def resume_writing(self) -> None:
        self._reads += 1
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections_of_server.remove(self)
        super().connection_lost(exc)

    def waits_for(self) -> Wait | None:
        """Return what the client is waited for; None while its request is being answered."""
        if self.transport.get_write_buffer_size() > 0:
            return "read"
        if self.cycle is None or self.cycle.response_complete:
            return "body" if self.conn.their_state is h11.SEND_BODY else "head"
        return "body" if self.cycle.more_body else None

    def waited(self, now: float) -> float:
        """Return how long the client has been waited for without the progress that counts: the next head, a whole body,
        or that it has read what was written."""
        waiting = (self.waits_for(), self.cycle, self._reads)
        if waiting != self._waiting:
            self._waiting, self._since = waiting, now
        return now - self._since

    def end(self) -> None:
        """Close the connection now, whatever is still to be written; who sent half a head is told why."""
        if self.waits_for() == "head" and self.conn.trailing_data[0] and not self.transport.is_closing():
            self.transport.write(_LATE)
        self.connections_of_server.remove(self)
        self.transport.abort()


def _open_files() -> int:
    """Return how many files this process may have open, after it took as many as it may."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # where the system has a lower limit than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else sys.maxsize


def protocol(connections: Connections) -> type[Connection]:
    """Return the protocol of a server whose connections these are."""
    return type("ServerConnection", (Connection,), {"connections_of_server": connections})


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """Return the address that a cap counts by: of IPv6 the network that one client is given.

    >>> network_of("203.0.113.9"), network_of("2001:db8::17"), network_of("::ffff:203.0.113.9")
    ('203.0.113.9', '2001:db8::', '203.0.113.9')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False).network_address)
