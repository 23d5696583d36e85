"""Trials: measured configs, and their judgement by the rules of the gate and by evidence."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hive_agents.evaluation import GoldenSet, Reach, results
from hive_agents.gate import falling_tags
from hive_agents.goals import Goal
from hive_agents.judging import EvaluationRule, FeedbackContext, HybridJudge, Judgment, JudgmentAction, Signal
from hive_agents.optimizer.lane_cache import Scores
from hive_agents.optimizer.selection import EQUAL, standard_error
from hive_agents.ranking import Floats
from hive_agents.workspace.settings import Gate

TrialVerdict = Literal["accept", "retry"]
ANSWERS_DROP, REACH_DROP = 0.05, 0.03
"""What readers may lose by a step: answers, recall and first answers with one standard error to spare, and reach."""


@dataclass(frozen=True)
class Measured:
    """A config's scores on the open queries: `train` training queries, then the validation queries.

    `reached` is what those lose who know a document's title, None where it wasn't measured.
    """

    scores: Scores
    train: int
    reached: Reach | None = None

    def readers(self, before: Measured) -> dict[str, Any]:
        """Return the figures of readers on the open queries, as `Readers.to_json`."""
        pairs = {
            name: [_mean(getattr(side.scores, name)) for side in (before, self)]
            for name in ("answered", "recall", "first")
        }
        shown: dict[str, Any] = {name: None if None in pair else pair for name, pair in pairs.items()}
        reached = self.reached
        reach = list(reached.reach) if reached and reached.reach else None
        return shown | {"reach": reach, "hidden": reached.hidden if reached else None}

    @property
    def nudcg(self) -> Floats:
        """The nUDCG of each open query."""
        return self.scores.nudcg

    @property
    def mean(self) -> float:
        return float(self.nudcg.mean())

    @property
    def train_nudcg(self) -> float:
        return float(self.nudcg[: self.train].mean())

    @property
    def validation_nudcg(self) -> float | None:
        return float(self.nudcg[self.train :].mean()) if len(self.nudcg) > self.train else None

    @property
    def distractors(self) -> float:
        """The mean number per open query."""
        return float(self.scores.distractors.mean())

    @property
    def rerank_ms(self) -> float:
        """The time of reranking a query, as the 95th percentile of the open queries; 0 without reranking."""
        return results.percentile(sorted((1000 * self.scores.rerank_seconds).tolist()), 0.95) or 0.0


@dataclass(frozen=True)
class Refusal:
    """Why the rules refuse a config: `tags` are those proved to fall, `readers` the falling figures of readers, `more`
    tells whether there is another reason."""

    why: str
    tags: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    more: bool = False


GOAL = Goal(id="trial", name="A better config", goal_type="retrieval")
RULES = (
    EvaluationRule(
        id="readers_lose",
        condition="len(result['lost_readers']) > 0",
        action=JudgmentAction.RETRY,
        priority=4,
        description="readers lose: {lost_readers}",
    ),
    EvaluationRule(
        id="hides",
        condition="len(result['filtered']) > 0",
        action=JudgmentAction.RETRY,
        priority=3,
        description="it hides documents by {filtered}, which a person decides",
    ),
    EvaluationRule(
        id="tag_falls",
        condition="len(result['lost_tags']) > 0",
        action=JudgmentAction.RETRY,
        priority=2,
        description="nUDCG of {lost_in_words}",
    ),
    EvaluationRule(
        id="distractors_rise",
        condition="result['distractors'] > result['distractors_before'] + 1e-9",
        action=JudgmentAction.RETRY,
        priority=1,
        description="distractors rise from {distractors_before:.2f} to {distractors:.2f}",
    ),
    EvaluationRule(
        id="too_slow",
        condition="result['rerank_ms'] > max(result['floor_ms'], result['ratio'] * result['rerank_ms_before'])",
        action=JudgmentAction.RETRY,
        priority=0,
        description="reranking takes {rerank_ms:.0f} ms a query (p95), and the gate allows {floor_ms:.0f} ms",
    ),
)


@dataclass(frozen=True)
class MeasuredTrial:
    """A measured config to be judged; `filtered` names the fields whose filters hide more than the baseline's, and
    `taken` is whether it is the step of the rule."""

    measured: Measured
    filtered: str = ""
    taken: bool = False


def judge_trials(
    trials: Sequence[MeasuredTrial], baseline: Measured, incumbent: Measured, tuning: GoldenSet, gate: Gate
) -> list[tuple[TrialVerdict, str]]:
    """Return each trial's verdict and feedback: first by the rules of what readers and the gate allow, then by gain."""
    figures = [_figures(trial, baseline, incumbent, tuning, gate) for trial in trials]
    with ThreadPoolExecutor(1) as thread:  # the caller's thread may have a running loop, as in a notebook
        judgments = thread.submit(asyncio.run, _judged(figures)).result()
    return [
        ("accept" if judgment.action is JudgmentAction.ACCEPT else "retry", _reasoning(judgment, measured))
        for judgment, measured in zip(judgments, figures, strict=True)
    ]


