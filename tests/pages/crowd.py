"""More than anybody reads: runs, trials, requests and conversations by the thousand, written as their stores do."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.approvals import ApprovalStore, Filing, rows
from hive_agents.store import audit, connected, transaction

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
    """Requests to send mails, some of them due sooner: rows, and a log that knows them, without a write for each."""
    ApprovalStore(place).file(_mail(0))
    (first,) = ApprovalStore(place).list()
    entry = list(audit.entries(place))[-1]
    lines = list(audit.entries(place))
    with connected(place.database) as connection, transaction(connection):
        for k in range(1, n):
            filing = _mail(k)
            at = {"created_at": _at(k), "due_at": f"2099-01-0{1 + k % 7}T00:00:00+00:00", "remind_at": None}
            same = {name: getattr(filing, name) for name in Filing.model_fields if name != "on_timeout"}
            made = first.model_copy(update=same | at | {"id": f"a{k:010d}", "content_hash": filing.hash})
            rows.insert(connection, made, None)
            what = {"approval": made.id, "title": made.title, "content_hash": made.content_hash}
            chain = {"seq": len(lines) + 1, "previous": lines[-1]["digest"]}
            lines.append(entry | what | chain | {"changes": entry["changes"] | at})
            lines[-1]["digest"] = audit._digest(lines[-1], None)
    text = "".join(json.dumps(one, ensure_ascii=False, sort_keys=True) + "\n" for one in lines)
    (place.root / audit.FILE).write_text(text, encoding="utf-8")
    (place.root / audit.HEAD).write_text(json.dumps([(len(lines), lines[-1]["digest"])]))


def _mail(k: int) -> Filing:
    risks: tuple[Any, ...] = ("low", "medium", "high")
    call = {"tool": "send_mail", "args": {"to": f"kim{k}@example.org", "text": "Your pipette is ready."}}
    return Filing(kind="tool_call", title=f"Send mail {k}", requester="agent:support", risk=risks[k % 3], context=call)


def _insert(place: Workspace, statement: str, rows: list[tuple[Any, ...]]) -> None:
    with connected(place.records) as connection, transaction(connection):
        connection.executemany(statement, rows)


def _at(n: int) -> str:
    return (BEGAN + dt.timedelta(minutes=n)).isoformat()
