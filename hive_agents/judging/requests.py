"""Requests about the judge: filing those for thresholds, rules and results, and carrying out the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from pydantic import ValidationError

from hive_agents.access import Principal, Standing, people, same_hands, same_person
from hive_agents.approvals import ApprovalRequest, ApprovalStore, Approvers, Filing, filed_by
from hive_agents.base import HiveError, WrongUsage
from hive_agents.judging import labels
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.decisions import JudgedCase
from hive_agents.judging.drift import DriftState
from hive_agents.judging.learning.stages import LearnedRule, RuleBook
from hive_agents.judging.metrics import CalibrationMetrics
from hive_agents.judging.thresholds import GLOBAL, apply_threshold, awaiting, refuse_thresholds, threshold_for
from hive_agents.runs import RunStore
from hive_agents.workspace import Workspace

ANSWERED = ("approved", "edited", "rejected", "responded")
"""Statuses that a person's answer sets; expiry and supersession say nothing about the judge."""


@dataclass(frozen=True)
class Effect:
    """`carry_out` applies a decision and returns the result; `stale` returns why a request can't be approved any more.

    `carry_out` has to be idempotent: a process may die before the outcome is recorded.
    """

    carry_out: Callable[[Workspace, ApprovalRequest], dict[str, Any]]
    stale: Callable[[Workspace, ApprovalRequest], str | None] | None = None


def ask_for_thresholds(
    workspace: Workspace, metrics: CalibrationMetrics, by: str, principal: Principal | None = None
) -> str:
    """File a request to apply lower thresholds, and supersede earlier ones that this calibration replaces.

    `principal` is the requester's, whose tenant decides it; None is the workspace's owner.
    """
    store = ApprovalStore(workspace)
    types = ", ".join("all types" if name == "*" else name for name in metrics.awaiting_approval)
    filing = Filing(
        kind="threshold",
        title=f"lower the judge's threshold for {types}",
        requester=by,
        **filed_by(principal),
        context=metrics.model_dump(mode="json"),
        risk="high",
    )
    filed = store.file(filing).id
    for earlier in store.list("pending", kind="threshold"):
        if _overtaken(workspace, earlier):
            store.supersede(earlier.id, f"calibrated again: {filed}")
    return filed


def ask_for_rule(workspace: Workspace, rule: LearnedRule, principal: Principal | None = None) -> ApprovalRequest:
    """Return the request to move a proposed rule to the shadow stage; filed once for each rule.

    `principal` is the author's, whose tenant decides it; None is the workspace's owner, or its miner.
    """
    filing = Filing(
        kind="rule",
        title=f"let {rule.id} {rule.rule['action']} where {rule.proposal['trigger_pattern']}",
        requester=rule.author,
        **filed_by(principal),
        context={
            "rule_id": rule.id,
            "goal_types": rule.rule.get("goal_types") or [],
            "rule": rule.rule,
            "proposal": rule.proposal,
            # Its condition quotes them.
            "rests_on": [[row.tenant, row.run_id] for row in DecisionLog(workspace).of(rule.proposal["examples"])],
        },
        approvers=Approvers(min=rule.approvers, exclude_requester=True),
    )
    return _filed_once(workspace, filing, f"rule:{rule.id}")


def ask_for_judgment(
    workspace: Workspace,
    decision: JudgedCase,
    *,
    title: str | None = None,
    thread_id: str | None = None,
    told: bool = False,
) -> str:
    """File a request to judge a result in place of the judge, once for each decision; return its id.

    Approving accepts the result; rejecting, or responding with what has to be improved, doesn't.
    """
    from hive_agents.judging import weights

    judgment, given = decision.judgment, weights.chosen(workspace)
    filing = Filing(
        kind="judgment",
        title=title or f"accept the result for {decision.goal_id or decision.goal_type}?",
        requester="service:judge",
        **_asked_for(workspace, decision.run_id),
        tenant=decision.tenant,
        context={
            "decision_id": decision.id,
            "goal_type": decision.goal_type,
            "goal_id": decision.goal_id,
            "rule_id": decision.rule_id,
            "escalation_reason": decision.escalation_reason,
            "reasoning": judgment.get("reasoning"),
            "result": decision.result,
        },
        signals=weights.in_order(judgment.get("signals") or [], given.get(decision.goal_type, given.get("*"))),
        allowed_decisions=["approve", "reject", "respond"],
        run_id=decision.run_id,
        thread_id=thread_id,
    )
    asked = _asked_before(workspace, decision, filing)
    return asked or _filed_once(workspace, filing, f"judgment:{decision.id}", told=told).id


def _asked_before(workspace: Workspace, decision: JudgedCase, filing: Filing) -> str | None:
    """Return the request that waits for the same question of the same person: one is enough for whoever decides."""
    question = decision.result.get("question") if isinstance(decision.result, Mapping) else None
    if not isinstance(question, str) or filing.on_behalf_of is None:
        return None
    for request in ApprovalStore(workspace).list("pending", kind="judgment", tenant=filing.tenant):
        result = request.context.get("result")
        before = result.get("question") if isinstance(result, Mapping) else None
        if isinstance(before, str) and before.split() == question.split() and request.asked_for_by(filing.on_behalf_of):
            return request.id
    return None


def _asked_for(workspace: Workspace, run_id: str | None) -> dict[str, Any]:
    """Return the fields of a filing that say who started the judged run, and who made their token; none where the run
    isn't in the store."""
    asked: dict[str, Any] = {}
    if run_id is not None:
        with suppress(HiveError, ValidationError):
            run = RunStore(workspace).get(run_id)
            asked["on_behalf_of"] = f"user:{run.user}"
            begun = run.value.get("principal") or run.value.get("reader")
            asked["makers"] = people(Standing.model_validate(begun).makers) if begun else []
    return asked


