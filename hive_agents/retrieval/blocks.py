"""The blocks of a document: the Markdown parser that it is cut by, the section of a line, and headings as words.

The parser is CommonMark with tables, without what is inside a paragraph. Most lines of a text go on with one. The
library asks seven rules, twice, whether a line ends it; here a look at its first sign comes before, which makes parsing
plain text about twice as fast and changes no token.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from hive_agents.retrieval.analysis import heading_text

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
    r"|(?P<ticks>`+)(?P<code>[^`].*?)(?P=ticks)(?!`)"
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
        if _sign(state, line) not in _INTERRUPTING and _sign(state, line + 1) not in _BELOW_A_TABLES_HEAD:
            return False
        return any(rule(state, line, end, silent) for rule in rules)

    ruler.push("interruption", interruption, {"alt": ["paragraph"]})
    return parser


def _sign(state: StateBlock, line: int) -> str:
    """Return the first sign of a line, "" where there is none."""
    if line >= state.lineMax:
        return ""
    start = state.bMarks[line] + state.tShift[line]
    return state.src[start : start + 1]


def is_heading(token: Token) -> bool:
    """Return whether a heading begins here that cuts a text: none in a list or a quotation."""
    return token.type == "heading_open" and token.level == 0


def section_of(heading: str, text: str, line: int) -> str:
    """Return the path of headings above a line, from 0, of a chunk's text; `heading` is the chunk's own path.

    No heading in a chunk is of a higher level than the one that it begins with, or belongs to: what stands above those
    in the text is always in the path.

    >>> text = "## Lights\\n\\n### Front\\n\\nWhite.\\n\\n### Back\\n\\nRed.\\n"
    >>> [section_of("Bicycles > Lights", text, line) for line in (0, 4, 8)]
    ['Bicycles > Lights', 'Bicycles > Lights > Front', 'Bicycles > Lights > Back']
    """
    begun = [path for at, path in _sections(heading, text) if at <= line]
    return begun[-1] if begun else heading


@lru_cache(maxsize=512)
def _sections(heading: str, text: str) -> tuple[tuple[int, str], ...]:
    """Return the line that each section of a chunk begins with, and its path, in order."""
    found = _headings(text)
    if not found:
        return ()
    first, level, own = found[0]
    begins = not "".join(re.split(r"\r\n|\n|\r", text)[:first]).strip()
    if begins and (heading == own or heading.endswith(_BELOW + own)):
        above, least = heading[: len(heading) - len(own)].removesuffix(_BELOW), level
    else:
        above, least = heading, 2 if heading else 1
    path: dict[int, str] = {}
    sections = []
    for at, level, name in found:
        if level >= least:  # else it is a remark in code that is cut where its fence can't be seen
            path = {higher: kept for higher, kept in path.items() if higher < level} | {level: name}
            sections.append((at, _BELOW.join(filter(None, [above, *path.values()]))))
    return tuple(sections)


def _headings(text: str) -> list[tuple[int, int, str]]:
    """Return line, level and words of each heading of a text."""
    if not _LIKE_A_HEADING.search(text):
        return []
    tokens = block_parser().parse(text)
    return [
        (token.map[0], int(token.tag[1:]), plain_heading(heading_text(tokens[place + 1].content)))
        for place, token in enumerate(tokens)
        if is_heading(token) and token.map
    ]


def plain_heading(text: str) -> str:
    r"""Return the words of a heading; what only looks like a mark is one of its signs.

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
        return sign if sign.isprintable() else " "  # none that a terminal obeys
    return mark["sign"] or mark["code"] or _plain(mark["strong"] or mark["struck"] or mark["label"] or "")
