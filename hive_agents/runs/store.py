"""The run store: a row a run, written before its graph starts and kept up to date; and the row as it is read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hive_agents import approvals, events
from hive_agents.errors import HiveError, NotFound, Taken, did_you_mean
from hive_agents.events import Event, EventType
from hive_agents.store import audit, connected, transaction

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.store import RecordsConnection
    from hive_agents.workspace import Workspace


AGENT_GRAPH = "event_loop"
"""The graph of agents' runs."""

OPTIMIZER_GRAPH = "optimizer"

CHAT_GRAPH = "worker"
"""The graph of questions to the copilot: a turn that is simply repeated."""

ENDED = ("done", "failed")
"""A run in one of these is over; every other one can be resumed."""

ACTIVE = ("queued", "running", "waiting", "paused")
"""A run in one of these is under way, though it may rest."""

STATUSES = ("queued", "running", "waiting", "paused", "done", "failed", "stopped")

_COLUMNS = "run_id thread_id graph status tenant started_at ended_at node steps tokens usd stopped_by error"


class RunCost(NamedTuple):
    """What a run without a ledger has used up: calls of models, their tokens, and dollars."""

    steps: int
    tokens: int
    usd: float


class Fence(Protocol):
    """What proves that a write is still its worker's: a `Lease`."""

    def require(self, connection: RecordsConnection) -> None:
        """Called inside the transaction of the write. Raises: LeaseLost (HIVE-425)."""


@dataclass(frozen=True)
class RunRow:
    """A run of any graph; `summary` is its row as lists show it, which a damaged input or result doesn't hide.

    `control` is what somebody asked of whoever works on it: "pause", "stop" or nothing.
    """

    run_id: str
    thread_id: str
    graph: str
    agent: str | None
    status: str
    user: str
    control: str | None
    control_by: str | None
    input_text: str
    result_text: str | None
    summary: dict[str, Any]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> RunRow:
        """Return the row of a SELECT *."""
        summary = {name: found[name] for name in _COLUMNS.split()}
        try:
            summary["error"] = json.loads(summary["error"]) if summary["error"] else None
        except ValueError:
            summary["error"] = {"code": "HIVE-407", "message": "what was recorded here is damaged"}
        plain = {name: found[name] for name in ("run_id", "thread_id", "graph", "agent", "status", "user")}
        asked = {name: found[name] for name in ("control", "control_by")}
        return cls(**plain, **asked, input_text=found["input"], result_text=found["result"], summary=summary)

    @property
    def tenant(self) -> str:
        return str(self.summary["tenant"])

    @property
    def left(self) -> RunRow:
        """The run as it stands where its worker died: it waits for another one, a question for being resumed."""
        to = {"status": "stopped", "stopped_by": "interrupted"} if self.graph == CHAT_GRAPH else {"status": "queued"}
        return replace(self, status=to["status"], summary=self.summary | to)

    @property
    def broke_off(self) -> bool:
        """Whether it is stopped though nobody wanted it to: its worker was interrupted, or what it stands on failed."""
        by = self.summary["stopped_by"] or "interrupted"
        return self.status == "stopped" and (by in ("interrupted", "fault") or by.startswith("HIVE-"))

    @cached_property
    def value(self) -> dict[str, Any]:
        """What it was started with. Raises: HIVE-407 (exit code 3) where it is damaged."""
        return self._read("input", self.input_text)

    @cached_property
    def result(self) -> dict[str, Any] | None:
        """Raises: HIVE-407 (exit code 3) where it is damaged."""
        return self._read("result", self.result_text) if self.result_text else None

    def _read(self, name: str, text: str) -> dict[str, Any]:
        with suppress(ValueError, RecursionError):
            found = json.loads(text)
            if isinstance(found, dict):
                return found
        why, fix = f"the {name} of run {self.run_id} is damaged", "start it anew"
        raise HiveError.of("HIVE-407", why, file=".hive/hive.db", path=f"runs.{name}", fix=fix)


_NEW: dict[str, Any] = {
    **dict.fromkeys(("ended_at", "result", "node", "stopped_by", "error", "control", "control_by")),
    "steps": 0,
    "tokens": 0,
    "usd": 0.0,
}


def run_turn(run_id: str) -> str:
    """Return whose turn it is where a run's row or its effects are written."""
    return f"run {run_id}"


def new_run_id() -> str:
    return f"r{uuid.uuid4().hex[:10]}"


