"""The gate's decision on two measurements: passed, blocked or inconclusive, with reasons.

All gates decide here, whether a config, an index or a foreign search was measured.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hive_agents.base import Diagnostic, Severity
from hive_agents.evaluation import (
    PROVING,
    Evaluation,
    GoldenSet,
    PoweredDifference,
    Reach,
    Readers,
    missing_labels,
    statistics,
)
from hive_agents.gate.golden_trust import change_warning
from hive_agents.gate.ledger import MAX_USES, HoldoutUse
from hive_agents.gate.tags import EPSILON, TagChange, falling_tags
from hive_agents.workspace.settings import Gate

_LOOK = "`hive compare {compare}` shows the queries"
_FIXES = {
    **dict.fromkeys(("HIVE-301", "HIVE-302", "HIVE-303"), _LOOK),
    "HIVE-304": "lower retrieval.candidates or disable rerank; or raise gate.latency_floor_ms",
    "HIVE-305": "judge them: `hive label QUERY`",
    "HIVE-306": "add queries with `hive label QUERY`, or deploy it with --allow-inconclusive",
    "HIVE-308": "write new queries",
    "HIVE-413": "restore the log; `hive explain HIVE-413` has more",
}

GateDecision = Literal["passed", "blocked", "inconclusive", "first"]


@dataclass(frozen=True)
class Reason:
    code: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True, kw_only=True)
class GateFinding:
    """A decision and its figures; `active` is the measurement of the config that served before.

    `split` names the part of the labels that was measured, None for all of them. `use` is None where no holdout was
    used; `difference` is None where there was nothing to compare with, `powered` where no cheap labels were given.
    Of the falling tags, `lost_tags` block, `accepted_tags` would block but for a person's acceptance, and `watch` has
    those without a proved loss, which don't block. Each is sorted worst first. Of the `readers`, whose figures are None
    without a comparison, those in `lost_readers` block, and those in `accepted` would but for a person's acceptance.
    `left_out` has the ids of held-out questions that prove nothing, by cause; `few` says that too few are held out to
    prove anything, and how many labels are missing.
    """

    decision: GateDecision
    reasons: list[Reason]
    candidate: Evaluation
    active: Evaluation | None
    difference: statistics.PairedDifference | None
    alpha: float
    split: str | None = None
    use: HoldoutUse | None = None
    lost_tags: tuple[TagChange, ...] = ()
    watch: tuple[TagChange, ...] = ()
    accepted_tags: tuple[TagChange, ...] = ()
    powered: PoweredDifference | None = None
    readers: Readers | None = None
    lost_readers: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    few: Reason | None = None

    def diagnostics(self, file: str) -> list[Diagnostic]:
        """Return the reasons as findings about the candidate's `file`: errors where they block, else warnings."""
        severity: Severity = "error" if self.decision == "blocked" else "warning"
        compare = f"{self.active.config} {self.candidate.config}" if self.active else self.candidate.config
        fixes = {code: fix.format(compare=compare) for code, fix in _FIXES.items()}
        return [
            Diagnostic(reason.code, reason.message, file, "$", fixes.get(reason.code), severity=severity)
            for reason in self.reasons
        ]

    @property
    def needed_queries(self) -> int | None:
        """About how many more queries would prove the gain; None where it is proved, or where there is none."""
        if self.difference is None or (self.powered is not None and self.powered.p_value <= self.alpha):
            return None
        return statistics.needed_queries(self.difference, self.alpha)

    @property
    def measurable(self) -> bool:
        """Whether winning every differing query would have been proof; True without a comparison."""
        return self.difference is None or (self.few is None and statistics.is_measurable(self.difference, self.alpha))

    def to_json(self) -> dict[str, Any]:
        return {
            "n": len(self.candidate.queries),
            "split": self.split,
            "candidate": {"config": self.candidate.config, **self.candidate.metrics},
            "active": {"config": self.active.config, **self.active.metrics} if self.active else None,
            "difference": self.difference.to_json() if self.difference else None,
            "alpha": self.alpha,
            "j": self.use.j if self.use else None,
            "look": self.use.look if self.use else None,
            "evidence": "holdout" if self.split else "tuning_set",
            "watch": [change.to_json() for change in self.watch],
            "accepted_tags": [change.to_json() for change in self.accepted_tags],
            "readers": self.readers.to_json() if self.readers else None,
            "accepted": list(self.accepted),
            "left_out": {cause: list(ids) for cause, ids in self.left_out.items()},
            "needed_queries": self.needed_queries,
            "measurable": self.measurable,
            **({"powered": self.powered.to_json()} if self.powered else {}),
        }


