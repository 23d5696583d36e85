"""Where in a document a reader finds the answer: the chunk, and in it the lines, that hold most of what is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hive_agents.copilot.asking import Weights, stemmed_words, tells
from hive_agents.copilot.prose import ProseSentence, read
from hive_agents.retrieval import BM25Params, ScopedIndex

LENGTH, BESIDE = 360, 240
"""Characters of a document's best passage as it is shown, and of the next best, from anywhere in the document."""
CHUNKS = 3
"""Chunks of a document that are read for its best passage, the first by both lanes."""
BY_HEADING, BY_KIND, BY_MEANING = 0.6, 0.3, 0.3
"""What counts beside the words in the lines: words in the chunk's headings alone, that a person, a time or a number
which is asked for is named, and the cosine of the chunk."""
OF_TITLE = 0.3
"""What a word of the question counts that stands in the document's title: it tells no passage from another."""
_RRF = 60
_CONSIDERED = 200


@dataclass(frozen=True)
class Window:
    """Lines of a text in a row, by their places; `score` is the share of the question's words that they hold, from 0
    to 1, and more where they name what it asks for."""

    text: str = ""
    score: float = 0.0
    lines: range = range(0)


def best_chunks(
    index: ScopedIndex, doc_id: str, question: str, weights: Weights, *, by_meaning: bool
) -> tuple[int, int | None]:
    """Return the chunk of a document whose best lines hold most of what is asked, and that of the next best lines.

    It is the same one where both stand in it, and None where no other lines hold anything. The search is right about
    the document more often than about the chunk. `by_meaning` says that the question can be embedded.
    """
    chunks = index.chunks_of(doc_id)
    lanes = [index.keyword_scores(question, chunks, BM25Params())]
    if by_meaning and index.embedding_model is not None:
        lanes.append(index.vector_scores(question, chunks))
    ranks = [np.argsort(np.argsort(-lane, kind="stable"), kind="stable") for lane in lanes]
    places = np.argsort(-sum(1 / (_RRF + rank) for rank in ranks), kind="stable")[:CHUNKS].tolist()
    meaning = [BY_MEANING * float(lanes[1][place]) if len(lanes) > 1 else 0.0 for place in places]
    rows = index.rows(chunks[places].tolist())
    inside = weights_within(weights, rows[0].title, index.language)
    found = [window(row.text, question, inside, index.language, heading=row.heading) for row in rows]
    best = max(range(len(rows)), key=lambda n: found[n].score + meaning[n])
    others = [
        window(
            row.text,
            question,
            inside,
            index.language,
            BESIDE,
            heading=row.heading,
            apart_from=found[best].lines if n == best else range(0),
        )
        for n, row in enumerate(rows)
    ]
    beside = max(range(len(rows)), key=lambda n: (others[n].score > 0, others[n].score + meaning[n]))
    return int(chunks[places[best]]), int(chunks[places[beside]]) if others[beside].score > 0 else None


def weights_within(weights: Weights, title: str, language: str) -> Weights:
    """Return the weights of the question's words inside a document."""
    of_title = _terms(title, frozenset(weights), language)
    return {term: weight * (OF_TITLE if term in of_title else 1.0) for term, weight in weights.items()}


def window(
    text: str,
    question: str,
    weights: Weights,
    language: str,
    length: int = LENGTH,
    *,
    heading: str = "",
    apart_from: range = range(0),
) -> Window:
    """Return the lines in a row, of at most `length` characters, that hold most of the question; the first of equals.

    Lines of code are among them only where they hold words that no sentence beside them does. None of them is one of
    `apart_from`.
    """
    wanted, total = frozenset(weights), sum(weights.values()) or 1.0
    above = _terms(heading, wanted, language)
    found = read(text)
    if len(found) > 1 and found[0].kind == "heading":
        found = found[1:]  # it is shown as the section's name
    lines = [(_piece(line, wanted, language, length), line) for line in found]
    held = [_terms(piece, wanted, language) for piece, _ in lines]
    best = Window()
    best_key = (-1.0, False)
    for first in range(len(lines)):
        if first in apart_from:
            continue
        until = apart_from.start if first < apart_from.start else len(lines)
        shown, words, last = _extended(lines[first:until], held[first:until], length)
        share = sum(weights[term] * (1.0 if term in words else BY_HEADING * (term in above)) for term in wanted)
        score = share / total + BY_KIND * bool(tells(question, shown))
        # Lines that begin with a match show at once why they were found.
        key = (round(score, 9), bool(held[first]))
        if key > best_key:
            best, best_key = Window(shown, score, range(first, first + last + 1)), key
    return best


def _extended(
    lines: Sequence[tuple[str, ProseSentence]], held: Sequence[frozenset[str]], length: int
) -> tuple[str, frozenset[str], int]:
    """Return the first line with those behind it that fit, the asked words in them, and the place of the last."""
    shown, words, last = lines[0][0], held[0], 0
    written = lines[0][1].is_written
    for place, ((piece, line), more) in enumerate(zip(lines[1:], held[1:], strict=True), start=1):
        if written and line.kind in ("code", "log") and more <= words:
            continue
        if len(shown) + 1 + len(piece) > length:
            break
        shown, words, last = f"{shown} {piece}", words | more, place
    return shown, words, last


def _terms(text: str, wanted: frozenset[str], language: str) -> frozenset[str]:
    return frozenset(term for _, _, stems in stemmed_words(text, language) for term in stems if term in wanted)


def _piece(line: ProseSentence, wanted: frozenset[str], language: str, length: int) -> str:
    """Return a line, or of one too long to show the part that holds most of the wanted words, cut between words."""
    text = line.text
    if len(text) <= length:
        return text
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
