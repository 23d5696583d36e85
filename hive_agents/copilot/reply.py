"""Outcomes of turns, with a judged answer, and their rendering, which checks permissions every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from hive_agents.access import RESERVED, ViewGate
from hive_agents.base import count
from hive_agents.copilot.answer import Answer, Passage, grounded, numbered
from hive_agents.copilot.asking import passage_weights, weights_in
from hive_agents.copilot.documents import ordered
from hive_agents.copilot.figures import cell_in, tallied
from hive_agents.copilot.foreign import searched_for
from hive_agents.copilot.language import spoken
from hive_agents.copilot.notices import notice
from hive_agents.copilot.outcome import AnswerJudgment, Result, TurnOutcome, TurnStatus, TurnUsage
from hive_agents.copilot.passages import BETWEEN, FOLDED, UNFOLDED, WINDOWS, NearChunk, Window, reason, windows
from hive_agents.copilot.plan import FieldTally, RouterDecision, SearchStrategy
from hive_agents.copilot.session import MOST_ASKED, Conclusion, TurnSession
from hive_agents.copilot.steps import how_many, leaves_out, matching
from hive_agents.copilot.threads import ModelAnswer, Turn
from hive_agents.copilot.unknown import mended, still_known, unknown_version, unknown_words
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.index import ChunkRow, ScopedIndex
from hive_agents.models import Chain, ModelError

if TYPE_CHECKING:
    from hive_agents.copilot.dropped import DroppedFiles
    from hive_agents.copilot.evidence import Judged

LIMITED = "Results are limited to documents that you can open."
GONE = "This answer is no longer available."
TOO_MANY = f"These are more than {MOST_ASKED:,} documents, which I can't count for you; ask about fewer."
NOT_FOUND = "I found nothing that answers this."
HELP = (
    "Ask me about the documents that you can open: a question in your own words, a list by their fields, or both. "
    "Each answer names the passages that it rests on."
)
NO_MATCH = "I find things in the documents that you can open. What are you looking for?"

_UNSEARCHED: Mapping[SearchStrategy, TurnStatus] = {
    SearchStrategy.NO_MATCH: "no_match",
    SearchStrategy.NEEDS_CLARIFICATION: "needs_clarification",
}
_lines: WeakKeyDictionary[ScopedIndex, dict[str, list[int]]] = WeakKeyDictionary()
_SOURCES = {"deterministic": "router", "fallback": "router", "model": "planner"}


async def finalize(session: TurnSession, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outcome of a turn whose results have passed the gate, with an answer that was judged."""
    decision = RouterDecision.model_validate(state["decision"])
    gated = [Result.model_validate(result) for result in state.get("results", [])]
    results = await _with_canary(session, decision, gated)
    rows = rows_of(session.index, results)
    removed = 0
    if results and decision.strategy is not SearchStrategy.METADATA_ONLY:
        session.conclusion, removed = await _answered(session, decision, rows)
    else:
        session.conclusion = Conclusion(rows, outage=session.outage)
    if session.gate.fault is not None:
        session.trace.notes.append(f"permissions: {session.gate.fault}")
    meter, usage = session.meter, session.meter.usage
    session.trace.models = meter.to_json() if meter.calls else {}
    found = results or session.in_files
    searched: TurnStatus = "unavailable" if session.conclusion.outage else "results" if found else "not_found"
    outcome = TurnOutcome(
        decision=decision,
        doc_id=state.get("doc_id"),
        planner=state["planner"],
        pinned=session.request.pinned,
        status=_UNSEARCHED.get(decision.strategy, searched),
        results=results,
        files=session.in_files,
        next_cursor=state.get("next_cursor"),
        named=session.vocabulary.named_in(decision, session.request.text),
        shared=session.vocabulary.shared(
            [demand for demand in decision.filters if demand not in session.request.pinned], session.request.text
        ),
        corrected=session.corrected,
        count=None if state.get("tally") is not None else how_many(session, decision),
        by_words=session.by_words,
        by_own_index=session.by_own_index,
        away_since=session.away_since,
        removed_citations=removed,
        unfold=session.request.unfold,
        tally=FieldTally.model_validate(state["tally"]) if _is_tallied(session, decision, state) else None,
        usage=TurnUsage(
            model_calls=meter.calls,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            usd=usage.usd,
        ),
    )
    answer, judged = session.conclusion.answer, session.conclusion.judged
    if outcome.status in ("results", "not_found"):
        version, words = _unknown(session, decision, rows)
        left_out = not found and session.knows_all and leaves_out(session, decision)
        update = {"unknown_version": version, "unknown": words, "left_out": left_out}
        outcome = outcome.model_copy(update=update | {"by_meaning": _by_meaning(session, decision, results, words)})
    if judged is not None:
        judgment = judged.judgment
        shown = AnswerJudgment(action=judgment.action.value, escalation_reason=judgment.escalation_reason)
        changes: dict[str, Any] = {"status": "rejected", "judgment": shown}
        if answer is not None:
            rests_on = list(dict.fromkeys(row.doc_id for row in rows))
            changes |= {"status": "answered", "answer_source": "model", "rests_on": rests_on}
        outcome = outcome.model_copy(update=changes)
    return {"outcome": outcome.model_dump(mode="json")}


