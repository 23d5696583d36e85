"""`hive trigger`: what starts agents by itself: schedules, webhooks and event streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import (
    Surface,
    count,
    input_object,
    with_surface,
)
from hive_agents.text import safe_line

if TYPE_CHECKING:
    import datetime as dt

    from rich.table import Table

    from hive_agents.errors import Diagnostic
    from hive_agents.triggers import TriggerSpec
    from hive_agents.workspace import Workspace

app = typer.Typer(help="Triggers: add, list, remove and fire them.", no_args_is_help=True)
TriggerArgument = Annotated[str, typer.Argument(metavar="ID", help="A trigger of triggers/*.json.")]
SHOWN = ("id", "type", "agent", "enabled", "next_at", "last_at", "missed", "last_run_id")


@app.command("add")
@with_surface()
def add(
    surface: Surface,
    id: Annotated[str, typer.Argument(metavar="ID|FILE.json", help="A new id, or a file with the whole trigger.")],
    agent: Annotated[str | None, typer.Option("--agent", help="The agent to start.")] = None,
    cron: Annotated[str | None, typer.Option("--cron", metavar='"0 2 * * *"', help="A schedule.")] = None,
    timezone: Annotated[str | None, typer.Option("--timezone", metavar="TZ", help="Of --cron (default: UTC).")] = None,
    every: Annotated[int | None, typer.Option("--every", metavar="SECONDS", help="An interval.")] = None,
    webhook: Annotated[bool, typer.Option("--webhook", help="Signed HTTP requests; needs --secret-ref.")] = False,
    sse: Annotated[str | None, typer.Option("--sse", metavar="URL", help="Events of a stream.")] = None,
    secret_ref: Annotated[str | None, typer.Option("--secret-ref", metavar="REF", help="credential:NAME.")] = None,
    input_from: Annotated[str | None, typer.Option("--input-from", metavar="PATH", help="As $.body.issue.")] = None,
    input_key: Annotated[str | None, typer.Option("--input-key", metavar="KEY", help="The input it is.")] = None,
    input: Annotated[str | None, typer.Option("--input", metavar="JSON", help="Constant inputs.")] = None,
    missed: Annotated[str | None, typer.Option("--missed", help="skip or once (default: skip).")] = None,
    run_as: Annotated[str | None, typer.Option("--run-as", metavar="SERVICE", help="Default: service:ID.")] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Write it down, and start nothing yet.")] = False,
) -> None:
    """Add a trigger: a schedule, an interval, a webhook or an event stream."""
    from hive_agents.errors import HiveError
    from hive_agents.triggers import TriggerStore, reaches, trigger_row, write_trigger

    place = surface.workspace
    surface.asker.operator("add triggers")
    kinds = {"cron": cron is not None, "interval": every is not None, "webhook": webhook, "sse": sse is not None}
    options = {
        "agent": agent,
        "schedule": cron,
        "timezone": timezone,
        "every_seconds": every,
        "url": sse,
        "secret_ref": secret_ref,
        "input_from": input_from,
        "input_key": input_key,
        "input": input_object(input) if input is not None else None,
        "missed": missed,
        "run_as": run_as,
        "enabled": False if disabled else None,
    }
    given = {key: value for key, value in options.items() if value is not None}
    spec = _from_file(Path(id), bool(given) or any(kinds.values())) if id.endswith(".json") else _made(id, kinds, given)
    if not reaches(place, spec, surface.asker.token_holder()):
        raise HiveError.of("HIVE-415", f"{spec.service} is of another tenant", path="run_as", fix="name one of yours")
    file = write_trigger(place, spec)
    TriggerStore(place).begin(spec, _now())
    row = trigger_row(place, spec)
    told = f"wrote {file}" + (f"; it ticks next at {row['next_at']}" if row["next_at"] else "")
    surface.warn(_input_faults(place, spec))
    surface.show({"file": file, "trigger": row}, told)


def _input_faults(place: Workspace, spec: TriggerSpec) -> list[Diagnostic]:
    """Return why the agent will refuse each run of a schedule, which brings nothing but its constants: warnings."""
    from dataclasses import replace

    from hive_agents.agents import serving_agent
    from hive_agents.errors import HiveError
    from hive_agents.runtime import accepted_input
    from hive_agents.triggers import is_scheduled

    try:
        if is_scheduled(spec):
            accepted_input(serving_agent(place, spec.agent)[0], spec.input)
    except HiveError as error:
        return [replace(found, severity="warning") for found in error.diagnostics]
    return []


@app.command("list")
@with_surface()
def list_(surface: Surface) -> None:
    """The triggers, and what is wrong with those that aren't sound."""
    from hive_agents.triggers import all_triggers, reaches, trigger_row

    place = surface.workspace
    surface.asker.operator("list triggers")
    sound, faulty = all_triggers(place)
    who = surface.asker.token_holder()
    rows = [trigger_row(place, spec) for spec in sound if reaches(place, spec, who)]
    found = [diagnostic for error in faulty.values() for diagnostic in error.diagnostics]
    value: dict[str, Any] = {"triggers": rows}
    if found:
        value["diagnostics"] = [diagnostic.to_json() for diagnostic in found]
    if not surface.as_json:
        surface.warn(found)
    empty = f"{count(len(faulty), 'faulty trigger')} only" if faulty else "no triggers yet: hive trigger add"
    surface.show(value, _table(rows) if rows else empty)


