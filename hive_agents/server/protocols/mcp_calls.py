"""Calls of MCP tools: the caller, their roles, and errors as diagnostics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from hive_agents.base import Diagnostic, HiveError
from hive_agents.server.auth import READER

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

    from hive_agents.server.auth import CallContext
    from hive_agents.server.protocols.mcp_callers import McpCaller

T = TypeVar("T")


class ToolCalls:
    """Calls of tools by the caller that `caller` returns; a failure is a tool error with its diagnostics as JSON."""

    def __init__(self, caller: McpCaller) -> None:
        self._caller = caller

    async def may(self, ctx: Context[Any, Any], roles: frozenset[str]) -> CallContext:
        try:
            call = await run_in_threadpool(self._caller, ctx)
            call.require(roles)
        except HiveError as error:
            raise tool_error(error) from None
        return call

    async def reader(self, ctx: Context[Any, Any]) -> CallContext:
        """Return the call of a named reader; others would get empty results instead of an error."""
        call = await self.may(ctx, READER)
        try:
            await run_in_threadpool(call.asker.reader)
        except HiveError as error:
            raise tool_error(error) from None
        return call

    async def done(self, ctx: Context[Any, Any], roles: frozenset[str], act: Callable[[CallContext], T]) -> T:
        call = await (self.reader(ctx) if roles is READER else self.may(ctx, roles))
        try:
            return await call.in_thread(act, call)
        except HiveError as error:
            raise tool_error(error) from None


class DiagnosedServer(MCPServer[Any]):
    """A server whose failed calls answer with JSON alone: {ok, diagnostics}."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ToolError):
                raise cause from None
            raise tool_error(HiveError(list(_misused(name, error, cause)))) from cause


def _misused(name: str, error: ToolError, cause: BaseException | None) -> Iterator[Diagnostic]:
    if not isinstance(cause, ValidationError):
        yield Diagnostic("HIVE-409", str(error), fix="tools/list names the tools")
        return
    for one in cause.errors(include_url=False, include_input=False):
        path = ".".join(map(str, one["loc"])) or "$"
        yield Diagnostic("HIVE-409", f"{path}: {one['msg']}", name, path, "see the tool's input schema")


def tool_error(error: HiveError) -> ToolError:
    return ToolError(json.dumps({"ok": False, "diagnostics": [one.to_json() for one in error.diagnostics]}))
