"""What a turn came to: ids, numbers and the reader's own words, no text of any document."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hive_agents.copilot.plan import DocumentFilter, RouterDecision
from hive_agents.files import Format

PlannedBy = Literal["model", "fallback", "deterministic"]
Status = Literal["answered", "results", "no_match", "needs_clarification", "not_found"]
RelevanceSource = Literal["reranker", "cosine", "filter", "none"]
AnswerSource = Literal["model", "extractive"]


class Found(Format):
    """One result. `relevance` is null where it was matched by filter, or where nothing measures it."""

    doc_id: str
    chunk_id: str | None = None
    relevance: float | None = None
    relevance_source: RelevanceSource = "none"


class Usage(Format):
    """`model_calls` counts calls that a turn asked for; attempts within a chain are in its trace."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0


class Verdict(Format):
    """What the judge said of the answer."""

    action: str
    escalation_reason: str | None = None


class Outcome(Format):
    """A turn's end, from which its reply can be rendered again for whoever may still see it.

    `rests_on` names every document whose text an answer was made from, cited or not; `named` the values of fields that
    the turn tells of, beside the reader's own words.
    """

    decision: RouterDecision
    doc_id: str | None = None
    planner: PlannedBy
    pinned: list[DocumentFilter] = []
    status: Status
    results: list[Found] = []
    answer_source: AnswerSource | None = None
    rests_on: list[str] = []
    named: dict[str, list[str]] = {}
    removed_citations: int = 0
    judgment: Verdict | None = None
    approval_id: str | None = None
    next_cursor: str | None = None
    usage: Usage = Usage()

    @property
    def documents(self) -> list[str]:
        """Every document that this turn showed or was made from, each once."""
        return list(dict.fromkeys([*(found.doc_id for found in self.results), *self.rests_on]))


@dataclass
class Trace:
    """How a turn was made, for operators: counts and ids, never text.

    `nodes` are in the order they ran, with milliseconds; `hybrid` says which branch was taken and the count it rests
    on; `notes` say what went another way than planned, and why.
    """

    nodes: list[dict[str, Any]] = field(default_factory=list)
    strategy: str = ""
    hybrid: dict[str, Any] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
