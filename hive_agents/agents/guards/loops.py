"""Doom loops: the same tool calls again and again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hive_agents.base import sha256
from hive_agents.models import ToolCall

REPEATS = 3
PERIODS = (1, 2, 3)


def fingerprint(calls: Sequence[ToolCall]) -> str:
    """Return a hash of a turn's tool calls, whatever the order of their arguments; "" without a call.

    >>> one = ToolCall(name="read", args={"page": 1, "size": 10}, id="a")
    >>> same = ToolCall(name="read", args={"size": 10.0, "page": 1}, id="b")
    >>> fingerprint([one]) == fingerprint([same]), fingerprint([one]) == fingerprint([one, same])
    (True, False)
    """
    if not calls:
        return ""
    text = json.dumps([[call.name, _with_whole_numbers(call.args)] for call in calls], sort_keys=True, default=repr)
    return sha256(text)


def kept(repeats: int = REPEATS) -> int:
    """Return how many fingerprints of the last turns `doom_loop` looks at."""
    return repeats * max(PERIODS)


def doom_loop(fingerprints: Sequence[str], repeats: int = REPEATS) -> int | None:
    """Return the period of the loop that the last turns make; None where they make none.

    `fingerprints` are of all turns, or of the last `kept` ones, oldest first. A pattern of up to 3 turns is a loop when
    it came `repeats` times in a row. Turns without any call make no loop.

    >>> [doom_loop(turns) for turns in ("aa", "aaa", "ababab", "abcabcabc", "abcabca", "aaab")]
    [None, 1, 2, 3, None, None]
    """
    for period in PERIODS:
        tail = list(fingerprints[-repeats * period :])
        if len(tail) == repeats * period and tail == tail[:period] * repeats and any(tail):
            return period
    return None


def _with_whole_numbers(value: Any) -> Any:
    """Return the value with whole numbers as integers: models write 1 as 1.0, too."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {str(key): _with_whole_numbers(inner) for key, inner in value.items()}
    return [_with_whole_numbers(inner) for inner in value] if isinstance(value, list | tuple) else value