@app.command("remove")
@with_surface()
def remove(surface: Surface, id: TriggerArgument) -> None:
    """Remove a trigger and what is remembered of it; its runs stay."""
    from hive_agents.triggers import TriggerStore, reached_trigger, remove_trigger

    place = surface.workspace
    surface.asker.operator("remove triggers")
    who = surface.asker.token_holder()
    if who is not None:
        reached_trigger(place, id, who)
    file = remove_trigger(place, id)
    TriggerStore(place).forget(id)
    surface.show({"id": id, "removed": True}, f"removed {file}")


@app.command("fire")
@with_surface()
def fire(
    surface: Surface,
    id: TriggerArgument,
    input: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Inputs over the trigger's constant ones.")
    ] = None,
) -> None:
    """Start a trigger's run now, enabled or not; its schedule goes on as before."""
    import asyncio
    import uuid

    from hive_agents.runtime import fire as start
    from hive_agents.triggers import TriggerStore, key_of, reached_trigger

    place = surface.workspace
    surface.asker.operator("fire triggers")
    spec, now = reached_trigger(place, id, surface.asker.token_holder()), _now()
    key = key_of(id, f"manual-{uuid.uuid4().hex}")
    inputs = {**spec.input, **(input_object(input) if input is not None else {})}
    run_id = asyncio.run(start(place, spec, inputs, key=key, scheduled=now.isoformat()))
    store = TriggerStore(place)
    store.begin(spec, now)
    store.fired(id, run_id)
    told = f"{run_id} is queued; `hive serve --headless` or `hive run --resume {run_id}` runs it"
    surface.show({"run_id": run_id, "status": "queued", "trigger": id, "key": key}, told)


def _made(id: str, kinds: dict[str, bool], given: dict[str, Any]) -> TriggerSpec:
    """Raises: HIVE-409 without just one kind, every fault of level 1; exit code 2."""
    from json import dumps

    from hive_agents.errors import HiveError
    from hive_agents.triggers import parse_trigger

    chosen = [kind for kind, wanted in kinds.items() if wanted]
    if len(chosen) != 1:
        fix = 'give one of --cron "0 2 * * *", --every SECONDS, --webhook --secret-ref REF and --sse URL'
        raise HiveError.of("HIVE-409", "a trigger is of one kind", fix=fix, exit_code=2)
    if "agent" not in given:
        raise HiveError.of("HIVE-409", "a trigger starts an agent", fix="name it: --agent AGENT", exit_code=2)
    try:
        return parse_trigger(dumps({"id": id, "type": chosen[0], **given}), f"triggers/{safe_line(id)}.json")
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None


def _from_file(path: Path, options: bool) -> TriggerSpec:
    from hive_agents.errors import HiveError
    from hive_agents.files import jsontext, read_bytes
    from hive_agents.triggers import parse_trigger

    if options:
        fix = "write it into the file"
        raise HiveError.of("HIVE-409", "a file has the whole trigger: no other option goes with it", fix=fix)
    try:
        data = read_bytes(path)
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror}"
        raise HiveError.of("HIVE-107", why, file=str(path), path="$", fix="name a file", exit_code=2) from None
    return parse_trigger(jsontext.decode(data, str(path)), str(path))


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in SHOWN:
        table.add_column(name.removesuffix("_id").replace("_", " "), no_wrap=name in ("id", "type"), overflow="fold")
    for row in rows:
        told = {**row, "enabled": "yes" if row["enabled"] else "no"}
        table.add_row(*("–" if told[name] is None else str(told[name]) for name in SHOWN))
    return table


def _now() -> dt.datetime:
    import datetime as dt

    return dt.datetime.now(dt.UTC)
