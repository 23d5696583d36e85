"""/mcp: MCP over HTTP, without sessions; who calls is in each request's token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from hive_agents.errors import HiveError
from hive_agents.retrieval import SearchEngine
from hive_agents.server.auth import ANYBODY, Call, CallContext
from hive_agents.server.freshness import Freshness

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context, MCPServer
    from starlette.types import Receive, Scope, Send

    from hive_agents.access import Asker
    from hive_agents.workspace import Workspace


def mcp_server(workspace: Workspace, caller: Callable[[Any], CallContext]) -> MCPServer[Any]:
    """Return the MCP server of a workspace. Raises: HIVE-411 without the SDK."""
    try:
        from hive_agents.server.protocols.mcp_tools import server
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("mcp", "mcp_types"):
            raise
        why = "speaking MCP needs its SDK"
        raise HiveError.of("HIVE-411", why, fix='pip install "hive-agents[mcp]"') from None
    return server(workspace, caller)


class McpEndpoint:
    """The SDK's transport, begun with the first request, behind the same door as every other route."""

    def __init__(self) -> None:
        self._manager: Any = None
        self._running: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        call = await run_in_threadpool(Call, request)
        request.state.principal = call.principal
        request.app.state.rates.admit(call.principal)
        call.require(ANYBODY)
        scope["state"]["call"] = call
        if self._running is None:
            self._running = asyncio.create_task(self._run(call.workspace), name="mcp")
        await self._begun.wait()
        if self._manager is None:
            await self._running  # it tells why
        await self._manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError, HiveError):
                await self._running

    async def _run(self, workspace: Workspace) -> None:
        try:
            made = await run_in_threadpool(mcp_server, workspace, _caller_of)
            from mcp.server.transport_security import TransportSecuritySettings

            # Every request has proved who sends it, whatever its Host header says.
            security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
            made.streamable_http_app(stateless_http=True, json_response=True, transport_security=security)
            manager = made.session_manager
            async with manager.run():
                self._manager = manager
                self._begun.set()
                await asyncio.Event().wait()
        finally:
            self._manager, self._running = None, None
            self._begun.set()


def _caller_of(context: Context[Any, Any]) -> CallContext:
    """Who sent this request: it was checked when it came, and what they may do is looked up again."""
    sent: Any = context.request_context.request
    call: Call = sent.scope["state"]["call"]
    call.principal = call.asker.reader_or_owner()
    return call


def local_caller(workspace: Workspace, asker: Asker) -> Callable[[Any], CallContext]:
    """Return who calls over stdio: the one who started the process, looked up again for each request."""
    engine, freshness = SearchEngine(workspace), Freshness(workspace)
    return lambda _: CallContext(workspace, asker, engine=engine, freshness=freshness)
