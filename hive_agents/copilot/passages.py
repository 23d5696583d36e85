"""Passages of results: windows of whole lines that hold the question's words, marked, and why a result is shown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from hive_agents.base import one_line
from hive_agents.copilot.asking import FieldWeights
from hive_agents.copilot.plan import POSITIVE, DocumentFilter
from hive_agents.copilot.prose import TextLine, read, without_marks
from hive_agents.documents import analysis, blocks, content, content_terms
from hive_agents.index import BM25Params, ChunkRow, ScopedIndex
from hive_agents.ranking import name_shares

WINDOWS = 3
"""How many windows of a document are shown."""
FOLDED, UNFOLDED = 400, 600
"""The most characters of a window, and of one that the reader asked more of."""
CHUNKS = 6
"""How many chunks of a document its windows are taken from."""
BY_HEADING = 0.6
"""What a word counts that is only in the chunk's headings or title."""
SHOWN_ALREADY = 0.5
"""What a word counts that another window shows."""
NAMED_ROW = 0.2
"""Added for a window that begins with a row which the question names: others may only mention it, in as many words."""
BETWEEN = " … "
"""What stands between the windows of an excerpt."""
OPEN, CLOSE = "<mark>", "</mark>"
MAX_LABEL = 80
MAX_PHRASES = 2
_CONSIDERED = 200
_CELL_END = " | "


@dataclass(frozen=True)
class NearChunk:
    """A chunk that windows may be taken from: its row, the cosine of its embedding, and the document's lines before."""

    row: ChunkRow
    cosine: float = 0.0
    before: int = 0


@dataclass(frozen=True)
class Window:
    """Consecutive lines of a chunk; `best` is the one of the document's windows that was chosen first.

    `from_line` and `to_line` are lines of the document's text, from 1.
    """

    row: ChunkRow
    text: str
    marked: str
    from_line: int
    to_line: int
    section: str
    best: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "from_line": self.from_line,
            "to_line": self.to_line,
            "marked": self.marked,
            "best": self.best,
        }


def best_chunks(
    index: ScopedIndex, doc_ids: Sequence[str], question: str, *, by_meaning: bool
) -> list[list[tuple[int, float]]]:
    """Return the best `CHUNKS` chunks of each document, each with its cosine, best first.

    A word that stands in one row of a long table has to count as much as what all of them are about: the share of the
    document's best keyword score is added to the cosine, and names of the question lift both. `by_meaning` tells
    whether the question can be embedded.
    """
    of_documents = [index.chunks_of(doc_id) for doc_id in doc_ids]
    every = np.concatenate(of_documents)
    words = index.keyword_scores(question, every, BM25Params())
    cosines = np.zeros(len(every))
    if by_meaning and index.embedding_model is not None:
        cosines = np.asarray(index.vector_scores(question, every), float)
    ends = np.cumsum([len(chunks) for chunks in of_documents])[:-1]
    best = []
    for chunks, by_words, near in zip(of_documents, np.split(words, ends), np.split(cosines, ends), strict=True):
        scores = (by_words / (by_words.max() or 1.0) + near) * (1 + name_shares(index, question, chunks))
        places = np.argsort(-scores, kind="stable")[:CHUNKS].tolist()
        best.append([(int(chunks[place]), round(float(near[place]), 4)) for place in places])
    return best


def windows(
    candidates: Sequence[NearChunk],
    question: str,
    weights: FieldWeights,
    language: str,
    *,
    length: int = FOLDED,
    most: int = WINDOWS,
) -> list[Window]:
    """Return the windows of one document, none over another, in the document's order.

    They are chosen one after the other by the share of the question's words in them plus the cosine of their chunk.
    Those that follow one another within a table become one.
    """
    texts = [_Text.of(one, weights, language, length) for one in candidates]
    taken: list[set[int]] = [set() for _ in texts]
    runs = [list(text.runs(set(), length)) for text in texts]
    shown: set[str] = set()
    chosen: list[tuple[int, range]] = []
    while len(chosen) < most:
        best: tuple[float, bool] = (-math.inf, False)
        found: tuple[int, range] | None = None
        for number, text in enumerate(texts):
            scores: dict[frozenset[str], float] = {}  # most runs share their words with others
            for places, words in runs[number]:
                if (score := scores.get(words)) is None:
                    score = scores[words] = text.score(words, shown, weights)
                opening = text.whole.get(places.start, places[:1])
                score += NAMED_ROW * (not text.names.isdisjoint(opening))
                # Of equals, windows that begin with a match.
                key = (round(score, 9), any(text.words[place] for place in opening))
                if key > best:
                    best, found = key, (number, places)
        if found is None:
            break
        chosen.append(found)
        number, places = found
        taken[number].update(places)
        runs[number] = list(texts[number].runs(taken[number], length))
        shown.update(*(texts[number].words[place] for place in places))
    joined: list[tuple[int, range]] = []
    for number, places in sorted(chosen, key=lambda one: (texts[one[0]].line_of(one[1].start), one[1].start)):
        before = joined[-1][1] if joined and joined[-1][0] == number else range(0)
        if texts[number].goes_on(before, places, length):
            joined[-1] = (number, range(before.start, places.stop))
        else:
            joined.append((number, places))
    first, begin = chosen[0] if chosen else (0, range(0))
    return [texts[number].window(places, question, language, best=number == first and begin.start in places)
            for number, places in joined]  # fmt: skip


