"""The steps of a turn, one for each node: (session, state) → update of the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hive_agents.access import permissions_of
from hive_agents.base import NoModel
from hive_agents.copilot.documents import conditions, meeting, ordered, page_of, require_known
from hive_agents.copilot.language import clean, every_pattern, in_english
from hive_agents.copilot.outcome import RelevanceSource, Result
from hive_agents.copilot.passages import best_chunks
from hive_agents.copilot.plan import BY_ROW, DocumentFilter, Routed, RouterDecision, SearchStrategy
from hive_agents.copilot.roles import role_of
from hive_agents.copilot.router import route as route_by_words, without_politeness
from hive_agents.copilot.sentence import asks_how_many
from hive_agents.copilot.session import MOST_ASKED, Candidates, TurnSession, may_open
from hive_agents.copilot.unknown import corrections, mended
from hive_agents.index import Mask, ScopedIndex
from hive_agents.models import ModelError
from hive_agents.workspace import is_trusted

TurnState = Mapping[str, Any]
TurnUpdate = dict[str, Any]
GATE_BATCH = 50
PASSAGES = 5
"""How many documents, the first, are shown by the best windows among all of their chunks."""


async def rewrite(session: TurnSession, _: TurnState) -> TurnUpdate:
    """Return the plan, by one planner call; without a planner or when it fails, by the deterministic router."""
    request, planner = session.request, "deterministic"
    model = session.model("planner") if session.settings.planner == "auto" else None
    if model is not None:
        from hive_agents.copilot.planner import PlanFault, plan_with_model

        try:
            routed = await plan_with_model(
                model,
                request.text,
                session.vocabulary,
                reader=session.reader.user,
                today=session.today,
                history=session.past,
                doc_id=request.doc_id,
                deadline=session.workspace.settings.models.deadline_seconds,
                workspace=session.workspace,
            )
            return _planned(routed, "model")
        except (PlanFault, ModelError) as fault:
            planner = "fallback"
            session.trace.notes.append(f"planner: {_kind(fault)}")
    routed = _by_words(session, request.text)
    if routed.decision.strategy.retrieves and routed.decision.strategy is not SearchStrategy.METADATA_ONLY:
        session.corrected = _corrections(session, routed.decision.query)
        if session.corrected:  # a value may have been mistyped, and filters as what was meant
            routed = _by_words(session, mended(request.text, session.corrected))
    return _planned(routed, planner)


def _by_words(session: TurnSession, text: str) -> Routed:
    return route_by_words(
        text, session.vocabulary, reader=session.reader.user, today=session.today, history=session.past
    )


def _kind(fault: Exception) -> str:
    """Return what went wrong, without a model's words: they may quote a document, and a trace must not."""
    error = fault if isinstance(fault, ModelError) else fault.__cause__
    return error.kind if isinstance(error, ModelError) else "no plan that can be followed"


def _planned(routed: Routed, planner: str) -> TurnUpdate:
    return {
        "decision": routed.decision.model_dump(mode="json"),
        "doc_id": routed.doc_id,
        "planner": planner,
        "tally": None if routed.tally is None else routed.tally.model_dump(),
    }


async def route(session: TurnSession, state: TurnState) -> TurnUpdate:
    """Return the plan with the request's document and filters applied, and typing mistakes corrected."""
    decision, doc_id = decision_of(state), session.request.doc_id or state["doc_id"]
    if doc_id is not None and decision.route != "general.help":
        decision = _about_document(decision, text=session.request.text if session.request.doc_id else None)
    if session.request.dropped:
        decision = _without(decision, session.request.dropped)
    if session.request.pinned:
        decision = _with_pinned(decision, session.request.pinned)
    if state["planner"] != "model":
        decision = _of_one_product(session, decision)
    if decision.strategy.retrieves and decision.strategy is not SearchStrategy.METADATA_ONLY:
        decision = _spelt(session, decision)
    session.trace.strategy = decision.strategy.value
    depth = session.config.retrieval.candidates if decision.strategy.retrieves else 0
    return {"decision": decision.model_dump(mode="json"), "doc_id": doc_id, "depth": depth, "results": []}


def _of_one_product(session: TurnSession, decision: RouterDecision) -> RouterDecision:
    """Return the plan without its filters on versions where they exclude all that the others leave.

    Such a version is another product's, and only a word of the question.
    """
    pinned = session.request.pinned
    versions = [one for one in decision.filters if role_of(one.field) == "version" and one not in pinned]
    others = [one for one in decision.filters if one not in versions]
    if not versions or not others or _universe(session, decision.filters).any():
        return decision
    if not _universe(session, others).any():
        return decision
    changes = {"filters": others, "strategy": SearchStrategy.HYBRID, "search_value": decision.rewritten_query}
    return decision.model_copy(update=changes)


