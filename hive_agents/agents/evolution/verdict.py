"""Level 3 of an agent: a candidate's results on its goal's eval cases beside those of the serving version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any, Literal

TOKENS_RATIO = 2.0
"""A candidate without a gain may use up to this many times the tokens."""

VersionVerdict = Literal["first", "passed", "inconclusive", "blocked"]


@dataclass(frozen=True)
class Rehearsed:
    """The result of one eval case: `why` it failed, "" where it passed; `violated` are hard constraints."""

    why: str = ""
    violated: Sequence[str] = ()
    tokens: int = 0
    usd: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.why

    def to_json(self) -> dict[str, Any]:
        outcome = {"passed": self.passed, "why": self.why or None, "violated": list(self.violated)}
        return outcome | {"tokens": self.tokens, "usd": self.usd}


@dataclass(frozen=True)
class VersionDecision:
    """`reasons` are messages with a code; `evaluation` holds their figures, as plain JSON."""

    decision: VersionVerdict
    reasons: Sequence[dict[str, str]]
    evaluation: dict[str, Any] = field(default_factory=dict)


def sign_test(wins: int, losses: int) -> float:
    """Return the chance of so many wins or more among the cases that differ, if a win were as likely as a loss.

    The exact one-sided sign test on paired yes-or-no results, which is McNemar's test in its exact form.

    >>> sign_test(5, 0), sign_test(4, 1), sign_test(0, 0)
    (0.03125, 0.1875, 1.0)
    """
    n = wins + losses
    return float(sum(comb(n, k) for k in range(wins, n + 1)) / 2**n)


def decide(
    candidate: Mapping[str, Rehearsed], current: Mapping[str, Rehearsed] | None, *, alpha: float = 0.05
) -> VersionDecision:
    """Return the verdict on a candidate by its results and those of the serving version, both by case id.

    Blocked: a hard constraint violated; a case lost, unless the sign test shows a gain at `alpha`; more than twice
    the tokens without a gain. Passed: the test shows a gain. Inconclusive: no case lost and no gain shown. With nothing
    to compare with (`current` None) it is first where all cases pass, or where the test shows at `alpha` that it
    passes more than half of such cases; the failed cases are its reasons.
    """
    violated = sorted({name for result in candidate.values() for name in result.violated})
    failed = [id for id, result in candidate.items() if not result.passed]
    if current is None:
        p = sign_test(len(candidate) - len(failed), len(failed))
        evaluation = _figures(candidate, None, 0, 0, p, alpha)
        reasons = [_reason("HIVE-309", f"the case {id} failed: {candidate[id].why}") for id in failed]
        if violated or (failed and p > alpha):
            return VersionDecision("blocked", [*reasons, *_violations(violated)], evaluation)
        return VersionDecision("first", reasons or _nothing(candidate), evaluation)
    won = [id for id in candidate if candidate[id].passed and not current[id].passed]
    lost = [id for id in failed if current[id].passed]
    p = sign_test(len(won), len(lost))
    gained = bool(won) and p <= alpha
    evaluation = _figures(candidate, current, len(won), len(lost), p, alpha)
    reasons = _violations(violated)
    if lost and not gained:
        details = "; ".join(f"{id}: {candidate[id].why}" for id in lost)
        reasons.append(_reason("HIVE-309", f"{len(lost)} lost, {len(won)} won, p = {p:.4f}: {details}"))
    spent, before = (sum(result.tokens for result in side.values()) for side in (candidate, current))
    if before and spent > TOKENS_RATIO * before and len(won) <= len(lost):
        reasons.append(_reason("HIVE-311", f"tokens {before} -> {spent}, and nothing is gained"))
    if reasons:
        return VersionDecision("blocked", reasons, evaluation)
    if gained:
        return VersionDecision("passed", [], evaluation)
    unproved = [_reason("HIVE-306", f"{len(won)} of {len(candidate)} won, p = {p:.4f}")]
    return VersionDecision("inconclusive", _nothing(candidate) or unproved, evaluation)


def _nothing(candidate: Mapping[str, Rehearsed]) -> list[dict[str, str]]:
    return [] if candidate else [_reason("HIVE-306", "the goal has no eval_cases: nothing was measured")]


def _violations(names: Sequence[str]) -> list[dict[str, str]]:
    return [_reason("HIVE-310", f"the hard constraint {name} of the goal is violated") for name in names]


def _reason(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}


def _figures(
    candidate: Mapping[str, Rehearsed],
    current: Mapping[str, Rehearsed] | None,
    wins: int,
    losses: int,
    p: float,
    alpha: float,
) -> dict[str, Any]:
    def side(results: Mapping[str, Rehearsed]) -> dict[str, Any]:
        passed = sum(one.passed for one in results.values())
        tokens, usd = (sum(getattr(one, name) for one in results.values()) for name in ("tokens", "usd"))
        return {"passed": passed, "tokens": tokens, "usd": usd}

    n = len(candidate)
    cases = [
        {"id": id, "candidate": one.to_json(), "current": current[id].to_json() if current is not None else None}
        for id, one in candidate.items()
    ]
    return {
        "n": n,
        "wins": wins,
        "losses": losses,
        "ties": n - wins - losses if current is not None else 0,
        "p_value": p,
        "alpha": alpha,
        "test": "exact one-sided sign test",
        "candidate": side(candidate),
        "current": side(current) if current is not None else None,
        "cases": cases,
    }
