"""Explanations of the rank of a document, or of its absence from a ranking."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hive_agents.base import HiveError, did_you_mean
from hive_agents.index import ChunkNumbers, Condition, Lane, LaneIndex, SqliteIndex
from hive_agents.ranking.config import RetrievalConfig
from hive_agents.ranking.engine import SearchEngine
from hive_agents.ranking.factors import FACTORS
from hive_agents.ranking.fusion import joined
from hive_agents.ranking.stages import OneQuery


def explain_hit(engine: SearchEngine, query: str, config: RetrievalConfig, doc_id: str) -> dict[str, Any]:
    """Return the ranks of the document's best chunk in each lane and after fusion, and what cut it off.

    Raises: HIVE-409 for an unknown document.
    """
    return engine.with_index(config.collection, lambda index: _explained(engine, index, query, config, doc_id))


def _named(index: SqliteIndex, name: str) -> str:
    """Return the doc_id for a doc_id, a chunk_id or a path; a folder may itself be called documents."""
    doc_ids = set(index.doc_ids())
    for doc_id in (name, re.sub(r"#\d+$", "", name)):
        for path in (doc_id, doc_id.removeprefix("documents/")):
            if path in doc_ids:
                return path
    fix = did_you_mean(name, doc_ids, "doc_id is the path below documents/")
    raise HiveError.of("HIVE-409", f'there is no document "{name}" in the index', fix=fix)


def _explained(
    engine: SearchEngine, index: SqliteIndex, query: str, config: RetrievalConfig, name: str
) -> dict[str, Any]:
    doc_id = _named(index, name)
    chunks = index.chunks_of(doc_id)
    search = engine.run_on(index, [query], config)[0]
    returned = search.returned.tolist()
    own_chunks = set(chunks.tolist())
    rank = next((place for place, chunk in enumerate(returned, start=1) if chunk in own_chunks), None)
    mask = index.select(config.conditions)
    conditions = config.conditions if len(chunks) else {}
    refused = [field for field, condition in conditions.items() if not _passes(index, field, condition, chunks)]
    params = config.bm25.params
    lanes: dict[str, Any] = {}
    if not refused:
        if config.retrieval.keyword:
            lanes["keyword"] = _best(index.keyword(query, index.n_chunks, params, mask), own_chunks)
        if config.retrieval.vector:
            lanes["vector"] = _best(index.vector([query], index.n_chunks, mask)[0], own_chunks)
    candidates = search.fused.chunks
    # Names are those of the chunks that were ranked; a boost is the document's, also where none was.
    own = candidates[np.isin(candidates, chunks)] if np.isin(candidates, chunks).any() else chunks
    pool, of = joined(own[None], own[None, :0]), OneQuery(index, query, {}, own[:0])
    on = [factor for factor in FACTORS if len(chunks) and factor.setting(config, index.language) is not None]
    factors = {factor.fact: float(factor.factors(of, pool, config).max()) for factor in on}
    fused = next((place for place, chunk in enumerate(candidates.tolist(), start=1) if chunk in own_chunks), None)
    return {
        "doc_id": doc_id,
        "chunks": len(chunks),
        "returned": rank is not None,
        "rank": rank,
        "fused_rank": fused,
        "fused_documents": fused and len(np.unique(index.document_numbers(candidates[:fused]))),
        "filtered_by": refused,
        **{factor.fact: factors.get(factor.fact, 1.0) for factor in FACTORS},
        "per_document": config.retrieval.per_document,
        "lanes": lanes,
        "candidates": config.retrieval.candidates,
        "cut": {"reason": search.cut.reason, "at": search.cut.at},
    }


def explain_text(facts: dict[str, Any]) -> str:
    """Return the explanation in a sentence or two."""
    name = facts["doc_id"]
    if not facts["chunks"]:
        return f"{name} has no text and no title, so nothing finds it"
    if facts["filtered_by"]:
        return f"{name} is filtered away by {', '.join(facts['filtered_by'])}"
    lanes = []
    for lane, best in facts["lanes"].items():
        place = f"rank {best['rank']} (score {best['score']:.3f})" if best else "no match"
        if best and best["rank"] > facts["candidates"]:
            place += f", past the {facts['candidates']} candidates"
        lanes.append(f"{lane}: {place}")
    lanes += [factor.told.format(facts[factor.fact]) for factor in FACTORS if facts[factor.fact] != 1.0]
    where = "; ".join(lanes)
    if facts["returned"]:
        return f"{name} is returned at rank {facts['rank']}. {where}"
    if facts["fused_rank"] is None:
        return f"{name} is no candidate of any lane. {where}"
    return (
        f"{name} is document {facts['fused_documents']} after fusion, its best chunk at rank {facts['fused_rank']} of"
        f" all chunks; the list ended at {facts['cut']['at']} ({facts['cut']['reason']}). {where}"
    )


def _passes(index: LaneIndex, field: str, condition: Condition, chunks: ChunkNumbers) -> bool:
    mask = index.select({field: condition})
    return mask is None or bool(mask[chunks].any())


def _best(lane: Lane, chunks: set[int]) -> dict[str, Any] | None:
    places = np.flatnonzero(np.isin(lane.chunks, list(chunks)))
    if not len(places):
        return None
    return {"rank": int(places[0]) + 1, "score": float(lane.scores[places[0]])}
