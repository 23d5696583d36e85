"""`hive runs`: list and show runs, and the commands of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli import runs_control, runs_recorded, timeline
from hive_agents.cli.surface import WHO_ASKS, Surface, with_surface

if TYPE_CHECKING:
    from rich.table import Table

    from hive_agents.runs import RunRow

app = typer.Typer(help="Runs: list, show, follow, control and delete them.", invoke_without_command=True)
STATUSES = ("queued", "running", "waiting", "paused", "done", "failed", "stopped")
LISTED = 100
StatusOption = Annotated[str | None, typer.Option("--status", help=f"{', '.join(STATUSES)}.")]


@app.callback()
@with_surface(as_user=WHO_ASKS)
def runs(surface: Surface, context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        _list(surface, None, None, LISTED)


@app.command("list")
@with_surface(as_user=WHO_ASKS)
def list_(
    surface: Surface,
    status: StatusOption = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only runs of this tenant.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = LISTED,
) -> None:
    """List the runs that you may see, newest first."""
    _list(surface, status, tenant, limit)


def _list(surface: Surface, status: str | None, tenant: str | None, limit: int) -> None:
    from hive_agents.base import HiveError
    from hive_agents.runs import Scope

    wanted = status.lower() if status is not None else None
    if wanted is not None and wanted not in STATUSES:
        raise HiveError.of(
            "HIVE-409", f'there is no status "{safe_line(status)}"', fix=f"use one of {', '.join(STATUSES)}"
        )
    place = surface.workspace
    scope = Scope(surface.asker.caller().principal)
    rows = scope.runs(place, wanted, tenant, limit)
    value = {"runs": [row.summary | {"agent": row.agent} for row in rows]}
    surface.show(value, _table(rows) if rows else "no runs yet")


@app.command("show")
@with_surface(as_user=WHO_ASKS)
def show(surface: Surface, run: Annotated[str, typer.Argument(help="A run's id.")]) -> None:
    """Show a run: its status, and the timeline of its nodes and verdicts."""
    from dataclasses import replace

    from hive_agents.agents import RunView
    from hive_agents.cli.timeline import line_of
    from hive_agents.events import EventLog
    from hive_agents.runs import Scope

    place, reader = surface.workspace, surface.asker.caller().principal
    row = Scope(reader).run(place, run)
    view = RunView(place, run, row.tenant, reader)
    events = [replace(event, payload=view.payload(event.payload)) for event in EventLog(place).replay(run_id=run)]
    lines = [(event.time, line_of(event)) for event in events]
    result = row.result or {}
    value = {
        "runs": [row.summary],
        "agent": row.agent,
        "outputs": view.values(result.get("outputs", {}), {}),
        "judgment": None if view.hidden else result.get("judgment"),
        "approval_ids": result.get("approval_ids", []),
        "timeline": [event.to_json() for event in events],
    }
    timeline = [f"{time[11:19]}  {line}" for time, line in lines if line is not None]
    surface.show(value, _table([row]), *timeline)


for verb in (
    runs_control.stop,
    runs_control.pause,
    runs_control.resume,
    runs_control.retry,
    runs_control.delete,
    runs_control.say,
    runs_recorded.replay,
    runs_recorded.record,
):
    app.command(verb.__name__)(verb)
app.command("logs")(timeline.logs)


def _table(rows: list[RunRow]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("run", "agent", "status", "node"):
        # A shortened id couldn't be copied into the next command.
        table.add_column(name, no_wrap=name == "run", min_width=11 if name == "run" else None, overflow="fold")
    for name in ("steps", "tokens", "usd"):
        table.add_column(name, no_wrap=True, justify="right")
    table.add_column("started", no_wrap=True)
    for row in rows:
        summary: dict[str, Any] = row.summary
        table.add_row(
            row.run_id,
            row.agent or row.graph,
            row.status + (f" ({summary['stopped_by']})" if summary["stopped_by"] else ""),
            summary["node"] or "",
            str(summary["steps"]),
            str(summary["tokens"]),
            f"{summary['usd']:.4f}",
            summary["started_at"][5:16].replace("T", " "),
        )
    return table
