"""The decision log: judgements, people's labels of them, and their outcomes."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hive_agents.access import people, same_hands
from hive_agents.base import HiveError, NotFound
from hive_agents.base.files import disk_errors, opened, read_bytes
from hive_agents.goals import goal_type_of
from hive_agents.judging.decisions import (
    ACTIONS,
    OUTCOMES,
    SECURITY,
    JudgedCase,
    Label,
    decision_of,
    source_of,
    storable,
)
from hive_agents.store import RecordsConnection, audit, connected, transaction
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.judging.verdict import Judgment

_MOST_BYTES = 65_536
_PRUNED_AT_ONCE = 1000


class Spent(Protocol):
    """The cost of a judgement, in the fields of a model's usage."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def usd(self) -> float: ...


class DecisionLog:
    """The log of one workspace; safe to use from several processes.

    A random share of the automatic decisions is drawn for audit when they are logged (`judge.audit_rate`, and
    `judge.audit_rate_security`). The draw depends on the decision's number and on a secret of the workspace, so
    nobody can tell beforehand which decisions a person will look at.

    Damaged rows are left out; `damaged` counts those of the last reading.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.damaged = 0

    @property
    def warnings(self) -> list[str]:
        """Warnings about rows that the last reading left out."""
        return [f"{self.damaged} damaged rows of the decision log were left out"] if self.damaged else []

    def log(
        self,
        judgment: Judgment,
        goal_type: str,
        goal_id: str | None,
        result: Any,
        run_id: str | None,
        judge_hash: str,
        usage: Spent | None = None,
        tenant: str = "local",
        llm_calls: int | None = None,
        options: Sequence[str] = ACTIONS,
    ) -> int:
        """Record a judgement and return its number. `options` are the actions that the judge could choose from."""
        goal_type = goal_type_of(goal_type)
        value = judgment.model_dump(mode="json", exclude={"decision_id"}) | {"options": list(options)}
        entry = {
            "at": audit.now(),
            "tenant": tenant,
            "goal_type": goal_type,
            "goal_id": goal_id,
            "run_id": run_id,
            "judge_hash": judge_hash,
            "judgment": value,
            "result": result,
            "llm_calls": llm_calls if llm_calls is not None else int(source_of(value) == "llm"),
        }
        if usage is not None:
            entry |= {name: getattr(usage, name) for name in ("input_tokens", "output_tokens", "usd")}
        with connected(self.workspace.records, rows=True) as connection, transaction(connection, "judge decisions"):
            number = _insert(connection, entry)
            if value["action"] != "escalate" and (drawn := self._drawn(number, goal_type)):
                connection.execute("UPDATE judge_decisions SET audit = ? WHERE id = ?", (drawn, number))
        return number

    def label(
        self,
        decision_id: int,
        action: str,
        by: str,
        blind: bool = False,
        comment: str | None = None,
        makers: Sequence[str] = (),
    ) -> None:
        """Record a person's verdict, at most one for each person and decision; `makers` made the token they signed by.

        Raises: HIVE-409 for an unknown decision or action, or when the person, or a maker, has labelled it already.
        """
        if action not in ACTIONS:
            raise HiveError.of("HIVE-409", f'"{action}" is no action', fix=f"use one of {', '.join(ACTIONS)}")
        with connected(self.workspace.records, rows=True) as connection, transaction(connection):
            if connection.execute("SELECT 1 FROM judge_decisions WHERE id = ?", (decision_id,)).fetchone() is None:
                raise unknown_decision(decision_id)
            query, makers = "SELECT by, makers FROM human_labels WHERE decision = ?", people(makers)
            labelled = connection.execute(query, (decision_id,)).fetchall()
            if any(same_hands([str(before), *json.loads(made)], [by, *makers]) for before, made in labelled):
                raise HiveError.of(
                    "HIVE-409", f"{by} has labelled decision {decision_id} before", fix="ask another reviewer"
                )
            _insert_label(connection, decision_id, Label(action, by, audit.now(), blind, comment, tuple(makers)))

    def outcome(self, decision_id: int, outcome: str) -> None:
        """Record the outcome, `succeeded` or `failed`; of a retry, whether it mended the result.

        Raises: HIVE-409 for an unknown decision or outcome.
        """
        if outcome not in OUTCOMES:
            raise HiveError.of("HIVE-409", f'"{outcome}" is no outcome', fix=f"use one of {', '.join(OUTCOMES)}")
        with connected(self.workspace.records, rows=True) as connection, transaction(connection):
            changed = connection.execute("UPDATE judge_decisions SET outcome = ? WHERE id = ?", (outcome, decision_id))
            if changed.rowcount == 0:
                raise unknown_decision(decision_id)

    def forget_questions(self, *run_ids: str) -> None:
        """Blank what a reader asked in the results of these runs; the judgement and its numbers stay."""
        with connected(self.workspace.records, rows=True) as connection, transaction(connection):
            for run_id in run_ids:
                rows = connection.execute("SELECT id, result FROM judge_decisions WHERE run_id = ?", (run_id,))
                for number, text in rows.fetchall():
                    connection.execute(
                        "UPDATE judge_decisions SET result = ? WHERE id = ?", (_without_question(text), number)
                    )

    def prune(self, before: dt.datetime) -> int:
        """Delete older decisions that prove nothing, in short transactions; return their number.

        What a person labelled, decided or is to look at stays, and what has an outcome: the judge is calibrated by it.
        """
        limit = before.astimezone(dt.UTC).isoformat(timespec="milliseconds")
        unproving = (
            "SELECT id FROM judge_decisions WHERE id > ? AND at < ? AND audit = 0 AND outcome IS NULL AND"
            " action <> 'escalate' AND NOT EXISTS (SELECT 1 FROM human_labels WHERE decision = judge_decisions.id)"
            " ORDER BY id LIMIT ?"
        )
        pruned = last = 0
        while True:
            with connected(self.workspace.records) as connection, transaction(connection):
                found = [row[0] for row in connection.execute(unproving, (last, limit, _PRUNED_AT_ONCE))]
                connection.executemany("DELETE FROM judge_decisions WHERE id = ?", [(number,) for number in found])
            pruned += len(found)
            if len(found) < _PRUNED_AT_ONCE:
                return pruned
            last = found[-1]

    def rows(
        self,
        *,
        goal_type: str | None = None,
        tenant: str | None = None,
        since: str | None = None,
        until: str | None = None,
        last: int | None = None,
    ) -> list[JudgedCase]:
        """Return the decisions, oldest first, each with its labels; `since` and `until` are ISO times, half open, and
        `last` is a decision's number."""
        goal_type = None if goal_type is None else goal_type_of(goal_type)
        times = {"at >= ?": since, "at < ?": until}
        return self._select({"goal_type = ?": goal_type, "tenant = ?": tenant, "id <= ?": last, **times})

    def get(self, decision_id: int) -> JudgedCase:
        """Return one decision. Raises: HIVE-409 when there is none of this number, or it was damaged."""
        found = self._select({"id = ?": decision_id})
        if self.damaged:
            fix = "take it from a backup; the other decisions count as before"
            raise HiveError.of("HIVE-409", f"decision {decision_id} is damaged and can't be read", fix=fix)
        if not found:
            raise unknown_decision(decision_id)
        return found[0]

    def of(self, numbers: Iterable[int]) -> list[JudgedCase]:
        """Return those of the decisions that there are and can be read."""
        return [row for number in numbers for row in self._select({"id = ?": number})]

    def load(self, lines: Iterable[str]) -> int:
        """Append a recorded log: one JSON object a line, {judgment, labels, …}; return how many were added.

        The audit flags of the record are kept, because the labels were given to the decisions drawn then.
        """
        entries = [json.loads(line) for line in lines if line.strip()]
        with connected(self.workspace.records, rows=True) as connection, transaction(connection):
            for entry in entries:
                number = _insert(connection, entry)
                for label in entry.get("labels", ()):
                    given = (label["action"], label["by"], label["at"], label["blind"], label.get("comment"))
                    _insert_label(connection, number, Label(*given, tuple(label.get("makers", ()))))
        return len(entries)

    def _select(self, bounds: Mapping[str, str | int | None]) -> list[JudgedCase]:
        bounded = {clause: value for clause, value in bounds.items() if value is not None}
        where = f" WHERE {' AND '.join(bounded)}" if bounded else ""
        with connected(self.workspace.records, rows=True) as connection:
            labels: dict[int, list[Label]] = {}
            chosen = f"SELECT id FROM judge_decisions{where}"
            for row in connection.execute(
                f"SELECT * FROM human_labels WHERE decision IN ({chosen}) ORDER BY at, by", tuple(bounded.values())
            ):
                made = tuple(json.loads(row["makers"]))
                label = Label(row["action"], row["by"], row["at"], bool(row["blind"]), row["comment"], made)
                labels.setdefault(row["decision"], []).append(label)
            rows = connection.execute(f"SELECT * FROM judge_decisions{where} ORDER BY id", tuple(bounded.values()))
            decisions = []
            self.damaged = 0
            for row in rows:
                try:
                    decisions.append(decision_of(row, labels.get(row["id"], ())))
                except ValueError:
                    self.damaged += 1
            return decisions

    def _drawn(self, number: int, goal_type: str) -> int:
        digest = hmac.new(self._salt(), str(number).encode(), hashlib.sha256).digest()
        uniform = int.from_bytes(digest[:8], "big") / 2**64
        rates = self.workspace.settings.judge
        if uniform < rates.audit_rate:
            return 1
        return 2 if goal_type == SECURITY and uniform < rates.audit_rate_security else 0

    def _salt(self) -> bytes:
        path = self.workspace.state / "judge-audit.salt"
        with disk_errors(path):
            try:
                descriptor = opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                return read_bytes(path)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(32))
        return read_bytes(path)