def _is_tallied(session: TurnSession, decision: RouterDecision, state: Mapping[str, Any]) -> bool:
    """Return whether a figure over the listed documents is asked for, and the list is still the one it is over."""
    listed = decision.strategy is SearchStrategy.METADATA_ONLY and decision.route == "documents.search"
    return state.get("tally") is not None and listed and not session.request.cursor


def _unknown(session: TurnSession, decision: RouterDecision, rows: Sequence[ChunkRow]) -> tuple[str | None, list[str]]:
    """Return an unknown version and the reader's other unknown words; neither unless `knows_all`."""
    if not session.knows_all:
        return None, []
    asked, texts = mended(session.request.text, session.corrected), [row.text for row in rows]
    if session.files is not None:
        texts += session.files.texts(session.in_files, session.index.language)
    version = unknown_version(session.known, session.vocabulary, asked, texts, today=session.today)
    if decision.strategy is SearchStrategy.METADATA_ONLY:
        return version, []
    words = unknown_words(session.known, session.vocabulary, asked, texts)
    if decision.filters:  # words of filters need not be in a text: "published since 2024"
        searched = set(spoken(decision.query).split())
        words = [word for word in words if word.lower() in searched]
    return version, [word for word in words if word != version]


def _by_meaning(
    session: TurnSession, decision: RouterDecision, results: Sequence[Result], unknown: Sequence[str]
) -> Literal["words", "language"] | None:
    """Return why results were found by meaning: no document has the question's words, or it is in another language."""
    if decision.strategy is SearchStrategy.METADATA_ONLY or not results or not session.knows_all:
        return None
    weights = weights_in(session.known, decision.query).values()
    known = sum(weight > 0 for weight in weights)
    if unknown and known * 2 < len(weights) and searched_for(session.index, decision.query) != decision.query:
        return "language"
    compared = any(result.relevance_source == "cosine" for result in results)
    return "words" if compared and not known else None


async def _with_canary(session: TurnSession, decision: RouterDecision, results: list[Result]) -> list[Result]:
    if not session.workspace.settings.canary.share:
        return results
    from hive_agents.copilot.drafting import drafted

    return await drafted(session, decision, results)


async def _answered(session: TurnSession, decision: RouterDecision, rows: list[ChunkRow]) -> tuple[Conclusion, int]:
    """Return the answer with its judgment, and how many citations of a model were removed.

    A model is asked once; without its answer, or when the judge sends it back, the passages stand alone.
    """
    query, passages = decision.query, numbered(rows)
    if session.outage:  # results of a degraded search are no ground for an answer
        return Conclusion(rows, outage=True), 0
    try:
        written = await _by_model(session, query, rows)
    except ModelError:
        return Conclusion(rows, outage=True), 0
    if written is None:
        return Conclusion(rows), 0
    removed = written.removed_citations
    if not written:
        return Conclusion(rows), removed
    judged = await _judged(session, query, written, passages, session.model("judge"))
    if judged is None:
        return Conclusion(rows, outage=True), removed
    if judged.sent_back:
        session.trace.notes.append(f"answer: the judge says {judged.judgment.action.value}")
        return Conclusion(rows, judged=judged), removed
    return Conclusion(rows, written, judged), removed


async def _judged(
    session: TurnSession, query: str, answer: Answer, passages: Sequence[Passage], model: Chain | None
) -> Judged | None:
    """Return the judgment on an answer; None where no model could judge it."""
    from hive_agents.copilot.evidence import judge_answer

    judged = await judge_answer(session.workspace, query, answer, passages, build=session.build_judge, model=model)
    if judged.judgment.outage:
        session.trace.notes.append("answer: no model could judge it")
        return None
    return judged


async def _by_model(session: TurnSession, query: str, rows: list[ChunkRow]) -> Answer | None:
    """Return a model's answer; None where no model is configured or its output is unusable.

    Raises: ModelError for an outage.
    """
    model = session.model("answer")
    if model is None:
        return None
    deadline = session.workspace.settings.models.deadline_seconds
    try:
        return await grounded(model, query, numbered(rows), deadline=deadline, workspace=session.workspace)
    except ModelError as error:
        session.trace.notes.append(f"answer: {error.kind}")
        if error.outage:
            raise
        return None


