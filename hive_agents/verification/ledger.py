"""The holdout as a budget: each look at it spends some of the right to be believed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.errors import Diagnostic
from hive_agents.evaluation import GoldenQuery, GoldenSet, UnaskedQuery, question_key, spent_alpha
from hive_agents.store import audit
from hive_agents.workspace import Workspace

MAX_USES = 10
KIND = "holdout_use"


@dataclass(frozen=True)
class HoldoutUse:
    """The `j`-th look at a holdout, and the level that a test on it may claim."""

    j: int
    alpha: float

    @property
    def exhausted(self) -> bool:
        return self.j > MAX_USES


def query_hashes(golden: GoldenSet) -> list[str]:
    """Identity of a holdout: its set of query texts, without case, punctuation and spacing."""
    texts = {_question(query) for query in golden}
    return sorted(map(_hash, texts))


def distinct(golden: GoldenSet) -> tuple[GoldenSet, list[Diagnostic]]:
    """Each text once, with a warning if one stands there again: a copied query would be counted as more evidence."""
    first: dict[tuple[str, str | None], str] = {}
    for query in golden:
        first.setdefault((_question(query), query.principal), query.id)
    again = len(golden) - len(first)
    if not again:
        return golden, []
    message = f"{again} of the queries repeat the text of another; a text counts once, as it stands first"
    fix = "remove the copies, or ask in other words"
    return golden.only(first.values()), [
        Diagnostic("HIVE-111", message, golden.file, "queries", fix, severity="warning")
    ]


def was_held_out(place: audit.Place, golden: GoldenSet) -> bool:
    """Whether these queries were used as a named holdout before: taking the mark away doesn't make them fresh."""
    # Where nobody names a holdout an optimizer's run makes one, and the gate goes on measuring all queries.
    return any(entry["purpose"] != "optimize" for entry in uses(place, golden))


def uses(place: audit.Place, holdout: GoldenSet) -> list[dict[str, Any]]:
    """The looks at this holdout, or at one that shares over half of it, oldest first."""
    return _uses_among(audit.entries(place, KIND), holdout)


def spend(
    place: audit.Place, holdout: GoldenSet, purpose: str, run_id: str | None = None, *, alpha: float | None = None
) -> HoldoutUse:
    """Record a use before looking, so that a crash can't make it free; a run that is resumed keeps the one it has.

    `alpha` is what all uses share, the workspace's where it is None. Past the last use nothing is recorded.
    """
    if alpha is None:
        assert isinstance(place, Workspace)
        alpha = place.settings.gate.alpha
    numbers: list[int] = []

    def fields(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        before = _uses_among((entry for entry in entries if entry["kind"] == KIND), holdout)
        mine = next((entry for entry in before if run_id is not None and entry["run_id"] == run_id), None)
        numbers.append(mine["j"] if mine else len(before) + 1)
        if mine or numbers[0] > MAX_USES:
            return None
        identity: dict[str, Any] = {"queries": query_hashes(holdout)}
        if isinstance(place, audit.LogFile):
            identity["ids"] = _id_hashes(holdout)
        return {"purpose": purpose, "j": numbers[0], "run_id": run_id} | identity

    audit.extend(place, KIND, fields)  # under the log's lock, or two would take the same level
    return HoldoutUse(numbers[0], spent_alpha(numbers[0], alpha))


def _uses_among(entries: Iterable[Mapping[str, Any]], holdout: GoldenSet) -> list[dict[str, Any]]:
    texts, ids = query_hashes(holdout), _id_hashes(holdout)
    return [
        dict(entry)
        for entry in entries
        if _shares_most(texts, entry["queries"]) or _shares_most(ids, entry.get("ids", ()))
    ]


def _question(query: GoldenQuery) -> str:
    """What makes two queries the same question; ids that differ by a sign name different ones."""
    return query.id if isinstance(query, UnaskedQuery) else question_key(query.query)


def _id_hashes(golden: GoldenSet) -> list[str]:
    """Outside of a workspace texts may be unknown, or told only later: there the ids identify a holdout as well."""
    return sorted(_hash(f"id {query.id}") for query in golden)


def _shares_most(mine: Collection[str], theirs: Collection[str]) -> bool:
    return len(set(mine).intersection(theirs)) * 2 > min(len(mine), len(theirs))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
