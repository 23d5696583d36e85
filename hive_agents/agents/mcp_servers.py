"""Tools of MCP servers that the settings name, as `NAME__tool`, over stdio or HTTP, through the official SDK."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import re
import threading
from base64 import b64decode
from collections.abc import Collection, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.agents.mcp_listing import (
    MOST_LISTED,
    MOST_PAGES,
    MOST_TOOLS,
    Announced,
    ListedTool,
    compared,
    pin,
    pins,
)
from hive_agents.agents.mcp_transports import MOST_BYTES, http_client, standard_streams
from hive_agents.agents.tool import SideEffect, Tool, as_result, make_tool
from hive_agents.base import Diagnostic, HiveError
from hive_agents.base.files import Exceeded, opened
from hive_agents.memory import ToolResult
from hive_agents.workspace import Workspace, file_within, is_trusted, server_files, untrusted_files
from hive_agents.workspace.credentials import is_reference, redacted, resolve
from hive_agents.workspace.settings import keys

if TYPE_CHECKING:
    from concurrent.futures import Future

CONNECT_SECONDS = 20.0
LIST_SECONDS = 30.0
"""For a whole listing, with all of its pages and with the connection."""
CALL_SECONDS = 120.0
MOST_RESOURCE_PAGES, MOST_NAMED = 10_000, 50_000_000
_LOOK = "look with `hive trust --diff`, then allow it with `hive trust`"


@dataclass(frozen=True)
class Inert:
    """Tools that aren't loaded, by the names that they seem to have, and the part of the workspace for which."""

    untrusted: str
    tools: list[str]


def server_tools(workspace: Workspace) -> Iterator[Tool | Diagnostic | Inert]:
    """Yield the tools of each server of the settings that are as they were trusted, and why others aren't there.

    A server that is reached for the first time since its settings were trusted is trusted as it is.
    """
    for name, settings in workspace.settings.mcp.servers.items():
        if (part := _untrusted_part(workspace, name, settings)) is not None:
            yield Inert(part, [f"{name}__*"])
    for server, listing in _listings(workspace):
        if isinstance(listing, HiveError):
            yield from listing.diagnostics
            continue
        try:
            yield from server.tools(listing)
        except HiveError as error:
            yield from error.diagnostics


def announced(workspace: Workspace, *, accept: Collection[str]) -> dict[str, list[Announced] | HiveError]:
    """Return the tools of each trusted server beside what was trusted, or why it can't list them; those of the servers
    in `accept` are trusted as they are returned. Raises: HIVE-403 where they can't be recorded."""
    found: dict[str, list[Announced] | HiveError] = {}
    for server, listing in _listings(workspace, anew=True):
        if isinstance(listing, HiveError):
            found[server.name] = listing
            continue
        pinned = server.pinned
        found[server.name] = compared(listing.texts if pinned is None else pinned, listing.tools)
        if server.name in accept:
            server.pin(listing)
    return found


@dataclass(frozen=True)
class Resource:
    """A resource as its server lists it; `modified` is "" where that isn't told."""

    uri: str
    mime_type: str
    size: int
    modified: str


def server_resources(workspace: Workspace, name: str) -> list[Resource]:
    """Return the resources of a server. Raises: HIVE-431, HIVE-432 where it can't list them, HIVE-411, HIVE-421."""
    return _named_server(workspace, name).resources()


def read_resource(workspace: Workspace, name: str, uri: str) -> bytes:
    """Return a resource's content. Raises: as `server_resources`."""
    return _named_server(workspace, name).resource(uri)


def _named_server(workspace: Workspace, name: str) -> Server:
    settings = workspace.settings.mcp.servers.get(name)
    if settings is None:
        why = f"the settings name no MCP server {name}"
        raise HiveError.of("HIVE-409", why, file="hive.toml", path="mcp.servers", fix=f"add [mcp.servers.{name}]")
    if (part := _untrusted_part(workspace, name, settings)) is not None:
        raise HiveError.of("HIVE-431", f"not trusted on this machine, and inert: {part}", fix=_LOOK)
    return _server(workspace.root, name, settings.model_dump_json())


