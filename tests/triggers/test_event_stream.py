"""Server-sent events: the same ones however the stream is cut, as the HTML standard reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from httpx_sse._decoders import SSEDecoder, SSELineDecoder
from hypothesis import given, strategies as st

from hive_agents.triggers.event_stream import ServerSentEvent, server_sent_events

PIECES = ["data", "event", "id", ":", ": ", " ", "\n", "\r", "\r\n", "\n\n", "a", "7", "\u2028", "\0", "other"]


async def read(*texts: str) -> list[ServerSentEvent]:
    async def stream() -> AsyncIterator[str]:
        for text in texts:
            yield text

    return [event async for event in server_sent_events(stream())]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("data: a\n\n", [("message", "a", "", None)]),
        ("data:  a\ndata:b\n\n", [("message", " a\nb", "", None)]),
        ("event: e\rdata: a\r\rdata: b\r\n\r\n", [("e", "a", "", None), ("message", "b", "", None)]),
        ("id: 7\ndata: a\n\ndata: b\n\n", [("message", "a", "7", None), ("message", "b", "7", None)]),
        ("id: 7\n\nid\ndata: c\n\n", [("message", "", "7", None), ("message", "c", "", None)]),
        ("\ufeffretry: 3000\n\nretry: soon\nretry: -1\n: a comment\n\n", [("message", "", "", 3000)]),
        ("id: a\0b\ndata: one\u2028line\nother: x\n\n", [("message", "one\u2028line", "", None)]),
        ("data: cut off\n", []),
    ],
)
async def test_a_stream_is_read_as_the_standard_says(text: str, events: list[tuple[str, str, str, int | None]]) -> None:
    assert await read(text) == events
    assert await read(*text) == events


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.lists(st.integers(0, 120), max_size=8))
async def test_a_stream_is_read_as_another_decoder_does_however_it_is_cut(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    lines, decoder = SSELineDecoder(), SSEDecoder()
    wanted = [decoder.decode(line) for line in [*lines.decode(text), *lines.flush()]] if text else []
    places = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    found = await read(*(text[start:end] for start, end in pairwise(places)))
    assert found == [(one.event, one.data, one.id, one.retry) for one in wanted if one is not None]
