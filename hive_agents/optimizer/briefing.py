"""The prompt of the model proposer: the levers, the losses, the worst training queries, the trials so far."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from hive_agents.index import AnyIndex
from hive_agents.models import prompts
from hive_agents.optimizer.cached_lanes import MAX_DEPTH
from hive_agents.optimizer.model_answer import BLOCKS, patchable
from hive_agents.optimizer.proposal import Situation
from hive_agents.optimizer.space import filterable_values
from hive_agents.ranking import IntArray, RetrievalConfig
from hive_agents.workspace import Workspace

PROMPT = "optimizer"
WORST = 6
HISTORY = 16
EXCERPT = 300


def briefing(situation: Situation, workspace: Workspace, *, most: int, share_text: bool) -> str:
    """Return the prompt. Raises: HIVE-105, HIVE-106 for a workspace's own prompt that can't be filled in."""
    parts = {
        "config": patchable(situation.config),
        "collection": _collection(situation.index),
        "diagnosis": _diagnosis(situation),
        "worst_queries": worst_queries(situation, share_text=share_text),
        "tried": _tried(situation),
    }
    return prompts.load(
        PROMPT,
        workspace,
        most=str(most),
        schema=json.dumps(levers(), ensure_ascii=False),
        # Random, so that no title or query can contain the closing fence.
        fence=f"=====  {secrets.token_hex(8)}  =====",
        situation="\n".join(f"{name}: {json.dumps(part, ensure_ascii=False)}" for name, part in parts.items()),
    )


def levers() -> dict[str, Any]:
    """Return the JSON schema of the blocks that a patch may change."""
    schema = RetrievalConfig.model_json_schema()
    properties = {block: schema["properties"][block] for block in BLOCKS}
    definitions: dict[str, Any] = schema["$defs"]
    definitions["Retrieval"]["properties"]["candidates"]["maximum"] = MAX_DEPTH
    used: dict[str, Any] = {}
    text = json.dumps(properties)
    while missing := [name for name in definitions if name not in used and f'"#/$defs/{name}"' in text]:
        used |= {name: definitions[name] for name in missing}
        text = json.dumps([properties, used])
    return {"type": "object", "properties": properties, "$defs": used}


def worst_queries(situation: Situation, *, share_text: bool) -> list[dict[str, Any]]:
    """Return the worst training queries: their results, with labels and ranks in each lane, and what they miss."""
    cache = situation.cache
    scores = cache.evaluate(situation.config).nudcg
    ranked = cache.rank(situation.config, depth=10_000)
    names = cache.doc_ids
    titles = {doc_id: title for doc_id, title, _ in situation.index.documents()}

    def trace(row: int, doc_id: str, place: int | None) -> dict[str, Any]:
        number = cache.number_of(doc_id)
        columns = ranked.documents[row] == number if place is None else np.array([place])
        entry = {
            "rank": None if place is None else place + 1,
            "doc_id": doc_id,
            "title": titles.get(doc_id, ""),
            "label": cache.golden.queries[row].label(doc_id),
            "keyword_rank": _best(ranked.keyword[row][columns]),
            "vector_rank": _best(ranked.vector[row][columns]),
        }
        return entry | ({"text": _excerpt(situation.index, doc_id)} if share_text else {})

    traces = []
    for row in np.argsort(scores, kind="stable")[:WORST].tolist():
        query, upto = cache.golden.queries[row], min(int(ranked.returned[row]), cache.golden.k)
        returned = [names[number] for number in ranked.documents[row, :upto].tolist()]
        if scores[row] > 1 - 1e-9:
            break
        traces.append(
            {
                "id": query.id,
                "query": query.query,
                "nudcg": round(float(scores[row]), 3),
                "returned": [trace(row, doc_id, place) for place, doc_id in enumerate(returned)],
                "missed": [trace(row, doc_id, None) for doc_id in query.relevant if doc_id not in returned],
            }
        )
    return traces


def _best(ranks: IntArray) -> int | None:
    """Return the best of the ranks in a lane, None without one; a rank of 0 means absent."""
    return min((rank for rank in ranks.tolist() if rank), default=None)


def _excerpt(index: AnyIndex, doc_id: str) -> str:
    chunks = index.chunks_of(doc_id)[:1].tolist()
    return index.rows(chunks)[0].text[:EXCERPT] if chunks else ""


def _collection(index: AnyIndex) -> dict[str, Any]:
    values = filterable_values(index)
    fields = {
        name: {"type": index.collection.fields[name].type} | ({"values": values[name]} if name in values else {})
        for name in index.collection.filterable
    }
    return {"documents": len(index.doc_ids()), "vectors": index.embedding_model is not None, "filterable": fields}


def _diagnosis(situation: Situation) -> dict[str, Any]:
    diagnosis = situation.diagnosis
    losses = [
        {"cause": loss.cause, "points": round(loss.points, 3), "queries": len(loss.queries)}
        for loss in diagnosis.losses
    ]
    return {
        "summary": diagnosis.summary,
        "losses": losses,
        "exclusions": [asdict(one) for one in diagnosis.exclusions],
        "preferences": [asdict(one) for one in diagnosis.preferences],
    }


def _tried(situation: Situation) -> list[Mapping[str, Any]]:
    """Return the last trials with their outcome, without scores on validation queries except in the feedback."""
    return [
        {
            "iteration": row["n"],
            "change": row["step"],
            "reason": row["reason"],
            "train": None if row["train"] is None else round(row["train"], 3),
            "verdict": row["verdict"],
            "feedback": row["feedback"],
        }
        for row in situation.history[-HISTORY:]
    ]
