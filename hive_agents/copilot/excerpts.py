"""What is shown of a result: the passage that answers, its matched words marked, and one sentence that says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hive_agents.copilot.asking import FieldWeights, content_terms, equal_weights, stemmed_words
from hive_agents.copilot.passages import BESIDE, telling_text, weights_within, window
from hive_agents.copilot.plan import POSITIVE, DocumentFilter
from hive_agents.copilot.prose import sentences, without_marks
from hive_agents.retrieval import DEFAULT_LANGUAGE, LENGTH, ChunkRow, excerpt
from hive_agents.text import one_line

OPEN, CLOSE = "<mark>", "</mark>"
MAX_LABEL = 80
MAX_PHRASES = 2


def spans(text: str, wanted: frozenset[str], language: str) -> list[tuple[int, int, str]]:
    """Return (start, end, term) of each word in `text` whose stem is wanted, in order.

    >>> spans("Rotated keys", frozenset({"key"}), "english")
    [(8, 12, 'key')]
    """
    found = []
    for start, end, stems in stemmed_words(text, language):
        term = next((term for term in stems if term in wanted), None)
        if term is not None:
            found.append((start, end, term))
    return found


def marked_excerpt(
    text: str,
    query: str,
    language: str = DEFAULT_LANGUAGE,
    length: int = LENGTH,
    *,
    weights: FieldWeights | None = None,
) -> str:
    """Return at most `length` characters of `text` without the marks, whole sentences where they fit; "" for no text.

    `weights` are those of the query's words; without them each counts the same. `<mark>` and `</mark>` are the only
    markup, in pairs, around words of the query in any of their forms; a text's own are gone. All else is text that a
    page has to escape.

    >>> marked_excerpt("Keys expire. **Rotating** a key takes a minute.", "rotate keys")
    '<mark>Keys</mark> expire. <mark>Rotating</mark> a <mark>key</mark> takes a minute.'
    """
    known = equal_weights(query, language) if weights is None else weights
    shown = window(text, query, known, language, length).text or excerpt(text, query, length, language=language)
    return _marked(shown, query, language)


def marked_passages(row: ChunkRow, beside: ChunkRow | None, query: str, weights: FieldWeights, language: str) -> str:
    """Return the best passage of a chunk, marked, and behind "…" the next best, in `beside`."""
    inside = weights_within(weights, row.title, language)
    text = telling_text(row, query, inside, language)
    best = window(text, query, inside, language, heading=row.heading)
    if not best.text:
        return marked_excerpt(text, query, language, weights=inside)
    shown = [best.text]
    if beside is not None:
        apart = best.lines if beside.chunk_id == row.chunk_id else range(0)
        rest = telling_text(beside, query, inside, language)
        other = window(rest, query, inside, language, BESIDE, heading=beside.heading, apart_from=apart)
        shown += filter(None, [other.text])
    return " … ".join(_marked(each, query, language) for each in shown)


def _marked(text: str, query: str, language: str) -> str:
    text, wanted = without_marks(text), frozenset(content_terms(query, language))
    shown, done = "", 0
    for start, end, _ in spans(text, wanted, language):
        shown += f"{text[done:start]}{OPEN}{text[start:end]}{CLOSE}"
        done = end
    return shown + text[done:]


def reason(
    row: ChunkRow,
    query: str,
    filters: Sequence[DocumentFilter] = (),
    language: str = DEFAULT_LANGUAGE,
    *,
    by_meaning: bool = False,
) -> str:
    """Return why the row is shown; the query is "" where it was matched by filter alone.

    `by_meaning` says that its meaning was compared with the question's: without that, nothing is claimed of it. It
    depends on the question and this document and nothing else: no rank, no count.

    >>> text = "Every change needs cleaning validation. Records are kept."
    >>> row = ChunkRow("a.md#1", "a.md", "Cleaning", "Cleaning > 4.2 Scope", text, {"status": "effective"})
    >>> effective = [DocumentFilter(field="status", value="effective")]
    >>> reason(row, "what about cleaning validation", effective)
    "Matches 'cleaning validation' in section 4.2; status effective"
    >>> reason(row, "", effective)
    'Matched by filter: status effective'
    """
    fields = _fields(filters, row.metadata)
    if not query.strip():
        listed = "Matched by filter" if filters else "Listed without a filter"
        return f"{listed}: {', '.join(fields)}" if fields else listed
    wanted = frozenset(content_terms(query, language))
    phrases = _phrases(sentences(row.text) or (row.text,), wanted, language)
    phrases = phrases or _phrases((f"{row.heading} · {row.title}",), wanted, language)
    matched = " and ".join(f"'{phrase}'" for phrase in phrases)
    unmatched = "Close in meaning to the question:" if by_meaning else "Found in"
    found = f"Matches {matched} in {_section(row)}" if phrases else f"{unmatched} {_section(row)}"
    return "; ".join([found, *fields])


def _phrases(texts: Sequence[str], wanted: frozenset[str], language: str) -> list[str]:
    """Return matched words as they stand there, neighbours as one phrase: those that hold most of them first."""
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
    """Return `section 4.2` where the heading has a number, else its words, else the document's title."""
    heading = one_line(without_marks(row.heading.rsplit(" > ", 1)[-1]), MAX_LABEL)
    number = heading.split(" ", 1)[0].rstrip(".:)").removeprefix("§")
    if number and all(part.isdecimal() for part in number.split(".")):
        return f"section {number}"
    if heading:
        return f'section "{heading}"'
    title = one_line(without_marks(row.title), MAX_LABEL)
    return f'"{title}"' if title else "the text"


def _fields(filters: Sequence[DocumentFilter], metadata: Mapping[str, Any]) -> list[str]:
    """Return the document's values of the fields that were asked for; of several, those that were asked for."""
    shown: dict[str, str] = {}
    for demand in filters:
        value = metadata.get(demand.field)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if demand.op in POSITIVE:
            wanted = {str(each) for each in demand.values}
            values = [each for each in values if str(each) in wanted] or values
        if values:
            text = ", ".join(str(each).lower() if isinstance(each, bool) else str(each) for each in values)
            shown[demand.field] = f"{demand.field.replace('_', ' ')} {one_line(without_marks(text), MAX_LABEL)}"
    return list(shown.values())
