"""Level 3 of an agent: its goal's eval cases, rehearsed by the candidate and by what serves, with no effect."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.agents import AgentSpec, Tool, ToolContext, ToolRegistry
from hive_agents.agents.evolution import Rehearsed, VersionDecision, decide
from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.errors import HiveError
from hive_agents.files import atomic_write, guard, release
from hive_agents.goals import EvalCase, Goal, SuccessCriterion
from hive_agents.judging import score_criteria
from hive_agents.llm import waited
from hive_agents.machine import make_state
from hive_agents.memory import ToolResult
from hive_agents.runs import RunStore
from hive_agents.runtime.agent_run import AgentRun
from hive_agents.runtime.stubs import Heard, stubbed, unexpected
from hive_agents.store import audit
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.llm import Chain
    from hive_agents.settings import Role

ANSWERS = 100
"""So often a case's person answers."""
PASSES = 0.5
"""The least score of a criterion that counts as met; all but `custom` ones give 0 or 1."""

_FAULTS = frozenset({"model_error", "unparsable"})
_COPIED = ("agents", "goals", "prompts", "rules")
_APART = (".hive", "audit", ".git")


@dataclass(frozen=True)
class Stage:
    """With what agents are rehearsed: `tools` and `models` as for `AgentRun`, the latter by agent.

    `principal` is for whom they work; nobody's see no documents.
    """

    workspace: Workspace
    tools: ToolRegistry
    principal: Principal | None = None
    models: Callable[[AgentSpec], Callable[[Role], Chain]] | None = None
    progress: Callable[[str, int, int], object] | None = None


def measure(stage: Stage, goal: Goal, candidate: AgentSpec, current: AgentSpec | None) -> VersionDecision:
    """Rehearse every eval case of the goal with both versions, and decide; not to be called on an event loop.

    Raises: HIVE-401 without a model that answers, what the environment raises. A case that an agent can't do is a
    case failed.
    """
    sides = [one for one in (candidate, current) if one is not None]
    found: list[dict[str, Rehearsed]] = [{} for _ in sides]
    for number, case in enumerate(goal.eval_cases):
        for side, agent in enumerate(sides):
            found[side][case.id] = waited(rehearse(stage, agent, goal, case))
        if stage.progress is not None:
            stage.progress("eval cases", number + 1, len(goal.eval_cases))
    alpha = stage.workspace.settings.gate.alpha
    return decide(found[0], found[1] if current is not None else None, alpha=alpha)