def _spelt(session: TurnSession, decision: RouterDecision) -> RouterDecision:
    """Return the plan with typing mistakes corrected to words of documents that the reader may certainly view."""
    session.corrected = session.corrected | _corrections(session, decision.query)
    search = decision.search_value
    return decision.model_copy(
        update={
            "rewritten_query": mended(decision.rewritten_query, session.corrected),
            "search_value": search if search is None else mended(search, session.corrected),
        }
    )


def _corrections(session: TurnSession, text: str) -> dict[str, str]:
    """Return the `corrections` of words that no file of the conversation has either."""
    found, files, language = corrections(session.known, text), session.files, session.index.language
    return {word: meant for word, meant in found.items() if files is None or not files.has(word, language)}


def _without(decision: RouterDecision, fields: Sequence[str]) -> RouterDecision:
    """Return the plan without the filters on these fields."""
    kept = [demand for demand in decision.filters if demand.field not in fields]
    unfiltered = decision.strategy is SearchStrategy.HYBRID and not kept
    changes = {"strategy": SearchStrategy.CONTENT_ONLY} if unfiltered else {}
    return decision.model_copy(update={"filters": kept, **changes})


def _with_pinned(decision: RouterDecision, pinned: Sequence[DocumentFilter]) -> RouterDecision:
    """Return the plan with the reader's filters; with them, even an unclear question has a list as its result."""
    if decision.route == "general.help":
        return decision
    fields = {demand.field for demand in pinned}
    kept = [demand for demand in decision.filters if demand.field not in fields]
    changes: dict[str, Any] = {"filters": [*pinned, *kept]}
    if decision.strategy is SearchStrategy.NEEDS_CLARIFICATION:
        changes |= {"strategy": SearchStrategy.METADATA_ONLY, "search_value": None, "question": None, "options": []}
    elif decision.strategy is SearchStrategy.CONTENT_ONLY and decision.route == "documents.search":
        changes["strategy"] = SearchStrategy.HYBRID
    return decision.model_copy(update=changes)


def _about_document(decision: RouterDecision, text: str | None) -> RouterDecision:
    """Return the plan within one document: its passages, or where nothing is searched for, the document itself."""
    search = decision.search_value or text
    strategy = SearchStrategy.METADATA_ONLY if search is None else SearchStrategy.CONTENT_ONLY
    changes: dict[str, Any] = {"strategy": strategy, "search_value": search, "filters": []}
    return decision.model_copy(update=changes | {"route": "documents.doc_context", "question": None, "options": []})


def retrieves(state: TurnState) -> bool:
    """Return whether the plan searches for anything."""
    return decision_of(state).strategy.retrieves


async def retrieve(session: TurnSession, state: TurnState) -> TurnUpdate:
    """Find candidates by the turn's strategy, within the reader's scope: in this host's own index where the engine of
    words fails, by words alone where vectors fail."""
    return session.despite_outage(lambda: _retrieved(session, state))


def _retrieved(session: TurnSession, state: TurnState) -> TurnUpdate:
    decision = decision_of(state)
    session.found, session.in_files = Candidates(), []
    if decision.strategy is SearchStrategy.METADATA_ONLY:
        return _rows(session, decision, state["doc_id"])
    if decision.route == "documents.doc_context":
        return _inside_document(session, decision, state["doc_id"])
    if session.files is not None:
        # Filters are about fields, which no file has: it takes part whatever they are.
        session.in_files = session.files.search(decision.query, session.index.language)
    query, config = session.searched(decision.query)
    if decision.strategy is SearchStrategy.HYBRID:
        if session.universe is None:
            session.universe = _universe(session, decision.filters)
        from hive_agents.ranking import adaptive

        candidates = adaptive(
            session.engine,
            session.index,
            query,
            config,
            session.universe,
            threshold=session.settings.hybrid_threshold,
            overfetch=session.settings.overfetch,
            depth=state["depth"],
            count=session.count,
        )
        search, session.count = candidates.search, candidates.count
        session.trace.hybrid = {"branch": candidates.branch, "count": candidates.count}
    else:
        search = session.engine.retrieve(session.index, query, config, depth=state["depth"])
    session.found.search = search
    return {"candidates": len(search.fused)}


def _rows(session: TurnSession, decision: RouterDecision, doc_id: str | None) -> TurnUpdate:
    matching = _universe(session, decision.filters) if doc_id is None else _document(session, doc_id, decision)
    cursor = session.request.cursor
    after = session.cursors(decision.filters).read(cursor) if cursor else None
    session.found.rows = ordered(session.index, matching, after)
    return {"candidates": len(session.found.rows)}


