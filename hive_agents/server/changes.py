"""What changes among the things that a caller may see, by name alone: whoever shows them looks again then."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from hive_agents.access import LOCAL_TENANT
from hive_agents.errors import HiveError
from hive_agents.events import Event
from hive_agents.runs import Scope
from hive_agents.server import streams
from hive_agents.server.api import Api
from hive_agents.server.auth import ANYBODY, Call

api = Api("changes")
RETRY_MILLISECONDS = 1000
"""How soon a browser comes back after its stream broke."""
_KINDS = {"escalation": "ticket", "trigger": "trigger"}
"""What of the colony changed, by the first word of an event's type."""


@api.get("/api/changes", ANYBODY, media="text/event-stream")
async def follow_changes(call: Call) -> Response:
    """The names of what changes: runs and requests that the caller may see, for operators also what serves.

    It holds nothing of them, and repeats nothing: its first event, `all`, says to look at everything once, and comes
    again with each new connection.
    """
    return streams.response(_frames(call))


async def _frames(call: Call) -> AsyncIterator[bytes]:
    """Frames have no ids: the log's would tell how much happens elsewhere."""
    changes = _Changes(call)
    async with call.request.app.state.feed.watch() as watch:
        yield f"retry: {RETRY_MILLISECONDS}\n".encode() + _frame("all", None)
        async for happening in streams.live(call, watch, lambda: 0):
            if happening is None:
                yield streams.BEAT
                continue
            try:
                found = await run_in_threadpool(changes.named, happening)
            except HiveError:  # the caller's proof is no longer good
                return
            for kind, id in found:
                yield _frame(kind, id)


def _frame(kind: str, id: str | None) -> bytes:
    return streams.frame(json.dumps({"kind": kind, "id": id}))


class _Changes:
    """What of an event the caller may hear; whose a run is never changes, and is looked up once."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._seen: dict[str, bool] = {}

    def named(self, event: Event) -> list[tuple[str, str | None]]:
        """Return (kind, name) for each thing that the event changes. Raises: HIVE-417 for a proof that has ended."""
        scope = Scope(self._call.reaches())
        word = str(event.type).partition(".")[0]
        own = scope.tenant in (None, event.tenant)
        found: list[tuple[str, str | None]] = []
        if word == "approval":
            if scope.approves and (own or event.tenant == LOCAL_TENANT):  # as `RequestReader.may_read` has it
                found.append(("request", event.payload.get("approval_id")))
        elif word == "config" and scope.operates:  # what serves is one for all tenants
            found.append(("config", event.payload.get("config")))
        elif word in _KINDS and scope.operates and own:
            found.append((_KINDS[word], None))
        if event.run_id is not None and self._sees(scope, event):
            found.append(("run", event.run_id))
        return found

    def _sees(self, scope: Scope, event: Event) -> bool:
        assert event.run_id is not None
        if scope.operates:
            return scope.tenant in (None, event.tenant)
        if event.run_id not in self._seen:
            with suppress(HiveError):
                scope.run(self._call.workspace, event.run_id)
                self._seen[event.run_id] = True
        return self._seen.setdefault(event.run_id, False)