async def _judged(figures: Sequence[Mapping[str, Any]]) -> list[Judgment]:
    judge = HybridJudge(RULES, evidence)
    return [await judge.evaluate(GOAL, one) for one in figures]


def refusal(trial: MeasuredTrial, baseline: Measured, tuning: GoldenSet, gate: Gate) -> Refusal | None:
    """Return the refusal of a config by all rules that match; None without one."""
    figures = _figures(trial, baseline, baseline, tuning, gate)
    reasons = {rule.id: rule.description.format_map(figures) for rule in RULES if rule.matches(figures)}
    if not reasons:
        return None
    tags = tuple(figures["lost_tags"]) if "tag_falls" in reasons else ()
    lost = tuple(_lost_readers(trial.measured, baseline))
    more = bool(reasons.keys() - {"tag_falls", "readers_lose", "hides"})
    return Refusal("; ".join(reasons.values()), tags, lost, more)


async def evidence(_: Goal, result: Any, __: FeedbackContext | None) -> Judgment:
    """Return the judgment of a config that no rule refuses: it is the step that is taken, or gains less."""
    gain, error = result["gain"], result["error"]
    why = f"{gain:+.3f} on the open queries, standard error {error:.3f}" if gain > EQUAL else "no gain there"
    action = JudgmentAction.ACCEPT if result["taken"] else JudgmentAction.RETRY
    if gain > EQUAL and not result["taken"]:
        why += ": another step goes first, or this one gains too little beyond the first"
    signal = Signal(source="evidence", action=action, confidence=1.0, detail=why)
    return Judgment(action=action, confidence=1.0, reasoning=why, signals=[signal])


def _figures(
    trial: MeasuredTrial, baseline: Measured, incumbent: Measured, tuning: GoldenSet, gate: Gate
) -> dict[str, Any]:
    new = trial.measured
    tags, gain = [query.tags for query in tuning], new.nudcg - incumbent.nudcg
    lost = [change for change in falling_tags(tags, baseline.nudcg.tolist(), new.nudcg.tolist(), gate) if change.blocks]
    return {
        "lost_readers": "; ".join(_lost_readers(new, baseline).values()),
        "filtered": trial.filtered,
        "taken": trial.taken,
        "lost_tags": [change.tag for change in lost],
        "lost_in_words": "; ".join(f'tag "{change.tag}" falls {change.figures}' for change in lost),
        "distractors": new.distractors,
        "distractors_before": baseline.distractors,
        "rerank_ms": new.rerank_ms,
        "rerank_ms_before": baseline.rerank_ms,
        "floor_ms": gate.latency_floor_ms,
        "ratio": gate.latency_ratio,
        "gain": float(gain.mean()),
        "error": standard_error(gain),
    }


def _lost_readers(new: Measured, baseline: Measured) -> dict[str, str]:
    """Return what readers lose beyond the budgets of a step: the figures by name, in words."""
    lost: dict[str, str] = {}
    for name in ("answered", "recall", "first"):
        before, after = getattr(baseline.scores, name), getattr(new.scores, name)
        change = (after - before)[~np.isnan(before)]
        if len(change) and float(change.mean()) - standard_error(change) < -ANSWERS_DROP - EQUAL:
            lost[name] = f"{name} {before[~np.isnan(before)].mean():.3f} -> {after[~np.isnan(after)].mean():.3f}"
    reached = new.reached
    if reached is not None and reached.reach is not None and reached.reach[1] < reached.reach[0] - REACH_DROP - EQUAL:
        lost["reach"] = f"reach {reached.reach[0]:.3f} -> {reached.reach[1]:.3f}"
    if reached is not None and reached.hidden:
        lost["hidden"] = f"{reached.hidden} documents can't be found any more"
    return lost


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _reasoning(judgment: Judgment, figures: Mapping[str, Any]) -> str:
    by_rule = judgment.rule_id is not None and not judgment.escalated
    return judgment.reasoning.format_map(figures) if by_rule else judgment.reasoning
