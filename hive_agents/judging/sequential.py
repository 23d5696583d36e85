"""The sequential tests: a result at a time, and a bound that holds however often somebody looks.

`DriftDetector` watches what acts: the judge, per goal type, and each learned rule. Wald's test decides whether a rule
in the shadow is promoted or dropped. Tests of a sample that is complete are in `certify`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite, log
from typing import Any

from hive_agents.judging.binomial import lower_bound

_ODDS = (1.5405, 2.1111, 3.3529, 4.75, 8.1429, 15.5455, 28.5)
"""The odds of the error rates that are looked for, against the target's: for 5 % they are .075, .10, .15, .20, .30,
.45 and .60."""
_MOST = 1e200

AVERAGE_RUN = 1000
"""Results between false alarms, on average at least, while the target is just met."""

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
"""The share of disagreement that a rule may have while it acts."""
RULE_RUN = 10_000
"""Results between mistaken rollbacks of a rule, on average at least: people have to approve it anew."""

RATE_FACTOR = 3.0
_RATE_FROM = 20


class DriftDetector:
    """An e-detector: has the error rate risen above the target, at whatever time?

    For each of seven rates q it keeps R ← L · (1 + R), where L is the likelihood ratio of q against the target; their
    mean, less the number of results, is a supermartingale while the rate keeps within the target. So false alarms are
    `average_run` results apart on average at least. Past results that were right are forgotten: R can't fall below 0.

    `observe` returns the mean; `alarmed` stays set once it has reached `average_run`. `numbers` are the seven, from
    which a detector goes on in another process.

    Source: "E-detectors: a nonparametric framework for sequential change detection" (Shin, Ramdas and Rinaldo 2024),
    its Shiryaev-Roberts form.

    >>> detector = DriftDetector(target=0.05)
    >>> [round(detector.observe(error), 1) for error in [False] * 1000 + [True] * 5][-5:]
    [30.5, 137.7, 972.7, 8902.3, 91619.8]
    >>> detector.alarmed
    True

    Raises: ValueError unless the target is between 0 and 1 and `average_run` is positive.
    """

    def __init__(
        self, target: float = 0.05, average_run: float = AVERAGE_RUN, *, numbers: Sequence[float] = ()
    ) -> None:
        if not 0 < target < 1 or not average_run > 0:
            raise ValueError(f"target {target} has to be between 0 and 1, and average_run {average_run} above 0")
        self.target, self.average_run = target, average_run
        odds = target / (1 - target)
        rates = [ratio * odds / (1 + ratio * odds) for ratio in _ODDS]
        self._ratios = [((1 - q) / (1 - target), q / target) for q in rates]
        sound = len(numbers) == len(_ODDS) and all(isfinite(number) and number >= 0 for number in numbers)
        self.numbers = list(numbers) if sound else [0.0] * len(_ODDS)
        self.alarmed = self.value >= average_run

    @property
    def value(self) -> float:
        return sum(self.numbers) / len(self.numbers)

    def observe(self, error: bool) -> float:
        """Enter a result, true for an error, and return the evidence of a risen rate."""
        wrong = bool(error)
        self.numbers = [
            min(_MOST, ratio[wrong] * (1 + number)) for ratio, number in zip(self._ratios, self.numbers, strict=True)
        ]
        self.alarmed = self.alarmed or self.value >= self.average_run
        return self.value

    def restart(self) -> None:
        """Forget all, as after a calibration."""
        self.numbers, self.alarmed = [0.0] * len(_ODDS), False


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence on a rule in its present stage: `llr` for promotion, `drift` for rollback."""

    llr: float = 0.0
    drift: tuple[float, ...] = ()
    n: int = 0
    k: int = 0
    checks: int = 0
    matches: int = 0

    def observed(self, agrees: bool) -> Evidence:
        """Return the evidence after one more match that a person decided, too."""
        detector = self._detector
        detector.observe(not agrees)
        llr = self.llr + (AGREE if agrees else DISAGREE)
        return replace(self, llr=llr, drift=tuple(detector.numbers), n=self.n + 1, k=self.k + int(agrees))

    def checked(self, matched: bool) -> Evidence:
        """Return the evidence with one more result that the rule was tried on."""
        return replace(self, checks=self.checks + 1, matches=self.matches + int(matched))

    @property
    def _detector(self) -> DriftDetector:
        return DriftDetector(PROMISED, RULE_RUN, numbers=self.drift)

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
        detector = self._detector
        if detector.alarmed:
            wrong, shown = self.n - self.k, f"e = {detector.value:.0f}"
            return f"{wrong} of {self.n} decided otherwise by people, more than {PROMISED:.0%} of late: {shown}"
        rate = self.match_rate
        if shadow_rate and rate is not None and self.matches >= _RATE_FROM and rate > RATE_FACTOR * shadow_rate:
            return f"matches {rate:.0%} of results, {shadow_rate:.0%} in the shadow"
        return None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Evidence:
        """Return stored evidence; that of a release whose rollback had another test begins that one anew."""
        known = {name: value[name] for name in cls.__slots__ if name in value}
        return cls(**known | {"drift": tuple(value.get("drift", ()))})