def render_reply(
    index: ScopedIndex,
    gate: ViewGate,
    turn: Turn,
    answer: ModelAnswer | None,
    vocabulary: Vocabulary,
    files: DroppedFiles,
    *,
    unfold: bool = False,
) -> dict[str, Any]:
    """Return the JSON of a turn as its reader may see it now; `answer` is the model's answer in it, `files` are those
    of its conversation.

    If the reader may no longer view one of its documents or values, all is withdrawn and `notice` is `GONE`.
    """
    outcome = turn.outcome
    rows = viewable_rows(index, gate, outcome, vocabulary)
    if rows is None:
        return _reply(turn, _withdrawn(turn.text, outcome), None, []) | {"notice": GONE}
    text = answer.text if outcome.answer_source is not None and answer is not None else None
    if outcome.tally is not None:
        text = _tallied(index, gate, outcome)
    return fresh_reply(index, turn, text, rows, vocabulary, files, unfold=unfold)


def _tallied(index: ScopedIndex, gate: ViewGate, outcome: TurnOutcome) -> str | None:
    """Return the figure over the documents that the reader may view now; of many these are those of the scope, which
    only a service that lists them tells."""
    assert outcome.tally is not None
    doc_ids = [doc_id for _, doc_id in ordered(index, matching(index, outcome.decision.filters))]
    if len(doc_ids) > MOST_ASKED and not gate.lists:
        return TOO_MANY
    may = gate.allowed(doc_ids) if len(doc_ids) <= MOST_ASKED else frozenset(doc_ids)
    rows = [row for row in index.documents() if row[0] in may]
    return tallied(outcome.tally, rows) if rows else None


def fresh_reply(
    index: ScopedIndex,
    turn: Turn,
    answer: str | None,
    rows: Sequence[ChunkRow],
    vocabulary: Vocabulary,
    files: DroppedFiles,
    *,
    unfold: bool = False,
) -> dict[str, Any]:
    """Return the JSON of a turn whose rows and answer have just passed the gate."""
    outcome = turn.outcome
    decision = outcome.decision
    if outcome.count is not None:
        answer = _counted(outcome.count, filtered=bool(decision.filters))
    elif outcome.status == "not_found":
        answer = NOT_FOUND
    elif outcome.status == "no_match":
        answer = HELP if decision.route == "general.help" else NO_MATCH
    elif answer is None and outcome.status == "results":
        titled = [(row.doc_id, row.title, row.metadata) for row in rows]
        answer = cell_in(decision.rewritten_query, vocabulary, titled)
    unfold = unfold or outcome.unfold
    results = result_rows(index, decision, outcome.results, rows, unfold=unfold)
    of_files = files.shown(outcome.files, decision.query, index.language, unfold=unfold)
    return _reply(turn, outcome, answer, results, of_files)


def viewable_rows(
    index: ScopedIndex, gate: ViewGate, outcome: TurnOutcome, vocabulary: Vocabulary
) -> list[ChunkRow] | None:
    """Return the rows of a turn; None where the reader may no longer view everything in it."""
    may = gate.allowed(outcome.documents)
    if not all(doc_id in may for doc_id in outcome.documents) or not outcome.names_known(vocabulary):
        return None
    if not still_known(index, outcome.corrected):
        return None
    rows = rows_of(index, outcome.results)
    return rows if len(rows) == len(outcome.results) else None


def rows_of(index: ScopedIndex, results: Sequence[Result]) -> list[ChunkRow]:
    """Return the chunk of each result that still exists; the document's first for a row matched by filter."""
    numbers = (_number(index, result.doc_id, result.chunk_id) for result in results)
    return index.rows([number for number in numbers if number is not None])


def _number(index: ScopedIndex, doc_id: str, chunk_id: str | None) -> int | None:
    chunks = index.chunks_of(doc_id)
    n = int(chunk_id.rpartition("#")[2]) if chunk_id is not None else 0
    return int(chunks[n]) if n < len(chunks) else None


def result_rows(
    index: ScopedIndex,
    decision: RouterDecision,
    results: Sequence[Result],
    rows: Sequence[ChunkRow],
    *,
    unfold: bool = False,
) -> list[dict[str, Any]]:
    """Return the JSON of results that have passed the gate, best first; `rows` are their chunks."""
    question = "" if decision.strategy is SearchStrategy.METADATA_ONLY else searched_for(index, decision.query)
    weights = passage_weights(index, question) if question else {}
    shown = []
    for rank, (result, row) in enumerate(zip(results, rows, strict=True), start=1):
        found = windows(
            _candidates(index, result),
            question,
            weights,
            index.language,
            length=UNFOLDED if unfold else FOLDED,
            most=WINDOWS if question else 1,
        )
        shown.append(_result_row(decision, question, index.language, rank, result, row, found))
    return shown


