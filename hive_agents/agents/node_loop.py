"""One visit of a node, step by step: enter → think → act → judge, repeated; then leave.

Each step can be repeated after a crash: its effects are in the ledger and in the conversation, under keys of (node,
visit, iteration, call). `wait` is no step of this module: a graph pauses there, and a sub-agent raises `Pending`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from hive_agents.agents import calls, node_requests
from hive_agents.agents.code import raised_at
from hive_agents.agents.code_steps import outputs_of, require_code
from hive_agents.agents.effects import Done
from hive_agents.agents.guard_escalation import reprieved
from hive_agents.agents.guards.budget import BudgetExhausted
from hive_agents.agents.models import estimated, need, streamed
from hive_agents.agents.node_end import EXHAUSTED, End, Update, fault, spent
from hive_agents.agents.node_judge import LevelVerdict, is_judged, judgment_of, verdict
from hive_agents.agents.node_messages import hear, judged_words, turn_messages, why_here
from hive_agents.agents.node_records import (
    VisitState,
    after_calls,
    after_turn,
    ended,
    implied,
    recorded_turn,
    reported,
    say_result,
    settled,
    verdict_facts,
)
from hive_agents.agents.node_requests import Pending
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.routing import NoWay, targets
from hive_agents.agents.spending import more
from hive_agents.agents.synthetic import synthetic_tools
from hive_agents.base import HiveError, NoModel
from hive_agents.events import EventType
from hive_agents.memory import Delivery
from hive_agents.models import Message, ModelError, ToolCall

UNREAD = 3
"""Unreadable turns in a row, such as arguments that aren't JSON, before the node fails."""
SMALLER = 3
"""How often a context that is too long for the model is halved."""

Step = Callable[[NodeWork, VisitState], Awaitable[Update]]


async def enter(work: NodeWork, _: VisitState) -> Update:
    """Begin the visit, after a person's permission where the agent requires one."""
    session, node = work.session, work.node
    advice = None
    if node.requires_approval or node.pause_before or node.id in work.agent.pause_nodes:
        request = await session.ask(node_requests.permission(work))
        if not request.decided:
            return _wait([request.id], "enter")
        if request.status not in ("approved", "responded"):
            return _fail("rejected", f"{node.id} may not begin: {node_requests.words_of(request)}")
        advice = node_requests.words_of(request) if request.status == "responded" else None
    await session.emit(EventType.NODE_STARTED, work.key, node.id, visit=work.visit)
    if node.code is not None:
        return {"iteration": 0, "tool_calls": 0, "next": "think"}
    if work.memory is not None:
        await session.seed_notes(work.memory, work.identity)
    try:
        words = await why_here(work)
    except HiveError as error:
        return _unprompted(error)
    if advice:
        words += f"\n\n[Advice]: {advice}"
    message = Message(role="user", content=words)
    # Its conversation may be a new one.
    await session.effects.write(lambda: session.store.append(work.conversation, message, key=f"{work.key}/enter"))
    return {"iteration": 0, "tool_calls": 0, "next": "think"}


