"""Sequential tests of whether a rule is promoted to the next stage or rolled back.

A rule in the shadow is dropped by the test that would promote it. One that acts is rolled back on proof alone: two
tests with an error of 5 % each, stage after stage, would end most rules that are right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from math import log
from typing import Any

from hive_agents.judging.certify import lower_bound

P0 = 0.90
P1 = 0.98
AGREE = log(P1 / P0)
DISAGREE = log((1 - P1) / (1 - P0))
BOUND = log(0.95 / 0.05)
"""Wald's bounds are plus and minus this: 35 straight agreements pass, 2 early errors fail."""

ESCALATE_MATCHES = 10
"""A rule that only asks a person can do little harm."""
ACCEPT_LOWER = 0.95
"""A rule that lets results through needs 59 agreements without an error."""

PROMISED = 0.05
"""The share of disagreement that that a rule may have while it acts."""
BROKEN = 0.15
"""The share against which the evidence is weighed: every disagreement trebles it, every agreement takes a tenth."""
ROLLBACK = 20.0
"""By Ville's inequality a rule that keeps its promise reaches it with a probability of 1/20 at most, ever."""

RATE_FACTOR = 3.0
_RATE_FROM = 20


def rollback_evidence(results: Iterable[bool]) -> float:
    """Return the evidence that people disagree with a rule more often than it promised; `results` are its agreements.

    A mixture of likelihood ratios, one begun at each result j with the weight 1 / (j (j + 1)): a long
    record of agreement doesn't hide a later change. Ratios that have not begun yet count 1 each.
    Source: "Game-theoretic statistics and safe anytime-valid inference" (Ramdas et al. 2023), for the bound;
    the weights are chosen so that the sum over all starts is 1.

    >>> [round(rollback_evidence([True] * 200 + [False] * n), 1) for n in (0, 5, 9, 11)]
    [0.0, 0.1, 5.3, 47.7]
    """
    evidence = Evidence()
    for agrees in results:
        evidence = evidence.observed(agrees)
    return evidence.rollback


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence on a rule in its present stage: `llr` for promotion, `begun` for rollback."""

    llr: float = 0.0
    begun: float = 0.0
    n: int = 0
    k: int = 0
    checks: int = 0
    matches: int = 0

    def observed(self, agrees: bool) -> Evidence:
        """Return the evidence after one more match that a person decided, too."""
        n = self.n + 1
        ratio = (1 - BROKEN) / (1 - PROMISED) if agrees else BROKEN / PROMISED
        return replace(
            self,
            llr=self.llr + (AGREE if agrees else DISAGREE),
            begun=(self.begun + 1 / (n * (n + 1))) * ratio,
            n=n,
            k=self.k + int(agrees),
        )

    def checked(self, matched: bool) -> Evidence:
        """Return the evidence with one more result that the rule was tried on."""
        return replace(self, checks=self.checks + 1, matches=self.matches + int(matched))

    @property
    def rollback(self) -> float:
        """The e-value of `rollback_evidence`: ratios begun, and the weight of those that begin later."""
        return self.begun + 1 / (self.n + 1)

    @property
    def match_rate(self) -> float | None:
        return self.matches / self.checks if self.checks else None

    def passes(self, action: str) -> bool:
        """Return whether a rule with this action is promoted."""
        if action == "escalate":
            return self.n >= ESCALATE_MATCHES and self.k == self.n
        proven = self.llr >= BOUND
        return proven and (action != "accept" or lower_bound(self.k, self.n) >= ACCEPT_LOWER)

    def fails(self) -> bool:
        """Return whether the test has decided against the rule, which drops it from the shadow."""
        return self.llr <= -BOUND

    def alarm(self, shadow_rate: float | None) -> str | None:
        """Return why an acting rule must be rolled back; None where it needn't be."""
        if self.rollback >= ROLLBACK:
            wrong = self.n - self.k
            return f"{wrong} of {self.n} decided otherwise by people, more than {PROMISED:.0%}: e = {self.rollback:.0f}"
        rate = self.match_rate
        if shadow_rate and rate is not None and self.matches >= _RATE_FROM and rate > RATE_FACTOR * shadow_rate:
            return f"matches {rate:.0%} of results, {shadow_rate:.0%} in the shadow"
        return None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Evidence:
        return cls(**value)
