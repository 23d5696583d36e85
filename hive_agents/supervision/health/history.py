"""A run's history from its last events: verdicts, repetitions, errors, and its last progress."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hive_agents.base.files import Format
from hive_agents.events import EventType

VERDICTS = 10
OUTCOMES = 20
"""The number of last results of tools and nodes whose errors count."""

LONGEST_PERIOD = 3
_SHOWN = 160
_BEGINS = (EventType.RUN_QUEUED, EventType.RUN_STARTED, EventType.RUN_RESUMED)
_ENDS = (EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_STOPPED)
_ERRORS = (EventType.TOOL_FAILED, EventType.NODE_FAILED)
_WORK = (
    EventType.TOOL_COMPLETED,
    EventType.NODE_COMPLETED,
    EventType.OUTPUT_SET,
    EventType.JUDGMENT_MADE,
    EventType.SUBAGENT_COMPLETED,
)
NOTED = (
    *_BEGINS,
    *_ENDS,
    *_ERRORS,
    *_WORK,
    EventType.RUN_WAITING,
)
"""The types of events that are read."""


class RepeatedCalls(Format):
    """The last turns of a node: `times` repetitions of the same `period` turns; `tools` are the tools called."""

    node: str | None
    tools: list[str]
    period: int
    times: int


class Repeated(Format):
    message: str
    count: int


@dataclass
class History:
    """`progress` is the time of the last step forward; `breaks` says how often the run broke off since its work last
    went on, and why, `broke_at` when it first did; `ending` is True once the run has told its end."""

    verdicts: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    judged: int = 0
    feedback: str | None = None
    judged_node: str | None = None
    loop: RepeatedCalls | None = None
    errors: list[Repeated] = field(default_factory=list)
    progress: str | None = None
    breaks: Repeated | None = None
    broke_at: str | None = None
    ending: bool = False


def history(events: Sequence[Mapping[str, Any]]) -> History:
    """Return the history of a run from its events, rows {type, time, node_id, payload}, oldest first.

    Judgements, calls and errors before a restart don't count, except in the number of all verdicts.
    """
    judged = [one["payload"] for one in events if one["type"] == EventType.JUDGMENT_MADE]
    start = max((place for place, one in enumerate(events) if one["type"] in _BEGINS), default=0)
    since = events[start:]
    recent = [one for one in since if one["type"] == EventType.JUDGMENT_MADE][-VERDICTS:]
    retries = [one for one in recent if one["payload"].get("action") == "retry"]
    breaks, broke_at = _breaks(events)
    return History(
        verdicts=dict(Counter(str(one.get("action")) for one in judged)),
        retries=len(retries),
        judged=len(recent),
        feedback=_short(retries[-1]["payload"].get("feedback")) if retries else None,
        judged_node=retries[-1]["node_id"] if retries else None,
        loop=_loop(since),
        errors=_errors(since),
        progress=_progress(events),
        breaks=breaks,
        broke_at=broke_at,
        ending=any(one["type"] in _ENDS for one in since),
    )


def _progress(events: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the time of the last progress: a new output, a finished phase, a call not made before, a start."""
    # Where older events are left out, the oldest known one stands in for them.
    found, seen = events[0]["time"] if events else None, set()
    for one in events:
        payload, new = one["payload"], True
        if one["type"] == EventType.OUTPUT_SET:
            mark = ("output", one["node_id"], payload.get("key"))
            new = mark not in seen
            seen.add(mark)
        elif one["type"] == EventType.TOOL_COMPLETED:
            # A call without a fingerprint counts as new.
            new = payload.get("fingerprint") is None or payload["fingerprint"] not in seen
            seen.add(payload.get("fingerprint"))
        elif one["type"] in (EventType.JUDGMENT_MADE, *_ERRORS, *_ENDS):
            new = False
        if new:
            found = one["time"]
    return found


def _breaks(events: Sequence[Mapping[str, Any]]) -> tuple[Repeated | None, str | None]:
    """Return how often a host put the run back into its queue since its last progress, and the error."""
    found: list[tuple[str, str]] = []
    for one in events:
        if one["type"] in (EventType.RUN_QUEUED, EventType.RUN_STOPPED) and one["payload"].get("error"):
            found.append((_message(one["payload"]["error"]), one["time"]))
        elif one["type"] in (*_WORK, EventType.RUN_WAITING):
            found.clear()
    return (Repeated(message=found[-1][0], count=len(found)), found[0][1]) if found else (None, None)


