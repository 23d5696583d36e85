"""`hive run`: run an agent or continue a run, until it ends or waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import Surface, console, input_object, with_surface
from hive_agents.cli.terminal import safe_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hive_agents.events import Event

RESTS = ("done", "waiting", "paused", "queued")
CHAT = (
    "Talk with the agent. In a terminal, the agent reads what you type while it works before its next turn, and as the "
    "answer while it waits; Ctrl-D ends your input. Of piped input, each line answers one question."
)


@with_surface(as_user="Run as USER of access/*.json.")
def command(
    surface: Surface,
    agent: Annotated[
        str | None, typer.Argument(help="An agent of agents/*.json, or a flow: its name, or MODULE:NAME.")
    ] = None,
    input: Annotated[str, typer.Option("--input", metavar="JSON", help="An object with the agent's inputs.")] = "{}",
    chat: Annotated[bool, typer.Option("--chat", help=CHAT)] = False,
    queue: Annotated[bool, typer.Option("--queue", help="Queue the run for `hive serve`.")] = False,
    resume: Annotated[str | None, typer.Option("--resume", metavar="RUN", help="Continue a run.")] = None,
) -> None:
    """Run an agent until it ends, or waits for a person (hive approvals)."""
    from hive_agents.agents import AgentRun, code_at
    from hive_agents.base import HiveError
    from hive_agents.runs import ENDED, Scope

    place = surface.workspace
    code = code_at(agent) if agent is not None and ":" in agent else None
    if (agent is None) == (resume is None) and not (code is not None and resume is not None):
        raise HiveError.of(
            "HIVE-409", "name an agent, or a run to go on with", fix="hive run AGENT, or hive run --resume RUN"
        )
    if queue and (chat or resume is not None):
        fix = "hive run AGENT --queue, or `hive runs resume RUN` for a run that rests"
        raise HiveError.of("HIVE-409", "--queue goes with neither --chat nor --resume", fix=fix)
    if resume is not None:
        run_id = Scope(surface.asker.caller().principal).run(place, resume).run_id
        run = AgentRun.resume(place, run_id, agent=code)
        if run.row.status not in ENDED:
            run.require_model()  # else it would fail of what the settings of this process lack
    else:
        inputs = input_object(input)
        principal = surface.asker.reader_if_named()
        run = AgentRun.start(place, code or agent or "", inputs, principal=principal, hold=not queue)
    if queue:
        result = run.result_of(run.row)
        surface.show(result, *parts(result), f"  hive runs logs {run.run_id} --follow")
        return
    if not surface.as_json and not surface.quiet:
        output = RunOutput({node.id for node in run.agent.nodes if node.client_facing})
        named = f"{agent} " if code is not None else ""
        output.out.print(f"run {run.run_id}; if it dies: hive run {named}--resume {run.run_id}")
        run.on_event, run.on_text = output.event, output.text
    if chat:
        from hive_agents.cli.run_chat import talk

        result = talk(run, stderr=surface.as_json)
    else:
        result = run.go()
    surface.show(result, *parts(result))
    raise typer.Exit(exit_code(result))


def exit_code(result: dict[str, Any]) -> int:
    """Return 0 for a run that is done or can continue, 130 after Ctrl-C, 3 when no model was available, else 1.

    >>> [exit_code({"status": "stopped", "stopped_by": by}) for by in ("interrupted", "user:dana", "unavailable")]
    [130, 1, 3]
    """
    if result["status"] == "stopped" and result["stopped_by"] == "interrupted":
        return 130
    if result["stopped_by"] == "unavailable":
        return 3
    return 0 if result["status"] in RESTS else 1


class RunOutput:
    """Prints a line for each event, and in between the text of `client_facing` nodes, given by their ids."""

    def __init__(self, client_facing: set[str]) -> None:
        self.out, self._client_facing, self._open = console(), client_facing, False

    def event(self, event: Event) -> None:
        from hive_agents.cli.timeline import line_of

        line = line_of(event)
        if line is not None:
            self.out.print(("\n" if self._open else "") + f"  {line}", soft_wrap=True)
            self._open = False

    def text(self, node: str, text: str) -> None:
        if node in self._client_facing and text:
            self.out.print(safe_lines(text), end="", soft_wrap=True)
            self._open = not text.endswith("\n")


def failure(run_id: str, error: Mapping[str, str]) -> list[str]:
    """Return what a failed run says, and the commands that explain it and go on with it."""
    code = error["code"]
    steps = f"  hive explain {code} says how to mend it; then go on with it: hive runs retry {run_id}"
    return [f"{code}: {error['message']}", steps]


def parts(result: dict[str, Any]) -> list[str]:
    from json import dumps

    from hive_agents.cli.runs_control import next_step
    from hive_agents.runs import AGENT_GRAPH

    run_id, status, by = result["run_id"], result["status"], result["stopped_by"]
    state = next_step(run_id, AGENT_GRAPH) if status == "queued" else status
    lines = [safe_line(f"{run_id} is {state}" + (f" by {by}" if by and status == "stopped" else ""))]
    if status in ("paused", "stopped"):
        lines.append(f"  go on with it: hive run --resume {run_id}, or leave it to a host: hive runs resume {run_id}")
    if result["error"]:
        lines += map(safe_line, failure(run_id, result["error"])[: 2 if status == "failed" else 1])
    for key, value in result["outputs"].items():
        text = value if isinstance(value, str) else dumps(value, ensure_ascii=False)
        first, *more = map(safe_line, text.rstrip().split("\n"))
        lines += [f"{key}: {first}"] if not more else [f"{key}:", *(f"  {line}" for line in (first, *more))]
    if result["approval_ids"]:
        lines.append("it waits for a person, and goes on with the answer:")
    lines += [f"  hive approvals show {id}" for id in result["approval_ids"]]
    return lines
