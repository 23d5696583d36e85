"""When all nodes have ended: did the agent reach its goal? Accept, again, with a new plan, or a person."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from hive_agents.agents.effects import Done
from hive_agents.agents.guards import BudgetExhausted
from hive_agents.agents.models import need
from hive_agents.agents.node_end import End, GoalVerdict, Update, fault, spent
from hive_agents.agents.node_requests import Pending, words_of
from hive_agents.agents.session import AgentSession
from hive_agents.agents.spending import more
from hive_agents.events import EventType
from hive_agents.goals import Goal
from hive_agents.judging import Attempts, FailedStep, FeedbackContext, Judgment, JudgmentAction, Signal
from hive_agents.llm import Message, Usage, sending
from hive_agents.text import cut

ACCEPT, RETRY, REPLAN, ESCALATE = JudgmentAction


async def conclude(session: AgentSession, ends: Sequence[End], verdicts: Sequence[GoalVerdict]) -> Update:
    """`outcome` where the run is over, `asked` where a person decides, else one verdict more with where to go on."""
    found = await _concluded(session, ends, verdicts)
    if found.get("outcome", {}).get("status") == "failed":
        await asyncio.to_thread(session.withdraw, "the run has failed")
    return found


def losses(ends: Sequence[End], verdicts: Sequence[GoalVerdict] = ()) -> list[End]:
    """Return the ends that fail the run: no edge leads on from them.

    What came before somebody had the run tried again doesn't count.
    """
    return [end for end in _counting(ends, verdicts) if end["status"] == "failed" and not end["targets"]]


def owed(ends: Sequence[End], verdicts: Sequence[GoalVerdict] = ()) -> set[str]:
    """Return the nodes that an end leads to and that haven't ended since."""
    found: set[str] = set()
    for end in _counting(ends, verdicts):
        found.discard(end["node"])
        found.update(end["targets"])
    return found


def _counting(ends: Sequence[End], verdicts: Sequence[GoalVerdict]) -> Sequence[End]:
    return ends[max((verdict.get("since", 0) for verdict in verdicts), default=0) :]


def lost(ends: Sequence[End], verdicts: Sequence[GoalVerdict] = ()) -> End | None:
    """Return the end that is told as the run's: one for which the budget left no room, whatever other branches came
    to."""
    failed = losses(ends, verdicts)
    return next((end for end in failed if spent(end["error"])), failed[0] if failed else None)


async def _concluded(session: AgentSession, ends: Sequence[End], verdicts: Sequence[GoalVerdict]) -> Update:
    failed = lost(ends, verdicts)
    if failed is not None:
        return {"outcome": {"status": "failed", "error": failed["error"]}, "asked": []}
    n = len(verdicts) + 1
    key = f"GOAL#{n}"
    try:
        found = await _judged(session, key, n, ends, verdicts)
    except BudgetExhausted as error:
        try:
            refused = await more(session, key, None, error)
        except Pending as pending:
            return {"asked": pending.requests}
        if refused is None:
            return await _concluded(session, ends, verdicts)
        why = fault("HIVE-423", error.measure, refused)
        return {"outcome": {"status": "failed", "error": why}, "asked": []}
    action = found["action"]
    if found.get("outage"):  # a question that no model could judge is nobody's to answer
        why = fault("HIVE-422", "unavailable", f"no model could judge the result: {found['reasoning']}")
        return {"outcome": {"status": "failed", "error": why}, "asked": []}
    if action == ESCALATE:
        return await _escalated(session, key, n, found, _last(ends), verdicts)
    if action == ACCEPT:
        return {"outcome": {"status": "done", "error": None}, "asked": []}
    targets = _replanned(session, ends) if action == REPLAN else _last(ends)
    return {"verdicts": [*verdicts, GoalVerdict(n=n, action=action, targets=targets, key=key)], "asked": []}


def results(session: AgentSession) -> dict[str, Any]:
    """Return the outputs of all nodes that were accepted."""
    keys = {key for node in session.agent.nodes for key in node.output_keys}
    return {key: value for key, value in session.buffer.read_all("execution").items() if key in keys}


