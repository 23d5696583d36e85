"""Rows of agents' runs: written before a graph starts, kept up to date, listed for people."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from sqlite3 import Connection, Row
from typing import TYPE_CHECKING, Any

from hive_agents import audit
from hive_agents.approvals import ApprovalStore
from hive_agents.database import connect, database_errors
from hive_agents.errors import HiveError, closest
from hive_agents.llm import Message
from hive_agents.memory import ConversationStore

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.workspace import Workspace

GRAPH = "event_loop"
ENDED = ("done", "failed")
"""A run in one of these is over; every other one can be resumed."""

_COLUMNS = "run_id thread_id graph status tenant started_at ended_at node steps tokens usd stopped_by error"


@dataclass(frozen=True)
class RunRow:
    """A run of any graph; `summary` is its row as lists show it, which a damaged input or result doesn't hide."""

    run_id: str
    thread_id: str
    graph: str
    agent: str | None
    status: str
    user: str
    input_text: str
    result_text: str | None
    summary: dict[str, Any]

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
        why, fix = f"the {name} of run {self.run_id} is damaged", "start the agent anew with `hive run AGENT`"
        raise HiveError.of("HIVE-407", why, file=".hive/hive.db", path=f"runs.{name}", fix=fix)


def insert_run(
    workspace: Workspace, agent: str, value: dict[str, Any], owner: Principal | None, thread_id: str | None
) -> RunRow:
    """Write a run of an agent down as queued, with a thread of its own unless it goes on with one."""
    run_id = f"r{uuid.uuid4().hex[:10]}"
    tenant, user = (owner.tenant, owner.user) if owner is not None else ("local", "local")
    row = (
        run_id,
        thread_id or f"{agent}:{run_id}",
        GRAPH,
        agent,
        json.dumps(value),
        "queued",
        audit.now(),
        tenant,
        user,
    )
    with _connection(workspace) as connection:
        connection.execute(
            "INSERT INTO runs (run_id, thread_id, graph, agent, input, status, started_at, tenant, user)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
    return get_run(workspace, run_id)


def get_run(workspace: Workspace, run_id: str) -> RunRow:
    """Raises: HIVE-409 (exit code 2) for a run that doesn't exist."""
    with _connection(workspace) as connection:
        found = connection.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        known = [row[0] for row in connection.execute("SELECT run_id FROM runs ORDER BY started_at DESC LIMIT 1000")]
    if found is None:
        guess = closest(run_id, known)
        fix = f'did you mean "{guess}"?' if guess else "`hive runs` lists the runs"
        raise HiveError.of("HIVE-409", f"there is no run {run_id}", fix=fix, exit_code=2)
    return _row(found)


def list_runs(workspace: Workspace, *, status: str | None = None, limit: int = 100) -> list[RunRow]:
    """Newest first."""
    where = "" if status is None else " WHERE status = ?"
    query = f"SELECT * FROM runs{where} ORDER BY started_at DESC, rowid DESC LIMIT ?"
    with _connection(workspace) as connection:
        values = (limit,) if status is None else (status, limit)
        return [_row(found) for found in connection.execute(query, values)]


def update_run(
    workspace: Workspace,
    run_id: str,
    status: str,
    *,
    result: dict[str, Any] | None = None,
    stopped_by: str | None = None,
    error: dict[str, str] | None = None,
) -> None:
    """Record how a run stands. What a failed one asked is superseded: nobody would act on the answer."""
    if status == "failed":
        _withdraw_requests(workspace, run_id)
    ended_at = audit.now() if status in ENDED or status == "stopped" else None
    with _connection(workspace) as connection:
        connection.execute(
            "UPDATE runs SET status = ?, ended_at = ?, result = ?, stopped_by = ?, error = ? WHERE run_id = ?",
            (status, ended_at, _json(result), stopped_by, _json(error), run_id),
        )


def _withdraw_requests(workspace: Workspace, run_id: str) -> None:
    with suppress(HiveError):  # requests that can't be read must not hide how the run ended
        store = ApprovalStore(workspace)
        for request in store.list("pending"):
            if request.run_id == run_id:
                store.supersede(request.id, f"run {run_id} failed")


def say(workspace: Workspace, run_id: str, text: str) -> None:
    """A person's words to a running agent, read before its next turn.

    Raises: HIVE-409 (exit code 2) for a run that is unknown or over, and for no words.
    """
    row = get_run(workspace, run_id)
    if row.graph != GRAPH or row.status in ENDED or not text.strip():
        why = "there is nothing to say" if not text.strip() else f"run {run_id} doesn't listen: it is {row.status}"
        raise HiveError.of("HIVE-409", why, fix="speak to a run of an agent that isn't over", exit_code=2)
    store = ConversationStore(workspace, tenant=row.summary["tenant"])
    conversation = store.create(row.agent or "", run_id, key="agent")
    store.append(conversation, Message(role="user", content=text), key=f"person:{uuid.uuid4().hex}")


def _row(found: Row) -> RunRow:
    summary = {name: found[name] for name in _COLUMNS.split()}
    try:
        summary["error"] = json.loads(summary["error"]) if summary["error"] else None
    except ValueError:
        summary["error"] = {"code": "HIVE-407", "message": "what was recorded here is damaged"}
    return RunRow(
        found["run_id"],
        found["thread_id"],
        found["graph"],
        found["agent"],
        found["status"],
        found["user"],
        found["input"],
        found["result"],
        summary,
    )


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


@contextmanager
def _connection(workspace: Workspace) -> Iterator[Connection]:
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        connection.row_factory = Row
        yield connection
