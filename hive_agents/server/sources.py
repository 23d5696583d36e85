"""Sources of documents: their last runs, one now, and pauses, for who may view all that a source brings."""

from __future__ import annotations

from typing import Any

from hive_agents.access import LOCAL_TENANT, AccessRules
from hive_agents.base import NotFound
from hive_agents.base.files import ShortName
from hive_agents.server.api import Api, Body, Value
from hive_agents.server.auth import OPERATOR, CallContext
from hive_agents.sources import showing
from hive_agents.store import audit

api = Api("sources")


class SourceRow(Value):
    """`asked` is whether a run was asked for that a host has not begun yet; `failed` counts items that can't be read.
    `last_run` has the run's `status` and what it counted, null before the first."""

    name: str
    kind: str
    url: str
    schedule: str | None
    trusted: bool
    paused: bool
    asked: bool
    documents: int
    failed: int
    last_run: dict[str, Any] | None
    next_at: str | None


class SourceList(Value):
    sources: list[SourceRow]


class SourceLog(Value):
    """The last runs, newest first, and the items that can't be read, with when each is tried again."""

    name: str
    runs: list[dict[str, Any]]
    failed: list[dict[str, Any]]


class Pause(Body):
    paused: bool = True


@api.get("/api/sources", OPERATOR)
def sources(call: CallContext) -> SourceList:
    """The sources all of whose documents the caller may view: the workspace's owner all, an administrator of a tenant
    that tenant's. They are added and trusted at the terminal."""
    return SourceList(
        sources=[SourceRow(**row) for row in showing.source_rows(call.workspace) if _sees(call, row["name"])]
    )


@api.get("/api/sources/{name}", OPERATOR)
def show_source(call: CallContext, name: ShortName) -> SourceLog:
    """The last runs of a source, and what it couldn't read."""
    return SourceLog(**showing.source_log(call.workspace, _own(call, name)))


@api.post("/api/sources/{name}/run", OPERATOR, status=202)
def run_now(call: CallContext, name: ShortName) -> SourceRow:
    """Ask for a run now: a host begins it within seconds. Many deletions still wait for a word at the terminal."""
    showing.ask_source(call.workspace, _own(call, name))
    audit.append(call.workspace, "source_asked", name=name, by=call.by)
    return _row(call, name)


@api.post("/api/sources/{name}/pause", OPERATOR)
def pause(call: CallContext, name: ShortName, body: Pause) -> SourceRow:
    """Leave a source out of its schedule, or take it in again."""
    showing.pause_source(call.workspace, _own(call, name), paused=body.paused)
    audit.append(call.workspace, "source_paused", name=name, by=call.by, paused=body.paused)
    return _row(call, name)


def _row(call: CallContext, name: str) -> SourceRow:
    return next(SourceRow(**row) for row in showing.source_rows(call.workspace) if row["name"] == name)


def _own(call: CallContext, name: str) -> str:
    """Return the name of a source. Raises: HIVE-409 (404) for one that the caller doesn't see, alike for an unknown
    one."""
    if not _sees(call, name):
        raise NotFound.of("HIVE-409", f"{name} is not found", fix="GET /api/sources lists them", exit_code=2)
    return name


def _sees(call: CallContext, name: str) -> bool:
    settings, who = call.workspace.settings.sources.get(name), call.principal
    if settings is None or who.tenant == LOCAL_TENANT:
        return settings is not None
    if call.workspace.settings.access.service_url or settings.tenant != who.tenant:
        return False  # another service decides what its administrators view
    rules = AccessRules.load(call.workspace)
    return rules.administers(who) and not rules.faults
