"""Jupyter notebooks to Markdown: Markdown cells, code and its textual output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hive_agents.readers.decoding import decode
from hive_agents.readers.imported import Imported, ImportFailure
from hive_agents.readers.markdown import fence

_LONGEST_OUTPUT = 4000
_FENCED = re.compile(r"^(?P<mark>```+|~~~+).*?(?:^(?P=mark)|\Z)", re.S | re.M)
_HEADING = re.compile(
    r"^ {0,3}#{1,6}[ \t]+(?P<atx>.*?\w.*?)[ \t]*#*[ \t]*$|^(?P<set>\S.*\w.*)\n(?:={2,}|-{3,})[ \t]*$", re.M
)
_MARKS = re.compile(r"<[^<>]*>|!?\[([^\]]*)\]\([^)]*\)|[*`\\]")
_PICTURE = re.compile(r"!\[([^\]]*)\]\((?:data:|attachment:)[^)]*\)")


def from_notebook(data: bytes) -> Imported:
    try:
        notebook: Any = json.loads(decode(data))
        cells = notebook.get("cells")
        if cells is None:  # before format 4
            cells = [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        metadata = notebook.get("metadata", {})
        language = metadata.get("language_info", {}).get("name") or metadata.get("kernelspec", {}).get("language") or ""
        blocks = [block for cell in cells for block in _blocks(cell, language)]
        title = metadata.get("title") or _first_heading(cells)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ImportFailure(f"not a notebook: {type(error).__name__}: {error}") from None
    return Imported("\n\n".join(blocks) + "\n" if blocks else "", title if isinstance(title, str) and title else None)


def _blocks(cell: Mapping[str, Any], language: str) -> Iterator[str]:
    text = _joined(cell.get("source", cell.get("input", ""))).strip("\n")
    kind = cell.get("cell_type")
    if kind == "heading" and text.strip():
        yield f"{'#' * int(cell.get('level', 1))} {text.strip()}"
    elif kind == "markdown" and text.strip():
        yield _PICTURE.sub(r"(Image: \1)", text)
    elif kind == "code" and text.strip():
        yield fence(text, language)
    elif kind == "raw" and text.strip():
        yield fence(text)
    for output in cell.get("outputs", []):
        shown = _output(output).strip()
        if shown:
            yield fence(shown if len(shown) <= _LONGEST_OUTPUT else shown[:_LONGEST_OUTPUT] + "\n…")


def _first_heading(cells: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the first heading in the cells, else None."""
    for cell in cells:
        if cell.get("cell_type") in ("heading", "markdown"):
            text = _FENCED.sub("", _joined(cell.get("source", "")))
            text = f"# {text}" if cell["cell_type"] == "heading" else text
            heading = _HEADING.search(text)
            if heading:
                return " ".join(_MARKS.sub(r"\1", heading["atx"] or heading["set"]).split()) or None
    return None


def _output(output: Mapping[str, Any]) -> str:
    """Return the text of an output, without pictures and tracebacks."""
    if output.get("output_type") in ("error", "pyerr"):
        return f"{output.get('ename', '')}: {output.get('evalue', '')}"
    data = output.get("data", output)
    return _joined(output.get("text") or data.get("text/plain") or "")


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
