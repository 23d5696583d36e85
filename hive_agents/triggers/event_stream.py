"""Server-sent events, read from a stream of text as the HTML standard says."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\n|\r")


class ServerSentEvent(NamedTuple):
    """One event; `id` is the last one that the stream told, and `retry` milliseconds, where this event tells them."""

    event: str
    data: str
    id: str
    retry: int | None


async def server_sent_events(texts: AsyncIterable[str]) -> AsyncGenerator[ServerSentEvent, None]:
    """Yield the events of a stream, those without data, too; what follows the last blank line is no event."""
    kind, data, id, retry = "", list[str](), "", None
    async for line in _lines(texts):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id" and "\0" not in value:
            id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            retry = int(value[:18])
        elif not line and (kind or data or id or retry is not None):
            yield ServerSentEvent(kind or "message", "\n".join(data), id, retry)
            kind, data, retry = "", [], None


async def _lines(texts: AsyncIterable[str]) -> AsyncGenerator[str, None]:
    """Yield the lines that have an end."""
    pending, first = list[str](), True
    async for text in texts:
        if first and text:
            text, first = text.removeprefix("\ufeff"), False
        if pending and pending[-1].endswith("\r"):  # half of the end of a line, or all of it
            text = pending.pop() + text
        whole = text.removesuffix("\r")
        *lines, rest = _LINE_END.split(whole)
        for line in lines:
            yield "".join((*pending, line))
            pending.clear()
        pending.append(rest + text[len(whole) :])
    if pending and pending[-1].endswith("\r"):
        yield "".join(pending)[:-1]
