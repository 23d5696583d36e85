"""The receipt of an answer: the passages it cites, of those that its reader may view, and how they were found."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from hive_agents.base import HiveError, sha256
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.drafting import interleaved, results_under
from hive_agents.copilot.outcome import Result, TurnOutcome
from hive_agents.copilot.reply import rows_of
from hive_agents.copilot.session import Request, TurnSession, log_mark, open_scope
from hive_agents.copilot.steps import permission_gate, rerank, retrieve
from hive_agents.gate import canary
from hive_agents.gate.receipts import Receipt, statement
from hive_agents.index import ScopedIndex, StaleIndex
from hive_agents.ranking import StoredConfig, versions
from hive_agents.runs import RunStore
from hive_agents.store import audit


def receipt_of(chat: Chat, run_id: str) -> Receipt:
    """Return the receipt of a turn as its reader may see it now. Raises: HIVE-409, alike for unknown and not allowed.

    It names hashes of the question, the passages and the answer; the config, the documents in scope and the models
    that they came from; the judgment, and a mark that binds it to the audit log's end at that time.
    """
    reply, turn = chat.render(run_id), chat.threads.turn(run_id)
    results = turn.outcome.results
    if not turn.trace.get("basis") or len(reply["results"]) != len(results):
        message = f"run {run_id} has nothing that a receipt could be of"
        raise HiveError.of("HIVE-409", message, fix="ask again: an answer with results that you may open has one")
    rows = rows_of(_scope(chat), results)
    passages = {f"passage {row.chunk_id}": sha256(row.text) for row in rows}
    answer = {} if reply["answer"] is None else {"answer": sha256(reply["answer"])}
    facts = {
        "run_id": run_id,
        "thread_id": turn.thread_id,
        "at": turn.at,
        "reader": {"tenant": chat.reader.tenant, "user": chat.reader.user},
        "status": reply["status"],
        "strategy": reply["strategy"],
        "planner": reply["planner"],
        "answer_source": reply["answer_source"],
        "results": [{"doc_id": one.doc_id, "chunk_id": one.chunk_id} for one in results],
        "judgment": reply["judgment"],
        "basis": turn.trace["basis"],
    }
    return Receipt("answer", {"question": sha256(turn.text)} | answer | passages, facts)


async def checks_of(chat: Chat, receipt: Receipt) -> AsyncIterator[statement.Rederived]:
    """Yield what can be derived again of an answer: its record, its place in the log, and the search itself."""
    run_id = str(receipt.facts.get("run_id"))
    again = receipt_of(chat, run_id)
    for check in statement.compared(receipt, again):
        yield check
    basis = again.facts["basis"]
    yield _logged(chat, run_id, basis)
    if again.facts["answer_source"] == "model":
        yield statement.Rederived(
            "answer", "unknown", "a model wrote it, and would write something else: only its hash is compared"
        )
    yield await _searched(chat, run_id, basis)


def _logged(chat: Chat, run_id: str, basis: Mapping[str, Any]) -> statement.Rederived:
    verdict = audit.verify(chat.workspace)
    if not verdict.ok:
        return statement.Rederived("audit log: position", "differs", verdict.reason)
    heads = ("", *(entry["digest"] for entry in audit.entries(chat.workspace)))
    known = any(log_mark(run_id, head) == basis["log"] for head in heads)
    return statement.Rederived.of("audit log: position", known, "no line of the audit log was its last at that time")


async def _searched(chat: Chat, run_id: str, basis: Mapping[str, Any]) -> statement.Rederived:
    """Search again by the recorded plan: with the same config over the same documents, the results are the same."""
    name, turn = "search", chat.threads.turn(run_id)
    if _scope(chat).index_hash != basis["scope"]:
        return statement.Rederived(name, "unknown", "the documents in scope, or their index, changed since")
    stored = _stored(chat, basis["config"])
    if stored is None:
        return statement.Rederived(name, "unknown", "the config is in no deployment's record any more")
    request = Request.model_validate(RunStore(chat.workspace).get(run_id).value["request"])
    session = TurnSession(chat.workspace, chat.reader, run_id, request, engine=chat.engine)
    session.config = stored.config
    before = _stored(chat, basis["canary"]["previous"]) if "canary" in basis else None
    if "canary" in basis and before is None:
        return statement.Rederived(
            name, "unknown", "the config that it was drafted with is in no deployment's record any more"
        )
    try:
        results = await _results(session, turn.outcome)
        if before is not None:
            drafted_with = await results_under(before, session, turn.outcome.decision) or []
            seed = canary.draft_seed(basis["canary"]["version"], run_id)
            results = interleaved(results, drafted_with, seed)[0]
    except StaleIndex:
        return statement.Rederived(name, "unknown", "the index changes just now")
    if session.outage:
        return statement.Rederived(name, "unknown", "a model of the search can't be asked at the moment")
    same = results == turn.outcome.results
    return statement.Rederived.of(name, same, "the same plan finds other results now")


async def _results(session: TurnSession, outcome: TurnOutcome) -> list[Result]:
    depth = session.config.retrieval.candidates
    while True:
        state = {"decision": outcome.decision.model_dump(mode="json"), "doc_id": outcome.doc_id, "depth": depth}
        await retrieve(session, state)
        await rerank(session, state)
        found = await permission_gate(session, state)
        if not found["short"]:
            return [Result.model_validate(result) for result in found["results"]]
        depth = found["depth"]


def _stored(chat: Chat, config_hash: str) -> StoredConfig | None:
    """Return the config of that hash, as it was deployed or as it is active without a deployment."""
    stored = [version.stored for version in versions(chat.workspace)]
    active = chat.active
    return next((one for one in (active, *stored) if one.hash == config_hash), None)


def _scope(chat: Chat) -> ScopedIndex:
    return open_scope(chat.workspace, chat.engine, chat.reader, chat.active.config.collection)
