"""Measure configs against known-good answers, with a metric that punishes distractors."""

from hive_agents.evaluation.compare import Comparison, compare
from hive_agents.evaluation.evaluate import Evaluation, QueryEvaluation, evaluate
from hive_agents.evaluation.golden import GoldenQuery, GoldenSet, load_golden

__all__ = [
    "Comparison",
    "Evaluation",
    "GoldenQuery",
    "GoldenSet",
    "QueryEvaluation",
    "compare",
    "evaluate",
    "load_golden",
]
