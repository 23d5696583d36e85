"""Level 3, the deploy gate: a candidate replaces the active config only where it is proved better.

Thresholds are the settings' `[gate]`. A null result, too little evidence or a worn-out holdout is
INCONCLUSIVE and never passes by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hive_agents.access import Principal
from hive_agents.base import Diagnostic
from hive_agents.evaluation import (
    Evaluation,
    GoldenSet,
    Leaks,
    evaluate_interleaved,
    held_out,
    labelling,
    leaks_of,
    open_part,
    reach,
    viewable_golden,
)
from hive_agents.gate.acceptance import only_people
from hive_agents.gate.certificate import Certificate, certify, log_fault
from hive_agents.gate.decision import GateFinding, Reason, decide, too_few, watch_warning
from hive_agents.gate.golden_trust import change_warning, is_accepted
from hive_agents.gate.holdout import require_searchable
from hive_agents.gate.ledger import distinct, spend, spend_of, uses
from hive_agents.index import AnyIndex, BM25Params, scope_of
from hive_agents.ranking import SearchEngine, StoredConfig
from hive_agents.workspace import Workspace
from hive_agents.workspace.settings import Gate


@dataclass(frozen=True, kw_only=True)
class GateResult(GateFinding):
    """The gate's finding about a config, with its thresholds and inputs."""

    certificate: Certificate
    golden_file: str
    warnings: tuple[Diagnostic, ...]
    thresholds: Gate

    def record(self) -> dict[str, Any]:
        """Return the record of a deployment: the figures, the thresholds and the inputs."""
        return {
            **self.to_json(),
            "golden": self.golden_file,
            "thresholds": self.thresholds.model_dump(),
            "certificate": asdict(self.certificate),
        }


def run_gate(
    workspace: Workspace,
    engine: SearchEngine,
    candidate: StoredConfig,
    active: StoredConfig | None,
    golden: GoldenSet,
    *,
    purpose: str = "gate",
    run_id: str | None = None,
    agent: bool = False,
    accept_tags: Collection[str] = (),
    accept: Collection[str] = (),
) -> GateResult:
    """Measure candidate and active on the held-out questions, and decide.

    Without held-out ones all are measured, which can block and never prove.
    An `agent` gets no more than inconclusive on a golden set that changed since a person accepted it.
    `accept_tags` names tags, `accept` figures of the readers whose
    loss a person accepts: they don't block. Levels 1 and 2 were checked before, and the index is fresh.
    Raises: HIVE-105 when there are no queries to measure with, HIVE-415 for an agent that accepts a loss.
    """
    if agent and (accept_tags or accept):
        raise only_people("an agent")
    holdout = held_out(golden)
    measured, warnings = distinct(holdout or golden.asked, golden if holdout else None)
    fault = log_fault(workspace)
    trusted = is_accepted(workspace, golden)
    if not trusted:
        warnings.append(change_warning(golden))
    measured.require_queries()
    leaks, looked_at, split = Leaks(), measured, None
    if holdout is not None:
        ids = {query.id for query in holdout}
        leaks = _leaks(workspace, engine, measured, golden.only({query.id for query in golden} - ids))
        warnings += leaks.warnings(measured)
        measured, split = leaks.without(measured), "holdout"
    few = too_few(golden, len(measured) if split else 0, len(looked_at) - len(measured))
    if few and split and (opened := open_part(golden)):
        # Where nothing can be proved nothing is spent, and so nothing held out is looked at.
        measured, split = distinct(opened)[0], None
    # Measuring the active config again chooses nothing, so it is no use of the holdout.
    compared = active is not None and active.hash != candidate.hash
    configs = [candidate.config] if active is None else [candidate.config, active.config]
    require_searchable(engine, configs)
    if holdout is not None and split is None:  # open ones, which may have been held out before
        use = spend(workspace, measured, purpose, run_id) if compared and uses(workspace, measured) else None
    else:
        use = spend_of(workspace, golden, looked_at, purpose, run_id) if compared else None
    new, *others = evaluate_interleaved(engine, configs, measured)
    finding = decide(
        new,
        others[0] if others else None,
        workspace.settings.gate,
        split=split,
        use=use,
        fault=fault,
        untrusted=golden if agent and not trusted else None,
        few=few,
        reached=reach.difference(engine, active.config, candidate.config, new) if compared and active else None,
        accept_tags=accept_tags,
        accept=accept,
    )
    finding = replace(finding, left_out=leaks.by_cause)
    warnings += [watch_warning(change, golden) for change in finding.watch]
    index = engine.index(candidate.config.collection)
    if active is not None and active.config.collection == candidate.config.collection:
        warnings += left_out(index, candidate, active)
    return GateResult(
        **vars(finding),
        certificate=certify(workspace, candidate, active, golden, index),
        golden_file=golden.file,
        warnings=tuple(warnings),
        thresholds=workspace.settings.gate,
    )


