"""Chunking of a Markdown document at its headings, with no chunk longer than the limit."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from pydantic import Field

from hive_agents.base.files import AnyCase, Format
from hive_agents.documents.analysis import heading_text
from hive_agents.documents.blocks import block_parser, is_heading

if TYPE_CHECKING:
    import numpy as np
    from markdown_it.token import Token
    from numpy.typing import NDArray

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？])")
_LINE_END = re.compile(r"\r\n|\n|\r")  # as markdown-it counts lines
_WORD_END = re.compile(r"[\s!-/:-@\[-`{-~、。，！？\u4e00-\u9fff]")
_A_WORD = re.compile(r"[^\W_]")
MOST_CHUNKS = 10_000
"""Chunks of a document: some 20 MB of prose. Each is embedded, however short it is, so that a small file of headings
would keep all others waiting."""
_PART = 50_000
_MOST_PIECES = 4  # of one character: the tokenizer splits a Hangul syllable into three letters


class Chunking(Format):
    """How a document is cut: at headings up to `heading_level`, never over `max_tokens` word pieces."""

    strategy: Annotated[Literal["by_heading"], AnyCase] = "by_heading"
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 512
    heading_level: Annotated[int, Field(ge=1, le=6)] = 2


@dataclass(frozen=True)
class Chunk:
    """A piece of a document; the chunks in order, joined, are the whole text.

    `heading_path` ends with the chunk's own heading; `ancestors` is without it. `head` is the two head lines of a
    table, where the chunk begins with one of its later rows: it is searched and shown before the text.
    """

    text: str
    heading_path: tuple[str, ...]
    ancestors: tuple[str, ...]
    head: str = ""

    @property
    def heading(self) -> str:
        return " > ".join(self.heading_path)

    @property
    def searched(self) -> str:
        return self.head + self.text

    @property
    def stored(self) -> str:
        """The text as an index stores it, with a mark between the head and the chunk's own text."""
        return self.searched if not self.head and _MARK not in self.text else f"{self.head}{_MARK}{self.text}"

    def embedded(self, title: str) -> str:
        """Return the text to embed: the document's title, the headings, then the chunk's text."""
        headings = [heading for heading in self.heading_path if heading != title]
        return "\n".join(filter(None, [title, " > ".join(headings), self.searched.strip()]))


_MARK = "\ufdd0"  # no character of any text


def head_of(stored: str) -> tuple[str, str]:
    """Return the head and the own text of a chunk as it is stored.

    >>> head_of(Chunk("| a | 1 |", (), (), head="| x | y |\\n|-|-|\\n").stored)
    ('| x | y |\\n|-|-|\\n', '| a | 1 |')
    """
    head, mark, text = stored.partition(_MARK)
    return (head, text) if mark else ("", stored)


class PieceOffsets(Protocol):
    """Where the word pieces of an embedding model are in a text, without special tokens and truncation."""

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each piece, in characters of `text`, ascending."""
        ...

    def piece_starts(self, text: str) -> NDArray[np.int64]:
        """Return the start of each piece's word, ascending; faster than offsets, for counts between words."""
        ...


def chunk_markdown(body: str, chunking: Chunking, pieces: PieceOffsets, *, heads: bool = True) -> list[Chunk]:
    """Return the chunks of a Markdown text; an empty body is one chunk, so that its title can be found.

    Of a text with more than `MOST_CHUNKS` these are the first, and one more, which tells so. With `heads` the later
    pieces of a table that is cut have its head.
    """
    if not body.strip():
        return [Chunk(body, (), ())]
    return list(islice(_Cutter(body, chunking, pieces, heads).chunks(), MOST_CHUNKS + 1))


def first_heading(body: str) -> str:
    """Return the text of the first top-level heading that has any; "" without one."""
    tokens = block_parser().parse(body)
    headings = (tokens[i + 1].content for i, token in enumerate(tokens) if is_heading(token))
    return next(filter(None, map(heading_text, headings)), "")


def naming_heading(body: str) -> tuple[str, str]:
    """Return the heading that names a text, one at its very top or its only one of the first level, since a later one
    names a part; and what `first_heading` returns. Each is "" without one.
    """
    tokens = block_parser().parse(body)
    texts = {at: heading_text(tokens[at + 1].content) for at, token in enumerate(tokens) if is_heading(token)}
    first = next(filter(None, texts.values()), "")
    first_level = [text for at, text in texts.items() if text and tokens[at].tag == "h1"]
    return texts.get(0) or (first_level[0] if len(first_level) == 1 else ""), first


@dataclass(frozen=True)
class _Block:
    start: int
    end: int
    kind: str
    heading: str = ""
    level: int = 0
    head: str = ""
    """Of a table, where this is a later piece of it."""


