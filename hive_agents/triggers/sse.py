"""One SSE subscription: every event of a stream starts one run, however often the connection breaks."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from hive_agents.access import service_principal
from hive_agents.base import Diagnostic, HiveError, sha256
from hive_agents.triggers.event_stream import ServerSentEvent, server_sent_events
from hive_agents.triggers.firing import Fire, is_refusal, key_of, kind_of
from hive_agents.triggers.payload import input_of
from hive_agents.triggers.spec import SseTrigger
from hive_agents.triggers.store import TriggerStore, iso
from hive_agents.workspace.credentials import resolve

if TYPE_CHECKING:
    import httpx

    from hive_agents.workspace import Workspace

LEAST_SECONDS, MOST_SECONDS = 1.0, 60.0
SILENCE_SECONDS = 300.0
"""Seconds without data after which a connection counts as dead."""
LARGEST = 1_000_000
LONGEST_ID = 200
_PASSING = (408, 425, 429)
"""4xx statuses that are transient."""
_log = logging.getLogger(__name__)


class _Stop(Exception):
    """The server refuses further requests."""


class StreamSubscription:
    """Follows one stream; `state` and `error` are its status.

    A broken connection is reopened with backoff and the id of the last processed event. An event whose run can't be
    started is tried again before later ones.
    """

    def __init__(
        self,
        workspace: Workspace,
        spec: SseTrigger,
        fire: Fire,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self.workspace, self.spec = workspace, spec
        self.state: Literal["connecting", "open", "stopped"] = "connecting"
        self.error: Diagnostic | None = None
        self._fire, self._sleep, self._jitter, self._now = fire, sleep, jitter, now
        self._store = TriggerStore(workspace)
        self._last_id: str | None = None
        self._retry = LEAST_SECONDS
        self._fails = 0

    async def run(self) -> None:
        """Run until cancelled, or until the server answers 204 or 4xx: `state` is "stopped", `error` the reason."""
        import httpx

        timeout = httpx.Timeout(10.0, read=SILENCE_SECONDS)
        async with httpx.AsyncClient(timeout=timeout, follow_redirects=False) as client:
            while True:
                try:
                    if self._last_id is None:
                        state = await asyncio.to_thread(self._store.begin, self.spec, self._now())
                        self._last_id = state.last_event_id
                    await self._follow(client)
                except _Stop as stop:
                    fix = "mend the trigger's url or secret_ref; a change of the file connects again"
                    self.state, self.error = "stopped", Diagnostic("HIVE-426", str(stop), self._file, "url", fix)
                    _log.warning("trigger %s: %s", self.spec.id, stop)
                    return
                except HiveError as error:
                    _log.warning("trigger %s: %s", self.spec.id, kind_of(error))
                except (httpx.HTTPError, httpx.StreamError, OSError) as error:
                    _log.info("trigger %s: the stream broke: %s", self.spec.id, type(error).__name__)
                self.state = "connecting"
                await self._pause()

    async def _follow(self, client: httpx.AsyncClient) -> None:
        url, headers = self.spec.url, await asyncio.to_thread(self._headers)
        async with client.stream("GET", url, headers=headers) as response:
            self._check(response)
            response.encoding = "utf-8"  # whatever it says: no stream is anything else, and some decoders are slow
            self.state, self.error = "open", None
            bounded: Any = _bounded(response.stream)
            response.stream = bounded
            known, first = "", ("", "")
            async with aclosing(server_sent_events(response.aiter_text())) as events:
                async for event in events:
                    bounded.read = 0
                    # The decoder gives an event without an id that of the previous one; one with the same id and data
                    # is the same event, sent twice.
                    if event.id != known:
                        known, first = event.id, (event.event, event.data)
                    own = known if (event.event, event.data) == first else ""
                    await self._told(event, own)
                    self._fails = 0

    def _check(self, response: httpx.Response) -> None:
        status, kind = response.status_code, response.headers.get("content-type", "")
        if status == 204 or (300 <= status < 500 and status not in _PASSING):
            raise _Stop(f"{self._host} answered {status}")
        if status == 200 and "text/event-stream" not in kind.partition(";")[0].lower():
            raise _Stop(f"{self._host} sends no text/event-stream")
        if status == 200 and response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise _Stop(f"{self._host} sends a compressed stream, in which a few bytes may be any amount of text")
        response.raise_for_status()

    async def _told(self, event: ServerSentEvent, own: str) -> None:
        if event.retry is not None:
            self._retry = min(max(event.retry / 1000, LEAST_SECONDS), MOST_SECONDS)
        if event.data and self.spec.event in (None, event.event):
            while not await self._taken(event, own):
                await self._pause()
        if _can_be_sent(own):
            self._last_id = own

    async def _taken(self, event: ServerSentEvent, own: str) -> bool:
        """Return whether the event is processed: it has a run, or the agent doesn't accept it."""
        content = hashlib.sha256(json.dumps([event.event, event.data]).encode()).hexdigest()[:32]
        name = own if own.isprintable() and len(own) <= LONGEST_ID else sha256(own)
        run_id, now = None, self._now()
        try:
            principal = await asyncio.to_thread(service_principal, self.workspace, self.spec.service)
            key = key_of(self.spec.id, f"{name}/{content}" if own else content)
            key, run_id = await asyncio.to_thread(self._store.key_of, principal.tenant, key, now)
            if run_id is None:
                payload = {"data": _data(event.data), "event": event.event, "id": own}
                spec = self.spec
                input = input_of(spec.input, spec.input_from, spec.input_key, payload, "data")
                run_id = await self._fire(spec, input, key=key, scheduled=iso(now))
        except HiveError as error:
            _log.warning("trigger %s: %s", self.spec.id, kind_of(error))
            if not is_refusal(error):
                return False
        try:
            event_id = own if _can_be_sent(own) else None
            await asyncio.to_thread(self._store.fired, self.spec.id, run_id, at=now, event_id=event_id)
        except HiveError as error:
            _log.warning("trigger %s: %s", self.spec.id, kind_of(error))
            return False
        return True

    async def _pause(self) -> None:
        seconds = self._retry * 2 ** min(self._fails, 6) * (1 + self._jitter() / 4)
        self._fails += 1
        await self._sleep(min(seconds, MOST_SECONDS))

    def _headers(self) -> dict[bytes, bytes]:
        headers = {b"Accept": b"text/event-stream", b"Accept-Encoding": b"identity", b"Cache-Control": b"no-store"}
        if self._last_id:
            headers[b"Last-Event-ID"] = self._last_id.encode()
        if self.spec.secret_ref is not None:
            headers[b"Authorization"] = f"Bearer {resolve(self.workspace, self.spec.secret_ref).reveal()}".encode()
        return headers

    @property
    def _file(self) -> str:
        return f"triggers/{self.spec.id}.json"

    @property
    def _host(self) -> str:
        from urllib.parse import urlsplit

        return urlsplit(self.spec.url).hostname or ""  # the rest of a URL is often a secret


def _can_be_sent(id: str) -> bool:
    return bool(id) and id.isprintable() and len(id) <= LONGEST_ID


def _data(text: str) -> Any:
    """JSON where it is some, else the text."""
    from hive_agents.base.files import jsontext

    try:
        return jsontext.parse(text, "data")
    except HiveError:
        return text


def _bounded(stream: Any) -> Any:
    """Yield the stream, which breaks where more than `LARGEST` bytes come without an event; the reader sets `read`
    to 0."""
    import httpx

    class Bounded(httpx.AsyncByteStream):
        read = 0

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in stream:
                blank = any(end in chunk for end in (b"\n\n", b"\r\n\r\n", b"\r\r"))
                self.read = len(chunk) if blank else self.read + len(chunk)
                if self.read > LARGEST:
                    raise httpx.ReadError(f"an event of more than {LARGEST} bytes")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
