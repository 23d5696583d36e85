"""Collections and their documents: a Markdown file becomes front matter, title and body."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from hive_agents.errors import Diagnostic, HiveError, NotFound, closest
from hive_agents.files import AnyCase, FileFormat, Format, Name, formats, frontmatter, jsontext, read_bytes, unlinked
from hive_agents.retrieval.analysis import SPECIAL_WRITING, is_special_writing
from hive_agents.retrieval.chunking import Chunking, first_heading
from hive_agents.workspace import Workspace

FieldType = Literal["text", "keyword", "date", "number", "boolean"]


class FieldSchema(Format):
    """One field of the documents.

    `synonyms`: value → what readers call it ({"effective": ["released"]}). The copilot's router reads them; a search
    and an index don't, so that a new synonym needs no new index.
    """

    type: Annotated[FieldType, AnyCase]
    filterable: bool = False
    synonyms: dict[str, list[str]] = {}


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

    def digest(self) -> str:
        """Hash of all that decides what is in the index."""
        kept = self.model_dump_json(exclude={"description": True, "fields": {"__all__": {"synonyms"}}})
        return hashlib.sha256(kept.encode()).hexdigest()


def collection_names(workspace: Workspace) -> list[str]:
    # Not glob: it finds nothing in a folder that can't be read, and says nothing.
    return sorted(path.stem for path in (workspace.root / "collections").iterdir() if path.suffix == ".json")


def load_collection(workspace: Workspace, name: str | None = None) -> Collection:
    """The collection `name`; without a name the only one there is.

    Raises: HIVE-211 when there is none of that name; level 1 for a broken file.
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
    for file in sorted(names, key=lambda file: file != name):  # another file's fault is nobody else's
        path = workspace.root / "collections" / f"{file}.json"
        if file != name and f'"{name}"' not in read_bytes(path).decode("utf-8", errors="replace"):
            continue
        collection = formats.load(Collection, read_bytes(path), workspace.relative(path))
        if collection.name == name or file == name:
            return collection
    raise no_such_collection(name, names)


def no_such_collection(name: str, names: list[str], file: str | None = None, line: int | None = None) -> HiveError:
    guess = closest(name, names)
    fix = f'did you mean "{guess}"?' if guess else f"use one of: {', '.join(names) or 'none yet; add collections/'}"
    return NotFound.of("HIVE-211", f'no collection is named "{name}"', file=file, path="collection", line=line, fix=fix)


@dataclass(frozen=True)
class Document:
    """`metadata` holds the collection's declared fields; `front_matter` all that the file says."""

    doc_id: str
    title: str
    body: str
    metadata: Mapping[str, Any]
    front_matter: Mapping[str, Any]
    content_hash: str
    warnings: tuple[Diagnostic, ...] = field(default=())


@dataclass(frozen=True)
class DocumentListing:
    """What lies below a folder of documents: each file with its status, by doc_id, and what is a link."""

    files: dict[str, os.stat_result]
    links: list[str]


def document_files(root: Path) -> Iterator[tuple[str, Path]]:
    """(doc_id, path) of each document below `root`, by doc_id. Raises: as `list_documents`."""
    top = unlinked(root)
    return ((doc_id, top / doc_id) for doc_id in list_documents(root).files)


def list_documents(root: Path) -> DocumentListing:
    """Return the files `**/*.md` below `root`, and the links that would be one or a folder of them.

    Hidden files, pipes and links are no documents.

    Raises: HIVE-403 for a folder that can't be listed, whose documents must not look deleted; HIVE-114 where `root` is
    a link.
    """
    files: dict[str, os.stat_result] = {}
    links: list[str] = []
    top = str(unlinked(root))
    left = [""]
    while left:
        below = left.pop()
        try:
            entries = list(os.scandir(os.path.join(top, below)))
        except OSError as error:
            _refuse(error)
            continue
        for entry in entries:
            name = f"{below}{entry.name}"
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                left.append(f"{name}/")
            elif entry.is_symlink():
                if name.endswith(".md") or entry.is_dir():
                    links.append(name)
            elif name.endswith(".md"):
                with suppress(FileNotFoundError):
                    status = os.lstat(entry.path)
                    if stat.S_ISREG(status.st_mode):
                        files[name] = status
    return DocumentListing({doc_id: files[doc_id] for doc_id in sorted(files)}, sorted(links))


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        name = Path(error.filename).name
        message = f"cannot list {name}: {error.strerror}"
        raise HiveError.of("HIVE-403", message, file=name, fix="make the folder readable") from error


def content_hash(data: bytes) -> str:
    """Return the hash of a document's bytes, and of how they are analyzed where that isn't as for most."""
    apart = not data.isascii() and is_special_writing(data.decode("utf-8", "replace"))
    return hashlib.sha256(data + SPECIAL_WRITING.encode() if apart else data).hexdigest()


def parse_document(doc_id: str, data: bytes, collection: Collection) -> Document:
    """Raises: HIVE-108 for front matter that can't be read, HIVE-112 for text that isn't UTF-8."""
    file = f"documents/{doc_id}"
    text = jsontext.decode(data.removeprefix(b"\xef\xbb\xbf"), file)
    block, body = frontmatter.split(text, file)
    front_matter = frontmatter.parse(block, file)
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
                    "mend the front matter; until then the document lacks the field",
                    severity="warning",
                )
            )
    return Document(doc_id, title, body, metadata, front_matter, content_hash(data), tuple(warnings))


def _typed(value: Any, schema: FieldSchema) -> Any:
    if isinstance(value, list):
        return [_typed(item, schema) for item in value if item is not None and str(item).strip()]
    if isinstance(value, dict):
        raise ValueError("a mapping can't be a value")
    if schema.type in ("text", "keyword"):
        return keyword_text(value)
    if schema.type == "boolean":
        known = value if isinstance(value, bool) else _SPOKEN.get(str(value).lower())
        if known is None:
            raise ValueError(f"{value!r} is neither true nor false")
        return known
    if schema.type == "number":
        value = _number(value) if isinstance(value, str) else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise ValueError(f"{value!r}"[:40])
        return value
    return iso_date(value)


_SPOKEN = {"yes": True, "on": True, "no": False, "off": False}


def _number(text: str) -> float:
    """Return what front matter left as text because a number would not be written so, such as 1.50 or 007."""
    if "n" in text.lower():  # nan and infinity are no amounts
        raise ValueError(f"{text!r}"[:40])
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r}"[:40]) from None


def keyword_text(value: Any) -> str:
    """A keyword as text; `draft: true` is `true`, and a number is as Python writes it.

    >>> keyword_text(True), keyword_text(2.0)
    ('true', '2.0')
    """
    return str(value).lower() if isinstance(value, bool) else str(frontmatter.plain(value))


def iso_date(value: Any) -> str:
    """A date as ISO 8601 text, so that dates sort as text; a date-time keeps its time.

    >>> iso_date("2025-03-01")
    '2025-03-01'
    """
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    if not isinstance(value, str):
        raise ValueError(f"{value!r}")
    parsed = dt.datetime.fromisoformat(value.strip())
    return parsed.date().isoformat() if len(value.strip()) <= 10 else parsed.isoformat()
