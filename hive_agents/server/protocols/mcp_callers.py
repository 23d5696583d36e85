"""The caller of an MCP request, over HTTP and over stdio; imports no SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from hive_agents.ranking import SearchEngine
from hive_agents.server.auth import Call, CallContext
from hive_agents.server.freshness import Freshness

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

    from hive_agents.access import Asker
    from hive_agents.workspace import Workspace

McpCaller: TypeAlias = "Callable[[Context[Any, Any]], CallContext]"
"""Returns the caller of a request, with their present rights."""
STATELESS = "2026-07-28"
"""The first protocol version in which a response becomes a stream when there is progress to report."""


def caller_over_http(context: Context[Any, Any]) -> CallContext:
    """Return the caller of an HTTP request, authenticated on arrival, with their present rights."""
    request: Any = context.request_context.request
    call: Call = request.scope["state"]["call"]
    call.require_still()
    return call


def local_caller(workspace: Workspace, asker: Asker) -> McpCaller:
    """Return a caller for stdio: the user that started the process, with their present rights."""
    engine, freshness = SearchEngine(workspace), Freshness(workspace)
    return lambda _: CallContext(workspace, asker, engine=engine, freshness=freshness)
