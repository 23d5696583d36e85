"""External search engines, and the copies of an index generation in them.

The embedded generation is always built, and each engine gets a copy of it. Copies are identified by collection and
`index_hash`, and chunks by their numbers in the generation: two hosts with the same documents share a copy, and no host
gets results of a state other than its own. A copy is complete before its generation goes live here; the previous copy
is deleted after that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from hive_agents.documents import Collection as Schema
from hive_agents.index.bm25 import BM25Params
from hive_agents.index.generation import State, find_generation
from hive_agents.index.generation_reader import GenerationReader
from hive_agents.index.keyword_batch import padded
from hive_agents.index.lanes import Lane, VectorLane, WordLane
from hive_agents.index.vectors import Mask
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.store import Progress


class Engine(Protocol):
    """A configured server. Every method raises HIVE-434 when it can't be used, and HIVE-431 without trust."""

    kind: str
    """The kind of server, such as "opensearch"."""

    @property
    def name(self) -> str:
        """The name in messages, without secrets."""

    def greet(self) -> None:
        """Ask it for an answer that costs nothing."""

    def ship(self, generation: GenerationReader, progress: Progress) -> None:
        """Make a complete copy of the generation; what is already there isn't sent again."""

    def switch(self, collection: str, index_hash: str, keep: Collection[str]) -> None:
        """Make a copy the collection's, and delete its copies whose hashes aren't in `keep`."""

    def words(self, generation: GenerationReader) -> WordLane | None:
        """Return the keyword lane of the copy; None if this engine has none."""

    def vectors(self, generation: GenerationReader) -> VectorLane | None:
        """Return the vector lane of the copy; None if this engine has none."""

    def reasons(self, bm25: BM25Params) -> Mapping[str, str]:
        """Return lane → why its results may differ from the embedded lane's, for the lanes of this engine."""


def ship(workspace: Workspace, engines: Sequence[Engine], collection: Schema, state: State, progress: Progress) -> None:
    """Make a complete copy of the generation of `state` in each engine."""
    if not engines:
        return
    generation = GenerationReader(workspace, collection, state)
    try:
        for engine in engines:
            engine.ship(generation, progress)
    finally:
        generation.close()


def switch(connection: sqlite3.Connection, engines: Sequence[Engine], collection: str) -> None:
    """Make the copies of the live generation the collection's, and delete all but its and its candidate's."""
    states: tuple[State, ...] = ("live", "candidate")
    live, candidate = (find_generation(connection, collection, state) for state in states)
    if live is not None:
        keep = {live.index_hash} | ({candidate.index_hash} if candidate is not None else set())
        for engine in engines:
            engine.switch(collection, live.index_hash, keep)


class LaneBatch:
    """A `WordBatch` over an engine, which ranks each lane."""

    def __init__(
        self,
        rank: Callable[[Sequence[Sequence[str]], int, BM25Params, Mask | None], list[Lane]],
        queries: Sequence[Sequence[str]],
    ) -> None:
        self._rank, self._queries = rank, queries

    def top(
        self, params: BM25Params, depth: int, *, only: Sequence[int] | None = None, mask: Mask | None = None
    ) -> NDArray[np.int64]:
        queries = self._queries if only is None else [self._queries[place] for place in only]
        return padded([lane.chunks.astype(np.int64) for lane in self._rank(queries, depth, params, mask)])
