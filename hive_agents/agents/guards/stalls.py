"""Stalls: answers that hardly differ, without progress."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Self

from hive_agents.base import sha256
from hive_agents.base.files import Format
from hive_agents.memory import ToolResult

WINDOW = 3
SIMILARITY = 0.9
_WORDS = 400
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?|\b\d{1,2}:\d\d(?::\d\d)?\b")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"\w+|#")


class LoopTurn(Format):
    """One iteration as the detector needs it; plain data, so that it can be kept with the run.

    `results` are digests of what tools returned, without errors, `outputs` of the outputs that are set after it. A
    `wordless` turn calls tools and has no text: only `doom_loop` judges it.
    """

    text: str = ""
    wordless: bool = False
    results: list[str] = []
    outputs: list[str] = []

    @classmethod
    def of(cls, text: str, results: Sequence[ToolResult] = (), outputs: dict[str, str] | None = None) -> Self:
        """Return a turn; `outputs` are the values set so far, as JSON texts, by key. Errors of tools don't count."""
        set_so_far = sorted(f"{key}={value}" for key, value in (outputs or {}).items())
        return cls(
            text=text[:20_000],
            wordless=bool(results) and not text.strip(),
            results=[_digest(result.content) for result in results if not result.is_error],
            outputs=[_digest(line) for line in set_so_far],
        )


def is_stalled(turns: Sequence[LoopTurn], *, window: int = WINDOW, similarity: float = SIMILARITY) -> bool:
    """Return whether the last `window` of `turns`, oldest first, say nearly the same and made no progress.

    Progress is an output that is new or changed, a tool result that no earlier turn had, or a counter in the answer
    that moves in one direction; dates and times of day are no counters.

    >>> said = lambda *texts: [LoopTurn(text=text) for text in texts]
    >>> is_stalled(said("I am still looking.", "I'm still looking.", "I am still looking."), similarity=0.7)
    True
    >>> is_stalled(said("Reading page 11 now.", "Reading page 12 now.", "Reading page 13 now."))
    False
    """
    if len(turns) < window or window < 2:
        return False
    last = turns[-window:]
    if any(turn.wordless for turn in last):
        return False
    if not all(_alike(before.text, after.text) >= similarity for before, after in pairwise(last)):
        return False
    if _counts([turn.text for turn in last]):
        return False
    start = len(turns) - window + 1
    return not any(_progressed(turns[:number], turns[number]) for number in range(start, len(turns)))


def _progressed(before: Sequence[LoopTurn], turn: LoopTurn) -> bool:
    earlier_results = {digest for earlier in before for digest in earlier.results}
    return turn.outputs != before[-1].outputs or not earlier_results.issuperset(turn.results)


def _alike(a: str, b: str) -> float:
    """Return the similarity from 0 to 1; numbers count as equal (`_counts`). Of long texts both ends are compared."""
    words = [_ends(_WORD.findall(_NUMBER.sub("#", _CLOCK.sub("#", text.casefold())))) for text in (a, b)]
    return SequenceMatcher(None, words[0], words[1], autojunk=False).ratio()


def _ends(words: list[str]) -> list[str]:
    return words if len(words) <= _WORDS else words[: _WORDS // 2] + words[-_WORDS // 2 :]


def _counts(texts: Sequence[str]) -> bool:
    """Return whether the number at one place of all texts moves strictly up, or strictly down."""
    numbers = [[float(number) for number in _NUMBER.findall(_CLOCK.sub(" ", text))] for text in texts]
    if len({len(row) for row in numbers}) != 1:
        return False
    return any(
        all(a < b for a, b in pairwise(column)) or all(a > b for a, b in pairwise(column))
        for column in zip(*numbers, strict=True)
    )


def _digest(text: str) -> str:
    return sha256(text)[:16]