@dataclass(frozen=True)
class _Text:
    """The lines of one chunk, and the wanted words in each."""

    candidate: NearChunk
    lines: Sequence[TextLine]
    words: Sequence[frozenset[str]]
    above: frozenset[str]
    names: frozenset[int]
    """The rows of a table that the question names."""
    whole: Mapping[int, range]
    """The rows of each table that fits into a window, by its first one."""

    @classmethod
    def of(cls, candidate: NearChunk, weights: FieldWeights, language: str, length: int) -> _Text:
        row, wanted = candidate.row, frozenset(weights)
        lines = read(row.text)
        if row.own is not None and wanted & content.stems_in(row.own, language) == wanted & content.stems_in(
            row.text, language
        ):
            own = {line.text for line in read(row.own)}
            lines = tuple(line for line in lines if line.text in own) or lines  # without boilerplate
        if len(lines) > 1 and lines[0].kind == "heading":
            lines = lines[1:]  # it is shown as the section's name
        named = {n for n, line in enumerate(lines) if _is_named(line, wanted, language)}
        cut = [_short_row(line, length) if n in named else _cut(line, wanted, language, length)
               for n, line in enumerate(lines)]  # fmt: skip
        words = [wanted & content.stems_in(line.text, language) for line in cut]
        above = wanted & content.stems_in(f"{row.title} {row.heading}", language)
        runs = ([*places] for table, places in groupby(range(len(cut)), lambda n: _table(cut[n])) if table is not None)
        sizes = ((rows, len(cut[rows[0]].head) + sum(len(cut[n].text) + 1 for n in rows)) for rows in runs)
        whole = {rows[0]: range(rows[0], rows[-1] + 1) for rows, size in sizes if size <= length}
        return cls(candidate, cut, words, above, frozenset(named), whole)

    def runs(self, taken: set[int], length: int) -> Iterator[tuple[range, frozenset[str]]]:
        """Yield from each line on as many lines as fit, with the wanted words in them.

        A table that fits is begun with its first row, and shown with its last one.
        """
        inside = {place for rows in self.whole.values() for place in rows[1:]}
        for first in range(len(self.lines)):
            if first in taken or first in inside:
                continue
            size, end, words = len(self.lines[first].head), first, frozenset[str]()
            while end < len(self.lines) and end not in taken:
                following = self.whole.get(end, range(end, end + 1))
                size += sum(len(self.lines[place].text) + 1 for place in following)
                if size > length + 1 and end > first:
                    break
                words = words.union(*(self.words[place] for place in following))
                end = following.stop
            yield range(first, end), words

    def line_of(self, place: int) -> int:
        return self.candidate.before + self.lines[place].first

    def goes_on(self, before: range, places: range, length: int) -> bool:
        """Return whether a window goes on with the table in which another one stops.

        A row that the question names stays at the top where both are longer than two windows.
        """
        table = _table(self.lines[places.start])
        if not before or before.stop != places.start or table is None or table != _table(self.lines[before[-1]]):
            return False
        size = sum(len(self.lines[place].text) + 1 for place in (*before, *places))
        return places.start not in self.names or size <= 2 * length

    def score(self, words: frozenset[str], shown: set[str], weights: FieldWeights) -> float:
        total = sum(weights.values()) or 1.0
        counted = sum(
            weight * (1.0 if term in words else BY_HEADING) * (SHOWN_ALREADY if term in shown else 1.0)
            for term, weight in weights.items()
            if term in words or term in self.above
        )
        return counted / total + self.candidate.cosine

    def window(self, places: range, question: str, language: str, *, best: bool) -> Window:
        lines = [self.lines[place] for place in places]
        text, head = "", ""
        for n, line in enumerate(lines):
            joined = n > 0 and line.kind == lines[n - 1].kind == "prose" and line.first == lines[n - 1].first
            text += " " if joined else "\n" if text else ""
            if line.head and line.head != head:
                text += f"{line.head}\n"
            head = line.head
            text += line.text
        row = self.candidate.row
        # The section of most of the question's words in it.
        telling = max(places, key=lambda place: len(self.words[place]), default=places.start)
        return Window(
            row,
            text,
            marked(text, question, language),
            self.line_of(places.start) + 1,
            self.candidate.before + lines[-1].last + 1,
            blocks.section_of(row.heading, row.text, self.lines[telling].first),
            best,
        )


