"""One idea, measured: what the loop passes around and a person reads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hive_agents.evaluation.evaluate import mean
from hive_agents.evaluation.golden import GoldenSet
from hive_agents.optimizer.lane_cache import Floats, Scores
from hive_agents.settings import Gate

Verdict = Literal["accept", "retry"]


@dataclass(frozen=True)
class Measured:
    """A config's scores on the training and the validation queries."""

    train: Scores
    validation: Scores

    @property
    def train_nudcg(self) -> float:
        return float(self.train.nudcg.mean())

    @property
    def validation_nudcg(self) -> float | None:
        return float(self.validation.nudcg.mean()) if len(self.validation.nudcg) else None

    @property
    def distractors(self) -> float:
        return float(self.train.distractors.mean())


def judge_trial(
    new: Measured, baseline: Measured, incumbent: Measured, tuning: GoldenSet, gate: Gate
) -> tuple[Verdict, str]:
    """Rules first (what the gate would block), then evidence; the feedback says what to do better."""
    for tag, before, after in _tags(tuning, baseline, new):
        if after < before - gate.tag_drop:
            return "retry", f'tag "{tag}" falls from {before:.2f} to {after:.2f}'
    if new.distractors > baseline.distractors + 1e-9:
        return "retry", f"distractors rise from {baseline.distractors:.2f} to {new.distractors:.2f}"
    gain = new.train_nudcg - incumbent.train_nudcg
    if gain <= 1e-9:
        return "retry", "no gain on the training queries" if gain > -1e-9 else f"{gain:+.3f} on the training queries"
    difference, error = paired_error(new.validation.nudcg, incumbent.validation.nudcg)
    if difference < -error:
        return "retry", f"gains on the training queries, and loses {-difference:.3f} on the validation queries"
    return "accept", f"{gain:+.3f} on the training queries"


def paired_error(a: Floats, b: Floats) -> tuple[float, float]:
    """Mean and standard error of a - b; (0, 0) without queries, an error of 0 with one.

    >>> paired_error(np.array([1.0, 0.5]), np.array([0.5, 0.5]))
    (0.25, 0.25)
    """
    if not len(a):
        return 0.0, 0.0
    delta = a - b
    error = float(delta.std(ddof=1)) / math.sqrt(len(delta)) if len(delta) > 1 else 0.0
    return float(delta.mean()), error


def _tags(tuning: GoldenSet, before: Measured, after: Measured) -> list[tuple[str, float, float]]:
    """Each tag's mean over train and validation together: a tag has few queries as it is."""
    rows: dict[str, list[int]] = {}
    for row, query in enumerate(tuning):
        for tag in dict.fromkeys(query.tags):
            rows.setdefault(tag, []).append(row)
    old, new = (np.concatenate([found.train.nudcg, found.validation.nudcg]) for found in (before, after))
    return [(tag, _mean(old, where), _mean(new, where)) for tag, where in sorted(rows.items())]


def _mean(values: Floats, where: list[int]) -> float:
    value = mean(values[where].tolist())
    assert value is not None
    return value


def simplest(candidates: list[tuple[int, Floats, Any]]) -> Any:
    """The candidate with the fewest changes within one standard error of the best mean.

    Each is (number of changes, per-query scores, payload). Source: the one-standard-error rule of Breiman et al.,
    "Classification and Regression Trees" (1984), with paired differences. Ties go to the higher mean, then to the
    earlier candidate.
    """
    best = max(candidates, key=lambda candidate: float(candidate[1].mean()))
    within = []
    for place, (changes, scores, payload) in enumerate(candidates):
        difference, error = paired_error(best[1], scores)
        if difference <= error + 1e-12:
            within.append((changes, -float(scores.mean()), place, payload))
    return min(within, key=lambda entry: entry[:3])[3]


def by_folds(candidates: list[tuple[int, Floats, Any]], folds: int = 5) -> Any:
    """Selection without a validation split: the config that `simplest` picks most often with a fold left out."""
    n = len(candidates[0][1])
    places = np.arange(n) % min(folds, max(n, 1))
    votes: dict[int, int] = {}
    for fold in range(int(places.max(initial=0)) + 1):
        kept = places != fold
        numbered = [
            (changes, scores[kept] if kept.any() else scores, place)
            for place, (changes, scores, _) in enumerate(candidates)
        ]
        winner = simplest(numbered)
        votes[winner] = votes.get(winner, 0) + 1
    return candidates[min(votes, key=lambda place: (-votes[place], place))][2]
