"""A change of chunking, fields, analyzer or model is gated too: the active config, on the new index against the old."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hive_agents.base import HiveError
from hive_agents.engines import open_engines
from hive_agents.evaluation import GoldenSet, evaluate, held_out, load_golden
from hive_agents.gate.certificate import log_fault
from hive_agents.gate.decision import decide, too_few
from hive_agents.gate.ledger import distinct, spend_of
from hive_agents.index import find_generation, generation, switch
from hive_agents.ranking import SearchEngine, StoredConfig, find_active
from hive_agents.store import audit, connected
from hive_agents.workspace import Workspace

KIND = "index_generation"


@dataclass(frozen=True)
class GenerationDecision:
    """`decision` is passed (the new generation serves), blocked or inconclusive (the old one goes on serving)."""

    collection: str
    decision: str
    reasons: list[dict[str, str]]
    index_hash: str
    evaluation: dict[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        return vars(self)


def decide_generations(workspace: Workspace) -> list[GenerationDecision]:
    """Measure the active config on each waiting generation, and switch to those that are proved better.

    A change is decided once; each measurement uses the holdout.
    Raises: HIVE-307 where the index or the active config changed while it was measured.
    """
    with connected(workspace.database) as connection:
        waiting = generation.candidates(connection)
    return [_decide(workspace, name) for name in waiting]


def accept_generations(workspace: Workspace, names: list[str], reason: str, by: str) -> None:
    """Record that a person accepted the new generations without proof."""
    for name in names:
        audit.append(workspace, KIND, collection=name, decision="accepted", reason=reason, by=by)


@dataclass(frozen=True)
class _Question:
    """Whether the active config is better off with the waiting generation than with the live one."""

    collection: str
    waiting: generation.Generation
    live: generation.Generation
    active: StoredConfig | None
    golden: GoldenSet | None
    why_not: str

    def about(self) -> dict[str, Any]:
        """Return the identity of the question, without the documents: each edit would use the holdout again."""
        return {
            "recipe": [self.waiting.recipe, self.waiting.embedding_model],
            "live": [self.live.recipe, self.live.embedding_model],
            "active": self.active.hash if self.active else None,
            "golden": self.golden.hash if self.golden else None,
        }

    def answer(
        self, decision: str, *reasons: dict[str, str], evaluation: dict[str, Any] | None = None
    ) -> GenerationDecision:
        return GenerationDecision(self.collection, decision, list(reasons), self.waiting.index_hash, evaluation)


def _ask(workspace: Workspace, collection: str) -> _Question:
    with connected(workspace.database) as connection:
        waiting = find_generation(connection, collection, "candidate")
        live = find_generation(connection, collection)
    assert waiting is not None
    assert live is not None
    active = find_active(workspace)
    stored = active.stored if active else None
    try:
        golden = load_golden(workspace)
    except HiveError as error:
        why_not = f"nothing to measure with: {error.diagnostics[0].message}"
        return _Question(collection, waiting, live, stored, None, why_not)
    if held_out(golden) is None and not golden.asked.queries:
        return _Question(collection, waiting, live, stored, golden, "nobody asked any query of the golden set")
    fits = stored is not None and stored.config.collection == golden.collection == collection
    why_not = "" if fits else "no golden set and active config of this collection to measure with"
    return _Question(collection, waiting, live, stored, golden, why_not)


def _decide(workspace: Workspace, collection: str) -> GenerationDecision:
    question = _ask(workspace, collection)
    decision = _answered(workspace, question)
    if decision is None:
        decision = _measure(workspace, question)
        audit.append(workspace, KIND, **decision.to_json(), **question.about())
    if decision.decision == "passed":
        _promote(workspace, question)
    return decision


def _answered(workspace: Workspace, question: _Question) -> GenerationDecision | None:
    """Return the logged answer: a proof for the same documents, or a lack of proof for any."""
    about = question.about()
    for entry in audit.entries(workspace, KIND):
        if entry["collection"] != question.collection or any(entry.get(name) != about[name] for name in about):
            continue
        if entry["decision"] != "passed" or entry["index_hash"] == question.waiting.index_hash:
            return question.answer(entry["decision"], *entry["reasons"], evaluation=entry["evaluation"])
    return None


def _promote(workspace: Workspace, question: _Question) -> None:
    with workspace.exclusive("switching the index"), connected(workspace.database) as connection:
        current = _ask(workspace, question.collection)
        if (current.about(), current.waiting.index_hash) != (question.about(), question.waiting.index_hash):
            message = f"what the new index of {question.collection} was measured on changed meanwhile"
            raise HiveError.of("HIVE-307", message, fix="run `hive index` again", exit_code=1)
        generation.promote(workspace, connection, question.collection)
        switch(connection, open_engines(workspace), question.collection)


def _measure(workspace: Workspace, question: _Question) -> GenerationDecision:
    if question.why_not or question.active is None or question.golden is None:
        return question.answer("inconclusive", {"code": "HIVE-306", "message": question.why_not})
    golden, config = question.golden, question.active.config
    try:
        holdout = held_out(golden)
        measured, _ = distinct(holdout or golden.asked, golden if holdout else None)
    except HiveError as error:
        diagnostic = error.diagnostics[0]
        return question.answer("inconclusive", {"code": diagnostic.code, "message": diagnostic.message})
    fault = log_fault(workspace)
    few = too_few(golden, len(measured) if holdout is not None else 0)
    if few and holdout is not None:  # where nothing can be proved nothing is spent, and nothing held out looked at
        return question.answer("inconclusive", few.to_json())
    use = spend_of(workspace, golden, measured, "index")
    old = evaluate(workspace, config, golden=measured, engine=SearchEngine(workspace))
    new = evaluate(workspace, config, golden=measured, engine=SearchEngine(workspace, state="candidate"))
    split = "holdout" if holdout is not None else None
    finding = decide(new, old, workspace.settings.gate, split=split, use=use, fault=fault, few=few)
    assert finding.difference is not None
    evaluation = {
        "n": len(measured),
        "old": old.metrics,
        "new": new.metrics,
        "difference": finding.difference.to_json(),
        "alpha": finding.alpha,
        "j": use.j if use else None,
        "watch": [change.to_json() for change in finding.watch],
    }
    reasons = [reason.to_json() for reason in finding.reasons]
    return question.answer(finding.decision, *reasons, evaluation=evaluation)
