"""A Markdown file becomes a document: front matter, title, body."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hive_agents.errors import Diagnostic, HiveError
from hive_agents.files import frontmatter, jsontext, unlinked
from hive_agents.retrieval.chunking import first_heading
from hive_agents.retrieval.collection import Collection, FieldSchema


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


def document_files(root: Path) -> Iterator[tuple[str, Path]]:
    """(doc_id, path) of each file `**/*.md` below `root`, by doc_id.

    Hidden files, pipes and links are no documents.

    Raises: HIVE-403 for a folder that can't be listed, whose documents must not look deleted; HIVE-114 where `root` is
    a link.
    """
    return iter(sorted((doc_id, path) for doc_id, path in _markdown(root) if path.is_file() and not path.is_symlink()))


def linked_documents(root: Path) -> list[str]:
    """Return what would be a document, or a folder of documents, and is a link. Raises: as `document_files`."""
    return sorted(name for name, path in _markdown(root, folders=True) if path.is_symlink())


def _markdown(root: Path, *, folders: bool = False) -> Iterator[tuple[str, Path]]:
    """What is called `*.md` below `root` and isn't hidden; with `folders` the folders, too."""
    top = unlinked(root)
    for folder, subfolders, files in os.walk(top, onerror=_refuse):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        named = [name for name in files if name.endswith(".md") and not name.startswith(".")]
        for name in [*named, *(subfolders if folders else ())]:
            path = Path(folder, name)
            yield path.relative_to(top).as_posix(), path


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        name = Path(error.filename).name
        message = f"cannot list {name}: {error.strerror}"
        raise HiveError.of("HIVE-403", message, file=name, fix="make the folder readable") from error


def content_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