def _inside_document(session: TurnSession, decision: RouterDecision, doc_id: str) -> TurnUpdate:
    """Search one document, once view permission and the reader's filters have been checked."""
    inside = _document(session, doc_id, decision)
    may = may_open(session.workspace, session.index, session.gate, doc_id)
    chunks = np.flatnonzero(inside) if may else np.empty(0, np.intp)
    if not len(chunks):
        return {"candidates": 0}
    if every_pattern("whole_document", r"\W*(?:{})\W*").fullmatch(session.request.text):
        # No passage matches "summarize this"; a document's beginning is its best summary.
        session.found.opening = session.index.rows(chunks[: session.settings.top_k].tolist())
        return {"candidates": len(session.found.opening)}
    query, config = session.searched(decision.query)
    config = config.model_copy(update={"filters": {}})
    session.found.search = session.engine.retrieve(session.index, query, config, within=inside)
    return {"candidates": len(session.found.search.fused)}


def _document(session: TurnSession, doc_id: str, decision: RouterDecision) -> Mask:
    """Return the chunks of one document in scope; none where it doesn't meet the filters."""
    inside = session.index.only([doc_id])
    return inside & _universe(session, decision.filters) if decision.filters else inside


def _universe(session: TurnSession, filters: Sequence[DocumentFilter]) -> Mask:
    """Return the chunks in scope of the documents that meet every filter; only pinned ones must have known values."""
    require_known(session.known, session.request.pinned)
    return matching(session.index, filters)


def matching(index: ScopedIndex, filters: Sequence[DocumentFilter]) -> Mask:
    """Return the chunks of the documents that meet every filter."""
    masks = [mask for wanted in conditions(filters) if (mask := index.select(wanted, checked=True)) is not None]
    masks += [meeting(index, demand) for demand in filters if demand.op in BY_ROW]
    return np.logical_and.reduce(masks) if masks else index.only(index.doc_ids())


def leaves_out(session: TurnSession, decision: RouterDecision) -> bool:
    """Return whether documents meet the plan's filters, but none of them meets those of the active config."""
    searched = session.known.select(session.config.conditions, checked=True)
    if searched is None or decision.strategy is not SearchStrategy.HYBRID:
        return False
    found = matching(session.known, decision.filters)
    return bool(found.any()) and not (found & searched).any()


async def rerank(session: TurnSession, _: TurnState) -> TurnUpdate:
    """Rerank the candidates of a search, only those that pass the gate unless the settings say otherwise."""
    search = session.found.search
    if search is not None and session.config.rerank.enabled:
        before = session.settings.rerank_before_gate and is_trusted(session.workspace, "copilot.rerank_before_gate")
        allowed = None if before else session.gate.allowed
        try:
            session.found.search = session.engine.rerank(session.index, search, session.config, allowed=allowed)
        except NoModel as error:
            session.without_reranker(error)
    return {}


async def permission_gate(session: TurnSession, state: TurnState) -> TurnUpdate:
    """Return the results that the reader may view now, cut to `top_k`; `short` asks for a deeper search."""
    search, top_k = session.found.search, session.config.retrieval.top_k
    if decision_of(state).strategy is SearchStrategy.METADATA_ONLY:
        return _gated_rows(session, state)
    if search is None:
        may = session.gate.allowed([row.doc_id for row in session.found.opening])
        opening = [Result(doc_id=r.doc_id, chunk_id=r.chunk_id) for r in session.found.opening if r.doc_id in may]
        return {"results": [result.model_dump() for result in opening], "short": False}
    doc_ids = session.index.documents_of(search.fused.chunks)
    kept = np.zeros(len(doc_ids), np.bool_)
    gated = 0
    while gated < len(search.order) and kept.sum() <= top_k and session.gate.fault is None:
        # Usually nothing is denied, and one small request is enough.
        batch = search.order[gated : gated + (GATE_BATCH if gated else 2 * top_k)].tolist()
        may = session.gate.allowed([doc_ids[position] for position in batch])
        for position in batch:
            kept[position] = doc_ids[position] in may
        gated += len(batch)
    session.trace.counts |= {"gated": gated, "allowed": int(kept.sum())}
    if kept.sum() < min(top_k, gated) and _may_look_deeper(session, state):
        return {"short": True, "depth": state["depth"] * 2}
    session.found.search = session.engine.finish(search, session.config, kept=kept)
    return {"results": [result.model_dump() for result in _results(session, state)], "short": False}


def _may_look_deeper(session: TurnSession, state: TurnState) -> bool:
    """Return whether a deeper search could replace what the gate dropped."""
    assert session.found.search is not None
    if session.gate.fault is not None:
        return False
    full = any(len(lane.chunks) >= state["depth"] for lane in session.found.search.of.lanes.values())
    return decision_of(state).route == "documents.search" and full and state["depth"] < session.index.n_chunks


