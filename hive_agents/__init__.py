"""Hive Agents: goal-driven agents on LangGraph that know when they don't know.

The public names are loaded on first use: importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.agents import AgentSpec, EdgeSpec, NodeSpec, SubagentJudge
    from hive_agents.approvals import ApprovalRequest
    from hive_agents.copilot import DocumentFilter, Plan, RouterDecision, SearchStrategy
    from hive_agents.errors import Diagnostic, HiveError
    from hive_agents.evaluation import Evaluation, evaluate  # type: ignore[no-redef]
    from hive_agents.events import EscalationTicket, Event, EventBus, EventType
    from hive_agents.goals import Constraint, Goal, SuccessCriterion
    from hive_agents.judging import (
        CapabilityLevel,
        EvaluationRule,
        FeedbackContext,
        HybridJudge,
        JudgeProtocol,
        Judgment,
        JudgmentAction,
        Signal,
    )
    from hive_agents.judging.learning import RuleProposal
    from hive_agents.judging.metrics import CalibrationMetrics
    from hive_agents.judging.weights import SignalWeights
    from hive_agents.memory import ContextHandoff, ConversationStore, DataBuffer, OutputAccumulator, ToolResult
    from hive_agents.retrieval import Collection, Hit, IndexReport, Ranking, RetrievalConfig, SearchEngine
    from hive_agents.runtime.runtime import Runtime
    from hive_agents.workspace import Workspace

_HOMES = {
    "AgentSpec": "agents",
    "ApprovalRequest": "approvals",
    "CalibrationMetrics": "judging.metrics",
    "CapabilityLevel": "judging",
    "Collection": "retrieval",
    "Constraint": "goals",
    "ContextHandoff": "memory",
    "ConversationStore": "memory",
    "DataBuffer": "memory",
    "Diagnostic": "errors",
    "DocumentFilter": "copilot",
    "EdgeSpec": "agents",
    "EscalationTicket": "events",
    "Evaluation": "evaluation",
    "EvaluationRule": "judging",
    "Event": "events",
    "EventBus": "events",
    "EventType": "events",
    "FeedbackContext": "judging",
    "Goal": "goals",
    "Hit": "retrieval",
    "HiveError": "errors",
    "HybridJudge": "judging",
    "IndexReport": "retrieval",
    "JudgeProtocol": "judging",
    "Judgment": "judging",
    "JudgmentAction": "judging",
    "NodeSpec": "agents",
    "OutputAccumulator": "memory",
    "Plan": "copilot",
    "Principal": "access",
    "Ranking": "retrieval",
    "RetrievalConfig": "retrieval",
    "RouterDecision": "copilot",
    "RuleProposal": "judging.learning",
    "Runtime": "runtime.runtime",
    "SearchEngine": "retrieval",
    "SearchStrategy": "copilot",
    "Signal": "judging",
    "SignalWeights": "judging.weights",
    "SubagentJudge": "agents",
    "SuccessCriterion": "goals",
    "ToolResult": "memory",
    "Workspace": "workspace",
    "evaluate": "evaluation",
}

__all__ = [
    "AgentSpec",
    "ApprovalRequest",
    "CalibrationMetrics",
    "CapabilityLevel",
    "Collection",
    "Constraint",
    "ContextHandoff",
    "ConversationStore",
    "DataBuffer",
    "Diagnostic",
    "DocumentFilter",
    "EdgeSpec",
    "EscalationTicket",
    "Evaluation",
    "EvaluationRule",
    "Event",
    "EventBus",
    "EventType",
    "FeedbackContext",
    "Goal",
    "Hit",
    "HiveError",
    "HybridJudge",
    "IndexReport",
    "JudgeProtocol",
    "Judgment",
    "JudgmentAction",
    "NodeSpec",
    "OutputAccumulator",
    "Plan",
    "Principal",
    "Ranking",
    "RetrievalConfig",
    "RouterDecision",
    "RuleProposal",
    "Runtime",
    "SearchEngine",
    "SearchStrategy",
    "Signal",
    "SignalWeights",
    "SubagentJudge",
    "SuccessCriterion",
    "ToolResult",
    "Workspace",
    "evaluate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
