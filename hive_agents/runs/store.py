"""The run store: one row for each run, written before its graph starts and updated at each change of status."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hive_agents import approvals, events
from hive_agents.base import HiveError, NotFound, Taken, did_you_mean
from hive_agents.events import Event, EventType
from hive_agents.memory import conversation
from hive_agents.store import audit, connected, transaction

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.store import RecordsConnection
    from hive_agents.workspace import Workspace


AGENT_GRAPH = "event_loop"
"""The graph of agents' runs."""

OPTIMIZER_GRAPH = "optimizer"

CHAT_GRAPH = "worker"
"""The graph of questions to the copilot, which are repeated after an interruption."""

ENDED = ("done", "failed")
"""Statuses of runs that are over; all others can be resumed."""

ACTIVE = ("queued", "running", "waiting", "paused")
"""Statuses of runs in progress, those that rest included."""

STATUSES = ("queued", "running", "waiting", "paused", "done", "failed", "stopped")

_COLUMNS = "run_id thread_id graph status tenant started_at ended_at node steps tokens usd stopped_by error"


class RunCost(NamedTuple):
    """The cost of a run without a ledger: calls of models, their tokens, and dollars."""

    steps: int
    tokens: int
    usd: float


class Fence(Protocol):
    """Proves that a worker may still write: a `Lease`."""

    def require(self, connection: RecordsConnection) -> None:
        """Check it inside the transaction of the write. Raises: LeaseLost (HIVE-425)."""