def _results(session: TurnSession, state: TurnState) -> list[Result]:
    """Return each document once, by its best passage, unless the question is about one document.

    Its relevance is that of its first chunk in the ranking. Repeats are removed after the cut, not before: evaluations
    measure the list with repeats.
    """
    search = session.found.search
    assert search is not None
    floors, reranked = session.settings.relevance_floor, session.config.rerank.enabled
    source: RelevanceSource = "reranker" if reranked else "cosine"
    floor = floors.reranker if reranked else floors.cosine
    positions = search.order[: search.cut.at].tolist()
    chunks = search.fused.chunks[positions]

    def measured() -> list[float | None]:
        if session.index.embedding_model is None or not len(chunks) or session.by_words:
            return [None] * len(positions)
        return list(session.index.vector_scores(search.of.text, chunks).tolist())

    from hive_agents.ranking import name_shares

    cosines = session.despite_outage(measured)
    # A row or an option that the question names may be opposed to it by meaning.
    named = name_shares(session.index, search.of.text, chunks) >= 1 if not reranked else np.zeros(len(chunks), np.bool_)
    index = session.index
    results: list[Result] = []
    seen: set[str] = set()
    doc_ids, chunk_ids = index.documents_of(chunks), index.chunk_ids(chunks)
    for position, doc_id, chunk_id, cosine, is_named in zip(positions, doc_ids, chunk_ids, cosines, named, strict=True):
        relevance = search.relevance.get(position) if reranked else cosine
        if relevance is not None and relevance < floor and not is_named:
            continue
        if state["decision"]["route"] == "documents.search" and doc_id in seen:
            continue
        seen.add(doc_id)
        results.append(
            Result(
                doc_id=doc_id,
                chunk_id=chunk_id,
                relevance=None if relevance is None else round(float(relevance), 4),
                relevance_source=source if relevance is not None else "none",
            )
        )
    results = results[: session.settings.top_k]
    if state["decision"]["route"] == "documents.search":
        return [*_by_best_passage(session, search.of.text, results[:PASSAGES]), *results[PASSAGES:]]
    return results


def _by_best_passage(session: TurnSession, query: str, results: Sequence[Result]) -> list[Result]:
    """Return the results, each with the chunks that its windows are taken from, of which it names the best."""
    if not results:
        return []
    doc_ids = [each.doc_id for each in results]
    found = session.despite_outage(lambda: best_chunks(session.index, doc_ids, query, by_meaning=not session.outage))
    index = session.index
    shown = []
    for each, chunks in zip(results, found, strict=True):
        chunk_ids = index.chunk_ids(np.array([chunk for chunk, _ in chunks], np.intp))
        near = dict(zip(chunk_ids, (cosine for _, cosine in chunks), strict=True))
        shown.append(each.model_copy(update={"chunk_id": chunk_ids[0], "near": near}))
    return shown


def _gated_rows(session: TurnSession, state: TurnState) -> TurnUpdate:
    page = page_of(session.found.rows, session.gate.allowed, session.settings.top_k)
    cursors = session.cursors(decision_of(state).filters)
    results = [Result(doc_id=doc_id, relevance_source="filter").model_dump() for doc_id in page.doc_ids]
    return {"results": results, "short": False, "next_cursor": cursors.write(page.next) if page.next else None}


def how_many(session: TurnSession, decision: RouterDecision) -> int | None:
    """Return how many documents that the reader may view meet the filters; None where that isn't asked or known.

    The permission service is asked about each, up to `MOST_ASKED`; beyond that only one that lists them is trusted.
    """
    request, rows = session.request, session.found.rows
    listed = decision.strategy is SearchStrategy.METADATA_ONLY and decision.route == "documents.search"
    # A follow-up of a count asks for one by the words that it was completed with.
    texts = (clean(request.text), decision.rewritten_query)
    counts = any(asks_how_many(in_english(without_politeness(text))) for text in texts)
    if not listed or request.cursor or not counts:
        return None
    if len(rows) > MOST_ASKED:
        return len(rows) if permissions_of(session.workspace).lists else None
    batches = (rows[start : start + GATE_BATCH] for start in range(0, len(rows), GATE_BATCH))
    counted = sum(len(session.gate.allowed([doc_id for _, doc_id in batch])) for batch in batches)
    return counted if session.gate.fault is None else None


async def run_search(session: TurnSession, decision: RouterDecision, doc_id: str | None = None) -> list[Result]:
    """Return the results of a plan by retrieve, rerank and permission_gate, outside of a graph."""
    state: TurnUpdate = {
        "decision": decision.model_dump(mode="json"),
        "doc_id": doc_id,
        "depth": session.config.retrieval.candidates,
        "short": True,
    }
    while state["short"]:
        for step in (retrieve, rerank, permission_gate):
            state |= await step(session, state)
    return [Result.model_validate(result) for result in state["results"]]


def decision_of(state: TurnState) -> RouterDecision:
    return RouterDecision.model_validate(state["decision"])
