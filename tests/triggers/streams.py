"""A server of event streams on loopback that answers each connection as it is told, and breaks off where it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def status(line: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {line}", *headers, "Content-Length: 0", "", ""]).encode()


@dataclass
class Streams:
    """`answers` in turn, the last one again and again: raw bytes, or what a function of the request's headers makes."""

    answers: list[bytes | str | Callable[[dict[str, str]], bytes | str]]
    requests: list[dict[str, str]] = field(default_factory=list)
    hold: bool = True
    """Whether the last answer's connection stays open."""
    url: str = ""

    @property
    def last_ids(self) -> list[str | None]:
        return [request.get("last-event-id") for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("utf-8").split("\r\n")
        request = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
        self.requests.append(request)
        made = answer(request) if callable(answer) else answer
        if isinstance(made, str):
            body = made.encode()
            made = OK + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces(body))
        try:
            writer.write(made)
            await writer.drain()
            if self.hold and len(self.requests) >= len(self.answers):
                await reader.read()
        finally:
            writer.close()


def pieces(body: bytes) -> list[bytes]:
    """Cut where it hurts: within lines, and between CR and LF."""
    return [body[at : at + 7] for at in range(0, len(body), 7)] if len(body) < 10_000 else [body]


@asynccontextmanager
async def served(streams: Streams) -> AsyncIterator[Streams]:
    server = await asyncio.start_server(streams.serve, "127.0.0.1", 0)
    streams.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/events"
    try:
        yield streams
    finally:
        server.close()
