"""Why a document is shown, in one sentence: the words that match, where they stand, the fields that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hive_agents.copilot.plan import POSITIVE, DocumentFilter
from hive_agents.copilot.query_words import content_terms, spans
from hive_agents.copilot.sentences import MAX_LABEL, sentences, without_marks
from hive_agents.retrieval.analysis import DEFAULT_LANGUAGE
from hive_agents.retrieval.lanes import ChunkRow
from hive_agents.text import one_line

MAX_PHRASES = 2


def reason(
    row: ChunkRow,
    query: str,
    filters: Sequence[DocumentFilter] = (),
    language: str = DEFAULT_LANGUAGE,
    *,
    by_meaning: bool = False,
) -> str:
    """Why the row is shown; "" for the query where it was matched by filter alone.

    `by_meaning` says that its meaning was compared with the question's: without that, nothing is claimed of it. It
    depends on the question and this document and nothing else: no rank, no count.

    >>> text = "Every change needs cleaning validation. Records are kept."
    >>> row = ChunkRow("a.md#1", "a.md", "Cleaning", "Cleaning > 4.2 Scope", text, {"status": "effective"})
    >>> asked = [DocumentFilter(field="status", value="effective")]
    >>> reason(row, "what about cleaning validation", asked)
    "Matches 'cleaning validation' in section 4.2; status effective"
    >>> reason(row, "", asked)
    'Matched by filter: status effective'
    """
    fields = _fields(filters, row.metadata)
    if not query.strip():
        listed = "Matched by filter" if filters else "Listed without a filter"
        return f"{listed}: {', '.join(fields)}" if fields else listed
    wanted = frozenset(content_terms(query, language))
    phrases = _phrases(sentences(row.text) or (row.text,), wanted, language)
    phrases = phrases or _phrases((f"{row.heading} · {row.title}",), wanted, language)
    shown = " and ".join(f"'{phrase}'" for phrase in phrases)
    unmatched = "Close in meaning to the question:" if by_meaning else "Found in"
    told = f"Matches {shown} in {_section(row)}" if phrases else f"{unmatched} {_section(row)}"
    return "; ".join([told, *fields])


def _phrases(texts: Sequence[str], wanted: frozenset[str], language: str) -> list[str]:
    """Matched words as they stand there, neighbours as one phrase: first the phrases that hold most of them."""
    runs: list[tuple[str, set[str]]] = []
    for text in map(without_marks, texts):
        begin = done = -1
        for start, end, term in spans(text, wanted, language):
            if done >= 0 and text[done:start] in (" ", "-"):
                runs[-1] = (text[begin:end], runs[-1][1] | {term})
            else:
                begin = start
                runs.append((text[start:end], {term}))
            done = end
    phrases: list[str] = []
    seen: set[str] = set()
    for _ in range(MAX_PHRASES):
        phrase, words = max(runs, key=lambda run: len(run[1] - seen), default=("", set[str]()))
        if not words - seen:
            break
        phrases.append(one_line(phrase, MAX_LABEL))
        seen |= words
    return phrases


def _section(row: ChunkRow) -> str:
    """`section 4.2` where the heading has a number, else its words, else the document's title."""
    heading = one_line(without_marks(row.heading.rsplit(" > ", 1)[-1]), MAX_LABEL)
    number = heading.split(" ", 1)[0].rstrip(".:)").removeprefix("§")
    if number and all(part.isdecimal() for part in number.split(".")):
        return f"section {number}"
    if heading:
        return f'section "{heading}"'
    title = one_line(without_marks(row.title), MAX_LABEL)
    return f'"{title}"' if title else "the text"


def _fields(filters: Sequence[DocumentFilter], metadata: Mapping[str, Any]) -> list[str]:
    """The document's own values of the fields that were asked for; of several, those that were asked for."""
    told: dict[str, str] = {}
    for demand in filters:
        value = metadata.get(demand.field)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if demand.op in POSITIVE:
            wanted = {str(each) for each in demand.values}
            values = [each for each in values if str(each) in wanted] or values
        if values:
            shown = ", ".join(str(each).lower() if isinstance(each, bool) else str(each) for each in values)
            told[demand.field] = f"{demand.field.replace('_', ' ')} {one_line(without_marks(shown), MAX_LABEL)}"
    return list(told.values())