def unknown_decision(decision_id: int) -> HiveError:
    return NotFound.of("HIVE-409", f"there is no decision {decision_id}", fix="`hive judge audit` lists what waits")


def _bounded(result: Any) -> str:
    """Return the result as JSON, or its `repr` where it can't be, cut to `_MOST_BYTES`."""
    try:
        text = storable(json.dumps(result, ensure_ascii=False, default=str))
    except Exception:
        return json.dumps({"unreadable": storable(_repr_of(result))[:_MOST_BYTES]}, ensure_ascii=False)
    return text if len(text) <= _MOST_BYTES else json.dumps({"cut": text[:_MOST_BYTES]}, ensure_ascii=False)


def _without_question(text: str) -> str:
    """Return a stored result without the question; a cut or damaged one, which may hold it anywhere, becomes {}."""
    try:
        result = json.loads(text)
    except ValueError:
        return "{}"
    if not isinstance(result, dict) or result.keys() & {"cut", "unreadable"}:
        return "{}"
    return json.dumps(result | {"question": ""} if "question" in result else result, ensure_ascii=False)


def _repr_of(result: Any) -> str:
    try:
        return repr(result)
    except Exception:
        return type(result).__name__


def _insert_label(connection: RecordsConnection, decision: int, label: Label) -> None:
    values = (label.action, label.by, label.at, int(label.blind), label.comment, json.dumps(label.makers))
    columns = "decision, action, by, at, blind, comment, makers"
    connection.execute(f"INSERT INTO human_labels ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", (decision, *values))