def _leaks(workspace: Workspace, engine: SearchEngine, held_out: GoldenSet, others: GoldenSet) -> Leaks:
    """Return the held-out questions that prove nothing; a question in a document is among its best by keywords."""
    index = engine.index(held_out.collection)

    def suspects() -> Iterator[tuple[str, str]]:
        lanes = (index.keyword(text, _SUSPECTS, BM25Params(), None) for text in held_out.texts)
        for row in index.rows(sorted({chunk for lane in lanes for chunk in lane.chunks.tolist()})):
            yield row.doc_id, f"{row.title}\n{row.heading}\n{row.in_document}"

    return replace(
        leaks_of(held_out, others, suspects()), changed=labelling.changed_since_labelled(workspace, held_out)
    )


_SUSPECTS = 10
"""How many chunks by keywords are read for a question."""


def as_seen(
    workspace: Workspace,
    engine: SearchEngine,
    result: GateResult,
    candidate: StoredConfig,
    active: StoredConfig | None,
    viewer: Principal,
) -> GateResult:
    """Return the gate's finding as told to a viewer: the decision on everything, and figures of what they may view.

    Its reasons are those of the decision, with the figures of what they may view where these show the same.
    """
    golden = viewable_golden(workspace, viewer, workspace.root / result.golden_file)
    ids = {query.query.id for query in result.candidate.queries}
    measured = golden.only(ids)
    configs = [candidate.config] if active is None else [candidate.config, active.config]
    if len(measured):
        new, *others = evaluate_interleaved(engine, configs, measured, reader=viewer)
    else:
        new, *others = (Evaluation(config.name, golden.k, (), golden.hash, "") for config in configs)
    finding = GateFinding(
        decision=result.decision,
        reasons=[],
        candidate=new,
        active=None,
        difference=None,
        alpha=result.alpha,
        split=result.split,
        use=result.use,
    )
    if others and len(measured):
        accepted = [change.tag for change in result.accepted_tags]
        gate = result.thresholds
        assert active is not None
        reached = reach.difference(engine, active.config, candidate.config, new, viewer) if result.readers else None
        finding = decide(
            new,
            others[0],
            gate,
            split=result.split,
            use=result.use,
            few=result.few,
            reached=reached,
            accept_tags=accepted,
            accept=result.accepted,
        )
    told = {reason.code: reason.message for reason in finding.reasons}
    codes = dict.fromkeys(reason.code for reason in result.reasons)
    everything = "by a measurement of everything; `hive explain {}` says what it means"
    reasons = [Reason(code, told.get(code, everything.format(code))) for code in codes]
    scope = scope_of(workspace, engine.index(candidate.config.collection), viewer)
    warnings = [warning for warning in result.warnings if warning.code == "HIVE-306"]
    warnings += [watch_warning(change, golden) for change in finding.watch]
    if active is not None and active.config.collection == candidate.config.collection:
        warnings += left_out(scope, candidate, active)
    return replace(
        result,
        **vars(finding) | {"decision": result.decision, "reasons": reasons},
        certificate=replace(result.certificate, golden_hash=golden.hash, index_hash=scope.index_hash),
        warnings=tuple(warnings),
    )


def left_out(index: AnyIndex, candidate: StoredConfig, active: StoredConfig) -> Iterator[Diagnostic]:
    """Warn of documents that the candidate's filters exclude and the active config finds.

    A golden set doesn't ask for every document, so no metric shows their loss.
    """
    new, old = (index.select(stored.config.conditions) for stored in (candidate, active))
    if new is None:
        return
    every = np.ones(len(new), np.bool_) if old is None else old
    total, lost = index.count(every), index.count(every) - index.count(every & new)
    if lost:
        whom = f"readers can no longer find {lost} of the {total} documents that {active.name} finds, whatever they ask"
        message = f"{whom}: the filters of {candidate.name} hide them; the other {total - lost} can still be found"
        fix = "prefer the others by `boosts` instead of a filter, or let the schema say that these values `may_hide`"
        yield Diagnostic("HIVE-314", message, candidate.file, "filters", fix, severity="warning")