def decide(
    new: Evaluation,
    old: Evaluation | None,
    gate: Gate,
    *,
    split: str | None = None,
    use: HoldoutUse | None = None,
    fault: str = "",
    untrusted: GoldenSet | None = None,
    few: Reason | None = None,
    reached: Reach | None = None,
    accept_tags: Collection[str] = (),
    accept: Collection[str] = (),
    budgets: Mapping[str, float] | None = None,
    powered: PoweredDifference | None = None,
) -> GateFinding:
    """Decide on `new` against the active `old` by the thresholds `gate`, at the level of the `use`, if there is one.

    `few`, as of `too_few`, says that nothing passes, whatever was measured. `accept_tags` names tags
    and `accept` figures of the readers whose loss a person accepts, `budgets` the share of its mean that a metric may
    lose; the others are as in `doubt_of`. Blocks are measured by people's labels alone.
    """
    alpha = use.alpha if use else gate.alpha
    if old is None:
        assert math.isfinite(_of(new.metrics, "nudcg"))
        return GateFinding(
            decision="first", reasons=[], candidate=new, active=None, difference=None, alpha=alpha, split=split, use=use
        )
    difference = statistics.paired_difference(old.scores(), new.scores(), alpha=alpha)
    falling = tag_changes(new, old, gate)
    lost = tuple(change for change in falling if change.blocks and change.tag not in accept_tags)
    decision: GateDecision
    readers = Readers.of(old, new, reached)
    falls = dict(readers.falls(gate))
    lost_readers = {name: words for name, words in falls.items() if name not in accept}
    for_readers = [Reason("HIVE-301", words) for words in lost_readers.values()]
    if blocked := [*regressions(new, old, gate, lost), *for_readers, *overdrawn(new, old, budgets or {})]:
        decision, reasons = "blocked", blocked
    elif doubt := few or doubt_of(use, fault, difference, alpha, untrusted, powered):
        decision, reasons = "inconclusive", [doubt]
    else:
        decision, reasons = "passed", []
    return GateFinding(
        decision=decision,
        reasons=reasons,
        candidate=new,
        active=old,
        difference=difference,
        alpha=alpha,
        split=split,
        use=use,
        lost_tags=lost,
        watch=tuple(change for change in falling if not change.blocks),
        accepted_tags=tuple(change for change in falling if change.blocks and change.tag in accept_tags),
        readers=readers,
        lost_readers=tuple(lost_readers),
        accepted=tuple(name for name in falls if name in accept),
        powered=powered,
        few=few,
    )


def doubt_of(
    use: HoldoutUse | None,
    fault: str,
    difference: statistics.PairedDifference,
    alpha: float,
    untrusted: GoldenSet | None = None,
    powered: PoweredDifference | None = None,
) -> Reason | None:
    """Return why a gain isn't proved, None where it is; `fault` is the log's, `untrusted` an unaccepted golden set.

    With `powered`, which adds cheap labels to those of people, its test decides.
    """
    if use and use.exhausted:
        message = (
            f"{MAX_USES} looks at these held-out questions led to no deployment; they can't prove anything any more:"
            " label new ones, hold these out, and let the old ones be learned from"
        )
        return Reason("HIVE-308", message)
    if fault:
        return Reason("HIVE-413", f"{fault}: how often this was measured before can't be known")
    if powered is not None and powered.p_value > alpha:
        figures = f"nUDCG {powered.difference:+.3f}, p = {powered.p_value:.3f}, more than {_level(alpha)}"
        return Reason("HIVE-306", f"{figures}, with {powered.n_cheap} cheap labels that count {powered.weight:.2f}")
    if powered is None and difference.p_value > alpha:
        return Reason("HIVE-306", inconclusive_reason(difference, alpha))
    return Reason("HIVE-306", change_warning(untrusted).message) if untrusted else None