@dataclass(frozen=True)
class RunRow:
    """A run of any graph; `summary` is its row in lists, which can be read even if its input or result is damaged.

    `control` is what its worker was asked to do: "pause", "stop" or nothing.
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
    def of(cls, columns: Mapping[str, Any]) -> RunRow:
        """Return the run of a row with all columns."""
        summary = {name: columns[name] for name in _COLUMNS.split()}
        try:
            summary["error"] = json.loads(summary["error"]) if summary["error"] else None
        except ValueError:
            summary["error"] = {"code": "HIVE-407", "message": "what was recorded here is damaged"}
        names = ("run_id", "thread_id", "graph", "agent", "status", "user", "control", "control_by")
        fields = {name: columns[name] for name in names}
        return cls(**fields, input_text=columns["input"], result_text=columns["result"], summary=summary)

    @property
    def tenant(self) -> str:
        return str(self.summary["tenant"])

    @property
    def left(self) -> RunRow:
        """The run after its worker died: queued, or stopped if it is a question."""
        to = {"status": "stopped", "stopped_by": "interrupted"} if self.graph == CHAT_GRAPH else {"status": "queued"}
        return replace(self, status=to["status"], summary=self.summary | to)

    @property
    def broke_off(self) -> bool:
        """Whether it was stopped by an interruption or an error, and not by a user."""
        by = self.summary["stopped_by"] or "interrupted"
        return self.status == "stopped" and (by in ("interrupted", "fault") or by.startswith("HIVE-"))

    @cached_property
    def value(self) -> dict[str, Any]:
        """Its input. Raises: HIVE-407 (exit code 3) where it is damaged."""
        return self._read("input", self.input_text)

    @cached_property
    def result(self) -> dict[str, Any] | None:
        """Raises: HIVE-407 (exit code 3) where it is damaged."""
        return self._read("result", self.result_text) if self.result_text else None

    def _read(self, name: str, text: str) -> dict[str, Any]:
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            if isinstance(value, dict):
                return value
        why, fix = f"the {name} of run {self.run_id} is damaged", "start it anew"
        raise HiveError.of("HIVE-407", why, file=".hive/hive.db", path=f"runs.{name}", fix=fix)


_NEW: dict[str, Any] = {
    **dict.fromkeys(("ended_at", "result", "node", "stopped_by", "error", "control", "control_by")),
    "steps": 0,
    "tokens": 0,
    "usd": 0.0,
}


def run_turn(run_id: str) -> str:
    """Return the name of the turn (see `transaction`) for writes to a run's row or its effects."""
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
        """Store a run, by default in a new thread; return its row, and whether it is new.

        Without an owner it belongs to the workspace. If a run of the same tenant has `key` already, that run is
        returned. A queued run is logged as an event in the same transaction.

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

    def of(self, *run_ids: str) -> list[RunRow]:
        """Return those of these runs that exist."""
        with connected(self.workspace.records, rows=True) as connection:
            query = f"SELECT * FROM runs WHERE run_id IN ({', '.join('?' * len(run_ids))})"
            return [RunRow.of(found) for found in connection.execute(query, run_ids)] if run_ids else []

    def has_key(self, key: str, *, tenant: str) -> bool:
        """Return whether a run of the tenant has the key, so that `insert` would return that run."""
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
        """Return the newest first; with `before` only those older than that run."""
        clauses: list[str] = ["TRUE"]
        values: list[Any] = []
        for column, names in (("status", status), ("graph", graph)):
            if names is not None:
                among, wanted = _among(column, names)
                clauses.append(among)
                values += wanted
        for column, value in (("tenant", tenant), ("user", user), ("thread_id", thread_id)):
            if value is not None:
                clauses.append(f"{column} = ?")
                values.append(value)
        if before is not None:
            clauses.append("(started_at, rowid) < (SELECT started_at, rowid FROM runs WHERE run_id = ?)")
            values.append(before)
        newest = "ORDER BY started_at DESC, rowid DESC"
        # Rows are selected first and read then, so that long results aren't sorted along.
        chosen = f"SELECT rowid FROM runs WHERE {' AND '.join(clauses)} {newest} LIMIT ?"
        query = f"SELECT * FROM runs WHERE rowid IN ({chosen}) {newest}"
        with connected(self.workspace.records, rows=True) as connection:
            return [RunRow.of(found) for found in connection.execute(query, (*values, limit))]

    def count(self, status: str | Sequence[str], *, tenant: str, user: str) -> int:
        """Return the number of a user's runs in these statuses."""
        among, wanted = _among("status", status)
        query = f"SELECT count(*) FROM runs WHERE tenant = ? AND user = ? AND {among}"
        with connected(self.workspace.records) as connection:
            return int(connection.execute(query, (tenant, user, *wanted)).fetchone()[0])

    def update(
        self,
        run_id: str,
        status: str,
        *,
        result: dict[str, Any] | None = None,
        stopped_by: str | None = None,
        error: dict[str, str] | None = None,
        lease: Fence | None = None,
        among: str | Sequence[str] | None = None,
        unasked: bool = False,
        seen: RunRow | None = None,
        told: Event | None = None,
        wake_at: float | None = None,
        spent: RunCost | None = None,
    ) -> bool:
        """Update a run's row, and withdraw the requests of a failed run; return whether the conditions held.

        They are: its status is in `among`; with `unasked`, it has no control; its status and control are those of
        `seen`. The event `told` is logged in the same transaction; `Bus.announce` then publishes it. At `wake_at`, in
        seconds since 1970, a waiting run is due without an answer. `spent` is the total cost; None leaves it unchanged.

        Raises: LeaseLost (HIVE-425) where another worker has the lease.
        """
        ended_at = audit.now() if status in (*ENDED, "stopped") else None
        # A control has been followed by now, or came too late.
        control = "" if status == "running" else ", control = NULL, control_by = NULL"
        counted = "" if spent is None else ", steps = ?, tokens = ?, usd = ?"
        where = "run_id = ?" + (" AND control IS NULL" if unasked else "")
        wanted: list[str | None] = [run_id]
        if among is not None:
            clause, statuses = _among("status", among)
            where += f" AND {clause}"
            wanted += statuses
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
            self.withdraw(run_id, why=f"run {run_id} failed")
        return done

    def move(
        self, run_id: str, status: str, by: str, *, to: str | None = None, control: str | None = None
    ) -> tuple[RunRow, bool]:
        """Set the status or the control of a run that still has `status`; return its row, and whether it had.

        A change of status is logged as an event in the same transaction. A pause doesn't replace an earlier stop.
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
        """Return the control of the run: "pause", "stop", or None."""
        with connected(self.workspace.records) as connection:
            found = connection.execute("SELECT control FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        return found[0] if found is not None else None

    @staticmethod
    def spend(
        connection: RecordsConnection,
        run_id: str,
        *,
        node: str | None = None,
        steps: int = 0,
        tokens: int = 0,
        usd: float = 0.0,
    ) -> None:
        """Add to the cost of a run, in a transaction of whoever keeps its ledger; without a `node` it stays there."""
        connection.execute(
            "UPDATE runs SET node = COALESCE(?, node), steps = steps + ?, tokens = tokens + ?, usd = usd + ?"
            " WHERE run_id = ?",
            (node, steps, tokens, usd, run_id),
        )

    @staticmethod
    def forget_thread(connection: RecordsConnection, tenant: str, user: str, thread_id: str) -> None:
        """Delete a thread's runs, which have no more than their rows, events and a lease, in the transaction of its
        owner."""
        where, owner = "tenant = ? AND user = ? AND thread_id = ?", (tenant, user, thread_id)
        them = f"SELECT run_id FROM runs WHERE {where}"
        connection.execute(f"DELETE FROM leases WHERE thread_id = ? AND run_id IN ({them})", (thread_id, *owner))
        # Nobody audits questions: whoever asks and deletes without an end leaves nothing behind.
        events.EventLog.forget(connection, them, owner)
        connection.execute(f"DELETE FROM runs WHERE {where}", owner)

    def delete(self, *run_ids: str, also: Callable[[RecordsConnection, str], object] | None = None) -> None:
        """Delete the rows, their leases, conversations and values, and what `also` deletes, in one transaction.

        Their events stay in the log, but for those of questions.
        """
        of_question = "SELECT run_id FROM runs WHERE run_id = ? AND graph = ?"
        with connected(self.workspace.records, rows=True) as connection, transaction(connection):
            for run_id in run_ids:
                if also is not None:
                    also(connection, run_id)
                conversation.forget_run(connection, run_id)
                events.EventLog.forget(connection, of_question, (run_id, CHAT_GRAPH))
                thread = "thread_id = (SELECT thread_id FROM runs WHERE run_id = ?)"
                connection.execute(f"DELETE FROM leases WHERE {thread} AND run_id = ?", (run_id, run_id))
                connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))

    def withdraw(self, *run_ids: str, why: str) -> None:
        """Supersede the pending requests of runs."""
        with suppress(HiveError):  # a damaged request must not prevent the run's end
            store = approvals.ApprovalStore(self.workspace)
            for request in store.list("pending", run_ids=run_ids):
                with suppress(HiveError):  # it was answered meanwhile
                    store.supersede(request.id, why)

    def _same(self, row: RunRow, graph: str, agent: str | None, value: dict[str, Any], key: str) -> RunRow:
        if (row.graph, row.agent) != (graph, agent) or _task(row.value) != _task(value):
            fix = "use another key for another run"
            raise Taken.of("HIVE-409", f'the key "{key}" belongs to run {row.run_id}', fix=fix, exit_code=2)
        return row


def _among(column: str, names: str | Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the condition that a column has one of the names, and its values."""
    wanted = [names] if isinstance(names, str) else names
    return f"{column} IN ({', '.join('?' * len(wanted))})", wanted


def _moved(row: RunRow, to: str, by: str) -> Event:
    kind = {"queued": EventType.RUN_QUEUED, "paused": EventType.RUN_PAUSED, "stopped": EventType.RUN_STOPPED}[to]
    payload = {"agent": row.agent, "by": by}
    return Event(kind, row.run_id, row.thread_id, stream_id=row.thread_id, tenant=row.tenant, payload=payload)


def _task(value: dict[str, Any]) -> Any:
    """Return the task in a run's input, without its principal."""
    unnamed = {name: part for name, part in value.items() if name != "viewer"}
    return next((value[name] for name in ("input", "request") if name in value), unnamed)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