async def _judged(session: AgentSession, key: str, n: int, ends: Sequence[End], verdicts: Sequence[GoalVerdict]) -> Any:
    async def do(_: bool) -> Done:
        result, context = results(session), _context(session, ends)
        model = session.models("judge") if _needs_model(session.goal) else None
        if model is not None:
            shown = Message(role="user", content=json.dumps(result, ensure_ascii=False))
            await session.effects.require(key, **need(model, [shown]))
        before = model.meter.usage if model is not None else Usage()
        with sending(session.effects.sending(key)) as take_back:
            judgment = await session.court.evaluate(
                session.goal, result, context, llm=model if model is not None else every_node_accepted, attempt=n
            )
            if judgment.outage:
                take_back()
        if judgment.outage:
            await session.wait_out(key, judgment.reasoning)
        held = _attempts(verdicts).after(judgment)[0]
        if held.action is REPLAN and not _replanned(session, ends):
            why = f"No edge leads to a new plan. {held.reasoning}"
            changes = {"action": ESCALATE, "escalation_reason": "replans_exhausted", "reasoning": why}
            held = held.model_copy(update=changes)
        context = context.model_copy(update={"constraints_violated": judgment.violations})
        told = held.model_dump(mode="json")
        usage = _spent(before, model.meter.usage) if model is not None else Usage()
        return Done(
            {
                "action": str(held.action),
                "outage": judgment.outage,
                "feedback": held.feedback,
                "reasoning": held.reasoning,
                "judgment": told,
                "context": context.model_dump(mode="json") | {"feedback": held.feedback or held.reasoning},
            },
            usage,
        )

    found = await session.effects.once(key, "judge", "goal", do)
    judgment = found["judgment"]
    await session.emit(
        EventType.JUDGMENT_MADE,
        key,
        level="goal",
        action=found["action"],
        feedback=cut(found["feedback"] or found["reasoning"], 500),
        confidence=judgment["confidence"],
        escalation_reason=judgment["escalation_reason"],
        decision_id=judgment["decision_id"],
    )
    return found


async def _escalated(
    session: AgentSession, key: str, n: int, found: Any, last: list[str], verdicts: Sequence[GoalVerdict]
) -> Update:
    title = f"accept the result of {session.agent.id}?"
    number = found["judgment"]["decision_id"]
    id = await asyncio.to_thread(session.court.file_judgment, number, title=title, thread_id=session.thread_id)
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
        return Done(found | {"feedback": words_of(request)})

    await session.effects.once(f"{key}/answer", "synthetic", "answer", do)
    verdict = GoalVerdict(n=n, action="retry", targets=last, key=f"{key}/answer")
    return {"verdicts": [*verdicts, verdict], "asked": []}


async def every_node_accepted(_: Goal, __: Any, ___: FeedbackContext | None) -> Judgment:
    """Return the evaluator of goals that need no model: what is measured decides, once the nodes are done."""
    told = "every phase of the work was accepted"
    signal = Signal(source="evidence", action=ACCEPT, confidence=1.0, detail=told)
    return Judgment(action=ACCEPT, confidence=1.0, reasoning=told, signals=[signal])


def _needs_model(goal: Goal) -> bool:
    criteria = any(criterion.metric == "llm_judge" for criterion in goal.success_criteria)
    return criteria or any(constraint.check is None for constraint in goal.constraints)


def _attempts(verdicts: Sequence[GoalVerdict]) -> Attempts:
    actions = [verdict["action"] for verdict in verdicts]
    plan = actions[::-1].index("replan") if "replan" in actions else len(actions)
    return Attempts(retries=actions[len(actions) - plan :].count("retry"), replans=actions.count("replan"))


def _context(session: AgentSession, ends: Sequence[End]) -> FeedbackContext:
    failed = [end for end in ends if end["status"] == "failed"]
    return FeedbackContext(
        completed_steps=[end["node"] for end in ends if end["status"] == "completed"],
        failed_steps=[
            FailedStep(step_id=end["node"], errors=[(end["error"] or {}).get("message", "")]) for end in failed
        ],
        accumulated_context=results(session),
    )


def _last(ends: Sequence[End]) -> list[str]:
    """Return the nodes that ended last, with no other after them."""
    latest = {end["node"]: end for end in ends}
    found = [node for node, end in latest.items() if not end["targets"]]
    return found or [ends[-1]["node"]]


def _replanned(session: AgentSession, ends: Sequence[End]) -> list[str]:
    """Return where a new plan begins: the replan edges nearest to the end of the way."""
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
