"""/mcp: MCP over HTTP, without sessions; each request carries its caller's token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from hive_agents.base import HiveError
from hive_agents.server.auth import ANYBODY, Call, require_same_site
from hive_agents.server.protocols.mcp_callers import STATELESS, McpCaller, caller_over_http, local_caller

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import Receive, Scope, Send

    from hive_agents.access import Asker
    from hive_agents.workspace import Workspace


def mcp_server(workspace: Workspace, caller: McpCaller) -> MCPServer[Any]:
    """Return the MCP server of a workspace. Raises: HIVE-411 without the SDK."""
    try:
        from hive_agents.server.protocols.mcp_tools import server
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("mcp", "mcp_types"):
            raise
        why = "speaking MCP needs its SDK"
        raise HiveError.of("HIVE-411", why, fix='pip install "hive-agents[mcp]"') from None
    return server(workspace, caller)


def serve_stdio(workspace: Workspace, asker: Asker) -> None:
    """Serve MCP over stdin and stdout until they are closed. Raises: HIVE-411 without the SDK."""
    mcp_server(workspace, local_caller(workspace, asker)).run("stdio")


class McpEndpoint:
    """The SDK's transport, started by the first request, with the authentication of every other route.

    `make` returns the server behind it.
    """

    def __init__(self, make: Callable[[Workspace, McpCaller], MCPServer[Any]] = mcp_server) -> None:
        self._make = make
        self._managers: dict[bool, Any] = {}
        self._running: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        require_same_site(request)
        call = await run_in_threadpool(Call, request)
        await run_in_threadpool(call.admit, ANYBODY)
        scope["state"]["call"] = call
        if self._running is None:
            self._begun = asyncio.Event()
            self._running = asyncio.create_task(self._run(call.workspace), name="mcp")
        running = self._running
        await self._begun.wait()
        if not self._managers:
            await running  # raises why it failed
        await self._managers[_streams(request)].handle_request(scope, receive, send)

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError, HiveError):
                await self._running

    async def _run(self, workspace: Workspace) -> None:
        try:
            server = await run_in_threadpool(self._make, workspace, caller_over_http)
            from mcp.server.transport_security import TransportSecuritySettings

            # `KnownHosts` checks host names, for all routes.
            security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
            managers = {}
            async with AsyncExitStack() as stack:
                for streams in (False, True):
                    server.streamable_http_app(
                        stateless_http=True, json_response=not streams, transport_security=security
                    )
                    managers[streams] = server.session_manager
                    await stack.enter_async_context(managers[streams].run())
                self._managers = managers
                self._begun.set()
                await asyncio.Event().wait()
        finally:
            self._managers, self._running = {}, None
            self._begun.set()


def _streams(request: Request) -> bool:
    """Return whether the client reads a stream, with progress; others get a single response in JSON."""
    version, accepted = (request.headers.get(name, "") for name in ("mcp-protocol-version", "accept"))
    return version >= STATELESS and "text/event-stream" in accepted
