"""Engines that people run beside Hive, and how a generation of the index gets there and takes over.

The embedded generation is built as ever, and each engine gets a copy of it. Copies are known by collection and
`index_hash`, and chunks by their numbers in the generation: two hosts with the same documents use the same copy, and
no host is ever answered from another state than its own. A copy is complete before the generation takes over here, and
what was searched before goes away after that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from hive_agents.retrieval.bm25 import BM25Params
from hive_agents.retrieval.config import RetrievalConfig
from hive_agents.retrieval.documents import Collection as Schema
from hive_agents.retrieval.generation import State, find_generation
from hive_agents.retrieval.generation_reader import GenerationReader
from hive_agents.retrieval.keyword_batch import padded
from hive_agents.retrieval.lanes import Lane, VectorLane, WordLane
from hive_agents.retrieval.vectors import Mask
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.store import Progress


class Engine(Protocol):
    """A server of the settings. Every method raises HIVE-434 where it can't be used, and HIVE-431 without trust."""

    @property
    def name(self) -> str:
        """How it is shown to people, without secrets."""

    def ship(self, generation: GenerationReader, progress: Progress) -> None:
        """Make a complete copy of the generation; one that is there, or there in part, isn't sent again."""

    def switch(self, collection: str, index_hash: str, keep: Collection[str]) -> None:
        """Let this copy be the collection's, and drop those of it that aren't in `keep` (hashes)."""

    def words(self, generation: GenerationReader) -> WordLane | None:
        """Return the keyword lane of the copy; None where this engine ranks no words."""

    def vectors(self, generation: GenerationReader) -> VectorLane | None:
        """Return the vector lane of the copy; None where this engine ranks no vectors."""

    def reasons(self, config: RetrievalConfig) -> Mapping[str, str]:
        """Return why each lane that this engine ranks may differ from the embedded one, by the lane's name."""


def ship(workspace: Workspace, engines: Sequence[Engine], collection: Schema, state: State, progress: Progress) -> None:
    """Let each engine have a complete copy of the generation of `state`."""
    if not engines:
        return
    generation = GenerationReader(workspace, collection, state)
    try:
        for engine in engines:
            engine.ship(generation, progress)
    finally:
        generation.close()


def switch(connection: sqlite3.Connection, engines: Sequence[Engine], collection: str) -> None:
    """Let the copies of the live generation be the collection's; all but its and its candidate's go."""
    states: tuple[State, ...] = ("live", "candidate")
    found = [find_generation(connection, collection, state) for state in states]
    if found[0] is not None:
        for engine in engines:
            engine.switch(collection, found[0].index_hash, {one.index_hash for one in found if one is not None})


class LaneBatch:
    """A `WordBatch` over an engine: each lane is asked of it."""

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
