"""What is shown of a result: the chunk and in it the lines that hold most of what is asked, marked, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from hive_agents.copilot.asking import FieldWeights, content_terms, equal_weights, stemmed_words, stems_in, tells
from hive_agents.copilot.plan import POSITIVE, DocumentFilter
from hive_agents.copilot.prose import BlockKind, read, without_marks
from hive_agents.retrieval import DEFAULT_LANGUAGE, LENGTH, BM25Params, ChunkRow, ScopedIndex, excerpt, section_of
from hive_agents.text import one_line

PASSAGE, BESIDE = 360, 240
"""Characters of a document's best passage as it is shown, and of the next best, from anywhere in the document."""
CHUNKS = 3
"""Chunks of a document that are read for its best passage, the first by both lanes."""
BY_HEADING, BY_KIND, BY_MEANING = 0.6, 0.3, 0.3
"""What counts beside the words in the lines: words in the chunk's headings alone, that a person, a time or a number
which is asked for is named, and the cosine of the chunk."""
BY_BOILERPLATE = 0.2
"""How much more of the question lines must hold that many documents have, to be shown instead of the chunk's own."""
OF_TITLE = 0.3
"""What a word of the question counts that stands in the document's title: it tells no passage from another."""
_RRF = 60
_CONSIDERED = 200


@dataclass(frozen=True)
class Window:
    """Lines of a text in a row, by their places; `score` is the share of the question's words that they hold, from 0
    to 1, and more where they name what it asks for. `section` is that of most of these words."""

    text: str = ""
    score: float = 0.0
    lines: range = range(0)
    section: str = ""


def best_chunks(
    index: ScopedIndex, doc_ids: Sequence[str], question: str, weights: FieldWeights, *, by_meaning: bool
) -> list[tuple[int, int | None]]:
    """Return, for each document, the chunk whose best lines hold most of what is asked, and that of the next best.

    It is the same one where both stand in it, and None where no other lines hold anything. The search is right about
    the document more often than about the chunk. `by_meaning` says that the question can be embedded.
    """
    of_documents = [index.chunks_of(doc_id) for doc_id in doc_ids]
    every = np.concatenate(of_documents)
    scores = [index.keyword_scores(question, every, BM25Params())]
    if by_meaning and index.embedding_model is not None:
        scores.append(index.vector_scores(question, every))
    ends = np.cumsum([len(chunks) for chunks in of_documents])[:-1]
    found = []
    for chunks, *lanes in zip(of_documents, *(np.split(lane, ends) for lane in scores), strict=True):
        ranks = [np.argsort(np.argsort(-lane, kind="stable"), kind="stable") for lane in lanes]
        places = np.argsort(-sum(1 / (_RRF + rank) for rank in ranks), kind="stable")[:CHUNKS].tolist()
        meaning = [BY_MEANING * float(lanes[1][place]) if len(lanes) > 1 else 0.0 for place in places]
        found.append((chunks[places].tolist(), meaning))
    rows = iter(index.rows([number for numbers, _ in found for number in numbers]))
    return [
        _best_of(numbers, [next(rows) for _ in numbers], meaning, question, weights, index.language)
        for numbers, meaning in found
    ]


def _best_of(
    numbers: Sequence[int],
    rows: Sequence[ChunkRow],
    meaning: Sequence[float],
    question: str,
    weights: FieldWeights,
    language: str,
) -> tuple[int, int | None]:
    """Return the chunk with the best lines, and that of the next best, of chunks of one document."""
    inside = weights_within(weights, rows[0].title, language)
    texts = [telling_text(row, question, inside, language) for row in rows]
    found = [
        window(text, question, inside, language, heading=row.heading) for row, text in zip(rows, texts, strict=True)
    ]
    order = sorted(range(len(rows)), key=lambda n: found[n].score + meaning[n], reverse=True)
    best = order[0]
    beside, most = None, -math.inf
    for n in order:
        if found[n].score + meaning[n] < most:
            break  # a shorter passage holds no more, but for the rare line that is cut elsewhere
        apart = found[best].lines if n == best else range(0)
        other = window(texts[n], question, inside, language, BESIDE, heading=rows[n].heading, apart_from=apart)
        if other.score > 0 and other.score + meaning[n] > most:
            beside, most = n, other.score + meaning[n]
    return numbers[best], None if beside is None else numbers[beside]


def telling_text(row: ChunkRow, question: str, weights: FieldWeights, language: str) -> str:
    """Return a chunk's text without boilerplate, unless that holds clearly more of the question."""
    if row.own is None:
        return row.text
    own = window(row.own, question, weights, language, heading=row.heading)
    whole = window(row.text, question, weights, language, heading=row.heading)
    return row.own if own.text and own.score + BY_BOILERPLATE >= whole.score else row.text


def weights_within(weights: FieldWeights, title: str, language: str) -> FieldWeights:
    """Return the weights of the question's words inside a document."""
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
    """Return the lines in a row, of at most `length` characters, that hold most of the question; the first of equals.

    Lines of code are among them only where they hold words that no sentence beside them does. None of them is one of
    `apart_from`.
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
    """Return the same; a turn asks for it where it looks for the best passage, and again where it shows it."""
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
            held = sum(asked[term] * (1.0 if term in words else BY_HEADING * (term in above)) for term in wanted)
            scores[words, named] = held / total + BY_KIND * named
        # Lines that begin with a match show at once why they were found.
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
        """Return the part of a line too long to show that holds most of the wanted words."""
        piece = _piece(self.text, wanted, language, length)
        return replace(self, text=piece, words=_terms(piece, wanted, language))


@lru_cache(maxsize=256)
def _lines(text: str, wanted: frozenset[str], language: str) -> Sequence[_Line]:
    found = read(text)
    if len(found) > 1 and found[0].kind == "heading":
        found = found[1:]  # it is shown as the section's name
    return tuple(
        _Line(line.text, _terms(line.text, wanted, language), line.kind, line.is_written, line.line) for line in found
    )


def _extended(lines: Sequence[_Line], within: range, length: int) -> tuple[Sequence[int], frozenset[str]]:
    """Return the places of the first line and of those behind it that fit, and the asked words in them."""
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
    """Return of a line too long to show the part that holds most of the wanted words, cut between words."""
    room = length - 2
    found = [(start, end, stems) for start, end, stems in stemmed_words(text, language) if wanted.intersection(stems)]
    found = found[:_CONSIDERED]

    def words(begin: int) -> int:
        inside = [stems for start, end, stems in found if begin <= start and end <= begin + room]
        return len(wanted.intersection(*[[term for stems in inside for term in stems]]))

    begin = max((0, *(start for start, _, _ in found)), key=words)
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
    found = []
    for start, end, stems in stemmed_words(text, language):
        if not wanted.isdisjoint(stems):
            found.append((start, end, next(term for term in stems if term in wanted)))
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


def passage_section(row: ChunkRow, query: str, weights: FieldWeights, language: str) -> str:
    """Return the section of a chunk that its best passage stands in."""
    inside = weights_within(weights, row.title, language)
    text = telling_text(row, query, inside, language)
    return window(text, query, inside, language, heading=row.heading).section or row.heading


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
    section: str | None = None,
    by_meaning: bool = False,
) -> str:
    """Return why the row is shown; the query is "" where it was matched by filter alone.

    `section` is that of the passage that is shown, the chunk's own where it is None. `by_meaning` says that its meaning
    was compared with the question's: without that, nothing is claimed of it. It depends on the question and this
    document and nothing else: no rank, no count.

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
