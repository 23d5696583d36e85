"""Judge a run when all nodes have ended: accept it, retry, replan, or ask a person."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from hive_agents.agents.effects import Done
from hive_agents.agents.guards.budget import BudgetExhausted
from hive_agents.agents.models import need
from hive_agents.agents.node_end import End, GoalVerdict, Update, fault, spent
from hive_agents.agents.node_requests import Pending, words_of
from hive_agents.agents.session import AgentSession
from hive_agents.agents.spending import more
from hive_agents.base import cut
from hive_agents.events import EventType
from hive_agents.goals import Goal
from hive_agents.judging import MOST_SHOWN, Attempts, FailedStep, FeedbackContext, Judgment, JudgmentAction, Signal
from hive_agents.models import Message, Usage, sending

ACCEPT, RETRY, REPLAN, ESCALATE = JudgmentAction


async def conclude(session: AgentSession, ends: Sequence[End], verdicts: Sequence[GoalVerdict]) -> Update:
    """Return `outcome` where the run is over, `asked` where a person decides, else one more verdict and its targets."""
    update = await _concluded(session, ends, verdicts)
    if update.get("outcome", {}).get("status") == "failed":
        await asyncio.to_thread(session.withdraw, "the run has failed")
    return update


def losses(ends: Sequence[End], verdicts: Sequence[GoalVerdict] = ()) -> list[End]:
    """Return the failed ends that no edge leads on from; only those since the run was last tried again."""
    return [end for end in _counting(ends, verdicts) if end["status"] == "failed" and not end["targets"]]


def owed(ends: Sequence[End], verdicts: Sequence[GoalVerdict] = ()) -> set[str]:
    """Return the nodes that an end leads to and that haven't ended after it."""
    nodes: set[str] = set()
    for end in _counting(ends, verdicts):
        nodes.discard(end["node"])
        nodes.update(end["targets"])
    return nodes


def _counting(ends: Sequence[End], verdicts: Sequence[GoalVerdict]) -> Sequence[End]:
    return ends[max((verdict.get("since", 0) for verdict in verdicts), default=0) :]


def lost(ends: Sequence[End], verdicts: Sequence[GoalVerdict] = ()) -> End | None:
    """Return the end that is reported as the run's failure: first one that exhausted the budget; None without any."""
    failed = losses(ends, verdicts)
    return next((end for end in failed if spent(end["error"])), failed[0] if failed else None)


async def _concluded(session: AgentSession, ends: Sequence[End], verdicts: Sequence[GoalVerdict]) -> Update:
    failed = lost(ends, verdicts)
    if failed is not None:
        return {"outcome": {"status": "failed", "error": failed["error"]}, "asked": []}
    n = len(verdicts) + 1
    key = f"GOAL#{n}"
    try:
        judged = await _judged(session, key, n, ends, verdicts)
    except BudgetExhausted as error:
        try:
            refused = await more(session, key, None, error)
        except Pending as pending:
            return {"asked": pending.requests}
        if refused is None:
            return await _concluded(session, ends, verdicts)
        why = fault("HIVE-423", error.measure, refused)
        return {"outcome": {"status": "failed", "error": why}, "asked": []}
    action = judged["action"]
    if judged.get("outage"):  # a person is asked about a judgement, not about a missing one
        why = fault("HIVE-422", "unavailable", f"no model could judge the result: {judged['reasoning']}")
        return {"outcome": {"status": "failed", "error": why}, "asked": []}
    if action == ESCALATE:
        return await _escalated(session, key, n, judged, _last(ends), verdicts)
    if action == ACCEPT:
        return {"outcome": {"status": "done", "error": None}, "asked": []}
    targets = _replanned(session, ends) if action == REPLAN else _last(ends)
    return {"verdicts": [*verdicts, GoalVerdict(n=n, action=action, targets=targets, key=key)], "asked": []}