def _candidates(index: ScopedIndex, result: Result) -> list[NearChunk]:
    """Return the chunks that a result's windows are taken from, those that still exist."""
    numbers = {_number(index, result.doc_id, chunk_id): cosine for chunk_id, cosine in result.near.items()}
    numbers.pop(None, None)
    if not numbers and (number := _number(index, result.doc_id, result.chunk_id)) is not None:
        numbers = {number: 0.0}
    before = _lines_before(index, result.doc_id)
    chunks = index.chunks_of(result.doc_id).tolist()
    rows = index.rows([number for number in numbers if number is not None])
    return [
        NearChunk(one, cosine, before[chunks.index(number)] - one.text[: one.head].count("\n"))
        for one, (number, cosine) in zip(rows, numbers.items(), strict=True)
    ]


def _lines_before(index: ScopedIndex, doc_id: str) -> list[int]:
    """Return how many lines of a document's text stand before each of its chunks; cached for each scope."""
    counts = _lines.setdefault(index, {})
    if doc_id not in counts:
        texts = [row.in_document for row in index.rows(index.chunks_of(doc_id).tolist())]
        counts[doc_id] = list(accumulate((len(text.splitlines()) + 1 for text in texts[:-1]), initial=0))
    return counts[doc_id]


def _result_row(
    decision: RouterDecision,
    question: str,
    language: str,
    rank: int,
    result: Result,
    row: ChunkRow,
    found: Sequence[Window],
) -> dict[str, Any]:
    compared = result.relevance_source in ("cosine", "reranker")
    best = next((window for window in found if window.best), None)
    return {
        "rank": rank,
        "doc_id": row.doc_id,
        "chunk_id": result.chunk_id,
        "title": row.title,
        "excerpt": BETWEEN.join(window.marked for window in found) or row.title,
        "windows": [window.to_json() for window in found],
        "reason": reason(best, row, question, decision.filters, language, by_meaning=compared),
        "relevance": result.relevance,
        "relevance_source": result.relevance_source,
        "metadata": {name: value for name, value in row.metadata.items() if name not in RESERVED},
        "citation": None if decision.strategy is SearchStrategy.METADATA_ONLY else f"[{rank}]",
    }


def _reply(
    turn: Turn,
    outcome: TurnOutcome,
    answer: str | None,
    results: list[dict[str, Any]],
    files: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return the JSON of a reply; only one with passages of the reader's own files has `files`."""
    decision = outcome.decision
    pinned = {demand.field for demand in outcome.pinned}
    source = _SOURCES[outcome.planner]
    return ({"files": list(files)} if files else {}) | {
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
        "answer": answer,
        "answer_source": outcome.answer_source,
        "question": decision.question,
        "options": decision.options,
        "results": results,
        "judgment": outcome.judgment.model_dump() if outcome.judgment is not None else None,
        "notice": notice(outcome, results),
        "removed_citations": outcome.removed_citations,
        "next_cursor": outcome.next_cursor,
        "usage": outcome.usage.model_dump(),
    }


def _counted(number: int, *, filtered: bool) -> str:
    """Return the answer to "how many".

    >>> [_counted(number, filtered=number == 1) for number in (0, 1)]
    ['There are no documents that you can open.', 'There is 1 such document that you can open.']
    """
    noun = "such document" if filtered else "document"
    documents = count(number, noun) if number else f"no {noun}s"
    return f"There {'is' if number == 1 else 'are'} {documents} that you can open."


def told_before(results: Sequence[dict[str, Any]]) -> list[int | None]:
    """Return for each result of a reply the rank of an earlier one with the same title and excerpt, else None.

    A page in several releases repeats its passage, which a list should show once.

    >>> told_before([{"rank": n, "title": "Keys", "excerpt": text} for n, text in enumerate(("a", "b", "a"), start=1)])
    [None, None, 1]
    """
    first: dict[tuple[str, str], int] = {}
    ranks = [first.setdefault((one["title"], one["excerpt"]), one["rank"]) for one in results]
    return [rank if rank != one["rank"] else None for rank, one in zip(ranks, results, strict=True)]


def _withdrawn(text: str, outcome: TurnOutcome) -> TurnOutcome:
    """Return an outcome with only the reader's words: a filter may name a value that only hidden documents have."""
    decision = RouterDecision(route=outcome.decision.route, rewritten_query=text, strategy=outcome.decision.strategy)
    return TurnOutcome(decision=decision, planner=outcome.planner, status="not_found")
