"""Requests as rows of the `approvals` table, and their states checked against the audit log."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from hive_agents.approvals import log
from hive_agents.approvals.request import ApprovalRequest
from hive_agents.base import Diagnostic, HiveError
from hive_agents.store import RecordsConnection
from hive_agents.workspace import Workspace

Row = tuple[Any, ...]
"""A row of the database; the first value is the request's id."""

_COLUMNS = (
    "id tenant kind status title requester risk created_at due_at remind_at version content_hash run_id thread_id"
).split()
_SELECT = f"SELECT {', '.join(_COLUMNS)}, request, decisions FROM approvals"


def insert(connection: RecordsConnection, request: ApprovalRequest, key: str | None) -> None:
    names = [*_COLUMNS, "request", "decisions", "idempotency_key"]
    marks = ", ".join("?" * len(names))
    connection.execute(f"INSERT INTO approvals ({', '.join(names)}) VALUES ({marks})", (*_values(request), key))


def update(connection: RecordsConnection, request: ApprovalRequest) -> None:
    names = ", ".join(f"{name} = ?" for name in [*_COLUMNS, "request", "decisions"])
    connection.execute(f"UPDATE approvals SET {names} WHERE id = ?", (*_values(request), request.id))


def select(connection: RecordsConnection, where: str = "TRUE", values: Iterable[Any] = ()) -> list[Row]:
    """Return the rows that meet the condition, newest first."""
    connection.text_factory = _text
    found = connection.execute(f"{_SELECT} WHERE {where} ORDER BY created_at DESC, rowid DESC", tuple(values))
    return found.fetchall()


def select_those(
    connection: RecordsConnection,
    *,
    pending: bool,
    ids: Collection[str] | None,
    run_ids: Collection[str] | None,
    **equal: str | None,
) -> list[Row]:
    """Return the rows of these runs that have these values in these columns, newest first; None is any of them.

    A run or a requester has few rows, but many are pending: given both conditions, SQLite, without statistics, would
    scan the pending ones, so the status isn't a condition then.
    """
    few = run_ids is not None or equal["requester"] is not None
    where, values = ([], []) if few else _standing(pending, ids)
    if run_ids is not None:
        where, values = [*where, _among("run_id")], [*values, json.dumps([*run_ids])]
    wanted = {name: value for name, value in equal.items() if value is not None}
    where += [f"{name} = ?" for name in wanted]
    return select(connection, " AND ".join(where), [*values, *wanted.values()])


@dataclass(frozen=True)
class Order:
    """An order of rows, and its comparison of places. Each has an index, so that a page costs what it shows."""

    columns: str
    sort: str
    after: str


NEWEST = Order("created_at, rowid", "created_at DESC, rowid DESC", "<")
_RISK = "CASE risk WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END"
_DUE = f"coalesce(due_at, '9999'), {_RISK}, created_at, rowid"
DUE = Order(_DUE, _DUE, ">")
"""By due time, then by risk, the greatest first, then by age."""


def place_of(connection: RecordsConnection, request_id: str, order: Order) -> tuple[Any, ...] | None:
    """Return a row's place in an order; None for an unknown id."""
    found = connection.execute(f"SELECT {order.columns} FROM approvals WHERE id = ?", (request_id,)).fetchone()
    return None if found is None else tuple(found)


def select_page(
    connection: RecordsConnection,
    order: Order,
    place: tuple[Any, ...] | None,
    limit: int,
    *,
    pending: bool,
    ids: Collection[str] | None,
    tenants: Collection[str] | None,
) -> list[Row]:
    """Return the rows after a place, in order; with `ids` only those."""
    where, values = _standing(pending, ids)
    if tenants is not None:
        where, values = [*where, f"tenant IN ({', '.join('?' * len(tenants))})"], [*values, *tenants]
    if place is not None:
        where.append(f"({order.columns}) {order.after} ({', '.join('?' * len(place))})")
        values += place
    connection.text_factory = _text
    text = f"{_SELECT} WHERE {' AND '.join(where)} ORDER BY {order.sort} LIMIT ?"
    return connection.execute(text, (*values, limit)).fetchall()


def _standing(pending: bool, ids: Collection[str] | None) -> tuple[list[str], list[Any]]:
    where = ["status = 'pending'" if pending else "TRUE"]
    return (where, []) if ids is None else ([*where, _among("id")], [json.dumps([*ids])])


def _among(column: str) -> str:
    return f"{column} IN (SELECT value FROM json_each(?))"


def overdue(connection: RecordsConnection, now: str) -> list[str]:
    """Return the ids of the pending requests with something due."""
    pending = "SELECT id FROM approvals WHERE status = 'pending' AND"
    found = connection.execute(f"{pending} due_at <= ? UNION {pending} remind_at <= ?", (now, now))
    return [str(id) for (id,) in found.fetchall()]


def pending(connection: RecordsConnection) -> list[str]:
    """Return the ids of the pending requests by the rows."""
    return [str(id) for (id,) in connection.execute("SELECT id FROM approvals WHERE status = 'pending'").fetchall()]


def count_pending(connection: RecordsConnection, tenants: Collection[str] | None) -> int:
    where, values = "", list[str]()
    if tenants is not None:
        where, values = f" AND tenant IN ({', '.join('?' * len(tenants))})", list(tenants)
    found = connection.execute(f"SELECT count(*) FROM approvals WHERE status = 'pending'{where}", values).fetchone()
    return int(found[0])


def request_of(row: Row) -> ApprovalRequest:
    """Return the request of a row. Raises: HIVE-413 for an invalid row."""
    *columns, request, decisions = row
    try:
        value = json.loads(request) | dict(zip(_COLUMNS, columns, strict=True)) | {"decisions": json.loads(decisions)}
        return ApprovalRequest.model_validate(value)
    except (ValueError, TypeError, RecursionError):
        raise log.untrusted(str(row[0]), "its row in the database is damaged") from None


def _text(data: bytes) -> str:
    return data.decode(errors="replace")  # one undecodable row must not hide all others


def _values(request: ApprovalRequest) -> list[Any]:
    value = request.model_dump(mode="json")
    decisions = value.pop("decisions")
    columns = [value.pop(name) for name in _COLUMNS]
    return [*columns, json.dumps(value, ensure_ascii=False), json.dumps(decisions, ensure_ascii=False)]


@dataclass
class Inbox:
    """`damaged` are the others, by id, with what is wrong: HIVE-413.

    While the log is broken nothing can be verified: `requests` are the unverified rows, for reading only.
    """

    requests: list[ApprovalRequest] = field(default_factory=list)
    damaged: dict[str, Diagnostic] = field(default_factory=dict)


def inbox(workspace: Workspace, found: Iterable[Row]) -> Inbox:
    """Return the inbox of rows read before this call: entries are written before rows, so none looks forged."""
    try:
        histories = log.histories(workspace)
    except HiveError:
        histories = None
    told = Inbox()
    for row in found:
        try:
            request = request_of(row)
            if histories is not None:
                request = log.standing(request, histories.get(request.id, []))
            told.requests.append(request)
        except HiveError as error:
            told.damaged[str(row[0])] = error.diagnostics[0]
    return told
