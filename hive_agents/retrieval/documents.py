"""A Markdown file becomes a document: front matter, title, body."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hive_agents import jsontext
from hive_agents.errors import Diagnostic, HiveError
from hive_agents.retrieval.chunking import first_heading
from hive_agents.retrieval.collection import Collection, FieldSchema

_FENCE = re.compile(r"---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S | re.M)
_KEY = re.compile(r"---[ \t]*\r?\n[\w-]+[ \t]*:")
MAX_FRONT_MATTER = 64_000
# PyYAML's constructors fail in all these ways on odd scalars and tags.
_BUILD_FAILURES = (ValueError, ArithmeticError, LookupError, AttributeError, TypeError, AssertionError)


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

    Hidden files, pipes, and links that leave or lead nowhere are no documents.

    Raises: HIVE-403 for a folder that can't be listed; its documents must not look deleted.
    """
    found = []
    for folder, subfolders, files in os.walk(root, onerror=_refuse):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        for name in files:
            path = Path(folder, name)
            if not name.endswith(".md") or name.startswith("."):
                continue
            if path.is_symlink() and not os.path.realpath(path).startswith(os.path.join(os.path.realpath(root), "")):
                continue
            if os.path.isfile(path):
                found.append((path.relative_to(root).as_posix(), path))
    return iter(sorted(found))


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
    raw, body = _split(text, file)
    front_matter = {_utf8(key): _plain(value) for key, value in raw.items()}
    title = str(front_matter.get("title") or "").strip() or first_heading(body)
    values = dict(front_matter)
    if not values.get("category") and "/" in doc_id:
        values["category"] = doc_id.split("/")[0]
    metadata: dict[str, Any] = {}
    warnings = []
    for name, schema in collection.fields.items():
        if name in ("title", "content") or values.get(name) is None:
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


def _split(text: str, file: str) -> tuple[dict[str, Any], str]:
    if not text.startswith("---"):
        return {}, text
    found = _FENCE.match(text)
    if found is None:
        if _KEY.match(text):  # without a key this is a thematic break, and all of it is body
            raise HiveError.of(
                "HIVE-108", "the front matter has no closing ---", file=file, line=1, fix="add a line ---"
            )
        return {}, text
    return _yaml(found["yaml"], file), text[found.end() :]


def _yaml(text: str, file: str) -> dict[str, Any]:
    import yaml

    fix = "front matter is YAML: `key: value` a line, and quotes around values with a colon"
    if len(text) > MAX_FRONT_MATTER:
        message = f"the front matter is over {MAX_FRONT_MATTER} characters"
        raise HiveError.of("HIVE-108", message, file=file, line=1, fix="move the text into the body")
    try:
        # An alias can unfold to gigabytes; nobody needs one in front matter.
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise HiveError.of(
                    "HIVE-108",
                    "front matter can't use YAML aliases",
                    file=file,
                    line=event.start_mark.line + 2 if event.start_mark else 2,
                    fix="repeat the value",
                )
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        place = getattr(error, "position", None)  # a character that YAML forbids has no mark
        before = text.count("\n", 0, place) if isinstance(place, int) else -1
        line = (before if mark is None else int(mark.line)) + 2
        raise HiveError.of("HIVE-108", f"front matter: {problem}", file=file, line=line, fix=fix) from None
    except _BUILD_FAILURES as error:
        raise HiveError.of("HIVE-108", f"front matter: {error}", file=file, line=_bad_value(text), fix=fix) from None
    except RecursionError:
        raise HiveError.of("HIVE-108", "front matter: nested too deeply", file=file, line=1, fix=fix) from None
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise HiveError.of("HIVE-108", "front matter is not a list of `key: value` lines", file=file, line=2, fix=fix)
    return value


def _bad_value(text: str) -> int:
    """The file's line of the first value that YAML can read and not build, such as 30 February."""
    import yaml

    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for _, value in node.value if isinstance(node, yaml.MappingNode) else []:
        try:
            yaml.safe_load(text[value.start_mark.index : value.end_mark.index])
        except _BUILD_FAILURES:
            return int(value.start_mark.line) + 2
    return 1


def _typed(value: Any, schema: FieldSchema) -> Any:
    if isinstance(value, list):
        return [_typed(item, schema) for item in value if item is not None]
    if isinstance(value, dict):
        raise ValueError("a mapping can't be a value")
    if schema.type in ("text", "keyword"):
        return keyword_text(value)
    if schema.type == "boolean":
        if not isinstance(value, bool):
            raise ValueError(f"{value!r} is neither true nor false")
        return value
    if schema.type == "number":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise ValueError(f"{value!r}"[:40])
        return value
    return iso_date(value)


def keyword_text(value: Any) -> str:
    """A keyword as text: YAML reads `draft: yes` as a boolean and `version: 2.0` as a number.

    >>> keyword_text(True), keyword_text(2.0)
    ('true', '2.0')
    """
    return str(value).lower() if isinstance(value, bool) else str(_plain(value))


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


def _plain(value: Any) -> Any:
    """The value as JSON can hold it."""
    if isinstance(value, dict):
        return {_utf8(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, set, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (dt.date, dt.datetime, dt.time)):
        return value.isoformat()
    if isinstance(value, str):
        return _utf8(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


def _utf8(text: str) -> str:
    r"""YAML reads the escapes `\ud83d\ude00` as two halves of a character, which no file can hold: join them.

    >>> _utf8("\ud83d\ude00") == "\U0001f600", _utf8("\ud83d!")
    (True, '\ufffd!')
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
