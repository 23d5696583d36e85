"""The health of runs: rows, leases and last events, in one summary per run."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from hive_agents.base.files import Format, jsontext
from hive_agents.runs import ACTIVE, AGENT_GRAPH
from hive_agents.store import RecordsConnection, SelectedRow, connected
from hive_agents.supervision.health.history import NOTED, History, Repeated, RepeatedCalls, history

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

RECENT_TICKS = 3
"""For how many ticks after its end a failed run is examined: the judge may have been down."""

LAST_EVENTS = 200
MOST_RUNS = 1_000


class Fault(Format):
    code: str
    message: str


class WorkerHealth(Format):
    """One run of an agent, as the detectors see it.

    `verdicts` counts judgements by action; `retries` is how many of the last `judged` ones, at most 10, sent the work
    back, the last on `judged_node`. `loop` is the current pattern of tool calls. `idle_seconds` is the time
    since progress, None for a run that isn't running. `spent` and `limits` are by measure, `shares` spent over limit
    where there is one. `errors` are those of the last outcomes, the most frequent first. `breaks` counts the
    interruptions since the last progress, `broken_seconds` is the age of the first. `lost_seconds` is how long ago the
    lease of a running run expired, None where it is held or was released.
    """

    run_id: str
    thread_id: str
    tenant: str
    agent: str | None
    node: str | None
    status: str
    ended_at: str | None
    stopped_by: str | None
    error: Fault | None
    steps: int
    verdicts: dict[str, int]
    retries: int
    judged: int
    feedback: str | None
    judged_node: str | None
    loop: RepeatedCalls | None
    idle_seconds: float | None
    spent: dict[str, float]
    limits: dict[str, float]
    shares: dict[str, float]
    errors: list[Repeated]
    breaks: Repeated | None
    broken_seconds: float | None = None
    lost_seconds: float | None
    thresholds: dict[str, float | None] = {}

    @property
    def identical_calls(self) -> int:
        """Return how often the same calls were made in a row, 1 without a repetition."""
        return self.loop.times if self.loop is not None else 1

    @property
    def active(self) -> bool:
        return self.status in ACTIVE


def get_worker_health_summary(
    workspace: Workspace,
    *,
    now: dt.datetime | None = None,
    tenant: str | None = None,
    since: dt.datetime | None = None,
    also: Collection[str] = (),
) -> list[WorkerHealth]:
    """Return the health of the active runs, of those that failed or were interrupted after `since`, and of `also`.

    It only reads: one query per table, at most 1,000 runs besides `also`, and the last 200 events of each. `since` is
    three ticks ago by default.

    Raises: HIVE-402, HIVE-403, HIVE-407 from the database.
    """
    now = now or dt.datetime.now(dt.UTC)
    since = since or now - dt.timedelta(seconds=RECENT_TICKS * workspace.settings.judge.tick_seconds)
    if not workspace.records.exists():
        return []
    with connected(workspace.records, rows=True) as connection:
        rows = _rows(connection, tenant, since, also)
        looked_at = [row["run_id"] for row in rows if row["status"] in ACTIVE or (row["ended_at"] or "") >= _iso(since)]
        events = _events(connection, looked_at)
        ended = _leases_that_ended(connection, now.timestamp())
    return [_health(row, history(events.get(row["run_id"], [])), ended.get(row["run_id"]), now) for row in rows]


def watched_tenants(workspace: Workspace, since: dt.datetime) -> set[str]:
    """Return the tenants with runs to examine."""
    if not workspace.records.exists():
        return set()
    query = f"SELECT DISTINCT tenant FROM runs WHERE graph = ? AND ({_LOOKED_AT})"
    with connected(workspace.records) as connection:
        return {row[0] for row in connection.execute(query, (AGENT_GRAPH, *ACTIVE, _iso(since)))}


_LOOKED_AT = "status IN (?, ?, ?, ?) OR (status IN ('failed', 'stopped') AND ended_at >= ?)"
_COLUMNS = (
    "run_id, thread_id, tenant, agent, node, status, started_at, ended_at, stopped_by, error, steps, tokens, usd,"
    " CASE WHEN json_valid(input) THEN json_extract(input, '$.limits') END AS limits,"
    " CASE WHEN json_valid(input) THEN json_extract(input, '$.agent.health') END AS thresholds"
)


def _rows(
    connection: RecordsConnection, tenant: str | None, since: dt.datetime, also: Collection[str]
) -> list[SelectedRow]:
    query = (
        f"WITH also AS (SELECT value FROM json_each(?)) SELECT {_COLUMNS} FROM runs"
        f" WHERE graph = ? AND tenant = coalesce(?, tenant) AND ({_LOOKED_AT} OR run_id IN (SELECT value FROM also))"
        " ORDER BY run_id IN (SELECT value FROM also) DESC, started_at DESC, rowid LIMIT ?"
    )
    wanted = json.dumps(sorted(also))
    values = (wanted, AGENT_GRAPH, tenant, *ACTIVE, _iso(since), MOST_RUNS + len(also))
    return connection.execute(query, values).fetchall()


def _events(connection: RecordsConnection, run_ids: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the last events of each run, oldest first."""
    types = [str(type) for type in NOTED]
    # The inner query takes the newest from the index by run, however many there are.
    query = (
        "SELECT e.type, e.time, e.node_id, e.run_id, e.payload FROM json_each(?) AS run JOIN events AS e ON e.seq IN ("
        f"SELECT seq FROM events WHERE run_id = run.value AND events.type IN ({', '.join('?' * len(types))})"
        " ORDER BY seq DESC LIMIT ?) ORDER BY e.seq"
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for row in connection.execute(query, (json.dumps(run_ids), *types, LAST_EVENTS)):
        found.setdefault(row["run_id"], []).append({**row, "payload": json.loads(row["payload"])})
    return found


def _leases_that_ended(connection: RecordsConnection, now: float) -> dict[str, float]:
    """Return how many seconds ago leases expired, by run, without those that were released."""
    query = "SELECT run_id, expires_at FROM leases WHERE expires_at > 0 AND expires_at <= ?"
    return {row[0]: now - row[1] for row in connection.execute(query, (now,))}


def _health(row: SelectedRow, past: History, lost_seconds: float | None, now: dt.datetime) -> WorkerHealth:
    running = row["status"] == "running"
    spent = {"steps": float(row["steps"]), "tokens": float(row["tokens"]), "usd": float(row["usd"])}
    given = jsontext.object_in(row["limits"] or "{}") or {}
    limits = {measure: float(given[measure]) for measure in spent if given.get(measure)}
    # A run with an event of its end isn't idle, though its row may not be updated yet.
    progress = past.progress or row["started_at"]
    idle = _since(progress, now)
    error = jsontext.object_in(row["error"] or "{}") or {}
    return WorkerHealth(
        **{name: row[name] for name in ("run_id", "thread_id", "tenant", "agent", "node", "status")},
        **{name: row[name] for name in ("ended_at", "stopped_by", "steps")},
        error=Fault(code=str(error["code"]), message=str(error["message"])) if "message" in error else None,
        verdicts=past.verdicts,
        retries=past.retries,
        judged=past.judged,
        feedback=past.feedback,
        judged_node=past.judged_node,
        loop=past.loop,
        idle_seconds=idle if running and not past.ending else None,
        spent=spent,
        limits=limits,
        shares={measure: spent[measure] / limit for measure, limit in limits.items()},
        errors=past.errors,
        breaks=past.breaks,
        broken_seconds=_since(past.broke_at, now) if past.broke_at is not None else None,
        lost_seconds=lost_seconds if running else None,
        thresholds=jsontext.object_in(row["thresholds"] or "{}") or {},
    )


def _since(time: str, now: dt.datetime) -> float:
    return max(0.0, (now - dt.datetime.fromisoformat(time)).total_seconds())


def _iso(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat(timespec="seconds")
