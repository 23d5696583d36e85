"""Collections and their documents: Markdown files with front matter, title and body, and which files have changed."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hive_agents.base import Diagnostic, HiveError, NotFound, did_you_mean, files
from hive_agents.base.files import AnyCase, FileFormat, Format, Name, formats, jsontext, read_bytes, unlinked
from hive_agents.documents.analysis import SPECIAL_WRITING, is_special_writing
from hive_agents.documents.chunking import Chunking, first_heading
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    import sqlite3

FieldType = Literal["text", "keyword", "date", "number", "boolean"]


class FieldSchema(Format):
    """One field of the documents.

    `synonyms`: value → what readers call it ({"effective": ["released"]}). The copilot's router reads them; a search
    and an index don't, so that a new synonym needs no new index. What an optimizer may do with a field is said here,
    too: values of one that `ranks` may be promoted and demoted, those in `may_hide` filtered away, and one that names a
    `person` is left alone.
    """

    type: Annotated[FieldType, AnyCase]
    filterable: bool = False
    synonyms: dict[str, list[str]] = {}
    ranks: bool = False
    may_hide: list[str] = []
    person: bool = False
    separator: str | None = None
    """What parts several values that a document writes as one text: `author: Mei Lin, Sam Ode`."""


_UNINDEXED = {"synonyms", "ranks", "may_hide", "person"}
"""What an index doesn't depend on."""


class Collection(FileFormat):
    """What a set of documents is: its fields, which of them can be filtered, and how documents are cut.

    >>> fields = {"title": {"type": "text"}, "status": {"type": "keyword", "filterable": True}}
    >>> Collection(name="kb", fields=fields).filterable
    ['status']
    """

    name: Name
    description: str = ""
    fields: dict[str, FieldSchema]
    chunking: Chunking = Chunking()

    @property
    def filterable(self) -> list[str]:
        return [name for name, field in self.fields.items() if field.filterable]

    def declared_as(self, other: Collection) -> Collection:
        """Return this collection with what `other` says that an optimizer may do with the fields of both."""
        fields = dict(self.fields)
        for name in fields.keys() & other.fields.keys():
            said = other.fields[name]
            update = {"ranks": said.ranks, "may_hide": said.may_hide, "person": said.person}
            fields[name] = fields[name].model_copy(update=update)
        return self.model_copy(update={"fields": fields})

    def digest(self) -> str:
        """Return the hash of everything that affects the index."""
        excluded = {  # without a separator as before there was one
            name: _UNINDEXED | ({"separator"} if field.separator is None else set())
            for name, field in self.fields.items()
        }
        relevant = self.model_dump_json(exclude={"description": True, "fields": excluded})
        return hashlib.sha256(relevant.encode()).hexdigest()


def collection_names(workspace: Workspace) -> list[str]:
    # Not glob, which finds nothing in an unreadable folder, without an error.
    return sorted(path.stem for path in (workspace.root / "collections").iterdir() if path.suffix == ".json")


def load_collection(workspace: Workspace, name: str | None = None) -> Collection:
    """Return the collection `name`; without a name the only one.

    Raises: HIVE-211 for an unknown name, HIVE-409 without a name unless there is one collection; level 1 for a broken
    file.
    """
    names = collection_names(workspace)
    if name is None and len(names) == 1:
        name = names[0]
    if name is None:
        raise HiveError.of(
            "HIVE-409",
            "the workspace has no collection" if not names else "the workspace has several collections",
            fix="name one of: " + ", ".join(names) if names else "add collections/<name>.json",
        )
    for file in sorted(names, key=lambda file: file != name):  # a faulty file doesn't break the others
        path = workspace.root / "collections" / f"{file}.json"
        if file != name and f'"{name}"' not in read_bytes(path).decode("utf-8", errors="replace"):
            continue
        collection = formats.load(Collection, read_bytes(path), workspace.relative(path))
        if collection.name == name or file == name:
            return collection
    raise no_such_collection(name, names)


def no_such_collection(name: str, names: list[str], file: str | None = None, line: int | None = None) -> HiveError:
    others = f"use one of: {', '.join(names)}" if names else f"there is none yet: add collections/{name}.json"
    fix = did_you_mean(name, names, others)
    return NotFound.of("HIVE-211", f'no collection is named "{name}"', file=file, path="collection", line=line, fix=fix)


@dataclass(frozen=True)
class Document:
    """`metadata` has the collection's declared fields, `front_matter` all of the file's."""

    doc_id: str
    title: str
    body: str
    metadata: Mapping[str, Any]
    front_matter: Mapping[str, Any]
    content_hash: str
    warnings: tuple[Diagnostic, ...] = field(default=())


@dataclass(frozen=True)
class DocumentListing:
    """The document files below a folder, with their status, by doc_id; and the links, which are no documents."""

    files: dict[str, os.stat_result]
    links: list[str]