async def think(work: NodeWork, state: VisitState) -> Update:
    """Record one turn of the model; code does all its work at once."""
    session, node = work.session, work.node
    if node.code is not None:
        return await _code(work)
    iteration = state["iteration"] + 1
    key = f"{work.key}/{iteration}"
    tools = [*work.tools.for_model(), *synthetic_tools(work)]
    messages: list[Message] = []
    read, changes = 0, Update()

    async def do(_: bool) -> Done:
        await session.emit(EventType.MODEL_STARTED, key, node.id, iteration=iteration)
        try:
            answer = await streamed(
                work.chain,
                messages,
                tools,
                lambda text: _listen(work, text),
                tell=session.effects.sending(f"{key}/model"),
            )
        except ModelError as error:
            if error.outage and error.kind != "authentication":  # waiting doesn't help a refused login
                await session.wait_out(f"{key}/model", str(error), error.retry_after)
            reason = "unavailable" if error.outage else "model_error"
            failed = {"error": str(error)[:500], "reason": reason, "kind": error.kind}
            return Done(failed | {"sent": estimated(messages, tools)}, error.usage)
        tool_calls = [call.model_dump() for call in _named(answer.tool_calls, iteration)]
        return Done({"text": answer.text, "calls": tool_calls, "model": answer.model, "read": read}, answer.usage)

    def said(answer: Any) -> None:
        if "error" in answer:
            return
        tool_calls = [ToolCall.model_validate(call) for call in answer["calls"]]
        message = Message(role="assistant", content=answer["text"], tool_calls=tool_calls)
        session.store.append(work.conversation, message, key=key)
        if not work.shared and not work.delegated and answer["text"].strip():
            mirrored = Message(role="assistant", content=f"[{node.id}]: {answer['text']}")
            session.store.append(session.conversation, mirrored, key=f"mirror:{key}")
        session.tell_later(EventType.MODEL_COMPLETED, key, node.id, iteration=iteration, calls=len(tool_calls))

    def also(answer: Any) -> None:
        nonlocal changes
        said(answer)
        changes = {} if "error" in answer else after_turn(work, {**state, "iteration": iteration}, key)

    try:
        if session.effects.find(f"{key}/model") is None:
            hear(work)
            read = session.store.pointer(work.conversation)["cursor"]
            # Outside of the turn's effect: a summary is paid for before the budget is checked for the turn.
            messages += await turn_messages(work, key, tools, room=state.get("room"))
        chain = work.chain
        needed = need(chain, messages, tools)
        recorded = await session.effects.once(
            f"{key}/model", "model", chain.name, do, node=node.id, steps=1, **needed, also=also
        )
    except HiveError as error:
        return _unprompted(error)
    if "error" in recorded and _mendable(recorded, state, iteration < node.max_iterations):
        return _mended(work, key, recorded, state)
    if "error" in recorded:
        return _fail(recorded.get("reason", "model_error"), f"no model answered: {recorded['error']}")
    if not changes:  # it was recorded by another process, or in another run
        said(recorded)
    await session.tell_rest()
    for measure in session.effects.budget.nearly():
        spent = session.effects.budget.to_json()
        await session.emit(EventType.BUDGET_WARNED, measure, node.id, measure=measure, **spent)
    return {"iteration": iteration, "next": "act" if recorded["calls"] else "judge", "unread": 0} | changes


async def _code(work: NodeWork) -> Update:
    try:
        made = await outputs_of(work, alone)

        def write() -> None:
            for key, value in made.items():
                work.outputs.set(key, value)

        await work.session.effects.write(write)
    except Pending as pending:
        return _wait(pending.requests, "think")
    except BudgetExhausted:
        raise
    except HiveError as error:
        if error.exit_code == 3:
            raise
        return _fail("code_error", error.diagnostics[0].message, error.diagnostics[0].code)
    except Exception as error:
        where = raised_at(require_code(work.session.tools, work.node.code), error)
        return _fail("code_error", f"{type(error).__name__}: {error}"[:2_000] + where)
    missing = work.outputs.missing(nullable=work.node.nullable_output_keys)
    if missing:
        return _fail("code_error", f"the code of {work.node.id} made no {', '.join(missing)}")
    return {"next": "leave", "error": None}


async def act(work: NodeWork, state: VisitState) -> Update:
    """Carry out the turn's tool calls, all at once but for outputs and files; results are in the calls' order."""
    session, iteration = work.session, state["iteration"]
    key = f"{work.key}/{iteration}"
    keyed_calls = [(f"{key}/{n}", call) for n, call in enumerate(recorded_turn(work, key).message.tool_calls)]
    missing = [(at, call) for at, call in keyed_calls if session.store.find(work.conversation, at) is None]
    room = work.node.max_tool_calls - state["tool_calls"]
    counted = [at for at, call in keyed_calls if calls.counted(work, call)]
    over_limit = set(counted[room:])
    due = [(at, call) for at, call in missing if at not in over_limit]
    results = dict(zip([at for at, _ in due], await _all(work, due), strict=True))
    for result in results.values():
        if isinstance(result, BaseException) and not isinstance(result, Pending | BudgetExhausted):
            raise result
    done = [(at, call) for at, call in due if isinstance(results[at], Delivery)]

    def write() -> Update:
        for at, call in done:
            say_result(work, at, call, results[at])
        return after_calls(work, state, key) if len(done) == len(missing) else {}

    changes = await session.effects.write(write) if done else {}
    exhausted = next((result for result in results.values() if isinstance(result, BudgetExhausted)), None)
    if exhausted is not None:
        raise exhausted
    if over_limit:
        return _fail("max_tool_calls", f"{work.node.id} used up its max_tool_calls of {work.node.max_tool_calls}")
    waiting = [id for result in results.values() if isinstance(result, Pending) for id in result.requests]
    if waiting:
        return _wait(waiting, "act")
    return {"tool_calls": state["tool_calls"] + len(counted), "next": "judge"} | changes


