"""One config over the engines of the settings and over the embedded one: what differs, and why."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.errors import HiveError
from hive_agents.evaluation.evaluate import Scopes
from hive_agents.evaluation.golden import GoldenQuery, GoldenSet
from hive_agents.evaluation.results import Evaluation, QueryEvaluation, judged
from hive_agents.retrieval import RetrievalConfig, SearchEngine, open_engines
from hive_agents.workspace import Workspace

DEPTH = 10


@dataclass(frozen=True)
class EngineSide:
    """What one side found for a query: chunk_ids of its list, best first, to depth `DEPTH`, and of each whole lane."""

    found: tuple[str, ...]
    lanes: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class EngineQuery:
    """One query on both sides; `reasons` say why lanes differ, by lane, and are empty where none do at any depth.

    An overlap is the share of the longer list that is in both, to depth `DEPTH`.
    """

    query: GoldenQuery
    embedded: EngineSide
    engine: EngineSide
    reasons: dict[str, str]

    @property
    def overlap(self) -> float:
        return _overlap(self.embedded.found, self.engine.found)

    @property
    def lanes(self) -> dict[str, float]:
        both = ((name, found, self.engine.lanes[name]) for name, found in self.embedded.lanes.items())
        return {name: _overlap(here[:DEPTH], there[:DEPTH]) for name, here, there in both}

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.query.id,
            "query": self.query.query,
            "overlap": self.overlap,
            "identical": self.embedded.found == self.engine.found,
            "lanes": self.lanes,
            "embedded": list(self.embedded.found),
            "engine": list(self.engine.found),
            "reasons": self.reasons,
        }


@dataclass(frozen=True)
class EngineComparison:
    config: str
    engines: tuple[str, ...]
    embedded: Evaluation
    engine: Evaluation
    queries: tuple[EngineQuery, ...]

    @property
    def overlap(self) -> float:
        """The mean overlap of the lists."""
        return _mean([one.overlap for one in self.queries])

    @property
    def identical(self) -> float:
        """The share of lists that are the same, in order."""
        return _mean([float(one.embedded.found == one.engine.found) for one in self.queries])

    @property
    def lanes(self) -> dict[str, float]:
        names = self.queries[0].lanes
        return {name: _mean([one.lanes[name] for one in self.queries]) for name in names}

    @property
    def reasons(self) -> dict[str, int]:
        """In how many queries each reason stands."""
        counted: dict[str, int] = {}
        for one in self.queries:
            for reason in one.reasons.values():
                counted[reason] = counted.get(reason, 0) + 1
        return counted

    def to_json(self, *, hide: str | None = None) -> dict[str, Any]:
        """`hide` is a split whose queries aren't listed."""
        return {
            "config": self.config,
            "engines": list(self.engines),
            "n": len(self.queries),
            "k": DEPTH,
            "overlap": self.overlap,
            "identical": self.identical,
            "lanes": self.lanes,
            "reasons": self.reasons,
            "embedded": {"metrics": self.embedded.metrics},
            "engine": {"metrics": self.engine.metrics},
            "queries": [one.to_json() for one in self.queries if hide is None or one.query.split != hide],
        }


def compare_engines(workspace: Workspace, config: RetrievalConfig, golden: GoldenSet) -> EngineComparison:
    """Ask both sides each query of the golden set, in its principal's scope.

    Raises: HIVE-409 where the settings name no engine, HIVE-105 when the golden set is empty, HIVE-434.
    """
    golden.require_queries()
    engines = open_engines(workspace)
    if not engines:
        fix = "name one in hive.toml: url of [search] or [vectors]"
        raise HiveError.of("HIVE-409", "there is no engine to compare the embedded one with", fix=fix)
    why = {name: told for engine in reversed(engines) for name, told in engine.reasons(config).items()}
    sides = (SearchEngine(workspace, engines=False), SearchEngine(workspace))
    found = [_asked(side, Scopes(workspace), config, golden) for side in sides]
    queries = []
    for query, (here, _), (there, _) in zip(golden, *found, strict=True):
        differing = [name for name in here.lanes if here.lanes[name] != there.lanes[name]]
        reasons = {name: _reason(name, query, why) for name in differing}
        queries.append(EngineQuery(query, here, there, reasons))
    index_hash = sides[0].index(config.collection).index_hash
    ours, theirs = (
        Evaluation(config.name, golden.k, tuple(labels for _, labels in each), golden.hash, index_hash)
        for each in found
    )
    return EngineComparison(config.name, tuple(one.name for one in engines), ours, theirs, tuple(queries))


def _asked(
    engine: SearchEngine, scopes: Scopes, config: RetrievalConfig, golden: GoldenSet
) -> list[tuple[EngineSide, QueryEvaluation]]:
    index, found = engine.index(config.collection), []
    for query in golden:
        scope = scopes.of(index, query.principal)
        started = time.perf_counter()
        (search,) = engine.run_on(scope, [query.query], config)
        seconds = time.perf_counter() - started
        lanes = {name: tuple(scope.chunk_ids(lane.chunks)) for name, lane in search.lanes.items()}
        side = EngineSide(tuple(scope.chunk_ids(search.returned[:DEPTH])), lanes)
        chunks = search.returned[: golden.k]
        documents, chunk_ids = scope.documents_of(chunks), scope.chunk_ids(chunks)
        found.append((side, judged(query, documents, chunk_ids, golden.k, seconds)))
    return found


def _reason(lane: str, query: GoldenQuery, why: dict[str, str]) -> str:
    if lane == "keyword" and query.principal is not None:
        return "statistics are those of all documents there, of the reader's own here"
    return why.get(lane, "equal scores stand in another order")


def _overlap(one: Sequence[str], other: Sequence[str]) -> float:
    return len(set(one) & set(other)) / max(len(one), len(other)) if one or other else 1.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
