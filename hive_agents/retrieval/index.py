"""The embedded index: one generation of one collection, read from SQLite and a memory-mapped matrix."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.database import connect, database_errors
from hive_agents.errors import Diagnostic, HiveError, closest
from hive_agents.retrieval.analysis import terms
from hive_agents.retrieval.bm25 import BM25, BM25Params
from hive_agents.retrieval.collection import Collection
from hive_agents.retrieval.documents import iso_date, keyword_text
from hive_agents.retrieval.embedding import Embedder
from hive_agents.retrieval.filters import Condition, Scalar
from hive_agents.retrieval.generation import State, find_generation, stored_value, vectors_path
from hive_agents.retrieval.lanes import ChunkNumbers, ChunkRow, Lane, Mask
from hive_agents.retrieval.providers import no_model, open_embedder
from hive_agents.retrieval.vectors import VectorIndex
from hive_agents.workspace import Workspace

_SQL_BOUNDS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}
_SCORERS = 6
_QUERY_VECTORS = 10_000


class StaleIndex(HiveError):
    """The generation was replaced since it was opened: open the index again."""

    def __init__(self) -> None:
        fix = "try again; a `SearchEngine` does so by itself"
        super().__init__([Diagnostic("HIVE-402", "the index was replaced while it was read", fix=fix)])


class SqliteIndex:
    """A `LaneIndex` over `.hive/hive.db`; one object serves all threads.

    Raises: HIVE-406 when the collection was never indexed.
    """

    def __init__(self, workspace: Workspace, collection: Collection, state: State = "live") -> None:
        self.collection = collection
        self._workspace = workspace
        self._lock = threading.Lock()
        if not workspace.database.exists():
            raise self._never_indexed()
        self._connection = connect(workspace.database)
        self._file = _file_id(workspace.database)
        with database_errors(workspace.database):
            found = find_generation(self._connection, collection.name, state)
        if found is None:
            raise self._never_indexed()
        self.collection = found.schema
        self.language = found.language
        self.embedding_model = found.embedding_model
        self.index_hash = found.index_hash
        self.n_chunks = found.n_chunks
        self._generation = found.number
        lengths, chunk_documents = self._one(
            "SELECT lengths, chunk_documents FROM corpus_stats WHERE generation = ?", (found.number,)
        ) or (b"", b"")
        self._postings = _Postings(self, np.frombuffer(lengths, np.int32))
        self._chunk_documents = np.frombuffer(chunk_documents, np.int32)
        self._scorers: OrderedDict[BM25Params, BM25] = OrderedDict()
        self._masks: dict[tuple[tuple[str, Condition], ...], Mask] = {}
        self._query_vectors: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def is_live(self) -> bool:
        """Whether this is still the index that a new search would open."""
        if _file_id(self._workspace.database) != self._file:
            return False  # set aside and rebuilt
        return self._one("SELECT 1 FROM corpus_stats WHERE generation = ?", (self._generation,)) is not None

    def _never_indexed(self) -> HiveError:
        message = f'collection "{self.collection.name}" has no index yet'
        return HiveError.of("HIVE-406", message, file=".hive/hive.db", fix="run `hive index`", exit_code=3)

    def keyword(self, query: str, depth: int, params: BM25Params, mask: Mask | None) -> Lane:
        return Lane(*self._scorer(params).top(terms(query, self.language), depth, mask=mask))

    def keyword_scores(self, query: str, chunks: ChunkNumbers, params: BM25Params) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = self._scorer(params).scores(terms(query, self.language), chunks)
        return scores

    def vector(self, queries: Sequence[str], depth: int, mask: Mask | None) -> list[Lane]:
        if len(queries) == 1:
            return [Lane(*self._vectors.top(self._embed(queries)[0], depth, mask=mask))]
        return [Lane(*lane) for lane in self._vectors.top_many(self._embed(queries), depth, mask=mask)]

    def vector_scores(self, query: str, chunks: ChunkNumbers) -> NDArray[np.float32]:
        return self._vectors.scores(self._embed([query])[0], chunks)

    def select(self, conditions: Mapping[str, Condition]) -> Mask | None:
        if not conditions:
            return None
        key = tuple(sorted(conditions.items()))
        mask = self._masks.get(key)
        if mask is None:
            allowed = np.ones(len(self._doc_ids), np.bool_)
            for field, wanted in key:
                allowed &= self._documents_with(field, wanted)
            mask = self._masks[key] = allowed[self._chunk_documents]
        return mask

    def documents_of(self, chunks: ChunkNumbers) -> list[str]:
        return [self._doc_ids[number] for number in self._chunk_documents[chunks].tolist()]

    def document_numbers(self, chunks: NDArray[Any]) -> NDArray[np.int64]:
        """The place of each chunk's document in `doc_ids()`, in the shape of `chunks`."""
        numbers: NDArray[np.int64] = self._chunk_documents[chunks].astype(np.int64)
        return numbers

    def chunk_ids(self, chunks: ChunkNumbers) -> list[str]:
        return [self._chunk_ids[number] for number in chunks.tolist()]

    def rows(self, chunks: Sequence[int]) -> list[ChunkRow]:
        marks = ",".join("?" * len(chunks))
        found = {
            row[0]: ChunkRow(row[1], row[2], row[3], " > ".join(json.loads(row[4])), row[5], json.loads(row[6]))
            for row in self._all(
                "SELECT c.chunk, c.chunk_id, d.doc_id, d.title, c.heading, c.text, d.metadata FROM chunks c"
                " JOIN documents d ON d.generation = c.generation AND d.document = c.document"
                f" WHERE c.generation = ? AND c.chunk IN ({marks})",
                (self._generation, *map(int, chunks)),
            )
        }
        if len(found) != len(set(chunks)):
            raise StaleIndex
        return [found[int(chunk)] for chunk in chunks]

    def chunks_of(self, doc_id: str) -> ChunkNumbers:
        rows = self._all(
            "SELECT c.chunk FROM chunks c JOIN documents d ON d.generation = c.generation AND d.document = c.document"
            " WHERE c.generation = ? AND d.doc_id = ? ORDER BY c.n",
            (self._generation, doc_id),
        )
        return np.array([row[0] for row in rows], np.intp)

    def doc_ids(self) -> list[str]:
        return list(self._doc_ids)

    def documents(self) -> list[tuple[str, str, Mapping[str, Any]]]:
        """(doc_id, title, metadata) of every document, by doc_id."""
        rows = self._all(
            "SELECT doc_id, title, metadata FROM documents WHERE generation = ? ORDER BY document", (self._generation,)
        )
        return [(doc_id, title, json.loads(metadata)) for doc_id, title, metadata in rows]

    def values(self, field: str) -> list[tuple[str, int]]:
        rows = self._all(
            "SELECT value, count(*) FROM field_values WHERE generation = ? AND field = ? GROUP BY value ORDER BY value",
            (self._generation, field),
        )
        return [(value, count) for value, count in rows]

    def _documents_with(self, field: str, wanted: Condition) -> Mask:
        schema = self.collection.fields.get(field)
        path = f"filters.{field}"
        if schema is None:
            guess = closest(field, self.collection.filterable)
            known = ", ".join(self.collection.filterable) or "none"
            fix = f'did you mean "{guess}"?' if guess else f"filterable fields: {known}"
            raise HiveError.of("HIVE-206", f'the collection has no field "{field}"', path=path, fix=fix)
        if not schema.filterable:
            fix = f'set "filterable": true in collections/{self.collection.name}.json, then run `hive index`'
            raise HiveError.of("HIVE-207", f'field "{field}" is not filterable', path=path, fix=fix)
        allowed = np.ones(len(self._doc_ids), np.bool_)
        if wanted.include is not None:
            allowed &= self._having(field, wanted.include, path)
        if wanted.exclude:
            allowed &= ~self._having(field, wanted.exclude, path)
        for operator, bound in wanted.bounds:
            allowed &= self._within(field, schema.type, operator, bound, path)
        return allowed

    def _having(self, field: str, values: Sequence[Scalar], path: str) -> Mask:
        mask = np.zeros(len(self._doc_ids), np.bool_)
        for value in values:
            shown = _stored(value, self.collection.fields[field].type)
            rows = self._all(
                "SELECT document FROM field_values WHERE generation = ? AND field = ? AND value = ?",
                (self._generation, field, shown),
            )
            if not rows:
                known = [known for known, _ in self.values(field)]
                guess = closest(shown, known)
                some = ", ".join(known[:12]) + (" …" if len(known) > 12 else "")
                fix = f'did you mean "{guess}"?' if guess else f"values in use: {some or 'none'}"
                raise HiveError.of("HIVE-208", f'no document has {field} = "{shown}"', path=path, fix=fix)
            mask[[row[0] for row in rows]] = True
        return mask

    def _within(self, field: str, kind: str, operator: str, bound: Scalar, path: str) -> Mask:
        if kind not in ("date", "number"):
            fix = "bounds work on date and number fields; use a value, a list or not"
            raise HiveError.of("HIVE-207", f'field "{field}" is a {kind}: it has no order', path=path, fix=fix)
        column, value = "number", bound
        if kind == "date":
            column = "value"
            try:
                value = iso_date(bound)
            except ValueError:
                raise HiveError.of("HIVE-104", f"{bound!r} is not a date", path=path, fix="use YYYY-MM-DD") from None
        elif not isinstance(bound, (int, float)):
            raise HiveError.of("HIVE-104", f"{bound!r} is not a number", path=path, fix="use a number without quotes")
        else:
            value = float(bound)  # SQLite knows no integers past 64 bits
        rows = self._all(
            "SELECT document FROM field_values WHERE generation = ? AND field = ?"
            f" AND {column} {_SQL_BOUNDS[operator]} ?",
            (self._generation, field, value),
        )
        mask = np.zeros(len(self._doc_ids), np.bool_)
        mask[[row[0] for row in rows]] = True
        return mask

    def _scorer(self, params: BM25Params) -> BM25:
        with self._lock:
            scorer = self._scorers.get(params)
            if scorer is None:
                scorer = self._scorers[params] = BM25(self._postings, params)
                if len(self._scorers) > _SCORERS:
                    self._scorers.popitem(last=False)
            self._scorers.move_to_end(params)
            return scorer

    @cached_property
    def _doc_ids(self) -> list[str]:
        rows = self._all("SELECT doc_id FROM documents WHERE generation = ? ORDER BY document", (self._generation,))
        return [row[0] for row in rows]

    @cached_property
    def _chunk_ids(self) -> list[str]:
        rows = self._all("SELECT chunk_id FROM chunks WHERE generation = ? ORDER BY chunk", (self._generation,))
        return [row[0] for row in rows]

    @cached_property
    def _vectors(self) -> VectorIndex:
        if self.embedding_model is None:
            raise no_model("the index was built without an embedding model")
        path = vectors_path(self._workspace, self._generation)
        try:
            vectors = VectorIndex.open(path)
            if len(vectors) == self.n_chunks:
                return vectors
            why = f"it has {len(vectors)} rows for {self.n_chunks} chunks"
        except (OSError, EOFError, ValueError) as error:
            why = str(error)
        if not self.is_live():
            raise StaleIndex
        message = f"cannot use the vectors: {why}"
        raise HiveError.of("HIVE-406", message, file=f".hive/vectors/{path.name}", fix="run `hive index`", exit_code=3)

    @cached_property
    def _embedder(self) -> Embedder:
        embedder, why_not = open_embedder(self._workspace.settings.models)
        if embedder is None:
            raise no_model(why_not.message if why_not else "no embedding model is configured")
        if embedder.model_id != self.embedding_model:
            message = f"the index was built with {self.embedding_model}, the model is now {embedder.model_id}"
            raise HiveError.of("HIVE-406", message, file=".hive/hive.db", fix="run `hive index`", exit_code=3)
        return embedder

    def _embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        # One at a time, so that a query's vector never depends on the batch it came in; in memory only.
        vectors = []
        for query in queries:
            vector = self._query_vectors.get(query)
            if vector is None:
                vector = self._embedder.embed([query])[0]
                with self._lock:
                    self._query_vectors[query] = vector
                    if len(self._query_vectors) > _QUERY_VECTORS:
                        self._query_vectors.popitem(last=False)
            vectors.append(vector)
        return np.stack(vectors)

    def _all(self, sql: str, arguments: Sequence[Any]) -> list[Any]:
        """Rows of this generation; a generation goes in one transaction, so that only no rows can mean a stale one."""
        with self._lock, database_errors(self._workspace.database):
            rows = self._connection.execute(sql, arguments).fetchall()
        if not rows and not self.is_live():
            raise StaleIndex
        return rows

    def _one(self, sql: str, arguments: Sequence[Any]) -> Any:
        with self._lock, database_errors(self._workspace.database):
            return self._connection.execute(sql, arguments).fetchone()

    def close(self) -> None:
        self._connection.close()


class _Postings:
    """The `PostingSource` of one generation."""

    def __init__(self, index: SqliteIndex, lengths: NDArray[np.int32]) -> None:
        self._index = index
        self.n_docs = len(lengths)
        self.lengths = lengths

    def postings(self, term: str) -> tuple[int, bytes] | None:
        index = self._index
        row = index._one(
            "SELECT t.df, p.data FROM term_stats t JOIN postings p ON p.posting = t.posting"
            " WHERE t.generation = ? AND t.term = ?",
            (index._generation, term),
        )
        if row is None:
            if not index.is_live():
                raise StaleIndex
            return None
        return row[0], row[1]


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _stored(value: Scalar, kind: str) -> str:
    if kind == "date":
        try:
            return iso_date(value)
        except ValueError:
            return str(value)
    return keyword_text(value) if kind in ("keyword", "text") else stored_value(value)[0]