class RunStore:
    """The runs of one workspace, in its SQLite file.

    Methods raise HIVE-402 when the database is locked, HIVE-403 when it can't be written, HIVE-407 when it is damaged.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def insert(
        self,
        graph: str,
        value: dict[str, Any],
        *,
        agent: str | None = None,
        owner: Principal | None = None,
        thread_id: str | None = None,
        key: str | None = None,
        status: str = "queued",
        run_id: str | None = None,
    ) -> tuple[RunRow, bool]:
        """Write a run down, with a thread of its own unless it goes on with one; whether it is new.

        Without an owner it is the workspace's. `key` makes it happen once: a run of the same tenant that has it
        already is the one that comes back. A queued run is told of in the event log, in the same transaction.

        Raises: HIVE-409 where the key's run was started with something else.
        """
        run_id = run_id or new_run_id()
        thread_id = thread_id or f"{agent or graph}:{run_id}"
        tenant, user = (owner.tenant, owner.user) if owner is not None else ("local", "local")
        row = {
            "run_id": run_id,
            "thread_id": thread_id,
            "graph": graph,
            "agent": agent,
            "input": json.dumps(value),
            "status": status,
            "started_at": audit.now(),
            "tenant": tenant,
            "user": user,
            "key": key,
        }
        turn = run_turn(run_id) if key is None else f"key {tenant}/{key}"
        with connected(self.workspace.records, rows=True) as connection, transaction(connection, turn):
            if key is not None:
                found = connection.execute("SELECT * FROM runs WHERE tenant = ? AND key = ?", (tenant, key)).fetchone()
                if found is not None:
                    return self._same(RunRow.of(found), graph, agent, value, key), False
            names = ", ".join(row)
            connection.execute(f"INSERT INTO runs ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
            if status == "queued":
                queued = Event(EventType.RUN_QUEUED, run_id, thread_id, tenant=tenant, payload={"agent": agent})
                events.EventLog.record(connection, [queued])
        return RunRow.of(_NEW | row), True

    def get(self, run_id: str) -> RunRow:
        """Raises: HIVE-409 (exit code 2) for a run that doesn't exist."""
        with connected(self.workspace.records, rows=True) as connection:
            found = connection.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            if found is not None:
                return RunRow.of(found)
            newest = "SELECT run_id FROM runs ORDER BY started_at DESC LIMIT 1000"
            known = [row[0] for row in connection.execute(newest)]
        fix = did_you_mean(run_id, known, "`hive runs`, or GET /api/runs, lists the runs")
        raise NotFound.of("HIVE-409", f"there is no run {run_id}", fix=fix)

    def has_key(self, key: str, *, tenant: str) -> bool:
        """Return whether a run of the tenant has it: then `insert` with it starts none."""
        with connected(self.workspace.records) as connection:
            found = connection.execute("SELECT 1 FROM runs WHERE tenant = ? AND key = ?", (tenant, key)).fetchone()
        return found is not None

    def list(
        self,
        *,
        status: str | Sequence[str] | None = None,
        tenant: str | None = None,
        user: str | None = None,
        graph: str | Sequence[str] | None = None,
        thread_id: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunRow]:
        """Return the newest first; with `before` those that began before that run."""
        clauses: list[str] = ["TRUE"]
        values: list[Any] = []
        for column, some in (("status", status), ("graph", graph)):
            if some is not None:
                wanted = [some] if isinstance(some, str) else some
                clauses.append(f"{column} IN ({', '.join('?' * len(wanted))})")
                values += wanted
        for column, value in (("tenant", tenant), ("user", user), ("thread_id", thread_id)):
            if value is not None:
                clauses.append(f"{column} = ?")
                values.append(value)
        if before is not None:
            clauses.append("(started_at, rowid) < (SELECT started_at, rowid FROM runs WHERE run_id = ?)")
            values.append(before)
        newest = "ORDER BY started_at DESC, rowid DESC"
        # Chosen first and read then: replies are long, and aren't sorted along.
        chosen = f"SELECT rowid FROM runs WHERE {' AND '.join(clauses)} {newest} LIMIT ?"
        query = f"SELECT * FROM runs WHERE rowid IN ({chosen}) {newest}"
        with connected(self.workspace.records, rows=True) as connection:
            return [RunRow.of(found) for found in connection.execute(query, (*values, limit))]

    def count(self, status: Sequence[str], *, tenant: str, user: str) -> int:
        """Return how many runs of somebody's are in one of these."""
        query = (
            f"SELECT count(*) FROM runs WHERE tenant = ? AND user = ? AND status IN ({', '.join('?' * len(status))})"
        )
        with connected(self.workspace.records) as connection:
            return int(connection.execute(query, (tenant, user, *status)).fetchone()[0])

    def update(
        self,
        run_id: str,
        status: str,
        *,
        result: dict[str, Any] | None = None,
        stopped_by: str | None = None,
        error: dict[str, str] | None = None,
        lease: Fence | None = None,
        among: Sequence[str] | None = None,
        unasked: bool = False,
        seen: RunRow | None = None,
        told: Event | None = None,
        wake_at: float | None = None,
        spent: RunCost | None = None,
    ) -> bool:
        """Record how a run stands; whether it did. What a failed one asked is superseded: nobody would act on it.

        With `among` it does so only while the run is in one of these, with `unasked` only while nobody asked for
        anything, with `seen` only while it is in the status of that row and nobody asked for anything since. `told`
        is logged in the same transaction; `Bus.announce` hands it to those who listen. At `wake_at`, seconds since
        1970, a waiting run is due again without an answer. `spent` is in all; without it what was counted stays.

        Raises: LeaseLost (HIVE-425) where the lease is another worker's by now.
        """
        ended_at = audit.now() if status in (*ENDED, "stopped") else None
        # What was asked of whoever works on it is done, or came too late.
        control = "" if status == "running" else ", control = NULL, control_by = NULL"
        counted = "" if spent is None else ", steps = ?, tokens = ?, usd = ?"
        where = "run_id = ?" + (" AND control IS NULL" if unasked else "")
        wanted: list[str | None] = [run_id]
        if among is not None:
            where += f" AND status IN ({', '.join('?' * len(among))})"
            wanted += among
        if seen is not None:
            where += " AND status = ? AND control IS ?"
            wanted += [seen.status, seen.control]
        with connected(self.workspace.records, rows=True) as connection, transaction(connection, run_turn(run_id)):
            if lease is not None:
                lease.require(connection)
            changed = connection.execute(
                f"UPDATE runs SET status = ?, ended_at = ?, result = ?, stopped_by = ?, error = ?, wake_at = ?{control}"
                f"{counted} WHERE {where}",
                (status, ended_at, _json(result), stopped_by, _json(error), wake_at, *(spent or ()), *wanted),
            )
            done = changed.rowcount == 1
            if done and told is not None:
                events.EventLog.record(connection, [told])
        if done and status == "failed":
            self.withdraw(run_id, f"run {run_id} failed")
        return done

    def move(
        self, run_id: str, status: str, by: str, *, to: str | None = None, control: str | None = None
    ) -> tuple[RunRow, bool]:
        """Change a run that still has `status`: to another one, or by asking its worker for `control`; whether it did.

        A change of status is told of in the event log, in the same transaction. A stop that was asked for is not
        taken back by a pause.
        """
        with connected(self.workspace.records, rows=True) as connection, transaction(connection, run_turn(run_id)):
            found = connection.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            if found is None or found["status"] != status:
                return self.get(run_id), False
            if control is not None and found["control"] != "stop":
                update = "UPDATE runs SET control = ?, control_by = ? WHERE run_id = ?"
                connection.execute(update, (control, by, run_id))
            if to is not None:
                at = audit.now()
                connection.execute(
                    "UPDATE runs SET status = ?, stopped_by = ?, ended_at = ?, control = NULL, control_by = NULL"
                    " WHERE run_id = ?",
                    (to, by if to == "stopped" else None, at if to == "stopped" else None, run_id),
                )
                events.EventLog.record(connection, [_moved(RunRow.of(found), to, by)])
            return RunRow.of(connection.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,)).fetchone()), True

    def asked(self, run_id: str) -> str | None:
        """Return what is asked of whoever works on the run: "pause", "stop", or nothing."""
        with connected(self.workspace.records) as connection:
            found = connection.execute("SELECT control FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        return found[0] if found is not None else None

    def delete(self, run_id: str) -> None:
        """Forget the row, its ledger, its conversations and its values; the event log keeps what it was told."""
        of_run = "SELECT conversation_id FROM conversations WHERE run_id = ?"
        with connected(self.workspace.records, rows=True) as connection, transaction(connection):
            for table in ("messages", "compactions", "cursors"):
                connection.execute(f"DELETE FROM {table} WHERE conversation_id IN ({of_run})", (run_id,))
            for table in ("conversations", "effects", "runs"):
                connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
            connection.execute("DELETE FROM buffers WHERE scope = 'execution' AND scope_key = ?", (run_id,))
            # The row stays: were its fences to begin anew, a worker that slept through this would pass for a later one.
            connection.execute("UPDATE leases SET expires_at = 0, run_id = NULL WHERE run_id = ?", (run_id,))

    def withdraw(self, run_id: str, why: str) -> None:
        """Close the requests of a run that nobody needs to answer any more."""
        with suppress(HiveError):  # requests that can't be read must not hide how the run ended
            store = approvals.ApprovalStore(self.workspace)
            for request in store.list("pending", run_ids=[run_id]):
                with suppress(HiveError):  # somebody answers it at this very moment
                    store.supersede(request.id, why)

    def _same(self, row: RunRow, graph: str, agent: str | None, value: dict[str, Any], key: str) -> RunRow:
        if (row.graph, row.agent) != (graph, agent) or _asked(row.value) != _asked(value):
            fix = "use another key for another run"
            raise Taken.of("HIVE-409", f'the key "{key}" belongs to run {row.run_id}', fix=fix, exit_code=2)
        return row


def _moved(row: RunRow, to: str, by: str) -> Event:
    kind = {"queued": EventType.RUN_QUEUED, "paused": EventType.RUN_PAUSED, "stopped": EventType.RUN_STOPPED}[to]
    told = {"agent": row.agent, "by": by}
    return Event(kind, row.run_id, row.thread_id, stream_id=row.thread_id, tenant=row.tenant, payload=told)


def _asked(value: dict[str, Any]) -> Any:
    """Return what a run was asked to do, without who asked by which token."""
    return next((value[name] for name in ("input", "request") if name in value), value)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
