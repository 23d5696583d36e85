"""More than anybody reads: runs, trials, requests and conversations by the thousand, written as their stores do."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.store import connected, transaction

BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def many_runs(place: Workspace, n: int, owner: Principal) -> None:
    """Questions of one person, a minute apart, each with a reply of 4 kB."""
    value = json.dumps({"request": {"text": "how do I rotate an API token?"}, "limits": {}})
    result = json.dumps({"answer": "x" * 4_000})
    rows = [
        (f"r{k:010d}", f"t{k:010d}", "worker", value, "done" if k % 10 else "failed", _at(k), _at(k), result,
         owner.tenant, owner.user)
        for k in range(n)
    ]  # fmt: skip
    names = "run_id, thread_id, graph, input, status, started_at, ended_at, result, tenant, user"
    _insert(place, f"INSERT INTO runs ({names}) VALUES ({', '.join('?' * 10)})", rows)


def many_threads(place: Workspace, n: int, owner: Principal) -> None:
    """Conversations without an answer yet."""
    rows = [(owner.tenant, owner.user, f"t{k:010d}", f"About buffer {k}", _at(k), _at(k)) for k in range(n)]
    _insert(place, "INSERT INTO threads VALUES (?, ?, ?, ?, ?, ?)", rows)


def many_requests(place: Workspace, n: int) -> None:
    store = ApprovalStore(place)
    risks: tuple[Any, ...] = ("low", "medium", "high")
    for k in range(n):
        call = {"tool": "send_mail", "args": {"to": f"kim{k}@example.org", "text": "Your pipette is ready."}}
        store.file(Filing(kind="tool_call", title=f"Send mail {k}", requester="agent:support", risk=risks[k % 3],
                          context=call))  # fmt: skip


def _insert(place: Workspace, statement: str, rows: list[tuple[Any, ...]]) -> None:
    with connected(place.records) as connection, transaction(connection):
        connection.executemany(statement, rows)


def _at(n: int) -> str:
    return (BEGAN + dt.timedelta(minutes=n)).isoformat()
