"""The passage of a chunk that shows why it was found."""

from __future__ import annotations

import re

from hive_agents.retrieval.analysis import DEFAULT_LANGUAGE, terms

_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")
_MARKUP = re.compile(
    r"^(?:#{1,6}\s+|[-*+]\s+|\d+\.\s+|>\s?|```\w*|\|[-:| ]+\|$)|[*`]{1,3}|\[(?P<label>[^\]]*)\]\([^)]*\)"
)
LENGTH = 240


def excerpt(text: str, query: str, length: int = LENGTH, *, language: str = DEFAULT_LANGUAGE) -> str:
    """The run of sentences of at most `length` characters that holds most of the query's words."""
    wanted = set(terms(query, language))
    sentences = [plain for part in _SENTENCE.split(text) if part and (plain := plain_text(part))]
    if not sentences:
        return ""
    best, best_score = 0, -1.0
    found = [wanted & set(terms(sentence, language)) for sentence in sentences]
    for start in range(len(sentences)):
        size, seen = 0, set()
        for end in range(start, len(sentences)):
            size += len(sentences[end]) + 1
            if size > length and end > start:
                break
            seen |= found[end]
        score = len(seen) + (0.5 if found[start] else 0.0)
        if score > best_score:
            best, best_score = start, score
    shown = sentences[best]
    for sentence in sentences[best + 1 :]:
        if len(shown) + 1 + len(sentence) > length:
            break
        shown += " " + sentence
    return shown if len(shown) <= length else shown[: length - 1].rsplit(" ", 1)[0] + "…"


def plain_text(markdown: str) -> str:
    """One line of Markdown as text, without the marks.

    >>> plain_text("- see [Webhooks](../api-docs/webhooks.md) and `retry`")
    'see Webhooks and retry'
    """
    return " ".join(_MARKUP.sub(lambda found: found["label"] or "", markdown.strip()).split())
