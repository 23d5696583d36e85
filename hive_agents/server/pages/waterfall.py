"""A run's steps as a waterfall: when each began and how long it took, as shares of the time in which anything ran."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hive_agents.server.runs import RunStepShape

LEAST = 0.5
"""Percent of the width that the bar of a short step has at least."""
RESTED = 2.0
"""Seconds without any step from which on the run rested: for a person, or because nothing worked on it."""


@dataclass
class Bar:
    """A step on its line: `at` and `width` are percents; `rested` are the seconds of rest before it. `said` is what the
    model said, or the tool returned, `calls` what was called with which arguments."""

    step: RunStepShape
    start: float
    rested: float = 0.0
    at: float = 0.0
    width: float = LEAST
    said: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class NodeBars:
    """The steps of a node, and what they took together."""

    node: str | None
    bars: list[Bar]

    @property
    def seconds(self) -> float:
        return sum(one.step.seconds for one in self.bars)

    @property
    def tokens(self) -> int:
        return sum(one.step.tokens for one in self.bars)

    @property
    def usd(self) -> float:
        return sum(one.step.usd for one in self.bars)

    @property
    def failed(self) -> bool:
        return any(one.step.ok is False for one in self.bars)


def placed(steps: Sequence[RunStepShape]) -> list[Bar]:
    """Return the bars of steps. Rests have no width: a night in which a person was waited for would hide all else.

    Beginnings are known to the second; a step begins no earlier than the one before it in its node ended.
    """
    bars: list[Bar] = []
    cut, ends = 0.0, dict[str | None, float]()
    for step in steps:
        begun = (dt.datetime.fromisoformat(step.started_at) - _epoch(steps)).total_seconds() - cut
        last = max(ends.values(), default=0.0)
        rested = begun - last if begun - last > RESTED else 0.0
        cut += rested
        start = max(begun - rested, min(last, begun - rested + 1), ends.get(step.node, 0.0))
        ends[step.node] = start + step.seconds
        bars.append(Bar(step, start, rested))
    whole = max(ends.values(), default=0.0) or 1.0
    for bar in bars:
        bar.width = max(LEAST, 100 * bar.step.seconds / whole)
        bar.at = min(100 * bar.start / whole, 100 - bar.width)
    return bars


def lanes(steps: Sequence[RunStepShape], messages: Sequence[Mapping[str, Any]]) -> list[NodeBars]:
    """Return the steps by node, in the order in which nodes began, each with what went in and came out."""
    made: dict[str, list[dict[str, Any]]] = {}
    for message in messages:
        made.setdefault(message.get("step") or "", []).append(dict(message))
    found: dict[str | None, NodeBars] = {}
    for bar in placed(steps):
        bar.said = [one for one in made.get(bar.step.step, []) if one["text"]]
        bar.calls = _calls(bar.step, made)
        found.setdefault(bar.step.node, NodeBars(bar.step.node, [])).bars.append(bar)
    return list(found.values())


def _calls(step: RunStepShape, made: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the calls of a model's turn, or the one that a tool's step answers."""
    turn, _, number = step.step.rpartition("/") if step.kind == "tool" else (step.step, "", "")
    asked = [call for one in made.get(turn, []) for call in one["calls"] if isinstance(call, Mapping)]
    if step.kind != "tool":
        return [dict(call) for call in asked]
    return [dict(asked[int(number)])] if number.isdigit() and int(number) < len(asked) else []


def _epoch(steps: Sequence[RunStepShape]) -> dt.datetime:
    return dt.datetime.fromisoformat(steps[0].started_at)
