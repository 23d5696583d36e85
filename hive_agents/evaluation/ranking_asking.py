"""Sources of rankings, and queries of two of them in turn, so that load affects the times of both alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from hive_agents.base import HiveError
from hive_agents.evaluation.golden import GoldenQuery, GoldenSet
from hive_agents.evaluation.outside import FoundList
from hive_agents.evaluation.results import percentile
from hive_agents.workspace.settings import Gate


class Source(Protocol):
    """A search, or its recorded results; a `live` one is queried now, so that its times can be measured."""

    name: str
    live: bool

    def rank(self, query: GoldenQuery, k: int) -> FoundList:
        """Return at least `k` documents if there are as many. Raises: HIVE-428."""
        ...


def source_failed(name: str, why: str, fix: str) -> HiveError:
    return HiveError.of("HIVE-428", f"{name}: {why}", fix=fix, exit_code=3)


ROUNDS = 3


def ask_both(before: Source, after: Source, golden: GoldenSet, gate: Gate) -> tuple[list[FoundList], list[FoundList]]:
    """Return both sources' results for each query, in the order of the queries; labels aren't used.

    Times are kept only if both sources are live, or both are recorded. If the gate would block by time, live sources
    are asked again, and the fastest time of each query counts. Raises: HIVE-428 where a source fails.
    """
    sources = (before, after)
    if len(golden):
        for source in sources:
            if source.live:
                source.rank(golden.queries[0], golden.k)  # warm-up: connecting and loading
    old, new = _in_turn(before, after, golden)
    if before.live and after.live:
        for _ in range(ROUNDS):
            if not _too_slow(old, new, gate):
                break
            again = _in_turn(before, after, golden)
            old, new = (
                [
                    replace(first, seconds=min(first.seconds or 0, second.seconds or 0))
                    for first, second in zip(*rounds, strict=True)
                ]
                for rounds in ((old, again[0]), (new, again[1]))
            )
    elif before.live != after.live:
        old, new = ([replace(result, seconds=None) for result in results] for results in (old, new))
    return old, new


def _in_turn(before: Source, after: Source, golden: GoldenSet) -> tuple[list[FoundList], list[FoundList]]:
    old: list[FoundList] = []
    new: list[FoundList] = []
    for number, query in enumerate(golden):
        turn = [(old, before), (new, after)]
        for results, source in turn if number % 2 == 0 else reversed(turn):
            results.append(source.rank(query, golden.k))
    return old, new


def _too_slow(old: list[FoundList], new: list[FoundList], gate: Gate) -> bool:
    old_p95, new_p95 = (
        percentile(sorted((result.seconds or 0) * 1000 for result in results), 0.95) or 0.0 for results in (old, new)
    )
    return new_p95 > gate.latency_floor_ms and new_p95 > gate.latency_ratio * old_p95
