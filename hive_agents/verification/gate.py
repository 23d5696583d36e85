"""Level 3, the deploy gate: a candidate replaces the active config only where it is proved better.

Thresholds are the settings' `[gate]`. A null result, too little evidence or a worn-out holdout is
INCONCLUSIVE and never passes by itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hive_agents.errors import Diagnostic
from hive_agents.evaluation import (
    Evaluation,
    GoldenSet,
    PairedDifference,
    evaluate_interleaved,
    is_measurable,
    needed_queries,
    paired_difference,
)
from hive_agents.retrieval import SearchEngine, StoredConfig
from hive_agents.settings import Gate
from hive_agents.verification.acceptance import only_people
from hive_agents.verification.certificate import Certificate, certify, log_fault
from hive_agents.verification.golden_trust import change_warning, is_accepted
from hive_agents.verification.holdout import MAX_USES, HoldoutUse, distinct, spend, was_held_out
from hive_agents.verification.tags import EPSILON, TagChange, falling_tags
from hive_agents.workspace import Workspace

GateDecision = Literal["passed", "blocked", "inconclusive", "first"]


@dataclass(frozen=True)
class Reason:
    code: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True)
class GateResult:
    """`split` names the part of the golden set that was measured, None for all of it.

    `use` is None where no holdout was used up; `difference` is None where there was nothing to compare with. Of the
    tags that fall, `lost_tags` block, `accepted_tags` would and a person accepted it, and `watch` has those whose few
    queries don't show a loss: they stop nobody. Each has the worst first.
    """

    decision: GateDecision
    reasons: list[Reason]
    candidate: Evaluation
    active: Evaluation | None
    difference: PairedDifference | None
    certificate: Certificate
    alpha: float
    golden_file: str
    split: str | None = None
    use: HoldoutUse | None = None
    warnings: tuple[Diagnostic, ...] = ()
    thresholds: Gate = field(default_factory=Gate)
    lost_tags: tuple[TagChange, ...] = ()
    watch: tuple[TagChange, ...] = ()
    accepted_tags: tuple[TagChange, ...] = ()

    @property
    def needed_queries(self) -> int | None:
        """About how many more queries would show the gain; None where it is shown, or where there is none."""
        return needed_queries(self.difference, self.alpha) if self.difference else None

    @property
    def measurable(self) -> bool:
        """Whether winning every query that differs would have been proof; True where there is nothing to compare."""
        return self.difference is None or is_measurable(self.difference, self.alpha)

    def record(self) -> dict[str, Any]:
        """What a deployment keeps: the figures, by which thresholds, and what they were measured on."""
        return {
            **self.to_json(),
            "golden": self.golden_file,
            "thresholds": self.thresholds.model_dump(),
            "certificate": asdict(self.certificate),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "n": len(self.candidate.queries),
            "split": self.split,
            "candidate": {"config": self.candidate.config, **self.candidate.metrics},
            "active": {"config": self.active.config, **self.active.metrics} if self.active else None,
            "difference": self.difference.to_json() if self.difference else None,
            "alpha": self.alpha,
            "j": self.use.j if self.use else None,
            "evidence": "holdout" if self.split else "tuning_set",
            "watch": [change.to_json() for change in self.watch],
            "accepted_tags": [change.to_json() for change in self.accepted_tags],
            "needed_queries": self.needed_queries,
            "measurable": self.measurable,
        }


def run_gate(
    workspace: Workspace,
    engine: SearchEngine,
    candidate: StoredConfig,
    active: StoredConfig | None,
    golden: GoldenSet,
    *,
    holdout: GoldenSet | None = None,
    purpose: str = "gate",
    run_id: str | None = None,
    agent: bool = False,
    accept_tags: Collection[str] = (),
) -> GateResult:
    """Measure candidate and active on the holdout, where there is one, and decide.

    An `agent` gets no more than inconclusive on a golden set that changed since a person accepted it.
    `holdout` overrides the golden set's own split; `accept_tags` names tags whose shown loss a person accepts, and
    whose blocks are lifted. Levels 1 and 2 were checked before, and the index is fresh.
    Raises: HIVE-105 when there are no queries to measure with, HIVE-415 for an agent that accepts a loss.
    """
    if agent and accept_tags:
        raise only_people("an agent")
    if holdout is None and golden.has_holdout:
        holdout = golden.split("holdout")
    measured, warnings = distinct(holdout or golden)
    fault = log_fault(workspace)
    trusted = is_accepted(workspace, golden)
    if not trusted:
        warnings.append(change_warning(golden))
    measured.require_queries()
    held_out = holdout is not None or was_held_out(workspace, measured)
    # What serves already is no candidate among others: measuring it again chooses nothing.
    compared = active is not None and active.hash != candidate.hash
    use = spend(workspace, measured, purpose, run_id) if held_out and compared else None
    alpha = use.alpha if use else workspace.settings.gate.alpha
    configs = [candidate.config] if active is None else [candidate.config, active.config]
    new, *others = evaluate_interleaved(engine, configs, measured)
    old = others[0] if others else None
    difference = paired_difference(old.scores(), new.scores(), alpha=alpha) if old else None
    falling = tag_changes(new, old, workspace.settings.gate) if old else []
    lost = [change for change in falling if change.blocks and change.tag not in accept_tags]
    accepted = [change for change in falling if change.blocks and change.tag in accept_tags]
    watch = [change for change in falling if not change.blocks]
    warnings += [watch_warning(change, golden) for change in watch]
    decision: GateDecision
    if old is None or difference is None:
        assert math.isfinite(_of(new.metrics, "nudcg"))
        decision, reasons = "first", []
    elif blocked := list(regressions(new, old, workspace.settings.gate, lost)):
        decision, reasons = "blocked", blocked
    elif doubt := doubt_of(use, fault, difference, alpha, golden if agent and not trusted else None):
        decision, reasons = "inconclusive", [doubt]
    else:
        decision, reasons = "passed", []
    return GateResult(
        decision,
        reasons,
        candidate=new,
        active=old,
        difference=difference,
        certificate=certify(workspace, candidate, active, golden, engine.index(candidate.config.collection)),
        alpha=alpha,
        golden_file=golden.file,
        split="holdout" if holdout is not None else None,
        use=use,
        warnings=tuple(warnings),
        thresholds=workspace.settings.gate,
        lost_tags=tuple(lost),
        watch=tuple(watch),
        accepted_tags=tuple(accepted),
    )


def doubt_of(
    use: HoldoutUse | None, fault: str, difference: PairedDifference, alpha: float, untrusted: GoldenSet | None = None
) -> Reason | None:
    """Why a gain is not believed, None where it is proved; `fault` is the audit log's, `untrusted` the golden set."""
    if use and use.exhausted:
        message = f"this holdout was used {MAX_USES} times; it can't prove anything any more: write new queries"
        return Reason("HIVE-308", message)
    if fault:
        return Reason("HIVE-413", f"{fault}: how often this was measured before can't be known")
    if difference.p_value > alpha:
        return Reason("HIVE-306", inconclusive_reason(difference, alpha))
    return Reason("HIVE-306", change_warning(untrusted).message) if untrusted else None


