"""What all commands share: options, output, progress, and how a failure is shown."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.errors import Diagnostic, HiveError
from hive_agents.wording import count as count

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from hive_agents import Workspace

WorkspaceOption = Annotated[
    Path | None,
    typer.Option("--workspace", "-w", help="Workspace folder (default: the nearest upwards, else ./workspace)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print no progress and no tables.")]
GoldenOption = Annotated[Path | None, typer.Option("--golden", help="Golden set (default: evals/golden.json).")]
ConfigArgument = Annotated[str, typer.Argument(help="Config: a name, a file name or a path.")]

PROGRESS_AFTER = 1.0


class Surface:
    """Where a command shows its result: JSON on stdout alone, or text; the rest goes to stderr."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        self.quiet = quiet

    def show(self, value: dict[str, Any], *parts: RenderableType) -> None:
        """The JSON value, or the renderables that tell the same to a person."""
        if self.as_json:
            sys.stdout.write(json_text(value) + "\n")
        elif not self.quiet:
            out = console()
            for part in parts:
                out.print(part)

    def warn(self, diagnostics: Iterable[Diagnostic]) -> None:
        err = console(stderr=True)
        for diagnostic in diagnostics:
            style = (
                "yellow" if diagnostic.severity == "warning" else "red" if diagnostic.severity == "error" else "cyan"
            )
            told = "\n".join(map(one_line, str(diagnostic).split("\n")))
            err.print(told, style=style, soft_wrap=True)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str, int, int], None]]:
        """A callback (what, done, total) that draws a bar on stderr once the work takes over a second."""
        if self.quiet or self.as_json or not sys.stderr.isatty():
            yield lambda what, done, total: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bars = Progress(*columns, console=console(stderr=True), transient=True)
        tasks: dict[str, Any] = {}
        started = time.monotonic()

        def report(what: str, done: int, total: int) -> None:
            if time.monotonic() - started < PROGRESS_AFTER:
                return
            if not tasks:
                bars.start()
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        try:
            yield report
        finally:
            if tasks:
                bars.stop()


def console(*, stderr: bool = False) -> Console:
    """Text is shown as it is: what a user wrote is never markup. Style comes from `styled`."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the process with exit code 1

    return Plain(stderr=stderr, markup=False, emoji=False, highlight=False)


def styled(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style)


def one_line(value: object) -> str:
    r"""What others wrote, as one line that a terminal shows and doesn't obey.

    >>> one_line("may I?\x1b[2J\nYes: approved")
    'may I?�[2J Yes: approved'
    """
    return "".join(sign if sign.isprintable() else " " if sign.isspace() else "�" for sign in str(value))


_OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def json_text(value: object) -> str:
    r"""The value as JSON; signs that a terminal obeys, such as those that turn the direction, stand there escaped.

    >>> print(json_text({"é": "a\u202eb"}))
    {
      "é": "a\u202eb"
    }
    """
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def open_workspace(path: Path | None) -> Workspace:
    from hive_agents import Workspace

    return Workspace(path) if path is not None else Workspace.find()


def input_object(text: str) -> dict[str, Any]:
    """What `--input` gives an agent. Raises: HIVE-101, HIVE-104 (exit code 2)."""
    from hive_agents.files import jsontext

    try:
        value = jsontext.parse(text, "--input")
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None
    if not isinstance(value, dict):
        fix = """write --input '{"topic": "bees"}'"""
        raise HiveError.of("HIVE-104", "the input is no JSON object", file="--input", path="$", fix=fix, exit_code=2)
    return value


def show_failure(error: HiveError, as_json: bool) -> None:
    if as_json:
        value = {"ok": False, "diagnostics": [diagnostic.to_json() for diagnostic in error.diagnostics]}
        sys.stdout.write(json_text(value) + "\n")
    else:
        Surface(as_json=False, quiet=False).warn(error.diagnostics)


def figure(value: float | None, digits: int = 3, signed: bool = False) -> str:
    """A number as tables show it; what doesn't exist is a dash, never a zero."""
    if value is None:
        return "–"
    return f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
