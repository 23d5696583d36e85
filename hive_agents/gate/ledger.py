"""The holdout as a budget: each look that proves nothing lowers the level of the next test on it.

A look whose proved gain is deployed costs nothing while that deployment stands: a true gain that is found is no chance
of a false one. `benchmarks/ledger.py` compares this with what earns more after a pass, which people and programs that
add up what was refused would turn into false deployments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.base import Diagnostic, HiveError, sha256
from hive_agents.evaluation import GoldenQuery, GoldenSet, held_out, outside, question_key, spent_alpha
from hive_agents.store import audit
from hive_agents.workspace import Workspace

MAX_USES = 10
KIND = "holdout_use"


@dataclass(frozen=True)
class HoldoutUse:
    """A look at a holdout, the `j`-th of those that cost something, and the level that a test on it may claim.

    `look` is its line in the log, None where it isn't known.
    """

    j: int
    alpha: float
    look: int | None = None

    @property
    def exhausted(self) -> bool:
        return self.j > MAX_USES


def query_hashes(golden: GoldenSet) -> list[str]:
    """Return a holdout's identity: hashes of its query texts, without case, punctuation and spacing."""
    texts = {_question(query) for query in golden}
    return sorted(map(_hash, texts))


def distinct(measured: GoldenSet, golden: GoldenSet | None = None) -> tuple[GoldenSet, list[Diagnostic]]:
    """Return the queries with distinct texts, with warnings: a copied query would count as more evidence.

    `golden` is the set that the queries were held out of: those that repeat its other queries are dropped, too.
    Raises: HIVE-313 where none is left.
    """
    ids = {query.id for query in measured}
    seen = {_question(query) for query in golden or () if query.id not in ids}
    first: dict[tuple[str, str | None], str] = {}
    for query in measured:
        first.setdefault(_identity(query), query.id)
    warnings = []
    if again := len(measured) - len(first):
        message = f"{again} of the queries repeat the text of another; a text counts once, as it stands first"
        fix = "remove the copies, or ask in other words"
        warnings.append(Diagnostic("HIVE-111", message, measured.file, "queries", fix, severity="warning"))
    copied = [query_id for (text, _), query_id in first.items() if text in seen]
    if copied and len(copied) == len(first):
        message = f"each of the {len(ids)} held-out questions is an open one, too: what was learned proves nothing"
        fix = "hold out questions that nobody tuned to"
        raise HiveError.of("HIVE-313", message, file=measured.file, path="queries", fix=fix)
    if copied:
        summary = f"{len(copied)} of {len(ids)} held-out questions are open ones, too, and count for nothing"
        message = f"{summary}: {copied[0]}"
        fix = "hold out questions that nobody tuned to"
        warnings.append(Diagnostic("HIVE-313", message, measured.file, "queries", fix, severity="warning"))
    kept = [query_id for (text, _), query_id in first.items() if text not in seen]
    return measured.only(kept) if warnings else measured, warnings


def uses(place: audit.Place, holdout: GoldenSet) -> list[dict[str, Any]]:
    """Return the looks that cost something, at this holdout or one that shares over half of it, oldest first."""
    return _costly(list(audit.entries(place)), holdout)


def looks(place: audit.Place, golden: GoldenSet) -> list[dict[str, Any]]:
    """Return the looks, oldest first, that a measurement of this set comes after.

    Of a set that names no holdout these are the looks at any questions that are most in it: otherwise their names could
    be taken off, and what was held out measured as if for the first time.
    """
    return uses(place, golden.split("holdout") if golden.has_holdout else golden)


def spend_of(
    place: audit.Place, golden: GoldenSet, measured: GoldenSet, purpose: str, run_id: str | None = None
) -> HoldoutUse | None:
    """Record a use by the questions of `golden` that are measured; None where they weren't held out, now or before."""
    if held_out(golden) is None and not looks(place, golden):
        return None
    return spend(place, measured, purpose, run_id, counted=measured if golden.has_holdout else golden)


