"""Verdicts, and the types that they consist of."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from hive_agents.base.files import AnyCase, Format


class JudgmentAction(StrEnum):
    """The action on a result.

    >>> [str(action) for action in JudgmentAction]
    ['accept', 'retry', 'replan', 'escalate']
    """

    ACCEPT = "accept"
    RETRY = "retry"
    REPLAN = "replan"
    ESCALATE = "escalate"


EscalationReason = Literal[
    "hard_constraint",
    "constraint_not_evaluated",
    "rule_escalate",
    "rule_error",
    "low_confidence",
    "no_semantic_evaluator",
    "model_error",
    "unparsable",
    "confidence_out_of_range",
    "panel_disagreement",
    "retries_exhausted",
    "replans_exhausted",
    "drift",
    "budget",
]
SignalSource = Literal["rule", "llm", "evidence", "human"]
EVALUATORS = ("llm", "evidence")
"""The sources whose confidence is weighed against what people decide."""
Confidence = Annotated[float, Field(ge=0, le=1)]


def _action(value: Any) -> Any:
    """Return the member for its value or its name: files and models write either, in any case."""
    by_value = {action.value: action for action in JudgmentAction}
    action = by_value.get(value.strip().lower()) if isinstance(value, str) else None
    if action is None:
        raise ValueError(f"use one of {', '.join(by_value)}")
    return action


Action = Annotated[JudgmentAction, BeforeValidator(_action)]


class Signal(Format):
    """One opinion behind a judgment.

    >>> Signal(source="llm", action="accept", confidence=0.91, detail="all is there").action
    <JudgmentAction.ACCEPT: 'accept'>
    """

    source: Annotated[SignalSource, AnyCase]
    action: Action
    confidence: Confidence
    detail: str = ""


class Judgment(Format):
    """A verdict with its reasons.

    `satisfaction` is the weighted share of what could be evaluated, None when nothing could; `absent` names the
    criteria without a score, `violations` the constraints that are violated. `tried` maps each shadow or learned rule
    to whether it matches, None where it raised; `decision_id` is the number in the decision log, once logged.

    With `outage` no model could be reached: nothing was judged, and no person is asked either. With `asked_again` a
    stronger judge was asked, because the first wasn't sure enough; its signal is the last.

    >>> Judgment(action=JudgmentAction.ACCEPT, confidence=0.9, reasoning="complete").model_dump(mode="json")["action"]
    'accept'
    """

    action: Action
    confidence: Confidence
    reasoning: str
    feedback: str | None = None
    rule_id: str | None = None
    escalation_reason: EscalationReason | None = None
    signals: list[Signal] = []
    satisfaction: Confidence | None = None
    scores: dict[str, Confidence] = {}
    absent: list[str] = []
    violations: list[str] = []
    tried: dict[str, bool | None] = {}
    outage: bool = Field(default=False, exclude=True, repr=False)
    asked_again: bool = Field(default=False, exclude=True, repr=False)
    decision_id: int | None = None

    @property
    def escalated(self) -> bool:
        return self.action is JudgmentAction.ESCALATE


class FailedStep(Format):
    """A step that was tried and did not work."""

    step_id: str
    attempts: Annotated[int, Field(ge=1)] = 1
    errors: list[str] = []


class FeedbackContext(Format):
    """The work so far, for a judge and, after a REPLAN, the planner.

    `succeeded_calls` names the tools that a call of succeeded; None where calls aren't known.

    >>> failed = {"step_id": "write", "attempts": 2, "errors": ["no source is cited"]}
    >>> FeedbackContext(completed_steps=["collect"], failed_steps=[failed]).failed_steps[0].attempts
    2
    """

    completed_steps: list[str] = []
    failed_steps: list[FailedStep] = []
    accumulated_context: dict[str, Any] = {}
    constraints_violated: list[str] = []
    succeeded_calls: list[str] | None = None
