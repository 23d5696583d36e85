"""Lines of Markdown as plain text: sentences, rows of tables, lines of code and logs, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from hive_agents.documents import analysis

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_BREAK = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|approx|ca|figs?|dr|mrs?|ms|prof|eq|sec|vol|st|z\.\s?b|d\.\s?h|bzw|nr)|(?<!\d)\s(?-i:[A-Z]))\.\s*$",
    re.I,
)
_DAY = re.compile(r"\b[0-3]?\d\.\s*$")
_MONTH = re.compile(
    r"(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b|[01]?\d\."
)
_LOOKED_AT = 12
_STOPS = (".", "!", "?", "…", "。", "！", "？", '."', ".)")
_LOG = re.compile(
    r"^\W{0,3}(?:\d{4}-\d\d-\d\d[T ]|\d\d:\d\d:\d\d\b|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d)"
    r"|^\W{0,3}(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b[\]:|]"
)
BlockKind = Literal["prose", "list", "table", "code", "log", "heading"]
_MARK = re.compile(r"</?\s*mark\b[^<>]*>", re.I)


@dataclass(frozen=True)
class TextLine:
    """A sentence, an item of a list, a table's row with the `head` of its table, a line of code or a log, or a heading.

    `first` and `last` are the lines of the text, from 0, that its paragraph, row or line of code is on. A paragraph in
    bold that doesn't end like a sentence is a term, and of the kind "heading".
    """

    text: str
    kind: BlockKind = "prose"
    first: int = field(default=0, compare=False)
    last: int = field(default=0, compare=False)
    head: str = ""


@lru_cache(maxsize=1024)
def read(markdown: str) -> tuple[TextLine, ...]:
    """Return the lines in order, without HTML; code keeps its indentation.

    >>> [line.text for line in read("# Keys\\n\\nOpen **Settings**, e.g. by `F2`. See\\n[Roles](roles.md).")]
    ['Keys', 'Open Settings, e.g. by F2.', 'See Roles.']
    """
    return tuple(_blocks(markdown))


def split(line: str) -> list[str]:
    """Return the sentences of one paragraph.

    >>> split("Use fig. 2 (see no. 4). Is it 1.5? Yes.")
    ['Use fig. 2 (see no. 4).', 'Is it 1.5?', 'Yes.']
    """
    parts: list[str] = []
    start = 0
    for found in _BREAK.finditer(line):
        if _ends(line[start : found.end()], line[found.end() : found.end() + _LOOKED_AT]):
            parts.append(" ".join(line[start : found.end()].split()))
            start = found.end()
    rest = " ".join(line[start:].split())
    return [*parts, rest] if rest else parts


def without_marks(text: str) -> str:
    """Return the text without `<mark>` tags, which are reserved for matches, also without those that removal creates.

    >>> without_marks("a <ma<mark>rk>b</mark>")
    'a b'
    """
    while (plain := _MARK.sub("", text)) != text:
        text = plain
    return text


def _ends(before: str, after: str) -> bool:
    """Return whether a sentence ends here: not before a small letter, in "no. 4", or between a day and its month."""
    if not before.strip() or after[:1].islower() or _ABBREVIATED.search(before[-12:]):
        return False
    numbered = after[:1].isdigit() and before.rstrip().lower().endswith(" no.")
    return not numbered and not (_DAY.search(before) and _MONTH.match(after))


def _blocks(markdown: str) -> Iterator[TextLine]:
    tokens = _parser().parse(markdown)
    columns: list[str] = []
    cells: list[str] = []
    in_list = first = last = 0
    for place, token in enumerate(tokens):
        in_list += (token.type == "list_item_open") - (token.type == "list_item_close")
        first, last = (token.map[0], token.map[1] - 1) if token.map else (first, last)
        if token.type == "thead_open":
            columns = []
        elif token.type == "tr_open":
            cells = []
        elif token.type == "tr_close" and any(cells):
            yield TextLine(" | ".join(cells), "table", first, last, " | ".join(columns) if any(columns) else "")
        if token.type in ("fence", "code_block"):
            yield from _code(token.content, first + (token.type == "fence"))
        if token.type != "inline":
            continue
        text, opened = " ".join(without_marks(_text(token)).split()), tokens[place - 1].type
        if opened == "th_open":
            columns.append(text)
        elif opened == "td_open":
            cells.append(text)
        elif opened == "heading_open" or (not in_list and _is_term(token, text)):
            text = analysis.heading_text(text) if opened == "heading_open" else text
            if text:
                yield TextLine(text, "heading", first, last)
        else:
            for sentence in split(text):
                kind: BlockKind = "log" if _LOG.match(sentence) else "list" if in_list else "prose"
                yield TextLine(sentence, kind, first, last)


def _is_term(token: Token, text: str) -> bool:
    """Return whether a paragraph is a term that the next ones define, as HTML's `<dt>` is converted: bold alone."""
    shown = [child.type for child in token.children or [] if child.type != "text" or child.content]
    marks = [kind for kind in shown if kind.startswith("strong")]
    return marks == [*shown[:1], *shown[-1:]] == ["strong_open", "strong_close"] and not text.endswith(
        (*_STOPS, ":", "：")
    )


def _code(content: str, first: int) -> Iterator[TextLine]:
    for number, each in enumerate(content.splitlines(), start=first):
        text = without_marks(each.expandtabs(4)).rstrip()
        if text:
            yield TextLine(text, "log" if _LOG.match(text) else "code", number, number)


def _text(token: Token) -> str:
    """Return inline text without markup, images and HTML."""
    lines = "".join(_token_text(child) for child in token.children or []).split("\n")
    return analysis.without_references(" ".join(map(analysis.unmarked, lines)))


def _token_text(child: Token) -> str:
    if child.type in ("text", "code_inline", "text_special"):
        return child.content
    return "\n" if child.type in ("softbreak", "hardbreak") else ""


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")
