"""Which of the measured configs goes to the gate: by all open queries, and without changes that don't pay.

The rule was settled by `benchmarks/optimizer.py --rules`: regret on unseen queries over many splits of worlds that
differ. The best of many noisy means is too good to be true; what stands high in most resamples is less so. Of what the
open queries can't tell apart from that, the config with the fewest distractors costs nothing on unseen queries. Neither
takes what falls far short of the best mean: nobody should have to believe in a rule against plain figures.
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
"""Means that differ by less are equal: they differ by the order of additions."""
NEAR = 0.25
"""A shortfall of so many standard errors is none: larger ones cost on unseen queries, by repeated splits."""
SHORT = 0.005
"""No config is chosen whose mean is so far below the best that may be chosen, whatever speaks for it."""
RESAMPLES = 300
_SEED = 11


@dataclass(frozen=True)
class Candidate:
    """`gain` is the paired gain over the baseline, a value an open query; `changes` are from the baseline.

    `distractors` is the mean over the open queries.
    """

    changes: Sequence[ConfigChange]
    gain: Floats
    distractors: float = 0.0

    @property
    def mean(self) -> float:
        return float(self.gain.mean())


def standard_error(gain: Floats) -> float:
    """Return the standard error of the mean; 0 for one query, whose spread can't be known.

    >>> import numpy as np
    >>> standard_error(np.array([0.5, 0.0]))
    0.25
    """
    return float(gain.std(ddof=1)) / math.sqrt(len(gain)) if len(gain) > 1 else 0.0


def by_mean_rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that gain at all, the highest mean rank first.

    The open queries are resampled `RESAMPLES` times with replacement; each resample ranks the candidates by their mean
    gain there. Candidates whose gains are the same share a rank. Ties go to fewer changes, then to the earlier one.
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
    """Return the candidate with the highest mean gain that is `allowed`, the first of equal ones; None without one."""
    return next(filter(allowed, sorted(candidates, key=lambda candidate: -round(candidate.mean, 12))), None)


def close_to(best: Candidate, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates whose mean gain is at most `SHORT` below that of `best`, in their order."""
    return [candidate for candidate in candidates if candidate.mean >= best.mean - SHORT - EQUAL]


def fewest_distractors(leader: Candidate, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return those of `leader` and `candidates` that fall short of `leader` by `NEAR` standard errors at most.

    The fewest distractors come first, the leader before others with as many; else the order stays.
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
    """Return the changes that pay: what can be taken out without lowering the mean is out.

    `mean_of` gives the mean over the open queries with just these changes, and None where such a config may not be
    chosen. Changes are tried alone and, since some work only together, all of one block at once; the removal that
    leaves the highest mean comes first, of equal ones the larger, until nothing can go.
    """
    kept, mean = list(changes), mean_of(changes)
    while mean is not None:
        tried = [(left, mean_of(left)) for left in _removals(kept)]
        possible = [(value, left) for left, value in tried if value is not None and value >= mean - EQUAL]
        if not possible:
            break
        mean, kept = max(possible, key=lambda one: (round(one[0], 12), -len(one[1])))
    return kept


def _removals(changes: Sequence[ConfigChange]) -> Iterator[list[ConfigChange]]:
    """Yield what is left without one change, and without all changes of one block, such as dynamic_k."""
    paths = [change["path"] for change in changes]
    blocks = [path.rpartition(".")[0] for path in paths]
    out = [{path} for path in paths]
    out += [
        {path for path, of in zip(paths, blocks, strict=True) if of == block}
        for block in dict.fromkeys(blocks)
        if blocks.count(block) > 1
    ]
    for removed in out:
        yield [change for change in changes if change["path"] not in removed]
