"""Judgement: rules, an evaluator and people, none of them trusted alone."""

from hive_agents.judging.attempts import Attempts
from hive_agents.judging.hybrid import HybridJudge, JudgeProtocol
from hive_agents.judging.rules import EvaluationRule
from hive_agents.judging.verdict import CapabilityLevel, FeedbackContext, Judgment, JudgmentAction, Signal

__all__ = [
    "Attempts",
    "CapabilityLevel",
    "EvaluationRule",
    "FeedbackContext",
    "HybridJudge",
    "JudgeProtocol",
    "Judgment",
    "JudgmentAction",
    "Signal",
]
