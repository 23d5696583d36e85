"""A heading, or a title, as readers of its site see it: without the marks of Markdown, entities as their signs."""

from __future__ import annotations

import html
import re

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