def document_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Return (doc_id, path) of each document below `root`, by doc_id. Raises: as `list_documents`."""
    top = unlinked(root)
    return ((doc_id, top / doc_id) for doc_id in list_documents(root).files)


def list_documents(root: Path) -> DocumentListing:
    """Return the files `**/*.md` below `root`, and the links with such a name or to a folder.

    Hidden files, pipes and links are no documents.

    Raises: HIVE-403 for a folder that can't be listed, as its documents must not count as deleted; HIVE-114 if `root`
    is a link.
    """
    files: dict[str, os.stat_result] = {}
    links: list[str] = []
    top = str(unlinked(root))
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            entries = list(os.scandir(os.path.join(top, below)))
        except FileNotFoundError:
            continue
        except OSError as error:
            name = Path(error.filename).name
            message = f"cannot list {name}: {error.strerror}"
            raise HiveError.of("HIVE-403", message, file=name, fix="make the folder readable") from error
        for entry in entries:
            name = f"{below}{entry.name}"
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                pending.append(f"{name}/")
            elif entry.is_symlink():
                if name.endswith(".md") or entry.is_dir():
                    links.append(name)
            elif name.endswith(".md"):
                with suppress(FileNotFoundError):
                    status = os.lstat(entry.path)
                    if stat.S_ISREG(status.st_mode):
                        files[name] = status
    return DocumentListing({doc_id: files[doc_id] for doc_id in sorted(files)}, sorted(links))


def content_hash(data: bytes) -> str:
    """Return the hash of a document's bytes, and of the analyzer's version for special scripts if it has any."""
    special = not data.isascii() and is_special_writing(data.decode("utf-8", "replace"))
    return hashlib.sha256(data + SPECIAL_WRITING.encode() if special else data).hexdigest()


def parse_document(doc_id: str, data: bytes, collection: Collection) -> Document:
    """Return a document from its file's bytes.

    Raises: HIVE-108 for front matter that can't be read, HIVE-112 for text that isn't UTF-8.
    """
    file = f"documents/{doc_id}"
    text = jsontext.decode(data.removeprefix(b"\xef\xbb\xbf"), file)
    block, body = files.frontmatter.split(text, file)
    front_matter = files.frontmatter.parse(block, file)
    title = str(front_matter.get("title") or "").strip() or first_heading(body)
    values = dict(front_matter)
    if not values.get("category") and "/" in doc_id:
        values["category"] = doc_id.split("/")[0]
    metadata: dict[str, Any] = {}
    warnings = []
    for name, schema in collection.fields.items():
        if name in ("title", "content") or values.get(name) is None or not str(values[name]).strip():
            continue
        try:
            metadata[name] = _typed(values[name], schema)
        except ValueError as error:
            warnings.append(
                Diagnostic(
                    "HIVE-104",
                    f"{name} is not a {schema.type}: {error}",
                    file,
                    name,
                    "correct the front matter; until then the document lacks the field",
                    severity="warning",
                )
            )
    return Document(doc_id, title, body, metadata, front_matter, content_hash(data), tuple(warnings))


def _typed(value: Any, schema: FieldSchema) -> Any:
    if schema.separator and isinstance(value, str) and schema.separator in value:
        value = [part.strip() for part in value.split(schema.separator)]
    if isinstance(value, list):
        return [_typed(item, schema) for item in value if item is not None and str(item).strip()]
    if isinstance(value, dict):
        raise ValueError("a mapping can't be a value")
    if schema.type in ("text", "keyword"):
        return keyword_text(value)
    if schema.type == "boolean":
        truth = value if isinstance(value, bool) else _TRUTH_WORDS.get(str(value).lower())
        if truth is None:
            raise ValueError(f"{value!r} is neither true nor false")
        return truth
    if schema.type == "number":
        value = _number(value) if isinstance(value, str) else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise ValueError(f"{value!r}"[:40])
        return value
    return iso_date(value)


_TRUTH_WORDS = {"yes": True, "on": True, "no": False, "off": False}


def _number(text: str) -> float:
    """Return a number that front matter keeps as text to keep its digits, such as 1.50 or 007."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r}"[:40]) from None


def keyword_text(value: Any) -> str:
    """Return a keyword as text; `draft: true` is `true`, and numbers are in Python's notation.

    >>> keyword_text(True), keyword_text(2.0)
    ('true', '2.0')
    """
    return str(value).lower() if isinstance(value, bool) else str(files.frontmatter.plain(value))


def iso_date(value: Any) -> str:
    """Return a date as ISO 8601 text, which sorts by time; a date-time keeps its time.

    >>> iso_date("2025-03-01")
    '2025-03-01'
    """
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    if not isinstance(value, str):
        raise ValueError(f"{value!r}")
    parsed = dt.datetime.fromisoformat(value.strip())
    return parsed.date().isoformat() if len(value.strip()) <= 10 else parsed.isoformat()


_PAST_THE_DAY = {"lte": "lt", "gt": "gte"}