def tag_changes(new: Evaluation, old: Evaluation, gate: Gate) -> list[TagChange]:
    """Return the tags that fall by more than the settings allow, worst first."""
    return falling_tags([query.query.tags for query in old.queries], old.scores(), new.scores(), gate)


def watch_warning(change: TagChange, golden: GoldenSet) -> Diagnostic:
    message = f'nUDCG of tag "{change.tag}" falls {change.figures}: not shown, so it stops nobody'
    fix = "look at its queries with `hive compare`, and add queries of this tag: more of them would show a loss"
    return Diagnostic("HIVE-303", message, golden.file, "queries", fix, severity="warning")


def regressions(new: Evaluation, old: Evaluation, gate: Gate, lost: Sequence[TagChange]) -> Iterator[Reason]:
    """Everything that blocks: what gets worse, by how much; `lost` are the tags whose loss nobody accepted."""
    a, b = old.metrics, new.metrics
    if _of(b, "nudcg") < _of(a, "nudcg") - EPSILON:
        yield Reason("HIVE-301", f"nUDCG regression {_of(a, 'nudcg'):.2f} -> {_of(b, 'nudcg'):.2f}")
    if _of(b, "distractors") > _of(a, "distractors") + EPSILON:
        yield Reason(
            "HIVE-302", f"distractors per query rise {_of(a, 'distractors'):.2f} -> {_of(b, 'distractors'):.2f}"
        )
    for change in lost:
        yield Reason("HIVE-303", f'nUDCG of tag "{change.tag}" falls {change.figures}')
    slow, was = _of(b, "latency_ms_p95"), _of(a, "latency_ms_p95")
    if slow > gate.latency_floor_ms and slow > gate.latency_ratio * was:
        yield Reason("HIVE-304", f"p95 latency {was:.0f} ms -> {slow:.0f} ms")
    unjudged = b["unjudged"]
    if unjudged is not None and unjudged > gate.unjudged + EPSILON:
        yield Reason("HIVE-305", f"{unjudged:.0%} of the documents returned for fully judged queries are unjudged")


def _of(metrics: dict[str, float | None], name: str) -> float:
    value = metrics[name]
    return 0.0 if value is None else value


def inconclusive_reason(difference: PairedDifference, alpha: float) -> str:
    """Why the evidence does not suffice, with what it could have shown."""
    if difference.wins == difference.losses == 0:
        return f"no query changes (n = {difference.n}): nothing shows that it is better"
    mde = "" if difference.mde is None else f"; {difference.n} queries can't show gains under {difference.mde:.2f}"
    needed = needed_queries(difference, alpha)
    more = "" if needed is None else f"; about {needed} more would show this one"
    return f"nUDCG {difference.difference:+.3f}, p = {difference.p_value:.3f}, more than {alpha:.3f}{mde}{more}"