def too_few(golden: GoldenSet, held: int, left_out: int = 0) -> Reason | None:
    """Return how many labels are missing until anything can be proved; None where enough questions are held out.

    Of the held-out questions `held` can prove something, and `left_out` nothing, however many there are.
    """
    if held >= PROVING:
        return None
    labels = missing_labels(golden, PROVING + left_out)
    had = f"{held} held-out questions prove" if held else "no question is held out, and those that chose a config prove"
    return Reason("HIVE-306", f"{had} nothing; about {labels} more labels would: at least {PROVING} are held out then")


def tag_changes(new: Evaluation, old: Evaluation, gate: Gate) -> list[TagChange]:
    """Return the tags that fall by more than the settings allow, worst first."""
    return falling_tags([query.query.tags for query in old.queries], old.scores(), new.scores(), gate)


def watch_warning(change: TagChange, golden: GoldenSet) -> Diagnostic:
    message = f'nUDCG of tag "{change.tag}" falls {change.figures}: not shown, so it stops nobody'
    fix = "look at its queries with `hive compare`, and add queries of this tag: more of them would show a loss"
    return Diagnostic("HIVE-303", message, golden.file, "queries", fix, severity="warning")


def regressions(new: Evaluation, old: Evaluation, gate: Gate, lost: Sequence[TagChange]) -> Iterator[Reason]:
    """Yield the regressions that block; `lost` are the tags whose loss nobody accepted."""
    a, b = old.metrics, new.metrics
    if _of(b, "nudcg") < _of(a, "nudcg") - EPSILON:
        was, now = _of(a, "nudcg"), _of(b, "nudcg")
        digits = next(digits for digits in range(2, 13) if f"{was:.{digits}f}" != f"{now:.{digits}f}")
        yield Reason("HIVE-301", f"nUDCG regression {was:.{digits}f} -> {now:.{digits}f}")
    if _of(b, "distractors") > _of(a, "distractors") + EPSILON:
        yield Reason(
            "HIVE-302", f"distractors per query rise {_of(a, 'distractors'):.2f} -> {_of(b, 'distractors'):.2f}"
        )
    for change in lost:
        yield Reason("HIVE-303", f'nUDCG of tag "{change.tag}" falls {change.figures}')
    slow, usual = b["latency_ms_p95"], a["latency_ms_p95"]
    if slow is not None and usual is not None and slow > gate.latency_floor_ms and slow > gate.latency_ratio * usual:
        yield Reason("HIVE-304", f"p95 latency {usual:.0f} ms -> {slow:.0f} ms")
    unjudged = b["unjudged"]
    if unjudged is not None and unjudged > gate.unjudged + EPSILON:
        yield Reason("HIVE-305", f"{unjudged:.0%} of the documents returned for fully judged queries are unjudged")


def overdrawn(new: Evaluation, old: Evaluation, budgets: Mapping[str, float]) -> Iterator[Reason]:
    """Yield the metrics whose mean falls by more than the share that `budgets` allows them."""
    for name, share in budgets.items():
        was, now = _of(old.metrics, name), _of(new.metrics, name)
        if was - now > share * abs(was) + EPSILON:
            fall = (
                f"{name} {was:.3f} -> {now:.3f} falls by {(was - now) / abs(was):.1%}"
                if was
                else f"{name} falls below 0"
            )
            yield Reason("HIVE-312", f"{fall}, more than the {share:.1%} of its budget")


def _of(metrics: dict[str, float | None], name: str) -> float:
    value = metrics[name]
    return 0.0 if value is None else value


def inconclusive_reason(difference: statistics.PairedDifference, alpha: float) -> str:
    """Return why the evidence doesn't suffice, with the gain that it could have shown."""
    if difference.wins == difference.losses == 0:
        return f"no query changes (n = {difference.n}): nothing shows that it is better"
    mde = f"; {difference.n} queries can't show gains under {difference.mde:.2f}" if difference.mde else ""
    needed = statistics.needed_queries(difference, alpha)
    more = "" if needed is None else f"; about {needed} more would show this one"
    return f"nUDCG {difference.difference:+.3f}, p = {difference.p_value:.3f}, more than {_level(alpha)}{mde}{more}"


def _level(alpha: float) -> str:
    return f"{alpha:.3f}" if alpha >= 0.01 else f"{alpha:.4f}"
