"""The choice of the config for the gate: by all open queries, and without changes that don't pay.

The rule is the one of least regret on unseen queries, over many splits of different worlds, in
`benchmarks/optimizer.py --rules`. The best of many noisy means is overestimated, a high rank in most resamples less so.
Of the configs that the open queries can't distinguish from that, the one with the fewest distractors costs nothing on
unseen queries. No config far below the best mean is chosen, as nobody could justify it by the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hive_agents.optimizer.cached_lanes import Floats

ConfigChange = dict[str, Any]
EQUAL = 1e-12
"""Means that differ by less are equal: only the order of additions differs."""
NEAR = 0.25
"""Shortfalls of up to so many standard errors are ignored; in repeated splits larger ones cost on unseen queries."""
SHORT = 0.005
"""No config is chosen whose mean is lower than the best permitted one by more than this."""
RESAMPLES = 300
_SEED = 11


@dataclass(frozen=True)
class Candidate:
    """A measured config: its changes from the baseline, and its gain over the baseline by open query, shape `(n,)`.

    `distractors` is the mean over the open queries.
    """

    changes: Sequence[ConfigChange]
    gain: Floats
    distractors: float = 0.0

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


def by_mean_rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates with a gain, the highest mean rank first.

    The open queries are resampled `RESAMPLES` times with replacement; each resample ranks the candidates by their mean
    gain there. Candidates with the same gains share a rank. Ties go to fewer changes, then to the earlier one.
    """
    gaining = [candidate for candidate in candidates if candidate.mean > EQUAL]
    if not gaining:
        return []
    distinct, places = np.unique(np.stack([one.gain for one in gaining]).round(12), axis=0, return_inverse=True)
    n = distinct.shape[1]
    weights = np.random.default_rng(_SEED).multinomial(n, np.full(n, 1 / n), RESAMPLES) / n
    means = (distinct @ weights.T).round(12)
    ranks = means.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable").mean(axis=1)[places.ravel()]
    order = sorted(range(len(gaining)), key=lambda place: (-ranks[place], len(gaining[place].changes)))
    return [gaining[place] for place in order]


def best_mean(candidates: Sequence[Candidate], allowed: Callable[[Candidate], bool]) -> Candidate | None:
    """Return the `allowed` candidate with the highest mean gain, the first of equal ones; None without one."""
    return next(filter(allowed, sorted(candidates, key=lambda candidate: -round(candidate.mean, 12))), None)


def close_to(best: Candidate, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates whose mean gain is at most `SHORT` below that of `best`, in their order."""
    return [candidate for candidate in candidates if candidate.mean >= best.mean - SHORT - EQUAL]


def fewest_distractors(leader: Candidate, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return `leader` and the candidates that fall short of it by at most `NEAR` standard errors.

    The fewest distractors come first, on ties the leader, then the others in their order.
    """
    near = [leader]
    for candidate in candidates:
        short = leader.gain - candidate.gain
        if float(short.mean()) <= NEAR * standard_error(short) + EQUAL and candidate.mean > EQUAL:
            near.append(candidate)
    return sorted(near, key=lambda candidate: round(candidate.distractors, 12))


def ablated(
    changes: Sequence[ConfigChange], mean_of: Callable[[Sequence[ConfigChange]], float | None]
) -> list[ConfigChange]:
    """Return the changes that pay: those that can be removed without lowering the mean are removed.

    `mean_of` returns the mean over the open queries with just these changes, None where such a config may not be
    chosen. Removed are single changes and, since some work only together, all changes of a block; the removal that
    leaves the highest mean comes first, of equal ones the larger, until none is possible.
    """
    remaining, mean = list(changes), mean_of(changes)
    while mean is not None:
        tried = [(fewer, mean_of(fewer)) for fewer in _removals(remaining)]
        possible = [(value, fewer) for fewer, value in tried if value is not None and value >= mean - EQUAL]
        if not possible:
            break
        mean, remaining = max(possible, key=lambda one: (round(one[0], 12), -len(one[1])))
    return remaining


def _removals(changes: Sequence[ConfigChange]) -> Iterator[list[ConfigChange]]:
    """Yield the changes without each one, and without all of each block, such as dynamic_k."""
    paths = [change["path"] for change in changes]
    blocks = [path.rpartition(".")[0] for path in paths]
    removals = [{path} for path in paths]
    removals += [
        {path for path, of in zip(paths, blocks, strict=True) if of == block}
        for block in dict.fromkeys(blocks)
        if blocks.count(block) > 1
    ]
    for removed in removals:
        yield [change for change in changes if change["path"] not in removed]
