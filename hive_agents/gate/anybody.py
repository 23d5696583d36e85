"""The gate for foreign search engines: rankings of the same queries, labels, and a ledger of holdout uses."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_agents.base import Diagnostic, HiveError, sha256
from hive_agents.evaluation import GoldenSet, PoweredDifference, outside, powered_difference
from hive_agents.gate.decision import GateFinding, decide, watch_warning
from hive_agents.gate.ledger import MAX_USES, HoldoutUse, distinct, spend
from hive_agents.store import audit
from hive_agents.workspace.settings import Gate

UNEVEN = 0.05
"""Shares of unjudged documents that differ by more than this may decide a comparison."""

BUDGETED = ("nudcg", "ndcg", "recall", "precision", "mrr")
"""The metrics whose mean may have a budget."""

Side = tuple[str, Sequence[outside.FoundList]]
"""(name, the result list of each query of the labels, in their order)."""


@dataclass(frozen=True)
class CheapLabels:
    """Labels by a model or by clicks, and the result lists of both searches for their queries."""

    labels: GoldenSet
    before: Sequence[outside.FoundList]
    after: Sequence[outside.FoundList]

    def differences(self) -> dict[str, float]:
        """Return after - before by query id, in nUDCG by these labels."""
        old, new = (outside.evaluate_found("", self.labels, found).scores() for found in (self.before, self.after))
        ids = [query.id for query in self.labels]
        return dict(zip(ids, (b - a for a, b in zip(old, new, strict=True)), strict=True))


@dataclass(frozen=True, kw_only=True)
class RankingsFinding(GateFinding):
    """The gate's finding about two rankings, by the thresholds of `gate` and `budgets`.

    `ledger` names the ledger of holdout uses.
    """

    gate: Gate
    budgets: Mapping[str, float]
    ledger: str
    warnings: tuple[Diagnostic, ...]

    @property
    def uses_left(self) -> int | None:
        """How many more comparisons this holdout can decide; None without one."""
        return max(0, MAX_USES - self.use.j) if self.use else None

    def report(self) -> dict[str, Any]:
        """Return the finding as `hive gate --json` prints it: every difference is after minus before."""
        assert self.active is not None
        pairs = zip(self.active.queries, self.candidate.queries, strict=True)
        return {
            "decision": self.decision,
            "reasons": [reason.to_json() for reason in self.reasons],
            "watch": [change.to_json() for change in self.watch],
            "evaluation": self.to_json() | {"ledger": self.ledger, "uses_left": self.uses_left},
            "queries": [
                {"id": a.query.id, "query": a.query.query, "a": a.nudcg, "b": b.nudcg, "delta": b.nudcg - a.nudcg}
                for a, b in pairs
            ],
            "warnings": [warning.to_json() for warning in self.warnings],
        }


def gate_rankings(
    before: Side,
    after: Side,
    labels: GoldenSet,
    gate: Gate,
    *,
    ledger: audit.Place,
    accept_tags: Collection[str] = (),
    accept: Collection[str] = (),
    budgets: Mapping[str, float] | None = None,
    cheap: CheapLabels | None = None,
    known: Collection[str] = (),
    counted: GoldenSet | None = None,
) -> RankingsFinding:
    """Decide whether `after` may take the place of `before`; `labels` holds the queries to measure, and only them.

    The labels are taken as held out: the comparison is a use of them, recorded before the measurement. Repeating a
    comparison is the same use; identical rankings are none. With `cheap` the proof uses those labels, too; other cheap
    labels are another use. Their queries with ids in `known`, which may have been tuned to, count only where `labels`
    has them. `counted` are the labels whose looks came before, None means `labels`.
    Raises: HIVE-107 (exit code 2) where one of the two has none of the queries, or `cheap` lacks some of them;
    HIVE-105 where it has no others; HIVE-101 for a damaged ledger.
    """
    for name, rankings in (before, after):
        _require_answers(name, rankings, labels)
    compared = _Compared.of(before, after, labels, cheap, known)
    measured = compared.measured
    use = None
    if not compared.are_alike:
        use = spend(ledger, measured, "gate", compared.identity, alpha=gate.alpha, counted=counted)
    finding = compared.decide(
        gate,
        use=use,
        fault=_fault(ledger),
        accept_tags=accept_tags,
        accept=accept,
        budgets=budgets,
    )
    warnings = [*compared.warnings, *(watch_warning(change, measured) for change in finding.watch)]
    warnings += [*_unanswered(before, after, labels), *_repeats(compared), *_uneven_judgements(finding, gate, measured)]
    return RankingsFinding(
        **vars(finding),
        gate=gate,
        budgets=budgets or {},
        ledger=_name(ledger),
        warnings=tuple(warnings),
    )


def decide_again(
    before: Side,
    after: Side,
    labels: GoldenSet,
    gate: Gate,
    *,
    use: HoldoutUse | None,
    fault: str,
    accept_tags: Collection[str],
    accept: Collection[str],
    budgets: Mapping[str, float],
    cheap: CheapLabels | None = None,
    known: Collection[str] = (),
) -> GateFinding:
    """Return the decision of `gate_rankings` for a recorded use of a holdout; records nothing. Raises: as it does."""
    compared = _Compared.of(before, after, labels, cheap, known)
    return compared.decide(gate, use=use, fault=fault, accept_tags=accept_tags, accept=accept, budgets=budgets)


@dataclass(frozen=True, kw_only=True)
class _Compared:
    """Both sides' lists for the distinct queries; `shifts` are the differences by cheap labels."""

    names: tuple[str, str]
    old: Sequence[outside.FoundList]
    new: Sequence[outside.FoundList]
    measured: GoldenSet
    cheap: CheapLabels | None
    shifts: tuple[list[float], list[float]] | None
    warnings: Sequence[Diagnostic]

    @classmethod
    def of(
        cls, before: Side, after: Side, labels: GoldenSet, cheap: CheapLabels | None, known: Collection[str]
    ) -> _Compared:
        measured, warnings = distinct(labels)
        kept = {query.id for query in measured}
        old, new = (
            [ranking for query, ranking in zip(labels, rankings, strict=True) if query.id in kept]
            for _, rankings in (before, after)
        )
        shifts = _cheap_shifts(cheap, measured, {*known, *(query.id for query in labels)}) if cheap else None
        names = (before[0], after[0])
        return cls(names=names, old=old, new=new, measured=measured, cheap=cheap, shifts=shifts, warnings=warnings)

    @property
    def are_alike(self) -> bool:
        depth = self.measured.k
        return all(a.documents[:depth] == b.documents[:depth] for a, b in zip(self.old, self.new, strict=True))

    @property
    def identity(self) -> str:
        """The comparison's identity: a hash of its rankings, its labels, also cheap ones, and their depth."""
        ids = [query.id for query in self.measured]
        cheap = self.cheap
        sides = (self.old, self.new) if cheap is None else (self.old, self.new, cheap.before, cheap.after)
        lists = [[list(ranking.documents[: self.measured.k]) for ranking in side] for side in sides]
        hashes = [cheap.labels.hash] if cheap else []
        return "gate-" + sha256(json.dumps([self.measured.hash, self.measured.k, ids, lists, *hashes]))[:24]

    def decide(
        self,
        gate: Gate,
        *,
        use: HoldoutUse | None,
        fault: str,
        accept_tags: Collection[str],
        accept: Collection[str],
        budgets: Mapping[str, float] | None,
    ) -> GateFinding:
        active, candidate = (
            outside.evaluate_found(name, self.measured, found)
            for name, found in zip(self.names, (self.old, self.new), strict=True)
        )
        powered: PoweredDifference | None = None
        if self.shifts is not None:
            differences = [b - a for a, b in zip(active.scores(), candidate.scores(), strict=True)]
            powered = powered_difference(differences, *self.shifts)
        return decide(
            candidate,
            active,
            gate,
            split="holdout",
            use=use,
            fault=fault,
            accept_tags=accept_tags,
            accept=accept,
            budgets=budgets,
            powered=powered,
        )


