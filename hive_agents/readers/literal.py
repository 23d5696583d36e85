"""Literal parts of Markdown: fences and code spans."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator

_FENCE = re.compile(
    r"^(?P<indent> {0,3})(?P<mark>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=mark)[`~]*[ \t]*$|\Z)", re.S | re.M
)
_CODE = re.compile(rf"{_FENCE.pattern}|(?P<ticks>`+)", re.S | re.M)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return the text with `change` applied to all parts outside of fences and code spans."""
    parts, start = [], 0
    for begin, end in code_spans(text):
        parts += [change(text[start:begin]), text[begin:end]]
        start = end
    return "".join([*parts, change(text[start:])])


def code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of fences and code spans; a span ends at the next run of as many backticks."""
    runs: dict[int, list[int]] = {}
    for run in re.finditer("`+", text):
        runs.setdefault(len(run[0]), []).append(run.start())
    start = 0
    while (opening := _CODE.search(text, start)) is not None:
        start = opening.end()
        if opening["ticks"] is not None:
            same = runs.get(len(opening["ticks"]), [])
            place = bisect_left(same, start)
            if place == len(same):
                continue
            start = same[place] + len(opening["ticks"])
        yield opening.start(), start
