"""A run that has ended, once more: its models say and its tools give what was recorded, and nothing has an effect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hive_agents.agents import RecordedStep, Recording, Tool, ToolContext, ToolRegistry, workspace_tools
from hive_agents.agents.evolution import changed, inlined
from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.errors import HiveError
from hive_agents.goals import load_goal
from hive_agents.judging import Judgment
from hive_agents.llm import Chain, ModelError
from hive_agents.memory import ToolResult
from hive_agents.runs import RunRow, RunStore
from hive_agents.runtime.agent_gate import scratch
from hive_agents.runtime.agent_input import RunValue, require_agent_run
from hive_agents.runtime.agent_run import AgentRun
from hive_agents.runtime.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hive_agents.agents import Done
    from hive_agents.llm import ChatDelta, ChatResult
    from hive_agents.workspace import Workspace

ANSWERS = 1_000
"""So often people's recorded answers are given."""
RESTED = ("done", "failed", "stopped")


@dataclass(frozen=True)
class Parting:
    """The first step that isn't as it was recorded; None stands for a step that one of the two doesn't have."""

    at: str
    node: str
    recorded: dict[str, Any] | None
    replayed: dict[str, Any] | None


@dataclass(frozen=True)
class Replay:
    """How a run went the second time. `compared` counts the steps of both, `differing` those that aren't equal."""

    run_id: str
    status: str
    before: str
    outputs: dict[str, Any]
    outputs_before: dict[str, Any]
    error: dict[str, str] | None
    compared: int
    differing: int
    parted: Parting | None
    tokens: int
    usd: float

    @property
    def same(self) -> bool:
        return self.parted is None and self.status == self.before and self.outputs == self.outputs_before

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "parted": vars(self.parted) if self.parted is not None else None, "same": self.same}


async def replay(workspace: Workspace, run_id: str, *, model: str | None = None, patch: Any = None) -> Replay:
    """Go through a run again, in a copy of the workspace that is gone afterwards.

    Models say what they said, tools give what they gave, people answer as they did; policies, constraints, edges and
    judges' rules are asked anew. `patch` changes the agent first, with every prompt in it. With a `model` that one is
    asked in place of what was said; calls then get what the run's tools gave to the same arguments, at any time.

    Raises: HIVE-409 (exit code 2) for a run that is unknown, of another kind or under way; what levels 1 and 2 find in
    the agent, HIVE-105 for a patch that doesn't fit, HIVE-401 for a model that can't be had.
    """
    row = RunStore(workspace).get(run_id)
    require_agent_run(row, RESTED, "only runs of agents that have ended are replayed; `hive runs` lists them")
    value, recording = RunValue.read(row.value), Recording(workspace, run_id)
    agent = inlined(value.agent, workspace)
    if patch is not None:
        agent = changed(agent, patch)
    if model is not None:
        agent = agent.model_copy(update={"model": model})
    with scratch(workspace) as place:
        player = _Player(place, recording, value)
        seams: dict[str, Any] = {}
        if model is None:
            seams = {"models": lambda _: Chain([_Over()]), "recorded": player.said}
        run = AgentRun.start(
            place,
            agent,
            value.input,
            goal=value.goal or load_goal(workspace, agent.goal),
            thread_id=row.thread_id,
            tools=player.tools(workspace),
            limits=value.limits,
            **seams,
        )
        player.run_id = run.run_id
        result = await run.work()
        for _ in range(ANSWERS):
            if result["status"] != "waiting" or not player.answer():
                break
            result = await run.work()
        again = Recording(place, run.run_id)
        return _compared(row, recording, again, result, RunStore(place).get(run.run_id).summary, paid=model is not None)


