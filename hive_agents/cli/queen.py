"""`hive queen`: an overview of runs and tickets, and questions to the queen, who supervises them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import Surface, console, count, styled, with_surface
from hive_agents.cli.terminal import ask, safe_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hive_agents.access import Principal
    from hive_agents.host import Queen


@with_surface(as_user="Ask as USER of access/*.json.", before="chat")
def command(
    surface: Surface,
    text: Annotated[str | None, typer.Argument(help="A message (default: show runs and tickets).")] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Talk with the queen, line by line.")] = False,
) -> None:
    """Ask the queen what runs, why a run is stuck, or to stop it; she shows only runs that you may see."""
    import asyncio

    from hive_agents.base import HiveError
    from hive_agents.host import Queen

    place = surface.workspace
    if chat and (surface.as_json or text is not None):
        fix = 'hive queen --chat, or hive queen "…" --json'
        raise HiveError.of("HIVE-409", "--chat takes no message and prints no JSON", fix=fix, exit_code=2)
    if text is not None:
        text.encode()  # HIVE-112: a shell passes on any bytes
    queen, asker = Queen(place), surface.asker.reader_or_owner
    if chat:
        _talk(queen, asker)
    elif text is not None:
        reply = asyncio.run(queen.ask(text, asker()))
        surface.show(reply, *_answer_lines(reply["answer"]))
    else:
        overview = queen.overview(asker())
        surface.show(overview, *_overview(overview))


def _answer_lines(answer: str) -> list[str]:
    """Return the lines of an answer, without control characters."""
    return [" " * (len(line) - len(line.lstrip())) + safe_line(line.strip()) for line in answer.split("\n")]


def _talk(queen: Queen, asker: Callable[[], Principal]) -> None:
    import asyncio
    import io
    import sys

    from hive_agents.base import HiveError

    out = console()
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    out.print(f"You ask as {safe_line(asker().user)}. /quit, or the end of input, ends the talk.")
    while True:
        try:
            line = ask("\n> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if line in ("/quit", "/exit"):
            return
        if not line:
            continue
        if not sys.stdin.isatty():
            out.print(f"\n> {safe_line(line)}", style="bold")
        try:
            for part in _answer_lines(asyncio.run(queen.ask(line, asker()))["answer"]):
                out.print(part, soft_wrap=True)
        except HiveError as error:
            for diagnostic in error.diagnostics:
                out.print(safe_lines(str(diagnostic)), style="red", soft_wrap=True)


def _overview(overview: dict[str, Any]) -> Iterator[Any]:
    yield styled(count(len(overview["runs"]), "active run"), "bold")
    for row in overview["runs"]:
        node = f" at {row['node']}" if row["node"] else ""
        yield safe_line(f"  {row['run_id']}  {row['status']}{node}  {count(row['steps'], 'step')}  ${row['usd']:.4f}")
    yield styled(count(len(overview["tickets"]), "open ticket"), "bold")
    for ticket in overview["tickets"]:
        evidence = "; ".join(ticket["evidence"][:2])
        yield safe_line(f"  {ticket['run_id']}  {ticket['severity']}: {ticket['cause'].replace('_', ' ')}  {evidence}")
    if overview["actions"]:
        yield styled("What I did", "bold")
    for entry in overview["actions"]:
        request = f", request {entry['approval_id']}" if entry["approval_id"] else ""
        yield safe_line(f"  {entry['at'][:16].replace('T', ' ')}  {entry['run_id']}  {entry['action']}{request}")