def results(session: AgentSession, ends: Sequence[End]) -> dict[str, Any]:
    """Return the outputs that accepted nodes set; an input may have the same key."""
    keys = {key for end in ends if end["status"] == "completed" for key in end["outputs"]}
    return {key: value for key, value in session.buffer.read_all("execution").items() if key in keys}


async def _judged(session: AgentSession, key: str, n: int, ends: Sequence[End], verdicts: Sequence[GoalVerdict]) -> Any:
    needs_model = _needs_model(session.goal)

    def told(recorded: Any) -> None:
        judgment = recorded["judgment"]
        session.tell_later(
            EventType.JUDGMENT_MADE,
            key,
            level="goal",
            action=recorded["action"],
            feedback=cut(recorded["feedback"] or recorded["reasoning"], 500),
            confidence=judgment["confidence"],
            escalation_reason=judgment["escalation_reason"],
            decision_id=judgment["decision_id"],
        )

    async def do(_: bool) -> Done:
        result, context = results(session, ends), _context(session, ends)
        model = session.models("judge")
        stronger = session.models("stronger_judge") if session.workspace.settings.models.stronger_judge else None
        chains = [model] if stronger is None else [model, stronger]
        shown = Message(role="user", content=json.dumps(result, ensure_ascii=False))
        settings = session.workspace.settings.judge
        examples = Message(role="user", content="x" * MOST_SHOWN if settings.examples_until is not None else "")
        needs = [need(chain, [shown, examples]) for chain in chains]
        tokens = sum(each["tokens"] for each in needs) * (settings.prompts or 1)
        await session.effects.require(key, tokens=tokens, rate=max(each["rate"] for each in needs))
        before = [chain.meter.usage for chain in chains]
        with sending(session.effects.sending(key)) as take_back:
            judgment = await session.court.evaluate(
                session.goal, result, context, llm=model, stronger=stronger, attempt=n
            )
            if judgment.outage:
                take_back()
        if judgment.outage:
            await session.wait_out(key, judgment.reasoning)
        used = [_spent(usage, chain.meter.usage) for usage, chain in zip(before, chains, strict=True)]
        return Done(_limited(session, ends, verdicts, judgment, context), sum(used[1:], used[0]))

    if needs_model:
        recorded = await session.effects.once(key, "judge", "goal", do, also=told)
    elif (recorded := session.effects.find(key)) is None:
        result, context = results(session, ends), _context(session, ends)
        judgment, log = await session.court.weigh(session.goal, result, context, llm=every_node_accepted, attempt=n)

        def work() -> Done:
            logged = judgment.model_copy(update={"decision_id": log()})
            done = Done(_limited(session, ends, verdicts, logged, context))
            told(done.result)
            return done

        recorded = await session.effects.within(key, "judge", "goal", work)
    told(recorded)
    await session.tell_rest()
    return recorded


def _limited(
    session: AgentSession,
    ends: Sequence[End],
    verdicts: Sequence[GoalVerdict],
    judgment: Judgment,
    context: FeedbackContext,
) -> dict[str, Any]:
    """Return the judgment as it is recorded, with a person's decision in place of an action that leads nowhere."""
    limited = _attempts(verdicts).after(judgment)[0]
    if limited.action is RETRY and (entry := session.agent.node(session.agent.entry)).code is not None:
        why = f"{entry.id} is code, which would do the same again. {limited.reasoning}"
        changes = {"action": ESCALATE, "escalation_reason": "retries_exhausted", "reasoning": why}
        limited = limited.model_copy(update=changes)
    if limited.action is REPLAN and not _replanned(session, ends):
        why = f"No edge leads to a new plan. {limited.reasoning}"
        changes = {"action": ESCALATE, "escalation_reason": "replans_exhausted", "reasoning": why}
        limited = limited.model_copy(update=changes)
    context = context.model_copy(update={"constraints_violated": judgment.violations})
    return {
        "action": str(limited.action),
        "outage": judgment.outage,
        "feedback": limited.feedback,
        "reasoning": limited.reasoning,
        "judgment": limited.model_dump(mode="json"),
        "context": context.model_dump(mode="json") | {"feedback": limited.feedback or limited.reasoning},
    }


