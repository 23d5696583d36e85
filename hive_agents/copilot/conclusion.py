"""The end of a turn: what is answered, and what the judge says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hive_agents.copilot.answer import Answer, grounded, numbered
from hive_agents.copilot.evidence import judge_answer
from hive_agents.copilot.extract import extractive
from hive_agents.copilot.outcome import AnswerJudgment, Result, TurnOutcome, TurnStatus, TurnUsage, named_values
from hive_agents.copilot.plan import RouterDecision, SearchStrategy
from hive_agents.copilot.reply import rows_of
from hive_agents.copilot.session import Conclusion, TurnSession
from hive_agents.judging import JudgmentAction
from hive_agents.llm import ModelError
from hive_agents.retrieval.lanes import ChunkRow

_UNSEARCHED: Mapping[SearchStrategy, TurnStatus] = {
    SearchStrategy.NO_MATCH: "no_match",
    SearchStrategy.NEEDS_CLARIFICATION: "needs_clarification",
}


async def finalize(session: TurnSession, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outcome of a turn whose results have passed the gate; an answer is judged before it is read."""
    decision = RouterDecision.model_validate(state["decision"])
    results = [Result.model_validate(result) for result in state.get("results", [])]
    rows = rows_of(session.index, results)
    removed = 0
    if results and decision.strategy is not SearchStrategy.METADATA_ONLY:
        session.conclusion, removed = await _answered(session, decision.query, rows)
    else:
        session.conclusion = Conclusion(rows)
    if session.gate.fault is not None:
        session.trace.notes.append(f"permissions: {session.gate.fault}")
    meter, usage = session.meter, session.meter.usage
    session.trace.models = meter.to_json()
    outcome = TurnOutcome(
        decision=decision,
        doc_id=state.get("doc_id"),
        planner=state["planner"],
        pinned=session.request.pinned,
        status=_UNSEARCHED.get(decision.strategy, "results" if results else "not_found"),
        results=results,
        next_cursor=state.get("next_cursor"),
        named=named_values(decision, session.request.text, session.vocabulary),
        removed_citations=removed,
        usage=TurnUsage(
            model_calls=meter.calls,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            usd=usage.usd,
        ),
    )
    answer, judged = session.conclusion.answer, session.conclusion.judged
    if answer is not None and judged is not None:
        judgment = judged.judgment
        shown = AnswerJudgment(action=judgment.action.value, escalation_reason=judgment.escalation_reason)
        changes = {"status": "answered", "answer_source": answer.source, "judgment": shown}
        outcome = outcome.model_copy(update=changes | {"rests_on": list(dict.fromkeys(row.doc_id for row in rows))})
    return {"outcome": outcome.model_dump(mode="json")}


async def _answered(session: TurnSession, query: str, rows: list[ChunkRow]) -> tuple[Conclusion, int]:
    """Return the answer with its judgment, and how many citations of a model were removed.

    A turn asks a model for one answer: what it doesn't give, or the judge sends back, are the documents' own words.
    """
    passages, build, removed = numbered(rows), session.build_judge, 0
    written = await _by_model(session, query, rows)
    if written is not None:
        removed = written.removed_citations
    if written:
        judge = session.model("judge")
        judged = await judge_answer(session.workspace, query, written, passages, build=build, model=judge)
        if judged.judgment.action not in (JudgmentAction.RETRY, JudgmentAction.REPLAN):
            return Conclusion(rows, written, judged), removed
        session.trace.notes.append(f"answer: the judge says {judged.judgment.action.value}")
    quoted = extractive(query, passages, session.index.language)
    if quoted is None:
        return Conclusion(rows), removed
    judge = None if written else session.model("judge")
    judged = await judge_answer(session.workspace, query, quoted, passages, build=build, model=judge)
    return Conclusion(rows, quoted, judged), removed


async def _by_model(session: TurnSession, query: str, rows: list[ChunkRow]) -> Answer | None:
    model = session.model("answer")
    if model is None:
        return None
    deadline = session.workspace.settings.models.deadline_seconds
    try:
        return await grounded(model, query, numbered(rows), deadline=deadline, workspace=session.workspace)
    except ModelError as error:
        session.trace.notes.append(f"answer: {error.kind}")
        return None
