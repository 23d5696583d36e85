"""The best refused configs, each with the reason and the command that accepts it."""

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

    Each is better there than the certified or deployed config, or than the baseline without one.
    """
    best, certificate = state.get("best"), state.get("certificate")
    succeeded = state["status"] == "deployed" or passed(certificate)
    bar = session.remeasure(parsed(best)).mean if best is not None and succeeded else session.baseline_measured.mean
    listed: list[dict[str, Any]] = []
    for data, measured, rejection in _refused(session, state, bar):
        if len(listed) == MOST:
            break
        changes = session.changes(data)
        name = session.write(data, changes, session.baseline.name)
        listed.append(
            {
                "config": name,
                "changes": changes,
                "train": measured.train_nudcg,
                "validation": measured.validation_nudcg,
                "distractors": measured.distractors,
                "why": f"{rejection.reason}; to accept it: {rejection.command(name)}",
            }
        )
    return listed


def passed(certificate: Mapping[str, Any] | None) -> bool:
    return certificate is not None and certificate["decision"] == "passed"


def stopped_by_gate(certificate: Mapping[str, Any]) -> str:
    """Return why the gate doesn't pass a candidate, and how many queries more would show the gain.

    >>> stopped_by_gate({"decision": "blocked", "reasons": [{"message": "p95 latency 9 ms -> 90 ms"}],
    ...                  "needed_queries": 12})
    'blocked by the gate: p95 latency 9 ms -> 90 ms; about 12 queries more would show the gain'
    """
    reasons = "; ".join(reason["message"] for reason in certificate["reasons"])
    missing = certificate["needed_queries"]
    # The reason of an inconclusive gain already has the number.
    more = f"; about {missing} queries more would show the gain" if missing and "more would show" not in reasons else ""
    return f"{certificate['decision']} by the gate: {reasons}{more}"


class _Rejection:
    """The reason of a refusal, and what accepts the config: flags of `hive deploy`, or a pending approval."""

    def __init__(self, reason: str, flags: Sequence[str] = (), *, approval: str | None = None) -> None:
        self.reason = reason
        self._flags, self._approval = flags, approval

    def command(self, name: str) -> str:
        if self._approval:
            return f"hive approvals approve {self._approval}"
        return " ".join(["hive deploy", name, *self._flags, BECAUSE])


def _refused(
    session: OptimizerSession, state: Mapping[str, Any], bar: float
) -> Iterator[tuple[ConfigData, Measured, _Rejection]]:
    """Yield the configs above `bar` that a rule or the gate refused, best first, down to `best`."""
    best = state.get("best")
    rows = [row for row in state.get("rows", []) if row["verdict"] != "undeclared"]
    measured = {identity(data): (data, scores) for data, scores in session.measured(rows)}
    if best is not None:
        measured[identity(best)] = (best, session.remeasure(parsed(best)))
    for data, scores in sorted(measured.values(), key=lambda pair: -pair[1].mean):
        if scores.mean <= bar + 1e-9:
            return
        if best is not None and identity(data) == identity(best):
            yield data, scores, _by_gate(state)
            return  # nobody needs to accept a config that is worse than the best
        if refusal := session.refusal(session.trial(data)):
            yield data, scores, _by_rule(refusal)


def _by_rule(refusal: Refusal) -> _Rejection:
    flags = ["--override"] if refusal.more else [*_accepting(refusal.tags), *_losing(refusal.readers)]
    return _Rejection(f"{refusal.why} on the open queries", flags)


def _by_gate(state: Mapping[str, Any]) -> _Rejection:
    certificate = state.get("certificate")
    if certificate is None:
        return _Rejection("too few held-out questions to prove anything", ["--allow-inconclusive"])
    reason = stopped_by_gate(certificate)
    if state["status"] == "escalated":
        return _Rejection(reason, approval=state["approval_id"])
    if certificate["decision"] == "inconclusive":
        return _Rejection(reason, ["--allow-inconclusive"])
    lost = [*_accepting(certificate["lost_tags"]), *_losing(certificate.get("lost_readers", ()))]
    return _Rejection(reason, lost if len(certificate["reasons"]) == len(lost) else ["--override"])


def _losing(readers: Sequence[str]) -> list[str]:
    return [f"--accept {name}" for name in readers]


def _accepting(tags: Sequence[str]) -> list[str]:
    return [f"--accept-tag {shlex.quote(tag)}" for tag in tags]
