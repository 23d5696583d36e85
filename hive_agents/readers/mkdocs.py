"""Extensions of Python-Markdown, as in MkDocs and Material: admonitions, tabs, attributes, snippets."""

from __future__ import annotations

import re

from hive_agents.readers.literal import outside_code

_INDENT = 4
_BLOCK = re.compile(
    r"(?P<indent> *)(?:(?:!!!|\?\?\?\+?)[ ]+(?P<kind>[\w-]+)(?:[ ]+[\w-]+)*|===[+!]?(?=[ ]+\"))"
    r"(?:[ ]+\"(?P<title>[^\"]*)\")?\s*"
)
_FENCE = re.compile(r" *(?P<fence>`{3,}|~{3,})")
# Also those of kramdown, and the anchors of Hugo and Docusaurus after headings.
_ITEM = r"(?:[.#][\w:-]+|[\w-]+=(?:\"[^\"\n]*\"|[\w-]+))"
_ATTRIBUTES = re.compile(rf"(?<![ \t])[ \t]*\{{(?::[^{{}}\n]*|[ ]?[.#][\w:-]+(?:[ ]+{_ITEM})*[ ]*)\}}(?=[ \t]*$)", re.M)
_SNIPPET = re.compile(r"^[ \t]*-{1,}8<-{1,}[ \t]+\"[^\"\n]*\"[ \t]*\n?", re.M)


def without_extensions(text: str) -> str:
    """Return the text with admonitions and tabs as paragraphs below their titles, without attributes and snippets.

    >>> without_extensions('!!! warning\\n    It is hot.\\n')
    '**Warning**\\n\\nIt is hot.\\n'
    >>> without_extensions("## Pairing {#pairing}\\n")
    '## Pairing\\n'
    """
    if "!!!" in text or "???" in text or "===" in text:
        text = "\n".join(_outdented(text.split("\n")))
    return outside_code(text, _without_marks)


def _without_marks(text: str) -> str:
    return _ATTRIBUTES.sub("", _SNIPPET.sub("", text))


def _outdented(lines: list[str]) -> list[str]:
    """Return the lines with the contents of blocks outdented to the level of the blocks themselves."""
    outdented: list[str] = []
    columns: list[int] = []  # where the text of each open block begins
    fence = ""
    following = _widths_of_following(lines)
    for number, line in enumerate(lines):
        blank = not line.strip()
        while not fence and not blank and columns and _width(line) < columns[-1]:
            columns.pop()
        shown = line[min(_INDENT * len(columns), _width(line)) :]
        ticks = _FENCE.match(line)
        if fence:
            fence = "" if ticks and ticks["fence"].startswith(fence) and not line.strip().strip(fence[0]) else fence
        elif ticks:
            fence = ticks["fence"]
        elif (block := _BLOCK.fullmatch(line)) and (
            block["title"] or following[number] >= len(block["indent"]) + _INDENT
        ):
            columns.append(len(block["indent"]) + _INDENT)
            title = block["title"] if block["title"] is not None else (block["kind"] or "").capitalize()
            apart = [""] if any(below.strip() for below in lines[number + 1 : number + 2]) else []
            outdented += [f"{shown[: _width(shown)]}**{title}**", *apart] if title else []
            continue
        outdented.append("" if blank else shown)
    return outdented


def _widths_of_following(lines: list[str]) -> list[int]:
    """Return for each line the indentation of the next one that isn't blank, -1 where there is none."""
    widths, width = [-1] * len(lines), -1
    for number in range(len(lines) - 1, -1, -1):
        widths[number] = width
        width = _width(lines[number]) if lines[number].strip() else width
    return widths


def _width(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
