"""The contract of a kind of source: `discover` yields what is there, `fetch` returns the bytes of one item."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from hive_agents.base.files import Format
from hive_agents.sync import SourceFile
from hive_agents.workspace import Workspace
from hive_agents.workspace.credentials import Secret, redacted
from hive_agents.workspace.settings import SourceSettings


class SourceFailure(Exception):
    """A source, or an item of it, that can't be read now; it is tried again. The message is for the source's owner."""


class Denied(SourceFailure):
    """The source doesn't let its reader have an item any more: nobody but the owner sees its document."""


def failure_of(error: Exception) -> SourceFailure:
    """Return what a library raised for what a server says as a failure of the source."""
    return error if isinstance(error, SourceFailure) else SourceFailure(f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class SourceAccess:
    """Who may read an item, in the source's own names: `user:…`, `group:…`, or `everyone` who reaches the source."""

    subjects: frozenset[str] = frozenset()

    def labels(self, subjects: Mapping[str, list[str]]) -> list[str]:
        """Return the readers of a document; who isn't in the map of `subjects` gets nothing.

        >>> SourceAccess(frozenset({"group:staff", "user:root"})).labels({"group:staff": ["group:qa"]})
        ['group:qa']
        """
        mapped = {"everyone": ["tenant"], **subjects}
        return sorted({reader for subject in self.subjects for reader in mapped.get(subject, [])})

    def within(self, folder: SourceAccess) -> SourceAccess:
        """Return who may read what lies in a folder that only some may enter.

        >>> sorted(SourceAccess(frozenset({"everyone"})).within(SourceAccess(frozenset({"group:hr"}))).subjects)
        ['group:hr']
        """
        if "everyone" in folder.subjects:
            return self
        return folder if "everyone" in self.subjects else SourceAccess(self.subjects & folder.subjects)

    def to_json(self) -> str:
        return json.dumps(sorted(self.subjects))

    @classmethod
    def parsed(cls, text: str | None) -> SourceAccess | None:
        return None if text is None else cls(frozenset(json.loads(text)))


NOBODY = SourceAccess()


@dataclass(frozen=True)
class SourceItem:
    """Something that a source holds. `key` is its path below the source, by which it is known.

    While `revision` stays the same, so does the content; with "" it is fetched each time. `access` is None where the
    source doesn't know it. `content` is what `discover` read anyway, `file` an item on this disk, which isn't copied.
    """

    key: str
    revision: str = ""
    size: int = 0
    access: SourceAccess | None = None
    content: bytes | None = None
    file: SourceFile | None = None


@dataclass(frozen=True)
class MissedItem:
    """Something that couldn't be looked at: it, and what is below it, stays as it was.

    Unless it is `alone`, more may be hidden behind it: then the listing isn't complete, and nothing counts as deleted.
    """

    key: str
    why: str
    denied: bool = False
    alone: bool = False


class SeenItems:
    """What was fetched before: the revision of each key, and its content."""

    def __init__(self, revisions: Mapping[str, str], content: Callable[[str], bytes | None]) -> None:
        self.revisions, self.content = revisions, content


class SourceOptions(Format):
    """What every kind has: the readers of documents by a subject of the source, such as `"group:staff"`."""

    subjects: dict[str, list[str]] = {}


O = TypeVar("O", bound=SourceOptions)  # noqa: E741


@dataclass
class SourcePlace:
    """Where a source is: its name, its settings, a folder of its own below `.hive/`, its secret."""

    workspace: Workspace
    name: str
    settings: SourceSettings
    folder: Path
    secret: Secret | None

    def safe(self, error: object) -> str:
        """Return an error's text on one line, without the secret."""
        text = " ".join(str(error).split()) or type(error).__name__
        values = {self.secret.reveal(), *self.secret.reveal().split(":")} - {""} if self.secret else set()
        return redacted(text, values)[:300]

    def user_and_password(self) -> tuple[str, str]:
        """Return the parts of a secret `user:password`. Raises: SourceFailure."""
        user, colon, password = (self.secret.reveal() if self.secret else "").partition(":")
        if not colon:
            raise SourceFailure("its secret has to be user:password")
        return user, password


class DocumentSource(ABC, Generic[O]):
    """A source that is open; what its methods can't read is a `SourceFailure`.

    A local one is listed as a whole at once, and its items have a `file`. `fetch` is for items that have neither that
    nor a `content`.
    """

    local = False

    def __init__(self, place: SourcePlace, options: O) -> None:
        self.place, self.options = place, options
        self.ignored: dict[str, int] = {}
        """How many items were left out, by reason."""

    @abstractmethod
    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        """Yield all items; what isn't yielded is gone."""

    def fetch(self, item: SourceItem) -> bytes:
        raise SourceFailure(f"{item.key} has no content")

    def groups(self) -> Mapping[str, Collection[str]] | None:
        """Return the members of each group, in the source's own names, None where it doesn't know them."""
        return None

    def close(self) -> None:
        """End its connections."""


OpenedSource = DocumentSource[Any]
