"""Measure a config against the golden set."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_agents.evaluation.golden import GoldenQuery, GoldenSet, load_golden
from hive_agents.evaluation.metrics import measure
from hive_agents.evaluation.scopes import Scopes
from hive_agents.retrieval import ConfigLike, RetrievalConfig, Search, SearchEngine
from hive_agents.workspace import Workspace

SLOW_MS = 20.0
STALLS = 3
QUALITY = ("nudcg", "nudcg_clipped", "udcg", "ndcg", "recall", "precision", "mrr", "distractors", "results")


@dataclass(frozen=True)
class JudgedHit:
    """`label`: relevant, distractor, irrelevant, unjudged, or repeat for a document that stands higher up."""

    rank: int
    doc_id: str
    chunk_id: str
    label: str


@dataclass(frozen=True)
class QueryEvaluation:
    """One query's metrics; `unjudged` is the share of its documents in no list, None unless it is fully judged."""

    query: GoldenQuery
    metrics: dict[str, float | None]
    hits: tuple[JudgedHit, ...]
    seconds: float

    @property
    def nudcg(self) -> float:
        value = self.metrics["nudcg"]
        assert value is not None
        return value

    @property
    def unjudged(self) -> tuple[int, int] | None:
        """(documents in no list, documents returned), for a fully judged query."""
        if self.query.irrelevant is None:
            return None
        documents = [hit for hit in self.hits if hit.label != "repeat"]
        return sum(hit.label == "unjudged" for hit in documents), len(documents)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.query.id,
            "query": self.query.query,
            "tags": self.query.tags,
            "split": self.query.split,
            "metrics": self.metrics,
            "hits": [vars(hit) for hit in self.hits],
        }


@dataclass(frozen=True)
class Evaluation:
    """A config measured; means are over `queries`, `metrics["nudcg"]` is the raw value."""

    config: str
    k: int
    queries: tuple[QueryEvaluation, ...]
    golden_hash: str
    index_hash: str

    @property
    def metrics(self) -> dict[str, float | None]:
        return summarise(self.queries)

    @property
    def tags(self) -> dict[str, dict[str, float | None]]:
        by_tag: dict[str, list[QueryEvaluation]] = {}
        for query in self.queries:
            for tag in dict.fromkeys(query.query.tags):
                by_tag.setdefault(tag, []).append(query)
        return {
            tag: {
                "n": len(members),
                "nudcg": mean(q.nudcg for q in members),
                "distractors": mean(q.metrics["distractors"] for q in members),
            }
            for tag, members in sorted(by_tag.items())
        }

    @property
    def abstention(self) -> dict[str, float | None]:
        """The queries whose right answer is to return nothing."""
        unanswerable = [query for query in self.queries if not query.query.relevant]
        return {"n": len(unanswerable), "nudcg": mean(query.nudcg for query in unanswerable)}

    def scores(self) -> list[float]:
        return [query.nudcg for query in self.queries]

    def to_json(self, *, split: str | None = None, hide: str | None = None) -> dict[str, Any]:
        """`hide` names a split whose queries are counted in the means and not listed."""
        return {
            "config": self.config,
            "k": self.k,
            "n": len(self.queries),
            "split": split,
            "metrics": self.metrics,
            "tags": self.tags,
            "abstention": self.abstention,
            "index_hash": self.index_hash,
            "golden_hash": self.golden_hash,
            "queries": [query.to_json() for query in self.queries if hide is None or query.query.split != hide],
        }


def evaluate(
    workspace: Workspace,
    config: ConfigLike = None,
    *,
    golden: GoldenSet | Path | None = None,
    engine: SearchEngine | None = None,
) -> Evaluation:
    """Run every golden query through `config` (None means the active one) and measure what comes back.

    Raises: as `load_golden` and `SearchEngine.search`.
    """
    engine = engine or SearchEngine(workspace)
    chosen = engine.resolve(config)
    if not isinstance(golden, GoldenSet):
        golden = load_golden(workspace, golden)
    golden.require_queries()
    scopes = Scopes(engine.workspace)
    _warm(engine, scopes, chosen, golden)
    return _evaluation(engine, scopes, chosen, golden, [_timed(engine, scopes, query, chosen) for query in golden])


def _warm(engine: SearchEngine, scopes: Scopes, config: RetrievalConfig, golden: GoldenSet) -> None:
    """The first query pays for loading, and a principal's first one for the scope."""
    by_principal: dict[str | None, list[GoldenQuery]] = {}
    for query in golden:
        by_principal.setdefault(query.principal, []).append(query)
    for queries in by_principal.values():
        _run(engine, scopes, queries, config)


