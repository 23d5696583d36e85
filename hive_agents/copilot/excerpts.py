"""Excerpts of results: the lines with most of the question's words, marked, and the reason why it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from hive_agents.base import one_line
from hive_agents.copilot.asking import FieldWeights, content_terms, equal_weights, stemmed_words, stems_in, tells
from hive_agents.copilot.plan import POSITIVE, DocumentFilter
from hive_agents.copilot.prose import BlockKind, read, without_marks
from hive_agents.documents import DEFAULT_LANGUAGE, section_of
from hive_agents.index import BM25Params, ChunkRow, ScopedIndex
from hive_agents.ranking import LENGTH, excerpt

PASSAGE, BESIDE = 360, 240
"""The most characters that are shown of a document's best passage, and of the next best."""
CHUNKS = 3
"""How many chunks of a document, the best by RRF of both lanes, are searched for its best passage."""
BY_HEADING, BY_KIND, BY_MEANING = 0.6, 0.3, 0.3
"""The weights of words that are only in the chunk's headings, of naming the person, time or number that is asked for,
and of the chunk's cosine."""
BY_BOILERPLATE = 0.2
"""By how much the score with boilerplate must exceed that without, for boilerplate to be shown."""
OF_TITLE = 0.3
"""The factor on words that are in the document's title: they don't tell one passage from another."""
_RRF = 60
_CONSIDERED = 200


@dataclass(frozen=True)
class Window:
    """Consecutive lines of a text, by number; `section` is that of most of the question's words in them.

    `score` is the share of the question's words in them, from 0 to 1, plus `BY_KIND` where they name what it asks for.
    """

    text: str = ""
    score: float = 0.0
    lines: range = range(0)
    section: str = ""


def best_chunks(
    index: ScopedIndex, doc_ids: Sequence[str], question: str, weights: FieldWeights, *, by_meaning: bool
) -> list[tuple[int, int | None]]:
    """Return, for each document, the chunk with the best lines, and that of the next best.

    Both may be the same chunk; the second is None where no other lines match. The search is right about the document
    more often than about the chunk. `by_meaning` tells whether the question can be embedded.
    """
    of_documents = [index.chunks_of(doc_id) for doc_id in doc_ids]
    every = np.concatenate(of_documents)
    scores = [index.keyword_scores(question, every, BM25Params())]
    if by_meaning and index.embedding_model is not None:
        scores.append(index.vector_scores(question, every))
    ends = np.cumsum([len(chunks) for chunks in of_documents])[:-1]
    shortlists = []
    for chunks, *lanes in zip(of_documents, *(np.split(lane, ends) for lane in scores), strict=True):
        ranks = [np.argsort(np.argsort(-lane, kind="stable"), kind="stable") for lane in lanes]
        places = np.argsort(-sum(1 / (_RRF + rank) for rank in ranks), kind="stable")[:CHUNKS].tolist()
        meaning = [BY_MEANING * float(lanes[1][place]) if len(lanes) > 1 else 0.0 for place in places]
        shortlists.append((chunks[places].tolist(), meaning))
    rows = iter(index.rows([number for numbers, _ in shortlists for number in numbers]))
    return [
        _best_of(numbers, [next(rows) for _ in numbers], meaning, question, weights, index.language)
        for numbers, meaning in shortlists
    ]


def _best_of(
    numbers: Sequence[int],
    rows: Sequence[ChunkRow],
    meaning: Sequence[float],
    question: str,
    weights: FieldWeights,
    language: str,
) -> tuple[int, int | None]:
    """Return the chunk with the best lines and that of the next best, among chunks of one document."""
    inside = weights_within(weights, rows[0].title, language)
    texts = [telling_text(row, question, inside, language) for row in rows]
    windows = [
        window(text, question, inside, language, heading=row.heading) for row, text in zip(rows, texts, strict=True)
    ]
    order = sorted(range(len(rows)), key=lambda n: windows[n].score + meaning[n], reverse=True)
    best = order[0]
    beside, most = None, -math.inf
    for n in order:
        if windows[n].score + meaning[n] < most:
            break  # a shorter passage scores no higher, except for the rare line that is cut elsewhere
        apart = windows[best].lines if n == best else range(0)
        other = window(texts[n], question, inside, language, BESIDE, heading=rows[n].heading, apart_from=apart)
        if other.score > 0 and other.score + meaning[n] > most:
            beside, most = n, other.score + meaning[n]
    return numbers[best], None if beside is None else numbers[beside]


