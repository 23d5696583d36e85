"""What an import makes of a file, and how it fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

UNSUPPORTED = ": not a supported kind of file"
"""How a refusal ends that is for the kind of a file, and not for what is in it."""


class ImportFailure(Exception):
    """A file that cannot be read; the message says why and what to do, for the person who owns the file."""


@dataclass(frozen=True)
class Imported:
    """A file as Markdown.

    `metadata` is the front matter of a source that has one. `source` is the whole text of a source that is a document
    as it stands, so that a document without anything to add keeps every byte.
    """

    markdown: str
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    source: str | None = None


class TableRow(NamedTuple):
    """A row of a table as a document of its own.

    `key` tells it from the other rows, and stays when they change; `name` is what a file of it would be called.
    """

    key: str
    name: str
    title: str
    markdown: str
