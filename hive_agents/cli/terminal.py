"""All output to a terminal, with control characters shown as escapes; and progress as lines of text."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, TextIO

from hive_agents.base import safe_line, shown

if TYPE_CHECKING:
    from rich.console import Console


_UNWRAPPED = 100_000
_WIDEST = 48
"""The widest column of a piped table."""


def console(*, stderr: bool = False) -> Console:
    """Return a console that shows text literally: no markup, and control characters as escapes."""
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            give_up(self.file)  # rich would end the process with exit code 1

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(shown(text), **options)  # escaped before a table measures it

        def render(self, *arguments: Any, **options: Any) -> Any:
            for part in super().render(*arguments, **options):
                # Rich's own control codes, which redraw a bar, are segments apart from text.
                yield part if part.control else Segment(shown(part.text), part.style)

    class Piped(Plain):
        """For a program, a file or a pager: lines are neither wrapped nor padded, and tables have no rules."""

        def print(self, *objects: Any, **options: Any) -> None:
            with self.capture() as captured:
                super().print(*map(_unruled, objects), **options)
            try:
                self.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))
                self.file.flush()
            except BrokenPipeError:
                give_up(self.file)

    stream = sys.stderr if stderr else sys.stdout
    if is_terminal(stream):
        return Plain(stderr=stderr, markup=False, emoji=False, highlight=False)
    return Piped(stderr=stderr, width=_UNWRAPPED, markup=False, emoji=False, highlight=False)


def _unruled(part: Any) -> Any:
    """Return a table with rules as plain lines; a value wider than `_WIDEST` shifts the rest of its own line only.

    Anything else, and a table with a cell that isn't one line of text, is returned unchanged.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    if not isinstance(part, Table) or part.box is None:
        return part
    columns = [[column.header] * part.show_header + list(column.cells) for column in part.columns]
    if not all(isinstance(cell, str | Text) and "\n" not in str(cell) for column in columns for cell in column):
        return part
    texts = [[str(cell) for cell in column] for column in columns]
    widths = [min(_WIDEST, max(map(cell_len, column), default=0)) for column in texts]
    rights = [column.justify == "right" for column in part.columns]

    def padded(text: str, width: int, right: bool) -> str:
        blank = " " * (width - cell_len(text))
        return blank + text if right else text + blank

    rows = zip(*texts, strict=True)
    lines = ["  ".join(map(padded, row, widths, rights)).rstrip() for row in rows]
    return Text("\n".join([*([str(part.title)] if part.title else []), *lines]))


def is_terminal(stream: TextIO) -> bool:
    """Return whether the stream is a terminal, whose width wraps lines."""
    return stream.isatty()


def give_up(stream: IO[str]) -> None:
    """Discard all further output of a stream whose reader is gone, so that the command ends with its own exit code."""
    with open(os.devnull, "wb") as devnull:
        os.dup2(devnull.fileno(), stream.fileno())


def write(text: str, *, err: bool = False, end: str = "\n") -> bool:
    """Write text without wrapping or style, for programs and prompts; return False when the reader is gone."""
    stream = sys.stderr if err else sys.stdout
    try:
        stream.write(shown(text) + end)
        stream.flush()
    except BrokenPipeError:
        give_up(stream)
        return False
    _written.add(err)
    return True


_written: set[bool] = set()
"""The streams that `write` wrote to in this command: True for stderr, False for stdout."""


def forget_written() -> None:
    """Reset `has_result` for the next command of this process."""
    _written.clear()


def has_result() -> bool:
    """Return whether `write` wrote anything to stdout."""
    return False in _written


def safe_lines(text: str) -> str:
    """Return a text of any number of lines, each as by `safe_line`."""
    return "\n".join(map(safe_line, text.split("\n")))


def ask(prompt: str) -> str:
    """Return a line of input. Raises: EOFError."""
    return input(shown(prompt))


def log_plainly() -> None:
    """Show control characters as escapes in what is logged to stderr by default, too."""

    class Shown(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return shown(super().format(record))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Shown())


@dataclass
class _Step:
    name: str
    done: int
    total: int
    started: float
    done_before: int


@contextmanager
def progress_lines(
    say: Callable[[str], None], *, first: float = 1.0, every: float = 10.0
) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback (step, done, total); `say` gets a line after `first` seconds, then one per `every` seconds."""
    current: _Step | None = None
    ended = threading.Event()

    def report(step: str, done: int, total: int) -> None:
        nonlocal current
        if current is None or current.name != step:
            current = _Step(step, done, total, time.monotonic(), done)
        else:
            current.done, current.total = done, total

    def print_lines() -> None:
        wait = first
        while not ended.wait(wait):
            wait = every
            if current is not None:
                say(line_of(current, time.monotonic()))

    printer = threading.Thread(target=print_lines, daemon=True)
    printer.start()
    try:
        yield report
    finally:
        ended.set()
        printer.join()


def line_of(step: _Step, now: float) -> str:
    """Return a step's name, how much is done, and the time left at the pace so far.

    >>> line_of(_Step("embedding", 250, 1000, started=0.0, done_before=0), now=60.0)
    'embedding: 250 of 1000 (25 %), about 3 min left'
    """
    if step.total <= 1:
        return f"{step.name}: {duration(now - step.started)} so far"
    line = f"{step.name}: {step.done} of {step.total} ({100 * step.done // step.total} %)"
    progress = step.done - step.done_before
    if progress <= 0:
        return line
    remaining = (now - step.started) / progress * (step.total - step.done)
    return f"{line}, about {duration(remaining)} left"


def duration(seconds: float) -> str:
    """Return a span of time in seconds, minutes or hours, as is easiest to read.

    >>> duration(7.2), duration(170), duration(5000)
    ('7 s', '3 min', '1 h 23 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
