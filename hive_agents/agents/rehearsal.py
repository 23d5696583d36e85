"""Level 3 of an agent: its goal's eval cases, run with the candidate and with the serving version, without effects."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.agents.evolution.verdict import Rehearsed, VersionDecision, decide
from hive_agents.agents.run import AgentRun
from hive_agents.agents.spec import AgentSpec
from hive_agents.agents.tool import Tool, ToolContext
from hive_agents.agents.tools import ToolRegistry
from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write, guarded
from hive_agents.goals import Goal, SuccessCriterion, goals
from hive_agents.goals.expressions import ExpressionError, parse
from hive_agents.judging import score_criteria
from hive_agents.memory import ToolResult
from hive_agents.models import waited
from hive_agents.runs import RunStore
from hive_agents.store import audit
from hive_agents.workspace import Workspace, machine

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.models import Chain
    from hive_agents.workspace.settings import Role


StubCall = tuple[str, dict[str, Any]]


@dataclass
class Heard:
    """The calls that were made, in order, those that a person was asked about, and the tools of refused ones."""

    calls: list[StubCall] = field(default_factory=list)
    asked: list[StubCall] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def stubbed(tool: Tool, stubs: goals.ToolStub | Sequence[goals.ToolStub], heard: Heard) -> Tool:
    """Return the tool with its action replaced: a call is answered by the first stub that fits and isn't used up."""
    choices = [stubs] if isinstance(stubs, goals.ToolStub) else list(stubs)
    remaining = {n: one.times for n, one in enumerate(choices) if one.times is not None}

    async def call(arguments: Mapping[str, Any], *_: Any) -> Any:
        heard.calls.append((tool.name, dict(arguments)))
        fitting = (n for n, one in enumerate(choices) if remaining.get(n) != 0 and _holds(one.when, arguments))
        n = next(fitting, None)
        if n is None:
            heard.refused.append(tool.name)
            return ToolResult(f"this is a rehearsal: the case has no answer of {tool.name} to this", is_error=True)
        if n in remaining:
            remaining[n] -= 1
        stub = choices[n]
        return ToolResult(stub.error, is_error=True) if stub.error is not None else stub.returns

    return replace(tool, action=call, credentials={})


def unexpected(case: goals.EvalCase, heard: Heard, row: Mapping[str, Any]) -> str:
    """Return how the calls or the cost violate the case, in words; "" where they don't."""
    wanted = case.calls
    if wanted is not None:
        calls = iter(heard.calls)
        for expected in wanted.order:
            if not any(_is(expected, call) for call in calls):
                return f"it did not call {_described(expected)}" + (" in that order" if len(wanted.order) > 1 else "")
        for expected in wanted.never:
            if any(_is(expected, call) for call in heard.calls):
                return f"it called {_described(expected)}"
        for expected in wanted.asks:
            if not any(_is(expected, call) for call in heard.asked):
                return f"it asked nobody about {_described(expected)}"
    for measure, limit in (case.at_most or {}).items():
        if row[measure] > limit:
            return f"it took {row[measure]:g} {measure}, more than {limit:g}"
    return ""


def _is(expected: goals.ExpectedCall, call: StubCall) -> bool:
    return expected.tool == call[0] and _holds(expected.when, call[1])


def _holds(when: str | None, arguments: Mapping[str, Any]) -> bool:
    if when is None:
        return True
    try:
        return bool(parse(when, goals.CALL_NAMES).evaluate({"args": dict(arguments)}))
    except ExpressionError:
        return False


def _described(expected: goals.ExpectedCall) -> str:
    return expected.tool + (f" with {expected.when}" if expected.when else "")


ANSWERS = 100
"""How many requests a case's person answers at most."""
PASSES = 0.5
"""The least score of a criterion that counts as met; all but `custom` ones give 0 or 1."""

_FAULTS = frozenset({"model_error", "unparsable"})
_COPIED = ("agents", "goals", "prompts", "rules")
_APART = (".hive", "audit", ".git")


@dataclass(frozen=True)
class Stage:
    """The environment in which agents are rehearsed: `tools` and `models` as for `AgentRun`, the latter by agent.

    Agents see the documents of `principal`; without one they see none.
    """

    workspace: Workspace
    tools: ToolRegistry
    principal: Principal | None = None
    models: Callable[[AgentSpec], Callable[[Role], Chain]] | None = None
    progress: Callable[[str, int, int], object] | None = None


