"""The one place where text reaches a terminal: what a terminal would obey is shown as an escape, and never sent.

And how far work is, for whoever reads lines instead of looking at a bar.
"""

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

from hive_agents.text import shown

if TYPE_CHECKING:
    from rich.console import Console


_UNWRAPPED = 100_000
_WIDEST = 48
"""Columns that a table leaves for a value where no terminal bounds it."""


def console(*, stderr: bool = False) -> Console:
    """Return a console on which text is shown as it is: what a user wrote is never markup, and moves no cursor."""
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            give_up(self.file)  # rich would end the process with exit code 1

        def render_str(self, text: str, **named: Any) -> Any:
            return super().render_str(shown(text), **named)  # before it is measured, so that a table has room for it

        def render(self, *what: Any, **named: Any) -> Any:
            for part in super().render(*what, **named):
                # Rich's own controls, of a bar that is drawn again, are apart from all text.
                yield part if part.control else Segment(shown(part.text), part.style)

    class Piped(Plain):
        """For a program, a file or a pager: no line is wrapped, and none filled up with blanks or rules."""

        def print(self, *objects: Any, **options: Any) -> None:
            with self.capture() as captured:
                super().print(*(_unruled(each) for each in objects), **options)
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
    """Return a ruled table as its lines, whole values in columns: one wider than `_WIDEST` shifts its own line alone.

    Anything else, and a table in which a cell is more than a line of text, is returned as it is.
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
    """Return whether a person reads the stream: only for them lines are wrapped to its width."""
    return stream.isatty()


def give_up(stream: IO[str]) -> None:
    """Let what nobody reads any more go nowhere: the command ends with its own exit code, as if somebody did."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def write(text: str, *, err: bool = False, end: str = "\n") -> bool:
    """Write text without wrapping or style, what a program reads, or a prompt; return whether somebody reads it."""
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
"""Whether stderr, and whether stdout has something of this command that `write` wrote."""


def forget_written() -> None:
    """Begin anew, with the next command of this process."""
    _written.clear()


def has_result() -> bool:
    """Return whether something that a program reads stands on stdout."""
    return False in _written


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


@dataclass
class _Step:
    what: str
    done: int
    total: int
    started: float
    done_before: int


@contextmanager
def told_now_and_then(
    say: Callable[[str], None], *, first: float = 1.0, every: float = 10.0
) -> Iterator[Callable[[str, int, int], None]]:
    """A callback (what, done, total); `say` gets a line after `first` seconds, and then one `every` so many."""
    step: list[_Step] = []
    ended = threading.Event()

    def report(what: str, done: int, total: int) -> None:
        if not step or step[0].what != what:
            step[:] = [_Step(what, done, total, time.monotonic(), done)]
        else:
            step[0].done, step[0].total = done, total

    def tell() -> None:
        wait = first
        while not ended.wait(wait):
            wait = every
            if step:
                say(line_of(step[0], time.monotonic()))

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield report
    finally:
        ended.set()
        teller.join()


def line_of(step: _Step, now: float) -> str:
    """Return what is done, how much of it, and how long it will still take at the pace so far.

    >>> line_of(_Step("embedding", 250, 1000, started=0.0, done_before=0), now=60.0)
    'embedding: 250 of 1000 (25 %), about 3 min left'
    """
    if step.total <= 1:
        return f"{step.what}: {duration(now - step.started)} so far"
    line = f"{step.what}: {step.done} of {step.total} ({100 * step.done // step.total} %)"
    made = step.done - step.done_before
    if made <= 0:
        return line
    left = (now - step.started) / made * (step.total - step.done)
    return f"{line}, about {duration(left)} left"


def duration(seconds: float) -> str:
    """Return a span of time in the unit that a person would name.

    >>> duration(7.2), duration(170), duration(5000)
    ('7 s', '3 min', '1 h 23 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
