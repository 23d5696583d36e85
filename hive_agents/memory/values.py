"""Texts and values as they are stored: valid UTF-8, plain JSON, bounded."""

from __future__ import annotations

import json
from typing import Any

from hive_agents.base import HiveError, cut, encodable

MAX_VALUE = 1_000_000
"""Characters of JSON that one output or one value of the data buffer may take."""


def value_line(value: Any, limit: int) -> str:
    """Return a value as a line of at most `limit` characters: texts as they are, anything else as JSON.

    >>> value_line("two\\nlines", 20), value_line({"n": [1, 2]}, 20)
    ('two lines', '{"n": [1, 2]}')
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(" ".join(encodable(text).split()), limit)


def to_json(key: str, value: Any) -> str:
    """Return the JSON text of a value; tuples become lists.

    Raises: HIVE-104 for what isn't plain JSON, HIVE-105 for more than `MAX_VALUE` characters.
    """
    try:
        _require_text_keys(value)
        text = encodable(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise HiveError.of(
            "HIVE-104",
            f"the value of {cut(key, 80)} isn't plain JSON: {cut(str(error), 200)}",
            path=cut(key, 80),
            fix="use texts, finite numbers, true, false, null, lists, and objects whose keys are texts",
        ) from None
    if len(text) > MAX_VALUE:
        raise HiveError.of(
            "HIVE-105",
            f"the value of {cut(key, 80)} takes {len(text):,} characters; {MAX_VALUE:,} are allowed",
            path=cut(key, 80),
            fix="save it as a data file, and keep the file's name",
        )
    return text


def _require_text_keys(value: Any) -> None:
    # json.dumps would turn the key 1 into "1", which a reader wouldn't find as 1.
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is no text")
            _require_text_keys(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _require_text_keys(inner)