class _Player:
    """Plays one recording into a run in `place`."""

    def __init__(self, place: Workspace, recording: Recording, value: RunValue) -> None:
        self.run_id = ""
        self._place, self._recording, self._value = place, recording, value
        self._used: set[str] = set()

    def said(self, key: str, kind: str) -> Done | None:
        """Return what models and judges said at a key; None for what follows from it by rules, which is worked out
        anew."""
        found = self._recording.done(key) if kind in ("model", "judge") else None
        if found is None or kind == "model":
            return found
        if "judgment" not in found.result:
            return found if found.result["level"] in (1, 2) else None
        return self._escalated(found) if found.result["action"] == "escalate" else found

    def tools(self, workspace: Workspace) -> ToolRegistry:
        """Return every tool of the workspace, with what it gave in place of what it does."""
        registry, view = ToolRegistry(), workspace_tools(workspace).view(sub_agent=True)
        for name in view.names:
            registry.register(replace(view[name], call=partial(self._given, view[name]), credentials={}, keyed=True))
        return registry

    def answer(self) -> bool:
        """Give people's recorded answers to what is asked; whether there was one."""
        store = ApprovalStore(self._place)
        start = f"run:{self.run_id}:"
        answered = False
        for request in reversed(store.list("pending")):
            known = self._recording.requests.get((request.idempotency_key or "").removeprefix(start))
            known = known if known is not None and _same(known, request) else self._like(request)
            if known is None or not known.decisions:
                continue
            said = known.decisions[-1]
            self._used.add(known.id)
            with suppress(HiveError):  # a patched agent may ask for what that answer doesn't fit
                store.decide(
                    request.id,
                    said.verb,
                    by="replay",
                    message=said.message,
                    reason=said.reason,
                    patch=said.args,
                    for_run=known.grant is not None,
                )
                answered = True
        return answered

    def _like(self, request: ApprovalRequest) -> ApprovalRequest | None:
        """Return a request of the same kind about the same, wherever in the run it was."""
        found = (one for one in self._recording.requests.values() if one.id not in self._used and _same(one, request))
        return next(found, None)

    async def _given(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext, _: Any) -> ToolResult:
        key = context.idempotency_key.removeprefix(f"{self.run_id}/")
        fits = [one for one in self._recording.calls if one.tool == tool.name and one.args == dict(arguments)]
        made = next((one for one in fits if one.key == key), None) or next(iter(fits), None)
        if made is None:
            return ToolResult(f"this is a replay: {tool.name} was never called with these arguments", is_error=True)
        context.documents.update(made.documents)
        return ToolResult(made.text, made.is_error)

    def _escalated(self, found: Done) -> Done:
        """Return the goal's judgement with a decision of the copy's own, which people are asked about."""
        judgment = Judgment.model_validate_json(json.dumps(found.result["judgment"]))
        goal = self._value.goal or load_goal(self._place, self._value.agent.goal)
        context = found.result["context"].get("accumulated_context", {})
        number = Runtime(self._place).log_decision(goal, context, judgment)
        told = found.result["judgment"] | {"decision_id": number}
        return replace(found, result=found.result | {"judgment": told})


class _Over:
    """A model that says no more than was recorded."""

    name = "recorded"

    async def complete(self, *_: Any, **__: Any) -> ChatResult:
        raise ModelError("exhausted", "the recording has no answer to this: from here on a model is needed")

    async def stream(self, *_: Any, **__: Any) -> AsyncGenerator[ChatDelta, None]:
        await self.complete()
        yield  # type: ignore[misc]  # pragma: no cover


def _same(recorded: ApprovalRequest, request: ApprovalRequest) -> bool:
    """Return whether two requests ask the same: an edit has changed the arguments of the one that was decided."""
    edited = recorded.status == "edited"
    asked = ("tool", "args", "question", "node", "budget")
    return recorded.kind == request.kind and all(
        recorded.context.get(name) == request.context.get(name) for name in asked if not (edited and name == "args")
    )


def _compared(
    row: RunRow, recorded: Recording, again: Recording, result: Mapping[str, Any], now: Mapping[str, Any], *, paid: bool
) -> Replay:
    before, after = (_comparable(one.steps.values(), words=not paid) for one in (recorded, again))
    differing = [key for key in after if before.get(key) != after[key]]
    missing = [key for key in before if key not in after]
    at = next(iter(differing), None) or next(iter(missing), None)
    parted = None
    if at is not None:
        step = again.steps.get(at) or recorded.steps[at]
        parted = Parting(at, step.node, before.get(at), after.get(at))
    return Replay(
        run_id=row.run_id,
        status=str(result["status"]),
        before=row.status,
        outputs=dict(result["outputs"]),
        outputs_before=dict((row.result or {}).get("outputs", {})),
        error=result["error"],
        compared=len(before.keys() | after.keys()),
        differing=len(differing) + len(missing),
        parted=parted,
        tokens=int(now["tokens"]) if paid else 0,
        usd=float(now["usd"]) if paid else 0.0,
    )


def _comparable(steps: Sequence[RecordedStep] | Any, *, words: bool) -> dict[str, dict[str, Any]]:
    """Return what each step says, by its key; without `words` two answers in words are equal."""
    told = {step.key: step.told for step in steps if step.told}
    return told if words else {key: {"says": ""} if "says" in one else one for key, one in told.items()}
