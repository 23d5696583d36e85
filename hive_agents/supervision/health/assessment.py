"""A model's assessment of findings, which may raise their severity and change nothing else."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence

from hive_agents.base.files import Format
from hive_agents.events import SEVERITIES, TicketSeverity
from hive_agents.models import Chain, Message, prompts
from hive_agents.supervision.health.criteria import Criteria
from hive_agents.supervision.health.tickets import TicketChange
from hive_agents.workspace import Workspace

MOST = 40
"""Most findings in one call, the most severe first."""

_SHOWN = 1_000
_FINDING = {"run_id", "agent", "node_id", "cause", "severity", "evidence", "first_seen", "ticks"}


class Assessment(Format):
    ticket: str
    severity: TicketSeverity
    assessment: str


class Assessments(Format):
    assessments: list[Assessment]


async def assessed(
    workspace: Workspace,
    chain: Chain,
    criteria: Sequence[Criteria],
    observations: Sequence[str],
    changes: Sequence[TicketChange],
) -> list[TicketChange]:
    """Return the same changes, some with a higher severity and an assessment.

    Raises: ModelError; HIVE-105, HIVE-106 for a workspace's own prompt that can't be used.
    """
    findings = sorted((one for one in changes if one.kind != "resolved"), key=_gravity, reverse=True)[:MOST]
    if not findings:
        return list(changes)
    prompt = prompts.load(
        "health_judge",
        workspace,
        principles="\n".join(f"- {one}" for one in _principles(criteria)) or "(none)",
        criteria=_lines([one.for_model() for one in criteria]),
        observations="\n".join(observations) or "(none)",
        findings=_lines([{"ticket": one.ticket.id, **one.ticket.model_dump(include=_FINDING)} for one in findings]),
        fence=f"-----{secrets.token_hex(8)}-----",
    )
    result = await chain.complete([Message(role="user", content=prompt)], schema=Assessments)
    answer = Assessments.model_validate(result.structured or {"assessments": []})
    by_ticket = {one.ticket: one for one in answer.assessments}
    return [_with(change, by_ticket.get(change.ticket.id)) for change in changes]


def _with(change: TicketChange, assessment: Assessment | None) -> TicketChange:
    if assessment is None:
        return change
    return change.assessed(assessment.severity, " ".join(assessment.assessment.split())[:_SHOWN] or None)


def _gravity(change: TicketChange) -> tuple[int, int]:
    return SEVERITIES.index(change.ticket.severity), change.kind == "opened"


def _principles(criteria: Sequence[Criteria]) -> list[str]:
    return list(dict.fromkeys(principle for one in criteria for principle in one.principles))


def _lines(values: Sequence[object]) -> str:
    return "\n".join(json.dumps(value, ensure_ascii=False) for value in values) or "(none)"
