"""The receipt of a comparison by `hive gate`: the files, the labels and the result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from hive_agents.base import HiveError
from hive_agents.base.files import Format, read_bytes
from hive_agents.evaluation import GoldenSet, Source, open_source, outside, spent_alpha
from hive_agents.gate.anybody import BUDGETED, CheapLabels, RankingsFinding, decide_again
from hive_agents.gate.decision import GateFinding
from hive_agents.gate.ledger import MAX_USES, HoldoutUse
from hive_agents.gate.receipts.statement import Receipt, Rederived
from hive_agents.workspace import Workspace
from hive_agents.workspace.settings import Gate

_TIMED = "latency"
"""Measures of time, which differ in every run."""
_SIDES = ("before", "after")
_FILES = ("qrels", "queries", "holdout", "cheap")
_OF_LEDGER = ("ledger", "uses_left", "look")
"""Facts about the ledger, which can't be derived from the files."""


def gate_receipt(finding: RankingsFinding, before: str, after: str, labels: outside.LabelFiles) -> Receipt:
    """Return the receipt of a finding, with `before`, `after` and the files of labels as they were given.

    Files are subjects, with their hashes; endpoints, retrievers and configs are only names.
    """
    given = {"before": before, "after": after} | {name: str(path) for name, path in labels.given.items()}
    facts = _derivable(finding, finding.report()["evaluation"]) | {
        "given": dict(sorted(given.items())),
        "k": labels.k,
        "relevant_from": labels.relevant_from,
        "gate": finding.gate.model_dump(),
        "budgets": dict(sorted(finding.budgets.items())),
    }
    files = {name: Path(name) for name in given.values() if Path(name).is_file()}
    return Receipt("gate", {name: _digest(path) for name, path in files.items()}, facts)


def checks_of(receipt: Receipt) -> Iterator[Rederived]:
    """Yield the repeated checks: the hash of each file and, if all are unchanged, the figures and the decision.

    The receipt's paths are relative to the current folder. No look at a holdout is spent: only whether the figures and
    the decision equal the receipt's is reported.
    """
    whole = True
    for name, digest in sorted(receipt.subjects.items()):
        if not Path(name).is_file():
            yield Rederived(f"file {name}", "unknown", "it isn't here")
            whole = False
            continue
        check = Rederived.of(f"file {name}", _digest(Path(name)) == digest, "it was changed since")
        whole = whole and check.outcome == "same"
        yield check
    try:
        facts = _GateFacts.model_validate(receipt.facts)
    except ValidationError:
        yield Rederived("measurement", "differs", "the receipt doesn't say what was compared, and how it was decided")
        return
    if not whole:
        yield Rederived("measurement", "unknown", "it can be measured on the same files alone")
    elif any(facts.given.get(side) not in receipt.subjects for side in _SIDES):
        yield Rederived("measurement", "unknown", "a side is no file: what it returned then can't be asked again")
    elif not {*facts.given.values()} <= receipt.subjects.keys():
        yield Rederived("measurement", "differs", "the receipt says nothing of what is in a file that it rests on")
    else:
        yield from _derived(facts)


class _GateFacts(Format):
    """A receipt's facts; `evaluation` is a result of `_derivable`, `given` has sources and files by option."""

    decision: str
    reasons: list[str]
    evaluation: dict[str, Any]
    given: dict[str, str]
    k: Annotated[int, Field(ge=1, le=1000)] | None
    relevant_from: Annotated[int, Field(ge=1)]
    gate: Gate
    budgets: dict[str, Annotated[float, Field(ge=0, le=1)]]

    @model_validator(mode="after")
    def _known(self) -> _GateFacts:
        if not {*_SIDES, "qrels"} <= self.given.keys() <= {*_SIDES, *_FILES} or not self.budgets.keys() <= {*BUDGETED}:
            raise ValueError("of another release")
        return self

    @property
    def use(self) -> HoldoutUse | None:
        j = self.evaluation.get("j")
        return HoldoutUse(j, spent_alpha(j, self.gate.alpha)) if type(j) is int and 0 < j <= MAX_USES + 1 else None

    @property
    def accepted(self) -> list[str]:
        tags = self.evaluation.get("accepted_tags")
        return [str(one.get("tag")) for one in tags if isinstance(one, dict)] if isinstance(tags, list) else []

    @property
    def accepted_losses(self) -> list[str]:
        names = self.evaluation.get("accepted")
        return [str(name) for name in names] if isinstance(names, list) else []


def _derived(facts: _GateFacts) -> Iterator[Rederived]:
    """Yield whether the files lead to the same figures, and figures and thresholds to the same decision."""
    try:
        again = _decided_again(facts)
    except (HiveError, KeyError) as error:
        yield Rederived("measurement", "unknown", f"the files can't be read as runs and labels: {error}")
        return
    if again is None:
        why = "a side is asked anew each time: what it returned then can't be asked again"
        yield Rederived("measurement", "unknown", why)
        return
    told = _derivable(again, again.to_json())
    figures, figures_then = (
        {name: value for name, value in told_of.items() if name not in _OF_LEDGER}
        for told_of in (told["evaluation"], facts.evaluation)
    )
    same = figures == figures_then
    yield Rederived.of("measurement", same, "measured again on the same files, the figures are others")
    same = (told["decision"], told["reasons"]) == (facts.decision, facts.reasons)
    yield Rederived.of("decision", same, "these figures and thresholds lead to another one")
    if facts.use is not None or facts.evaluation.get("split"):
        yield Rederived("look at the holdout", "unknown", "which one it was is in the ledger alone")
    if facts.accepted or facts.accepted_losses:
        yield Rederived("accepted losses", "unknown", "who accepted them is in the ledger alone")


def _decided_again(facts: _GateFacts) -> GateFinding | None:
    """Return the gate's decision on the present files; None where one side is an endpoint or a retriever."""
    old, new = (open_source(facts.given[side], _no_workspace) for side in _SIDES)
    if old.live or new.live:
        return None
    files = {name: Path(facts.given[name]) for name in _FILES if name in facts.given}
    asked = outside.LabelFiles(**files, k=facts.k, relevant_from=facts.relevant_from)
    known, labels = asked.measured()
    many = asked.cheap_labels(labels.k)
    cheap = None if many is None else CheapLabels(many, _ranked(old, many), _ranked(new, many))
    return decide_again(
        (old.name, _ranked(old, labels)),
        (new.name, _ranked(new, labels)),
        labels,
        facts.gate,
        use=facts.use,
        fault="the ledger was at fault" if "HIVE-413" in facts.reasons else "",
        accept_tags=facts.accepted,
        accept=facts.accepted_losses,
        budgets=facts.budgets,
        cheap=cheap,
        known={query.id for query in known},
    )


def _ranked(source: Source, labels: GoldenSet) -> list[outside.FoundList]:
    return [source.rank(query, labels.k) for query in labels]


def _derivable(finding: GateFinding, evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return the reproducible part of a result: decision, codes of the reasons, and figures without times."""
    for side in ("candidate", "active"):
        evaluation[side] = {name: value for name, value in evaluation[side].items() if _TIMED not in name}
    reasons = [reason.code for reason in finding.reasons]
    return {"decision": finding.decision, "reasons": reasons, "evaluation": json.loads(json.dumps(evaluation))}


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()


def _no_workspace() -> Workspace:
    fix = "compare rankings in files, which can be read again"
    raise HiveError.of("HIVE-410", "a config of a workspace isn't measured again", fix=fix)
