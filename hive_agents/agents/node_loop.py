"""One visit of a node, step by step: enter → think → act → judge, again and again; then leave.

Each step may be done again after a crash: what it did the first time is in the ledger and in the conversation, under
keys of (node, visit, iteration, call). `wait` is no step of this module: a graph pauses there, a sub-agent tells its
parent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hive_agents.agents import calls, node_requests
from hive_agents.agents.effects import Done
from hive_agents.agents.guards import BudgetExhausted
from hive_agents.agents.models import estimated, need, streamed
from hive_agents.agents.node_end import EXHAUSTED, End, Update, fault, spent
from hive_agents.agents.node_judge import LevelVerdict, judgment_of, recorded, verdict
from hive_agents.agents.node_messages import hear, missed, turn_messages, why_here
from hive_agents.agents.node_requests import Pending
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.progress import stuck
from hive_agents.agents.reprieve import reprieved
from hive_agents.agents.routing import NoWay, targets
from hive_agents.agents.spending import more
from hive_agents.agents.synthetic import synthetic_tools
from hive_agents.errors import HiveError, NoModel
from hive_agents.events import EventType
from hive_agents.llm import Message, ModelError, ToolCall
from hive_agents.memory import Entry
from hive_agents.text import cut

VisitState = Mapping[str, Any]
UNREAD = 3
"""Turns in a row that may be unreadable, such as arguments that are no JSON, before the node fails."""
SMALLER = 3
"""How often a context that was too much for the model is halved."""

Step = Callable[[NodeWork, VisitState], Awaitable[Update]]


async def enter(work: NodeWork, _: VisitState) -> Update:
    """Ask first where that is wanted, then tell the model why it is here."""
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
    if work.memory is not None:
        work.memory.seed(work.identity, notes=session.accepted_notes())
    try:
        words = await why_here(work)
    except HiveError as error:
        return _unprompted(error)
    if advice:
        words += f"\n\n[Advice]: {advice}"
    session.store.append(work.conversation, Message(role="user", content=words), key=f"{work.key}/enter")
    return {"iteration": 0, "tool_calls": 0, "next": "think"}


async def think(work: NodeWork, state: VisitState) -> Update:
    """One turn of the model, recorded before it counts."""
    session, node = work.session, work.node
    iteration = state["iteration"] + 1
    key = f"{work.key}/{iteration}"
    tools = [*work.tools.for_model(), *synthetic_tools(work)]
    messages: list[Message] = []
    read = 0

    async def do(_: bool) -> Done:
        await session.emit(EventType.MODEL_STARTED, key, node.id, iteration=iteration)
        try:
            said = await streamed(
                session.models("chat"),
                messages,
                tools,
                lambda text: _listen(work, text),
                tell=session.effects.sending(f"{key}/model"),
            )
        except ModelError as error:
            if error.outage and error.kind != "authentication":  # a refused login passes by nobody's waiting
                await session.wait_out(f"{key}/model", str(error))
            reason = "unavailable" if error.outage else "model_error"
            failed = {"error": str(error)[:500], "reason": reason, "kind": error.kind}
            return Done(failed | {"sent": estimated(messages, tools)}, error.usage)
        made = [call.model_dump() for call in _named(said.tool_calls, iteration)]
        return Done({"text": said.text, "calls": made, "model": said.model, "read": read}, said.usage)

    try:
        if session.effects.find(f"{key}/model") is None:
            hear(work)
            read = session.store.pointer(work.conversation)["cursor"]
            # Not a part of the turn's effect: a summary counts before it is asked whether there is room for the turn.
            messages += await turn_messages(work, key, tools, room=state.get("room"))
        chain = session.models("chat")
        needed = need(chain, messages, tools)
        found = await session.effects.once(f"{key}/model", "model", chain.name, do, node=node.id, steps=1, **needed)
    except HiveError as error:
        return _unprompted(error)
    if "error" in found and _mendable(found, state, iteration < node.max_iterations):
        return _mended(work, key, found, state)
    if "error" in found:
        return _fail(found.get("reason", "model_error"), f"no model answered: {found['error']}")
    made = [ToolCall.model_validate(call) for call in found["calls"]]
    session.store.append(work.conversation, Message(role="assistant", content=found["text"], tool_calls=made), key=key)
    if not work.shared and not work.delegated and found["text"].strip():
        mirrored = Message(role="assistant", content=f"[{node.id}]: {found['text']}")
        session.store.append(session.conversation, mirrored, key=f"mirror:{key}")
    await session.emit(EventType.MODEL_COMPLETED, key, node.id, iteration=iteration, calls=len(made))
    for measure in session.effects.budget.nearly():
        spent = session.effects.budget.to_json()
        await session.emit(EventType.BUDGET_WARNED, measure, node.id, measure=measure, **spent)
    return {"iteration": iteration, "next": "act" if made else "judge", "unread": 0}


async def act(work: NodeWork, state: VisitState) -> Update:
    """The turn's tool calls, all at once, but outputs and files in order; results go back in the calls' order."""
    session, iteration = work.session, state["iteration"]
    key = f"{work.key}/{iteration}"
    made = [(f"{key}/{n}", call) for n, call in enumerate(_turn(work, key).message.tool_calls)]
    due = [(at, call) for at, call in made if session.store.find(work.conversation, at) is None]
    room = work.node.max_tool_calls - state["tool_calls"]
    asked = [at for at, call in made if calls.counted(work, call)]
    beyond = set(asked[room:])
    due = [(at, call) for at, call in due if at not in beyond]
    found = dict(zip([at for at, _ in due], await _all(work, due), strict=True))
    for at, call in due:
        result = found[at]
        if isinstance(result, BaseException):
            if not isinstance(result, Pending | BudgetExhausted):
                raise result
            continue
        message = Message(role="tool", content=result.content, tool_call_id=call.id)
        session.store.append(work.conversation, message, key=at, is_error=result.is_error, pointer=result.pointer)
    exhausted = next((one for one in found.values() if isinstance(one, BudgetExhausted)), None)
    if exhausted is not None:
        raise exhausted
    if beyond:
        return _fail("max_tool_calls", f"{work.node.id} used up its max_tool_calls of {work.node.max_tool_calls}")
    waiting = [id for one in found.values() if isinstance(one, Pending) for id in one.requests]
    if waiting:
        return _wait(waiting, "act")
    return {"tool_calls": state["tool_calls"] + len(asked), "next": "judge"}


async def judge(work: NodeWork, state: VisitState) -> Update:
    """Accept, send back with feedback, or ask a person; a loop that leads nowhere ends here."""
    session, node, iteration = work.session, work.node, state["iteration"]
    key, since = f"{work.key}/{iteration}", state.get("since", 0)

    async def do(_: bool) -> Done:
        if session.effects.find(f"{work.key}/complete"):
            return recorded(LevelVerdict("accept", 1, "it reported that it is complete"))
        found = await verdict(work, _turn(work, key).message, iteration)
        if found.outage:
            await session.wait_out(f"{key}/verdict", found.feedback or "")
        done = recorded(found)
        done.result["fault"] = None if found.action in ("accept", "escalate") else stuck(work, iteration, since)
        # Looked up once: whoever does the step again goes the same way.
        if found.action == "accept":
            done.result["missed"] = missed(work, session.effects.find(f"{key}/model")["read"])
        return done

    found = await session.effects.once(f"{key}/verdict", "judge", node.id, do, node=node.id)
    action, feedback = found["action"], found["feedback"]
    if found.get("outage"):  # a question that no model could judge is nobody's to answer
        return _fail("unavailable", feedback)
    told = {"level": found["level"], "action": action, "feedback": cut(feedback or "", 500), "iteration": iteration}
    if action != "continue":
        await session.emit(EventType.JUDGMENT_MADE, key, node.id, **told)
    if action == "escalate":
        answered = await _escalated(work, key, found)
        if isinstance(answered, dict):
            return answered
        action, feedback = "retry", answered
    if action == "accept":
        words = found.get("missed")
        if not words or iteration >= node.max_iterations:
            return {"next": "leave", "error": None}
        if work.shared:  # where they stand before the turn that didn't know them
            told_late = Message(role="user", content=f"[Said meanwhile]: {words}")
            session.store.append(work.conversation, told_late, key=f"{key}/feedback")
        return {"next": "think"}
    if found.get("fault"):
        return await _passed(work, key, iteration, found["fault"])
    if action == "retry":
        await session.emit(EventType.NODE_RETRIED, key, node.id, **told)
        words = f"[Judge feedback]: {feedback or 'this is not good enough yet'}"
        session.store.append(work.conversation, Message(role="user", content=words), key=f"{key}/feedback")
    elif not _turn(work, key).message.tool_calls:
        # Providers want a word from the other side before the model goes on.
        session.store.append(work.conversation, Message(role="user", content="Go on."), key=f"{key}/feedback")
    return {"next": "think"}


async def leave(work: NodeWork, state: VisitState) -> Update:
    """Only here outputs reach the data buffer; then the way on."""
    session, node = work.session, work.node
    error = state.get("error")
    outputs = {} if error else work.outputs.values
    buffer = work.buffer.for_node(node.input_keys, node.output_keys)
    for key, value in outputs.items():
        buffer.write(key, value)
        if work.memory is not None:
            work.memory.add_output(key, value)
    ways: list[str] = []
    try:
        ways = [] if spent(error) else await targets(work, "failed" if error else "completed")
    except NoWay as lost:
        error = lost.fault
    end = End(
        node=node.id,
        visit=work.visit,
        status="failed" if error else "completed",
        outputs=list(outputs),
        targets=ways,
        conversation=work.conversation,
        error=error,
    )
    type = EventType.NODE_FAILED if error else EventType.NODE_COMPLETED
    told = {"visit": work.visit, "iterations": state.get("iteration", 0), "outputs": list(outputs), "targets": ways}
    await session.emit(type, work.key, node.id, **told, error=error)
    return {"ends": [end], "next": "end"}


def _within_budget(step: Step) -> Step:
    """Return the step, done again where its budget ran out and somebody raised it."""

    async def run(work: NodeWork, state: VisitState) -> Update:
        while True:
            try:
                return await step(work, state)
            except BudgetExhausted as error:
                if error.scope is not None:  # that of a sub-agent, which ends; its parent goes on
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
    """Return the end of a node that is worked on without a graph, and its iterations; for sub-agents.

    After a crash it begins anew, and finds in the ledger what was done. Raises: Pending where it waits for a person.
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
        found: dict[str, Any] = {}
        for at, call in due:
            if call.name in calls.IN_ORDER:
                try:
                    found[at] = await calls.answer(work, at, call, alone)
                except Pending as pending:
                    found[at] = pending
        return found

    others = [(at, call) for at, call in due if call.name not in calls.IN_ORDER]
    first, *rest = await asyncio.gather(
        in_order(), *(calls.answer(work, at, call, alone) for at, call in others), return_exceptions=True
    )
    if isinstance(first, BaseException):
        raise first
    found = first | dict(zip([at for at, _ in others], rest, strict=True))
    return [found[at] for at, _ in due]


