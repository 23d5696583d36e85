"""Kinds that are text already."""

from __future__ import annotations

import codecs
import re
from typing import Any

from hive_agents.errors import HiveError
from hive_agents.files import frontmatter
from hive_agents.importing.imported import Imported, ImportFailure

_MARKS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
]
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def decode(data: bytes, declared: str | None = None) -> str:
    """The text, its lines ended by a newline; the encoding is what a mark or the file says, else UTF-8.

    Never guessed: a wrong guess fills the index with words that nobody can search for.
    """
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), declared or "utf-8")
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise ImportFailure(f"its encoding is called {encoding!r}, which nothing knows; save it as UTF-8") from None
    except UnicodeDecodeError as error:
        if b"\0" in data[:4096]:
            raise ImportFailure("holds binary data, not text; does its suffix fit?") from None
        line = data.count(b"\n", 0, error.start) + 1
        raise ImportFailure(f"not valid {encoding.upper()} (line {line}); save it as UTF-8") from None
    if len(_CONTROL.findall(text)) > len(text) // 200:
        raise ImportFailure("holds binary data, not text; does its suffix fit?")
    return _CONTROL.sub("", re.sub(r"\r\n?|\f", "\n", text))


def from_markdown(data: bytes) -> Imported:
    metadata, body = split(decode(data))
    title = metadata.get("title")
    return Imported(body, title if isinstance(title, str) else None, metadata)


def split(text: str) -> tuple[dict[str, Any], str]:
    """Return (front matter as YAML has it, body). Raises: ImportFailure."""
    try:
        block, body = frontmatter.split(text, "")
        return frontmatter.values(block, ""), body
    except HiveError as error:
        found = error.diagnostics[0]
        why = found.message.removeprefix("the ").replace("front matter: ", "front matter is not valid YAML: ", 1)
        raise ImportFailure(f"its {why} (line {found.line}); {found.fix}") from None


def from_text(data: bytes) -> Imported:
    return Imported(decode(data).strip("\n") + "\n")


def from_rst_bytes(data: bytes) -> Imported:
    from hive_agents.importing.rst import from_rst

    return from_rst(decode(data))
