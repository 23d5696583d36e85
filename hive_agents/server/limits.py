"""How large a request's body may be, and how long it may take to come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from hive_agents.server.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_SECONDS = 30.0
DISCARDED = 4
"""So many times the limit is read, and thrown away, before the connection is closed."""


class BodyLimit:
    """Refuses bodies of more than `most` bytes with 413, whatever their header says, and slow ones with 408."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._most:
            await problem(413, self._told, headers={"Connection": "close"})(scope, receive, send)
            return
        size, whole = 0, False
        until = asyncio.get_running_loop().time() + BODY_SECONDS

        async def limited() -> Message:
            nonlocal size, whole
            if whole:  # what is received now is that the client has gone
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    while True:
                        message = await receive()
                        size += len(message.get("body", b""))
                        whole = not message.get("more_body", False)
                        # A client that is still sending sees a broken connection, and not the answer.
                        if size <= self._most or whole or size > DISCARDED * self._most:
                            break
            except TimeoutError:
                raise HTTPException(408, headers={"Connection": "close"}) from None
            if size > self._most:
                raise HTTPException(413, self._told, headers={"Connection": "close"})
            return message

        await self._app(scope, limited, send)

    @property
    def _told(self) -> str:
        return f"the body has more than {self._most} bytes"
