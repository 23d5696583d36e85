"""Documents as HTML, with the passages of an answer marked.

Only Markdown becomes elements. HTML in a document is shown as text and a picture by its alternative text; links lead to
the web alone, not to addresses of this server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from hive_agents.base import HiveError
from hive_agents.server import golden
from hive_agents.server.api import checked
from hive_agents.server.auth import Call
from hive_agents.server.pages.passages import TextPart, located

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MOST = 400_000
"""The most characters of a document that is formatted; a longer one is shown as plain text."""
TOP = 3
"""The level of a document's main headings, below the titles of the page and of the document."""
_LEAVES = frozenset({"text", "text_special", "code_inline", "fence", "code_block", "image", "softbreak", "hardbreak"})
_ELEMENTS = frozenset(
    "p ul ol li blockquote table thead tbody tr th td em strong a h1 h2 h3 h4 h5 h6".split()
)  # fmt: skip
_BLANK = {"tr_open": "\n| ", "td_close": " | ", "th_close": " | ", "tr_close": "\n"}
"""Table rows are written in Markdown's syntax, so that `located` can match whole rows."""


@dataclass(frozen=True)
class ShownDocument:
    """A document as HTML; `found` says whether a passage is marked, `formatted` whether it was Markdown."""

    html: Markup
    found: bool
    formatted: bool


def shown_document(doc_id: str, text: str, passages: Sequence[str]) -> ShownDocument:
    """Return a document with the passages marked; that of the first one has the id `passage`.

    >>> str(shown_document("a.md", "Keys *expire* <b>after</b> a year.", ["expire after"]).html)
    '<p>Keys <em>expire</em> &lt;b&gt;after&lt;/b&gt; a year.</p>'
    """
    if not doc_id.lower().endswith((".md", ".markdown")) or len(text) > MOST:
        parts = located(text, passages)
        return ShownDocument(_Marks(parts).shown(parts), any(part.kind for part in parts), formatted=False)
    tokens = list(_flat(_parser().parse(text)))
    parts = located("".join(_words(token) for token in tokens), passages)
    html = Markup("").join(_html(tokens, parts))
    return ShownDocument(html, any(part.kind for part in parts), formatted=True)


def found_for(call: Call, doc_id: str, question: str) -> list[str]:
    """Return the passage of a document that a search for a question finds; none where it finds another document."""
    with suppress(HiveError):  # there is no question, or nothing is indexed
        pool = golden.label_pool(call, checked(golden.Pool, {"query": question}))
        return [one.excerpt for one in pool.documents if one.doc_id == doc_id]
    return []


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _flat(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens in order, inline tokens replaced by their children."""
    for token in tokens:
        if token.type == "inline":
            yield from token.children or ()
        else:
            yield token


def _words(token: Token) -> str:
    """Return a token's part of the text that passages are located in."""
    if token.type in ("softbreak", "hardbreak"):
        return "\n"
    if token.type in _LEAVES:
        return token.content
    return _BLANK.get(token.type, "\n\n" if token.nesting == -1 and token.block else "")


def _html(tokens: Sequence[Token], parts: Sequence[TextPart]) -> Iterator[Markup]:
    marks, level = _Marks(parts), TOP - 1
    links: list[bool] = []
    for token in tokens:
        taken = marks.next(len(_words(token)))
        pieces = marks.shown(taken) if token.type in _LEAVES else Markup("")
        if token.type in ("fence", "code_block"):
            yield Markup("<pre><code>{}</code></pre>").format(pieces)
        elif token.type == "code_inline":
            yield Markup("<code>{}</code>").format(pieces)
        elif token.type == "hardbreak":
            yield Markup("<br>")
        elif token.type in _LEAVES:
            yield pieces
        elif token.type == "hr":
            yield Markup("<hr>")
        elif token.type == "link_open":
            href = str(token.attrs.get("href", ""))
            links.append(href.lower().startswith(("https://", "http://", "mailto:")))
            if links[-1]:
                yield Markup('<a href="{}" target="_blank" rel="noopener noreferrer">').format(href)
        elif token.type == "link_close":
            yield Markup("</a>" if links.pop() else "")
        elif token.type == "heading_open":
            level = min(level + 1, TOP - 1 + int(token.tag[1]), 6)
            yield Markup("<h{}>").format(level)
        elif token.type == "heading_close":
            yield Markup("</h{}>").format(level)
        elif token.tag in _ELEMENTS and not token.hidden:
            yield _element(token)
        elif token.hidden and token.nesting == -1:
            yield Markup("\n")


def _element(token: Token) -> Markup:
    """Return an opening or closing tag without attributes, except the start of a list."""
    if token.nesting == -1:
        return Markup("</{}>").format(token.tag)
    start = token.attrs.get("start")
    return Markup('<ol start="{}">').format(int(start)) if start is not None else Markup("<{}>").format(token.tag)


class _Marks:
    """The marked text of a document, consumed piece by piece."""

    def __init__(self, parts: Sequence[TextPart]) -> None:
        self._parts = list(reversed(parts))
        self._has_id = False

    def next(self, length: int) -> list[TextPart]:
        """Return the parts of the next `length` characters."""
        taken = []
        while length:
            part = self._parts.pop()
            taken.append(TextPart(part.text[:length], part.kind))
            if len(part.text) > length:
                self._parts.append(TextPart(part.text[length:], part.kind))
            length -= len(taken[-1].text)
        return taken

    def shown(self, parts: Sequence[TextPart]) -> Markup:
        """Return parts as HTML; the mark of the passage to begin with has the id that a script scrolls to."""
        pieces = []
        for part in parts:
            if not part.kind:
                pieces.append(escape(part.text))
                continue
            begins = part.kind == "first" and not self._has_id
            pieces.append(Markup('<mark id="passage">{}</mark>' if begins else "<mark>{}</mark>").format(part.text))
            self._has_id |= begins
        return Markup("").join(pieces)
