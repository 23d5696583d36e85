"""Outcomes of turns, which hold ids, numbers and the reader's words, and no document's text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from hive_agents.copilot.plan import DocumentFilter, RouterDecision
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.files import Format

PlannedBy = Literal["model", "fallback", "deterministic"]
TurnStatus = Literal["answered", "results", "no_match", "needs_clarification", "not_found", "unavailable"]
RelevanceSource = Literal["reranker", "cosine", "filter", "none"]
AnswerSource = Literal["model", "extractive"]


class Result(Format):
    """One result. `relevance` is null where it was matched by filter, or where nothing measures it.

    `beside` is the chunk of the document's next best passage, which is shown behind the best.
    """

    doc_id: str
    chunk_id: str | None = None
    beside: str | None = None
    relevance: float | None = None
    relevance_source: RelevanceSource = "none"


class TurnUsage(Format):
    """`model_calls` counts calls that a turn asked for; attempts within a chain are in its trace."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0


class AnswerJudgment(Format):
    """What the judge said of the answer."""

    action: str
    escalation_reason: str | None = None


class TurnOutcome(Format):
    """A turn's end, from which its reply can be rendered again for whoever may still see it.

    `rests_on` names every document whose text an answer was made from, cited or not; `named` the values of fields that
    the turn tells of, beside the reader's own words; `corrected` the reader's words that were read as others;
    `unknown` their words that no document has, `unknown_version` a version that none is of; `left_out` says that
    the config's filters keep out all that the reader's ask for, `by_words` that nothing could be searched by meaning;
    `count`, how many documents there are, where that was asked.
    """

    decision: RouterDecision
    doc_id: str | None = None
    planner: PlannedBy
    pinned: list[DocumentFilter] = []
    status: TurnStatus
    results: list[Result] = []
    answer_source: AnswerSource | None = None
    rests_on: list[str] = []
    named: dict[str, list[str]] = {}
    corrected: dict[str, str] = {}
    unknown: list[str] = []
    unknown_version: str | None = None
    left_out: bool = False
    count: int | None = None
    by_words: bool = False
    removed_citations: int = 0
    judgment: AnswerJudgment | None = None
    approval_id: str | None = None
    next_cursor: str | None = None
    usage: TurnUsage = TurnUsage()

    @property
    def documents(self) -> list[str]:
        """Every document that this turn showed or was made from, each once."""
        return list(dict.fromkeys([*(result.doc_id for result in self.results), *self.rests_on]))

    def names_known(self, vocabulary: Vocabulary) -> bool:
        """Return whether every value that the turn tells of is one of a document that the reader may view now."""
        fields = vocabulary.fields
        return all(name in fields and set(values) <= set(fields[name].values) for name, values in self.named.items())


@dataclass
class Trace:
    """How a turn was made, for operators: counts and ids, never text.

    `nodes` are in the order they ran, with milliseconds; `hybrid` says which branch was taken and the count it rests
    on; `notes` say what went another way than planned, and why; `basis` are the hashes that a receipt names.
    """

    nodes: list[dict[str, Any]] = field(default_factory=list)
    strategy: str = ""
    hybrid: dict[str, Any] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    basis: dict[str, Any] = field(default_factory=dict)