def ledger_beside(path: Path) -> audit.LogFile:
    """Return the ledger of the labels in `path`: a file beside them, to be stored with them.

    >>> ledger_beside(Path("evals/qrels.txt")).path.as_posix()
    'evals/qrels.txt.ledger.jsonl'
    """
    return audit.LogFile(path.with_name(f"{path.name}.ledger.jsonl"))


def record_acceptance(ledger: audit.Place, finding: GateFinding, by: str, reason: str) -> None:
    """Record that a person accepted losses, if there are any."""
    if finding.accepted_tags or finding.accepted:
        tags = [change.to_json() for change in finding.accepted_tags]
        audit.append(ledger, "tags_accepted", tags=tags, readers=list(finding.accepted), by=by, reason=reason)


def _require_answers(name: str, rankings: Sequence[outside.FoundList], labels: GoldenSet) -> None:
    if not any(ranking.documents for ranking in rankings):
        message = f"{name} returns nothing for any of the {len(labels)} queries of {labels.file}"
        fix = "check that both name their queries alike, and that a source of documents gives doc_ids"
        raise HiveError.of("HIVE-107", message, fix=fix, exit_code=2)


def _unanswered(before: Side, after: Side, labels: GoldenSet) -> Iterator[Diagnostic]:
    """Warn of a side that returns nothing for more queries than the other: its file may be for other queries."""
    empty = [(sum(not ranking.documents for ranking in rankings), name) for name, rankings in (before, after)]
    if empty[0][0] != empty[1][0]:
        count, name = max(empty)
        message = f"{name} returns nothing for {count} of {len(labels)} queries, the other for {min(empty)[0]}"
        fix = "where that is no abstention, rank all labelled queries with both"
        yield Diagnostic("HIVE-107", message, labels.file, "$", fix, severity="warning")


