"""Limits of request bodies: their size, the time to receive one, and the memory of all together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from hive_agents.server.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hive_agents.workspace.settings import ServerSettings

DISCARDED = 4
"""How many times the limit is read, and discarded, before the connection is closed."""


class BodyLimit:
    """Refuses bodies of more than `body_bytes` with 413, whatever Content-Length says, and slow ones with 408.

    A body that would exceed `bodies_bytes`, the limit of all bodies together, is refused with 503.
    """

    def __init__(self, app: ASGIApp, limits: ServerSettings) -> None:
        self._app, self._limits = app, limits
        self._bytes_in_memory = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        max_bytes = self._limits.body_bytes
        too_large = f"the body has more than {max_bytes} bytes"
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > max_bytes:
            refusal = problem(413, too_large, headers={"Connection": "close"}, path=scope["path"])
            await refusal(scope, receive, send)
            return
        size, complete = 0, False
        deadline = asyncio.get_running_loop().time() + self._limits.body_seconds

        async def limited() -> Message:
            nonlocal size, complete
            if complete:  # the only message that can follow is the disconnection
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    while True:
                        message = await receive()
                        part = len(message.get("body", b""))
                        size, self._bytes_in_memory = size + part, self._bytes_in_memory + part
                        complete = not message.get("more_body", False)
                        # A client that is still sending would see a broken connection, and not the answer.
                        if size <= max_bytes or complete or size > DISCARDED * max_bytes:
                            break
            except TimeoutError:
                raise HTTPException(408, headers={"Connection": "close"}) from None
            if size > max_bytes:
                raise HTTPException(413, too_large, headers={"Connection": "close"})
            if self._bytes_in_memory > self._limits.bodies_bytes:
                detail = "too many bodies are being received"
                raise HTTPException(503, detail, headers={"Connection": "close", "Retry-After": "5"})
            return message

        try:
            await self._app(scope, limited, send)
        finally:
            self._bytes_in_memory -= size
