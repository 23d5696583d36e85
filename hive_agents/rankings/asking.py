"""Ask two sources the same queries in turn, so that their times compare whatever the machine does."""

from __future__ import annotations

from dataclasses import replace

from hive_agents.evaluation import FoundList, GoldenSet, percentile
from hive_agents.rankings.source import Source
from hive_agents.settings import Gate

ROUNDS = 3


def ask_both(before: Source, after: Source, golden: GoldenSet, gate: Gate) -> tuple[list[FoundList], list[FoundList]]:
    """Return what both found for each query, in order; no label is looked at.

    Times are kept where both sources are asked now, or both are recorded. Where the times would block, live sources
    are asked again: of several times the fastest is the source's. Raises: HIVE-428 where a source fails.
    """
    sources = (before, after)
    if len(golden):
        for source in sources:
            if source.live:
                source.rank(golden.queries[0], golden.k)  # the first call pays for connecting and loading
    old, new = _in_turn(before, after, golden)
    if before.live and after.live:
        for _ in range(ROUNDS):
            if not _too_slow(old, new, gate):
                break
            again = _in_turn(before, after, golden)
            old, new = (
                [
                    replace(one, seconds=min(one.seconds or 0, other.seconds or 0))
                    for one, other in zip(*both, strict=True)
                ]
                for both in ((old, again[0]), (new, again[1]))
            )
    elif before.live != after.live:
        old, new = ([replace(one, seconds=None) for one in found] for found in (old, new))
    return old, new


def _in_turn(before: Source, after: Source, golden: GoldenSet) -> tuple[list[FoundList], list[FoundList]]:
    old: list[FoundList] = []
    new: list[FoundList] = []
    for number, query in enumerate(golden):
        turn = [(old, before), (new, after)]
        for found, source in turn if number % 2 == 0 else reversed(turn):
            found.append(source.rank(query, golden.k))
    return old, new


def _too_slow(old: list[FoundList], new: list[FoundList], gate: Gate) -> bool:
    was, slow = (percentile(sorted((one.seconds or 0) * 1000 for one in found), 0.95) or 0.0 for found in (old, new))
    return slow > gate.latency_floor_ms and slow > gate.latency_ratio * was