async def _escalated(
    session: AgentSession, key: str, n: int, judged: Any, last: list[str], verdicts: Sequence[GoalVerdict]
) -> Update:
    title = f"accept the result of {session.agent.id}?"
    number = judged["judgment"]["decision_id"]
    file = session.court.file_judgment
    id = await asyncio.to_thread(file, number, title=title, thread_id=session.thread_id, told=True)
    request = session.request(id)
    await session.emit(EventType.APPROVAL_REQUESTED, id, approval_id=id, kind="judgment", title=title)
    if not request.decided:
        return {"asked": [id]}
    if request.status == "approved":
        return {"outcome": {"status": "done", "error": None}, "asked": []}
    if request.status != "responded":
        why = fault("HIVE-422", "rejected", f"the result was not accepted: {words_of(request)}")
        return {"outcome": {"status": "failed", "error": why}, "asked": []}

    async def do(_: bool) -> Done:
        return Done(judged | {"feedback": words_of(request)})

    await session.effects.once(f"{key}/answer", "synthetic", "answer", do)
    verdict = GoalVerdict(n=n, action="retry", targets=last, key=f"{key}/answer")
    return {"verdicts": [*verdicts, verdict], "asked": []}


async def every_node_accepted(_: Goal, __: Any, ___: FeedbackContext | None) -> Judgment:
    """Accept the result, for goals that need no model: their measured criteria decide."""
    reasoning = "every phase of the work was accepted"
    signal = Signal(source="evidence", action=ACCEPT, confidence=1.0, detail=reasoning)
    return Judgment(action=ACCEPT, confidence=1.0, reasoning=reasoning, signals=[signal])


def _needs_model(goal: Goal) -> bool:
    criteria = any(criterion.metric == "llm_judge" for criterion in goal.success_criteria)
    return criteria or any(constraint.check is None for constraint in goal.constraints)


def _attempts(verdicts: Sequence[GoalVerdict]) -> Attempts:
    actions = [verdict["action"] for verdict in verdicts]
    plan = actions[::-1].index("replan") if "replan" in actions else len(actions)
    return Attempts(retries=actions[len(actions) - plan :].count("retry"), replans=actions.count("replan"))


def _context(session: AgentSession, ends: Sequence[End]) -> FeedbackContext:
    failed = [end for end in ends if end["status"] == "failed"]
    asks = any(criterion.metric == "call_succeeded" for criterion in session.goal.success_criteria)
    return FeedbackContext(
        completed_steps=[end["node"] for end in ends if end["status"] == "completed"],
        failed_steps=[
            FailedStep(step_id=end["node"], errors=[(end["error"] or {}).get("message", "")]) for end in failed
        ],
        accumulated_context=results(session, ends),
        succeeded_calls=session.effects.succeeded_calls() if asks else None,
    )


def _last(ends: Sequence[End]) -> list[str]:
    """Return the nodes whose last end leads nowhere, else the one that ended last."""
    latest = {end["node"]: end for end in ends}
    nodes = [node for node, end in latest.items() if not end["targets"]]
    return nodes or [ends[-1]["node"]]


def _replanned(session: AgentSession, ends: Sequence[End]) -> list[str]:
    """Return where a new plan begins: the targets of the replan edges of the node that ended last and has any."""
    for end in reversed(ends):
        edges = [edge for edge in session.agent.edges_from(end["node"]) if edge.on == "replan"]
        if edges:
            return [edge.target for edge in edges if edge.priority == edges[0].priority]
    return []


def _spent(before: Usage, after: Usage) -> Usage:
    return Usage(
        input_tokens=after.input_tokens - before.input_tokens,
        output_tokens=after.output_tokens - before.output_tokens,
        usd=max(0.0, after.usd - before.usd),
        priced=after.priced,
    )
