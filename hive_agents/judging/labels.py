"""People's verdicts, which update the drift test and learned rules."""

from __future__ import annotations

from collections.abc import Sequence

from hive_agents.access import person
from hive_agents.judging import drift
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.decisions import JudgedCase
from hive_agents.judging.learning.stages import RuleBook
from hive_agents.workspace import Workspace


def enter(
    workspace: Workspace,
    decision_id: int,
    action: str,
    by: str,
    *,
    blind: bool = False,
    comment: str | None = None,
    makers: Sequence[str] = (),
) -> drift.DriftState:
    """Record a person's verdict on a decision, and return the state of its goal type's drift test.

    Only the first verdict that is evidence updates a test: one decision is one observation, whoever reviews it.
    It is an observation of the judge where the judge decided, and of each learned rule that matched.

    Raises: HIVE-409 for an unknown decision or action, or a `by` that is no person or has labelled it before,
    also by a token of another name: `makers` are as those of a `Principal`.
    """
    by, action, log = person(by), action.lower(), DecisionLog(workspace)
    before = log.get(decision_id)
    log.label(decision_id, action, by, blind=blind, comment=comment, makers=makers)
    row = log.get(decision_id)
    state = drift.states(workspace).get(row.watched) or drift.DriftState(row.watched, 0.0, None)
    if before.evidence or not row.evidence:
        return state
    _observe_rules(workspace, row, action)
    return drift.observe(workspace, row.watched, action == row.action) if row.automatic else state


def _observe_rules(workspace: Workspace, row: JudgedCase, action: str) -> None:
    matched = {rule_id for rule_id, matches in (row.judgment.get("tried") or {}).items() if matches}
    if not matched:
        return
    book = RuleBook(workspace)
    for rule in book.rules():
        if rule.id in matched:
            book.observe(rule.id, action == rule.rule["action"])
