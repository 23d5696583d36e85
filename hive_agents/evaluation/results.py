"""Results of a measurement: each query's judged hits and metrics, and their means."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hive_agents.evaluation.golden import GoldenQuery
from hive_agents.evaluation.metrics.measure import measure

if TYPE_CHECKING:
    from hive_agents.ranking import RetrievalConfig
    from hive_agents.workspace import Workspace

QUALITY = ("nudcg", "nudcg_clipped", "udcg", "ndcg", "recall", "precision", "mrr", "distractors", "results")


@dataclass(frozen=True)
class JudgedHit:
    """`label`: relevant, distractor, irrelevant, unjudged, or repeat for a document that has a higher rank, too."""

    rank: int
    doc_id: str
    chunk_id: str
    label: str


@dataclass(frozen=True)
class QueryEvaluation:
    """One query's metrics; `seconds` is the search's duration, None where it wasn't measured."""

    query: GoldenQuery
    metrics: dict[str, float | None]
    hits: tuple[JudgedHit, ...]
    seconds: float | None

    @property
    def nudcg(self) -> float:
        value = self.metrics["nudcg"]
        assert value is not None
        return value

    @property
    def unjudged(self) -> tuple[int, int] | None:
        """(documents in no list, documents returned), for a fully judged query."""
        if not self.query.fully_judged:
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
    """The measurement of a config; means are over `queries`, `metrics["nudcg"]` is the raw value.

    >>> evaluation = Evaluation(config="v1", k=10, queries=(), golden_hash="", index_hash="")
    >>> evaluation.metrics["nudcg"], evaluation.tags
    (None, {})
    """

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

    def to_json(self, *, split: str | None = None, hide: Collection[str] = ()) -> dict[str, Any]:
        """Return the measurement; the queries with the ids `hide` count in the means but aren't listed."""
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
            "queries": [query.to_json() for query in self.queries if query.query.id not in hide],
        }


def judged(
    query: GoldenQuery, documents: Sequence[str], chunk_ids: Sequence[str], k: int, seconds: float | None
) -> QueryEvaluation:
    """Return one query's measurement: the first `k` hits, a `doc_id` and a `chunk_id` each, best first."""
    hits, seen = [], set()
    for rank, (doc_id, chunk_id) in enumerate(zip(documents[:k], chunk_ids[:k], strict=True), start=1):
        hits.append(JudgedHit(rank, doc_id, chunk_id, "repeat" if doc_id in seen else query.label(doc_id)))
        seen.add(doc_id)
    return QueryEvaluation(query, measure(documents, query.qrels, k), tuple(hits), seconds)


def summarise(queries: Sequence[QueryEvaluation]) -> dict[str, float | None]:
    """Return means over queries that have the metric, latency percentiles in milliseconds, and the unjudged share."""
    metrics: dict[str, float | None] = {name: mean(query.metrics[name] for query in queries) for name in QUALITY}
    judged = [pair for query in queries if (pair := query.unjudged) is not None]
    returned = sum(total for _, total in judged)
    metrics["unjudged"] = sum(missing for missing, _ in judged) / returned if returned else (0.0 if judged else None)
    latencies = sorted(query.seconds * 1000 for query in queries if query.seconds is not None)
    metrics["latency_ms_p50"] = percentile(latencies, 0.50)
    metrics["latency_ms_p95"] = percentile(latencies, 0.95)
    return metrics


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that exist; None where none does."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile of ascending values.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    if not ordered:
        return None
    return round(ordered[max(0, math.ceil(len(ordered) * share) - 1)], 3)


def record(workspace: Workspace, config: RetrievalConfig, evaluation: Evaluation) -> None:
    from hive_agents.ranking import canonical_hash
    from hive_agents.store import audit, connected

    digest = canonical_hash(config.model_dump(mode="json", exclude_unset=True))
    row = (digest, evaluation.golden_hash, evaluation.index_hash, audit.now(), json.dumps(evaluation.metrics))
    with connected(workspace.records) as connection:
        connection.execute(
            "INSERT INTO eval_results (config_hash, golden_hash, index_hash, at, metrics) VALUES (?, ?, ?, ?, ?)", row
        )
