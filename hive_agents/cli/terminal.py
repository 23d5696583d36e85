"""The one place where text reaches a terminal: what a terminal would obey is shown as an escape, and never sent."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, TextIO

from hive_agents.text import shown

if TYPE_CHECKING:
    from rich.console import Console


_UNWRAPPED = 100_000


def console(*, stderr: bool = False) -> Console:
    """Return a console on which text is shown as it is: what a user wrote is never markup, and moves no cursor."""
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the process with exit code 1

        def render_str(self, text: str, **named: Any) -> Any:
            return super().render_str(shown(text), **named)  # before it is measured, so that a table has room for it

        def render(self, *what: Any, **named: Any) -> Any:
            for part in super().render(*what, **named):
                # Rich's own controls, of a bar that is drawn again, are apart from all text.
                yield part if part.control else Segment(shown(part.text), part.style)

    class Piped(Plain):
        """For a program, a file or a pager: no line is wrapped, and none filled up with blanks."""

        def print(self, *objects: Any, **options: Any) -> None:
            with self.capture() as captured:
                super().print(*objects, **options)
            self.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))
            self.file.flush()

    stream = sys.stderr if stderr else sys.stdout
    if is_terminal(stream):
        return Plain(stderr=stderr, markup=False, emoji=False, highlight=False)
    return Piped(stderr=stderr, width=_UNWRAPPED, markup=False, emoji=False, highlight=False)


def is_terminal(stream: TextIO) -> bool:
    """Return whether a person reads the stream: only for them lines are wrapped to its width."""
    return stream.isatty()


def write(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Write text without wrapping or style: what a program reads, or a prompt."""
    stream = sys.stderr if err else sys.stdout
    stream.write(shown(text) + end)
    stream.flush()


def ask(prompt: str) -> str:
    """Return a line of the user. Raises: EOFError."""
    return input(shown(prompt))


def log_plainly() -> None:
    """Let what libraries and we log to stderr by default pass the same way."""

    class Shown(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return shown(super().format(record))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Shown())
