"""`hive runs replay|record`: a run that has ended, once more without effects, and as an eval case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import WHO_ASKS, Surface, count, with_surface
from hive_agents.text import cut, safe_line

if TYPE_CHECKING:
    from hive_agents.runtime import Replay

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run of an agent that has ended.")]
SHOWN = 300


@with_surface(as_user=WHO_ASKS)
def replay(
    surface: Surface,
    run: RunArgument,
    model: Annotated[
        str | None, typer.Option("--model", metavar="M", help="Ask this model in place of what was said.")
    ] = None,
    patch: Annotated[
        str | None,
        typer.Option("--patch", metavar="FILE", help="Change the agent first: a JSON patch, or an object to merge."),
    ] = None,
) -> None:
    """Run it again with its recorded models and tools, free of effects, and show where it parts."""
    import asyncio

    from hive_agents import runtime
    from hive_agents.cli.answering import read_patch

    place = surface.workspace
    _require_seen(surface, run)
    change = read_patch(patch) if patch is not None else None
    found = asyncio.run(runtime.replay(place, run, model=model, patch=change))
    surface.show(found.to_json(), *_lines(found))
    raise typer.Exit(0 if found.same else 1)


@with_surface(as_user=WHO_ASKS)
def record(
    surface: Surface,
    run: RunArgument,
    case: Annotated[
        bool, typer.Option("--case", help="As an eval case of its goal, with stubs for its tools.")
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="What the case is called (default: the run's id).")] = None,
) -> None:
    """Record what a run did and what its tools gave: with --case as an eval case, which its goal's file gets."""
    from hive_agents import runtime
    from hive_agents.errors import HiveError

    if not case:
        raise HiveError.of("HIVE-409", "say what it is recorded as", fix="hive runs record RUN --case", exit_code=2)
    place = surface.workspace
    _require_seen(surface, run)
    made, file = runtime.record_case(place, run, name=name)
    value = made.model_dump(mode="json", exclude_defaults=True)
    agent = runtime.AgentRun.resume(place, run).agent.id
    lines = [f"{made.id} is an eval case in {file}: read it, and loosen what another good run needn't do"]
    surface.show({"case": value, "file": file}, *lines, f"hive agents eval {agent} tries it")


def _lines(found: Replay) -> list[str]:
    steps, at = count(found.compared, "step"), found.parted
    if at is None:
        return [f"{found.run_id} again: {steps}, all as recorded, {found.status}; free of effects"]
    lines = [f"{found.run_id} again: it parts in {at.node}, at {at.at}; {found.differing} of {steps} differ"]
    lines += [f"  recorded: {_value_line(at.recorded)}", f"  now:      {_value_line(at.replayed)}"]
    told = found.status if found.status == found.before else f"{found.before} → {found.status}"
    lines.append(f"it ends: {told}" + (f" ({found.error['message']})" if found.error else ""))
    keys = found.outputs_before.keys() | found.outputs.keys()
    for key in sorted(keys):
        before, after = (values.get(key) for values in (found.outputs_before, found.outputs))
        if before != after:
            lines.append(f"  {key}: {_value_line(before)} → {_value_line(after)}")
    if found.tokens:
        lines.append(f"{found.tokens:,} tokens, ${found.usd:.4f}")
    return [safe_line(line) for line in lines]


def _value_line(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict) and value.get("calls"):
        return cut("; ".join(f"{call['name']} {_json(call['args'])}" for call in value["calls"]), SHOWN)
    if isinstance(value, dict) and "tool" in value:
        what = "error" if "error" in value else "gives"
        return cut(f"{value['tool']} {'fails' if what == 'error' else 'gives'}: {value[what]}", SHOWN)
    return cut(value if isinstance(value, str) else _json(value), SHOWN)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _require_seen(surface: Surface, run_id: str) -> None:
    """Raises: HIVE-409 for a run that whoever asks may not see, or not all of it."""
    from hive_agents.agents import RunView
    from hive_agents.errors import HiveError
    from hive_agents.runs import Scope

    reader = surface.asker.caller().principal
    row = Scope(reader).run(surface.workspace, run_id)
    if RunView(surface.workspace, run_id, row.tenant, reader).hidden:
        why, fix = f"run {run_id} has read documents that you may not view", "ask somebody who may"
        raise HiveError.of("HIVE-409", why, fix=fix, exit_code=2)
