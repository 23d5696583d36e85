"""Outcomes of turns, which hold ids, numbers and the reader's words, and no document's text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import model_validator

from hive_agents.base.files import Format
from hive_agents.copilot.plan import DocumentFilter, FieldTally, RouterDecision
from hive_agents.copilot.vocabulary import Vocabulary

PlannedBy = Literal["model", "fallback", "deterministic"]
TurnStatus = Literal["answered", "results", "rejected", "no_match", "needs_clarification", "not_found", "unavailable"]
RelevanceSource = Literal["reranker", "cosine", "filter", "none"]
AnswerSource = Literal["model"]


class Result(Format):
    """One result. `relevance` is null where it was matched by filter, or wasn't measured.

    `near` are the chunks that its passages are taken from, each with the cosine of its embedding.
    """

    doc_id: str
    chunk_id: str | None = None
    near: dict[str, float] = {}
    relevance: float | None = None
    relevance_source: RelevanceSource = "none"

    @model_validator(mode="before")
    @classmethod
    def _of_now(cls, value: Any) -> Any:
        """Accept a result of a turn that was stored before passages had several windows."""
        return {name: kept for name, kept in value.items() if name != "beside"} if isinstance(value, dict) else value


class TurnUsage(Format):
    """Usage of a turn's models; `model_calls` doesn't count attempts within a chain, which are in the trace."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0


class AnswerJudgment(Format):
    """The judgment on the answer."""

    action: str
    escalation_reason: str | None = None


class TurnOutcome(Format):
    """The stored outcome of a turn, from which its reply is rendered again, within current permissions.

    `files` are passages of the reader's own files, by id. `rests_on` lists every document whose text an answer was made
    from, cited or not; `named` the values of fields that the turn reveals beyond the reader's words, `shared` the
    fields that have a value of a filter, too; `corrected` maps mistyped words to corrections; `unknown` are words that
    no document has, `unknown_version` a version that none is of. `left_out` tells that the active
    config's filters exclude all documents that the plan's filters match, `by_words` that embeddings were unavailable,
    `by_own_index` that the engine of words was, `away_since` since when an engine is, `by_meaning` that results could
    only be found by meaning: no document has the words, or they are of another language. `count` is the number of
    documents where that was asked; `tally` a figure over the documents that meet the filters, computed when the turn is
    rendered. With `unfold` passages are shown at their greater length.
    """

    decision: RouterDecision
    doc_id: str | None = None
    planner: PlannedBy
    pinned: list[DocumentFilter] = []
    status: TurnStatus
    results: list[Result] = []
    files: list[str] = []
    answer_source: AnswerSource | None = None
    rests_on: list[str] = []
    named: dict[str, list[str]] = {}
    shared: dict[str, list[str]] = {}
    corrected: dict[str, str] = {}
    unknown: list[str] = []
    unknown_version: str | None = None
    left_out: bool = False
    count: int | None = None
    by_words: bool = False
    by_own_index: bool = False
    away_since: str | None = None
    by_meaning: Literal["words", "language"] | None = None
    removed_citations: int = 0
    judgment: AnswerJudgment | None = None
    approval_id: str | None = None
    next_cursor: str | None = None
    unfold: bool = False
    tally: FieldTally | None = None
    usage: TurnUsage = TurnUsage()

    @model_validator(mode="before")
    @classmethod
    def _of_now(cls, value: Any) -> Any:
        """Accept a stored turn that quoted a sentence as its answer: its passages are its results."""
        if isinstance(value, dict) and value.get("answer_source") == "extractive":
            return value | {"answer_source": None, "status": "results", "judgment": None}
        return value

    @property
    def documents(self) -> list[str]:
        """Every document that this turn showed or was made from, each once."""
        return list(dict.fromkeys([*(result.doc_id for result in self.results), *self.rests_on]))

    def names_known(self, vocabulary: Vocabulary) -> bool:
        """Return whether every value in `named` and `shared` is one of a document that the reader may view now."""
        fields = vocabulary.fields
        named = (*self.named.items(), *self.shared.items())
        return all(name in fields and set(values) <= set(fields[name].values) for name, values in named)


@dataclass
class Trace:
    """The trace of a turn for operators: counts and ids, never text.

    `nodes` are in the order they ran, with milliseconds; `hybrid` has the branch that was taken and the count that
    decided it; `notes` record deviations and their reasons; `basis` has the hashes of a receipt.
    """

    nodes: list[dict[str, Any]] = field(default_factory=list)
    strategy: str = ""
    hybrid: dict[str, Any] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    basis: dict[str, Any] = field(default_factory=dict)
