"""A turn as its reader sees it: rendered whenever it is read, through the gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hive_agents.access import Gate
from hive_agents.copilot.answers import Passage, extractive
from hive_agents.copilot.filters import RESERVED
from hive_agents.copilot.history import still_known
from hive_agents.copilot.outcome import Found, Outcome
from hive_agents.copilot.passages import marked_excerpt
from hive_agents.copilot.plan import RouterDecision, SearchStrategy
from hive_agents.copilot.reasons import reason
from hive_agents.copilot.threads import ModelAnswer, Turn
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.retrieval.lanes import ChunkRow
from hive_agents.retrieval.scoped import ScopedIndex

LIMITED = "Results are limited to documents that you can open."
ESCALATED = "The judge wasn't sure of this answer; a person was asked to check it."
GONE = "This answer is no longer available."
NOT_FOUND = "I found nothing that answers this."
HELP = (
    "Ask me about the documents that you can open: a question in your own words, a list by their fields, or both. "
    "Each answer names the passages that it rests on."
)
NO_MATCH = "I find things in the documents that you can open. What are you looking for?"

_SOURCES = {"deterministic": "router", "fallback": "router", "model": "planner"}


def reply(
    index: ScopedIndex,
    gate: Gate,
    turn: Turn,
    answer: ModelAnswer | None,
    vocabulary: Vocabulary,
    shown: Sequence[ChunkRow] | None = None,
) -> dict[str, Any]:
    """The answer's JSON. `shown` are the rows of a turn that has passed the gate this very moment.

    A turn that told of a document or a value which its reader may no longer view shows nothing but that.
    """
    outcome = turn.outcome
    rows = shown if shown is not None else _visible(index, gate, outcome, vocabulary)
    if rows is None:
        return _shape(turn, _withdrawn(turn.text, outcome), None, []) | {"notice": GONE}
    decision = outcome.decision
    query = decision.search_value or decision.rewritten_query
    text = None
    if outcome.answer_source == "model" and answer is not None:
        text = answer.text
    elif outcome.answer_source is not None:
        found = extractive(query, numbered(rows), index.language)
        text = found.text if found is not None else None
    elif outcome.status == "not_found":
        text = NOT_FOUND
    elif outcome.status == "no_match":
        text = HELP if decision.route == "general.help" else NO_MATCH
    results = [
        _result(index, decision, query, rank, found, row)
        for rank, (found, row) in enumerate(zip(outcome.results, rows, strict=True), start=1)
    ]
    return _shape(turn, outcome, text, results)


def _visible(index: ScopedIndex, gate: Gate, outcome: Outcome, vocabulary: Vocabulary) -> list[ChunkRow] | None:
    """The rows of a turn of which everything may still be seen; None where anything may not."""
    may = gate.allowed(outcome.documents)
    if not all(doc_id in may for doc_id in outcome.documents) or not still_known(outcome, vocabulary):
        return None
    rows = rows_of(index, outcome.results)
    return rows if len(rows) == len(outcome.results) else None


def rows_of(index: ScopedIndex, results: Sequence[Found]) -> list[ChunkRow]:
    """The chunk behind each result; those that are gone are left out. A row matched by filter shows its first."""
    numbers = []
    for found in results:
        chunks = index.chunks_of(found.doc_id)
        n = int(found.chunk_id.rpartition("#")[2]) if found.chunk_id is not None else 0
        if n < len(chunks):
            numbers.append(int(chunks[n]))
    return index.rows(numbers)


def numbered(rows: Sequence[ChunkRow]) -> list[Passage]:
    """The results as an answer may quote them, numbered as they are shown."""
    return [
        Passage(n, row.chunk_id, row.doc_id, row.title, row.heading, row.text, row.metadata)
        for n, row in enumerate(rows, start=1)
    ]


def _result(
    index: ScopedIndex, decision: RouterDecision, query: str, rank: int, found: Found, row: ChunkRow
) -> dict[str, Any]:
    by_filter = decision.strategy is SearchStrategy.METADATA_ONLY
    return {
        "rank": rank,
        "doc_id": row.doc_id,
        "chunk_id": found.chunk_id,
        "title": row.title,
        "excerpt": marked_excerpt(row.text, "" if by_filter else query, index.language) or row.title,
        "reason": reason(
            row,
            "" if by_filter else query,
            decision.filters,
            index.language,
            by_meaning=found.relevance_source in ("cosine", "reranker"),
        ),
        "relevance": found.relevance,
        "relevance_source": found.relevance_source,
        "metadata": {name: value for name, value in row.metadata.items() if name not in RESERVED},
        "citation": None if by_filter else f"[{rank}]",
    }


def _shape(turn: Turn, outcome: Outcome, text: str | None, results: list[dict[str, Any]]) -> dict[str, Any]:
    decision = outcome.decision
    pinned = {demand.field for demand in outcome.pinned}
    source = _SOURCES[outcome.planner]
    return {
        "thread_id": turn.thread_id,
        "run_id": turn.run_id,
        "route": decision.route,
        "strategy": decision.strategy.value,
        "planner": outcome.planner,
        "rewritten_query": decision.rewritten_query,
        "filters": [
            demand.model_dump(mode="json") | {"source": "reader" if demand.field in pinned else source}
            for demand in decision.filters
        ],
        "status": outcome.status,
        "answer": text,
        "answer_source": outcome.answer_source,
        "question": decision.question,
        "options": decision.options,
        "results": results,
        "judgment": outcome.judgment.model_dump() if outcome.judgment is not None else None,
        "notice": ESCALATED if outcome.approval_id is not None else None,
        "removed_citations": outcome.removed_citations,
        "next_cursor": outcome.next_cursor,
        "usage": outcome.usage.model_dump(),
    }


def _withdrawn(text: str, outcome: Outcome) -> Outcome:
    """Nothing of the turn but the reader's own words: a filter may name a value that only hidden documents have."""
    decision = RouterDecision(route=outcome.decision.route, rewritten_query=text, strategy=outcome.decision.strategy)
    return Outcome(decision=decision, planner=outcome.planner, status="not_found")
