"""One idea, measured: what the loop passes around and a person reads."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hive_agents.evaluation.evaluate import mean
from hive_agents.evaluation.golden import GoldenSet
from hive_agents.goals import Goal
from hive_agents.judging.hybrid import HybridJudge
from hive_agents.judging.rules import EvaluationRule
from hive_agents.judging.verdict import FeedbackContext, Judgment, JudgmentAction, Signal
from hive_agents.optimizer.cached_lanes import Floats
from hive_agents.optimizer.lane_cache import Scores
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


GOAL = Goal(id="trial", name="A better config", goal_type="retrieval")
RULES = (
    EvaluationRule(
        id="tag_falls",
        condition="result['tag'] is not None and result['tag']['after'] < result['tag']['before'] - result['tag_drop']",
        action=JudgmentAction.RETRY,
        priority=2,
        description='tag "{tag[name]}" falls from {tag[before]:.2f} to {tag[after]:.2f}',
    ),
    EvaluationRule(
        id="distractors_rise",
        condition="result['distractors'] > result['distractors_before'] + 1e-9",
        action=JudgmentAction.RETRY,
        priority=1,
        description="distractors rise from {distractors_before:.2f} to {distractors:.2f}",
    ),
)


def judge_trial(
    new: Measured, baseline: Measured, incumbent: Measured, tuning: GoldenSet, gate: Gate
) -> tuple[Verdict, str]:
    """Rules first (what the gate would block), then evidence; the feedback says what to do better."""
    difference, error = paired_error(new.validation.nudcg, incumbent.validation.nudcg)
    falling = [
        {"name": tag, "before": before, "after": after}
        for tag, before, after in _tags(tuning, baseline, new)
        if after < before - gate.tag_drop
    ]
    figures = {
        "tag": falling[0] if falling else None,
        "tag_drop": gate.tag_drop,
        "distractors": new.distractors,
        "distractors_before": baseline.distractors,
        "gain": new.train_nudcg - incumbent.train_nudcg,
        "validation": difference,
        "validation_error": error,
    }
    with ThreadPoolExecutor(1) as thread:  # the caller's own may have a running loop, as in a notebook
        judgment = thread.submit(asyncio.run, HybridJudge(RULES, evidence).evaluate(GOAL, figures)).result()
    by_rule = judgment.rule_id is not None and not judgment.escalated
    told = judgment.reasoning.format_map(figures) if by_rule else judgment.reasoning
    return ("accept" if judgment.action is JudgmentAction.ACCEPT else "retry"), told


async def evidence(_: Goal, result: Any, __: FeedbackContext | None) -> Judgment:
    """What the measured figures say: a gain on the training queries that the validation queries don't gainsay."""
    gain, difference = result["gain"], result["validation"]
    action, why = JudgmentAction.RETRY, f"{gain:+.3f} on the training queries"
    if abs(gain) <= 1e-9:
        why = "no gain on the training queries"
    elif gain > 0 and difference < -result["validation_error"]:
        why = f"gains on the training queries, and loses {-difference:.3f} on the validation queries"
    elif gain > 0:
        action = JudgmentAction.ACCEPT
    signal = Signal(source="evidence", action=action, confidence=1.0, detail=why)
    return Judgment(action=action, confidence=1.0, reasoning=why, signals=[signal])


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
