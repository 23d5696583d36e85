"""Server-sent events: frames, positions, heartbeats, and the end of a stream whose caller lost access."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING

from anyio import CancelScope
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from hive_agents.base import HiveError
from hive_agents.events import DURABLE
from hive_agents.server.api import NEVER_KEPT

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from hive_agents.access import Principal
    from hive_agents.events import Event
    from hive_agents.server.auth import Call
    from hive_agents.server.feed import Watch

HEARTBEAT_SECONDS = 15.0
HEADERS = {"Cache-Control": NEVER_KEPT, "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
BEAT = b": \n\n"
_POSITION = re.compile(r"(\d{1,15})(?:-(\d{1,9}))?")


def frame(data: str, id: str | None = None) -> bytes:
    r"""Return one event as a frame; `data` has no line break.

    >>> frame('{"a": 1}', "7")
    b'id: 7\ndata: {"a": 1}\n\n'
    """
    return (f"id: {id}\n" if id is not None else "").encode() + b"data: " + data.encode() + b"\n\n"


def position(text: str | None) -> tuple[int, int]:
    """Return (number of the event, messages up to it) from a Last-Event-ID; (0, 0) without one.

    >>> position("17-3"), position("17"), position(None)
    ((17, 3), (17, 0), (0, 0))

    Raises: HIVE-409 for an id that isn't of this form.
    """
    if not text:
        return 0, 0
    match = _POSITION.fullmatch(text)
    if match is None:
        fix = "send the last id that you got, or leave the header out"
        raise HiveError.of("HIVE-409", "Last-Event-ID is no id of this stream", fix=fix, exit_code=2)
    return int(match[1]), int(match[2] or 0)


class EventStream(StreamingResponse):
    """A response that closes its generator of frames, and tells so, when it ends, also after a disconnection."""

    def __init__(self, frames: AsyncGenerator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(frames, media_type="text/event-stream", headers=HEADERS)
        self._frames, self._ended = frames, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()
            with CancelScope(shield=True):
                await self._frames.aclose()


def response(call: Call, frames: AsyncIterator[bytes]) -> StreamingResponse:
    """Return a stream to the caller. Raises: as `require_room`."""
    assert isinstance(frames, AsyncGenerator)
    return EventStream(frames, call.request.app.state.streams.begin(call.principal))


def require_room(call: Call) -> None:
    """Raises: HIVE-433 where the caller has as many streams open as they may have."""
    call.request.app.state.streams.require_room(call.principal)


async def live(call: Call, watch: Watch, seen: Callable[[], int]) -> AsyncIterator[Event | None]:
    """Yield the events after `seen()`, and None for each heartbeat, however many events come; end at the heartbeat that
    finds the caller with fewer rights than at the beginning."""
    begun = call.principal
    due = time.monotonic() + HEARTBEAT_SECONDS
    while not watch.lost:
        event = await watch.next(max(0.0, due - time.monotonic()))
        if event is not None and (event.type not in DURABLE or (event.seq or 0) > seen()):
            yield event
        if time.monotonic() < due:
            continue
        if watch.lost or not await run_in_threadpool(has_rights_of, call, begun):
            return
        due = time.monotonic() + HEARTBEAT_SECONDS
        yield None


def has_rights_of(call: Call, begun: Principal) -> bool:
    """Return whether the caller still has every right that `begun` had."""
    try:
        now = call.asker.reader_or_owner()
    except HiveError:
        return False
    same = (begun.tenant, begun.user) == (now.tenant, now.user)
    return same and begun.groups <= now.groups and begun.roles <= now.roles
