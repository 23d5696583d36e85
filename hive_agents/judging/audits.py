"""The auditor's queue: automatic decisions drawn at random, shown without the judge's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.access import LOCAL_TENANT, Principal, ViewGate, same_person
from hive_agents.base import count
from hive_agents.judging import drift, labels
from hive_agents.judging.decision_log import DecisionLog, unknown_decision
from hive_agents.judging.decisions import JudgedCase
from hive_agents.judging.learning.stages import LearnedRule, RuleBook
from hive_agents.store import documents_read
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
    """An entered audit, with the judge's action, which the auditor may see from now on."""

    id: int
    action: str
    judge_action: str
    agrees: bool
    drift: drift.DriftState


def queue(
    workspace: Workspace, *, by: str | None = None, goal_type: str | None = None, holder: Principal | None = None
) -> list[AuditItem]:
    """Return the decisions that wait for an audit, oldest first.

    Without `by`, those that nobody has audited; with it, those that this person has not: a second auditor
    of the same decision shows how far people agree. `holder` is an auditor with a token: they get
    what concerns their tenant or none, and rests on documents that they may view; None is the workspace's owner.
    """
    rows = DecisionLog(workspace).rows(goal_type=goal_type)
    return [
        _item(row)
        for row in rows
        if row.audit and row.automatic and not _done(row, by) and _may_see_work(workspace, row, holder)
    ]


def answer(
    workspace: Workspace,
    decision_id: int,
    action: str,
    by: str,
    comment: str | None = None,
    holder: Principal | None = None,
    makers: Sequence[str] = (),
) -> Audited:
    """Enter an auditor's verdict, and update the drift test of its goal type.

    Raises: HIVE-409 when the decision was not drawn for audit, isn't one that the `holder` of a token is shown, or the
    person, or one of the `makers` of their token, has labelled it before.
    """
    row = DecisionLog(workspace).get(decision_id)
    if not row.audit or not row.automatic or not _may_see_work(workspace, row, holder):
        raise unknown_decision(decision_id)
    state = labels.enter(workspace, decision_id, action, by, blind=True, comment=comment, makers=makers)
    return Audited(decision_id, action, row.action, action == row.action, state)


def human_agreement(rows: Sequence[JudgedCase]) -> tuple[int, int]:
    """Return how many decisions two or more people labelled, and on how many of them all agreed."""
    double = [row for row in rows if len(row.labels) >= 2]
    return len(double), sum(len({label.action for label in row.labels}) == 1 for row in double)


def left_out(rows: Sequence[JudgedCase]) -> list[str]:
    """Return, in words, which labels of automatic decisions are no evidence, and why; none where all are."""
    automatic = [row for row in rows if row.automatic]
    undrawn = sum(len(row.labels) for row in automatic if not row.audit)
    seen = sum(not label.blind for row in automatic if row.audit for label in row.labels)
    warnings = []
    if undrawn:
        were = "was no audit" if undrawn == 1 else "were no audits"
        warnings.append(
            f"{count(undrawn, 'label')} {were}: of what the judge decided alone only decisions count that were drawn at"
            " random, which `hive judge audit` lists"
        )
    if seen:
        were = "wasn't blind" if seen == 1 else "weren't blind"
        warnings.append(
            f"{count(seen, 'label')} of drawn decisions {were}: `hive judge audit ID --action …` enters those that are"
        )
    return warnings


def seen(workspace: Workspace, rows: Sequence[JudgedCase], holder: Principal | None) -> list[JudgedCase]:
    """Return the decisions whose work a token's holder may see; None is the workspace's owner, who sees all."""
    return [row for row in rows if _may_see_work(workspace, row, holder)]


def seen_rules(workspace: Workspace, holder: Principal | None) -> list[LearnedRule]:
    """Return the learned rules whose examples a token's holder may see: a rule's condition quotes them."""
    log, rules = DecisionLog(workspace), RuleBook(workspace).rules()
    if holder is None:
        return rules
    examples = [(rule, log.of(rule.proposal["examples"])) for rule in rules]
    return [rule for rule, rows in examples if rows and rows == seen(workspace, rows, holder)]


def _may_see_work(workspace: Workspace, row: JudgedCase, holder: Principal | None) -> bool:
    """Return whether an auditor sees the work: it may quote all that its run has read."""
    if holder is None:
        return True
    if row.tenant not in (LOCAL_TENANT, holder.tenant):
        return False
    read = documents_read(workspace, row.run_id) if row.run_id is not None else {}
    return ViewGate.of(workspace, holder).shows_all(frozenset().union(*read.values()))


def _done(row: JudgedCase, by: str | None) -> bool:
    if by is not None:
        return any(same_person(label.by, by) for label in row.labels)
    return any(label.blind for label in row.labels)


def _item(row: JudgedCase) -> AuditItem:
    return AuditItem(row.id, row.at, row.tenant, row.goal_type, row.goal_id, row.run_id, row.result)
