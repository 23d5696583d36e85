"""Tools of MCP servers that the settings name, as `NAME__tool`, over stdio or HTTP, through the official SDK."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.agents.tool import NAME, Tool, as_result, make_tool
from hive_agents.credentials import is_reference, redacted, resolve
from hive_agents.errors import Diagnostic, HiveError
from hive_agents.files import opened
from hive_agents.memory import ToolResult
from hive_agents.settings import McpServer
from hive_agents.trust import file_within
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from concurrent.futures import Future

CONNECT_SECONDS = 20.0
CALL_SECONDS = 120.0
_MOST_PAGES = 50


def server_tools(workspace: Workspace) -> Iterator[Tool | Diagnostic]:
    """Yield the tools of each server of the settings, or why it can't list them."""
    for name, settings in workspace.settings.mcp.servers.items():
        try:
            server = _server(workspace.root, name, settings.model_dump_json())
            yield from [server.as_tool(listed) for listed in server.list_tools()]
        except HiveError as error:
            yield from error.diagnostics


class Server:
    """A server that is started or connected to when it is first needed, and again after it died."""

    def __init__(self, workspace: Workspace, name: str, settings: McpServer) -> None:
        self.name, self._settings, self._workspace = name, settings, workspace
        self._connecting = asyncio.Lock()
        self._client: Any = None
        self._closing: asyncio.Event | None = None
        self._listed: list[Any] | None = None
        self._secrets: set[str] = set()
        """Values of the references that the server was given, also before a restart."""

    def list_tools(self) -> list[Any]:
        """Return the server's tools. Raises: HIVE-432 where it can't be reached, HIVE-411 without the SDK, HIVE-421."""
        if self._listed is None:
            try:
                self._listed = _in_loop(self._list()).result(CONNECT_SECONDS * 2)
            except Exception as error:
                raise self._fault(error) from None
        return self._listed

    def as_tool(self, listed: Any) -> Tool:
        """Return a listed tool as a `Tool`: *external* unless the server marks it as read-only."""
        hints = listed.annotations
        read_only = bool(hints and hints.read_only_hint)
        name = f"{self.name}__{re.sub(r'[^A-Za-z0-9_-]', '_', listed.name)}"
        if not NAME.fullmatch(name):
            raise self._fault(ValueError(f'"{name}" is too long, or no name for a tool'))
        tool = make_tool(listed, name=name, call=self._called, side_effect="read" if read_only else "external")
        # `idempotentHint`: a repeated call has no further effect, as with an idempotency key.
        return replace(tool, keyed=tool.keyed or bool(hints and hints.idempotent_hint))

    async def _called(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Return the tool's result with the server's secrets redacted; a server that died or hangs is a failed call."""
        try:
            result = as_result(await asyncio.wrap_future(_in_loop(self._call(name, arguments))))
        except Exception as error:
            return ToolResult(self._fault(error).diagnostics[0].message, is_error=True)
        return ToolResult(redacted(result.content, self._secrets), result.is_error)

    async def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        client = await self._connected()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await client.call_tool(name, arguments)
        except Exception as error:
            # After an error that isn't the server's answer the next call connects again.
            if not _answered(error):
                self._drop()
            raise

    async def _list(self) -> list[Any]:
        client = await self._connected()
        tools: list[Any] = []
        cursor = None
        for _ in range(_MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        return tools

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self._closing = asyncio.Event()
                _tasks.add(task := asyncio.create_task(self._serve(ready, self._closing)))
                task.add_done_callback(_tasks.discard)
                async with asyncio.timeout(CONNECT_SECONDS):
                    self._client = await ready
            return self._client

    async def _serve(self, ready: asyncio.Future[Any], closing: asyncio.Event) -> None:
        """Hold the connection open in one task: the SDK's scopes have to begin and end in the same one."""
        client: Any = None
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(await self._open(stack))
                ready.set_result(client)
                await closing.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
        finally:
            if self._client is client:
                self._client = None

    async def _open(self, stack: AsyncExitStack) -> Any:
        mcp = _sdk("mcp")
        if self._settings.command:
            program, *arguments = self._settings.command
            values = self._settings.env.items()
            env = {key: self._revealed(text) if is_reference(text) else text for key, text in values}
            if "-m" in arguments or any(file_within(self._workspace.root, word) for word in arguments):
                # Bytecode beside the server's files isn't recorded as trusted, and would be run in place of them.
                env.setdefault("PYTHONPYCACHEPREFIX", str(self._workspace.state_folder("mcp") / "bytecode"))
            stdio = _sdk("mcp.client.stdio")
            started = mcp.StdioServerParameters(
                command=program, args=arguments, env=env, cwd=self._workspace.root, encoding_error_handler="replace"
            )
            path = self._workspace.state_folder("mcp") / f"{self.name}.log"
            handle = opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            log = stack.enter_context(os.fdopen(handle, "a", encoding="utf-8"))
            return mcp.Client(stdio.stdio_client(started, errlog=log), read_timeout_seconds=CALL_SECONDS)
        headers = {key: self._revealed(reference) for key, reference in self._settings.headers_ref.items()}
        client = import_module("httpx2").AsyncClient(headers=headers, timeout=CALL_SECONDS)
        http = await stack.enter_async_context(client)
        transport = _sdk("mcp.client.streamable_http").streamable_http_client(self._settings.url, http_client=http)
        return mcp.Client(transport, read_timeout_seconds=CALL_SECONDS)

    def _revealed(self, reference: str) -> str:
        value = resolve(self._workspace, reference).reveal()
        self._secrets.add(value)
        return value

    def _drop(self) -> None:
        if self._closing is not None:
            self._closing.set()
        self._client = None

    def _fault(self, error: BaseException) -> HiveError:
        if isinstance(error, HiveError):
            return error
        while isinstance(error, BaseExceptionGroup):  # the SDK's task groups
            error = error.exceptions[0]
        if isinstance(error, TimeoutError):
            reason = "it gave no answer in time"
        elif isinstance(error, FileNotFoundError):
            reason = f"{self._settings.command[0]} is no program here"
        else:
            reason = f"{type(error).__name__}: {error}"
        literal = {text for text in self._settings.env.values() if not is_reference(text) and len(text) > 3}
        # Redacted before it is cut: a part of a secret would not be recognised.
        message = redacted(f"the MCP server {self.name} failed: {reason}", self._secrets | literal)[:500]
        path = f"mcp.servers.{self.name}"
        fix = f"check {path}; what it wrote is in .hive/mcp/{self.name}.log"
        return HiveError.of("HIVE-432", message, file="hive.toml", path=path, fix=fix, exit_code=3)


def _answered(error: BaseException) -> bool:
    """Return whether the error is an MCP response of the server, which keeps running."""
    closed = -32000
    code = getattr(getattr(error, "error", None), "code", None)
    return isinstance(code, int) and code != closed


def _sdk(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        why = "the package mcp is not installed, and the settings name MCP servers"
        raise HiveError.of("HIVE-411", why, fix='pip install "hive-agents[mcp]"') from None


@cache
def _server(root: Path, name: str, settings: str) -> Server:
    """Return the server of this name, the same object for all runs of this process."""
    return Server(Workspace(root), name, McpServer.model_validate_json(settings))


_tasks: set[asyncio.Task[None]] = set()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return one event loop, in a thread, for all servers: a connection outlives the event loop of a run."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="hive-mcp", daemon=True)
    thread.start()

    atexit.register(_end, loop)
    return loop


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Stop the started servers when this process ends."""

    async def ended() -> None:
        for task in list(_tasks):
            task.cancel()
        await asyncio.gather(*_tasks, return_exceptions=True)

    with suppress(Exception):
        asyncio.run_coroutine_threadsafe(ended(), loop).result(3.0)


def _in_loop(work: Any) -> Future[Any]:
    return asyncio.run_coroutine_threadsafe(work, _loop())
