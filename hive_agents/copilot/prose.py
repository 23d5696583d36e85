"""Lines of Markdown as plain text: sentences, rows of tables, lines of code and logs, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from hive_agents.documents import heading_text, unmarked, without_references

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
class ProseSentence:
    """A line of a text, with the heading, table's head, defined term or line with a colon that is `above` it.

    `linked` are the texts of its links; `line` is the number, from 0, of the line in the text where its paragraph, row
    or block of code begins. `whole` is false for headings, rows of tables, lines of code and logs, and for items of a
    list that don't end like a sentence. A paragraph in bold that doesn't end like a sentence is a term, and of the kind
    "heading".
    """

    text: str
    above: str = ""
    linked: tuple[str, ...] = ()
    whole: bool = True
    kind: BlockKind = "prose"
    line: int = field(default=0, repr=False, compare=False)

    @property
    def is_written(self) -> bool:
        """Whether it is text in sentences: no code, log or heading."""
        return self.kind not in ("code", "log", "heading")


def sentences(markdown: str) -> tuple[str, ...]:
    """Return the sentences in order, each on one line, without headings, code, logs and HTML.

    A row of a table becomes its cells; of three and more, with the names of columns: "limit: default 500; since 4.1".

    >>> sentences("# Keys\\n\\nOpen **Settings**, e.g. by `F2`. See\\n[Roles](roles.md).\\n\\n```\\ncode\\n```")
    ('Open Settings, e.g. by F2.', 'See Roles.')
    """
    return tuple(sentence.text for sentence in read(markdown) if sentence.is_written)


@lru_cache(maxsize=1024)
def read(markdown: str) -> tuple[ProseSentence, ...]:
    """Return sentences, headings, and lines of code and logs in order, each with its context.

    >>> read("# Keys\\n\\nBring:\\n\\n- a [form](f.md)")[-1]
    ProseSentence(text='a form', above='Keys Bring:', linked=('form',), whole=False, kind='list')
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


def _blocks(markdown: str) -> Iterator[ProseSentence]:
    tokens = _parser().parse(markdown)
    heading = term = lead = ""
    columns: list[str] = []
    cells: list[str] = []
    links: list[str] = []
    in_list = line = 0
    for place, token in enumerate(tokens):
        in_list += (token.type == "list_item_open") - (token.type == "list_item_close")
        line = token.map[0] if token.map else line
        if token.type == "thead_open":
            columns = []
        elif token.type == "tr_open":
            cells, links = [], []
        elif token.type == "tr_close" and (row := _row(columns, cells)):
            above = f"{heading} {' '.join(columns)}".strip()
            yield ProseSentence(row, above, tuple(links), whole=False, kind="table", line=line)
        if token.type in ("fence", "code_block"):
            yield from _code(token.content, heading, line)
        if token.type != "inline":
            continue
        text, opened = " ".join(without_marks(_text(token)).split()), tokens[place - 1].type
        if opened == "th_open":
            columns.append(text)
        elif opened == "td_open":
            cells.append(text)
            links += _links(token)
        elif opened == "heading_open":
            heading = text = heading_text(text)
            term = lead = ""
            if text:
                yield ProseSentence(text, whole=False, kind="heading", line=line)
        elif not in_list and _is_term(token, text):
            term, lead = text, ""
            yield ProseSentence(text, heading, whole=False, kind="heading", line=line)
        else:
            under = " ".join(filter(None, (heading, term, lead if in_list else "")))
            for sentence in split(text):
                linked = tuple(link for link in _links(token) if link in sentence)
                kind: BlockKind = "log" if _LOG.match(sentence) else "list" if in_list else "prose"
                whole = not in_list or sentence.endswith(_STOPS)
                yield ProseSentence(sentence, under, linked, whole, kind, line)
            if not in_list:
                lead = text if text.endswith((":", "：")) else ""


def _is_term(token: Token, text: str) -> bool:
    """Return whether a paragraph is a term that the next ones define, as HTML's `<dt>` is converted: bold alone."""
    shown = [child.type for child in token.children or [] if child.type != "text" or child.content]
    marks = [kind for kind in shown if kind.startswith("strong")]
    return marks == [*shown[:1], *shown[-1:]] == ["strong_open", "strong_close"] and not text.endswith(
        (*_STOPS, ":", "：")
    )


def _code(content: str, heading: str, line: int) -> Iterator[ProseSentence]:
    for each in content.splitlines():
        text = " ".join(without_marks(each).split())
        if text:
            yield ProseSentence(text, heading, whole=False, kind="log" if _LOG.match(text) else "code", line=line)


def _row(columns: list[str], cells: list[str]) -> str:
    """Return a row as text: the first cell, then the others, with the names of their columns from three columns on.

    >>> _row([], ["Default:", "5"]), _row(["Name", "Type", "Default"], ["port", "int", "80"])
    ('Default: 5', 'port: Type int; Default 80')
    """
    if not cells:
        return ""
    if len(columns) > 2:
        named = zip(columns[1:], cells[1:], strict=True)
        rest = [f"{column} {cell}".strip() for column, cell in named if cell]
    else:
        rest = [cell for cell in cells[1:] if cell]
    return ": ".join(part for part in (cells[0].removesuffix(":"), "; ".join(rest)) if part)


def _links(token: Token) -> list[str]:
    """Return the text of each link, as it is in a sentence."""
    links: list[str] = []
    inside = False
    for child in token.children or []:
        if child.type == "link_open":
            inside = True
            links.append("")
        elif child.type == "link_close":
            inside = False
        elif inside:
            links[-1] += _token_text(child)
    return [" ".join(without_marks(link).split()) for link in links if link.strip()]


def _text(token: Token) -> str:
    """Return inline text without markup, images and HTML."""
    lines = "".join(_token_text(child) for child in token.children or []).split("\n")
    return without_references(" ".join(map(unmarked, lines)))


def _token_text(child: Token) -> str:
    if child.type in ("text", "code_inline", "text_special"):
        return child.content
    return "\n" if child.type in ("softbreak", "hardbreak") else ""


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")
