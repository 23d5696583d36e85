"""Proposals of mining for people: a rule, its evidence, and its edge cases."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from hive_agents.base import sha256
from hive_agents.base.files import Format

PRIORITY = 150


class RuleProposal(Format):
    """A rule that nobody has approved yet.

    `confidence` is the one-sided 95 % lower bound of its agreement with people, so 10 of 10 is 0.741;
    `coverage` the share of the escalations that it would have decided; `edge_cases` say what to look at. Its `id` is
    that of the rule; `agreements` of `support` runs, labelled by `reviewers`, agree with it.

    >>> from hive_agents.judging.binomial import lower_bound
    >>> pattern, examples = "code contains 'eval('", list(range(1, 11))
    >>> rule = proposed_rule("'eval(' in result.get('code', '')", "retry", ["code"], pattern, examples)
    >>> proposal = RuleProposal(
    ...     trigger_pattern=pattern, human_action="retry", confidence=lower_bound(10, 10), coverage=0.2,
    ...     examples=examples, edge_cases=[], proposed_rule=rule,
    ... )
    >>> round(proposal.confidence, 3), proposal.id == rule["id"], rule["mode"]
    (0.741, True, 'shadow')
    """

    trigger_pattern: str
    human_action: str
    confidence: float
    coverage: float
    examples: list[int]
    edge_cases: list[str]
    proposed_rule: dict[str, Any]
    id: str = Field(default_factory=lambda values: str(values["proposed_rule"].get("id")))
    support: int = 0
    agreements: int = 0
    reviewers: list[str] = []
    p_value: float | None = None


def rule_id(condition: str, action: str, goal_types: list[str]) -> str:
    """Return the id of a pattern, the same whenever it is mined.

    >>> rule_id("'eval(' in str(result.get('code', ''))", "escalate", ["security"])
    'learned_151a3321eb'
    """
    text = "\n".join([condition, action, *goal_types])
    return f"learned_{sha256(text)[:10]}"


def proposed_rule(
    condition: str, action: str, goal_types: list[str], pattern: str, decisions: list[int]
) -> dict[str, Any]:
    """Return the fields of an `EvaluationRule`; a learned rule starts in the shadow and below every manual priority."""
    return {
        "id": rule_id(condition, action, goal_types),
        "description": f"People decided {action} where {pattern}",
        "condition": condition,
        "action": action,
        "priority": PRIORITY,
        "goal_types": goal_types,
        "mode": "shadow",
        "metadata": {"source": "learned", "examples": decisions, "approved_by": []},
    }
