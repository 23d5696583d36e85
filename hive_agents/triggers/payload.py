"""Inputs of agents from events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hive_agents.base import RefusedInput, did_you_mean
from hive_agents.base.files import jsontext

_STEP = re.compile(r"\.([^.\[\]\s]+)|\[([0-9]{1,6})\]")
MAX_PATH = 500


def parse_path(text: str) -> list[str | int]:
    """Return the keys and indices of a path. Raises: ValueError.

    >>> parse_path("$.body.items[0].name"), parse_path("$")
    (['body', 'items', 0, 'name'], [])
    """
    if not text.startswith("$") or len(text) > MAX_PATH:
        raise ValueError("a path begins with $, as $.body.issue.title")
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise ValueError(f"a path has .key and [number] only, and no {text[at : at + 10]!r}")
        steps.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end()
    return steps


def input_of(
    constants: Mapping[str, Any], path: str, key: str | None, payload: Mapping[str, Any], file: str
) -> dict[str, Any]:
    """Return the constants, updated by the value at `path`: as the value of `key`, else an object's keys.

    Raises: HIVE-106 where nothing is at the path, HIVE-104 for another value than an object without `key`.

    >>> input_of({"team": "qa"}, "$.body.issue", None, {"body": {"issue": {"title": "x"}}}, "body")
    {'team': 'qa', 'title': 'x'}
    >>> input_of({}, "$.body[0]", "line", {"body": ["hello"]}, "body")
    {'line': 'hello'}
    """
    steps = parse_path(path)
    value: Any = dict(payload)
    for number, step in enumerate(steps):
        known: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if step not in known:
            shown = jsontext.show_path(steps[: number + 1])
            names = map(str, value) if isinstance(value, dict) else ()
            fix = did_you_mean(str(step), names, f"the trigger reads {path}")
            raise RefusedInput.of("HIVE-106", f"there is no {shown}", file=file, path=shown, fix=fix, exit_code=2)
        value = value[step]
    if key is not None:
        return {**constants, key: value}
    if not isinstance(value, dict):
        fix = 'send an object with the agent\'s inputs, or give the trigger an "input_key"'
        told = f"{path} is no object"
        raise RefusedInput.of("HIVE-104", told, file=file, path=jsontext.show_path(steps), fix=fix, exit_code=2)
    return {**constants, **value}
