"""What a search returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

CutReason = Literal["none", "top_k", "gap", "max_results", "floor", "exhausted", "abstain"]


@dataclass(frozen=True)
class Hit:
    """One entry of a ranking. A rank is null where the chunk isn't in that lane; `relevance` is the reranker's.

    >>> lanes = dict(bm25_rank=1, vector_rank=None, bm25_score=2.5, vector_score=None, disagreement=None, flagged=False)
    >>> text = dict(title="Bees", heading="Bees", excerpt="They dance.", relevance=None, metadata={})
    >>> hit = Hit(rank=1, doc_id="bees.md", chunk_id="bees.md#0", score=2.5, **lanes, **text)
    >>> hit.to_json()["chunk_id"]
    'bees.md#0'
    """

    rank: int
    doc_id: str
    chunk_id: str
    title: str
    heading: str
    excerpt: str
    score: float
    bm25_rank: int | None
    vector_rank: int | None
    bm25_score: float | None
    vector_score: float | None
    disagreement: float | None
    flagged: bool
    relevance: float | None
    metadata: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "metadata"}


@dataclass(frozen=True)
class Cut:
    """What ended the list, and how many hits it has."""

    reason: CutReason
    at: int


@dataclass(frozen=True)
class Ranking:
    """The ordered result of one search, best first.

    >>> ranking = Ranking(query="bees", config="v1", hits=[], cut=Cut("exhausted", 0))
    >>> ranking.to_json()["cut"]
    {'reason': 'exhausted', 'at': 0}
    """

    query: str
    config: str
    hits: list[Hit]
    cut: Cut

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "config": self.config,
            "hits": [hit.to_json() for hit in self.hits],
            "cut": asdict(self.cut),
        }
