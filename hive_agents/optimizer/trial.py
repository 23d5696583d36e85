"""Trials: measured configs, and their judgement by the rules of the gate and by evidence."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from hive_agents.evaluation import GoldenSet, percentile
from hive_agents.gate import falling_tags
from hive_agents.goals import Goal
from hive_agents.judging import EvaluationRule, FeedbackContext, HybridJudge, Judgment, JudgmentAction, Signal
from hive_agents.optimizer.cached_lanes import Floats
from hive_agents.optimizer.lane_cache import Scores
from hive_agents.optimizer.selection import EQUAL, standard_error
from hive_agents.workspace.settings import Gate

TrialVerdict = Literal["accept", "retry"]
EVIDENCE = 1.5
"""A step must gain so many standard errors. The best of some hundred steps is overestimated: with less evidence, a
search over few queries fits their noise and does worse on unseen queries than no search at all."""


@dataclass(frozen=True)
class Measured:
    """A config's scores on the open queries: `train` training queries, then the validation queries."""

    scores: Scores
    train: int

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
        return percentile(sorted((1000 * self.scores.rerank_seconds).tolist()), 0.95) or 0.0


@dataclass(frozen=True)
class Refusal:
    """Why the rules refuse a config: `tags` are those proved to fall, `more` tells whether there is another reason."""

    why: str
    tags: tuple[str, ...] = ()
    more: bool = False


GOAL = Goal(id="trial", name="A better config", goal_type="retrieval")
RULES = (
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


def judge_trials(
    trials: Sequence[Measured], baseline: Measured, incumbent: Measured, tuning: GoldenSet, gate: Gate
) -> list[tuple[TrialVerdict, str]]:
    """Return each trial's verdict and feedback: first by the rules of what the gate would block, then by evidence."""
    figures = [_figures(new, baseline, incumbent, tuning, gate) for new in trials]
    with ThreadPoolExecutor(1) as thread:  # the caller's thread may have a running loop, as in a notebook
        judgments = thread.submit(asyncio.run, _judged(figures)).result()
    return [
        ("accept" if judgment.action is JudgmentAction.ACCEPT else "retry", _reasoning(judgment, measured))
        for judgment, measured in zip(judgments, figures, strict=True)
    ]


async def _judged(figures: Sequence[Mapping[str, Any]]) -> list[Judgment]:
    judge = HybridJudge(RULES, evidence)
    return [await judge.evaluate(GOAL, one) for one in figures]


def refusal(new: Measured, baseline: Measured, tuning: GoldenSet, gate: Gate) -> Refusal | None:
    """Return the refusal of a config by all rules that match; None without one."""
    figures = _figures(new, baseline, baseline, tuning, gate)
    reasons = {rule.id: rule.description.format_map(figures) for rule in RULES if rule.matches(figures)}
    if not reasons:
        return None
    tags = tuple(figures["lost_tags"]) if "tag_falls" in reasons else ()
    return Refusal("; ".join(reasons.values()), tags, bool(reasons.keys() - {"tag_falls"}))


async def evidence(_: Goal, result: Any, __: FeedbackContext | None) -> Judgment:
    """Return the judgment by the gain over the incumbent on the open queries, which must exceed their noise."""
    gain, error = result["gain"], result["error"]
    why = f"{gain:+.3f} on the open queries" if abs(gain) > EQUAL else "no gain on the open queries"
    proved = gain > EQUAL and gain > EVIDENCE * error
    if gain > EQUAL and not proved:
        why += f", of which {error:.3f} is the standard error: too little to build on"
    action = JudgmentAction.ACCEPT if proved else JudgmentAction.RETRY
    signal = Signal(source="evidence", action=action, confidence=1.0, detail=why)
    return Judgment(action=action, confidence=1.0, reasoning=why, signals=[signal])


def _figures(new: Measured, baseline: Measured, incumbent: Measured, tuning: GoldenSet, gate: Gate) -> dict[str, Any]:
    tags, gain = [query.tags for query in tuning], new.nudcg - incumbent.nudcg
    lost = [change for change in falling_tags(tags, baseline.nudcg.tolist(), new.nudcg.tolist(), gate) if change.blocks]
    return {
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


def _reasoning(judgment: Judgment, figures: Mapping[str, Any]) -> str:
    by_rule = judgment.rule_id is not None and not judgment.escalated
    return judgment.reasoning.format_map(figures) if by_rule else judgment.reasoning