def _errors(events: Sequence[Mapping[str, Any]]) -> list[Repeated]:
    outcomes = [one for one in events if one["type"] in (*_ERRORS, EventType.TOOL_COMPLETED, EventType.NODE_COMPLETED)][
        -OUTCOMES:
    ]
    failed = Counter(_message(one["payload"].get("error")) for one in outcomes if one["type"] in _ERRORS)
    return [Repeated(message=message, count=count) for message, count in failed.most_common()]


def _message(error: Any) -> str:
    return _short(error.get("message") if isinstance(error, Mapping) else error) or "an error without a message"


def _short(text: Any) -> str | None:
    return " ".join(str(text).split())[:_SHOWN] if text else None


def _loop(events: Sequence[Mapping[str, Any]]) -> RepeatedCalls | None:
    """Return the longest current repetition of a node."""
    found = [loop for turns in _turns(events).values() if (loop := _repetition(turns)) is not None]
    return max(found, key=lambda loop: loop.times * loop.period, default=None)


@dataclass
class _Turn:
    node: str | None
    calls: dict[int, tuple[str, str]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[tuple[str, str], ...]:
        """Return (tool, fingerprint) of the calls, in the order of the calls."""
        return tuple(self.calls[n] for n in sorted(self.calls))


def _turns(events: Sequence[Mapping[str, Any]]) -> dict[str, list[_Turn]]:
    """Return the turns with tool calls by loop: a node, or a sub-agent of one, since the node last completed."""
    loops: dict[str, dict[str, _Turn]] = {}
    for one in events:
        node, payload = one["node_id"] or "", one["payload"]
        if one["type"] == EventType.NODE_COMPLETED:
            loops = {name: turns for name, turns in loops.items() if not _belongs(name, node)}
        elif one["type"] in (EventType.TOOL_COMPLETED, EventType.TOOL_FAILED):
            name, turn, n = _place(node, payload, sum(len(turns) for turns in loops.values()))
            calls = loops.setdefault(name, {}).setdefault(turn, _Turn(one["node_id"])).calls
            calls[n] = str(payload.get("tool")), str(payload.get("fingerprint") or f"unknown {turn}/{n}")
    return {name: list(turns.values()) for name, turns in loops.items()}


def _place(node: str, payload: Mapping[str, Any], ordinal: int) -> tuple[str, str, int]:
    """Return loop, turn and number of a call from its key, `node#visit/iteration/n`; a new visit continues the loop."""
    turn, _, n = str(payload.get("call") or "").rpartition("/")
    if not turn or not n.isdigit():
        return node, f"{node}/{ordinal}", 0
    return re.sub(r"#\d+", "", turn.rpartition("/")[0]), turn, int(n)


def _belongs(loop: str, node: str) -> bool:
    return loop == node or loop.startswith(f"{node}/") or loop.endswith(f"/{node}")


def _repetition(turns: Sequence[_Turn]) -> RepeatedCalls | None:
    """Return how often the last one, two or three turns were repeated in a row; None without a repetition."""
    shapes = [turn.shape for turn in turns]
    best: RepeatedCalls | None = None
    for period in range(1, LONGEST_PERIOD + 1):
        seen = shapes
        if len(shapes) > period and set(shapes[-1]) < set(shapes[-1 - period]):
            seen = shapes[:-1]  # the results of a turn come one by one
        times = _times(seen, period)
        if times > 1 and (best is None or times > best.times):
            tools = dict.fromkeys(tool for shape in seen[-period:] for tool, _ in shape)
            best = RepeatedCalls(node=turns[-1].node, tools=list(tools), period=period, times=times)
    return best


def _times(shapes: Sequence[Any], period: int) -> int:
    last, times, end = shapes[-period:], 0, len(shapes)
    while len(last) == period and shapes[end - period : end] == last and end >= period:
        times, end = times + 1, end - period
    return times
