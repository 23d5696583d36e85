"""Who makes an MCP request, over HTTP and over stdio; known before the SDK is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from hive_agents.retrieval import SearchEngine
from hive_agents.server.auth import Call, CallContext
from hive_agents.server.freshness import Freshness

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

    from hive_agents.access import Asker
    from hive_agents.workspace import Workspace

McpCaller: TypeAlias = "Callable[[Context[Any, Any]], CallContext]"
"""Says who calls, anew for each request."""
STATELESS = "2026-07-28"
"""The first version of the protocol in which an answer becomes a stream when there is something to tell before it."""


def caller_over_http(context: Context[Any, Any]) -> CallContext:
    """Return who sent this request: it was checked when it came, and what they may do is looked up again."""
    sent: Any = context.request_context.request
    call: Call = sent.scope["state"]["call"]
    call.principal = call.asker.reader_or_owner()
    return call


def local_caller(workspace: Workspace, asker: Asker) -> McpCaller:
    """Return who calls over stdio: the one who started the process, looked up again for each request."""
    engine, freshness = SearchEngine(workspace), Freshness(workspace)
    return lambda _: CallContext(workspace, asker, engine=engine, freshness=freshness)
