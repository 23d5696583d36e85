"""How large a request's body may be, how long it may take to come, and how much of all bodies is held at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from hive_agents.server.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hive_agents.settings import ServerSettings

DISCARDED = 4
"""So many times the limit is read, and thrown away, before the connection is closed."""


class BodyLimit:
    """Refuses bodies of more than `body_bytes` with 413, whatever their header says, and slow ones with 408.

    A body that finds no room beside those of other requests, `bodies_bytes` in all, is refused with 503.
    """

    def __init__(self, app: ASGIApp, limits: ServerSettings) -> None:
        self._app, self._most, self._limits = app, limits.body_bytes, limits
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._most:
            told = problem(413, self._told, headers={"Connection": "close"}, path=scope["path"])
            await told(scope, receive, send)
            return
        size, whole = 0, False
        until = asyncio.get_running_loop().time() + self._limits.body_seconds

        async def limited() -> Message:
            nonlocal size, whole
            if whole:  # what is received now is that the client has gone
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    while True:
                        message = await receive()
                        part = len(message.get("body", b""))
                        size, self._held = size + part, self._held + part
                        whole = not message.get("more_body", False)
                        # A client that is still sending sees a broken connection, and not the answer.
                        if size <= self._most or whole or size > DISCARDED * self._most:
                            break
            except TimeoutError:
                raise HTTPException(408, headers={"Connection": "close"}) from None
            if size > self._most:
                raise HTTPException(413, self._told, headers={"Connection": "close"})
            if self._held > self._limits.bodies_bytes:
                told = "too many bodies are being received"
                raise HTTPException(503, told, headers={"Connection": "close", "Retry-After": "5"})
            return message

        try:
            await self._app(scope, limited, send)
        finally:
            self._held -= size

    @property
    def _told(self) -> str:
        return f"the body has more than {self._most} bytes"
