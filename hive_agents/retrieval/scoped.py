"""An index as one reader knows it: every other document might as well not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hive_agents.retrieval.analysis import terms
from hive_agents.retrieval.bm25 import BM25, BM25Params
from hive_agents.retrieval.fields import FieldValues
from hive_agents.retrieval.filters import Condition
from hive_agents.retrieval.generation import index_hash
from hive_agents.retrieval.keyword_batch import KeywordBatch
from hive_agents.retrieval.lanes import ChunkNumbers, ChunkRow, Lane, Mask
from hive_agents.retrieval.recent import Recent

if TYPE_CHECKING:
    from hive_agents.retrieval.index import SqliteIndex

T = TypeVar("T")

_SCORERS = 2
_SCORER_BYTES = 4 << 20
_QUERY_VECTORS = 1000


class ScopedIndex:
    """A `LaneIndex` that behaves to the bit as one built from the `visible` documents alone; made by `index.within`.

    Statistics, ranks, counts, values and the text of errors are theirs, and so are the chunk numbers: a hidden
    document has none.
    """

    def __init__(self, index: SqliteIndex, visible: NDArray[np.bool_]) -> None:
        if visible.shape != (index.n_documents,) or visible.dtype != np.bool_:
            raise ValueError(f"expected {index.n_documents} booleans, got {visible.dtype} of shape {visible.shape}")
        self._index = index
        self._documents = visible
        self._chunks: Mask = visible[index.chunk_documents]
        self.whole_numbers: ChunkNumbers = self._chunks.nonzero()[0]
        """The whole index's number of each chunk, shape `(n_chunks,)`."""
        self.collection = index.collection
        self.language = index.language
        self.embedding_model = index.embedding_model
        self.n_chunks = len(self.whole_numbers)
        self.n_documents = int(np.count_nonzero(visible))
        self._chunk_documents = index.chunk_documents[self.whole_numbers]
        self._fields = FieldValues(
            index.collection, self._chunk_documents, index.n_documents, index.field_rows, visible
        )
        self._scorers: Recent[BM25Params, BM25] = Recent(_SCORERS)
        self._query_vectors: Recent[str, NDArray[np.float32]] = Recent(_QUERY_VECTORS)

    @cached_property
    def index_hash(self) -> str:
        hashes, index = self._index.content_hashes, self._index
        return index_hash(index.recipe, index.embedding_model, {doc_id: hashes[doc_id] for doc_id in self.doc_ids()})

    def keyword(self, query: str, depth: int, params: BM25Params, mask: Mask | None) -> Lane:
        found = self._scorer(params).top(terms(query, self.language), depth, mask=self._whole(mask))
        return self._lane(*found)

    def keyword_batch(self, queries: Sequence[str]) -> KeywordBatch:
        """As `SqliteIndex.keyword_batch`, of the visible documents alone."""
        return KeywordBatch(self._index.postings, [terms(query, self.language) for query in queries], self._chunks)

    def keyword_scores(self, query: str, chunks: ChunkNumbers, params: BM25Params) -> NDArray[np.float32]:
        whole = self.whole_numbers[chunks]
        scores: NDArray[np.float32] = self._scorer(params).scores(terms(query, self.language), whole)
        return scores

    def vector(self, queries: Sequence[str], depth: int, mask: Mask | None) -> list[Lane]:
        vectors = self._index.embed(queries, self._query_vectors)
        return [
            self._lane(lane.chunks, lane.scores) for lane in self._index.vector_by(vectors, depth, self._whole(mask))
        ]

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
        return self._seen(self._index.doc_ids())

    def holds(self, doc_id: str) -> bool:
        """Whether the document is among the visible ones: for a hidden and for a missing one in the same time."""
        return doc_id in self._held

    @cached_property
    def _held(self) -> frozenset[str]:
        return frozenset(self.doc_ids())

    def documents(self) -> list[tuple[str, str, Mapping[str, Any]]]:
        """(doc_id, title, metadata) of every document, by doc_id."""
        return self._seen(self._index.documents())

    def documents_of(self, chunks: ChunkNumbers) -> list[str]:
        return self._index.documents_of(self.whole_numbers[chunks])

    def document_numbers(self, chunks: NDArray[Any]) -> NDArray[np.int64]:
        numbers: NDArray[np.int64] = self._chunk_documents[chunks].astype(np.int64)
        return numbers

    def factors(self, boosts: Mapping[str, Mapping[str, float]], chunks: NDArray[Any]) -> NDArray[np.float64]:
        factors: NDArray[np.float64] = self._fields.factors(boosts)[self._chunk_documents[chunks]]
        return factors

    def chunk_ids(self, chunks: ChunkNumbers) -> list[str]:
        return self._index.chunk_ids(self.whole_numbers[chunks])

    def rows(self, chunks: Sequence[int]) -> list[ChunkRow]:
        return self._index.rows(self.whole_numbers[np.asarray(chunks, np.intp)].tolist())

    def chunks_of(self, doc_id: str) -> ChunkNumbers:
        whole = self._index.chunks_of(doc_id)
        return self._numbers(whole[self._chunks[whole]])

    def _scorer(self, params: BM25Params) -> BM25:
        return self._scorers.get(params, lambda: self._new_scorer(params))

    def _new_scorer(self, params: BM25Params) -> BM25:
        index = self._index
        return BM25(index.postings, params, scope=self._chunks, cache_bytes=_SCORER_BYTES, board=index.board)

    def _seen(self, of_documents: list[T]) -> list[T]:
        return list(compress(of_documents, self._documents))

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