def spend(
    place: audit.Place,
    holdout: GoldenSet,
    purpose: str,
    run_id: str | None = None,
    *,
    alpha: float | None = None,
    counted: GoldenSet | None = None,
) -> HoldoutUse:
    """Record a use before the measurement, so that a crash can't make it free; a resumed run keeps its use.

    `alpha` is divided among all uses, None means the workspace's. Past the last use nothing is recorded. The uses
    before are those of `counted`, None means of the holdout.
    """
    if alpha is None:
        assert isinstance(place, Workspace)
        alpha = place.settings.gate.alpha
    numbers: list[int] = []
    looks: list[int] = []

    def fields(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        known = holdout if counted is None else counted
        before = _costly(entries, known)
        ours = (entry for entry in _of(entries, known) if entry.get("run_id") == run_id)
        same_run = next(ours, None) if run_id is not None else None
        number = len(before) + 1 if same_run is None else sum(one["seq"] < same_run["seq"] for one in before) + 1
        numbers.append(number)
        if same_run is not None:
            looks.append(same_run["seq"])
        if same_run is not None or number > MAX_USES:
            return None
        identity: dict[str, Any] = {"queries": query_hashes(holdout)}
        if isinstance(place, audit.LogFile):
            identity["ids"] = _id_hashes(holdout)
        return {"purpose": purpose, "j": numbers[0], "run_id": run_id} | identity

    added = audit.extend(place, KIND, fields)  # under the log's lock, or two would take the same level
    if added is not None:
        looks.append(added["seq"])
    return HoldoutUse(numbers[0], spent_alpha(numbers[0], alpha), looks[0] if looks else None)


def _costly(entries: Sequence[Mapping[str, Any]], holdout: GoldenSet) -> list[dict[str, Any]]:
    free = _deployed_looks(entries)
    return [entry for entry in _of(entries, holdout) if entry["seq"] not in free]


def _of(entries: Sequence[Mapping[str, Any]], holdout: GoldenSet) -> list[dict[str, Any]]:
    texts, ids = query_hashes(holdout), _id_hashes(holdout)
    return [
        dict(entry)
        for entry in entries
        if entry["kind"] == KIND
        and (_shares_most(texts, _hashes(entry, "queries")) or _shares_most(ids, _hashes(entry, "ids")))
    ]


def _deployed_looks(entries: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the looks that proved what serves, or what it was built on; a rollback makes those that it undoes cost."""
    deployments = [entry for entry in entries if entry["kind"] == "deployment"]
    proved = {_look(entry) for entry in deployments if entry.get("decision") == "passed"}
    by_number = {str(entry.get("version")): entry for entry in deployments}
    standing: set[int | None] = set()
    entry = deployments[-1] if deployments else None
    while entry is not None:
        standing.add(_look(entry))
        entry = by_number.pop(str(entry.get("previous_version")), None)
    return {look for look in proved & standing if look is not None}


def _look(entry: Mapping[str, Any]) -> int | None:
    """Return the look of a deployment; a line that was written by hand may hold anything."""
    evaluation = entry.get("evaluation")
    look = evaluation.get("look") if isinstance(evaluation, dict) else None
    return look if isinstance(look, int) else None


def _hashes(entry: Mapping[str, Any], key: str) -> list[str]:
    """Return an entry's hashes; one that was written by hand, which breaks the log's chain, may hold anything."""
    values = entry.get(key)
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _identity(query: GoldenQuery) -> tuple[str, str | None]:
    return _question(query), query.principal


def _question(query: GoldenQuery) -> str:
    """Return a query's normalised text; without a text its id, as it is."""
    return query.id if isinstance(query, outside.UnaskedQuery) else question_key(query.query)


def _id_hashes(golden: GoldenSet) -> list[str]:
    """Return hashes of the ids, which identify a holdout outside of a workspace, where texts may be unknown."""
    return sorted(_hash(f"id {query.id}") for query in golden)


def _shares_most(hashes: Collection[str], others: Collection[str]) -> bool:
    return len(set(hashes).intersection(others)) * 2 > min(len(hashes), len(others))


def _hash(text: str) -> str:
    return sha256(text)[:16]