def telling_text(row: ChunkRow, question: str, weights: FieldWeights, language: str) -> str:
    """Return a chunk's text without boilerplate, unless the boilerplate matches clearly more of the question."""
    if row.own is None:
        return row.text
    own = window(row.own, question, weights, language, heading=row.heading)
    whole = window(row.text, question, weights, language, heading=row.heading)
    return row.own if own.text and own.score + BY_BOILERPLATE >= whole.score else row.text


def weights_within(weights: FieldWeights, title: str, language: str) -> FieldWeights:
    """Return the weights of the question's words inside a document: those in its title count less."""
    of_title = _terms(title, frozenset(weights), language)
    return {term: weight * (OF_TITLE if term in of_title else 1.0) for term, weight in weights.items()}


def window(
    text: str,
    question: str,
    weights: FieldWeights,
    language: str,
    length: int = PASSAGE,
    *,
    heading: str = "",
    apart_from: range = range(0),
) -> Window:
    """Return the consecutive lines, of at most `length` characters, with most of the question; the first of equals.

    Lines of code are skipped unless they add words to the sentences beside them; lines in `apart_from` always are.
    """
    return _window(text, question, tuple(weights.items()), language, length, heading, apart_from)


@lru_cache(maxsize=256)
def _window(
    text: str,
    question: str,
    weights: tuple[tuple[str, float], ...],
    language: str,
    length: int,
    heading: str,
    apart_from: range,
) -> Window:
    # Cached: a turn calls it when it looks for the best passage, and again when it shows it.
    asked = dict(weights)
    wanted, total = frozenset(asked), sum(asked.values()) or 1.0
    above = _terms(heading, wanted, language)
    lines = [
        line if len(line.text) <= length else line.cut(wanted, language, length)
        for line in _lines(text, wanted, language)
    ]
    naming = {place for place, line in enumerate(lines) if tells(question, line.text)}
    scores: dict[tuple[frozenset[str], bool], float] = {}
    best: tuple[float, bool] = (-1.0, False)
    shown: Sequence[int] = ()
    score = 0.0
    for first, line in enumerate(lines):
        if first in apart_from:
            continue
        until = apart_from.start if first < apart_from.start else len(lines)
        places, words = _extended(lines, range(first, until), length)
        named = not naming.isdisjoint(places)
        if (words, named) not in scores:
            matched = sum(asked[term] * (1.0 if term in words else BY_HEADING * (term in above)) for term in wanted)
            scores[words, named] = matched / total + BY_KIND * named
        # Of equals, windows that begin with a match.
        key = (round(scores[words, named], 9), bool(line.words))
        if key > best:
            best, shown, score = key, places, scores[words, named]
    if not shown:
        return Window()
    asked_in: dict[str, float] = {}
    for place in shown:
        section = section_of(heading, text, lines[place].line)
        asked_in[section] = asked_in.get(section, 0.0) + sum(asked[term] for term in lines[place].words)
    section = max(asked_in, key=lambda each: asked_in[each])
    return Window(" ".join(lines[place].text for place in shown), score, range(shown[0], shown[-1] + 1), section)


@dataclass(frozen=True)
class _Line:
    """A line as it would be shown, and the wanted words in it."""

    text: str
    words: frozenset[str]
    kind: BlockKind
    is_written: bool
    line: int

    def cut(self, wanted: frozenset[str], language: str, length: int) -> _Line:
        """Return a line that is too long cut to the part with most of the wanted words."""
        piece = _piece(self.text, wanted, language, length)
        return replace(self, text=piece, words=_terms(piece, wanted, language))


@lru_cache(maxsize=256)
def _lines(text: str, wanted: frozenset[str], language: str) -> Sequence[_Line]:
    lines = read(text)
    if len(lines) > 1 and lines[0].kind == "heading":
        lines = lines[1:]  # it is shown as the section's name
    return tuple(
        _Line(line.text, _terms(line.text, wanted, language), line.kind, line.is_written, line.line) for line in lines
    )


def _extended(lines: Sequence[_Line], within: range, length: int) -> tuple[Sequence[int], frozenset[str]]:
    """Return the numbers of the first line and of those after it that fit, and the wanted words in them."""
    first = lines[within.start]
    places, words, size = [within.start], first.words, len(first.text)
    for place in within[1:]:
        line = lines[place]
        if first.is_written and line.kind in ("code", "log") and line.words <= words:
            continue
        size += 1 + len(line.text)
        if size > length:
            break
        places.append(place)
        words |= line.words
    return places, words


def _terms(text: str, wanted: frozenset[str], language: str) -> frozenset[str]:
    return wanted & stems_in(text, language)


