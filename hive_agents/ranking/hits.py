"""The result of a search: a ranking of hits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hive_agents.index import LaneIndex
from hive_agents.ranking.config import RetrievalConfig
from hive_agents.ranking.excerpts import row_excerpt
from hive_agents.ranking.stages import Cut, Search


@dataclass(frozen=True)
class Hit:
    """One entry of a ranking. A rank is null where the chunk isn't in that lane; `relevance` is the reranker's.

    `text` is the whole chunk, `excerpt` its shown part, `heading` the path of the headings above its best line.

    >>> lanes = dict(bm25_rank=1, vector_rank=None, bm25_score=2.5, vector_score=None, disagreement=None, flagged=False)
    >>> text = dict(title="Bees", heading="Bees", excerpt="They dance.", relevance=None, metadata={}, text="")
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
    text: str

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key not in ("metadata", "text")}


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


def present(index: LaneIndex, search: Search, config: RetrievalConfig) -> Ranking:
    """Return the ranking of a search with the texts of its hits, which no earlier stage reads."""
    chunks = search.returned.tolist()
    rows = index.rows(chunks)
    positions = search.order[: search.cut.at].tolist()
    scores = {
        name: dict(zip(lane.chunks.tolist(), lane.scores.tolist(), strict=True))
        for name, lane in search.of.lanes.items()
    }
    detection = config.distraction_detection
    hits = []
    for rank, (position, chunk, row) in enumerate(zip(positions, chunks, rows, strict=True), start=1):
        keyword, vector = (int(ranks[position]) or None for ranks in search.fused.ranks)
        apart = disagreement(keyword, vector, config.retrieval.candidates) if len(search.of.lanes) == 2 else None
        excerpt, section = row_excerpt(row, search.of.text, index.language)
        hits.append(
            Hit(
                rank=rank,
                doc_id=row.doc_id,
                chunk_id=row.chunk_id,
                title=row.title,
                heading=section,
                excerpt=excerpt or row.title,
                score=float(search.fused.scores[position]),
                bm25_rank=keyword,
                vector_rank=vector,
                bm25_score=scores.get("keyword", {}).get(chunk),
                vector_score=scores.get("vector", {}).get(chunk),
                disagreement=apart,
                flagged=detection.enabled and apart is not None and apart > detection.disagreement_threshold,
                relevance=search.relevance.get(position),
                metadata=row.metadata,
                text=row.text,
            )
        )
    return Ranking(search.of.text, config.name, hits, search.cut)


def disagreement(keyword_rank: int | None, vector_rank: int | None, candidates: int) -> float:
    """Return how far the lanes disagree: |r_bm25 - r_vector| / max(r_bm25, r_vector); a missing rank is candidates + 1.

    >>> round(disagreement(2, 3, 100), 4), round(disagreement(1, 12, 100), 4), round(disagreement(1, None, 100), 4)
    (0.3333, 0.9167, 0.9901)
    """
    a = keyword_rank or candidates + 1
    b = vector_rank or candidates + 1
    return abs(a - b) / max(a, b)