def measure(stage: Stage, goal: Goal, candidate: AgentSpec, current: AgentSpec | None) -> VersionDecision:
    """Return the decision on a candidate after rehearsing every eval case with both versions; not on an event loop.

    Raises: HIVE-401 without a model that answers, and errors of the environment. A case that the agent can't start
    counts as failed.
    """
    sides = [one for one in (candidate, current) if one is not None]
    rehearsed: list[dict[str, Rehearsed]] = [{} for _ in sides]
    for number, case in enumerate(goal.eval_cases):
        for side, agent in enumerate(sides):
            rehearsed[side][case.id] = waited(rehearse(stage, agent, goal, case))
        if stage.progress is not None:
            stage.progress("eval cases", number + 1, len(goal.eval_cases))
    alpha = stage.workspace.settings.gate.alpha
    return decide(rehearsed[0], rehearsed[1] if current is not None else None, alpha=alpha)


async def rehearse(stage: Stage, agent: AgentSpec, goal: Goal, case: goals.EvalCase) -> Rehearsed:
    """Run an agent on a case in a temporary workspace, and return how it went.

    Tools that read do so in the real workspace. Others are not called: the case's stub answers, and a call without one
    fails the case. So does a question, unless the case has a person who answers.
    """
    with scratch(stage.workspace) as place:
        heard = Heard()
        tools = _rehearsed_tools(stage, case, heard)
        input = case.input if isinstance(case.input, Mapping) else {}
        seams: dict[str, Any] = {} if stage.models is None else {"models": stage.models(agent)}
        thread = f"rehearsal:{case.id}"
        try:
            run = AgentRun.start(
                place, agent, input, principal=stage.principal, goal=goal, thread_id=thread, tools=tools, **seams
            )
        except HiveError as error:
            if error.exit_code == 3:
                raise
            return Rehearsed(f"it can't start: {error.diagnostics[0].message}")
        result = await run.work()
        while (waiting := _for_the_person(place, case, result)) and len(heard.asked) < ANSWERS:
            for request in waiting:
                heard.asked.append((str(request.context["tool"]), dict(request.context["args"])))
                ApprovalStore(place).decide(request.id, case.person or "reject", by="rehearsal")
            result = await run.work()
        row = RunStore(place).get(run.run_id).summary
        pending = ApprovalStore(place).list("pending") if result["approval_ids"] else []
        _require_models(case, result, pending)
        why = await _failed_because(goal, case, result, heard.refused, pending)
        why = why or unexpected(case, heard, row)
        violated = [] if case.person else _violated(goal, result)
        return Rehearsed(why, violated, int(row["tokens"]), float(row["usd"]))