async def _escalated(work: NodeWork, key: str, found: Mapping[str, Any]) -> Update | str:
    """Return what a person made of it: the way on, or the words that send the node back."""
    session, node = work.session, work.node

    async def do(_: bool) -> Done:
        said = judgment_of(LevelVerdict("escalate", found["level"], found["feedback"], found["reason"]))
        result = {"node": node.id, "outputs": work.outputs.values}
        return Done(await asyncio.to_thread(session.court.log_decision, session.goal, result, said))

    number = await session.effects.once(f"{key}/decision", "synthetic", "escalate", do, node=node.id)
    title = f"accept what {work.agent.id} made in {node.id}?"
    id = await asyncio.to_thread(session.court.file_judgment, number, title=title, thread_id=session.thread_id)
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
    """Return the way on from where a guard ends the node, unless a person lets it go on."""
    try:
        answer = await reprieved(work, key, ended)
    except Pending as pending:
        return _wait(pending.requests, "judge")
    if answer is None:
        return {"next": "leave", "error": ended}
    goes_on, words = answer
    if not goes_on:
        return _fail("rejected", words)
    message = Message(role="user", content=f"[Judge feedback]: {words}")
    work.session.store.append(work.conversation, message, key=f"{key}/feedback")
    return {"next": "think", "since": iteration}


