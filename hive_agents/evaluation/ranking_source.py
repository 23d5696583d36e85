"""The protocol of sources of rankings, and its failure."""

from __future__ import annotations

from typing import Protocol

from hive_agents.base import HiveError
from hive_agents.evaluation.golden import GoldenQuery
from hive_agents.evaluation.outside import FoundList


class Source(Protocol):
    """A search, or its recorded results; a `live` one is queried now, so that its times can be measured."""

    name: str
    live: bool

    def rank(self, query: GoldenQuery, k: int) -> FoundList:
        """Return at least `k` documents if there are as many. Raises: HIVE-428."""
        ...


def source_failed(name: str, why: str, fix: str) -> HiveError:
    return HiveError.of("HIVE-428", f"{name}: {why}", fix=fix, exit_code=3)
