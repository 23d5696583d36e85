"""A stream of the names of things that change, of those that the caller may see; clients then read them anew."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from hive_agents.access import LOCAL_TENANT
from hive_agents.base import HiveError
from hive_agents.events import Event
from hive_agents.runs import Scope
from hive_agents.server import streams
from hive_agents.server.api import Api
from hive_agents.server.auth import ANYBODY, Call

api = Api("changes")
RETRY_MILLISECONDS = 1000
"""How soon a browser reconnects after its stream broke."""
_KINDS = {"escalation": "ticket", "trigger": "trigger", "document": "document", "documents": "document"}
"""The kind of thing that changed, by the first word of an event's type."""


@api.get("/api/changes", ANYBODY, media="text/event-stream")
async def follow_changes(call: Call) -> Response:
    """The names of things that change: runs and requests that the caller may see, for operators also configs.

    Events hold names alone, and none is repeated: the first one of each connection, `all`, says to read everything
    anew.
    """
    return streams.response(call, _frames(call))


async def _frames(call: Call) -> AsyncIterator[bytes]:
    """Yield frames without ids: the log's would reveal the activity of other tenants."""
    changes = _Changes(call)
    async with call.request.app.state.feed.watch(call.principal) as watch:
        yield f"retry: {RETRY_MILLISECONDS}\n".encode() + _frame("all", None)
        async for event in streams.live(call, watch, lambda: 0):
            if event is None:
                yield streams.BEAT
                continue
            try:
                named = await run_in_threadpool(changes.named, event)
            except HiveError:  # the caller's proof is no longer valid
                return
            for kind, id in named:
                yield _frame(kind, id)


def _frame(kind: str, id: str | None) -> bytes:
    return streams.frame(json.dumps({"kind": kind, "id": id}))


class _Changes:
    """The changes in an event that the caller may see; a run's owner never changes, and is looked up once."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._visible_runs: dict[str, bool] = {}

    def named(self, event: Event) -> list[tuple[str, str | None]]:
        """Return (kind, name) for each thing that the event changes. Raises: HIVE-417 for a proof that has ended."""
        scope = Scope(self._call.reaches())
        word = str(event.type).partition(".")[0]
        same_tenant = scope.tenant in (None, event.tenant)
        changed: list[tuple[str, str | None]] = []
        if word == "approval":
            if scope.approves and (same_tenant or event.tenant == LOCAL_TENANT):  # as in `RequestReader.may_read`
                changed.append(("request", event.payload.get("approval_id")))
        elif word == "config" and scope.operates:  # the active config is the same for all tenants
            changed.append(("config", event.payload.get("config")))
        elif word in _KINDS and scope.operates and same_tenant:
            changed.append((_KINDS[word], None))
        if event.run_id is not None and self._sees(scope, event):
            changed.append(("run", event.run_id))
        return changed

    def _sees(self, scope: Scope, event: Event) -> bool:
        assert event.run_id is not None
        if scope.operates:
            return scope.tenant in (None, event.tenant)
        if event.run_id not in self._visible_runs:
            with suppress(HiveError):
                scope.run(self._call.workspace, event.run_id)
                self._visible_runs[event.run_id] = True
        return self._visible_runs.setdefault(event.run_id, False)
