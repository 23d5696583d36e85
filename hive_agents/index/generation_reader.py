"""Read access to one generation of the index: SQLite, a memory-mapped matrix and packed postings.

`SqliteIndex` adds ranking; copies for external engines are read from here, too.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import Busy, Diagnostic, HiveError
from hive_agents.documents import Collection, blocks, file_stamp, head_of, terms
from hive_agents.index.bm25 import BM25, BM25Params, Board
from hive_agents.index.boilerplate import Boilerplate, Lines, SharedLines
from hive_agents.index.generation import State, document_rows, find_generation, parts_of
from hive_agents.index.lanes import ChunkNumbers, ChunkRow
from hive_agents.index.postings import Postings, merged_postings, read_postings
from hive_agents.index.segments import Numbering
from hive_agents.index.vectors import VectorIndex, open_vectors
from hive_agents.models.embedding import Recent, providers
from hive_agents.store import database, database_errors, file_identity
from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class StoredChunk:
    """One chunk with its index terms: `words` those of `ancestors` and text, `title_words` those of the title.

    `ancestors` are the headings above its text. `vector` is None without an embedding model.
    """

    number: int
    chunk_id: str
    doc_id: str
    title: str
    ancestors: str
    text: str
    metadata: Mapping[str, Any]
    front_matter: Mapping[str, Any]
    words: tuple[str, ...]
    title_words: tuple[str, ...]
    vector: NDArray[np.float32] | None


def ancestors_of(path: list[str], own_words: int, words_of_path: int) -> list[str]:
    """Return the headings above a chunk's text: the whole path if all its words were indexed apart from the text's.

    >>> ancestors_of(["Guide", "Setup"], own_words=2, words_of_path=2), ancestors_of(["Guide", "Setup"], 1, 2)
    (['Guide', 'Setup'], ['Guide'])
    """
    return path if own_words == words_of_path else path[:-1]


_SCORERS = 6
_READ_AT_ONCE = 2000
_DIGITS = 10
"""Numbers below it sort as texts as they do as numbers."""
_NO_CHUNKS: NDArray[np.intp] = np.empty(0, np.intp)


class StaleIndex(Busy):
    """The generation was replaced since it was opened; the index has to be opened again."""

    def __init__(self) -> None:
        fix = "try again; a `SearchEngine` does so by itself"
        super().__init__([Diagnostic("HIVE-402", "the index was replaced while it was read", fix=fix)])


class GenerationReader:
    """One generation of one collection; safe to share between threads.

    Chunks are numbered in order of their ids, documents in that of `doc_ids()`.
    Raises: HIVE-406 when the collection was never indexed.
    """

    def __init__(self, workspace: Workspace, collection: Collection, state: State = "live") -> None:
        self.collection = collection
        self._workspace = workspace
        self._lock = threading.Lock()
        if not workspace.database.exists():
            raise self._never_indexed()
        self._connection = database.connect(workspace.database)
        self._file = file_identity(workspace.database)
        with database_errors(workspace.database):
            generation = find_generation(self._connection, collection.name, state)
        if generation is None:
            raise self._never_indexed()
        self.collection = generation.schema.declared_as(collection)
        self.language = generation.language
        self.embedding_model = generation.embedding_model
        self.index_hash = generation.index_hash
        self.n_chunks = generation.n_chunks
        self.n_documents = generation.n_documents
        self.recipe = generation.recipe
        self.created_at = generation.created_at
        self._generation = generation
        self.parts = parts_of(self._connection, generation)
        self._where = Numbering([part.chunks for part in self.parts])
        lengths, documents = np.empty(self.n_chunks, np.int32), np.empty(self.n_chunks, np.int32)
        for part in self.parts:
            sql = "SELECT lengths, chunk_documents FROM segments WHERE segment = ?"
            live = part.chunks >= 0
            there, of = (np.frombuffer(blob, np.int32) for blob in self._one(sql, (part.segment,)) or (b"", b""))
            if len(of) != len(part.chunks):
                raise StaleIndex
            lengths[part.chunks[live]] = there[live]
            documents[part.chunks[live]] = part.documents[of[live]]
        documents.flags.writeable = lengths.flags.writeable = False
        self.postings = _GenerationPostings(self, lengths)
        self.board = Board(len(lengths))
        self.chunk_documents: NDArray[np.int32] = documents
        self._scorers: Recent[BM25Params, BM25] = Recent(_SCORERS)

    def is_live(self) -> bool:
        """Return whether this is still the index that a new search would open."""
        if file_identity(self._workspace.database) != self._file:
            return False  # set aside and rebuilt
        return self._one("SELECT 1 FROM corpus_stats WHERE generation = ?", (self._generation.number,)) is not None

    def _never_indexed(self) -> HiveError:
        message = f'collection "{self.collection.name}" has no index yet'
        return HiveError.of("HIVE-406", message, file=".hive/hive.db", fix="run `hive index`", exit_code=3)

    def term_scores(self, words: Sequence[str], chunks: ChunkNumbers, params: BM25Params) -> NDArray[np.float32]:
        """Return `keyword_scores` for a query that is analyzed already."""
        scores: NDArray[np.float32] = self._scorer(params).scores(words, chunks)
        return scores

    def documents_of(self, chunks: ChunkNumbers) -> list[str]:
        return [self._doc_ids[number] for number in self.chunk_documents[chunks].tolist()]

    def chunk_ids(self, chunks: ChunkNumbers) -> list[str]:
        return [f"{self._doc_ids[self.chunk_documents[chunk]]}#{self._places[chunk]}" for chunk in chunks.tolist()]

    @cached_property
    def shared_lines(self) -> SharedLines:
        """The lines that documents share, regardless of permissions."""
        found, others, words = [], [], np.empty(self.n_chunks, np.int32)
        numbers = {part.segment: part.chunks for part in self.parts}
        for part in self.parts:
            sql = "SELECT shared_lines, shared_hashes, elsewhere FROM segments WHERE segment = ?"
            row = self._one(sql, (part.segment,))
            if row is None:
                raise StaleIndex
            lines = SharedLines.from_blob(row[0], len(part.chunks), row[1])
            if len(self.parts) == 1 and part.is_whole:
                return lines
            words[part.chunks[part.chunks >= 0]] = lines.chunk_words[part.chunks >= 0]
            found.append(lines.renumbered(part.chunks))
            if row[2]:
                n = len(row[2]) // 24
                there = Lines.from_blob(row[2][4 * n :])
                segments = np.frombuffer(row[2], np.int32, n)
                for segment in sorted(set(segments.tolist())):
                    to = numbers.get(segment or part.segment)
                    if to is not None:
                        some = there.at(segments == segment)
                        others.append(replace(some, chunks=to[some.chunks]).at(to[some.chunks] >= 0))
        return SharedLines.joined(found, Lines.joined([Lines.of([]), *others]), words)

    def rows_without(self, boilerplate: Boilerplate, chunks: Sequence[int]) -> list[ChunkRow]:
        """Return rows as `LaneIndex.rows` does, for a reader with this boilerplate. Raises: StaleIndex."""
        rows = {
            row[0]: ChunkRow(
                row[1],
                row[2],
                blocks.plain_heading(row[3]),
                " > ".join(map(blocks.plain_heading, json.loads(row[4]))),
                head + text,
                json.loads(row[6]),
                boilerplate.without(row[0], head + text),
                len(head),
            )
            for row in self._chunk_rows("c.chunk_id, d.doc_id, d.title, c.heading, c.text, d.metadata", chunks)
            for head, text in [head_of(row[5])]
        }
        if len(rows) != len(set(chunks)):
            raise StaleIndex
        return [rows[int(chunk)] for chunk in chunks]

    def _chunk_rows(self, columns: str, chunks: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the number and these columns of chunks `c` and of their documents `d`, in any order."""
        found = []
        wanted = np.asarray(chunks, np.intp)
        for position, places, local in self._where.located(wanted):
            marks = ",".join("?" * len(local))
            rows = self._all(
                f"SELECT c.chunk, {columns} FROM chunks c"
                " JOIN documents d ON d.generation = c.generation AND d.document = c.document"
                f" WHERE c.generation = ? AND c.chunk IN ({marks})",
                (self.parts[position].segment, *local.tolist()),
            )
            numbers = dict(zip(local.tolist(), wanted[places].tolist(), strict=True))
            found += [(numbers[row[0]], *row[1:]) for row in rows]
        return found

    def chunks_of(self, doc_id: str) -> ChunkNumbers:
        return self._chunks_by_document.get(doc_id, _NO_CHUNKS)

    @cached_property
    def _places(self) -> NDArray[np.int32]:
        """Each chunk's number in its document, shape `(n_chunks,)`: a document's ids sort its numbers as texts."""
        places = np.zeros(self.n_chunks, np.int32)
        for chunks in self._in_order:
            if len(chunks) > 1:
                numbers = range(len(chunks))
                places[chunks] = numbers if len(chunks) <= _DIGITS else sorted(numbers, key=str)
        return places

    @property
    def _in_order(self) -> list[ChunkNumbers]:
        """The chunks of each document, by number."""
        order = np.argsort(self.chunk_documents, kind="stable")
        return np.split(order, np.searchsorted(self.chunk_documents[order], np.arange(1, self.n_documents)))

    @cached_property
    def _chunks_by_document(self) -> Mapping[str, ChunkNumbers]:
        """The chunks of each document that has any, in the order of its text."""
        arrays = {}
        for doc_id, chunks in zip(self._doc_ids, self._in_order, strict=False):
            if len(chunks):
                arrays[doc_id] = chunks[np.argsort(self._places[chunks])]
                arrays[doc_id].flags.writeable = False  # shared by all callers
        return arrays

    def doc_ids(self) -> list[str]:
        return list(self._doc_ids)

    def documents(self) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Return (doc_id, title, metadata) of every document, by doc_id."""
        return list(self._documents)

    @cached_property
    def _documents(self) -> list[tuple[str, str, Mapping[str, Any]]]:
        rows = self._document_rows("doc_id, title, metadata")
        return [(doc_id, title, json.loads(metadata)) for doc_id, title, metadata in rows]

    def _document_rows(self, columns: str) -> list[Any]:
        with self._lock, database_errors(self._workspace.database):
            rows = document_rows(self._connection, self._generation, columns)
        if None in rows or not rows:
            self._require_live()
        return rows

    @cached_property
    def _front_matter(self) -> list[tuple[str, Mapping[str, Any]]]:
        rows = self._document_rows("doc_id, front_matter")
        return [(doc_id, json.loads(front_matter)) for doc_id, front_matter in rows]

    def front_matter(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return (doc_id, front matter of its file) of every document, in the order of `doc_ids()`; read once."""
        return list(self._front_matter)

    @cached_property
    def content_hashes(self) -> Mapping[str, str]:
        """The hash of each document's file, by doc_id."""
        return dict(self._document_rows("doc_id, content_hash"))

    def is_as_indexed(self, doc_id: str, status: os.stat_result) -> bool:
        """Return whether a document's file with this status surely has the content that is indexed."""
        return self._stamps.get(doc_id) == file_stamp(status)

    @cached_property
    def _stamps(self) -> Mapping[str, str]:
        stamps = self._all("SELECT doc_id, stamp, content_hash FROM file_stamps", ())
        return {doc_id: stamp for doc_id, stamp, digest in stamps if self.content_hashes.get(doc_id) == digest}

    def stored(self) -> Iterator[StoredChunk]:
        """Yield every chunk with all stored fields, in order of number."""
        names = dict(self._all("SELECT term_no, term FROM terms", ()))
        of_document = "d.doc_id, d.title, d.metadata, d.front_matter, d.title_tokens"
        for number, chunk_id, heading, text, tokens, doc_id, title, metadata, front, title_tokens in self._each(
            f"c.chunk_id, c.heading, c.text, c.tokens, {of_document}"
        ):
            path, text = json.loads(heading), "".join(head_of(text))
            words, of_title = (
                tuple(names[term] for term in np.frombuffer(blob, np.int32).tolist()) for blob in (tokens, title_tokens)
            )
            above = len(words) - len(terms(text, self.language))
            ancestors = ancestors_of(path, above, len(terms(" ".join(path), self.language)))
            vector = None if self.embedding_model is None else self.local_vectors.row(number)
            yield StoredChunk(
                number,
                chunk_id,
                doc_id,
                title,
                " ".join(ancestors),
                text,
                json.loads(metadata),
                json.loads(front),
                words,
                of_title,
                vector,
            )

    def index_terms(self, first: int = 0) -> Iterator[tuple[int, list[str]]]:
        """Yield the number and the index terms, title included, of each chunk from `first` on, in order of number."""
        names = dict(self._all("SELECT term_no, term FROM terms", ()))
        for number, *blobs in self._each("d.title_tokens, c.tokens", first):
            yield number, [names[term] for blob in blobs for term in np.frombuffer(blob, np.int32).tolist()]

    def _each(self, columns: str, first: int = 0) -> Iterator[tuple[Any, ...]]:
        """Yield the number and these columns of each chunk from `first` on, in order of number. Raises: StaleIndex."""
        for start in range(first, self.n_chunks, _READ_AT_ONCE):
            chunks = range(start, min(start + _READ_AT_ONCE, self.n_chunks))
            rows = sorted(self._chunk_rows(columns, chunks))
            if len(rows) != len(chunks):
                raise StaleIndex
            yield from rows

    @property
    def dimensions(self) -> int:
        """The vectors' dimensions. Raises: HIVE-401 without an embedding model."""
        return self.local_vectors.dimensions

    def field_rows(self, field: str, where: str, *arguments: Any) -> list[tuple[str, int]]:
        """Return (value, document number) of a field's values that meet the SQL condition `where`."""
        sql = f"SELECT value, document FROM field_values WHERE generation = ? AND field = ? AND {where}"
        found = []
        for part in self.parts:
            numbers = part.documents.tolist()
            rows = self._all(sql, (part.segment, field, *arguments))
            found += [(value, numbers[document]) for value, document in rows if numbers[document] >= 0]
        return sorted(found)

    def _scorer(self, params: BM25Params) -> BM25:
        return self._scorers.get(params, lambda: BM25(self.postings, params, board=self.board))

    @cached_property
    def _doc_ids(self) -> list[str]:
        return self._document_rows("doc_id")

    @cached_property
    def local_vectors(self) -> VectorIndex:
        """The vectors in `.hive/vectors`. Raises: HIVE-401 without a model, HIVE-406 where they are unusable."""
        if self.embedding_model is None:
            raise providers.no_model("the index was built without an embedding model")
        try:
            vectors = open_vectors(self._workspace, self.parts)
            self._require_live()
            return vectors
        except (OSError, EOFError, ValueError) as error:
            why = str(error)
        self._require_live()
        message = f"cannot use the vectors: {why}"
        raise HiveError.of("HIVE-406", message, file=".hive/vectors", fix="run `hive index`", exit_code=3)

    def _all(self, sql: str, arguments: Sequence[Any]) -> list[Any]:
        """Return rows of this generation. Raises: StaleIndex where some of them may be deleted by now."""
        with self._lock, database_errors(self._workspace.database):
            rows = self._connection.execute(sql, arguments).fetchall()
        self._require_live()
        return rows

    def _require_live(self) -> None:
        if not self.is_live():
            raise StaleIndex

    def _one(self, sql: str, arguments: Sequence[Any]) -> Any:
        with self._lock, database_errors(self._workspace.database):
            return self._connection.execute(sql, arguments).fetchone()

    def close(self) -> None:
        self._connection.close()


class _GenerationPostings:
    """The `PostingSource` of a generation."""

    def __init__(self, index: GenerationReader, lengths: NDArray[np.int32]) -> None:
        self._index = index
        self.n_docs = len(lengths)
        self.lengths = lengths

    def postings(self, term: str) -> Postings | None:
        index = self._index
        sql = (
            "SELECT t.df, p.data FROM term_stats t JOIN postings p ON p.posting = t.posting"
            " WHERE t.generation = ? AND t.term = ?"
        )
        found = []
        for part in index.parts:
            row = index._one(sql, (part.segment, term))
            if row is not None:
                stored = read_postings(*row)
                found.append(stored if len(index.parts) == 1 and part.is_whole else stored.renumbered(part.chunks))
        index._require_live()
        return merged_postings(found)
