"""Converted files and rows, and failures of conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

UNSUPPORTED = ": not a supported kind of file"
"""The end of a failure's message that is due to a file's kind, not its content."""


class ImportFailure(Exception):
    """A file that can't be imported; the message tells its owner why and what to do."""


@dataclass(frozen=True)
class Imported:
    """A file as Markdown.

    `metadata` is its front matter. `source` is the whole text of a file that can be a document unchanged, byte for
    byte, if nothing is to be added. `left_out` counts by kind what it shows and the Markdown hasn't.
    """

    markdown: str
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    source: str | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)


class Repetition:
    """How much of a file may be shown once more where it says so in a few bytes: rows, columns, spans, references.

    What a file costs follows from what is written in it, and a bound on the rest. `left` is in characters.
    """

    CELL = 50
    """What an empty cell counts."""

    def __init__(self, left: int = 500_000) -> None:
        self.left = left

    def times(self, wanted: int, size: int) -> int:
        """Return how often something of `size` characters may stand: as `wanted`, or less, and at least once.

        >>> room = Repetition(200)
        >>> room.times(2, 30), room.times(9, 30), room.times(1, 30)
        (2, 2, 1)
        """
        more = min(max(wanted, 1) - 1, self.left // (size + self.CELL))
        self.left -= more * (size + self.CELL)
        return more + 1


class TableRow(NamedTuple):
    """A row of a table as a document of its own.

    `key` identifies it among the rows, and stays the same when others change; `name` is that of a file for it.
    `fields` are the values of its short columns. `left_out` is that of the whole table, in its first row.
    """

    key: str
    name: str
    title: str
    markdown: str
    fields: dict[str, Any]
    left_out: dict[str, int] = {}
