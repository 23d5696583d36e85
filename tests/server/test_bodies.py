"""What a client that still sends its body sees of a refusal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from hive_agents.server.middleware import DISCARDED, BodyLimit
from hive_agents.workspace.settings import ServerSettings

LIMIT = 1_000
PART = b"x" * 500


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body, and answers with its size."""
    size = len(await Request(scope, receive).body())
    await PlainTextResponse(str(size))(scope, receive, send)


async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuses without a look at the body, as for a bad token."""
    await PlainTextResponse("no", 401)(scope, receive, send)


async def asked(app: Any, parts: int, **headers: str) -> tuple[int, int]:
    """Return the status of the answer, and how many parts of the body were taken before it."""
    left = [PART] * parts
    taken: list[int] = []
    status: list[int] = []

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": left.pop(), "more_body": bool(left)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])
            taken.append(parts - len(left))

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/api/query", "headers": named}

    async def catching(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except HTTPException as error:
            await PlainTextResponse("", error.status_code)(scope, receive, send)

    await BodyLimit(catching, limits=ServerSettings(body_bytes=LIMIT, body_seconds=5))(scope, receive, send)
    return status[0], taken[0]


@pytest.mark.parametrize("headers", [{"content_length": "1500"}, {"transfer_encoding": "chunked"}])
async def test_a_body_that_is_too_large_is_taken_before_the_refusal(headers: dict[str, str]) -> None:
    assert await asked(reading, 3, **headers) == (413, 3)


async def test_a_refusal_for_another_reason_comes_after_the_body_too() -> None:
    assert await asked(refusing, 2, content_length="1000") == (401, 2)
    assert await asked(reading, 2, content_length="1000", content_encoding="br") == (415, 2)


async def test_no_more_is_taken_than_a_few_times_the_limit() -> None:
    most = DISCARDED * LIMIT // len(PART) + 1
    assert await asked(refusing, 100, transfer_encoding="chunked") == (401, most)
    assert await asked(reading, 100, content_length="50000") == (413, most)


async def test_who_asks_before_sending_is_refused_at_once() -> None:
    assert await asked(reading, 3, content_length="1500", expect="100-continue") == (413, 0)
    assert await asked(refusing, 2, content_length="1000", expect="100-continue") == (401, 0)


async def test_a_request_without_a_body_waits_for_none() -> None:
    assert await asked(refusing, 0) == (401, 0)
