"""The seam between ranking and storage: what an index must offer, whoever keeps it.

Fusion, cut, detection, metrics and the gate stay above this line, so that a bigger engine can serve
the same configs. Chunks are known by number; numbers ascend with `chunk_id`, so that ties break alike
everywhere. `WordLane` and `VectorLane` are what such an engine takes over of an index; a filter or a scope reaches it
as a mask of chunks, before it ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hive_agents.retrieval.bm25 import BM25Params
from hive_agents.retrieval.filters import Condition
from hive_agents.retrieval.vectors import Mask, Scored

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
    """The text without boilerplate, None where it has none."""


class WordLane(Protocol):
    """Ranks the chunks of one generation by their words."""

    def top(self, queries: Sequence[Sequence[str]], depth: int, params: BM25Params, mask: Mask | None) -> list[Lane]:
        """BM25, a lane a query, which is a list of index terms; no chunk outside `mask` takes a place in it."""


class VectorLane(Protocol):
    """Ranks the chunks of one generation by cosine. Vectors are unit vectors; ties stand in order of number."""

    @property
    def dimensions(self) -> int: ...

    def top(self, query: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> Scored:
        """Return the `k` best chunks inside `mask`, fewer if fewer are allowed."""

    def top_many(self, queries: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> list[Scored]:
        """Return `top` of each row of `queries`."""

    def scores(self, query: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the cosine of each of `rows`, which are numbers of chunks."""


class WordBatch(Protocol):
    """Ranks the chunks of an index for queries that were given once."""

    def top(
        self, params: BM25Params, depth: int, *, only: Sequence[int] | None = None, mask: Mask | None = None
    ) -> NDArray[np.int64]:
        """Return the `depth` best chunks of each query, shape `(n_queries, depth)` or narrower, -1 behind the last.

        `only` picks queries, by their place.
        """


class ChunkFactors(Protocol):
    """What the scores of chunks depend on besides their ranks."""

    def factors(self, boosts: Mapping[str, Mapping[str, float]], chunks: NDArray[Any]) -> NDArray[np.float64]:
        """Return what `boosts` multiply the score of each chunk by, in the shape of `chunks`.

        A document without the field has the factor 1, one with several values the product of theirs. An age is
        counted from the newest date of all documents.

        Raises: HIVE-206, 207 for a field that can't be boosted so.
        """

    def boilerplate_shares(self, chunks: NDArray[Any]) -> NDArray[np.float64]:
        """Return how much of each chunk's words is boilerplate, from 0 to 1, in the shape of `chunks`."""


class LaneIndex(ChunkFactors, Protocol):
    """One immutable state of one collection's index."""

    @property
    def index_hash(self) -> str:
        """Hash of documents, chunking, analyzer and embedding model."""

    @property
    def embedding_model(self) -> str | None: ...

    @property
    def language(self) -> str:
        """The analyzer's language."""

    @property
    def n_chunks(self) -> int: ...

    @property
    def n_documents(self) -> int: ...

    def keyword(self, query: str, depth: int, params: BM25Params, mask: Mask | None) -> Lane:
        """BM25, at most `depth` chunks inside `mask`; statistics are the collection's."""

    def vector(self, queries: Sequence[str], depth: int, mask: Mask | None) -> list[Lane]:
        """Cosine, a lane a query. Raises: HIVE-401 without an embedding model."""

    def select(self, conditions: Mapping[str, Condition], *, checked: bool = False) -> Mask | None:
        """Return the chunks of the documents that meet every condition; None means all.

        `checked` conditions are a config's, sound for the whole collection: a value that no document of a scope
        has is no mistake there, it matches nothing.

        Raises: HIVE-206, 207, 208 for a condition that no document can meet by mistake.
        """

    def only(self, doc_ids: Iterable[str]) -> Mask:
        """Return the chunks of these documents; unknown ones have none."""

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

    def values(self, field: str) -> list[tuple[str, int]]:
        """Return the values of a field with the number of documents that have each."""
