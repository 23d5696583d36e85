"""Make an eval case of a recorded run: its tool results become stubs, its calls and outputs the expectation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import combinations, groupby
from typing import TYPE_CHECKING, Any

from hive_agents.agents import MadeCall, Recording, RunValue, Tools, require_agent_run, workspace_tools
from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write_text, jsontext, read_bytes
from hive_agents.goals import goals, load_goal
from hive_agents.goals.expressions import ExpressionError, parse
from hive_agents.runs import RunStore

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

SHORT = 40
"""The longest text, in characters, that another run is expected to repeat literally."""
ROOM = 2.0
"""A case may take this multiple of the steps and tokens of the recorded run."""


def record_case(workspace: Workspace, run_id: str, *, name: str | None = None) -> tuple[goals.EvalCase, str]:
    """Add a run that is done to its goal's eval cases, as `name` or the run's id; return the case and the file.

    Raises: HIVE-409 (exit code 2) for a run that is unknown, of another kind, not done, or whose goal has no file;
    HIVE-111 where the goal has a case of that name.
    """
    row = RunStore(workspace).get(run_id)
    require_agent_run(row, {"done"}, "what is expected of an agent is what a run of it came to: name one that is done")
    value, recording = RunValue.read(row.value), Recording(workspace, run_id)
    tools = workspace_tools(workspace).view(sub_agent=True)
    outputs = (row.result or {}).get("outputs", {})
    described = _described(name or run_id, value, recording, tools, outputs)
    case = goals.EvalCase.model_validate(described | {"at_most": _bounds(row.summary)})
    with workspace.exclusive("adding an eval case"):
        goal = load_goal(workspace, value.agent.goal)
        file = f"goals/{goal.id}.json"
        if any(one.id == case.id for one in goal.eval_cases):
            fix = "give it another --name"
            raise HiveError.of("HIVE-111", f'"{case.id}" is a case of {goal.id} already', file=file, fix=fix)
        path = workspace.root / file
        stored = jsontext.parse(jsontext.decode(read_bytes(path), file), file)
        added = case.model_dump(mode="json", exclude_defaults=True)
        stored["eval_cases"] = [*stored.get("eval_cases", []), added]
        atomic_write_text(path, json.dumps(stored, indent=2, ensure_ascii=False) + "\n")
    return case, file


def _described(
    name: str, value: RunValue, recording: Recording, tools: Tools, outputs: Mapping[str, Any]
) -> dict[str, Any]:
    made = recording.calls
    acting = {name for name in tools.names if tools[name].side_effect != "read"}
    listed = {tool for node in value.agent.nodes for tool in node.tools}
    decided = {key: one for key, one in recording.requests.items() if one.kind == "tool_call" and one.decisions}
    asks = [recording.asked(key) for key in decided]
    calls = {
        "order": [_expected(one.tool, one.args) for one in made if one.tool in acting and not one.is_error],
        "never": sorted((acting & listed) - {one.tool for one in made}),
        "asks": [_expected(*one) for one in asks if one is not None],
    }
    used = dict.fromkeys(one.tool for one in made)
    refused = any(one.status == "rejected" for one in decided.values())
    described: dict[str, Any] = {
        "id": name,
        "input": value.input,
        "expect": _steady(outputs),
        "tools": {tool: _stubs([one for one in made if one.tool == tool]) for tool in used},
        "calls": {kind: expected for kind, expected in calls.items() if expected},
    }
    if decided:
        described["person"] = "reject" if refused else "approve"
    return described


def _stubs(calls: Sequence[MadeCall]) -> list[dict[str, Any]]:
    """Return an unconditional stub where all results are equal; else one for each call with a different result.

    Their conditions use as few arguments as possible, and no long texts, which another run would not repeat literally.
    """
    results = [_result(one) for one in calls]
    if all(one == results[0] for one in results):
        return [results[0]]
    names = sorted({name for one in calls for name in one.args}, key=lambda name: (_long(calls, name), name))
    chosen = next((tried for tried in _subsets(names) if _tell_apart(calls, results, tried)), tuple(names))
    answers: dict[str, list[dict[str, Any]]] = {}
    for call, result in zip(calls, results, strict=True):
        answers.setdefault(_condition(call.args, chosen), []).append(result)
    stubs: list[dict[str, Any]] = []
    for when, in_turn in answers.items():
        # The same call may have different results one after the other: the status of a job that is polled.
        counted = [(result, len(list(same))) for result, same in groupby(in_turn)]
        stubs += [{"when": when or None, "times": times, **result} for result, times in counted[:-1]]
        stubs.append({"when": when or None, **counted[-1][0]})
    return stubs


def _result(call: MadeCall) -> dict[str, Any]:
    if call.is_error:
        return {"error": re.sub(r"^\S+ did not run or failed: ", "", call.text)}
    try:
        return {"returns": json.loads(call.text)}
    except (ValueError, RecursionError):
        return {"returns": call.text}


def _tell_apart(calls: Sequence[MadeCall], results: Sequence[Any], names: Sequence[str]) -> bool:
    answers: dict[str, Any] = {}
    for call, result in zip(calls, results, strict=True):
        if answers.setdefault(json.dumps([call.args.get(name) for name in names], sort_keys=True), result) != result:
            return False
    return True


def _subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [chosen for size in range(1, min(3, len(names)) + 1) for chosen in combinations(names, size)]


def _long(calls: Sequence[MadeCall], name: str) -> bool:
    return any(not _is_steady(one.args.get(name)) for one in calls)


def _expected(tool: str, args: Mapping[str, Any]) -> str | dict[str, str]:
    when = _condition(args, [name for name, value in args.items() if _is_steady(value)])
    return {"tool": tool, "when": when} if when else tool


def _condition(args: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the condition that these arguments have the recorded values; "" where no expression can say that."""
    parts = [f"args.get({name!r}) == {args[name]!r}" for name in names if name in args]
    condition = " and ".join(parts)
    try:
        parse(condition, goals.CALL_NAMES).evaluate({"args": dict(args)})
    except ExpressionError:
        return ""
    return condition


def _steady(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs that another good run would repeat: no long texts."""
    return {name: value for name, value in outputs.items() if _is_steady(value)}


def _is_steady(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= SHORT)


def _bounds(summary: Mapping[str, Any]) -> dict[str, float]:
    return {name: ROOM * summary[name] for name in ("steps", "tokens") if summary[name]}
