"""Detectors: six pure functions from a run's health to a finding or None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hive_agents.base.files import Format
from hive_agents.events import TicketCause, TicketSeverity
from hive_agents.supervision.health.summary import WorkerHealth


@dataclass(frozen=True)
class Thresholds:
    """The bounds of the detectors; settings and agents may override them."""

    loop_times: int = 3
    """As the run's own guard, which ends a node at three: a longer loop has evaded it."""
    loop_seconds: float = 240.0
    """A loop that still runs at the third of the default ticks won't end by itself: critical."""
    stall_seconds: float = 900.0
    """A tool may take 600 s without an event; 1.5 times that isn't a tool any more."""
    stall_high_seconds: float = 1_800.0
    retries: int = 6
    """Of the last ten verdicts: more retries than acceptances."""
    retries_high: int = 8
    """Almost no acceptance."""
    errors: int = 4
    """Of the same message, in the last twenty outcomes: transient faults are retried three times."""
    errors_high: int = 8
    budget: float = 0.80
    """As `budget.warned`."""
    budget_high: float = 0.95
    """About ten of the default 200 steps remain: the last moment at which a person can still choose."""
    breaks_critical: int = 3
    """Interrupted three times without progress in between: another attempt won't help."""
    lease_seconds: float = 60.0
    """After the end of a lease, or the run's first interruption: twice the default 30 s in which a host resumes it."""

    def over(self, *own: Mapping[str, float | None]) -> Thresholds:
        """Return these thresholds, overridden by those set in `own`, the last first."""
        bounds: dict[str, Any] = {}
        for some in own:
            bounds |= {name: bound for name, bound in some.items() if bound is not None}
        return replace(self, **bounds)


class Finding(Format):
    """`node` is where it was found, None for the run's active one; `lasting` says after how many seconds the same
    finding is critical."""

    cause: TicketCause
    severity: TicketSeverity
    evidence: list[str]
    suggested_action: str
    node: str | None = None
    lasting: float | None = None


Detector = Callable[[WorkerHealth, Thresholds], Finding | None]

_BUDGETS = ("steps", "tool_calls", "tokens", "usd", "seconds", "max_tool_calls")
_EXHAUSTED = "HIVE-423"
_BROKEN = ("model_error", "unavailable", "condition_error", "prompt", "fault")
"""Reasons for an end that are not the agent's fault."""


def findings_of(health: WorkerHealth, thresholds: Thresholds | None = None) -> list[Finding]:
    """Return the run's findings, at most one per cause; none for a healthy run.

    A run without progress that loops, is sent back or fails repeatedly isn't stalled as well. For a run that has ended
    only the cause of its end is a finding.
    """
    limits = thresholds or Thresholds()
    found = [finding for detector in DETECTORS if (finding := detector(health, limits)) is not None]
    causes = {finding.cause for finding in found}
    explained = causes & {"doom_loop", "excessive_retries", "repeated_errors", "crash"}
    return [finding for finding in found if finding.cause != "stall" or not explained]


def doom_loop(health: WorkerHealth, limits: Thresholds) -> Finding | None:
    """Find repeated calls. High; critical where it lasts, and where it ended the run."""
    action = "pause it, and tell the agent which calls it repeats and what they gave"
    if _ended(health, "doom_loop"):
        return _final("doom_loop", health, "start it anew with another prompt or other tools")
    loop = health.loop
    if not health.active or loop is None or loop.times < limits.loop_times:
        return None
    turns = "turn" if loop.period == 1 else f"{loop.period} turns"
    node, times = loop.node or _node(health), banded(loop.times, limits.loop_times)
    evidence = f"{node} makes the same {turns} of tool calls {times} times or more: {', '.join(loop.tools)}"
    return Finding(
        cause="doom_loop",
        severity="high",
        evidence=[evidence],
        suggested_action=action,
        node=loop.node,
        lasting=limits.loop_seconds,
    )


def stall(health: WorkerHealth, limits: Thresholds) -> Finding | None:
    """Find a run without progress. Medium, then high; critical where it ended the run."""
    if _ended(health, "stalled"):
        return _final("stall", health, "start it anew with a prompt that says when the work is done")
    idle = health.idle_seconds
    if idle is None or idle < limits.stall_seconds:
        return None
    minutes = banded(idle, limits.stall_seconds) / 60
    missing = "no output, no new result of a tool"
    evidence = f"{_node(health)} has brought nothing new for {minutes:g} min or more: {missing}"
    return Finding(
        cause="stall",
        severity="high" if idle >= limits.stall_high_seconds else "medium",
        evidence=[evidence],
        suggested_action="ask the agent what it waits for; stop it where it doesn't answer",
    )


