"""The decision log: every judgement, what people said of it, and what became of it."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import TYPE_CHECKING, Any, Protocol

from hive_agents.database import connect, database_errors, transaction
from hive_agents.errors import HiveError
from hive_agents.files import disk_errors
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.judging.verdict import Judgment

AUDIT_RATE = 0.05
SECURITY_AUDIT_RATE = 0.10
SECURITY = "security"
ACTIONS = ("accept", "retry", "replan", "escalate")
OUTCOMES = ("succeeded", "failed")
THRESHOLD_REASONS = ("low_confidence", "drift")
"""The escalations that a threshold decides about; the others ignore confidence."""

_MOST_BYTES = 65_536
_JUDGED_BY_CONFIDENCE = ("llm", "evidence")


class Spent(Protocol):
    """What a judgement cost, in the fields that a model's usage has."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def usd(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Label:
    """A person's verdict; `blind` when the judge's was not shown before."""

    action: str
    by: str
    at: str
    blind: bool
    comment: str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """A row of the log. `audit`: 0 not drawn, 1 drawn, 2 drawn only because security is drawn twice as often."""

    id: int
    at: str
    tenant: str
    goal_type: str
    goal_id: str | None
    run_id: str | None
    action: str
    confidence: float | None
    source: str
    rule_id: str | None
    escalation_reason: str | None
    judge_hash: str
    judgment: Mapping[str, Any]
    result: Any
    audit: int
    outcome: str | None
    llm_calls: int
    input_tokens: int
    output_tokens: int
    usd: float
    labels: tuple[Label, ...]

    @property
    def automatic(self) -> bool:
        return self.action != "escalate"

    @property
    def proposal(self) -> tuple[str, float] | None:
        """The evaluator's own action and confidence, also where a low confidence made it an escalation.

        None when a rule decided or no evaluator was heard.
        """
        if self.source not in _JUDGED_BY_CONFIDENCE:
            return None
        for signal in reversed(self.judgment.get("signals") or []):
            if signal.get("source") in _JUDGED_BY_CONFIDENCE:
                return str(signal["action"]), _number(signal.get("confidence"))
        return (self.action, _number(self.confidence)) if self.automatic else None

    def human_action(self, *, blind: bool = False) -> str | None:
        """What most reviewers said, with `blind` the blind ones alone; None without a label or on a tie."""
        counts = Counter(label.action for label in self.labels if label.blind or not blind)
        first, second = ([*counts.most_common(2), (None, 0), (None, 0)])[:2]
        return None if first[1] == second[1] else first[0]


