"""Limits of connections: how many in all and per address, and deadlines for clients that the server waits for.

A connection waits for its client while the head or the body of a request is due, or while the client reads too slowly.
Where a limit is reached, a connection that waits for its client is closed: the oldest among those that were never
answered, else the oldest of all. A new one is refused only where every other connection is being answered.
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

    from hive_agents.workspace.settings import ServerSettings

HEAD_BYTES = 16_384
SWEEP = 1.0
"""Seconds between two checks of the deadlines."""
ROUNDS = 8
"""More iterations of the event loop than pass between accepting a connection and the first read from it."""
_LATE = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

Wait: TypeAlias = Literal["head", "body", "read"]
"""What the server waits for: the head or the body of a request, or that the client reads the response."""


class Connections:
    """All connections of one server, oldest first."""

    def __init__(self, limits: ServerSettings) -> None:
        self._most = min(limits.connections, _open_files() // 2)
        self._most_of_one = min(limits.connections_per_address, self._most)
        # The application, whose deadline comes first, answers a late body with 408.
        self._seconds: dict[Wait, float] = {
            "head": limits.header_seconds,
            "body": limits.body_seconds + SWEEP,
            "read": limits.read_seconds,
        }
        self._all: dict[Connection, None] = {}
        self._by_address: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def accepted_at_once(self) -> int:
        """How many may be accepted at once, so that none is closed before anything was read from it."""
        return max(self._most_of_one // ROUNDS, 1)

    def admit(self, connection: Connection) -> bool:
        """Return whether there is room for a connection; where a limit is reached, another one is closed for it."""
        same_address = self._by_address.get(connection.address, {})
        for group, most in ((same_address, self._most_of_one), (self._all, self._most)):
            if len(group) >= most:
                oldest = _oldest_waiting(group, answered=False) or _oldest_waiting(group, answered=True)
                if oldest is None:
                    return False
                oldest.end()
        self._all[connection] = None
        self._by_address.setdefault(connection.address, {})[connection] = None
        return True

    def remove(self, connection: Connection) -> None:
        self._all.pop(connection, None)
        same_address = self._by_address.get(connection.address, {})
        same_address.pop(connection, None)
        if not same_address:
            self._by_address.pop(connection.address, None)

    def end_waiting(self) -> None:
        """Close the connections that wait for their client, when the server ends."""
        for connection in list(self._all):
            if connection.waits_for() is not None:
                connection.end()

    async def watch(self) -> None:
        """Close connections past their deadline, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP)
            now = loop.time()
            for connection in list(self._all):
                wait, seconds = connection.waits_for(), connection.waited(now)
                if wait is not None and seconds >= self._seconds[wait]:
                    connection.end()


def _oldest_waiting(group: Iterable[Connection], *, answered: bool) -> Connection | None:
    """Return the oldest connection that waits for its client, among those `answered` before or never."""
    return next((one for one in group if one.answered is answered and one.waits_for() is not None), None)


class StrictParser(h11.Connection):
    """Refuses, before anything of it is acted on, a request that a proxy in front could end at another place."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and (b"content-length" in names or event.http_version == b"1.0"):
                raise h11.RemoteProtocolError("the end of the body is told in two ways")
        return event


class Connection(H11Protocol):
    """One client's connection; `protocol` makes a subclass with `connections_of_server`."""

    connections_of_server: Connections
    address = ""
    answered = False
    """Whether a request of this connection was answered."""
    _admitted = False
    _reads = 0
    """How often the client has read the output up to the low-water mark."""
    _progress: tuple[Any, ...] | None = None
    _since = 0.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = StrictParser(h11.SERVER, HEAD_BYTES)

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
        """Return what the server waits for; None while it answers a request."""
        if self.transport.get_write_buffer_size() > 0:
            return "read"
        if self.cycle is None or self.cycle.response_complete:
            return "body" if self.conn.their_state is h11.SEND_BODY else "head"
        return "body" if self.cycle.more_body else None

    def waited(self, now: float) -> float:
        """Return the seconds since the client's last progress: a complete head or body, or a response that it read."""
        progress = (self.waits_for(), self.cycle, self._reads)
        if progress != self._progress:
            self._progress, self._since = progress, now
        return now - self._since

    def end(self) -> None:
        """Close the connection at once, with 408 to an incomplete head; unsent output is dropped."""
        if self.waits_for() == "head" and self.conn.trailing_data[0] and not self.transport.is_closing():
            self.transport.write(_LATE)
        self.connections_of_server.remove(self)
        self.transport.abort()


def _open_files() -> int:
    """Return how many files this process may have open, after raising the soft limit to the hard one."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # where the kernel's limit is lower than the hard one
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else sys.maxsize


def protocol(connections: Connections) -> type[Connection]:
    """Return the protocol class for a server with these connections."""
    return type("ServerConnection", (Connection,), {"connections_of_server": connections})


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """Return the key that connections are counted by: an IPv4 address, or the /64 network of an IPv6 one.

    >>> network_of("203.0.113.9"), network_of("2001:db8::17"), network_of("::ffff:203.0.113.9")
    ('203.0.113.9', '2001:db8::', '203.0.113.9')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False).network_address)