def _mendable(found: Mapping[str, Any], state: VisitState, may_go_on: bool) -> bool:
    """Return whether the model may do better when it is told, or sent less."""
    if found.get("kind") == "overflow":
        return may_go_on and state.get("overflows", 0) < SMALLER
    return may_go_on and found.get("kind") in ("garbage", "truncated") and state.get("unread", 0) < UNREAD


def _mended(work: NodeWork, key: str, found: Mapping[str, Any], state: VisitState) -> Update:
    again: Update = {"iteration": state["iteration"] + 1, "next": "think"}
    if found["kind"] == "overflow":
        return again | {"overflows": state.get("overflows", 0) + 1, "room": found["sent"] // 2}
    words = f"[Error]: your last turn could not be read, and nothing of it was done: {found['error']}. Say it again."
    work.session.store.append(work.conversation, Message(role="user", content=words), key=f"{key}/unread")
    return again | {"unread": state.get("unread", 0) + 1}


def _listen(work: NodeWork, text: str) -> None:
    if work.session.on_text is not None:
        work.session.on_text(work.node.id, text)


def _turn(work: NodeWork, key: str) -> Entry:
    entry = work.session.store.find(work.conversation, key)
    assert entry is not None, "a turn is stored before its step counts as done"
    return entry


def _named(made: list[ToolCall], iteration: int) -> list[ToolCall]:
    """The calls, each with an id of its own within the turn."""
    ids = [call.id for call in made]
    sound = all(ids) and len(set(ids)) == len(ids)
    return made if sound else [call.model_copy(update={"id": f"c{iteration}_{n}"}) for n, call in enumerate(made)]


def _fail(reason: str, message: str, code: str = "HIVE-422") -> Update:
    return {"next": "leave", "error": fault(code, reason, message)}


def _unprompted(error: HiveError) -> Update:
    """Return the failed visit of a prompt that couldn't be made; what needs a person's approval goes on up."""
    if error.exit_code == 3 and not isinstance(error, NoModel):
        raise error
    return _fail("prompt", error.diagnostics[0].message, error.diagnostics[0].code)


def _wait(requests: list[str], after: str) -> Update:
    return {"next": "wait", "after": after, "waiting": requests}