def _insert(connection: RecordsConnection, entry: Mapping[str, Any]) -> int:
    """Add a recorded decision without its labels, and return its number."""
    judgment = entry["judgment"]
    columns = {
        "at": entry["at"],
        "tenant": entry.get("tenant", "local"),
        "goal_type": goal_type_of(entry["goal_type"]),
        "goal_id": entry.get("goal_id"),
        "run_id": entry.get("run_id"),
        "action": judgment["action"],
        "confidence": judgment.get("confidence"),
        "source": source_of(judgment),
        "rule_id": judgment.get("rule_id"),
        "escalation_reason": judgment.get("escalation_reason"),
        "judge_hash": entry["judge_hash"],
        "judgment": storable(json.dumps(judgment, ensure_ascii=False, default=str)),
        "result": _bounded(entry.get("result")),
        "audit": int(entry.get("audit", 0)),
        "outcome": entry.get("outcome"),
        "llm_calls": int(entry.get("llm_calls", 0)),
        "input_tokens": int(entry.get("input_tokens", 0)),
        "output_tokens": int(entry.get("output_tokens", 0)),
        "usd": float(entry.get("usd", 0.0)),
    }
    marks = ", ".join("?" * len(columns))
    insert = f"INSERT INTO judge_decisions ({', '.join(columns)}) VALUES ({marks}) RETURNING id"
    (number,) = connection.execute(insert, tuple(columns.values())).fetchone()
    return int(number)
