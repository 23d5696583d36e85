"""The interface between ranking and storage: the protocols of an index and of its lanes.

Fusion, cut, detection, metrics and the gate depend only on these, so that an external engine can serve the same
configs: it provides a `WordLane` or a `VectorLane`, and gets filters and scopes as masks of chunks before it ranks.
Chunk numbers ascend with `chunk_id`, so that ties break alike everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hive_agents.index.bm25 import BM25Params
from hive_agents.index.filters import Condition
from hive_agents.index.vectors import Mask, Scored

ChunkNumbers = NDArray[np.intp]


@dataclass(frozen=True)
class Lane:
    """One ranking, best first: chunk numbers and their raw scores (BM25 or cosine)."""

    chunks: ChunkNumbers
    scores: NDArray[np.float32]


@dataclass(frozen=True)
class ChunkRow:
    chunk_id: str
    doc_id: str
    title: str
    heading: str
    text: str
    metadata: Mapping[str, Any]
    own: str | None = None
    """The text without boilerplate; None where there is no boilerplate in it."""
    head: int = 0
    """The length of the head of a table that `text` begins with and the document's text at this place doesn't."""

    @property
    def in_document(self) -> str:
        """The text as it stands in the document."""
        return self.text[self.head :]


class WordLane(Protocol):
    """Ranks the chunks of one generation by BM25."""

    def top(self, queries: Sequence[Sequence[str]], depth: int, params: BM25Params, mask: Mask | None) -> list[Lane]:
        """Return a lane for each query, which is a list of index terms, with chunks inside `mask` only."""


class VectorLane(Protocol):
    """Ranks the chunks of one generation by cosine. Vectors are unit vectors; ties are in order of number."""

    @property
    def dimensions(self) -> int: ...

    def top(self, query: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> Scored:
        """Return the `k` best chunks inside `mask`, fewer if fewer are allowed."""

    def top_many(self, queries: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> list[Scored]:
        """Return `top` of each row of `queries`."""

    def scores(self, query: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the cosine of each of `rows`, which are numbers of chunks."""


class WordBatch(Protocol):
    """Ranks the chunks of an index for a fixed set of queries."""

    def top(
        self, params: BM25Params, depth: int, *, only: Sequence[int] | None = None, mask: Mask | None = None
    ) -> NDArray[np.int64]:
        """Return the `depth` best chunks of each query, shape `(n_queries, depth)` or narrower, -1 behind the last.

        `only` selects queries by position.
        """


class ChunkFactors(Protocol):
    """The factors of chunks' scores."""

    def factors(self, boosts: Mapping[str, Mapping[str, float]], chunks: NDArray[Any]) -> NDArray[np.float64]:
        """Return the product of each chunk's factors in `boosts`, in the shape of `chunks`.

        A document without the field has the factor 1, one with several values the product of theirs. An age is
        counted from the newest date of all documents.

        Raises: HIVE-206, 207 for a field that can't have such a boost.
        """

    def boilerplate_shares(self, chunks: NDArray[Any]) -> NDArray[np.float64]:
        """Return the share of boilerplate in each chunk's words, from 0 to 1, in the shape of `chunks`."""


class LaneIndex(ChunkFactors, Protocol):
    """One immutable state of one collection's index."""

    @property
    def index_hash(self) -> str:
        """Hash of documents, chunking, analyzer and embedding model."""

    @property
    def embedding_model(self) -> str | None: ...

    @property
    def language(self) -> str:
        """The analyzer's name."""

    @property
    def n_chunks(self) -> int: ...

    @property
    def n_documents(self) -> int: ...

    def keyword(self, query: str, depth: int, params: BM25Params, mask: Mask | None) -> Lane:
        """Return at most `depth` chunks inside `mask` by BM25; statistics are the collection's."""

    def frequencies(self, words: Sequence[str], params: BM25Params) -> list[int]:
        """Return the number of chunks that have each term."""

    def having(self, words: Sequence[str], chunks: ChunkNumbers, params: BM25Params) -> list[NDArray[np.bool_]]:
        """Return for each term which of the chunks have it."""

    def vector(self, queries: Sequence[str], depth: int, mask: Mask | None) -> list[Lane]:
        """Return a lane for each query by cosine. Raises: HIVE-401 without an embedding model."""

    def vector_by(self, vectors: NDArray[np.float32], depth: int, mask: Mask | None) -> list[Lane]:
        """Return `vector` of queries that are embedded already, shape `(n, dim)`."""

    def stored_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts as those of queries; they are kept on disk."""

    def select(self, conditions: Mapping[str, Condition], *, checked: bool = False) -> Mask | None:
        """Return the chunks of the documents that meet every condition; None means all.

        `checked` conditions were verified for the whole collection: a value that no document of a scope has is no
        error there, and matches nothing.

        Raises: HIVE-206, 207, 208 for a condition that no document can meet, such as one on an unknown value.
        """

    def only(self, doc_ids: Iterable[str]) -> Mask:
        """Return the mask of these documents' chunks; unknown ids are ignored."""

    def count(self, mask: Mask) -> int:
        """Return the number of documents that have a chunk in `mask`."""

    def documents_of(self, chunks: ChunkNumbers) -> list[str]:
        """Return the doc_id of each chunk."""

    def document_numbers(self, chunks: NDArray[Any]) -> NDArray[np.int64]:
        """Return a number for the document of each chunk, in the shape of `chunks`."""

    def chunk_ids(self, chunks: ChunkNumbers) -> list[str]: ...

    def rows(self, chunks: Sequence[int]) -> list[ChunkRow]: ...

    def chunks_of(self, doc_id: str) -> ChunkNumbers:
        """Return a document's chunks in order; empty for an unknown document."""

    def named(self, query: str, fields: Iterable[str]) -> frozenset[str]:
        """Return those of the fields of which the query names a value; `FieldValues.named` says how."""

    def values(self, field: str) -> list[tuple[str, int]]:
        """Return the values of a field with the number of documents that have each."""