def _piece(text: str, wanted: frozenset[str], language: str, length: int) -> str:
    """Return the part of a long line, at most `length` characters, with most of the wanted words."""
    room = length - 2
    matches = [(start, end, stems) for start, end, stems in stemmed_words(text, language) if wanted.intersection(stems)]
    matches = matches[:_CONSIDERED]

    def words(begin: int) -> int:
        inside = [stems for start, end, stems in matches if begin <= start and end <= begin + room]
        return len(wanted.intersection(term for stems in inside for term in stems))

    begin = max((0, *(start for start, _, _ in matches)), key=words)
    piece = text[begin : begin + room]
    if begin + room < len(text):
        piece = piece.rsplit(" ", 1)[0] + "…"
    return ("…" if begin else "") + piece


OPEN, CLOSE = "<mark>", "</mark>"
MAX_LABEL = 80
MAX_PHRASES = 2


def spans(text: str, wanted: frozenset[str], language: str) -> list[tuple[int, int, str]]:
    """Return (start, end, term) of each word in `text` whose stem is wanted, in order.

    >>> spans("Rotated keys", frozenset({"key"}), "english")
    [(8, 12, 'key')]
    """
    return [
        (start, end, next(term for term in stems if term in wanted))
        for start, end, stems in stemmed_words(text, language)
        if not wanted.isdisjoint(stems)
    ]


def marked_excerpt(
    text: str,
    query: str,
    language: str = DEFAULT_LANGUAGE,
    length: int = LENGTH,
    *,
    weights: FieldWeights | None = None,
) -> str:
    """Return at most `length` characters of `text`, not counting marks, in whole sentences where they fit.

    `weights` are those of the query's words; without them each counts the same. `<mark>` and `</mark>` are the only
    markup, in pairs, around words of the query in any form; the text's own are removed. A page has to escape all else.

    >>> marked_excerpt("Keys expire. **Rotating** a key takes a minute.", "rotate keys")
    '<mark>Keys</mark> expire. <mark>Rotating</mark> a <mark>key</mark> takes a minute.'
    """
    weights = equal_weights(query, language) if weights is None else weights
    shown = window(text, query, weights, language, length).text or excerpt(text, query, length, language=language)
    return _marked(shown, query, language)


def passage_section(row: ChunkRow, query: str, weights: FieldWeights, language: str) -> str:
    """Return the section of a chunk that its best passage is in."""
    inside = weights_within(weights, row.title, language)
    text = telling_text(row, query, inside, language)
    return window(text, query, inside, language, heading=row.heading).section or row.heading


def marked_passages(row: ChunkRow, beside: ChunkRow | None, query: str, weights: FieldWeights, language: str) -> str:
    """Return the best passage of a chunk, marked, and after "…" the next best, from the chunk `beside`."""
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
    section: str | None = None,
    by_meaning: bool = False,
) -> str:
    """Return why the row is shown; the query is "" where it was matched by filter alone.

    `section` is that of the passage that is shown, the chunk's own where it is None. `by_meaning` tells whether the
    row's embedding was compared with the question's. The result depends only on the question and this document, on no
    rank and no count.

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
    path = row.heading if section is None else section
    written = [each for each in read(row.text) if each.is_written]
    texts = [each.text for each in written if section in (None, section_of(row.heading, row.text, each.line))]
    phrases = _phrases(texts or [each.text for each in written] or [row.text], wanted, language)
    phrases = phrases or _phrases((f"{path} · {row.title}",), wanted, language)
    matched = " and ".join(f"'{phrase}'" for phrase in phrases)
    unmatched = "Close in meaning to the question:" if by_meaning else "Found in"
    where = _section(path, row.title)
    return "; ".join([f"Matches {matched} in {where}" if phrases else f"{unmatched} {where}", *fields])


def _phrases(texts: Sequence[str], wanted: frozenset[str], language: str) -> list[str]:
    """Return matched words as written, neighbours as one phrase; first the phrases with most of the wanted words."""
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


def _section(path: str, title: str) -> str:
    """Return `section 4.2` where the heading has a number, else its words, else the document's title."""
    heading = one_line(without_marks(path.rsplit(" > ", 1)[-1]), MAX_LABEL)
    number = heading.split(" ", 1)[0].rstrip(".:)").removeprefix("§")
    if number and all(part.isdecimal() for part in number.split(".")):
        return f"section {number}"
    if heading:
        return f'section "{heading}"'
    shown = one_line(without_marks(title), MAX_LABEL)
    return f'"{shown}"' if shown else "the text"


def _fields(filters: Sequence[DocumentFilter], metadata: Mapping[str, Any]) -> list[str]:
    """Return the document's values of the filtered fields; of a list, those that match."""
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
