"""The socket of a host, bound before the host starts, and the HTTP server on its event loop."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hive_agents.access import TOKENS, is_open
from hive_agents.base import HiveError
from hive_agents.server.address import address, forget_served, is_loopback, tell_served
from hive_agents.server.app import create_app
from hive_agents.workspace import require_trust

if TYPE_CHECKING:
    from hive_agents.host import Host
    from hive_agents.workspace import Workspace

BACKLOG = 2048
GRACE = 5
"""Seconds that requests have to finish when the server ends."""


class Listener:
    """Listens at `host` and `port`, those of the settings by default; port 0 takes a free one.

    Raises: HIVE-431 where the settings of server and tokens aren't trusted, HIVE-409 (exit code 2) for an address that
    others can reach while no `access.keys` are configured, HIVE-409 (exit code 3) for one that can't be bound.
    """

    def __init__(self, workspace: Workspace, host: str | None = None, port: int | None = None) -> None:
        self._workspace, self.host = workspace, host if host is not None else workspace.settings.server.host
        self.require_fit(workspace)
        self._socket = _bound(self.host, port if port is not None else workspace.settings.server.port)
        self.port: int = self._socket.getsockname()[1]

    def require_fit(self, workspace: Workspace) -> None:
        """Raise what the class says for settings with which nobody may listen at this address."""
        require_trust(workspace, "server", *TOKENS)
        if not is_loopback(self.host) and not workspace.settings.access.keys:
            why = f"{self.host} can be reached from outside, and nobody has to say who they are"
            raise HiveError.of("HIVE-409", why, fix="configure access.keys in hive.toml, or use 127.0.0.1")
        if not is_loopback(self.host) and is_open(workspace):
            why = f"{self.host} can be reached from outside, and access.mode is open: the owner sees all documents"
            raise HiveError.of("HIVE-409", why, fix='set access.mode = "enforced" in hive.toml, or use 127.0.0.1')

    @property
    def url(self) -> str:
        return address(self.host, self.port)

    async def serve(self, host: Host) -> None:
        """Answer requests until cancelled; then finish those under way."""
        import asyncio

        import uvicorn

        from hive_agents.server.connections import Connections, protocol

        class Server(uvicorn.Server):
            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield  # the host handles signals

            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                for one in sockets or ():  # uvicorn's backlog is also how many it accepts at once
                    one.listen(BACKLOG)

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                app.state.closing.set()
                await super().shutdown(sockets)  # which first accepts nothing more

        connections = Connections(host.workspace.settings.server)
        await asyncio.to_thread(getattr, host.dispatcher, "engine")  # imports much, and the host's roles work meanwhile
        app = create_app(host, loopback=is_loopback(self.host))
        app.state.connections = connections
        app.state.listener, app.state.closing = self, asyncio.Event()
        config = uvicorn.Config(
            app, http=protocol(connections), log_config=None, access_log=False, lifespan="off", ws="none",
            server_header=False, timeout_graceful_shutdown=GRACE, backlog=connections.accepted_at_once,
        )  # fmt: skip
        # A server closes its socket, and the next one, after a failure, needs it again.
        with self._socket.dup() as listening:
            server = Server(config)
            serving = asyncio.ensure_future(server.serve([listening]))
            watching = asyncio.ensure_future(connections.watch())
            if "http" in host.roles:
                await asyncio.to_thread(tell_served, self._workspace, self.url)
            try:
                await asyncio.shield(serving)
            except asyncio.CancelledError:
                server.should_exit = True
                app.state.feed.close()
                connections.end_waiting()
                await serving
                raise
            finally:
                watching.cancel()
                app.state.signin.close()
                await app.state.mcp.close()

    def close(self) -> None:
        forget_served(self._workspace, self.url)
        self._socket.close()


def _bound(name: str, port: int) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, proto)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            # A second process fails now, and no request is refused while the host starts.
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
    except (OSError, OverflowError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "is in use by another process" if taken else f"can't be had: {error}"
        fix = "end that process, or choose another one with --port" if taken else "choose another one"
        raise HiveError.of("HIVE-409", f"{name} port {port} {why}", fix=fix, exit_code=3) from None
    return listening
