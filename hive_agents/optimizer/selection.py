"""The choice of one step: the highest gain of those that cost readers nothing beyond their budgets.

Settled over eight worlds and up to forty redraws of their questions: what searches for more fits the questions that it
searches with, and pays in answers that readers no longer get. `benchmarks/optimizer.py --redraw` repeats it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.ranking import Floats

ConfigChange = dict[str, Any]
EQUAL = 1e-12
"""Means that differ by less are equal: only the order of additions differs."""
SECOND = 3.0
"""A second step of a run must gain so many standard errors; the first only has to gain."""


@dataclass(frozen=True)
class Candidate:
    """A measured config: its changes from the baseline, and its gain over the baseline by open query, shape `(n,)`.

    `distractors` is the mean over the open queries; `boost` tells whether its last change is a declared boost.
    """

    changes: Sequence[ConfigChange]
    gain: Floats
    distractors: float = 0.0
    boost: bool = False

    @property
    def mean(self) -> float:
        return float(self.gain.mean())


def standard_error(gain: Floats) -> float:
    """Return the standard error of the mean; 0 for one query.

    >>> import numpy as np
    >>> standard_error(np.array([0.5, 0.0]))
    0.25
    """
    return float(gain.std(ddof=1)) / math.sqrt(len(gain)) if len(gain) > 1 else 0.0


def step(kept: Sequence[Candidate], before: Candidate | None = None) -> Candidate | None:
    """Return the candidate for the next step, out of those within the budgets of readers; None where none helps.

    It has the highest mean gain; a boost that falls short of it by at most one standard error goes first, as it hides
    nothing. Ties go to fewer changes, then to fewer distractors. After a first step `before`, the gain over that step
    has to exceed `SECOND` standard errors.
    """

    def own(candidate: Candidate) -> Floats:
        return candidate.gain if before is None else candidate.gain - before.gain

    helping = [
        one for one in kept if float(own(one).mean()) > EQUAL + (SECOND * standard_error(own(one)) if before else 0.0)
    ]
    ordered = sorted(helping, key=lambda one: (-round(one.mean, 12), len(one.changes), round(one.distractors, 12)))
    if not ordered:
        return None
    best = ordered[0]
    for candidate in ordered:
        short = best.gain - candidate.gain
        if candidate.boost and float(short.mean()) <= standard_error(short) + EQUAL:
            return candidate
    return best