def _repeats(compared: _Compared) -> Iterator[Diagnostic]:
    """Warn of a side whose lists repeat documents: repeats displace the documents below them, also distractors."""
    k = compared.measured.k
    for name, rankings in zip(compared.names, (compared.old, compared.new), strict=True):
        lists = sum(len(set(ranking.documents[:k])) < len(ranking.documents[:k]) for ranking in rankings)
        if lists:
            message = (
                f"{name} has a document more than once in {lists} of {len(rankings)} lists; the copies take places"
            )
            fix = "give each document once, at its best place, unless readers see it so"
            yield Diagnostic("HIVE-111", message, compared.measured.file, "$", fix, severity="warning")


def _cheap_shifts(cheap: CheapLabels, measured: GoldenSet, known: Collection[str]) -> tuple[list[float], list[float]]:
    """Return the differences by cheap labels of the measured queries, and of those with cheap labels only."""
    shifts = cheap.differences()
    lacking = [query.id for query in measured if query.id not in shifts]
    if lacking:
        message = f"the cheap labels lack {len(lacking)} of the {len(measured)} measured queries, such as {lacking[0]}"
        fix = "label these queries cheaply, too: only so it shows how often cheap labels are right"
        raise HiveError.of("HIVE-107", message, file=cheap.labels.file, path="$", fix=fix, exit_code=2)
    others = [shift for query_id, shift in shifts.items() if query_id not in known]
    if len(measured) < 2 or len(others) < 2:
        message = "two queries with people's labels, and two that have cheap labels alone, are needed at least"
        raise HiveError.of("HIVE-105", message, file=cheap.labels.file, path="$", fix="label more", exit_code=2)
    return [shifts[query.id] for query in measured], others


def _uneven_judgements(finding: GateFinding, gate: Gate, measured: GoldenSet) -> list[Diagnostic]:
    """Warn where one side has more unjudged documents: labels pooled from the other side favour it."""
    assert finding.active is not None
    shares = []
    for side in (finding.active, finding.candidate):
        labels = [hit.label for query in side.queries if not query.query.fully_judged for hit in query.hits]
        documents = [label for label in labels if label != "repeat"]
        shares.append(documents.count("unjudged") / len(documents) if documents else 0.0)
    if max(shares) <= gate.unjudged or abs(shares[0] - shares[1]) <= UNEVEN:
        return []
    names = (finding.active.config, finding.candidate.config)
    unjudged = " and ".join(f"{share:.0%} of what {name} returns" for share, name in zip(shares, names, strict=True))
    message = f"nobody judged {unjudged}: an unjudged document counts as worth nothing"
    fix = "judge what the new system returns, or read the decision with that in mind"
    return [Diagnostic("HIVE-305", message, measured.file, "$", fix, severity="warning")]


def _fault(ledger: audit.Place) -> str:
    """Return why the ledger can't vouch for the number of holdout uses; "" where it can."""
    if not isinstance(ledger, audit.LogFile):
        from hive_agents.gate.certificate import log_fault

        return log_fault(ledger)
    verdict = audit.verify(ledger)
    return "" if verdict.ok else f"the ledger {ledger.path.name} is broken: {verdict.reason}"


def _name(ledger: audit.Place) -> str:
    return ledger.path.as_posix() if isinstance(ledger, audit.LogFile) else audit.FILE
