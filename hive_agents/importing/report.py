"""What an import tells: what became of each file, and of each document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict


class Skipped(TypedDict):
    file: str
    message: str


@dataclass
class ImportReport:
    """What an import did; documents are named by doc_id.

    `imported` is `added` and `changed` together. `skipped` tells each file that brought no document for the first time,
    and why; `still_skipped` counts those told before. `kept` were edited by hand and their source did not change;
    `conflicts` changed on both sides: the edited document stays, `note` names the file with what changed in the source.
    `gone` left their source and wait to be deleted. `beside` are new documents whose name another one has already.

    >>> report = ImportReport(added=["bees.md"])
    >>> report.added, report.unchanged, report.conflicts
    (['bees.md'], 0, [])
    """

    imported: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    renamed: list[dict[str, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    beside: list[dict[str, str]] = field(default_factory=list)
    conflicts: list[dict[str, str | None]] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    still_skipped: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    tell: Callable[[Skipped], None] = field(default=lambda skipped: None, repr=False, compare=False)
    """Told of each file that is skipped, at once."""

    _told: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def skip(self, file: str, message: str) -> None:
        """Tell of a file once, however many of the patterns lead to it."""
        if file in self._told:
            return
        self._told.add(file)
        self.skipped.append({"file": file, "message": message})
        self.tell(self.skipped[-1])
