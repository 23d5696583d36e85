"""What a graph's state holds of an agent's work: which nodes ended and how, without their conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

EndStatus = Literal["completed", "failed"]


class End(TypedDict):
    """How one visit of a node ended; `targets` are the nodes that come next, `conversation` is a pointer."""

    node: str
    visit: int
    status: EndStatus
    outputs: list[str]
    targets: list[str]
    conversation: str
    error: dict[str, str] | None


class GoalVerdict(TypedDict):
    """A judgement of the goal; `targets` are the nodes that run again, `key` is that of the recorded judgement.

    When a person has a failed run tried again, its action is `again`; the ends before `since` count no more.
    """

    n: int
    action: str
    targets: list[str]
    key: str
    since: NotRequired[int]


Update = dict[str, Any]


def joined(before: Sequence[End], more: Sequence[End]) -> list[End]:
    """Return all ends, without those of `more` whose node and visit are known.

    >>> end = End(node="a", visit=1, status="completed", outputs=[], targets=[], conversation="c", error=None)
    >>> joined([end], [end]) == [end]
    True
    """
    known = {(end["node"], end["visit"]) for end in before}
    return [*before, *(end for end in more if (end["node"], end["visit"]) not in known)]


def visits(ends: Sequence[End], node: str) -> int:
    return sum(end["node"] == node for end in ends)


def led_here(ends: Sequence[End], node: str) -> list[End]:
    """Return the ends after the node's last one that lead to it."""
    last = max((place for place, end in enumerate(ends) if end["node"] == node), default=0)
    return [end for end in ends[last:] if node in end["targets"]]


EXHAUSTED = "HIVE-423"


def spent(error: Mapping[str, str] | None) -> bool:
    """Return whether the run's budget was exhausted: then no edge is taken, and the run fails."""
    return error is not None and error["code"] == EXHAUSTED


def fault(code: str, reason: str, message: str) -> dict[str, str]:
    """Return why work ended without success; `reason` is a stable identifier, for `stopped_by`."""
    return {"code": code, "reason": reason, "message": message}