class DecisionLog:
    """The log of one workspace; safe to use from several processes.

    A random share of the automatic decisions is drawn for audit when they are logged. The draw depends
    on the decision's number and on a secret of the workspace, so nobody can tell beforehand which
    decisions a person will look at.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

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
        at: str | None = None,
    ) -> int:
        """Record a judgement; returns the decision's number. `at` is for imported logs."""
        value = judgment.model_dump(mode="json")
        return self.record(
            value, goal_type, goal_id, result, run_id, judge_hash, usage, tenant=tenant, llm_calls=llm_calls, at=at
        )

    def record(
        self,
        judgment: Mapping[str, Any],
        goal_type: str,
        goal_id: str | None,
        result: Any,
        run_id: str | None,
        judge_hash: str,
        usage: Spent | None = None,
        tenant: str = "local",
        llm_calls: int | None = None,
        at: str | None = None,
    ) -> int:
        """As `log`, for a judgement in its JSON form."""
        source = source_of(judgment)
        calls = llm_calls if llm_calls is not None else int(source == "llm")
        spent = (usage.input_tokens, usage.output_tokens, usage.usd) if usage is not None else (0, 0, 0.0)
        with self._write() as connection:
            number = connection.execute(
                "INSERT INTO judge_decisions (at, tenant, goal_type, goal_id, run_id, action, confidence, source,"
                " rule_id, escalation_reason, judge_hash, judgment, result, audit, llm_calls, input_tokens,"
                " output_tokens, usd) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?)",
                (
                    at or now(),
                    tenant,
                    goal_type,
                    goal_id,
                    run_id,
                    str(judgment["action"]),
                    judgment.get("confidence"),
                    source,
                    judgment.get("rule_id"),
                    judgment.get("escalation_reason"),
                    judge_hash,
                    json.dumps(judgment, ensure_ascii=False, default=str),
                    _bounded(result),
                    calls,
                    *spent,
                ),
            ).lastrowid
            assert number is not None
            if judgment["action"] != "escalate" and (drawn := self._drawn(number, goal_type)):
                connection.execute("UPDATE judge_decisions SET audit = ? WHERE id = ?", (drawn, number))
        return number

    def label(self, decision_id: int, action: str, by: str, blind: bool = False, comment: str | None = None) -> None:
        """Record a person's verdict. The first stays: a second one of the same person is refused.

        Raises: HIVE-409 for an unknown decision or action, or when the person has labelled it already.
        """
        if action not in ACTIONS:
            raise HiveError.of("HIVE-409", f'"{action}" is no action', fix=f"use one of {', '.join(ACTIONS)}")
        with self._write() as connection:
            if connection.execute("SELECT 1 FROM judge_decisions WHERE id = ?", (decision_id,)).fetchone() is None:
                raise unknown_decision(decision_id)
            added = connection.execute(
                "INSERT OR IGNORE INTO human_labels (decision, action, by, at, blind, comment)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (decision_id, action, by, now(), int(blind), comment),
            )
            if added.rowcount == 0:
                raise HiveError.of(
                    "HIVE-409", f"{by} has labelled decision {decision_id} before", fix="ask another reviewer"
                )

    def outcome(self, decision_id: int, outcome: str) -> None:
        """Record what became of it: `succeeded` or `failed`, for a retry whether it mended the result.

        Raises: HIVE-409 for an unknown decision or outcome.
        """
        if outcome not in OUTCOMES:
            raise HiveError.of("HIVE-409", f'"{outcome}" is no outcome', fix=f"use one of {', '.join(OUTCOMES)}")
        with self._write() as connection:
            changed = connection.execute("UPDATE judge_decisions SET outcome = ? WHERE id = ?", (outcome, decision_id))
            if changed.rowcount == 0:
                raise unknown_decision(decision_id)

    def rows(
        self,
        *,
        goal_type: str | None = None,
        tenant: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> list[Decision]:
        """The decisions, oldest first, each with its labels; `since` and `until` are ISO times, half open."""
        bounds = {"goal_type = ?": goal_type, "tenant = ?": tenant, "at >= ?": since, "at < ?": until}
        used = {clause: value for clause, value in bounds.items() if value is not None}
        where = f" WHERE {' AND '.join(used)}" if used else ""
        with self._read() as connection:
            labels: dict[int, list[Label]] = {}
            for row in connection.execute("SELECT * FROM human_labels ORDER BY at, by"):
                label = Label(row["action"], row["by"], row["at"], bool(row["blind"]), row["comment"])
                labels.setdefault(row["decision"], []).append(label)
            found = connection.execute(f"SELECT * FROM judge_decisions{where} ORDER BY id", tuple(used.values()))
            return [_decision(row, labels.get(row["id"], ())) for row in found]

    def get(self, decision_id: int) -> Decision:
        """One decision. Raises: HIVE-409 when there is none of this number."""
        found = next((row for row in self.rows() if row.id == decision_id), None)
        if found is None:
            raise unknown_decision(decision_id)
        return found

    def load(self, lines: Iterable[str]) -> int:
        """Append a recorded log: one JSON object a line, {judgment, labels, …}; returns how many were added.

        The audit flags of the record are kept, because the labels were given to the decisions drawn then.
        """
        entries = [json.loads(line) for line in lines if line.strip()]
        with self._write() as connection:
            for entry in entries:
                _insert_recorded(connection, entry)
        return len(entries)

    def _drawn(self, number: int, goal_type: str) -> int:
        draw = hmac.new(self._salt(), str(number).encode(), hashlib.sha256).digest()
        place = int.from_bytes(draw[:8], "big") / 2**64
        if place < AUDIT_RATE:
            return 1
        return 2 if goal_type == SECURITY and place < SECURITY_AUDIT_RATE else 0

    def _salt(self) -> bytes:
        path = self.workspace.state / "judge-audit.salt"
        with disk_errors(path):
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                return path.read_bytes()
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(32))
        return path.read_bytes()

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        path = self.workspace.database
        with closing(connect(path)) as connection, database_errors(path):
            connection.row_factory = Row
            yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._read() as connection, transaction(connection):
            yield connection


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def source_of(judgment: Mapping[str, Any]) -> str:
    """Which kind of signal decided: `rule`, `llm`, `evidence`, or `none` when nothing could be heard."""
    if judgment.get("rule_id") or judgment.get("escalation_reason") in ("hard_constraint", "rule_error"):
        return "rule"
    sources = [signal.get("source") for signal in judgment.get("signals") or []]
    return str(next((source for source in reversed(sources) if source != "human"), "none"))


def unknown_decision(decision_id: int) -> HiveError:
    return HiveError.of("HIVE-409", f"there is no decision {decision_id}", fix="`hive judge audit` lists what waits")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _bounded(result: Any) -> str:
    text = json.dumps(result, ensure_ascii=False, default=str)
    return text if len(text) <= _MOST_BYTES else json.dumps({"cut": text[:_MOST_BYTES]}, ensure_ascii=False)


def _decision(row: Row, labels: Sequence[Label]) -> Decision:
    values = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a Row iterates over its values
    values["judgment"], values["result"] = json.loads(row["judgment"]), json.loads(row["result"])
    return Decision(**values, labels=tuple(labels))


def _insert_recorded(connection: Connection, entry: dict[str, Any]) -> None:
    judgment = entry["judgment"]
    columns = {
        "at": entry["at"],
        "tenant": entry.get("tenant", "local"),
        "goal_type": entry["goal_type"],
        "goal_id": entry.get("goal_id"),
        "run_id": entry.get("run_id"),
        "action": judgment["action"],
        "confidence": judgment.get("confidence"),
        "source": source_of(judgment),
        "rule_id": judgment.get("rule_id"),
        "escalation_reason": judgment.get("escalation_reason"),
        "judge_hash": entry["judge_hash"],
        "judgment": json.dumps(judgment, ensure_ascii=False),
        "result": _bounded(entry.get("result")),
        "audit": int(entry.get("audit", 0)),
        "outcome": entry.get("outcome"),
        "llm_calls": int(entry.get("llm_calls", 0)),
        "input_tokens": int(entry.get("input_tokens", 0)),
        "output_tokens": int(entry.get("output_tokens", 0)),
        "usd": float(entry.get("usd", 0.0)),
    }
    marks = ", ".join("?" * len(columns))
    number = connection.execute(
        f"INSERT INTO judge_decisions ({', '.join(columns)}) VALUES ({marks})", tuple(columns.values())
    ).lastrowid
    for label in entry.get("labels", ()):
        connection.execute(
            "INSERT INTO human_labels (decision, action, by, at, blind, comment) VALUES (?, ?, ?, ?, ?, ?)",
            (number, label["action"], label["by"], label["at"], int(label["blind"]), label.get("comment")),
        )
