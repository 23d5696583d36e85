"""The passage of a chunk that matches a query best."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from hive_agents.documents import analysis, blocks, names_in, terms
from hive_agents.index import ChunkRow

_SENTENCE = re.compile(r"(?<=[.!?:])\s+|(?<=[。！？；])")
_MARKUP = re.compile(
    r"\\(?P<sign>[!-/:-@\[-`{-~])|\\$"
    r"|(?<!`)(?P<ticks>`++)(?P<code>.{1,2000}?)(?P=ticks)(?!`)"
    r"|^(?:#{1,6}\s+|[-*+]\s+|\d+\.\s+|>\s?)|\*{1,3}(?=\S)|(?<=\S)\*{1,3}|`"
    r"|<(?P<address>(?:https?://|mailto:)[^<>\s]+)>"
    r"|</?[A-Za-z][\w-]*(?:\s[^<>]*)?/?>|<!--.{0,2000}?-->"
    r"|!?\[(?P<label>[^\]]{0,2000})\]\((?:[^)]{0,2000}\)|[^)\s]*$)"
    r"|(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});)"
)
_LINE_END = re.compile(r"\r\n|\n|\r")
_DEFINITION = re.compile(r" {0,3}\[(?!\^)[^\[\]]+\]:\s+\S+(?:\s+[\"'(].*)?\s*$")
_FENCE = re.compile(r"\s*(?P<mark>`{3,}|~{3,})")
_ROW, _CELL_END, _NO_CELLS = re.compile(r"\s*\|.*\|\s*$"), re.compile(r"(?<!\\)\|"), re.compile(r"[\s|:-]*")
LENGTH = 240


def excerpt(text: str, query: str, length: int = LENGTH, *, language: str = analysis.DEFAULT_LANGUAGE) -> str:
    """Return the run of sentences, up to `length` characters, with most of the query's words."""
    return _excerpt(text, query, length, language)[0]


def _excerpt(text: str, query: str, length: int, language: str) -> tuple[str, int]:
    """Return the excerpt, and the line number (from 0) of its best sentence."""
    names = names_in(query, language)
    query_terms = set(terms(query, language))
    analysed = _sentences(text, language)
    if not analysed:
        return "", 0
    lines, sentences, found_terms = zip(*analysed, strict=True)
    best, best_score = 0, -1.0
    matches = [query_terms & found for found in found_terms]
    for start in range(len(sentences)):
        size, seen = 0, set()
        for end in range(start, len(sentences)):
            size += len(sentences[end]) + 1
            if size > length and end > start:
                break
            seen |= matches[end]
        score = len(seen) + len(seen & names) + (0.5 if matches[start] else 0.0)
        if score > best_score:
            best, best_score = start, score
    shown, last = sentences[best], best
    for sentence in sentences[best + 1 :]:
        if len(shown) + 1 + len(sentence) > length:
            break
        shown += " " + sentence
        last += 1
    counts = Counter(term for matched in matches for term in matched)
    place = max(range(best, last + 1), key=lambda index: sum(1 / counts[term] for term in matches[index]))
    return shown if len(shown) <= length else _cut(shown, length), lines[place]


def row_excerpt(row: ChunkRow, query: str, language: str) -> tuple[str, str]:
    """Return the excerpt of a chunk, and the heading path of its section.

    Boilerplate is left out unless it has words of the query that the rest of the chunk doesn't have.
    """
    if row.own is not None:
        query_terms = set(terms(query, language))
        if query_terms & _terms(row.own, language) == query_terms & _terms(row.text, language):
            shown, line = _excerpt(row.own, query, LENGTH, language)
            if shown:
                return shown, blocks.section_of(row.heading, row.own, line)
    shown, line = _excerpt(row.text, query, LENGTH, language)
    return shown, blocks.section_of(row.heading, row.text, line)


@lru_cache(maxsize=512)
def _sentences(text: str, language: str) -> tuple[tuple[int, str, frozenset[str]], ...]:
    """Return (line number, text, terms) of each sentence; kept, since chunks that were found are found again."""
    return tuple((line, one, frozenset(terms(one, language))) for line, one in plain_sentences(text))


@lru_cache(maxsize=512)
def _terms(text: str, language: str) -> frozenset[str]:
    return frozenset(terms(text, language))


def plain_sentences(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of each sentence and table row, without marks, and of each line of code."""
    fence = ""
    for number, line in enumerate(_LINE_END.split(markdown)):
        opened = _FENCE.match(line)
        if opened and not fence:
            fence = opened["mark"]
        elif opened and opened["mark"].startswith(fence):
            fence = ""
        elif not fence and _DEFINITION.match(line):
            continue
        elif fence:
            if line.strip():
                yield number, " ".join(line.split())
        else:
            line = analysis.heading_text(line) if line.startswith("#") else analysis.unmarked(line)
            parts = [line] if _ROW.match(line) else _SENTENCE.split(line)
            yield from ((number, shown) for part in parts if (shown := plain_text(part)))


def plain_text(markdown: str) -> str:
    """Return one line of Markdown as text, without marks; of a table row its cells.

    >>> plain_text("- see [Webhooks](../api-docs/webhooks.md) and `retry`")
    'see Webhooks and retry'
    >>> plain_text("1\\\\. is \\\\*not\\\\* marked, and `\\\\d` is code")
    '1. is *not* marked, and \\\\d is code'
    >>> plain_text("Press &lt;Tab&gt; or `&lt;`")
    'Press <Tab> or &lt;'
    >>> plain_text("| l(ist) | show where |")
    'l(ist) · show where'
    """
    if not _ROW.match(markdown):
        return " ".join(_MARKUP.sub(_shown, analysis.without_references(analysis.unmarked(markdown.strip()))).split())
    if _NO_CELLS.fullmatch(markdown):
        return ""
    return " · ".join(filter(None, map(plain_text, _CELL_END.split(markdown.strip().strip("|")))))


def _shown(mark: re.Match[str]) -> str:
    if mark["entity"]:
        return html.unescape(mark["entity"])
    return mark["sign"] or mark["code"] or mark["address"] or mark["label"] or ""


def _cut(text: str, length: int) -> str:
    """Return the start of a text, cut after a word if one ends in the second half."""
    start = text[: length - 1]
    return (start[: start.rfind(" ", length // 2)] if " " in start[length // 2 :] else start) + "…"