def date_bound(operator: str, bound: Any) -> tuple[str, str]:
    """Return a filter's operator and bound for a comparison as text; a date without a time means the whole day.

    Raises: ValueError for a bound that is no date.

    >>> date_bound("lte", "2025-03-01"), date_bound("gt", "2025-03-01"), date_bound("gte", "2025-03-01")
    (('lt', '2025-03-02'), ('gte', '2025-03-02'), ('gte', '2025-03-01'))
    >>> date_bound("lte", "2025-03-01T08:00")
    ('lte', '2025-03-01T08:00:00')
    """
    text = iso_date(bound)
    if operator not in _PAST_THE_DAY or "T" in text:
        return operator, text
    day = dt.date.fromisoformat(text)
    if day == dt.date.max:
        return operator, f"{text}T23:59:59.999999"
    return _PAST_THE_DAY[operator], (day + dt.timedelta(days=1)).isoformat()


COARSEST = 2_000_000_000
"""The coarsest resolution of file times, in nanoseconds: FAT's two seconds."""

Looking = Callable[[int, int], None]
"""Called with the number of files read so far, and of all that are to be read."""


class DocumentFolder:
    """A snapshot of the files below `documents/`. Raises: as `list_documents`.

    A file whose stamp (size, times, inode) is the stored one is unchanged. No stamp is stored of a file that was
    changed so shortly before that another change could leave the same stamp: it is read again. With `thorough` every
    file is read.
    """

    def __init__(
        self,
        workspace: Workspace,
        connection: sqlite3.Connection,
        looking: Looking = lambda done, total: None,
        *,
        thorough: bool = False,
    ) -> None:
        self._workspace = workspace
        self._connection = connection
        self._looking = looking
        self._began = time.time_ns()  # before the files are listed
        listed = list_documents(workspace.documents)
        self.links = listed.links
        """Links with the name of a document, or to a folder."""
        self.unreadable: dict[str, str] = {}
        """doc_id → why the file can't be read; complete once `hashes` is computed."""
        self._listed = listed.files
        self._read_again: list[str] = []
        self._stored: dict[str, tuple[str, str]] = {
            doc_id: (stamp, digest)
            for doc_id, stamp, digest in connection.execute("SELECT doc_id, stamp, content_hash FROM file_stamps")
        }
        self._trusted = {} if thorough else self._stored

    @cached_property
    def hashes(self) -> dict[str, str]:
        """The hash of each readable file, by doc_id; a file with an unchanged stamp isn't opened."""
        hashes: dict[str, str] = {}
        for doc_id, status in self._listed.items():
            stamp, digest = self._trusted.get(doc_id, ("", ""))
            if stamp == file_stamp(status):
                hashes[doc_id] = digest
            else:
                self._read_again.append(doc_id)
        for number, doc_id in enumerate(self._read_again):
            self._looking(number, len(self._read_again))
            data = self.read(doc_id)
            if data is not None:
                hashes[doc_id] = content_hash(data)
        return {doc_id: hashes[doc_id] for doc_id in self._listed if doc_id in hashes} if self._read_again else hashes

    def read(self, doc_id: str) -> bytes | None:
        """Return the file's content; None when it has been deleted, or is `unreadable`."""
        try:
            doc_id.encode()
            return read_bytes(self._workspace.documents / doc_id)
        except FileNotFoundError:
            return None
        except UnicodeEncodeError:
            self.unreadable[doc_id] = "the file's name is not UTF-8"
        except HiveError as error:
            self.unreadable[doc_id] = error.diagnostics[0].message
        except OSError as error:
            self.unreadable[doc_id] = f"cannot be read: {error.strerror}"
        return None

    def size(self, doc_id: str) -> int:
        return self._listed[doc_id].st_size

    def remember(self) -> None:
        """Store the stamps of the files, for the next snapshot."""
        from hive_agents.store import transaction

        hashes, read = self.hashes, set(self._read_again)  # of the others the stored stamps hold
        gone = self._stored.keys() - (hashes.keys() - read if read else hashes.keys())
        if not read and not gone:
            return
        settled = self._began - _lag(self._workspace) - COARSEST
        new = [
            (doc_id, file_stamp(status), hashes[doc_id])
            for doc_id in self._read_again
            if doc_id in hashes and max((status := self._listed[doc_id]).st_mtime_ns, status.st_ctime_ns) < settled
        ]
        if gone or new:
            with transaction(self._connection):
                self._connection.executemany("DELETE FROM file_stamps WHERE doc_id = ?", [(doc_id,) for doc_id in gone])
                self._connection.executemany("INSERT OR REPLACE INTO file_stamps VALUES (?, ?, ?)", new)


def file_stamp(status: os.stat_result) -> str:
    """Return what is another after each change of a file: its size, times and inode."""
    # ctime, as programs can set mtime back.
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _lag(workspace: Workspace) -> int:
    """Return by how many nanoseconds the file system's clock, which sets the times of files, is behind ours."""
    with tempfile.TemporaryFile(dir=unlinked(workspace.state)) as probe:
        return time.time_ns() - os.fstat(probe.fileno()).st_mtime_ns