def _table(line: TextLine) -> str | None:
    """Return the head of the table that a line is a row of; None for another line."""
    return line.head if line.kind == "table" else None


def _is_named(line: TextLine, wanted: frozenset[str], language: str) -> bool:
    """Return whether a line is a row of a table whose first cell has words of the question alone."""
    first = content.stems_in(line.text.partition(_CELL_END)[0], language) if line.kind == "table" else frozenset[str]()
    return bool(first) and first <= wanted


def _short_row(line: TextLine, length: int) -> TextLine:
    """Return a row that fits below its head, with the beginning of each cell."""
    cells = line.text.split(_CELL_END)
    room = max(length - len(line.head), length // 2) - len(_CELL_END) * (len(cells) - 1)
    shortest_first = sorted(range(len(cells)), key=lambda place: len(cells[place]))
    for done, place in enumerate(shortest_first):
        most = max(room // (len(cells) - done), 2)
        if len(cells[place]) > most:
            cells[place] = cells[place][: most - 1].rsplit(" ", 1)[0] + "…"
        room -= len(cells[place])
    return replace(line, text=_CELL_END.join(cells))


def _cut(line: TextLine, wanted: frozenset[str], language: str, length: int) -> TextLine:
    """Return a line, of one that is too long the part with most of the wanted words."""
    room = length - len(line.head)
    if len(line.text) <= room:
        return line
    text, room = line.text, max(room, length // 2) - 2
    matches = [
        (start, end, stems) for start, end, stems in content.stemmed_words(text, language) if wanted.intersection(stems)
    ]
    matches = matches[:_CONSIDERED]

    def words(begin: int) -> int:
        inside = [stems for start, end, stems in matches if begin <= start and end <= begin + room]
        return len(wanted.intersection(term for stems in inside for term in stems))

    begin = max((0, *(start for start, _, _ in matches)), key=words)
    piece = text[begin : begin + room]
    if begin + room < len(text):
        piece = piece.rsplit(" ", 1)[0] + "…"
    return TextLine(("…" if begin else "") + piece, line.kind, line.first, line.last, line.head)


def spans(text: str, wanted: frozenset[str], language: str) -> list[tuple[int, int, str]]:
    """Return (start, end, term) of each word in `text` whose stem is wanted, in order.

    >>> spans("Rotated keys", frozenset({"key"}), "english")
    [(8, 12, 'key')]
    """
    return [
        (start, end, next(term for term in stems if term in wanted))
        for start, end, stems in content.stemmed_words(text, language)
        if not wanted.isdisjoint(stems)
    ]


def marked(text: str, question: str, language: str = analysis.DEFAULT_LANGUAGE) -> str:
    """Return a text with `<mark>` and `</mark>` around the question's words in any form, and no other such marks.

    A page has to escape all else.

    >>> marked("Rotating a <mark>key</mark> takes a minute.", "rotate keys")
    '<mark>Rotating</mark> a <mark>key</mark> takes a minute.'
    """
    text, wanted = without_marks(text), frozenset(content_terms(question, language)) if question else frozenset()
    shown, done = "", 0
    for start, end, _ in spans(text, wanted, language):
        shown += f"{text[done:start]}{OPEN}{text[start:end]}{CLOSE}"
        done = end
    return shown + text[done:]


def reason(
    window: Window | None,
    row: ChunkRow,
    question: str,
    filters: Sequence[DocumentFilter] = (),
    language: str = analysis.DEFAULT_LANGUAGE,
    *,
    by_meaning: bool = False,
) -> str:
    """Return why a result is shown, by its best window; the question is "" where it was matched by filter alone.

    `by_meaning` tells whether the embedding was compared with the question's. The result depends only on the question
    and this document, on no rank and no count.
    """
    fields = _fields(filters, row.metadata)
    if not question.strip():
        listed = "Matched by filter" if filters else "Listed without a filter"
        return f"{listed}: {', '.join(fields)}" if fields else listed
    wanted = frozenset(content_terms(question, language))
    section = window.section if window is not None else row.heading
    phrases = _phrases((window.text,), wanted, language) if window is not None else []
    phrases = phrases or _phrases((f"{section} · {row.title}",), wanted, language)
    matched = " and ".join(f"'{phrase}'" for phrase in phrases)
    unmatched = "Close in meaning to the question:" if by_meaning else "Found in"
    where = _section(section, row.title)
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