async def judge(work: NodeWork, state: VisitState) -> Update:
    """Accept the work, retry with feedback, or ask a person; a loop without progress ends here."""
    session, node, iteration = work.session, work.node, state["iteration"]
    key = f"{work.key}/{iteration}"

    async def do(_: bool) -> Done:
        if (done := reported(work)) is not None:
            return done
        decision = await verdict(work, recorded_turn(work, key).message, iteration)
        if decision.outage:
            await session.wait_out(f"{key}/verdict", decision.feedback or "")
        return settled(work, state, key, decision)

    if is_judged(node):
        judged = await session.effects.once(f"{key}/verdict", "judge", node.id, do, node=node.id)
    else:
        made = partial(implied, work, state, key)
        judged = await session.effects.within(f"{key}/verdict", "judge", node.id, made, node=node.id)
    action, feedback = judged["action"], judged["feedback"]
    if judged.get("outage"):  # a person is asked about a judgement, not about a missing one
        return _fail("unavailable", feedback)
    payload = verdict_facts(judged, iteration)
    if action == "accept":
        session.tell_later(EventType.JUDGMENT_MADE, key, node.id, **payload)
    elif action != "continue":
        await session.emit(EventType.JUDGMENT_MADE, key, node.id, **payload)
    if action == "escalate":
        answered = await _escalated(work, key, judged)
        if isinstance(answered, dict):
            return answered
        action, feedback = "retry", answered
    if action == "accept":
        words = judged.get("missed")
        if not words or iteration >= node.max_iterations:
            return {"next": "leave", "error": None}
        if work.shared:  # there they precede the turn that didn't take them into account
            late_words = Message(role="user", content=f"[Said meanwhile]: {words}")
            session.store.append(work.conversation, late_words, key=f"{key}/feedback")
        return {"next": "think"}
    if judged.get("fault"):
        return await _passed(work, key, iteration, judged["fault"])
    if action == "retry":
        await session.emit(EventType.NODE_RETRIED, key, node.id, **payload)
        own = judged["level"] == 0 or judged["action"] == "escalate" or not feedback
        words = judged_words(feedback or "this is not good enough yet", own=own)
        session.store.append(work.conversation, Message(role="user", content=words), key=f"{key}/feedback")
    elif not recorded_turn(work, key).message.tool_calls:
        # Providers require a message of the user between two of the model.
        session.store.append(work.conversation, Message(role="user", content="Go on."), key=f"{key}/feedback")
    return {"next": "think"}


async def leave(work: NodeWork, state: VisitState) -> Update:
    """End the visit: write the outputs of an accepted one to the data buffer, and choose the next nodes."""
    error = state.get("error")
    outputs = {} if error else work.outputs.values
    if work.memory is not None:
        for key, value in outputs.items():
            work.memory.add_output(key, value)
    next_nodes: list[str] = []
    try:
        next_nodes = [] if spent(error) else await targets(work, "failed" if error else "completed")
    except NoWay as no_way:
        error = no_way.fault
    return await work.session.effects.write(lambda: ended(work, state, outputs, next_nodes, error))


def _within_budget(step: Step) -> Step:
    """Return the step, repeated when its exhausted budget was raised."""

    async def run(work: NodeWork, state: VisitState) -> Update:
        while True:
            try:
                return await step(work, state)
            except BudgetExhausted as error:
                if error.scope is not None:  # a sub-agent's budget ends only the sub-agent
                    raise
                try:
                    refused = await more(work.session, f"{work.key}/{state.get('iteration', 0)}", work.node.id, error)
                except Pending as pending:
                    return _wait(pending.requests, step.__name__)
                if refused is None:
                    continue
                failed = _fail(error.measure, refused, EXHAUSTED)
                if step is not leave:
                    return failed
                state = {**state, **failed}

    return run


STEPS: dict[str, Step] = {step.__name__: _within_budget(step) for step in (enter, think, act, judge, leave)}


async def alone(work: NodeWork) -> tuple[End, int]:
    """Return the end of a node that runs without a graph, as in a sub-agent, and its iterations.

    After a crash it starts again and finds finished steps in the ledger. Raises: Pending where it waits for a person.
    """
    state: dict[str, Any] = {"next": "enter"}
    while state["next"] != "end":
        state |= await STEPS[state["next"]](work, state)
        if state["next"] == "wait":
            raise Pending(state["waiting"])
    end: End = state["ends"][0]
    return end, state.get("iteration", 0)