async def rehearse(stage: Stage, agent: AgentSpec, goal: Goal, case: EvalCase) -> Rehearsed:
    """One run of an agent on a case, in a workspace of its own that is gone afterwards.

    It reads what the real one would read. A tool that writes or reaches outside is not called: what the case has for
    it stands in, and a call of any other fails the case. So does a question, unless the case has a person who answers.
    Nothing is left behind: no notes, no decisions, no events, no requests.
    """
    with scratch(stage.workspace) as place:
        heard = Heard()
        tools = _rehearsed_tools(stage, case, heard)
        given = case.input if isinstance(case.input, Mapping) else {}
        seams: dict[str, Any] = {} if stage.models is None else {"models": stage.models(agent)}
        thread = f"rehearsal:{case.id}"
        try:
            run = AgentRun.start(
                place, agent, given, principal=stage.principal, goal=goal, thread_id=thread, tools=tools, **seams
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
        asked = ApprovalStore(place).list("pending") if result["approval_ids"] else []
        _require_models(case, result, asked)
        why = await _failed_because(goal, case, result, heard.refused, asked)
        why = why or unexpected(case, heard, row)
        violated = [] if case.person else _violated(goal, result)
        return Rehearsed(why, violated, int(row["tokens"]), float(row["usd"]))


@contextmanager
def scratch(workspace: Workspace) -> Iterator[Workspace]:
    """A workspace with the same files and a state of its own: what is recorded there is gone afterwards.

    What a run reads by name is copied, links as links; all else is a link that nothing is written through. Its audit
    log is a copy, so that what serves there is what serves here, and its requests go nowhere.
    """
    with tempfile.TemporaryDirectory(prefix="hive-rehearsal-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        make_state(root / ".hive")
        (root / "audit").mkdir()
        # Secrets stay where they are: a process that is killed leaves this folder behind.
        lent = {".hive/credentials.json": workspace.root / ".hive/credentials.json"}
        for entry in workspace.root.iterdir():
            if entry.name in _COPIED and entry.is_dir():
                shutil.copytree(entry, root / entry.name, symlinks=True, ignore=_no_files)
            elif entry.name not in _APART:
                lent[entry.name] = entry
        for name, there in lent.items():
            (root / name).symlink_to(there)
        # The head before the log: what is written meanwhile makes the log longer, and no head lead.
        if (workspace.root / audit.HEAD).is_file():
            shutil.copy2(workspace.root / audit.HEAD, root / audit.HEAD)
        if lines := audit.lines_beside(workspace, workspace.records):
            atomic_write(root / audit.FILE, lines)
        place = Workspace(root)
        guard(root, lent)
        place.stands_for = workspace
        silent = workspace.settings.approvals.model_copy(update={"notify": [], "require_token": False})
        # A rehearsal is recorded beside its own files, also where hosts share the records.
        own = workspace.settings.storage.model_copy(update={"url": ""})
        place.__dict__["settings"] = workspace.settings.model_copy(update={"approvals": silent, "storage": own})
        try:
            yield place
        finally:
            release(root)


def _no_files(folder: str, names: list[str]) -> list[str]:
    """Pipes and the like, which can't be copied."""
    paths = {name: Path(folder) / name for name in names}
    return [name for name, path in paths.items() if not (path.is_symlink() or path.is_file() or path.is_dir())]


def _rehearsed_tools(stage: Stage, case: EvalCase, heard: Heard) -> ToolRegistry:
    """Return the tools that read, in the real workspace, the case's stubs, and stand-ins for all others.

    Raises: HIVE-107 for a stub of a tool that there isn't.
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
            registry.register(_reading(stage, tool, heard) if tool.side_effect == "read" else _stand_in(tool, heard))
    return registry


def _reading(stage: Stage, tool: Tool, heard: Heard) -> Tool:
    async def call(arguments: Mapping[str, Any], context: ToolContext, secrets: Mapping[str, Any]) -> Any:
        heard.calls.append((tool.name, dict(arguments)))
        return await tool.call(arguments, replace(context, workspace=stage.workspace), secrets)

    return replace(tool, call=call)


def _stand_in(tool: Tool, heard: Heard) -> Tool:
    async def call(*_: Any) -> ToolResult:
        heard.refused.append(tool.name)
        return ToolResult(f"this is a rehearsal: {tool.name} was not called", is_error=True)

    return replace(tool, call=call, credentials={})


def _for_the_person(place: Workspace, case: EvalCase, result: Mapping[str, Any]) -> list[ApprovalRequest]:
    """Return the calls that the case's person is asked about."""
    if case.person is None or result["status"] != "waiting":
        return []
    pending = ApprovalStore(place).list("pending")
    return [one for one in reversed(pending) if one.kind == "tool_call"]


def _require_models(case: EvalCase, result: Mapping[str, Any], asked: Sequence[ApprovalRequest]) -> None:
    """A model that is down is no agent's fault: counted as one, it would be the other's gain. Raises: HIVE-401."""
    reasons = {(result["judgment"] or {}).get("escalation_reason")}
    reasons |= {one.context.get("escalation_reason") for one in asked}
    if result["stopped_by"] in ("model_error", "unavailable") or reasons & _FAULTS:
        told = (result["error"] or {}).get("message", "the judge's model failed")
        fix = "run the command again when the model answers"
        raise HiveError.of("HIVE-401", f"the case {case.id} can't be rehearsed: {told}", fix=fix, exit_code=3)


async def _failed_because(
    goal: Goal, case: EvalCase, result: Mapping[str, Any], refused: list[str], asked: Sequence[ApprovalRequest]
) -> str:
    """Return what the case failed of, in words; "" where it passed."""
    if refused:
        return f"it would have called {', '.join(sorted(set(refused)))}, which has effects"
    broken = _violated(goal, result)
    if broken:
        return f"it violates {', '.join(broken)}"
    if asked:
        return f"it would have asked a person: {asked[0].title}"
    if result["status"] != "done":
        error = result["error"] or {"message": result["status"]}
        return f"it didn't end well: {error['message']}"
    return await _unmet(case, result["outputs"])


async def _unmet(case: EvalCase, outputs: Mapping[str, Any]) -> str:
    """Return what of `expect` the outputs don't satisfy."""
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