def _untrusted_part(workspace: Workspace, name: str, settings: keys.McpServer) -> str | None:
    """Return the part of the workspace for which a server isn't started: its setting, or a file that it may run."""
    if not is_trusted(workspace, f"mcp.servers.{name}"):
        return f"hive.toml: mcp.servers.{name}"
    files = server_files(workspace.root, settings.command)
    return next(iter(untrusted_files(workspace, *files)), None)


def _listings(workspace: Workspace, *, anew: bool = False) -> list[tuple[Server, ToolListing | HiveError]]:
    """Return what each trusted server lists, all asked at once: a slow one costs the others no time."""
    all_servers = workspace.settings.mcp.servers.items()
    named = [(name, one) for name, one in all_servers if _untrusted_part(workspace, name, one) is None]
    servers = [_server(workspace.root, name, settings.model_dump_json()) for name, settings in named]
    asked = [(server, _in_loop(server.listed(anew=anew))) for server in servers]
    return [(server, future.result()) for server, future in asked]


@dataclass(frozen=True)
class ToolListing:
    """The tools of a server, and why it has others that aren't used."""

    tools: list[ListedTool]
    faults: list[str]

    @property
    def texts(self) -> dict[str, str]:
        return {tool.name: tool.text for tool in self.tools}


class Server:
    """A server that is started or connected to when it is first needed, and again after it died."""

    def __init__(self, workspace: Workspace, name: str, settings: keys.McpServer) -> None:
        self.name, self._settings, self._workspace = name, settings, workspace
        self._connecting, self._listing = asyncio.Lock(), asyncio.Lock()
        self._client: Any = None
        self._closing: asyncio.Event | None = None
        self._listed: ToolListing | None = None
        self._compared: Any = None
        """The connection on which the listing was last read."""
        self._broken = ""
        """Why the connection was given up."""
        self._secrets: set[str] = set()
        """Values of the references that the server was given, also before a restart."""

    @property
    def pinned(self) -> dict[str, str] | None:
        return pins(self._workspace, self.name, self._settings.model_dump_json())

    def pin(self, listing: ToolListing) -> None:
        """Trust the tools as they are listed. Raises: HIVE-403."""
        pin(self._workspace, self.name, self._settings.model_dump_json(), listing.tools)

    async def listed(self, *, anew: bool = False) -> ToolListing | HiveError:
        """Return the server's tools, without asking again unless `anew` or where they aren't as they were trusted.

        It fails with HIVE-432 where it can't be reached in time or lists too much, HIVE-411 without the SDK, HIVE-421.
        """
        try:
            async with self._listing, asyncio.timeout(LIST_SECONDS):
                known = self._listed
                if known is None or anew or known.texts != self.pinned:
                    await self._list(await self._connected())
        except Exception as error:
            if not isinstance(error, HiveError):
                self._drop()
            return self._fault(error)
        assert self._listed is not None
        return self._listed

    def tools(self, listing: ToolListing) -> Iterator[Tool | Diagnostic]:
        """Yield the tools of a listing, and why others are missing; they are pinned where none were.

        A changed one is inert, as it was trusted. Raises: HIVE-403 where they can't be pinned.
        """
        pinned = self.pinned
        if pinned is None:
            self.pin(listing)
            pinned = listing.texts
        for fault in listing.faults:
            yield self._missing(fault)
        names: set[str] = set()
        now = {tool.name: tool for tool in listing.tools}
        for one in compared(pinned, listing.tools):
            trusted = now[one.name] if one.status == "trusted" else None
            inert = ""
            if one.status == "new":
                yield self._unknown(one.name, "came after its server was trusted")
            elif one.status == "changed":
                inert = f"it changed since it was trusted: {_LOOK}"
                trusted = ListedTool.parsed(pinned[one.name])
                yield self._unknown(one.name, "changed since it was trusted")
            if trusted is None:
                continue
            try:
                tool = self._as_tool(trusted, inert)
            except HiveError as error:
                yield self._missing(error.diagnostics[0].message)
                continue
            if tool.name in names:
                yield self._missing(f'it announces two tools that are called "{tool.name}": "{one.name}" is left out')
                continue
            names.add(tool.name)
            yield tool

    def _as_tool(self, listed: ListedTool, inert: str) -> Tool:
        """Return a tool that is *external* unless the owner says that it only reads. Raises: HIVE-105, HIVE-113."""
        effect: SideEffect = "read" if listed.name in self._settings.read_only else "external"
        name = f"{self.name}__{re.sub(r'[^A-Za-z0-9_-]', '_', listed.name)}"
        tool = make_tool(listed, name=name, call=partial(self._called, listed), side_effect=effect)
        keyed = tool.keyed or listed.name in self._settings.idempotent
        return replace(tool, keyed=keyed, hints=listed.hints, inert=inert)

    async def _called(self, trusted: ListedTool, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Return the tool's result with the server's secrets redacted; a server that died or hangs is a failed call."""
        try:
            result = as_result(await asyncio.wrap_future(_in_loop(self._call(trusted, name, arguments))))
        except Exception as error:
            return ToolResult(self._fault(error).diagnostics[0].message, is_error=True)
        return ToolResult(self._redacted(result.content), result.is_error)

    async def _call(self, trusted: ListedTool, name: str, arguments: dict[str, Any]) -> Any:
        client = await self._connected()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                if client is not self._compared:  # it was started again, and may be another
                    async with self._listing, asyncio.timeout(LIST_SECONDS):
                        await self._list(client)
                assert self._listed is not None
                if trusted not in self._listed.tools:
                    raise HiveError([self._unknown(name, "changed since it was trusted")])
                return await client.call_tool(name, arguments)
        except Exception as error:
            # After an error that isn't the server's answer the next call connects again.
            if not _answered(error) and not isinstance(error, HiveError):
                self._drop()
            raise

    async def _list(self, client: Any) -> None:
        """Read the listing. Raises: Exceeded where it has too many tools or pages."""
        tools: dict[str, ListedTool] = {}
        faults: list[str] = []
        cursor, chars = None, 0
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
            for told in page.tools:
                if len(tools) + len(faults) >= MOST_TOOLS or chars > MOST_LISTED:
                    raise Exceeded(f"it announces more than {MOST_TOOLS} tools, or {MOST_LISTED:,} characters of them")
                try:
                    tool = ListedTool.of(told).without(self._redacted)
                except Exceeded as error:
                    faults.append(self._redacted(f'its tool "{told.name[:100]}" is left out: {error}'))
                    continue
                chars += len(tool.text)
                if tool.name in tools:
                    faults.append(f'it announces two tools that are called "{tool.name[:100]}": the second is left out')
                tools.setdefault(tool.name, tool)
            cursor = page.next_cursor
            if not cursor:
                self._listed, self._compared = ToolListing(list(tools.values()), faults), client
                return
        raise Exceeded(f"its tools are on more than {MOST_PAGES} pages")

    def resources(self) -> list[Resource]:
        """Return what the server lists. Raises: HIVE-432, HIVE-411, HIVE-421."""

        async def listed(client: Any) -> list[Resource]:
            resources, chars, cursor = list[Resource](), 0, None
            for _ in range(MOST_RESOURCE_PAGES):
                page = await client.list_resources(cursor=cursor, cache_mode="refresh")
                for one in page.resources:
                    told = one.annotations.last_modified if one.annotations is not None else None
                    resources.append(Resource(one.uri, one.mime_type or "", one.size or 0, str(told or "")))
                    chars += len(one.uri) + len(resources[-1].mime_type)
                    if chars > MOST_NAMED:
                        raise Exceeded(f"the names of its resources have more than {MOST_NAMED:,} characters")
                cursor = page.next_cursor
                if not cursor:
                    return resources
            raise Exceeded(f"its resources are on more than {MOST_RESOURCE_PAGES} pages")

        found: list[Resource] = self._asked(listed)
        return found

    def resource(self, uri: str) -> bytes:
        """Return the content of a resource. Raises: as `resources`."""

        async def read(client: Any) -> bytes:
            parts = (await client.read_resource(uri, cache_mode="refresh")).contents
            blobs = [part.text.encode() if hasattr(part, "text") else b64decode(part.blob) for part in parts]
            return b"\n\n".join(blobs)

        content: bytes = self._asked(read)
        return content

    def _asked(self, ask: Any) -> Any:
        async def answer() -> Any:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    return await ask(await self._connected())
            except Exception as error:
                if not _answered(error) and not isinstance(error, HiveError):
                    self._drop()
                raise

        try:
            return _in_loop(answer()).result()
        except Exception as error:
            raise self._fault(error) from None

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self._closing = asyncio.Event()
                self._broken = ""
                _tasks.add(task := asyncio.create_task(self._serve(ready, self._closing)))
                task.add_done_callback(_tasks.discard)
                try:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        self._client = await ready
                except BaseException:
                    task.cancel()  # a server that is started and says nothing would stay
                    raise
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
            values = self._settings.env.items()
            env = {key: self._revealed(text) if is_reference(text) else text for key, text in values}
            arguments = self._settings.command[1:]
            if "-m" in arguments or any(file_within(self._workspace.root, word) for word in arguments):
                # Bytecode beside the server's files isn't recorded as trusted, and would be run in place of them.
                env.setdefault("PYTHONPYCACHEPREFIX", str(self._workspace.state_folder("mcp") / "bytecode"))
            path = self._workspace.state_folder("mcp") / f"{self.name}.log"
            handle = opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            log = stack.enter_context(os.fdopen(handle, "a", encoding="utf-8"))
            streams = standard_streams(self._settings.command, env, self._workspace.root, log, self._given_up)
            return mcp.Client(streams, read_timeout_seconds=CALL_SECONDS)
        headers = {key: self._revealed(reference) for key, reference in self._settings.headers_ref.items()}
        http = await stack.enter_async_context(http_client(headers, CALL_SECONDS))
        connect = _sdk("mcp.client.streamable_http").streamable_http_client
        transport = connect(self._settings.url, http_client=http, max_sse_event_size=MOST_BYTES)
        return mcp.Client(transport, read_timeout_seconds=CALL_SECONDS)

    def _given_up(self, why: str) -> None:
        self._broken = why

    def _redacted(self, text: str) -> str:
        return redacted(text, self._secrets)

    def _revealed(self, reference: str) -> str:
        value = resolve(self._workspace, reference).reveal()
        self._secrets.add(value)
        return value

    def _drop(self) -> None:
        if self._closing is not None:
            self._closing.set()
        self._client = None

    def _missing(self, why: str) -> Diagnostic:
        path, fix = f"mcp.servers.{self.name}", "ask whoever made the server, or do without the tool"
        return Diagnostic("HIVE-432", f"the MCP server {self.name}: {why}"[:500], "hive.toml", path, fix)

    def _unknown(self, name: str, why: str) -> Diagnostic:
        shown = f'inert: the tool "{name[:100]}" of the MCP server {self.name} {why}'
        return Diagnostic("HIVE-431", shown, "hive.toml", f"mcp.servers.{self.name}", _LOOK)

    def _fault(self, error: BaseException) -> HiveError:
        if isinstance(error, HiveError):
            return error
        while isinstance(error, BaseExceptionGroup):  # the SDK's task groups
            error = error.exceptions[0]
        if self._broken:
            reason, self._broken = self._broken, ""
        elif isinstance(error, Exceeded):
            reason = str(error)
        elif isinstance(error, TimeoutError):
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
    return Server(Workspace(root), name, keys.McpServer.model_validate_json(settings))


_tasks: set[asyncio.Task[None]] = set()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return one event loop, in a thread, for all servers: a connection outlives the event loop of a run."""
    # The SDK logs what servers send, with secrets that they were given: `Server` tells of faults without them.
    log = logging.getLogger("mcp.client")
    log.addHandler(logging.NullHandler())
    log.propagate = False
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
