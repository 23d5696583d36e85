"""The tests of a fixed sample: where may the judge decide alone, and where is it shown to miss its target?

A fixed sequence of thresholds and Holm's procedure over single confidences, with exact binomial bounds. What is looked
at after each result is in `sequential`.

Source: "Trust or Escalate" (Jung et al. 2024) for the use on judges, "Learn then Test" (Angelopoulos et al.
2021) for the testing. Everything here is arithmetic on arrays; `calibration` brings the decision log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, inf
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hive_agents.judging.binomial import ALPHA, DELTA, binomial_cdf, minimum_n, upper_bound
from hive_agents.judging.decisions import decides

MANY = 500
"""From so many labels on, five starts share delta: more coverage than one start at the full level."""
STARTS = 5
PRIOR, PRIOR_ERRORS = 50, 0.02
"""For the chance that the audits that are asked for suffice: as if 50 before had shown an error rate of 2 %."""

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Stratum:
    """Decisions that were labelled at one rate: `logged` holds every confidence, the others the labelled ones'."""

    logged: _Floats
    confidence: _Floats
    agrees: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a sample of labelled decisions says of a judge.

    - `status`: *certified* where P(disagreement where it decides <= alpha) holds with confidence 1 - delta; *missed*
      where nothing is certified and the lower Clopper-Pearson bound at delta / 2 lies above alpha; else *undecided*.
    - It decides at or above `threshold` (None: there is none), and at each of `bins`, confidences that are certified by
      themselves. `failed` are the confidences that are shown to miss the target by themselves.
    - `n` and `k` are the labels and disagreements where it decides, else all; `coverage` is the share of all decisions
      there. `rejected` counts records whose confidence was no number between 0 and 1.
    - `needed` more agreeing labels would certify something, and come without a disagreement with the probability
      `chance`, at the error rate that the labels so far suggest, or 2 % without any.

    >>> flat = Certificate.of([(0.9, number % 10 > 0) for number in range(400)])
    >>> flat.status, flat.threshold, flat.bins, flat.failed
    ('missed', None, (), (0.9,))
    >>> mixed = [(0.95, number % 7 > 0) for number in range(140)] + [(0.9, True)] * 130 + [(0.8, True)] * 30
    >>> found = Certificate.of(mixed)
    >>> found.status, found.threshold, found.bins, [found.decides(at) for at in (0.95, 0.9, 0.8)]
    ('certified', None, (0.9,), [False, True, False])
    >>> none = Certificate.of([])
    >>> none.status, none.needed, round(none.chance, 2)
    ('undecided', 45, 0.4)
    """

    status: Literal["certified", "missed", "undecided"]
    threshold: float | None
    bins: tuple[float, ...]
    failed: tuple[float, ...]
    n: int
    k: int
    coverage: float
    needed: int
    chance: float
    rejected: int
    alpha: float
    delta: float

    @classmethod
    def of(cls, cases: Iterable[tuple[float, bool]], alpha: float = ALPHA, delta: float = DELTA) -> Certificate:
        """Return the certificate of pairs (confidence, whether the person agreed); they must be a uniform sample."""
        pairs = list(cases)
        values = np.array([confidence for confidence, _ in pairs], dtype=np.float64)
        return certify([Stratum(values, values, np.array([same for _, same in pairs], dtype=bool))], alpha, delta)

    def decides(self, confidence: float) -> bool:
        return decides(confidence, self.threshold, self.bins)


def empirical_threshold(confidence: ArrayLike, agrees: ArrayLike, *, alpha: float = ALPHA) -> float | None:
    """Return the lowest threshold above which the sample agrees often enough. It carries no guarantee:
    chosen among many on the same labels, it misses its target in half of all cases or more."""
    values, same = np.asarray(confidence, dtype=np.float64), np.asarray(agrees, dtype=bool)
    sound = _sound(values)
    values, same = values[sound], same[sound]
    grid = _grid(values)
    n, k = _counts(values, np.ones(len(values), dtype=bool), grid), _counts(values, ~same, grid)
    passing = np.flatnonzero((n > 0) & (k <= alpha * n))
    return float(grid[passing[-1]]) if len(passing) else None


def certify(
    strata: Sequence[Stratum], alpha: float = ALPHA, delta: float = DELTA, *, in_force: Callable[[float], bool] = bool
) -> Certificate:
    """Return the certificate of strata that were labelled at different rates.

    Certified is the union of what two procedures certify at delta / 2 each: a fixed sequence of thresholds, from the
    highest on, and Holm's over the single confidences, for models that say .9 and .95 only and may be better at .9.
    Where one of them can't certify anything, or both test the same, the other has all of delta: that depends on the
    confidences alone. With more than one stratum the error rate is the sum of theirs, weighted by how many decisions
    each has, and delta is divided among them. The first, whose labels were drawn at random, is the scarce one: it
    decides whether there are enough for several starts, and where they lie.

    The target can be missed only by what the judge decides alone: labels of the first stratum whose confidence is
    `in_force`, by default all above 0.
    """
    rejected = sum(int((~_sound(s.confidence)).sum()) for s in strata)
    clean = [
        Stratum(s.logged[_sound(s.logged)], s.confidence[_sound(s.confidence)], s.agrees[_sound(s.confidence)])
        for s in strata
    ]
    grid = _grid(np.concatenate([np.empty(0), *(s.logged for s in clean)]))
    labelled = [_counts(s.confidence, np.ones(len(s.confidence), dtype=bool), grid) for s in clean]
    errors = [_counts(s.confidence, ~s.agrees, grid) for s in clean]
    logged = [_counts(s.logged, np.ones(len(s.logged), dtype=bool), grid) for s in clean]
    n_all = sum(labelled, np.zeros(len(grid), dtype=np.int64))
    k_all = sum(errors, np.zeros(len(grid), dtype=np.int64))
    total = sum(len(s.logged) for s in clean)
    bins = _bins(clean)
    testable_bins = [at for at, parts in bins.items() if _within(parts, delta / 2, alpha, faultless=True)]
    half = delta / 2 if testable_bins and len(bins) > 1 else delta
    of_bins = _holm({at: _p_value(bins[at], alpha) for at in testable_bins}, delta / 2) if half < delta else []
    audits = labelled[0] if labelled else n_all
    many = int(audits[-1]) >= MANY
    level = half / STARTS if many else half

    def within(at: int, faultless: bool = False) -> bool:
        columns = zip(logged, errors, labelled, strict=True)
        parts = [(int(part[at]), int(bad[at]), int(of[at])) for part, bad, of in columns]
        return _within(parts, level, alpha, faultless)

    # A threshold that even a faultless sample couldn't pass is left out before any label is looked at.
    testable = [at for at in range(len(grid)) if within(at, faultless=True)]
    passed, stops = -1, []
    for start in _starts(testable, audits, STARTS if many else 1):
        for at in testable[start:]:
            if not within(at):
                stops.append(at)
                break
            passed = max(passed, at)
    # What lies between two certified parts and was never seen belongs to neither.
    top = sorted(bins, reverse=True)
    reached = [at for at in top if passed >= 0 and at >= grid[passed]]
    while len(reached) < len(top) and top[len(reached)] in of_bins:
        reached.append(top[len(reached)])
    threshold = reached[-1] if reached else None
    alone = tuple(at for at in sorted(of_bins) if threshold is None or at < threshold)
    lead = clean[0] if clean else Stratum(np.empty(0), np.empty(0), np.empty(0, dtype=bool))
    mine = [bool(in_force(float(value))) for value in lead.confidence]
    own = _bins([Stratum(lead.confidence[mine], lead.confidence[mine], lead.agrees[mine])])
    failed = tuple(sorted(_holm({at: _tail(*part[1:], alpha) for at, (part,) in own.items()}, delta / 2)))
    if threshold is not None or alone:
        decided = [parts for at, parts in bins.items() if decides(at, threshold, alone)]
        n, k = (sum(part[place] for parts in decided for part in parts) for place in (2, 1))
        coverage = sum(part[0] for parts in decided for part in parts) / total
        return Certificate("certified", threshold, alone, failed, n, k, coverage, 0, 1.0, rejected, alpha, delta)
    missed = _tail(int((~lead.agrees[mine]).sum()), sum(mine), alpha) <= delta / 2
    needed, chance = _needed(n_all, k_all, stops, alpha, half) if alpha > 0 else (0, 0.0)
    status: Literal["missed", "undecided"] = "missed" if missed else "undecided"
    n, k = int(n_all[-1]), int(k_all[-1])
    return Certificate(status, None, (), failed, n, k, 0.0, needed, chance, rejected, alpha, delta)


_Parts = Sequence[tuple[int, int, int]]
"""For each stratum how many decisions were logged, how many labels disagree, and how many labels there are."""


def _bins(strata: Sequence[Stratum]) -> dict[float, _Parts]:
    """Return what there is at each confidence, rounded to .01."""
    logged = [np.round(s.logged, 2) for s in strata]
    labels = [np.round(s.confidence, 2) for s in strata]
    bins = np.unique(np.concatenate([np.empty(0), *logged]))
    counted = []
    for s, all_of, confidence in zip(strata, logged, labels, strict=True):
        columns = (all_of, confidence[~s.agrees], confidence)
        counted.append(zip(*(_equal(values, bins).tolist() for values in columns), strict=True))
    return dict(zip(bins.tolist(), zip(*counted, strict=True), strict=True))


def _equal(values: _Floats, bins: _Floats) -> _Ints:
    """Return how many of the values are equal to each bin."""
    values = np.sort(values)
    return np.searchsorted(values, bins, side="right") - np.searchsorted(values, bins, side="left")


def _within(parts: _Parts, level: float, alpha: float, faultless: bool = False) -> bool:
    """Return whether `_bound` is alpha at most; of one stratum that is one probability, and no bound is sought."""
    present = [part for part in parts if part[0] > 0]
    if len(present) == 1:
        _, k, n = present[0]
        return binomial_cdf(0 if faultless else k, n, alpha) <= level
    return _bound(parts, level, faultless) <= alpha


def _bound(parts: _Parts, level: float, faultless: bool = False) -> float:
    """Return the upper bound of the strata's common error rate; of no decision it is infinite."""
    present = [part for part in parts if part[0] > 0]
    whole = sum(logged for logged, _, _ in present)
    if not whole:
        return inf
    shared = level / len(present)
    return sum(logged / whole * upper_bound(0 if faultless else k, n, shared) for logged, k, n in present)


