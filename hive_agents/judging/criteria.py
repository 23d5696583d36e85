"""Scores of the criteria that need no model. One that cannot be evaluated has no score: it is absent, not 0."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import math
import threading
from collections.abc import Callable, Collection
from typing import Any

from hive_agents.goals import Goal, SuccessCriterion, compiled
from hive_agents.judging.deadline import must_end, within

CUSTOM_SECONDS = 8.0
MAX_TEXT = 1_000_000
MAX_PARTS = 100_000

Custom = Callable[[Goal, Any], Any]
_registered: dict[str, Custom] = {}


def register_criterion(name: str, score: Custom) -> None:
    """Make `score(goal, result)` the measure of `custom` criteria of that target or id.

    It returns a number from 0 to 1, or a bool, or an awaitable of one; the last registration of a name holds. It has
    `CUSTOM_SECONDS`, after which the criterion is absent; a plain function runs in a thread of its own.

    >>> register_criterion("short", lambda goal, result: len(str(result)) < 80)
    """
    _registered[name] = score


async def score_criteria(goal: Goal, result: Any, succeeded: Collection[str] | None = None) -> dict[str, float]:
    """Return criterion id → score from 0 to 1, without `llm_judge` and those that could not be evaluated.

    `succeeded` are the tools that a call of succeeded, None where that isn't known.
    """
    scores = {}
    for criterion in goal.success_criteria:
        try:
            score = await _score(criterion, goal, result, succeeded)
        except BaseException as error:  # also of the result's own methods
            if must_end(error):
                raise
            continue
        if score is not None:
            scores[criterion.id] = score
    return scores


async def _score(
    criterion: SuccessCriterion, goal: Goal, result: Any, succeeded: Collection[str] | None
) -> float | None:
    target = criterion.target
    match criterion.metric:
        case "llm_judge":
            return None
        case "custom":
            return await _custom(criterion, goal, result)
        case "call_succeeded":
            return None if succeeded is None else float(target in succeeded)
        case "output_contains":
            return float(_contains(_output(result), target))
        case "output_equals":
            return float(_same(_output(result), target))
        case "output_matches":
            matched = await asyncio.to_thread(_matches, target, _texts(_output(result)))
            return None if matched is None else float(matched)
    number = _number(criterion, result)
    limit = target["value"] if isinstance(target, dict) else target
    if number is None:
        return None
    return float(number >= limit if criterion.metric == "numeric_at_least" else number <= limit)


async def _custom(criterion: SuccessCriterion, goal: Goal, result: Any) -> float | None:
    named = _registered.get(criterion.target) if isinstance(criterion.target, str) else None
    measure = named or _registered[criterion.id]

    async def measured() -> float:
        score = measure(goal, result) if _is_async(measure) else await _in_thread(lambda: measure(goal, result))
        return float(await score if inspect.isawaitable(score) else score)

    value = await within(CUSTOM_SECONDS, measured())
    return value if 0 <= value <= 1 else None  # NaN is neither


def _is_async(measure: Custom) -> bool:
    return inspect.iscoroutinefunction(measure) or inspect.iscoroutinefunction(type(measure).__call__)


def _in_thread(work: Callable[[], Any]) -> asyncio.Future[Any]:
    """Return the result of work in a daemon thread: one that never ends must not keep the process alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(set_outcome: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            set_outcome(value)

    def run() -> None:
        try:
            outcome = (done.set_result, context.run(work))
        except BaseException as error:
            outcome = (done.set_exception, error)
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:
            return  # the loop was closed

    threading.Thread(target=run, name="criterion", daemon=True).start()
    return done


def _output(result: Any) -> Any:
    """Return the `output` of a result that has one, else the result."""
    return result["output"] if isinstance(result, dict) and "output" in result else result


def _texts(value: Any) -> list[str]:
    """Return every text in the value, other values as JSON. Raises: ValueError for more than `MAX_PARTS`."""
    texts, level, parts = [], [value], 0
    while level:
        part = level.pop()
        parts += 1
        if parts > MAX_PARTS:
            raise ValueError("too large, or holds itself")
        if isinstance(part, dict | list | tuple):
            level += list(reversed(list(part.values()) if isinstance(part, dict) else part))
        elif part is not None:
            texts.append(part if isinstance(part, str) else json.dumps(part, default=str))
    return texts


def _contains(output: Any, target: Any) -> bool:
    """Return whether a text is in one of the output's texts, or another value among those of a list or dict."""
    if isinstance(target, str):
        return any(target in text for text in _texts(output))
    inner = output.values() if isinstance(output, dict) else output if isinstance(output, list | tuple) else [output]
    return any(_same(value, target) for value in inner)


def _same(value: Any, target: Any) -> bool:
    """Return whether values are equal as JSON: 1 is 1.0 and not true, and a tuple is a list."""
    try:
        return _equal(json.loads(json.dumps(value)), json.loads(json.dumps(target)))
    except TypeError:
        return False


def _equal(value: Any, target: Any) -> bool:
    if isinstance(value, dict) and isinstance(target, dict):
        return value.keys() == target.keys() and all(_equal(value[key], target[key]) for key in target)
    if isinstance(value, list) and isinstance(target, list):
        return len(value) == len(target) and all(map(_equal, value, target))
    return bool(value == target) and isinstance(value, bool) == isinstance(target, bool)


def _number(criterion: SuccessCriterion, result: Any) -> float | None:
    """Return the result's number: of the target's field, of the output, or of the key named after the criterion.

    A key of the result comes before one of its output.
    """
    output = _output(result)
    values = {key: value for part in (output, result) if isinstance(part, dict) for key, value in part.items()}
    if isinstance(criterion.target, dict):
        value = values.get(criterion.target["field"])
    else:
        value = values.get(criterion.id, output)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _matches(pattern: str, texts: list[str]) -> bool | None:
    """Return whether the pattern is in one of the texts; None where they are too long, or the pattern is for them."""
    if sum(map(len, texts)) > MAX_TEXT:
        return None
    return compiled(pattern).found_in(*texts)
