"""JSON broken into lines without changing a token of it, so that it can be read page by page."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_PAGED = 500


def pretty(text: str) -> str:
    """A JSON object or list indented by two; any other text, and JSON that has lines already, as it is.

    Parsing and printing again would lose doubled keys and rewrite numbers: only white space changes here.

    >>> print(pretty('{"n":1.50,"tags":["a",{}]}'))
    {
      "n": 1.50,
      "tags": [
        "a",
        {}
      ]
    }
    """
    start = text.lstrip()[:1]
    if start not in ("{", "[") or ("\n" in text and max(map(len, text.splitlines())) <= _PAGED):
        return text
    try:
        json.loads(text, parse_int=str)
    except (ValueError, RecursionError):
        return text
    return "".join(_pieces(_TOKEN.findall(text)))


def _pieces(tokens: list[str]) -> list[str]:
    pieces, depth, previous = [], 0, ""
    for token in tokens:
        if token in "}]":
            depth -= 1
            if previous not in "{[":
                pieces.append("\n" + "  " * depth)
        elif previous and previous in "{[,":
            pieces.append("\n" + "  " * depth)
        elif previous == ":":
            pieces.append(" ")
        if token in "{[":
            depth += 1
        pieces.append(token)
        previous = token
    return pieces
