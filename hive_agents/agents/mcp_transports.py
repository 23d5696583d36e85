"""Connections to MCP servers on which no message can take more memory than it may: standard streams, and HTTP.

The SDK reads a message whole, however long it is: a line of a process, the body of a response, or one that is packed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

MOST_BYTES = 8_000_000
"""Bytes of one message of a server."""
TOO_LONG = f"it sent a message of more than {MOST_BYTES:,} bytes"
_GRACE = 2.0
"""Seconds in which a server ends by itself, and then after SIGTERM."""


@asynccontextmanager
async def standard_streams(
    command: Sequence[str], env: Mapping[str, str], folder: Path, log: TextIO, broken: Callable[[str], object]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the SDK's streams to a server that is started, and ended with its children; `broken` is told why."""
    anyio, stdio, types = (import_module(name) for name in ("anyio", "mcp.client.stdio", "mcp_types"))
    message = import_module("mcp.shared.message").SessionMessage
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(limit=MOST_BYTES, loop=loop),
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=log,
        cwd=folder,
        env=stdio.get_default_environment() | dict(env),
        start_new_session=True,
    )
    process = Process(transport, protocol, loop)
    heard, hearing = anyio.create_memory_object_stream(0)
    saying, said = anyio.create_memory_object_stream(0)
    assert process.stdin is not None
    assert process.stdout is not None
    to_server, from_server = process.stdin, process.stdout
    gone = (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError)

    async def hear() -> None:
        async with heard:
            with suppress(*gone):
                while line := await from_server.readline():
                    try:
                        found = message(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
                    except ValueError as error:
                        found = error
                    await heard.send(found)

    async def heard_all() -> None:
        try:
            await hear()
        except ValueError:  # a line over the limit
            broken(TOO_LONG)
        while await from_server.read(65_536):
            pass  # a server that can't write doesn't end either

    async def say() -> None:
        with suppress(*gone):
            async for each in said:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                to_server.write(f"{text}\n".encode("utf-8", "replace"))
                await to_server.drain()

    work = [asyncio.create_task(heard_all()), asyncio.create_task(say())]
    try:
        yield hearing, saying
    finally:
        for stream in (heard, hearing, saying, said):
            stream.close()
        try:
            await _ended(process)
        finally:
            for task in work:
                task.cancel()
            transport.close()  # also where a child that left the group holds its output open


async def _ended(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    for sign in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await process.wait()  # and for its children, which hold its output open
            return
        with suppress(OSError):
            os.killpg(process.pid, sign) if hasattr(os, "killpg") else process.send_signal(sign)
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE):
            await process.wait()


def http_client(headers: Mapping[str, str], seconds: float) -> Any:
    """Return the SDK's client over HTTP, which reads no long or packed response."""
    httpx2: Any = import_module("httpx2")

    class Bounded(httpx2.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, most: int) -> None:
            self._stream, self._left = stream, most

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in self._stream:
                self._left -= len(part)
                if self._left < 0:
                    raise httpx2.StreamError(TOO_LONG)
                yield part

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Transport(httpx2.AsyncHTTPTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            response = await super().handle_async_request(request)
            # Nothing packed was asked for: what it unpacks to has no bound.
            packed = response.headers.get("content-encoding", "identity") != "identity"
            # Of a stream of events each is bounded by the SDK.
            if packed or not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                response.stream = Bounded(response.stream, 0 if packed else MOST_BYTES)
            return response

    asked = {"accept-encoding": "identity", **headers}
    return httpx2.AsyncClient(headers=asked, timeout=seconds, transport=Transport())