def excessive_retries(health: WorkerHealth, limits: Thresholds) -> Finding | None:
    """Find a node whose work is mostly sent back. Medium, then high; critical where its iterations ran out."""
    if _ended(health, "max_iterations"):
        return _final("excessive_retries", health, "make its criteria reachable, or its prompt clearer")
    if not health.active or health.retries < limits.retries:
        return None
    node = health.judged_node or _node(health)
    evidence = [f"{health.retries} of the last {health.judged} verdicts sent the work of {node} back"]
    if health.feedback:
        evidence.append(f"last feedback: {health.feedback}")
    return Finding(
        cause="excessive_retries",
        severity="high" if health.retries >= limits.retries_high else "medium",
        evidence=evidence,
        suggested_action="tell the agent what the judge misses, or have a person decide",
        node=health.judged_node,
    )


def repeated_errors(health: WorkerHealth, limits: Thresholds) -> Finding | None:
    """Find a repeated error. Medium, then high."""
    error = health.errors[0] if health.errors else None
    if not health.active or error is None or error.count < limits.errors:
        return None
    return Finding(
        cause="repeated_errors",
        severity="high" if error.count >= limits.errors_high else "medium",
        evidence=[f"{banded(error.count, limits.errors)} times or more of late: {error.message}"],
        suggested_action="mend what the error names, or tell the agent to do without it",
    )


def budget_burn(health: WorkerHealth, limits: Thresholds) -> Finding | None:
    """Find an almost exhausted budget. Medium, then high; critical where it ended the run."""
    if _ended(health, *_BUDGETS) or (health.status == "failed" and _code(health) == _EXHAUSTED):
        return _final("budget_burn", health, "raise the limit, or find out what it was spent on")
    if not health.active or not health.shares or max(health.shares.values()) < limits.budget:
        return None
    burnt = sorted((share, measure) for measure, share in health.shares.items() if share >= limits.budget)
    return Finding(
        cause="budget_burn",
        severity="high" if burnt[-1][0] >= limits.budget_high else "medium",
        evidence=[
            f"{min(100, int(share * 20 + 1e-9) * 5)} % or more of {health.limits[measure]:g} {measure} are spent"
            for share, measure in reversed(burnt)
        ],
        suggested_action="see whether what is left is enough; raise the limit or stop it",
    )


def crash(health: WorkerHealth, limits: Thresholds) -> Finding | None:
    """Find a failure outside the agent's work. High, since the run can be resumed; a defect is critical."""
    if health.lost_seconds is not None and health.lost_seconds >= limits.lease_seconds:
        evidence = "whoever worked on it is gone, and nobody has taken it up again"
        action = "start `hive serve`, which takes it up, or resume it by hand"
        return Finding(cause="crash", severity="high", evidence=[evidence], suggested_action=action)
    passing = health.broken_seconds is not None and health.broken_seconds < limits.lease_seconds
    if health.active and health.breaks is not None and (health.breaks.count > 1 or not passing):
        often = health.breaks.count
        times = "" if often == 1 else f" {often} times"
        return Finding(
            cause="crash",
            severity="critical" if often >= limits.breaks_critical else "high",
            evidence=[f"the run broke off{times} since its work last went on: {health.breaks.message}"],
            suggested_action="mend what the error names: it is tried again until then",
        )
    # `stopped_by` is a person's name or a diagnostic's code.
    broken_off = health.status == "stopped" and (health.stopped_by or "").startswith(("fault", "HIVE-"))
    if not broken_off and not (health.status == "failed" and (health.stopped_by or "") in _BROKEN):
        return None
    action = "mend what the error names, then resume it" if broken_off else "mend what the error names, start it anew"
    severity: TicketSeverity = "critical" if health.stopped_by == "fault" else "high"
    return _final("crash", health, action, severity)


DETECTORS: tuple[Detector, ...] = (doom_loop, stall, excessive_retries, repeated_errors, budget_burn, crash)


def banded(value: float, base: float) -> float:
    """Return the highest `base * 2**n` up to `value`, so that evidence doesn't change with each tick.

    >>> [banded(value, 3) for value in (3, 5, 6, 11, 12)]
    [3, 3, 6, 6, 12]
    """
    while base * 2 <= value:
        base *= 2
    return base


def _ended(health: WorkerHealth, *reasons: str) -> bool:
    return health.status == "failed" and health.stopped_by in reasons


def _code(health: WorkerHealth) -> str | None:
    return health.error.code if health.error is not None else None


def _node(health: WorkerHealth) -> str:
    return health.node or "the run"


def _final(cause: TicketCause, health: WorkerHealth, action: str, severity: TicketSeverity = "critical") -> Finding:
    reason = f"{health.error.code}: {health.error.message}" if health.error is not None else f"by {health.stopped_by}"
    evidence = [
        f"the run {'was broken off' if health.status == 'stopped' else 'failed'}: {' '.join(reason.split())[:300]}"
    ]
    return Finding(cause=cause, severity=severity, evidence=evidence, suggested_action=action)