class _Cutter:
    def __init__(self, body: str, chunking: Chunking, pieces: PieceOffsets, heads: bool) -> None:
        self.body = body
        self.heads = heads
        self.head_pieces: dict[str, int] = {"": 0}
        self.limit = chunking.max_tokens
        self.heading_level = chunking.heading_level
        self.pieces = pieces
        self.fences: list[tuple[int, int]] = []
        self.piece_starts = _piece_starts(body, pieces)

    def chunks(self) -> Iterator[Chunk]:
        path: dict[int, str] = {}
        section: list[_Block] = []
        for block in self._blocks():
            if block.level and block.level <= self.heading_level and section:
                yield from self._section(section, path)
                section = []
            section.append(block)
        yield from self._section(section, path)

    def _section(self, blocks: list[_Block], path: dict[int, str]) -> Iterator[Chunk]:
        """Yield one chunk for a section that fits, else chunks cut at the coarsest boundary that makes them fit."""
        # The document's first section may begin with a deeper heading than a later one.
        is_nested = not any(0 < block.level < blocks[0].level for block in blocks)
        whole = is_nested and self._fits(blocks[0].start, blocks[-1].end)
        for group in [blocks] if whole else self._groups(blocks):
            first = group[0]
            if first.level:
                _descend(path, first)
            heading_path = tuple(path[level] for level in sorted(path))
            ancestors = heading_path[:-1] if first.level else heading_path
            for block in group[1:]:
                if block.level:
                    _descend(path, block)
            yield Chunk(self.body[first.start : group[-1].end], heading_path, ancestors, first.head)

    def _groups(self, blocks: list[_Block]) -> Iterator[list[_Block]]:
        """Yield runs of blocks that fit together; a block that is too long by itself is cut first.

        A run ends with the section of its first block, so that its heading path is right for all its text.
        """
        group: list[_Block] = []
        within = reached = 0  # a heading up to this level ends the run; the level of the last heading so far
        for block in blocks:
            pieces = [block] if self._fits(block.start, block.end) else self._with_words(list(self._cut(block)))
            for piece in pieces:
                if group and not self._fits(group[0].start, piece.end, group[0].head):
                    # Headings at the end of a run go with the text below them.
                    next_group: list[_Block] = []
                    follows = piece
                    while len(group) > 1 and _leads_to(group[-1], follows) and self._fits(group[-1].start, piece.end):
                        follows = group.pop()
                        next_group.insert(0, follows)
                    yield group
                    group, within = next_group, follows.level - 1
                elif group and 0 < piece.level <= within:
                    yield group
                    group = []
                reached = piece.level or reached
                if not group:
                    within = piece.level - 1 if piece.level else reached
                group.append(piece)
        if group:
            yield group

    def _cut(self, block: _Block) -> Iterator[_Block]:
        """Yield pieces of a block, cut at lines or a paragraph's sentences, else at words.

        Those of a table that begin with a later row of it have its head.
        """
        pattern = _SENTENCE_END if block.kind == "paragraph" else _LINE_END
        text = self.body[block.start : block.end]
        edges = [mark.end() for mark in pattern.finditer(text) if not self._in_fence(block.start + mark.end())]
        edges.append(len(text))
        headed = edges[1] if len(edges) > 2 and self._has_head(block, edges[1]) else len(text)
        head = ""
        start = end = 0
        for edge in edges:
            if edge == end:
                continue
            if self._fits(block.start + start, block.start + edge, head):
                end = edge
                continue
            if end > start and _A_WORD.search(text, start, end):
                yield self._piece(block, start, end, head)
                start, head = end, text[:headed] if end >= headed else ""
            if not self._fits(block.start + start, block.start + edge, head):
                head = ""  # a row longer than the room beside the head
            while not self._fits(block.start + start, block.start + edge):
                cut = self._word_edge(text[start:edge])
                yield self._piece(block, start, start + cut)
                start += cut
            end = edge
        if end > start:
            yield self._piece(block, start, end, head)

    def _has_head(self, block: _Block, end: int) -> bool:
        """Return whether a block is a table whose head, up to `end`, leaves room for as much again."""
        return (
            self.heads
            and block.kind == "table_open"
            and 2 * len(self._pieces(self.body[block.start : block.start + end])) <= self.limit
        )

    def _with_words(self, pieces: list[_Block]) -> list[_Block]:
        """Return the pieces of a block; a last one without words, such as the end of a fence, gets the line before."""
        if len(pieces) < 2 or _A_WORD.search(self.body, pieces[-1].start, pieces[-1].end):
            return pieces
        *rest, before, last = pieces
        edge = self.body.rfind("\n", before.start, before.end - 1) + 1
        if edge <= before.start or not self._fits(edge, last.end, last.head):
            return pieces
        return [*rest, replace(before, end=edge), _Block(edge, last.end, last.kind, head=last.head)]

    def _piece(self, block: _Block, start: int, end: int, head: str = "") -> _Block:
        heading = (block.heading, block.level) if start == 0 else ("", 0)
        return _Block(block.start + start, block.start + end, block.kind, *heading, head)

    def _word_edge(self, text: str) -> int:
        """Return the last place for a cut after at most `limit` word pieces: after a line, else a word, else any."""
        limit = self._pieces(text)[self.limit][0]
        for edge in (text.rfind("\n", 0, limit) + 1, text.rfind(" ", 0, limit) + 1):
            if _A_WORD.search(text, 0, edge):
                return edge
        return max(limit, 1)

    def _fits(self, start: int, end: int, head: str = "") -> bool:
        import numpy as np

        if head not in self.head_pieces:
            self.head_pieces[head] = len(self._pieces(head))
        limit = self.limit - self.head_pieces[head]
        if (end - start) * _MOST_PIECES <= limit:
            return True
        if self._between_words(start) and self._between_words(end):
            first, last = np.searchsorted(self.piece_starts, (start, end))
            return bool(last - first <= limit)
        return len(self._pieces(self.body[start:end])) <= limit

    def _between_words(self, position: int) -> bool:
        """Return whether a cut here changes no word piece of the text on either side."""
        around = self.body[max(position - 1, 0) : position + 1]
        return position in (0, len(self.body)) or _WORD_END.search(around) is not None

    def _pieces(self, text: str) -> list[tuple[int, int]]:
        """Return the word pieces of `text`, or of a prefix that has more than `limit`.

        An embedded image can be a line of a megabyte; to count all of its rest after each cut would take minutes. The
        prefix ends between words, so that its pieces are the text's.
        """
        for size in (2 * self.limit, 8 * self.limit, 32 * self.limit):
            ends = [end.end() for end in _WORD_END.finditer(text, 0, size)]
            if ends and size < len(text):
                pieces = self.pieces.token_offsets(text[: ends[-1]])
                if len(pieces) > self.limit:
                    return pieces
        return self.pieces.token_offsets(text)

    def _in_fence(self, position: int) -> bool:
        before = bisect.bisect_left(self.fences, (position, 0)) - 1
        return before >= 0 and self.fences[before][0] < position < self.fences[before][1]

    def _blocks(self) -> Iterator[_Block]:
        """Yield the top-level blocks of the Markdown, each with the white space after it."""
        lines = [0, *(end.end() for end in _LINE_END.finditer(self.body))]
        opened: list[tuple[int, Token, str]] = []
        tokens = block_parser().parse(self.body)
        code = [token.map for token in tokens if token.type in ("fence", "code_block") and token.map]
        spans = [(lines[first], lines[last] if last < len(lines) else len(self.body)) for first, last in code]
        self.fences = [span for span in spans if self._fits(*span)]
        for index, token in enumerate(tokens):
            if token.level == 0 and token.nesting >= 0 and token.map and token.type != "inline":
                content = tokens[index + 1].content if is_heading(token) else ""
                opened.append((lines[token.map[0]], token, content))
        if not opened:
            yield _Block(0, len(self.body), "paragraph")
            return
        starts = [0, *(start for start, _, _ in opened[1:])]
        ends = [*starts[1:], len(self.body)]
        for start, end, (_, token, content) in zip(starts, ends, opened, strict=True):
            if start == end:
                continue
            kind = "paragraph" if token.type == "paragraph_open" else token.type
            level = int(token.tag[1:]) if is_heading(token) else 0
            yield _Block(start, end, kind, heading_text(content), level)


def _piece_starts(body: str, pieces: PieceOffsets) -> NDArray[np.int64]:
    """Return the start of the word of each word piece; the text is tokenized in parts that end with a line."""
    import numpy as np

    starts: list[NDArray[np.int64]] = []
    begin = 0
    while begin < len(body):
        end = body.find("\n", begin + _PART) + 1 or len(body)
        starts.append(pieces.piece_starts(body[begin:end]) + begin)
        begin = end
    return np.concatenate(starts) if starts else np.zeros(0, np.int64)


def _leads_to(block: _Block, follows: _Block) -> bool:
    """Return whether a block is a heading, and what follows is its text or a heading of its level or below."""
    return block.level > 0 and (follows.level == 0 or block.level <= follows.level)


def _descend(path: dict[int, str], heading: _Block) -> None:
    """Put a heading on the path in place of those of its level and below."""
    for level in [level for level in path if level >= heading.level]:
        del path[level]
    path[heading.level] = heading.heading