def _p_value(parts: _Parts, alpha: float) -> float:
    """Return the lowest level at which the strata's upper bound is within alpha."""
    present = [part for part in parts if part[0] > 0]
    if len(present) == 1:
        return binomial_cdf(present[0][1], present[0][2], alpha)
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if _bound(parts, middle) <= alpha else (middle, high)
    return high


def _tail(k: int, n: int, alpha: float) -> float:
    """Return P(Bin(n, alpha) >= k): at delta or below, the lower Clopper-Pearson bound of k in n lies above alpha."""
    return 1.0 - binomial_cdf(k - 1, n, alpha)


def _holm(p_values: Mapping[float, float], level: float) -> list[float]:
    """Return the hypotheses that Holm's procedure rejects."""
    rejected: list[float] = []
    for at, p_value in sorted(p_values.items(), key=lambda pair: pair[1]):
        if p_value > level / (len(p_values) - len(rejected)):
            break
        rejected.append(at)
    return rejected


def differing(errors: Mapping[str, tuple[int, int]], level: float = DELTA / 2) -> list[str]:
    """Return the names whose error rate is significantly above that of the others together; `errors` are (k, n).

    By Fisher's exact test, one-sided, corrected by Holm.

    >>> differing({"summary": (2, 200), "memo": (1, 100), "contract": (9, 40)})
    ['contract']
    """
    names = list(errors)
    k_all, n_all = sum(k for k, _ in errors.values()), sum(n for _, n in errors.values())
    p_values = {float(at): _fisher(*errors[name], k_all, n_all) for at, name in enumerate(names)}
    return sorted(names[int(at)] for at in _holm(p_values, level))


