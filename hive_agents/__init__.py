"""Hive Agents: goal-driven agents on LangGraph that know when they don't know.

The public names are loaded on first use: importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_agents.lazy import lazy

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
    from hive_agents.searchable import Workspace

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "access": "Principal",
            "agents": "AgentSpec EdgeSpec NodeSpec SubagentJudge",
            "approvals": "ApprovalRequest",
            "copilot.plan": "DocumentFilter Plan RouterDecision SearchStrategy",
            "errors": "Diagnostic HiveError",
            "evaluation": "Evaluation evaluate",
            "events": "EscalationTicket Event EventBus EventType",
            "goals": "Constraint Goal SuccessCriterion",
            "judging": (
                "CapabilityLevel EvaluationRule FeedbackContext HybridJudge JudgeProtocol Judgment "
                "JudgmentAction Signal"
            ),
            "judging.learning": "RuleProposal",
            "judging.metrics": "CalibrationMetrics",
            "judging.weights": "SignalWeights",
            "memory": "ContextHandoff ConversationStore DataBuffer OutputAccumulator ToolResult",
            "retrieval": "Collection Hit IndexReport Ranking RetrievalConfig SearchEngine",
            "runtime.runtime": "Runtime",
            "searchable": "Workspace",
        },
    )