@contextmanager
def scratch(workspace: Workspace) -> Iterator[Workspace]:
    """Yield a temporary workspace with the same files and separate state.

    Agents, goals, prompts and rules are copied, links as links; the other files are links that writes don't follow. The
    audit log is copied, so that the same versions serve there; nobody is notified of its requests.
    """
    with tempfile.TemporaryDirectory(prefix="hive-rehearsal-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        machine.make_state(root / ".hive")
        (root / "audit").mkdir()
        # A link and no copy of secrets: a process that is killed leaves this folder behind.
        linked = {".hive/credentials.json": workspace.root / ".hive/credentials.json"}
        for entry in workspace.root.iterdir():
            if entry.name in _COPIED and entry.is_dir():
                guarded.copy_folder(entry, root / entry.name)
            elif entry.name not in _APART:
                linked[entry.name] = entry
        for name, target in linked.items():
            (root / name).symlink_to(target)
        # The head before the log: a log that grew meanwhile is valid, one that is behind its head is not.
        if (workspace.root / audit.HEAD).is_file():
            shutil.copy2(workspace.root / audit.HEAD, root / audit.HEAD)
        if lines := audit.lines_beside(workspace, workspace.records):
            atomic_write(root / audit.FILE, lines)
        place = Workspace(root)
        guarded.guard(root, linked)
        place.stands_for = workspace
        silent = workspace.settings.approvals.model_copy(update={"notify": [], "require_token": False})
        # A local database, also where hosts share the records.
        local = workspace.settings.storage.model_copy(update={"url": ""})
        place.__dict__["settings"] = workspace.settings.model_copy(update={"approvals": silent, "storage": local})
        try:
            yield place
        finally:
            guarded.release(root)


def _rehearsed_tools(stage: Stage, case: goals.EvalCase, heard: Heard) -> ToolRegistry:
    """Return the case's stubs, the tools that read in the real workspace, and refusals of all others.

    Raises: HIVE-107 for a stub of an unknown tool.
    """
    registry = ToolRegistry()
    view = stage.tools.view(sub_agent=True)
    for name in case.tools or {}:
        view[name]
    for name in stage.tools.all_names:
        tool = view[name]
        if case.tools and name in case.tools:
            registry.register(stubbed(tool, case.tools[name], heard))
        else:
            registry.register(_reading(stage, tool, heard) if tool.side_effect == "read" else _refusing(tool, heard))
    return registry


def _reading(stage: Stage, tool: Tool, heard: Heard) -> Tool:
    async def call(arguments: Mapping[str, Any], context: ToolContext, secrets: Mapping[str, Any]) -> Any:
        heard.calls.append((tool.name, dict(arguments)))
        return await tool.action(arguments, replace(context, workspace=stage.workspace), secrets)

    return replace(tool, action=call)


def _refusing(tool: Tool, heard: Heard) -> Tool:
    async def call(*_: Any) -> ToolResult:
        heard.refused.append(tool.name)
        return ToolResult(f"this is a rehearsal: {tool.name} was not called", is_error=True)

    return replace(tool, action=call, credentials={})


def _for_the_person(place: Workspace, case: goals.EvalCase, result: Mapping[str, Any]) -> list[ApprovalRequest]:
    """Return the requests about calls that the case's person decides."""
    if case.person is None or result["status"] != "waiting":
        return []
    pending = ApprovalStore(place).list("pending")
    return [one for one in reversed(pending) if one.kind == "tool_call"]


def _require_models(case: goals.EvalCase, result: Mapping[str, Any], pending: Sequence[ApprovalRequest]) -> None:
    """Raises: HIVE-401 where a model failed, which must not count against the agent."""
    reasons = {(result["judgment"] or {}).get("escalation_reason")}
    reasons |= {one.context.get("escalation_reason") for one in pending}
    if result["stopped_by"] in ("model_error", "unavailable") or reasons & _FAULTS:
        why = (result["error"] or {}).get("message", "the judge's model failed")
        fix = "run the command again when the model answers"
        raise HiveError.of("HIVE-401", f"the case {case.id} can't be rehearsed: {why}", fix=fix, exit_code=3)


async def _failed_because(
    goal: Goal, case: goals.EvalCase, result: Mapping[str, Any], refused: list[str], pending: Sequence[ApprovalRequest]
) -> str:
    """Return why the case failed, in words; "" where it passed."""
    if refused:
        return f"it would have called {', '.join(sorted(set(refused)))}, which has effects"
    broken = _violated(goal, result)
    if broken:
        return f"it violates {', '.join(broken)}"
    if pending:
        return f"it would have asked a person: {pending[0].title}"
    if result["status"] != "done":
        error = result["error"] or {"message": result["status"]}
        return f"it didn't end well: {error['message']}"
    return await _unmet(case, result["outputs"])


async def _unmet(case: goals.EvalCase, outputs: Mapping[str, Any]) -> str:
    """Return the first expectation that the outputs don't satisfy, in words; "" where they satisfy all."""
    if isinstance(case.expect, dict):
        for key, value in case.expect.items():
            equal = SuccessCriterion(id="equal", metric="output_equals", target=value)
            if key not in outputs or (await _scores([equal], {"output": outputs[key]})).get("equal") != 1.0:
                return f"{key} is not as expected" if key in outputs else f"{key} is missing"
        return ""
    scores = await _scores(case.expect, dict(outputs))
    for criterion in case.expect:
        if criterion.id not in scores:
            return f"{criterion.id} can't be measured: an eval case needs criteria that no model has to judge"
        if scores[criterion.id] < PASSES:
            return f"{criterion.id} is not met"
    return ""


async def _scores(criteria: list[SuccessCriterion], result: Any) -> dict[str, float]:
    return await score_criteria(Goal(id="case", name="case", success_criteria=criteria), result)


def _violated(goal: Goal, result: Mapping[str, Any]) -> list[str]:
    """Return the hard constraints that the goal's judge found violated."""
    hard = {one.id for one in goal.constraints if one.constraint_type == "hard"}
    judgment = result["judgment"] or {}
    return [name for name in judgment.get("violations", ()) if name in hard]
