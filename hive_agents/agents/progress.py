"""Whether a node's loop makes progress: its iterations, doom loops, and stalls (answers that hardly differ)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Self

from hive_agents.agents import synthetic
from hive_agents.agents.guards.loops import doom_loop, fingerprint, kept
from hive_agents.agents.node_end import fault
from hive_agents.agents.node_work import NodeWork
from hive_agents.base import sha256
from hive_agents.base.files import Format
from hive_agents.memory import ToolResult
from hive_agents.models import Message

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


LOOKED_BACK = 12
"""Turns in which a stall is looked for."""
_FILE = re.compile(r"'[\w-]+_[0-9]+\.\w+'")
"""The numbered file of a long result, which differs from call to call."""


def stuck(work: NodeWork, iteration: int, since: int = 0) -> dict[str, str] | None:
    """Return why the loop has to end, None where it may go on; turns up to `since` were let pass by a person."""
    node, store = work.node, work.session.store
    if iteration - since >= node.max_iterations:
        why = f"{node.id} was not accepted within its max_iterations of {node.max_iterations}"
        return fault("HIVE-422", "max_iterations", why)
    repeats = work.agent.loop_repeats or work.session.workspace.settings.agents.loop_repeats
    numbers = range(max(since + 1, iteration - max(LOOKED_BACK, kept(repeats)) + 1), iteration + 1)
    turns = [(n, store.find(work.conversation, f"{work.key}/{n}")) for n in numbers]
    messages = [(n, entry.message) for n, entry in turns if entry is not None]
    period = doom_loop([_with_results(work, n, message) for n, message in messages], repeats)
    if period is not None:
        why = f"{node.id} goes round in circles: the same calls with the same results {repeats} times, period {period}"
        return fault("HIVE-422", "doom_loop", why)
    if is_stalled(_as_turns(work, messages)):
        return fault("HIVE-422", "stalled", f"{node.id} says the same again and again, and gets nothing done")
    return None


def _with_results(work: NodeWork, n: int, message: Message) -> str:
    """Return a hash of a turn's calls and their results: polling a job is no loop while its answer changes."""
    entries = [
        work.session.store.find(work.conversation, f"{work.key}/{n}/{at}") for at in range(len(message.tool_calls))
    ]
    results = [_FILE.sub("''", entry.message.content) for entry in entries if entry is not None]
    calls = fingerprint(message.tool_calls)
    return sha256(json.dumps([calls, results])) if calls else ""


def _as_turns(work: NodeWork, messages: list[tuple[int, Message]]) -> list[LoopTurn]:
    turns, values = [], dict[str, str]()
    for n, message in messages:
        results = []
        for call_number, call in enumerate(message.tool_calls):
            entry = work.session.store.find(work.conversation, f"{work.key}/{n}/{call_number}")
            if entry is not None:
                results.append(ToolResult(entry.message.content, entry.is_error))
                if call.name == "set_output" and not entry.is_error:
                    given = synthetic.given_outputs(work, call.args) or {}
                    values |= {key: json.dumps(value, default=str) for key, value in given.items()}
        turns.append(LoopTurn.of(message.content, results, values))
    return turns