async def _all(work: NodeWork, due: list[tuple[str, ToolCall]]) -> list[Any]:
    """Return the results of the calls, or what they raised."""

    async def in_order() -> dict[str, Any]:
        results: dict[str, Any] = {}
        for at, call in due:
            if call.name in calls.IN_ORDER:
                try:
                    results[at] = await calls.answer(work, at, call, alone)
                except Pending as pending:
                    results[at] = pending
        return results

    parallel = [(at, call) for at, call in due if call.name not in calls.IN_ORDER]
    ordered_results, *parallel_results = await asyncio.gather(
        in_order(), *(calls.answer(work, at, call, alone) for at, call in parallel), return_exceptions=True
    )
    if isinstance(ordered_results, BaseException):
        raise ordered_results
    results = ordered_results | dict(zip([at for at, _ in parallel], parallel_results, strict=True))
    return [results[at] for at, _ in due]


async def _escalated(work: NodeWork, key: str, judged: Mapping[str, Any]) -> Update | str:
    """Return the step after a person's decision, or the person's words for a retry."""
    session, node = work.session, work.node

    async def do(_: bool) -> Done:
        judgment = judgment_of(LevelVerdict("escalate", judged["level"], judged["feedback"], judged["reason"]))
        result = {"node": node.id, "outputs": work.outputs.values}
        return Done(await asyncio.to_thread(session.court.log_decision, session.goal, result, judgment))

    number = await session.effects.once(f"{key}/decision", "synthetic", "escalate", do, node=node.id)
    title = f"accept what {work.agent.id} made in {node.id}?"
    file = session.court.file_judgment
    id = await asyncio.to_thread(file, number, title=title, thread_id=session.thread_id, told=True)
    request = session.request(id)
    await session.emit(EventType.APPROVAL_REQUESTED, id, node.id, approval_id=id, kind="judgment", title=title)
    if not request.decided:
        return _wait([id], "judge")
    if request.status == "approved":
        return {"next": "leave", "error": None}
    if request.status == "responded":
        return node_requests.words_of(request)
    return _fail("rejected", f"{node.id} was not accepted: {node_requests.words_of(request)}")


async def _passed(work: NodeWork, key: str, iteration: int, ended: Mapping[str, str]) -> Update:
    """Return the step after a guard has stopped the node: its failure, unless a person lets it go on."""
    try:
        answer = await reprieved(work, key, ended)
    except Pending as pending:
        return _wait(pending.requests, "judge")
    if answer is None:
        return {"next": "leave", "error": ended}
    goes_on, words = answer
    if not goes_on:
        return _fail("rejected", words)
    message = Message(role="user", content=judged_words(words, own=True))
    work.session.store.append(work.conversation, message, key=f"{key}/feedback")
    return {"next": "think", "since": iteration}


def _mendable(failure: Mapping[str, Any], state: VisitState, may_go_on: bool) -> bool:
    """Return whether another attempt, with the error or a shorter context, may succeed."""
    if failure.get("kind") == "overflow":
        return may_go_on and state.get("overflows", 0) < SMALLER
    return may_go_on and failure.get("kind") in ("garbage", "truncated") and state.get("unread", 0) < UNREAD


def _mended(work: NodeWork, key: str, failure: Mapping[str, Any], state: VisitState) -> Update:
    again: Update = {"iteration": state["iteration"] + 1, "next": "think"}
    if failure["kind"] == "overflow":
        return again | {"overflows": state.get("overflows", 0) + 1, "room": failure["sent"] // 2}
    words = f"[Error]: your last turn could not be read, and nothing of it was done: {failure['error']}. Say it again."
    work.session.store.append(work.conversation, Message(role="user", content=words), key=f"{key}/unread")
    return again | {"unread": state.get("unread", 0) + 1}


def _listen(work: NodeWork, text: str) -> None:
    if work.session.on_text is not None:
        work.session.on_text(work.node.id, text)


def _named(tool_calls: list[ToolCall], iteration: int) -> list[ToolCall]:
    """Return the calls with ids that are unique within the turn."""
    ids = [call.id for call in tool_calls]
    unique = all(ids) and len(set(ids)) == len(ids)
    return (
        tool_calls
        if unique
        else [call.model_copy(update={"id": f"c{iteration}_{n}"}) for n, call in enumerate(tool_calls)]
    )


def _fail(reason: str, message: str, code: str = "HIVE-422") -> Update:
    return {"next": "leave", "error": fault(code, reason, message)}


def _unprompted(error: HiveError) -> Update:
    """Return the failed visit of a prompt that couldn't be made; what needs a person's approval goes on up."""
    if error.exit_code == 3 and not isinstance(error, NoModel):
        raise error
    found = error.diagnostics[0]
    if isinstance(error, NoModel):  # the settings lack it, not the run: tried again, it goes on where it was
        return _fail("unavailable", f"{found.message}: {found.fix}", found.code)
    return _fail("prompt", found.message, found.code)


def _wait(requests: list[str], after: str) -> Update:
    return {"next": "wait", "after": after, "waiting": requests}
