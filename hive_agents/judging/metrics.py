"""The report of a calibration: its guarantee, and how often people agree with the judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hive_agents.base.files import Format
from hive_agents.judging.binomial import lower_bound
from hive_agents.judging.decisions import JudgedCase
from hive_agents.judging.hybrid import THRESHOLD

CalibrationStatus = Literal["certified", "missed", "undecided", "expired"]


class Accuracy(Format):
    """Accepted results at one confidence (rounded to .1), and how many of them people accepted too."""

    confidence: float
    n: int
    correct: int
    lower95: float


class Rate(Format):
    """`k` of `n`."""

    n: int
    k: int
    rate: float


class Guarantee(Format):
    """With confidence 1 - delta, people disagree with at most alpha of what the threshold lets through."""

    alpha: float
    delta: float
    n: int
    coverage: float


class CalibrationMetrics(Format):
    """The result of a calibration. A type without enough audits of its own has the global threshold.

    `recommended_threshold` is None where nothing could be certified from one confidence on: `bins` may be certified by
    themselves. Where neither is, `previous` stays, unless the target was `missed`; `needed_audits` more agreeing audits
    might change that, and the probability that they all agree is `chance`. `missed` names the types that are shown to
    miss the target, each with the confidences that fail: all of them goes to a person from now on.
    `awaiting_approval` names the types whose new threshold is lower than the one in force, each with its calibration's
    number: it takes effect when a second person agrees. `differing` types disagree so much more often than the others
    that no threshold holds for all together. `stronger` is the same of the judge that is asked where this isn't sure.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from hive_agents import Workspace
    >>> from hive_agents.judging.calibration import calibrate
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, "collections").mkdir()
    ...     found = calibrate(Workspace(folder))
    >>> found.status, found.recommended_threshold, found.previous, found.needed_audits, found.guarantee
    ('undecided', None, 0.7, 45, None)
    """

    status: CalibrationStatus = "undecided"
    recommended_threshold: float | None
    previous: float = THRESHOLD
    needed_audits: int = 0
    threshold_by_goal_type: dict[str, float]
    accept_accuracy_by_confidence: list[Accuracy]
    retry_success_rate: Rate | None
    guarantee: Guarantee | None
    empirical_threshold: float | None = None
    rejected: int = 0
    undecided: int = 0
    awaiting_approval: dict[str, int] = {}
    chance: float | None = None
    bins: list[float] = []
    missed: dict[str, list[float]] = {}
    differing: list[str] = []
    stronger: CalibrationMetrics | None = None
    warnings: list[str] = []


def accept_accuracy(rows: Sequence[JudgedCase]) -> list[Accuracy]:
    """Return how often people accept what the judge accepted, per confidence; blind audits only."""
    bins: dict[int, list[bool]] = {}
    for row in rows:
        human = row.human_action(blind=True)
        if row.proposal is None or row.action != "accept" or not row.audit or human is None:
            continue
        if 0 <= (confidence := row.proposal[1]) <= 1:
            bins.setdefault(min(9, int(confidence * 10 + 1e-9)), []).append(human == "accept")
    return [
        Accuracy(confidence=at / 10, n=len(hits), correct=sum(hits), lower95=lower_bound(sum(hits), len(hits)))
        for at, hits in sorted(bins.items())
    ]


def retry_success(rows: Sequence[JudgedCase]) -> Rate | None:
    """Return how often a retry mended the result; None when no retry's outcome is known."""
    outcomes = [row.outcome for row in rows if row.action == "retry" and row.outcome is not None]
    k = outcomes.count("succeeded")
    return Rate(n=len(outcomes), k=k, rate=k / len(outcomes)) if outcomes else None
