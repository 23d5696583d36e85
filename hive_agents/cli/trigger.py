"""`hive trigger`: schedules, webhooks and event streams that start agents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import Surface, count, input_object, with_surface

if TYPE_CHECKING:
    import datetime as dt

    from rich.table import Table

    from hive_agents.base import Diagnostic
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
    input_from: Annotated[
        str | None, typer.Option("--input-from", metavar="PATH", help="An input from the event, such as $.body.issue.")
    ] = None,
    input_key: Annotated[str | None, typer.Option("--input-key", metavar="KEY", help="The name of that input.")] = None,
    input: Annotated[str | None, typer.Option("--input", metavar="JSON", help="Constant inputs.")] = None,
    missed: Annotated[str | None, typer.Option("--missed", help="skip or once (default: skip).")] = None,
    run_as: Annotated[str | None, typer.Option("--run-as", metavar="SERVICE", help="Default: service:ID.")] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Add it, but start nothing yet.")] = False,
) -> None:
    """Add a trigger: a schedule, an interval, a webhook or an event stream."""
    from hive_agents.base import HiveError
    from hive_agents.triggers import TriggerStore, files, reaches, trigger_row

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
    fields = {key: value for key, value in options.items() if value is not None}
    if id.endswith(".json"):
        spec = _from_file(Path(id), bool(fields) or any(kinds.values()))
    else:
        spec = _from_options(id, kinds, fields)
    if not reaches(place, spec, surface.asker.token_holder()):
        raise HiveError.of("HIVE-415", f"{spec.service} is of another tenant", path="run_as", fix="name one of yours")
    file = files.write_trigger(place, spec)
    TriggerStore(place).begin(spec, _now())
    row = trigger_row(place, spec)
    surface.warn(_input_faults(place, spec))
    next_tick = f"; it ticks next at {row['next_at']}" if row["next_at"] else ""
    surface.show({"file": file, "trigger": row}, f"wrote {file}{next_tick}")


def _input_faults(place: Workspace, spec: TriggerSpec) -> list[Diagnostic]:
    """Return warnings if the agent will refuse the constant inputs of a schedule."""
    from dataclasses import replace

    from hive_agents.agents import accepted_input, serving_agent
    from hive_agents.base import HiveError
    from hive_agents.triggers import is_scheduled

    try:
        if is_scheduled(spec):
            accepted_input(serving_agent(place, spec.agent)[0], spec.input)
    except HiveError as error:
        return [replace(diagnostic, severity="warning") for diagnostic in error.diagnostics]
    return []


@app.command("list")
@with_surface()
def list_(surface: Surface) -> None:
    """List the triggers, and the errors of faulty ones."""
    from hive_agents.triggers import all_triggers, reaches, trigger_row

    place = surface.workspace
    surface.asker.operator("list triggers")
    sound, faulty = all_triggers(place)
    holder = surface.asker.token_holder()
    rows = [trigger_row(place, spec) for spec in sound if reaches(place, spec, holder)]
    diagnostics = [diagnostic for error in faulty.values() for diagnostic in error.diagnostics]
    value: dict[str, Any] = {"triggers": rows}
    if diagnostics:
        value["diagnostics"] = [diagnostic.to_json() for diagnostic in diagnostics]
    if not surface.as_json:
        surface.warn(diagnostics)
    empty = f"{count(len(faulty), 'faulty trigger')} only" if faulty else "no triggers yet: hive trigger add"
    surface.show(value, _table(rows) if rows else empty)


@app.command("remove")
@with_surface()
def remove(surface: Surface, id: TriggerArgument) -> None:
    """Remove a trigger and its state; its runs stay."""
    from hive_agents.triggers import TriggerStore, files, reached_trigger

    place = surface.workspace
    surface.asker.operator("remove triggers")
    holder = surface.asker.token_holder()
    if holder is not None:
        reached_trigger(place, id, holder)
    file = files.remove_trigger(place, id)
    TriggerStore(place).forget(id)
    surface.show({"id": id, "removed": True}, f"removed {file}")


@app.command("fire")
@with_surface()
def fire(
    surface: Surface,
    id: TriggerArgument,
    input: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Inputs that replace the trigger's constant ones.")
    ] = None,
) -> None:
    """Start a run of a trigger now, enabled or not; its schedule doesn't change."""
    import asyncio
    import uuid

    from hive_agents.host import fire as start
    from hive_agents.triggers import TriggerStore, firing, reached_trigger

    place = surface.workspace
    surface.asker.operator("fire triggers")
    spec, now = reached_trigger(place, id, surface.asker.token_holder()), _now()
    key = firing.key_of(id, f"manual-{uuid.uuid4().hex}")
    inputs = {**spec.input, **(input_object(input) if input is not None else {})}
    run_id = asyncio.run(start(place, spec, inputs, key=key, scheduled=now.isoformat()))
    store = TriggerStore(place)
    store.begin(spec, now)
    store.fired(id, run_id)
    message = f"{run_id} is queued; `hive serve --headless` or `hive run --resume {run_id}` runs it"
    surface.show({"run_id": run_id, "status": "queued", "trigger": id, "key": key}, message)


def _from_options(id: str, kinds: dict[str, bool], fields: dict[str, Any]) -> TriggerSpec:
    """Return the trigger of these options. Raises: HIVE-409 unless it is of one kind, every fault of level 1."""
    from json import dumps

    from hive_agents.base import HiveError
    from hive_agents.triggers import files

    chosen = [kind for kind, wanted in kinds.items() if wanted]
    if len(chosen) != 1:
        fix = 'give one of --cron "0 2 * * *", --every SECONDS, --webhook --secret-ref REF and --sse URL'
        raise HiveError.of("HIVE-409", "a trigger is of one kind", fix=fix, exit_code=2)
    if "agent" not in fields:
        raise HiveError.of("HIVE-409", "a trigger starts an agent", fix="name it: --agent AGENT", exit_code=2)
    try:
        return files.parse_trigger(dumps({"id": id, "type": chosen[0], **fields}), f"triggers/{safe_line(id)}.json")
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None


def _from_file(path: Path, has_options: bool) -> TriggerSpec:
    from hive_agents.base import HiveError
    from hive_agents.base.files import jsontext, read_bytes
    from hive_agents.triggers import files

    if has_options:
        fix = "write it into the file"
        raise HiveError.of("HIVE-409", "a file has the whole trigger: no other option goes with it", fix=fix)
    try:
        data = read_bytes(path)
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror}"
        raise HiveError.of("HIVE-107", why, file=str(path), path="$", fix="name a file", exit_code=2) from None
    return files.parse_trigger(jsontext.decode(data, str(path)), str(path))


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in SHOWN:
        table.add_column(name.removesuffix("_id").replace("_", " "), no_wrap=name in ("id", "type"), overflow="fold")
    for row in rows:
        row = {**row, "enabled": "yes" if row["enabled"] else "no"}
        table.add_row(*("–" if row[name] is None else str(row[name]) for name in SHOWN))
    return table


def _now() -> dt.datetime:
    import datetime as dt

    return dt.datetime.now(dt.UTC)
