"""Reports of imports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from hive_agents.readers import UNSUPPORTED


class Skipped(TypedDict):
    file: str
    message: str


def unsupported_kind(message: str) -> str | None:
    """Return the kind of a file that was skipped because no reader takes its kind, None for another reason.

    >>> unsupported_kind(".MOV: not a supported kind of file")
    '.mov'
    """
    return message.removesuffix(UNSUPPORTED).lower() if message.endswith(UNSUPPORTED) else None


class LeftOut(TypedDict):
    """So many parts of a kind, such as pictures without text, that a reader didn't bring over."""

    file: str
    kind: str
    count: int


@dataclass
class ImportReport:
    """The result of an import; documents are named by doc_id.

    `imported` is `added` and `changed` together. `skipped` has each file that is newly without a document, and why;
    `still_skipped` counts those reported before. `kept` were edited by hand, and their source didn't change;
    `conflicts` changed on both sides: the edited document stays, `note` is the file with the source's changes. The
    files of `gone` no longer exist; their documents can be deleted. `labels` is how many labels followed documents
    to their new names, by golden set. `beside` are new documents whose preferred name was
    taken. `left_out` is what the files of `imported` have and their documents haven't.

    >>> report = ImportReport(added=["bees.md"])
    >>> report.added, report.unchanged, report.conflicts
    (['bees.md'], 0, [])
    """

    imported: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    renamed: list[dict[str, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    beside: list[dict[str, str]] = field(default_factory=list)
    conflicts: list[dict[str, str | None]] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    still_skipped: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    front_matter: list[Mapping[str, Any]] = field(default_factory=list, repr=False)
    """That of all rows and mails."""
    tell: Callable[[Skipped], None] = field(default=lambda skipped: None, repr=False, compare=False)
    """Called at once with each file that is skipped."""

    added_contents: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    deleted_contents: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Documents of this import by the hash of their files."""
    _reported: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def add_labels(self, labels: Mapping[str, int]) -> None:
        for file, number in labels.items():
            self.labels[file] = self.labels.get(file, 0) + number

    def skip(self, file: str, message: str) -> None:
        """Report a file once, even if several sources contain it."""
        if file in self._reported:
            return
        self._reported.add(file)
        self.skipped.append({"file": file, "message": message})
        self.tell(self.skipped[-1])