def open_drift_ticket(workspace: Workspace, state: DriftState, by: str) -> str:
    """File a ticket about drift of a goal type's judge; return its id."""
    filing = Filing(
        kind="ticket",
        title=f"the judge has drifted on {state.goal_type}: everything of this type is escalated",
        requester=by,
        context={"goal_type": state.goal_type, "e_value": state.e_value, "alarmed_at": state.alarmed_at},
        risk="high",
    )
    return ApprovalStore(workspace).file(filing).id


def open_missed_tickets(
    workspace: Workspace, metrics: CalibrationMetrics, by: str, principal: Principal | None = None
) -> list[str]:
    """File a ticket for each goal type that a calibration shows to miss its target; return their ids."""
    store, filed = ApprovalStore(workspace), []
    for name, bins in metrics.missed.items():
        named = "all types together" if name == GLOBAL else name
        where = f" at {', '.join(f'{at:.2f}' for at in bins)}" if bins else ""
        filing = Filing(
            kind="ticket",
            title=f"the judge misses its target on {named}{where}: everything of this type is escalated",
            requester=by,
            **filed_by(principal),
            context={"goal_type": name, "failed": bins},
            risk="high",
        )
        filed.append(store.file(filing).id)
    return filed


def _filed_once(workspace: Workspace, filing: Filing, key: str, *, told: bool = False) -> ApprovalRequest:
    """Return the request with a key, filed again if the earlier one was closed without a person's answer."""
    store = ApprovalStore(workspace)
    for number in count(1):
        request = store.file(filing.model_copy(update={"idempotency_key": f"{key}:{number}"}), told=told)
        if request.status == "pending" or request.status in ANSWERED:
            return request
    raise AssertionError


def _overtaken(workspace: Workspace, request: ApprovalRequest) -> str | None:
    numbers, waiting = _calibrations(request), awaiting(workspace)
    overtaken = bool(numbers) and not any(number in waiting for number in numbers)
    return "the judge was calibrated again, or has drifted since" if overtaken else None


def _set_thresholds(workspace: Workspace, request: ApprovalRequest) -> dict[str, Any]:
    if request.status != "approved":
        refuse_thresholds(workspace, _calibrations(request))
        return {"thresholds": {}}
    waiting = awaiting(workspace)
    for number in _calibrations(request):
        if number in waiting:
            apply_threshold(workspace, number, request.approvals[-1].by)
    types = request.context.get("awaiting_approval") if _calibrations(request) else {}
    return {"thresholds": {name: threshold_for(workspace, name).value for name in types or {}}}


def _calibrations(request: ApprovalRequest) -> list[int]:
    numbers = request.context.get("awaiting_approval")
    return list(numbers.values()) if isinstance(numbers, dict) else []


def _not_proposed(workspace: Workspace, request: ApprovalRequest) -> str | None:
    rule = _learned(workspace, request)
    return None if rule is None or rule.stage == "proposed" else f"{rule.id} is {rule.stage}"


def _move_rule(workspace: Workspace, request: ApprovalRequest) -> dict[str, Any]:
    rule, book = _learned(workspace, request), RuleBook(workspace)
    if rule is None:
        return {"rule": None, "stage": None}  # a rule that people wrote
    if request.status == "approved":
        for decision in request.approvals:
            if rule.stage == "proposed" and not _among(decision.by, rule.approved_by):
                rule = book.approve(rule.id, decision.by)
    elif rule.stage == "proposed":
        last = request.decisions[-1]
        rule = book.retire(rule.id, last.by, last.reason or "rejected")
    return {"rule": rule.id, "stage": rule.stage}


def _learned(workspace: Workspace, request: ApprovalRequest) -> LearnedRule | None:
    wanted = request.context.get("rule_id")
    return next((rule for rule in RuleBook(workspace).rules() if rule.id == wanted), None)


def _enter_labels(workspace: Workspace, request: ApprovalRequest) -> dict[str, Any]:
    """Enter the label "accept" if approved, else the evaluator's proposal, or "retry" without one."""
    number = request.context.get("decision_id")
    if not isinstance(number, int):
        return {"decision_id": None, "label": None}  # the judgement wasn't logged
    row = DecisionLog(workspace).get(number)
    proposed = row.proposal[0] if row.proposal is not None else "retry"
    action = "accept" if request.status == "approved" else proposed if proposed in ("retry", "replan") else "retry"
    before = [hand for label in row.labels for hand in label.hands]
    for decision in request.approvals if request.status == "approved" else request.decisions[-1:]:
        if not same_hands(before, decision.hands):
            comment, makers = decision.message or decision.reason, people(decision.makers)
            labels.enter(workspace, number, action, decision.by, comment=comment, makers=makers)
    return {"decision_id": number, "label": action}


def _among(name: str, people: Iterable[str]) -> bool:
    return any(same_person(name, other) for other in people)


EFFECTS: Mapping[str, Effect] = {
    "threshold": Effect(_set_thresholds, _overtaken),
    "rule": Effect(_move_rule, _not_proposed),
    "judgment": Effect(_enter_labels),
}


def overtaken_because(workspace: Workspace, request: ApprovalRequest) -> str | None:
    """Return why a request of these kinds can't be approved any more; None while it can."""
    stale = EFFECTS[request.kind].stale
    return stale(workspace, request) if stale is not None else None


def carried_out(workspace: Workspace, request: ApprovalRequest) -> dict[str, Any]:
    """Carry out a decided request of these kinds and return the outcome, which may be a refusal."""
    try:
        return EFFECTS[request.kind].carry_out(workspace, request)
    except WrongUsage as error:
        return {"refused": error.diagnostics[0].message}
