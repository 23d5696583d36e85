"""The auditor's queue: automatic decisions drawn at random, shown without the judge's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.access import same_person
from hive_agents.judging import drift, labels
from hive_agents.judging.decision_log import DecisionLog, unknown_decision
from hive_agents.judging.decisions import JudgedCase
from hive_agents.workspace import Workspace


@dataclass(frozen=True, slots=True)
class AuditItem:
    """What an auditor may see: the work, and nothing of how it was judged."""

    id: int
    at: str
    tenant: str
    goal_type: str
    goal_id: str | None
    run_id: str | None
    result: Any

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Audited:
    """An audit that was entered; only now may the auditor learn what the judge had said."""

    id: int
    action: str
    judge_action: str
    agrees: bool
    drift: drift.DriftState


def queue(workspace: Workspace, *, by: str | None = None, goal_type: str | None = None) -> list[AuditItem]:
    """What waits for an auditor, oldest first.

    Without `by`, all that nobody has audited; with it, all that this person has not: a second auditor
    of the same decision shows how far people agree among themselves.
    """
    rows = DecisionLog(workspace).rows(goal_type=goal_type)
    return [_item(row) for row in rows if row.audit and row.automatic and not _done(row, by)]


def answer(workspace: Workspace, decision_id: int, action: str, by: str, comment: str | None = None) -> Audited:
    """Enter an auditor's verdict, and weigh it in the drift test of its goal type.

    Raises: HIVE-409 when the decision was not drawn for audit, or the person has labelled it before.
    """
    row = DecisionLog(workspace).get(decision_id)
    if not row.audit or not row.automatic:
        raise unknown_decision(decision_id)
    state = labels.enter(workspace, decision_id, action, by, blind=True, comment=comment)
    return Audited(decision_id, action, row.action, action == row.action, state)


def human_agreement(rows: Sequence[JudgedCase]) -> tuple[int, int]:
    """How many decisions two or more people labelled, and on how many of them all said the same."""
    double = [row for row in rows if len(row.labels) >= 2]
    return len(double), sum(len({label.action for label in row.labels}) == 1 for row in double)


def _done(row: JudgedCase, by: str | None) -> bool:
    if by is not None:
        return any(same_person(label.by, by) for label in row.labels)
    return any(label.blind for label in row.labels)


def _item(row: JudgedCase) -> AuditItem:
    return AuditItem(row.id, row.at, row.tenant, row.goal_type, row.goal_id, row.run_id, row.result)
