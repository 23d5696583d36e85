"""Comparison of the engines of the settings with the embedded one, by one config: differences and reasons."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.access import Principal
from hive_agents.base import HiveError
from hive_agents.engines import open_engines
from hive_agents.evaluation.evaluate import Scopes
from hive_agents.evaluation.golden import GoldenQuery, GoldenSet
from hive_agents.evaluation.results import Evaluation, QueryEvaluation, judged
from hive_agents.ranking import RetrievalConfig, SearchEngine
from hive_agents.workspace import Workspace

DEPTH = 10


@dataclass(frozen=True)
class EngineSide:
    """One side's results for a query: chunk_ids of its list, best first, to depth `DEPTH`, and of each whole lane."""

    found: tuple[str, ...]
    lanes: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class EngineQuery:
    """One query on both sides; `reasons` explain the lanes that differ at any depth.

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
        return {
            name: _overlap(chunks[:DEPTH], self.engine.lanes[name][:DEPTH])
            for name, chunks in self.embedded.lanes.items()
        }

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
        return _mean([query.overlap for query in self.queries])

    @property
    def identical(self) -> float:
        """The share of lists that are the same, in order."""
        return _mean([float(query.embedded.found == query.engine.found) for query in self.queries])

    @property
    def lanes(self) -> dict[str, float]:
        names = self.queries[0].lanes
        return {name: _mean([query.lanes[name] for query in self.queries]) for name in names}

    @property
    def reasons(self) -> dict[str, int]:
        """The number of queries by reason."""
        return dict(Counter(reason for query in self.queries for reason in query.reasons.values()))

    def to_json(self, *, hide: Collection[str] = ()) -> dict[str, Any]:
        """Return the comparison; the queries with the ids `hide` aren't listed."""
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
            "queries": [query.to_json() for query in self.queries if query.query.id not in hide],
        }


def compare_engines(
    workspace: Workspace, config: RetrievalConfig, golden: GoldenSet, *, reader: Principal | None = None
) -> EngineComparison:
    """Run each query of the golden set on both sides, in its principal's scope and in that of a `reader`.

    Raises: HIVE-409 where the settings name no engine, HIVE-105 when the golden set is empty, HIVE-434.
    """
    golden.require_queries()
    engines = open_engines(workspace)
    if not engines:
        fix = "name one in hive.toml: url of [search] or [vectors]"
        raise HiveError.of("HIVE-409", "there is no engine to compare the embedded one with", fix=fix)
    params = config.bm25.params
    engine_reasons = {name: why for engine in reversed(engines) for name, why in engine.reasons(params).items()}
    sides = (SearchEngine(workspace, engines=False), SearchEngine(workspace))
    results = [_searched(side, Scopes(workspace, reader), config, golden) for side in sides]
    queries = []
    for query, (embedded, _), (engine_side, _) in zip(golden, *results, strict=True):
        differing = [name for name in embedded.lanes if embedded.lanes[name] != engine_side.lanes[name]]
        reasons = {name: _reason(name, query, engine_reasons) for name in differing}
        queries.append(EngineQuery(query, embedded, engine_side, reasons))
    index_hash = sides[0].index(config.collection).index_hash
    embedded_evaluation, engine_evaluation = (
        Evaluation(config.name, golden.k, tuple(evaluation for _, evaluation in side), golden.hash, index_hash)
        for side in results
    )
    names = tuple(engine.name for engine in engines)
    return EngineComparison(config.name, names, embedded_evaluation, engine_evaluation, tuple(queries))


def _searched(
    engine: SearchEngine, scopes: Scopes, config: RetrievalConfig, golden: GoldenSet
) -> list[tuple[EngineSide, QueryEvaluation]]:
    index, results = engine.index(config.collection), []
    for query in golden:
        scope = scopes.of(index, query.principal)
        started = time.perf_counter()
        (search,) = engine.run_on(scope, [query.query], config)
        seconds = time.perf_counter() - started
        lanes = {name: tuple(scope.chunk_ids(lane.chunks)) for name, lane in search.of.lanes.items()}
        side = EngineSide(tuple(scope.chunk_ids(search.returned[:DEPTH])), lanes)
        chunks = search.returned[: golden.k]
        documents, chunk_ids = scope.documents_of(chunks), scope.chunk_ids(chunks)
        results.append((side, judged(query, documents, chunk_ids, golden.k, seconds)))
    return results


def _reason(lane: str, query: GoldenQuery, engine_reasons: dict[str, str]) -> str:
    if lane == "keyword" and query.principal is not None:
        return "statistics are those of all documents there, of the reader's own here"
    return engine_reasons.get(lane, "equal scores stand in another order")


def _overlap(a: Sequence[str], b: Sequence[str]) -> float:
    return len(set(a) & set(b)) / max(len(a), len(b)) if a or b else 1.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
