"""`hive runs stop|pause|resume|retry|delete|say`: what a person does to runs, and what happens next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from hive_agents.cli.surface import WHO_ASKS, Surface, with_surface
from hive_agents.errors import Diagnostic, HiveError
from hive_agents.text import safe_line

if TYPE_CHECKING:
    from hive_agents.runs import RunRow
    from hive_agents.workspace import Workspace

    Act = Callable[[Workspace, RunRow, str], tuple[RunRow, str]]
    """Gives the run as it is afterwards, and what happens next."""

RunsArgument = Annotated[list[str], typer.Argument(metavar="RUN", help="Runs, as `hive runs` lists them.")]


@with_surface(as_user=WHO_ASKS)
def stop(surface: Surface, runs: RunsArgument) -> None:
    """End runs before their time: at once, or after their present step. They can be resumed."""
    _each(surface, runs, _stopped)


@with_surface(as_user=WHO_ASKS)
def pause(surface: Surface, runs: RunsArgument) -> None:
    """Let runs rest until they are resumed: at once, or after their present step."""
    _each(surface, runs, _paused)


@with_surface(as_user=WHO_ASKS)
def resume(surface: Surface, runs: RunsArgument) -> None:
    """Put runs that were paused or stopped back into the queue; `hive run --resume RUN` goes on with one here."""
    _each(surface, runs, _resumed)


@with_surface(as_user=WHO_ASKS)
def retry(
    surface: Surface,
    runs: RunsArgument,
    node: Annotated[str | None, typer.Option("--from", metavar="NODE", help="Begin once more with this node.")] = None,
) -> None:
    """Let failed runs go on from their last good step; what they have done already, they don't do again."""

    def tried(place: Workspace, row: RunRow, by: str) -> tuple[RunRow, str]:
        import asyncio

        from hive_agents import runtime

        row = asyncio.run(runtime.retry(place, row.run_id, by, node=node))
        return row, next_step(row.run_id, row.graph)

    _each(surface, runs, tried)


@with_surface(as_user=WHO_ASKS)
def delete(surface: Surface, runs: RunsArgument) -> None:
    """Forget runs that don't go on: their conversations, files and checkpoints, too. Events and the audit log stay."""
    _each(surface, runs, _deleted)


@with_surface(as_user=WHO_ASKS)
def say(
    surface: Surface,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of an agent.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What its agent is told.")],
) -> None:
    """Tell a run's agent something; it reads it before its next turn."""
    text.encode()  # HIVE-112: a shell hands on any byte

    def said(place: Workspace, row: RunRow, _: str) -> tuple[RunRow, str]:
        from hive_agents import runs

        runs.say(place, row.run_id, text)
        asked = (row.result or {}).get("approval_ids", []) if row.status == "waiting" else []
        if asked:
            return row, f"read when it goes on; first it waits for an answer: hive approvals show {asked[0]}"
        return row, "read before its next turn" if row.status == "running" else f"{row.status}; read when it goes on"

    _each(surface, [run], said)


def next_step(run_id: str, graph: str) -> str:
    here = {
        "event_loop": f", or `hive run --resume {run_id}` here",
        "optimizer": f", or `hive optimize --resume {run_id}` here",
    }
    return f"queued; `hive serve --headless` takes it{here.get(graph, '')}"


def _stopped(place: Workspace, row: RunRow, by: str) -> tuple[RunRow, str]:
    from hive_agents import runs

    return _rests(runs.stop(place, row.run_id, by))


def _paused(place: Workspace, row: RunRow, by: str) -> tuple[RunRow, str]:
    from hive_agents import runs

    return _rests(runs.pause(place, row.run_id, by))


def _rests(row: RunRow) -> tuple[RunRow, str]:
    from hive_agents.runs import RESTS

    return row, f"{RESTS[row.control]} after its present step" if row.control is not None else row.status


def _resumed(place: Workspace, row: RunRow, by: str) -> tuple[RunRow, str]:
    from hive_agents import runs

    row = runs.resume(place, row.run_id, by)
    return row, next_step(row.run_id, row.graph) if row.status == "queued" else f"{row.status} already"


def _deleted(place: Workspace, row: RunRow, _: str) -> tuple[RunRow, str]:
    from hive_agents.runtime import delete_run

    delete_run(place, row.run_id)
    return row, "deleted"


def _each(surface: Surface, run_ids: list[str], act: Act) -> None:
    """Do it to each run for itself; what fails stops no other, and the highest exit code counts."""
    place = surface.workspace
    from hive_agents.runs import Scope

    caller = surface.asker.caller()
    scope = Scope(caller.principal)
    rows: list[RunRow] = []
    lines: list[str] = []
    found: list[Diagnostic] = []
    code = 0
    for run_id in dict.fromkeys(run_ids):
        try:
            row, told = act(place, scope.run(place, run_id), caller.by)
        except HiveError as error:
            if len(run_ids) == 1:
                raise
            code = max(code, error.exit_code)
            found += error.diagnostics
            lines.append(safe_line(f"{run_id}: {error.diagnostics[0].message}"))
        else:
            rows.append(row)
            lines.append(safe_line(f"{run_id}: {told}"))
    value = {"runs": [row.summary for row in rows]}
    surface.show(value | ({"ok": False, "diagnostics": [one.to_json() for one in found]} if found else {}), *lines)
    raise typer.Exit(code)
