"""`hive runs replay|record`: replay an ended run without effects, or record it as an eval case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import cut, safe_line
from hive_agents.cli.surface import WHO_ASKS, Surface, count, with_surface

if TYPE_CHECKING:
    from hive_agents.host import Replay

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run of an agent that has ended.")]
SHOWN = 300


@with_surface(as_user=WHO_ASKS)
def replay(
    surface: Surface,
    run: RunArgument,
    model: Annotated[
        str | None, typer.Option("--model", metavar="M", help="Call this model in place of the recorded answers.")
    ] = None,
    patch: Annotated[
        str | None,
        typer.Option("--patch", metavar="FILE", help="Change the agent first: a JSON patch, or an object to merge."),
    ] = None,
) -> None:
    """Replay a run with its recorded model answers and tool results, without effects, and show the first difference."""
    import asyncio

    from hive_agents import host
    from hive_agents.cli.answering import read_patch

    place = surface.workspace
    _require_seen(surface, run)
    change = read_patch(patch) if patch is not None else None
    result = asyncio.run(host.replay(place, run, model=model, patch=change))
    surface.show(result.to_json(), *_lines(result))
    raise typer.Exit(0 if result.same else 1)


@with_surface(as_user=WHO_ASKS)
def record(
    surface: Surface,
    run: RunArgument,
    case: Annotated[
        bool, typer.Option("--case", help="As an eval case of its goal, with stubs for its tools.")
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="The case's name (default: the run's id).")] = None,
) -> None:
    """Record a run with its tool results: --case adds it to its goal's file as an eval case."""
    from hive_agents import agents, host
    from hive_agents.base import HiveError

    if not case:
        fix = "hive runs record RUN --case"
        raise HiveError.of("HIVE-409", "a run is recorded as a case only", fix=fix, exit_code=2)
    place = surface.workspace
    _require_seen(surface, run)
    recorded, file = host.record_case(place, run, name=name)
    value = recorded.model_dump(mode="json", exclude_defaults=True)
    agent = agents.AgentRun.resume(place, run).agent.id
    line = f"{recorded.id} is an eval case in {file}: read it, and loosen what another good run needn't do"
    surface.show({"case": value, "file": file}, line, f"hive agents eval {agent} tries it")


def _lines(result: Replay) -> list[str]:
    steps, difference = count(result.compared, "step"), result.parted
    if difference is None:
        return [f"{result.run_id} again: {steps}, all as recorded, {result.status}; free of effects"]
    where = f"it parts in {difference.node}, at {difference.at}"
    lines = [f"{result.run_id} again: {where}; {result.differing} of {steps} differ"]
    lines += [f"  recorded: {_value_line(difference.recorded)}", f"  now:      {_value_line(difference.replayed)}"]
    ending = result.status if result.status == result.before else f"{result.before} → {result.status}"
    lines.append(f"it ends: {ending}" + (f" ({result.error['message']})" if result.error else ""))
    for key in sorted(result.outputs_before.keys() | result.outputs.keys()):
        before, after = result.outputs_before.get(key), result.outputs.get(key)
        if before != after:
            lines.append(f"  {key}: {_value_line(before)} → {_value_line(after)}")
    if result.tokens:
        lines.append(f"{result.tokens:,} tokens, ${result.usd:.4f}")
    return [safe_line(line) for line in lines]


def _value_line(value: Any) -> str:
    """Return a model's calls, a tool's result or an output as one line."""
    if value is None:
        return "nothing"
    if isinstance(value, dict) and value.get("calls"):
        return cut("; ".join(f"{call['name']} {_json(call['args'])}" for call in value["calls"]), SHOWN)
    if isinstance(value, dict) and "tool" in value:
        outcome = f"fails: {value['error']}" if "error" in value else f"gives: {value['gives']}"
        return cut(f"{value['tool']} {outcome}", SHOWN)
    return cut(value if isinstance(value, str) else _json(value), SHOWN)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _require_seen(surface: Surface, run_id: str) -> None:
    """Raise HIVE-409 for a run that the asker may not see, or not all of it."""
    from hive_agents.agents import RunView
    from hive_agents.base import HiveError
    from hive_agents.runs import Scope

    reader = surface.asker.caller().principal
    row = Scope(reader).run(surface.workspace, run_id)
    if RunView(surface.workspace, run_id, row.tenant, reader).hidden:
        why, fix = f"run {run_id} has read documents that you may not view", "ask somebody who may"
        raise HiveError.of("HIVE-409", why, fix=fix, exit_code=2)
