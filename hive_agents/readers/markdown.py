"""Markdown syntax: escapes, code, tables, indentation."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Every alternative begins with its character, so that text without one is skipped fast.
_MOST_FILLED = 200_000
_INLINE = re.compile(
    r"\\(?=[!-/:-@\[-`{-~])"  # a backslash that would escape what follows
    r"|`"
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=#?\w+;)"
    r"|\((?<=\]\()"
    r"|\*(?=\S)|\*(?<=\S\*)"
    r"|_(?<![A-Za-z0-9]_)|_(?![A-Za-z0-9])"
)
_LINE_START = re.compile(r"^(#{1,6}(?=\s|$)|[-+*](?=\s|$)|>|[-=_]{2,}\s*$|[-=]$|\||~~~)", re.M)
_NUMBER_START = re.compile(r"^(\d{1,9})([.)])(?=\s|$)", re.M)


def escape(text: str) -> str:
    r"""Return the text escaped for Markdown, with no more backslashes than needed.

    >>> print(escape("snake_case stays, <b> and __init__ don't"))
    snake_case stays, \<b> and \_\_init\_\_ don't
    """
    return _INLINE.sub(lambda found: "\\" + found[0], text)


def plain_lines(text: str) -> str:
    r"""Return the text escaped so that no line starts a heading, list, quote or table.

    >>> print(plain_lines("# of rows\n1. one"))
    \# of rows
    1\. one
    """
    return _NUMBER_START.sub(r"\1\\\2", _LINE_START.sub(r"\\\1", text))


def code_span(text: str) -> str:
    """Return a code span of the text on one line, "" for blank text.

    >>> code_span("a `b` c")
    '`` a `b` c ``'
    """
    text = " ".join(text.split())
    if not text:
        return ""
    ticks = "`" * (_longest_run(text) + 1)
    pad = " " if len(ticks) > 1 else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fence(text: str, language: str = "") -> str:
    ticks = "`" * max(3, _longest_run(text) + 1)
    return f"{ticks}{language}\n{text.strip(chr(10))}\n{ticks}"


def indent(text: str, first: str, rest: str) -> str:
    """Return the text with `first` before its first line, and `rest` before the others that aren't blank.

    >>> indent("a\\n\\nb", "- ", "  ")
    '- a\\n\\n  b'
    """
    lines = text.split("\n")
    return "\n".join([first + lines[0], *(rest + line if line.strip() else rest.rstrip() for line in lines[1:])])


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a pipe table whose first row is the head; short rows get empty cells, but for those of a very large one,
    which mean the same without. "" without columns."""
    width = max((len(row) for row in rows), default=0)
    if not width:
        return ""
    lines = []
    for number, row in enumerate(rows):
        cells = [" ".join(cell.replace("|", "\\|").split()) for cell in row]
        if number == 0 or width * len(rows) <= _MOST_FILLED:
            cells += [""] * (width - len(cells))
        lines.append("| " + " | ".join(cells) + " |")
        if number == 0:
            lines.append("|" + " --- |" * width)
    return "\n".join(lines)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
