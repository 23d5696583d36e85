"""Replay a run that has ended: with the recorded answers of its models, tools and people, and without effects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hive_agents.agents import (
    AgentRun,
    RecordedStep,
    Recording,
    RunValue,
    Tool,
    ToolContext,
    ToolRegistry,
    rehearsal,
    require_agent_run,
    workspace_tools,
)
from hive_agents.agents.evolution import inlined, proposals
from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.base import HiveError
from hive_agents.goals import load_goal
from hive_agents.judging import Judgment, Runtime
from hive_agents.memory import ToolResult
from hive_agents.models import Chain, ModelError
from hive_agents.runs import RunRow, RunStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hive_agents.agents import Done
    from hive_agents.models import ChatDelta, ChatResult
    from hive_agents.workspace import Workspace

ANSWERS = 1_000
"""How many times at most a replay that waits is answered and resumed."""
RESTED = ("done", "failed", "stopped")


@dataclass(frozen=True)
class Parting:
    """The first step that differs from the recording; None where the recording or the replay has no such step."""

    at: str
    node: str
    recorded: dict[str, Any] | None
    replayed: dict[str, Any] | None


@dataclass(frozen=True)
class Replay:
    """The result of a replay. `compared` counts the steps of recording and replay, `differing` those that differ."""

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
    """Replay a run in a temporary copy of the workspace.

    Models, tools and people give their recorded answers; policies, constraints, edges and judges' rules are evaluated
    again. `patch` is applied to the agent first, with its prompts inlined. A `model` replaces the recorded answers of
    models; its calls get the recorded results of calls with the same arguments, anywhere in the run.

    Raises: HIVE-409 (exit code 2) for a run that is unknown, of another kind or under way; what levels 1 and 2 find in
    the agent, HIVE-105 for a patch that doesn't fit, HIVE-401 for a model that can't be had.
    """
    row = RunStore(workspace).get(run_id)
    require_agent_run(row, RESTED, "only runs of agents that have ended are replayed; `hive runs` lists them")
    value, recording = RunValue.read(row.value), Recording(workspace, run_id)
    agent = inlined(value.agent, workspace)
    if patch is not None:
        agent = proposals.changed(agent, patch)
    if model is not None:
        agent = agent.model_copy(update={"model": model})
    with rehearsal.scratch(workspace) as place:
        player = _Player(place, recording, value)
        seams: dict[str, Any] = {}
        if model is None:
            seams = {"models": lambda _: Chain([_Exhausted()]), "recorded": player.said}
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
        """Return the recorded answer of a model or judge; None where rules determine it, which are evaluated again."""
        done = self._recording.done(key) if kind in ("model", "judge") else None
        if done is None or kind == "model":
            return done
        if "judgment" not in done.result:
            return done if done.result["level"] in (1, 2) else None
        return self._escalated(done) if done.result["action"] == "escalate" else done

    def tools(self, workspace: Workspace) -> ToolRegistry:
        """Return every tool of the workspace, each replaced by its recorded results."""
        registry, view = ToolRegistry(), workspace_tools(workspace).view(sub_agent=True)
        for name in view.names:
            registry.register(replace(view[name], action=partial(self._played, view[name]), credentials={}, keyed=True))
        return registry

    def answer(self) -> bool:
        """Answer pending requests as people did; return whether any was answered."""
        store = ApprovalStore(self._place)
        start = f"run:{self.run_id}:"
        answered = False
        for request in reversed(store.list("pending")):
            recorded = self._recording.requests.get((request.idempotency_key or "").removeprefix(start))
            recorded = recorded if recorded is not None and _same(recorded, request) else self._like(request)
            if recorded is None or not recorded.decisions:
                continue
            decision = recorded.decisions[-1]
            self._used.add(recorded.id)
            with suppress(HiveError):  # the answer may not fit the request of a patched agent
                store.decide(
                    request.id,
                    decision.verb,
                    by="replay",
                    message=decision.message,
                    reason=decision.reason,
                    patch=decision.args,
                    for_run=recorded.grant is not None,
                )
                answered = True
        return answered

    def _like(self, request: ApprovalRequest) -> ApprovalRequest | None:
        """Return an unused recorded request with the same content, from anywhere in the run."""
        requests = self._recording.requests.values()
        return next((one for one in requests if one.id not in self._used and _same(one, request)), None)

    async def _played(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext, _: Any) -> ToolResult:
        key = context.idempotency_key.removeprefix(f"{self.run_id}/")
        calls = [one for one in self._recording.calls if one.tool == tool.name and one.args == dict(arguments)]
        made = next((one for one in calls if one.key == key), None) or next(iter(calls), None)
        if made is None:
            return ToolResult(f"this is a replay: {tool.name} was never called with these arguments", is_error=True)
        context.documents.update(made.documents)
        return ToolResult(made.text, made.is_error)

    def _escalated(self, done: Done) -> Done:
        """Return an escalated judgement of the goal, logged in the copy, whose request names that decision."""
        judgment = Judgment.model_validate_json(json.dumps(done.result["judgment"]))
        goal = self._value.goal or load_goal(self._place, self._value.agent.goal)
        context = done.result["context"].get("accumulated_context", {})
        number = Runtime(self._place).log_decision(goal, context, judgment)
        logged = done.result["judgment"] | {"decision_id": number}
        return replace(done, result=done.result | {"judgment": logged})


class _Exhausted:
    """A model that fails on every call: a replay asks it only where the recording has no answer."""

    name = "recorded"

    async def complete(self, *_: Any, **__: Any) -> ChatResult:
        raise ModelError("exhausted", "the recording has no answer to this: from here on a model is needed")

    async def stream(self, *_: Any, **__: Any) -> AsyncGenerator[ChatDelta, None]:
        await self.complete()
        yield  # type: ignore[misc]  # pragma: no cover


def _same(recorded: ApprovalRequest, request: ApprovalRequest) -> bool:
    """Return whether two requests have the same content; the arguments of an edited one don't count."""
    edited = recorded.status == "edited"
    names = ("tool", "args", "question", "node", "budget")
    return recorded.kind == request.kind and all(
        recorded.context.get(name) == request.context.get(name) for name in names if not (edited and name == "args")
    )


def _compared(
    row: RunRow,
    recorded: Recording,
    again: Recording,
    result: Mapping[str, Any],
    costs: Mapping[str, Any],
    *,
    paid: bool,
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
        tokens=int(costs["tokens"]) if paid else 0,
        usd=float(costs["usd"]) if paid else 0.0,
    )


def _comparable(steps: Sequence[RecordedStep] | Any, *, words: bool) -> dict[str, dict[str, Any]]:
    """Return the content of each step, by its key; without `words` all answers in plain text are equal."""
    content = {step.key: step.told for step in steps if step.told}
    return content if words else {key: {"says": ""} if "says" in one else one for key, one in content.items()}
