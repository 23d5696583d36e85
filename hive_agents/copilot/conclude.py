"""The end of a turn: what is answered, and what the judge says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hive_agents.copilot.answers import Answer, Passage, extractive, grounded
from hive_agents.copilot.history import named_values
from hive_agents.copilot.outcome import Found, Outcome, Status, Usage, Verdict
from hive_agents.copilot.plan import RouterDecision, SearchStrategy
from hive_agents.copilot.reply import numbered, rows_of
from hive_agents.copilot.session import TurnSession
from hive_agents.copilot.threads import ModelAnswer
from hive_agents.copilot.verdicts import Judged, judge_answer
from hive_agents.judging import JudgmentAction
from hive_agents.llm import Chain, ModelError

_UNSEARCHED: Mapping[SearchStrategy, Status] = {
    SearchStrategy.NO_MATCH: "no_match",
    SearchStrategy.NEEDS_CLARIFICATION: "needs_clarification",
}


async def conclude(session: TurnSession, decision: RouterDecision, state: Mapping[str, Any]) -> Outcome:
    """The outcome of a turn whose results have passed the gate."""
    results = [Found.model_validate(found) for found in state.get("results", [])]
    session.shown = rows_of(session.index, results)
    base = Outcome(
        decision=decision,
        doc_id=state.get("doc_id"),
        planner=state["planner"],
        pinned=session.request.pinned,
        status=_UNSEARCHED.get(decision.strategy, "results" if results else "not_found"),
        results=results,
        next_cursor=state.get("next_cursor"),
        named=named_values(decision, session.request.text, session.vocabulary),
    )
    changes: dict[str, Any] = {}
    if results and decision.strategy is not SearchStrategy.METADATA_ONLY:
        changes = await _answered(session, decision)
    if session.gate.fault is not None:
        session.trace.notes.append(f"permissions: {session.gate.fault}")
    meter = session.meter
    session.trace.models = meter.to_json()
    usage = Usage(
        model_calls=meter.calls,
        input_tokens=meter.usage.input_tokens,
        output_tokens=meter.usage.output_tokens,
        usd=meter.usage.usd,
    )
    return base.model_copy(update=changes | {"usage": usage})


async def _answered(session: TurnSession, decision: RouterDecision) -> dict[str, Any]:
    query = decision.search_value or decision.rewritten_query
    passages = numbered(session.shown)
    quoted = extractive(query, passages, session.index.language)
    said = await _by_model(session, query, passages)
    answer = said or quoted
    removed = said.removed_citations if said is not None else 0
    if answer is None:
        return {"removed_citations": removed}
    judged = await _judged(session, query, answer, passages, session.model("judge"))
    if answer is said and judged.judgment.action in (JudgmentAction.RETRY, JudgmentAction.REPLAN):
        # A turn asks for one answer: what the judge sends back gives way to the documents' own words.
        session.trace.notes.append(f"answer: the judge says {judged.judgment.action.value}")
        if quoted is None:
            return {"removed_citations": removed}
        answer, judged = quoted, await _judged(session, query, quoted, passages, None)
    session.judged = judged
    judgment = judged.judgment
    if answer.source == "model":
        session.answer = ModelAnswer(answer.text, tuple(dict.fromkeys(passage.doc_id for passage in passages)))
    return {
        "status": "answered",
        "answer_source": answer.source,
        "rests_on": list(dict.fromkeys(passage.doc_id for passage in passages)),
        "removed_citations": removed,
        "judgment": Verdict(action=judgment.action.value, escalation_reason=judgment.escalation_reason),
    }


async def _judged(
    session: TurnSession, query: str, answer: Answer, passages: Sequence[Passage], model: Chain | None
) -> Judged:
    return await judge_answer(session.workspace, query, answer, passages, build=session.build_judge, model=model)


async def _by_model(session: TurnSession, query: str, passages: Sequence[Passage]) -> Answer | None:
    model = session.model("answer")
    if model is None:
        return None
    deadline = session.workspace.settings.models.deadline_seconds
    try:
        return await grounded(model, query, passages, deadline=deadline, workspace=session.workspace)
    except ModelError as error:
        session.trace.notes.append(f"answer: {error.kind}")
        return None
