"""`hive runs stop|pause|resume|retry|delete|say`: control of runs by a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import Diagnostic, HiveError, safe_line
from hive_agents.cli.surface import WHO_ASKS, Surface, with_surface

if TYPE_CHECKING:
    from hive_agents.runs import RunRow
    from hive_agents.workspace import Workspace

    Act = Callable[[Workspace, RunRow, str], tuple[RunRow, str]]
    """Acts on a run in the name of a person; returns its row afterwards, and a message."""

RunsArgument = Annotated[list[str], typer.Argument(metavar="RUN", help="Runs, as `hive runs` lists them.")]


@with_surface(as_user=WHO_ASKS)
def stop(surface: Surface, runs: RunsArgument) -> None:
    """Stop runs at once, or after their current step. They can be resumed."""
    _each(surface, runs, _stop)


@with_surface(as_user=WHO_ASKS)
def pause(surface: Surface, runs: RunsArgument) -> None:
    """Pause runs at once, or after their current step, until they are resumed."""
    _each(surface, runs, _pause)


@with_surface(as_user=WHO_ASKS)
def resume(surface: Surface, runs: RunsArgument) -> None:
    """Queue paused or stopped runs again; `hive run --resume RUN` continues one here."""
    _each(surface, runs, _resume)


@with_surface(as_user=WHO_ASKS)
def retry(
    surface: Surface,
    runs: RunsArgument,
    node: Annotated[str | None, typer.Option("--from", metavar="NODE", help="Start again from this node.")] = None,
) -> None:
    """Continue failed runs after their last good step; completed effects are not repeated."""

    def retry_run(place: Workspace, row: RunRow, by: str) -> tuple[RunRow, str]:
        import asyncio

        from hive_agents import agents

        row = asyncio.run(agents.retry(place, row.run_id, by, node=node))
        return row, next_step(row.run_id, row.graph)

    _each(surface, runs, retry_run)


@with_surface(as_user=WHO_ASKS)
def delete(surface: Surface, runs: RunsArgument) -> None:
    """Delete ended runs with their conversations, files and checkpoints. Events and the audit log stay."""
    _each(surface, runs, _delete)


@with_surface(as_user=WHO_ASKS)
def say(
    surface: Surface,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of an agent.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.")],
) -> None:
    """Send a message to a run's agent, who reads it before its next turn."""
    text.encode()  # HIVE-112: a shell passes on any bytes

    def send(place: Workspace, row: RunRow, _: str) -> tuple[RunRow, str]:
        from hive_agents import runs

        runs.say(place, row.run_id, text)
        approval_ids = (row.result or {}).get("approval_ids", []) if row.status == "waiting" else []
        if approval_ids:
            return row, f"read when it goes on; first it waits for an answer: hive approvals show {approval_ids[0]}"
        return row, "read before its next turn" if row.status == "running" else f"{row.status}; read when it goes on"

    _each(surface, [run], send)


def next_step(run_id: str, graph: str) -> str:
    """Return what runs a queued run of this graph."""
    commands = {
        "event_loop": f", or `hive run --resume {run_id}` here",
        "optimizer": f", or `hive optimize --resume {run_id}` here",
    }
    return f"queued; `hive serve --headless` takes it{commands.get(graph, '')}"


def _stop(place: Workspace, row: RunRow, by: str) -> tuple[RunRow, str]:
    from hive_agents import runs

    return _when_effective(runs.stop(place, row.run_id, by))


def _pause(place: Workspace, row: RunRow, by: str) -> tuple[RunRow, str]:
    from hive_agents import runs

    return _when_effective(runs.pause(place, row.run_id, by))


def _when_effective(row: RunRow) -> tuple[RunRow, str]:
    from hive_agents.runs import control

    return row, f"{control.RESTS[row.control]} after its present step" if row.control is not None else row.status


def _resume(place: Workspace, row: RunRow, by: str) -> tuple[RunRow, str]:
    from hive_agents import runs

    row = runs.resume(place, row.run_id, by)
    return row, next_step(row.run_id, row.graph) if row.status == "queued" else f"{row.status} already"


def _delete(place: Workspace, row: RunRow, _: str) -> tuple[RunRow, str]:
    from hive_agents.host import delete_run

    delete_run(place, row.run_id)
    return row, "deleted"


def _each(surface: Surface, run_ids: list[str], act: Act) -> None:
    """Act on each run, also after failures of others; exit with the highest exit code."""
    from hive_agents.runs import Scope

    place = surface.workspace
    caller = surface.asker.caller()
    scope = Scope(caller.principal)
    rows: list[RunRow] = []
    lines: list[str] = []
    diagnostics: list[Diagnostic] = []
    code = 0
    for run_id in dict.fromkeys(run_ids):
        try:
            row, message = act(place, scope.run(place, run_id), caller.by)
        except HiveError as error:
            if len(run_ids) == 1:
                raise
            code = max(code, error.exit_code)
            diagnostics += error.diagnostics
            lines.append(safe_line(f"{run_id}: {error.diagnostics[0].message}"))
        else:
            rows.append(row)
            lines.append(safe_line(f"{run_id}: {message}"))
    value: dict[str, Any] = {"runs": [row.summary for row in rows]}
    if diagnostics:
        value |= {"ok": False, "diagnostics": [diagnostic.to_json() for diagnostic in diagnostics]}
    surface.show(value, *lines)
    raise typer.Exit(code)
