"""The decision log's records: decisions of judges, and the labels that people gave them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hive_agents.access import same_person
from hive_agents.judging.verdict import EVALUATORS, JudgmentAction
from hive_agents.store import SelectedRow

SECURITY = "security"
UNTYPED = "untyped"
"""The goal type under which results of goals without one are logged."""

ESCALATE_ALL = 1.01
"""A threshold above every confidence."""

ACTIONS = tuple(action.value for action in JudgmentAction)
THEN = ">"
"""Between the fingerprints of a judge and of the stronger one that it asked."""
STRONGER = " [STRONGER]"
"""Follows a goal type where its stronger judge is meant. No goal type has capitals."""

OUTCOMES = ("succeeded", "failed")
THRESHOLD_REASONS = ("low_confidence", "drift")
"""The escalations that a threshold decides about; the others ignore confidence."""


def decides(confidence: float, threshold: float | None, bins: Iterable[float]) -> bool:
    """Return whether a verdict of this confidence stands."""
    return (threshold is not None and confidence >= threshold) or round(confidence, 2) in bins


@dataclass(frozen=True, slots=True)
class Label:
    """A person's verdict; `blind` when the judge's was not shown before, `makers` as those of a `Principal`."""

    action: str
    by: str
    at: str
    blind: bool
    comment: str | None
    makers: tuple[str, ...] = ()

    @property
    def hands(self) -> tuple[str, ...]:
        """Those who may be behind it."""
        return (self.by, *self.makers)


@dataclass(frozen=True, slots=True)
class JudgedCase:
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

        None when a rule decided or no evaluator answered.
        """
        if self.source not in EVALUATORS:
            return None
        for signal in reversed(self.judgment.get("signals") or []):
            if signal.get("source") in EVALUATORS:
                return str(signal["action"]), _number(signal.get("confidence"))
        return (self.action, _number(self.confidence)) if self.automatic else None

    @property
    def watched(self) -> str:
        """The goal type, followed by `STRONGER` where the stronger judge was asked."""
        return self.goal_type + STRONGER * (THEN in self.judge_hash)

    @property
    def evidence(self) -> tuple[Label, ...]:
        """The labels that say how often the judge is right.

        Of an automatic decision only those of blind audits: unsolicited labels are biased towards errors.
        """
        if self.automatic:
            return tuple(label for label in self.labels if label.blind and self.audit)
        return self.labels

    def human_action(self, *, blind: bool = False) -> str | None:
        """Return the majority's action, with `blind` of blind labels only; None without a label or on a tie."""
        counts = Counter(label.action for label in self.labels if label.blind or not blind)
        first, second = ([*counts.most_common(2), (None, 0), (None, 0)])[:2]
        return None if first[1] == second[1] else first[0]


def by_stage(rows: Iterable[JudgedCase]) -> tuple[list[JudgedCase], list[JudgedCase]]:
    """Return the decisions as the judge that is asked first made them, and those of the stronger one as that did.

    What the first wasn't sure of counts for it with what it said, so that people's labels show whether it could have
    decided that, too.
    """
    first, again = [], []
    for row in rows:
        asked, then, stronger = row.judge_hash.partition(THEN)
        signals = [one for one in row.judgment.get("signals") or [] if one.get("source") in EVALUATORS]
        if not then or not signals:
            first.append(row)
            continue
        if len(signals) > 1:
            again.append(replace(row, goal_type=row.watched, judge_hash=stronger))
        said = str(signals[0]["action"]) if row.automatic else row.action
        alone = {"signals": signals[:1]}
        first.append(replace(row, action=said, judge_hash=asked, judgment=alone, outcome=None))
    return first, again


def people(labels: Iterable[Label]) -> list[str]:
    """Return the people who gave the labels, once each, whatever the spelling of their name."""
    names: list[str] = []
    for by in dict.fromkeys(label.by for label in labels):
        if not any(same_person(by, other) for other in names):
            names.append(by)
    return names


def decision_of(row: SelectedRow, labels: Sequence[Label]) -> JudgedCase:
    """Return the decision in a row of `judge_decisions`, with each person's first label.

    Raises: ValueError for a row that was damaged.
    """
    values = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a SelectedRow iterates over its values
    try:
        values["judgment"], values["result"] = json.loads(row["judgment"]), json.loads(row["result"])
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not (_sound(values) and all(map(_sound_label, labels))):
        raise ValueError("a column holds an invalid value")
    first: list[Label] = []
    for label in labels:
        if not any(same_person(label.by, other.by) for other in first):
            first.append(label)
    return JudgedCase(**values, labels=tuple(first))


def _sound(values: Mapping[str, Any]) -> bool:
    judgment = values["judgment"]
    texts = ("at", "tenant", "goal_type", "source", "judge_hash")
    counts = ("audit", "llm_calls", "input_tokens", "output_tokens")
    return (
        values["action"] in ACTIONS
        and all(isinstance(values[name], str) for name in texts)
        and all(isinstance(values[name], int) for name in counts)
        and isinstance(values["usd"], int | float)
        and isinstance(values["confidence"], int | float | None)
        and isinstance(judgment, dict)
        and isinstance(judgment.get("tried"), dict | None)
        and isinstance(judgment.get("signals"), list | None)
        and all(map(_sound_signal, judgment.get("signals") or ()))
    )


def _sound_signal(signal: Any) -> bool:
    return isinstance(signal, dict) and isinstance(signal.get("source"), str) and signal.get("action") in ACTIONS


def _sound_label(label: Label) -> bool:
    return isinstance(label.by, str) and label.action in ACTIONS


def source_of(judgment: Mapping[str, Any]) -> str:
    """Return which kind of signal decided: `rule`, `llm`, `evidence`, or `none` when no evaluator answered.

    An automatic verdict that names neither rule nor signal is an evaluator's.

    >>> source_of({"action": "accept"}), source_of({"action": "escalate"})
    ('llm', 'none')
    """
    if judgment.get("rule_id") or judgment.get("escalation_reason") in ("hard_constraint", "rule_error"):
        return "rule"
    sources = [signal.get("source") for signal in judgment.get("signals") or []]
    fallback = "none" if judgment["action"] == "escalate" else "llm"
    return str(next((source for source in reversed(sources) if source != "human"), fallback))


def storable(text: str) -> str:
    """Return the text with lone surrogates, which can't be encoded, replaced."""
    return text.encode("utf-8", "replace").decode()


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
