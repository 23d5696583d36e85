"""Sequential tests: whether a rule may go on to the next stage, and whether it has to go back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import log
from typing import Any

from hive_agents.judging.certify import lower_bound
from hive_agents.judging.drift import ALARM, e_value

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

LAST = 20
LAST_ERRORS = 2
RATE_FACTOR = 3.0
_RATE_FROM = 20


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a rule has shown in its present stage; `recent` is the newest 20 results, 1 an agreement."""

    llr: float = 0.0
    e: float = 1.0
    n: int = 0
    k: int = 0
    recent: tuple[int, ...] = ()
    checks: int = 0
    matches: int = 0

    def observed(self, agrees: bool) -> Evidence:
        """With one more match that a person decided too."""
        return replace(
            self,
            llr=self.llr + (AGREE if agrees else DISAGREE),
            e=e_value([not agrees], start=self.e),
            n=self.n + 1,
            k=self.k + int(agrees),
            recent=(*self.recent, int(agrees))[-LAST:],
        )

    def checked(self, matched: bool) -> Evidence:
        """With one more result that the rule was tried on."""
        return replace(self, checks=self.checks + 1, matches=self.matches + int(matched))

    @property
    def match_rate(self) -> float | None:
        return self.matches / self.checks if self.checks else None

    def passes(self, action: str) -> bool:
        """Whether a rule with this action may go on."""
        if action == "escalate":
            return self.n >= ESCALATE_MATCHES and self.k == self.n
        proven = self.llr >= BOUND
        return proven and (action != "accept" or lower_bound(self.k, self.n) >= ACCEPT_LOWER)

    def fails(self) -> bool:
        """Whether the sequential test has decided against the rule."""
        return self.llr <= -BOUND

    def alarm(self, shadow_rate: float | None) -> str | None:
        """Why a rule that acts must go back; None while all is well."""
        if self.e >= ALARM:
            return f"people disagree more often than 5 %: e-value {self.e:.1f}"
        if self.recent.count(0) >= LAST_ERRORS:
            return f"{self.recent.count(0)} disagreements in the last {len(self.recent)}"
        rate = self.match_rate
        if shadow_rate and rate is not None and self.matches >= _RATE_FROM and rate > RATE_FACTOR * shadow_rate:
            return f"matches {rate:.0%} of results, {shadow_rate:.0%} in the shadow"
        return None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "recent": list(self.recent)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Evidence:
        return cls(**{**value, "recent": tuple(value["recent"])})
