"""Markdown blocks: the parser that cuts documents, the section of a line, and the plain text of headings.

The parser is CommonMark with tables, without inline markup. Most lines continue a paragraph. The library asks seven
rules, twice, whether a line ends it; here a check of the line's first character comes first, which makes parsing plain
text about twice as fast and changes no token.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from hive_agents.documents.analysis import heading_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

    Rule = Callable[[StateBlock, int, int, bool], bool]

_INTERRUPTING = frozenset("`~>*-_+#<|:=0123456789")
_BELOW_A_TABLES_HEAD = frozenset("|-:")
_BELOW = " > "
_LIKE_A_HEADING = re.compile(r"^ {0,3}(?:#{1,6}(?:[ \t]|$)|=+[ \t]*$|-+[ \t]*$)", re.M)
_MARKED = re.compile(r"[&*`~\[\\<]")
_MARKUP = re.compile(
    r"\\(?P<sign>[!-/:-@\[-`{-~])"
    r"|(?<!`)(?P<ticks>`++)(?P<code>[^`]++(?:(?!(?P=ticks)(?!`))`++[^`]++)*+)(?P=ticks)(?!`)"  # each run is read once
    r"|(?<![\w*])(?P<stars>\*{1,3})(?=[^\s*])(?P<strong>[^*]*[^\s*])(?P=stars)(?![\w*])"
    r"|~~(?=\S)(?P<struck>[^~]+)~~"
    r"|!?\[(?P<label>(?:[^\[\]]|\[[^\[\]]*\])*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+[\"'(][^()]*)?\)"
    r"|</?(?:a|b|br|code|em|i|kbd|mark|s|samp|small|span|strong|sub|sup|tt|u)(?:\s[^<>]*)?/?>"
    r"|(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});)",
    re.I,
)


@lru_cache(maxsize=1)
def block_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    ruler = parser.block.ruler
    rules: list[Rule] = []
    for rule in list(ruler.__rules__):
        if rule.enabled and "paragraph" in rule.alt:
            rules.append(rule.fn)
            ruler.at(rule.name, rule.fn, {"alt": [name for name in rule.alt if name != "paragraph"]})

    def interruption(state: StateBlock, line: int, end: int, silent: bool) -> bool:
        if _first(state, line) not in _INTERRUPTING and _first(state, line + 1) not in _BELOW_A_TABLES_HEAD:
            return False
        return any(rule(state, line, end, silent) for rule in rules)

    ruler.push("interruption", interruption, {"alt": ["paragraph"]})
    return parser


def _first(state: StateBlock, line: int) -> str:
    """Return the first character of a line after its indentation, "" where there is none."""
    if line >= state.lineMax:
        return ""
    start = state.bMarks[line] + state.tShift[line]
    return state.src[start : start + 1]


def is_heading(token: Token) -> bool:
    """Return whether a token opens a heading outside lists and quotations; only these cut a text."""
    return token.type == "heading_open" and token.level == 0


def section_of(heading: str, text: str, line: int) -> str:
    """Return the path of headings above a line (from 0) of a chunk's text; `heading` is the path of the chunk.

    No heading in a chunk is of a higher level than the chunk's own, so that the chunk's path stays a prefix.

    >>> text = "## Lights\\n\\n### Front\\n\\nWhite.\\n\\n### Back\\n\\nRed.\\n"
    >>> [section_of("Bicycles > Lights", text, line) for line in (0, 4, 8)]
    ['Bicycles > Lights', 'Bicycles > Lights > Front', 'Bicycles > Lights > Back']
    """
    above = [path for start, path in _sections(heading, text) if start <= line]
    return above[-1] if above else heading


@lru_cache(maxsize=512)
def _sections(heading: str, text: str) -> tuple[tuple[int, str], ...]:
    """Return the first line of each section of a chunk, and its path, in order."""
    headings = _headings(text)
    if not headings:
        return ()
    first_line, level, first = headings[0]
    is_at_top = not "".join(re.split(r"\r\n|\n|\r", text)[:first_line]).strip()
    if is_at_top and (heading == first or heading.endswith(_BELOW + first)):
        prefix, top_level = heading[: len(heading) - len(first)].removesuffix(_BELOW), level
    else:
        prefix, top_level = heading, 2 if heading else 1
    path: dict[int, str] = {}
    sections = []
    for line, level, name in headings:
        if level >= top_level:  # else it is a comment in code whose opening fence is in another chunk
            path = {above: title for above, title in path.items() if above < level} | {level: name}
            sections.append((line, _BELOW.join(filter(None, [prefix, *path.values()]))))
    return tuple(sections)


def _headings(text: str) -> list[tuple[int, int, str]]:
    """Return (line, level, plain text) of each heading of a text."""
    if not _LIKE_A_HEADING.search(text):
        return []
    tokens = block_parser().parse(text)
    return [
        (token.map[0], int(token.tag[1:]), plain_heading(heading_text(tokens[index + 1].content)))
        for index, token in enumerate(tokens)
        if is_heading(token) and token.map
    ]


def plain_heading(text: str) -> str:
    r"""Return a heading without its Markdown marks; characters that only look like marks stay.

    >>> marked = ("Q&amp;A", "**Why** `a_b`?", "The [API](api.md) &lt;v2&gt;", r"C\*, `&amp;`")
    >>> [plain_heading(text) for text in marked]
    ['Q&A', 'Why a_b?', 'The API <v2>', 'C*, &amp;']
    >>> plain = ("__init__.py", "1. 5 * 3 * 2", "*args and **kwargs", "Vec<T>", "AT&T", "[Draft]")
    >>> [plain_heading(text) for text in plain] == list(plain)
    True
    """
    return " ".join(_plain(text).split()) if _MARKED.search(text) else text


def _plain(text: str) -> str:
    return _MARKUP.sub(_mark_text, text)


def _mark_text(mark: re.Match[str]) -> str:
    if entity := mark["entity"]:
        sign = html.unescape(entity)
        return sign if sign.isprintable() else " "  # no control characters for a terminal
    return mark["sign"] or mark["code"] or _plain(mark["strong"] or mark["struck"] or mark["label"] or "")
