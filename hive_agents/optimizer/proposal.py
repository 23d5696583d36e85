"""Proposals of edits to try next: the interface of proposers, and the one that needs no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hive_agents.index import AnyIndex
from hive_agents.optimizer.diagnosis import Diagnosis
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.space import Edit, apply, identity, single_edits
from hive_agents.ranking import RetrievalConfig

CAUSES = {
    "retrieval.method": "keyword_trap",
    "retrieval.weights.vector": "keyword_trap",
    "retrieval.weights.keyword": "vector_trap",
    "retrieval.top_k": "tail_junk",
    "dynamic_k": "tail_junk",
    "retrieval.candidates": "unreachable",
    "retrieval.per_document": "repeats",
    "boosts": "other_version",
    "filters": "category_distractor",
}
"""The cause of loss that a lever answers, by the beginning of its path; other levers answer `ranked_low`."""


@dataclass(frozen=True)
class Situation:
    """All that a proposer may know, which includes nothing of the holdout.

    `tried` has the identities of configs measured before, `history` the rows of all trials, oldest first; `reranker`
    tells whether one is configured; `declared` is False for what the owner could allow.
    """

    config: RetrievalConfig
    diagnosis: Diagnosis
    cache: LaneCache
    index: AnyIndex
    tried: frozenset[str]
    iteration: int
    history: tuple[Mapping[str, Any], ...] = ()
    reranker: bool = False
    declared: bool = True


@dataclass(frozen=True)
class Proposed:
    """The edits to measure, and the edits with faults; `fallback` is why a model had no part in them."""

    edits: tuple[Edit, ...]
    fallback: str | None = None


class Proposer(Protocol):
    def propose(self, situation: Situation) -> Proposed:
        """Return edits of `situation.config`."""


class HeuristicProposer:
    """Every edit of one lever, those first that answer the cause that costs most."""

    def propose(self, situation: Situation) -> Proposed:
        losses = [loss.cause for loss in situation.diagnosis.losses]
        edits: dict[str, Edit] = {}
        for edit in single_edits(
            situation.config, situation.index, reranker=situation.reranker, declared=situation.declared
        ):
            edits.setdefault(identity(apply(situation.config, edit.values)), replace(edit, cause=_cause(edit)))
        new = [edit for key, edit in edits.items() if key not in situation.tried]
        return Proposed(tuple(sorted(new, key=lambda edit: (*losses, edit.cause).index(edit.cause))))


def _cause(edit: Edit) -> str:
    path = edit.values[0][0]
    return next((cause for beginning, cause in CAUSES.items() if path.startswith(beginning)), "ranked_low")
