"""What follows from a turn and touches the records alone: one transaction with what it follows from.

A process that dies in it has done none of it. The steps of a visit do the same where nothing was recorded, and find it
where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hive_agents.agents import calls
from hive_agents.agents.effects import Done
from hive_agents.agents.node_end import End, Update
from hive_agents.agents.node_judge import LevelVerdict, at_level_0, is_judged, recorded
from hive_agents.agents.node_messages import missed
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.progress import stuck
from hive_agents.agents.routing import NoWay, ways
from hive_agents.agents.synthetic import SET
from hive_agents.base import HiveError, cut
from hive_agents.events import EventType
from hive_agents.memory import Delivery, Entry
from hive_agents.models import Message, ToolCall

VisitState = Mapping[str, Any]


def after_turn(work: NodeWork, state: VisitState, key: str) -> Update:
    """Carry out a recorded turn that only sets outputs, then what follows; return what changes by it."""
    turn = recorded_turn(work, key).message.tool_calls
    if any(call.name != SET or calls.counted(work, call) for call in turn):
        return {}
    try:
        work.session.effects.require_permission()
    except HiveError:
        return {}  # the turn is recorded, and the next step ends the run
    for n, call in enumerate(turn):
        at = f"{key}/{n}"
        say_result(work, at, call, calls.output_set(work, at, call))
    return after_calls(work, state, key)


def say_result(work: NodeWork, key: str, call: ToolCall, result: Delivery) -> None:
    message = Message(role="tool", content=result.content, tool_call_id=call.id)
    store = work.session.store
    store.append(work.conversation, message, key=key, is_error=result.is_error, pointer=result.pointer)


def after_calls(work: NodeWork, state: VisitState, key: str) -> Update:
    """Judge a turn whose calls are done where no judge has to, and end the visit where nobody has to choose its way."""
    if is_judged(work.node):
        return {}
    judged = work.session.effects.settle(
        f"{key}/verdict", "judge", work.node.id, lambda: implied(work, state, key), node=work.node.id
    )
    if judged["action"] != "accept" or judged.get("missed") or work.memory is not None:
        return {}
    try:
        ways_on, choices = ways(work, "completed")
    except NoWay:
        return {}
    if len(choices) > 1:
        return {}
    payload = verdict_facts(judged, state["iteration"])
    work.session.tell_later(EventType.JUDGMENT_MADE, key, work.node.id, **payload)
    return ended(work, state, work.outputs.values, list(dict.fromkeys([*ways_on, *choices])), None)


def implied(work: NodeWork, state: VisitState, key: str) -> Done:
    """Return the verdict of level 0, as it is recorded."""
    decision = at_level_0(work, recorded_turn(work, key).message, state["iteration"])
    assert decision is not None
    return reported(work) or settled(work, state, key, decision)


def reported(work: NodeWork) -> Done | None:
    """Return the verdict on a sub-agent that has said that it is complete."""
    if work.session.effects.find(f"{work.key}/complete"):
        return recorded(LevelVerdict("accept", 1, "it reported that it is complete"))
    return None


def settled(work: NodeWork, state: VisitState, key: str, decision: LevelVerdict) -> Done:
    """Return a verdict to record, with what a repeated step needs to take the same way."""
    done = recorded(decision)
    ends_here = decision.action in ("accept", "escalate")
    done.result["fault"] = None if ends_here else stuck(work, state["iteration"], state.get("since", 0))
    if decision.action == "accept":
        done.result["missed"] = missed(work, work.session.effects.find(f"{key}/model")["read"])
    return done


def verdict_facts(judged: Mapping[str, Any], iteration: int) -> dict[str, Any]:
    feedback = cut(judged["feedback"] or "", 500)
    return {"level": judged["level"], "action": judged["action"], "feedback": feedback, "iteration": iteration}


def ended(
    work: NodeWork, state: VisitState, outputs: Mapping[str, Any], targets: Sequence[str], error: dict[str, str] | None
) -> Update:
    """End the visit: write its outputs to the data buffer, and tell of it later."""
    buffer = work.buffer.for_node(work.node.input_keys, work.node.output_keys)
    for key, value in outputs.items():
        buffer.write(key, value)
    end = End(
        node=work.node.id,
        visit=work.visit,
        status="failed" if error else "completed",
        outputs=list(outputs),
        targets=list(targets),
        conversation=work.conversation,
        error=error,
    )
    type = EventType.NODE_FAILED if error else EventType.NODE_COMPLETED
    iterations = state.get("iteration", 0)
    facts = {"visit": work.visit, "iterations": iterations, "outputs": end["outputs"], "targets": end["targets"]}
    work.session.tell_later(type, work.key, work.node.id, **facts, error=error)
    return {"ends": [end], "error": error, "next": "end"}


def recorded_turn(work: NodeWork, key: str) -> Entry:
    entry = work.session.store.find(work.conversation, key)
    assert entry is not None, "a turn is stored before its step counts as done"
    return entry
