"""The embedded index: `SqliteIndex` over one generation, and `ScopedIndex`, its view of the visible documents.

They are in one file because each method of the one calls the other's, with translated chunk numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import compress
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.documents import Collection, terms
from hive_agents.index.bm25 import BM25, BM25Params
from hive_agents.index.boilerplate import Boilerplate
from hive_agents.index.engine import Engine, LaneBatch
from hive_agents.index.fields import FieldValues
from hive_agents.index.filters import Condition
from hive_agents.index.generation import State, index_hash
from hive_agents.index.generation_reader import GenerationReader
from hive_agents.index.keyword_batch import KeywordBatch
from hive_agents.index.lanes import ChunkNumbers, ChunkRow, Lane, VectorLane, WordBatch, WordLane
from hive_agents.index.vectors import Mask
from hive_agents.models.embedding import Recent, embedding_cache, open_embedder, providers
from hive_agents.workspace import Workspace, cores

T = TypeVar("T")

_QUERY_VECTORS = 10_000
_SCOPES = 32
_SCOPED_SCORERS = 2
_SCOPED_SCORER_BYTES = 4 << 20
_SCOPED_QUERY_VECTORS = 1000


class SqliteIndex(GenerationReader):
    """A `LaneIndex` over `.hive/hive.db`; safe to share between threads.

    `engines` opens the engines that provide lanes, when one is needed; the other lanes are embedded.
    Raises: HIVE-406 when the collection was never indexed.
    """

    def __init__(
        self,
        workspace: Workspace,
        collection: Collection,
        state: State = "live",
        *,
        engines: Callable[[], Sequence[Engine]] = tuple,
    ) -> None:
        super().__init__(workspace, collection, state)
        self._open_engines = engines
        self._fields = FieldValues(self.collection, self.chunk_documents, self.n_documents, self.field_rows)
        self._query_vectors: Recent[str, NDArray[np.float32]] = Recent(_QUERY_VECTORS)
        self._learned: dict[str, NDArray[np.float32]] = {}
        self._scopes: Recent[tuple[Hashable, bytes], ScopedIndex] = Recent(_SCOPES)

    def keyword(self, query: str, depth: int, params: BM25Params, mask: Mask | None) -> Lane:
        if self.words is not None:
            return self.words.top([terms(query, self.language)], depth, params, mask)[0]
        return Lane(*self._scorer(params).top(terms(query, self.language), depth, mask=mask))

    def keyword_batch(self, queries: Sequence[str]) -> WordBatch:
        """Return a batch that ranks these queries by any BM25 parameters; their postings are read once."""
        analyzed = [terms(query, self.language) for query in queries]
        return KeywordBatch(self.postings, analyzed) if self.words is None else LaneBatch(self.words.top, analyzed)

    def keyword_scores(self, query: str, chunks: ChunkNumbers, params: BM25Params) -> NDArray[np.float32]:
        return self.term_scores(terms(query, self.language), chunks, params)

    def frequencies(self, words: Sequence[str], params: BM25Params = BM25Params()) -> list[int]:
        return self._scorer(params).frequencies(words)

    def having(
        self, words: Sequence[str], chunks: ChunkNumbers, params: BM25Params = BM25Params()
    ) -> list[NDArray[np.bool_]]:
        return self._scorer(params).having(words, chunks)

    def vector(self, queries: Sequence[str], depth: int, mask: Mask | None) -> list[Lane]:
        return self.vector_by(self.embed(queries, self._query_vectors), depth, mask)

    def vector_by(self, vectors: NDArray[np.float32], depth: int, mask: Mask | None) -> list[Lane]:
        if len(vectors) == 1:
            return [Lane(*self._ranked_vectors.top(vectors[0], depth, mask=mask))]
        return [Lane(*lane) for lane in self._ranked_vectors.top_many(vectors, depth, mask=mask)]

    def vector_scores(self, query: str, chunks: ChunkNumbers) -> NDArray[np.float32]:
        return self.vector_scores_by(self.embed([query], self._query_vectors)[0], chunks)

    def vector_scores_by(self, vector: NDArray[np.float32], chunks: ChunkNumbers) -> NDArray[np.float32]:
        return self._ranked_vectors.scores(vector, chunks)

    def embed(self, queries: Sequence[str], memory: Recent[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return unit vectors, shape `(n, dim)`, cached only in `memory`, but for questions given to `learn`."""

        def embedded(query: str) -> NDArray[np.float32]:
            # One by one, so that a query's vector doesn't depend on its batch.
            learned = self._learned.get(query)
            return memory.get(query, partial(self._embed, query)) if learned is None else learned

        if len(queries) == 1:
            return np.stack([embedded(queries[0])])
        with ThreadPoolExecutor(cores()) as pool:
            return np.stack(list(pool.map(embedded, queries)))

    def learn(self, questions: Sequence[str]) -> None:
        """Embed the questions of a golden set, or read their stored vectors: see `question_vectors`."""
        new = [question for question in questions if question not in self._learned]
        if new and self.embedding_model is not None:
            self._learned |= zip(new, self.stored_vectors(new), strict=True)

    def stored_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts as those of questions, kept on disk: see `question_vectors`."""
        return embedding_cache.question_vectors(self._workspace, self._embedder, texts)

    def within(self, visible: NDArray[np.bool_], owner: Hashable = None) -> ScopedIndex:
        """Return the index as if only the documents in `visible` (shape `(n_documents,)`, by `doc_ids()`) existed.

        The object is cached by documents and `owner`, each with its own query vectors.
        """
        return self._scopes.get((owner, np.packbits(visible).tobytes()), lambda: ScopedIndex(self, visible.copy()))

    def select(self, conditions: Mapping[str, Condition], *, checked: bool = False) -> Mask | None:
        return self._fields.select(conditions, checked=checked)

    def only(self, doc_ids: Iterable[str]) -> Mask:
        wanted = set(doc_ids)
        return np.array([doc_id in wanted for doc_id in self._doc_ids], np.bool_)[self.chunk_documents]

    def count(self, mask: Mask) -> int:
        return len(np.unique(self.chunk_documents[mask]))

    def document_numbers(self, chunks: NDArray[Any]) -> NDArray[np.int64]:
        """Return the position of each chunk's document in `doc_ids()`, shaped as `chunks`; -1 in an empty index."""
        if not len(self.chunk_documents):
            return np.full(chunks.shape, -1, np.int64)
        numbers: NDArray[np.int64] = self.chunk_documents[chunks].astype(np.int64)
        return numbers

    def missing(self, field: str, boost: Mapping[str, float]) -> list[HiveError]:
        """Return a HIVE-208 for each boosted value that no document has."""
        return self._fields.missing(field, boost)

    def factors(self, boosts: Mapping[str, Mapping[str, float]], chunks: NDArray[Any]) -> NDArray[np.float64]:
        factors: NDArray[np.float64] = self._fields.factors(boosts)[self.chunk_documents[chunks]]
        return factors

    def named(self, query: str, fields: Iterable[str]) -> frozenset[str]:
        return self._fields.named(query, fields)

    def boilerplate_shares(self, chunks: NDArray[Any]) -> NDArray[np.float64]:
        shares: NDArray[np.float64] = self._boilerplate.shares[chunks]
        return shares

    @cached_property
    def _boilerplate(self) -> Boilerplate:
        return self.shared_lines.within(self.chunk_documents, self.n_documents)

    def rows(self, chunks: Sequence[int]) -> list[ChunkRow]:
        return self.rows_without(self._boilerplate, chunks)

    def newest_day(self, field: str, half_life: float) -> float | None:
        """Return the day from which ages of a date field are counted, in days since 1970; None without any date."""
        return self._fields.newest_day(field, half_life)

    def values(self, field: str) -> list[tuple[str, int]]:
        return self._fields.values(field)

    @cached_property
    def words(self) -> WordLane | None:
        """The keyword lane of an engine of the settings; None for the embedded one."""
        for engine in self._engines:
            lane = engine.words(self)
            if lane is not None:
                return lane
        return None

    @cached_property
    def _ranked_vectors(self) -> VectorLane:
        if self.embedding_model is not None:
            for engine in self._engines:
                lane = engine.vectors(self)
                if lane is not None:
                    return lane
        return self.local_vectors

    @cached_property
    def _engines(self) -> Sequence[Engine]:
        return self._open_engines()

    @cached_property
    def _embedder(self) -> providers.Embedder:
        embedder, why_not = open_embedder(self._workspace)
        if embedder is None:
            raise providers.no_model(why_not.message if why_not else "no embedding model is configured")
        if embedder.model_id != self.embedding_model:
            message = f"the index was built with {self.embedding_model}, the model is now {embedder.model_id}"
            raise HiveError.of("HIVE-406", message, file=".hive/hive.db", fix="run `hive index`", exit_code=3)
        return embedder

    def _embed(self, query: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._embedder.embed_query(query)
        return vector


class ScopedIndex:
    """A `LaneIndex` that equals, to the bit, one built from only the `visible` documents; made by `index.within`.

    Statistics, ranks, counts, values, the text of errors and the chunk numbers depend on no hidden document.
    """

    def __init__(self, index: SqliteIndex, visible: NDArray[np.bool_]) -> None:
        if visible.shape != (index.n_documents,) or visible.dtype != np.bool_:
            raise ValueError(f"expected {index.n_documents} booleans, got {visible.dtype} of shape {visible.shape}")
        self._index = index
        self._documents = visible
        self._chunks: Mask = visible[index.chunk_documents]
        self.whole_numbers: ChunkNumbers = self._chunks.nonzero()[0]
        """Each chunk's number in the whole index, shape `(n_chunks,)`."""
        self.collection = index.collection
        self.language = index.language
        self.embedding_model = index.embedding_model
        self.n_chunks = len(self.whole_numbers)
        self.n_documents = int(np.count_nonzero(visible))
        self._chunk_documents = index.chunk_documents[self.whole_numbers]
        self._fields = FieldValues(
            index.collection, self._chunk_documents, index.n_documents, index.field_rows, visible
        )
        self._scorers: Recent[BM25Params, BM25] = Recent(_SCOPED_SCORERS)
        self._query_vectors: Recent[str, NDArray[np.float32]] = Recent(_SCOPED_QUERY_VECTORS)

    @cached_property
    def index_hash(self) -> str:
        hashes, index = self._index.content_hashes, self._index
        return index_hash(index.recipe, index.embedding_model, {doc_id: hashes[doc_id] for doc_id in self.doc_ids()})

    def keyword(self, query: str, depth: int, params: BM25Params, mask: Mask | None) -> Lane:
        if self._index.words is not None:
            return self._ranked([terms(query, self.language)], depth, params, mask)[0]
        return self._lane(*self._scorer(params).top(terms(query, self.language), depth, mask=self._whole(mask)))

    def keyword_batch(self, queries: Sequence[str]) -> WordBatch:
        """Return `SqliteIndex.keyword_batch` of only the visible documents."""
        analyzed = [terms(query, self.language) for query in queries]
        if self._index.words is not None:
            return LaneBatch(self._ranked, analyzed)
        return KeywordBatch(self._index.postings, analyzed, self._chunks)

    def _ranked(
        self, queries: Sequence[Sequence[str]], depth: int, params: BM25Params, mask: Mask | None
    ) -> list[Lane]:
        """Return the lanes of an engine, whose statistics are those of all documents."""
        assert self._index.words is not None
        lanes = self._index.words.top(queries, depth, params, self._whole(mask))
        return [self._lane(lane.chunks, lane.scores) for lane in lanes]

    def keyword_scores(self, query: str, chunks: ChunkNumbers, params: BM25Params) -> NDArray[np.float32]:
        whole = self.whole_numbers[chunks]
        scores: NDArray[np.float32] = self._scorer(params).scores(terms(query, self.language), whole)
        return scores

    def frequencies(self, words: Sequence[str], params: BM25Params = BM25Params()) -> list[int]:
        return self._scorer(params).frequencies(words)

    def having(
        self, words: Sequence[str], chunks: ChunkNumbers, params: BM25Params = BM25Params()
    ) -> list[NDArray[np.bool_]]:
        return self._scorer(params).having(words, self.whole_numbers[chunks])

    def vector(self, queries: Sequence[str], depth: int, mask: Mask | None) -> list[Lane]:
        return self.vector_by(self._index.embed(queries, self._query_vectors), depth, mask)

    def vector_by(self, vectors: NDArray[np.float32], depth: int, mask: Mask | None) -> list[Lane]:
        lanes = self._index.vector_by(vectors, depth, self._whole(mask))
        return [self._lane(lane.chunks, lane.scores) for lane in lanes]

    def stored_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._index.stored_vectors(texts)

    def vector_scores(self, query: str, chunks: ChunkNumbers) -> NDArray[np.float32]:
        vector = self._index.embed([query], self._query_vectors)[0]
        return self._index.vector_scores_by(vector, self.whole_numbers[chunks])

    def select(self, conditions: Mapping[str, Condition], *, checked: bool = False) -> Mask | None:
        return self._fields.select(conditions, checked=checked)

    def only(self, doc_ids: Iterable[str]) -> Mask:
        return self._index.only(doc_ids)[self.whole_numbers]

    def count(self, mask: Mask) -> int:
        return len(np.unique(self._chunk_documents[mask]))

    def values(self, field: str) -> list[tuple[str, int]]:
        return self._fields.values(field)

    def doc_ids(self) -> list[str]:
        return self._visible(self._index.doc_ids())

    def holds(self, doc_id: str) -> bool:
        """Return whether a document is visible; a hidden and a missing one take the same time."""
        return doc_id in self._visible_ids

    @cached_property
    def _visible_ids(self) -> frozenset[str]:
        return frozenset(self.doc_ids())

    def documents(self) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Return (doc_id, title, metadata) of every document, by doc_id."""
        return self._visible(self._index.documents())

    def documents_of(self, chunks: ChunkNumbers) -> list[str]:
        return self._index.documents_of(self.whole_numbers[chunks])

    def document_numbers(self, chunks: NDArray[Any]) -> NDArray[np.int64]:
        numbers: NDArray[np.int64] = self._chunk_documents[chunks].astype(np.int64)
        return numbers

    def missing(self, field: str, boost: Mapping[str, float]) -> list[HiveError]:
        return self._fields.missing(field, boost)

    def factors(self, boosts: Mapping[str, Mapping[str, float]], chunks: NDArray[Any]) -> NDArray[np.float64]:
        factors: NDArray[np.float64] = self._fields.factors(boosts)[self._chunk_documents[chunks]]
        return factors

    def named(self, query: str, fields: Iterable[str]) -> frozenset[str]:
        return self._fields.named(query, fields)

    def boilerplate_shares(self, chunks: NDArray[Any]) -> NDArray[np.float64]:
        shares: NDArray[np.float64] = self._boilerplate.shares[self.whole_numbers[chunks]]
        return shares

    @cached_property
    def _boilerplate(self) -> Boilerplate:
        return self._index.shared_lines.within(self._index.chunk_documents, self.n_documents, self._chunks)

    def chunk_ids(self, chunks: ChunkNumbers) -> list[str]:
        return self._index.chunk_ids(self.whole_numbers[chunks])

    def rows(self, chunks: Sequence[int]) -> list[ChunkRow]:
        whole = self.whole_numbers[np.asarray(chunks, np.intp)].tolist()
        return self._index.rows_without(self._boilerplate, whole)

    def chunks_of(self, doc_id: str) -> ChunkNumbers:
        whole = self._index.chunks_of(doc_id)
        return self._numbers(whole[self._chunks[whole]])

    def _scorer(self, params: BM25Params) -> BM25:
        return self._scorers.get(params, lambda: self._new_scorer(params))

    def _new_scorer(self, params: BM25Params) -> BM25:
        index = self._index
        return BM25(index.postings, params, scope=self._chunks, cache_bytes=_SCOPED_SCORER_BYTES, board=index.board)

    def _visible(self, values: list[T]) -> list[T]:
        """Return those of the visible documents; `values` has one for each document of the whole index."""
        return list(compress(values, self._documents))

    def _numbers(self, whole: NDArray[np.intp]) -> ChunkNumbers:
        return np.searchsorted(self.whole_numbers, whole)

    def _lane(self, whole: NDArray[np.intp], scores: NDArray[np.float32]) -> Lane:
        return Lane(self._numbers(whole), scores)

    def _whole(self, mask: Mask | None) -> Mask:
        if mask is None:
            return self._chunks
        whole = np.zeros(len(self._chunks), np.bool_)
        whole[self.whole_numbers] = mask
        return whole


AnyIndex: TypeAlias = SqliteIndex | ScopedIndex
"""The index of a collection, or what of it somebody may view."""