def _run(engine: SearchEngine, scopes: Scopes, queries: Sequence[GoldenQuery], config: RetrievalConfig) -> list[Search]:
    """`SearchEngine.run` in the scope of the queries' one principal."""
    texts, principal = [query.query for query in queries], queries[0].principal
    return engine.with_index(config.collection, lambda index: engine.run_on(scopes.of(index, principal), texts, config))


def _timed(engine: SearchEngine, scopes: Scopes, query: GoldenQuery, config: RetrievalConfig) -> tuple[Search, float]:
    started = time.perf_counter()
    search = _run(engine, scopes, [query], config)[0]
    return search, time.perf_counter() - started


def evaluate_interleaved(
    engine: SearchEngine, configs: Sequence[RetrievalConfig], golden: GoldenSet
) -> list[Evaluation]:
    """Several configs on one index, query by query in turn, so that latencies compare whatever the machine does.

    Raises: HIVE-105 when there are no queries to measure with.
    """
    golden.require_queries()
    scopes = Scopes(engine.workspace)
    for config in configs:
        _warm(engine, scopes, config, golden)
    found = _turns(engine, scopes, configs, golden)
    for _ in range(STALLS):
        if all(_p95_ms(one) <= SLOW_MS for one in found):
            break
        # A search this slow may be the machine's doing: of several measurements the fastest is the config's.
        again = _turns(engine, scopes, configs, golden)
        found = [
            [(search, min(seconds, other)) for (search, seconds), (_, other) in zip(first, second, strict=True)]
            for first, second in zip(found, again, strict=True)
        ]
    return [_evaluation(engine, scopes, config, golden, one) for config, one in zip(configs, found, strict=True)]


def _turns(
    engine: SearchEngine, scopes: Scopes, configs: Sequence[RetrievalConfig], golden: GoldenSet
) -> list[list[tuple[Search, float]]]:
    searches: list[list[tuple[Search, float]]] = [[] for _ in configs]
    for number, query in enumerate(golden):
        turn = list(range(len(configs)))
        for which in turn if number % 2 == 0 else reversed(turn):
            searches[which].append(_timed(engine, scopes, query, configs[which]))
    return searches


def _p95_ms(found: Sequence[tuple[Search, float]]) -> float:
    return percentile(sorted(seconds * 1000 for _, seconds in found), 0.95) or 0.0


def _evaluation(
    engine: SearchEngine,
    scopes: Scopes,
    config: RetrievalConfig,
    golden: GoldenSet,
    found: Sequence[tuple[Search, float]],
) -> Evaluation:
    index = engine.index(config.collection)
    queries = []
    for query, (search, seconds) in zip(golden, found, strict=True):
        chunks = search.returned[: golden.k]
        scope = scopes.of(index, query.principal)
        documents, chunk_ids = scope.documents_of(chunks), scope.chunk_ids(chunks)
        hits, seen = [], set()
        for rank, (doc_id, chunk_id) in enumerate(zip(documents, chunk_ids, strict=True), start=1):
            hits.append(JudgedHit(rank, doc_id, chunk_id, "repeat" if doc_id in seen else query.label(doc_id)))
            seen.add(doc_id)
        metrics = measure(documents, query.qrels, golden.k)
        queries.append(QueryEvaluation(query, metrics, tuple(hits), seconds))
    return Evaluation(config.name, golden.k, tuple(queries), golden.hash, index.index_hash)


def summarise(queries: Sequence[QueryEvaluation]) -> dict[str, float | None]:
    """Means over the queries where a metric exists, latency percentiles in milliseconds, and the unjudged share."""
    metrics: dict[str, float | None] = {name: mean(query.metrics[name] for query in queries) for name in QUALITY}
    judged = [pair for query in queries if (pair := query.unjudged) is not None]
    returned = sum(total for _, total in judged)
    metrics["unjudged"] = sum(missing for missing, _ in judged) / returned if returned else (0.0 if judged else None)
    latencies = sorted(query.seconds * 1000 for query in queries)
    metrics["latency_ms_p50"] = percentile(latencies, 0.50)
    metrics["latency_ms_p95"] = percentile(latencies, 0.95)
    return metrics


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that exist; None where none does."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest-rank percentile of ascending values.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    if not ordered:
        return None
    return round(ordered[max(0, math.ceil(len(ordered) * share) - 1)], 3)
