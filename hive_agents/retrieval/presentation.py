"""What a reader sees of a search."""

from __future__ import annotations

from hive_agents.retrieval.config import RetrievalConfig
from hive_agents.retrieval.distraction import disagreement
from hive_agents.retrieval.excerpts import row_excerpt
from hive_agents.retrieval.lanes import LaneIndex
from hive_agents.retrieval.ranking import Hit, Ranking
from hive_agents.retrieval.stages import Search


def present(index: LaneIndex, search: Search, config: RetrievalConfig) -> Ranking:
    """What a reader sees of the returned hits; the text is read here and nowhere before."""
    chunks = search.returned.tolist()
    rows = index.rows(chunks)
    positions = search.order[: search.cut.at].tolist()
    scores = {
        name: dict(zip(lane.chunks.tolist(), lane.scores.tolist(), strict=True)) for name, lane in search.lanes.items()
    }
    ranks = dict(zip(search.lanes, search.fused.ranks, strict=True))
    detection = config.distraction_detection
    hits = []
    for rank, (position, chunk, row) in enumerate(zip(positions, chunks, rows, strict=True), start=1):
        keyword, vector = (
            int(ranks[name][position]) or None if name in ranks else None for name in ("keyword", "vector")
        )
        apart = disagreement(keyword, vector, config.retrieval.candidates) if len(ranks) == 2 else None
        hits.append(
            Hit(
                rank=rank,
                doc_id=row.doc_id,
                chunk_id=row.chunk_id,
                title=row.title,
                heading=row.heading,
                excerpt=row_excerpt(row, search.query, index.language) or row.title,
                score=float(search.fused.scores[position]),
                bm25_rank=keyword,
                vector_rank=vector,
                bm25_score=scores.get("keyword", {}).get(chunk),
                vector_score=scores.get("vector", {}).get(chunk),
                disagreement=apart,
                flagged=detection.enabled and apart is not None and apart > detection.disagreement_threshold,
                relevance=search.relevance.get(position),
                metadata=row.metadata,
            )
        )
    return Ranking(search.query, config.name, hits, search.cut)
