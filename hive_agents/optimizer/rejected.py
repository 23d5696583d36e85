"""The best configs that were refused: what stopped each, and the command that accepts it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hive_agents.optimizer.session import ConfigData, OptimizerSession
from hive_agents.optimizer.space import identity, parsed
from hive_agents.optimizer.trial import Measured, Refusal

MOST = 3
BECAUSE = '--reason "…"'


def rejected(session: OptimizerSession, state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return at most three refused configs, best on the open queries first; each gets a file in configs/.

    Each is better there than what is kept: what was certified or deployed, else the baseline.
    """
    best, certificate = state.get("best"), state.get("certificate")
    kept = state["status"] == "deployed" or passed(certificate)
    bar = session.remeasure(parsed(best)).mean if best is not None and kept else session.baseline_measured.mean
    rows = {row["identity"]: row for row in state.get("rows", [])}
    listed: list[dict[str, Any]] = []
    for data, found, why in _refused(session, state, bar):
        if len(listed) == MOST:
            break
        row = rows.get(identity(data))
        name = session.write(data, row["reason"] if row else why.told, session.baseline.name)
        listed.append(
            {
                "config": name,
                "changes": session.changes(data),
                "train": found.train_nudcg,
                "validation": found.validation_nudcg,
                "distractors": found.distractors,
                "why": f"{why.told}; to accept it: {why.command(name)}",
            }
        )
    return listed


def passed(certificate: Mapping[str, Any] | None) -> bool:
    return certificate is not None and certificate["decision"] == "passed"


def stopped_by_gate(certificate: Mapping[str, Any]) -> str:
    """Return what the gate says of a candidate that it doesn't pass, and how many queries more would show the gain.

    >>> stopped_by_gate({"decision": "blocked", "reasons": [{"message": "p95 latency 9 ms -> 90 ms"}],
    ...                  "needed_queries": 12})
    'blocked by the gate: p95 latency 9 ms -> 90 ms; about 12 queries more would show the gain'
    """
    told = "; ".join(reason["message"] for reason in certificate["reasons"])
    missing = certificate["needed_queries"]
    # An inconclusive gain's own reason has the number.
    more = f"; about {missing} queries more would show the gain" if missing and "more would show" not in told else ""
    return f"{certificate['decision']} by the gate: {told}{more}"


class _Why:
    """What refused a config, in words, and the way around: named tags, another person, or an answer that waits."""

    def __init__(self, told: str, flags: Sequence[str] = (), *, approval: str | None = None) -> None:
        self.told = told
        self._flags, self._approval = flags, approval

    def command(self, name: str) -> str:
        if self._approval:
            return f"hive approvals approve {self._approval}"
        return " ".join(["hive deploy", name, *self._flags, BECAUSE])


def _refused(
    session: OptimizerSession, state: Mapping[str, Any], bar: float
) -> Iterator[tuple[ConfigData, Measured, _Why]]:
    """The configs above `bar` that a rule or the gate stopped, best first, down to the best that no rule stopped."""
    best = state.get("best")
    measured = {identity(data): (data, found) for data, found in session.measured(state.get("rows", []))}
    if best is not None:
        measured[identity(best)] = (best, session.remeasure(parsed(best)))
    for data, found in sorted(measured.values(), key=lambda pair: -pair[1].mean):
        if found.mean <= bar + 1e-9:
            return
        if best is not None and identity(data) == identity(best):
            yield data, found, _of_gate(state)
            return  # what is worse than the best needs no way around its refusal
        elif stopped := session.refusal(found):
            yield data, found, _of_rule(stopped)


def _of_rule(stopped: Refusal) -> _Why:
    flags = ["--override"] if stopped.more else _accepting(stopped.tags)
    return _Why(f"{stopped.why} on the open queries", flags)


def _of_gate(state: Mapping[str, Any]) -> _Why:
    certificate = state.get("certificate")
    if certificate is None:
        return _Why("too few queries to prove anything", ["--allow-inconclusive"])
    told = stopped_by_gate(certificate)
    if state["status"] == "escalated":
        return _Why(told, approval=state["approval_id"])
    if certificate["decision"] == "inconclusive":
        return _Why(told, ["--allow-inconclusive"])
    only_tags = all(reason["code"] == "HIVE-303" for reason in certificate["reasons"])
    return _Why(told, _accepting(certificate["lost_tags"]) if only_tags else ["--override"])


def _accepting(tags: Sequence[str]) -> list[str]:
    return [f"--accept-tag {shlex.quote(tag)}" for tag in tags]