def _fisher(k: int, n: int, k_all: int, n_all: int) -> float:
    """Return the probability that k or more of all errors fall on these n of all labels."""
    ways = sum(comb(n, i) * comb(n_all - n, k_all - i) for i in range(k, min(n, k_all) + 1))
    return ways / comb(n_all, k_all)


def _needed(n_all: _Ints, k_all: _Ints, stops: Sequence[int], alpha: float, delta: float) -> tuple[int, float]:
    """Return how many more agreeing labels would certify the nearest threshold, and how likely they all agree."""
    last = max(stops) if stops else len(n_all) - 1
    missing = [max(1, minimum_n(int(k_all[at]), alpha, delta) - int(n_all[at])) for at in range(last + 1)]
    nearest = missing.index(min(missing))
    rate = (int(k_all[nearest]) + PRIOR_ERRORS * PRIOR) / (int(n_all[nearest]) + PRIOR)
    return missing[nearest], (1 - rate) ** missing[nearest]


def _starts(testable: Sequence[int], audits: _Ints, count: int) -> list[int]:
    """Return where the test sequences start: the first testable threshold, then one at each further fifth of labels."""
    if not testable:
        return []
    shares = [int(audits[-1]) * part / count for part in range(count)]
    starts = [next((i for i, at in enumerate(testable) if audits[at] >= share), None) for share in shares]
    return sorted({start for start in starts if start is not None})


def _grid(confidence: _Floats) -> _Floats:
    """Return every threshold to try, highest first; it depends on no label."""
    steps = np.arange(50, 100) / 100
    return np.unique(np.concatenate([np.round(confidence, 2), steps]))[::-1]


def _counts(confidence: _Floats, chosen: NDArray[np.bool_], grid: _Floats) -> _Ints:
    """Return how many of the chosen reach each threshold."""
    values = np.sort(confidence[chosen])
    return (len(values) - np.searchsorted(values, grid, side="left")).astype(np.int64)


def _sound(confidence: _Floats) -> NDArray[np.bool_]:
    return np.isfinite(confidence) & (confidence >= 0) & (confidence <= 1)
