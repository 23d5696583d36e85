"""Two configs side by side; everything is B minus A."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hive_agents.access import Principal
from hive_agents.evaluation.evaluate import evaluate_interleaved
from hive_agents.evaluation.golden import GoldenSet
from hive_agents.evaluation.results import Evaluation
from hive_agents.evaluation.statistics import PairedDifference, paired_difference
from hive_agents.ranking import RetrievalConfig, SearchEngine


@dataclass(frozen=True)
class Comparison:
    a: Evaluation
    b: Evaluation
    difference: PairedDifference
    changes: list[dict[str, Any]]

    def to_json(self, *, hide: Collection[str] = ()) -> dict[str, Any]:
        pairs = zip(self.a.queries, self.b.queries, strict=True)
        return {
            "a": {"config": self.a.config, "metrics": self.a.metrics},
            "b": {"config": self.b.config, "metrics": self.b.metrics},
            "difference": self.difference.to_json(),
            "queries": [
                {"id": a.query.id, "query": a.query.query, "a": a.nudcg, "b": b.nudcg, "delta": b.nudcg - a.nudcg}
                for a, b in pairs
                if a.query.id not in hide
            ],
            "changes": self.changes,
        }


def compare(
    engine: SearchEngine,
    a: RetrievalConfig,
    b: RetrievalConfig,
    golden: GoldenSet,
    *,
    reader: Principal | None = None,
) -> Comparison:
    """Measure both on the same index and queries, interleaved; with a `reader` on what they may view.

    Raises: HIVE-105 when the golden set is empty.
    """
    first, second = evaluate_interleaved(engine, [a, b], golden, reader=reader)
    return Comparison(first, second, paired_difference(first.scores(), second.scores()), changed(a, b))


def changed(a: RetrievalConfig, b: RetrievalConfig) -> list[dict[str, Any]]:
    """Return the differences by JSON path, except of names, descriptions and parents.

    A default and the same value written out are equal.
    """
    described = {"name", "description", "parent"}
    before = _flat(a.model_dump(exclude=described))
    after = _flat(b.model_dump(exclude=described))
    paths = sorted({*before, *after})
    return [
        {"path": path, "a": before.get(path), "b": after.get(path)}
        for path in paths
        if before.get(path) != after.get(path)
    ]


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, dict) and prefix not in ("filters.", "boosts."):
            flat |= _flat(inner, f"{prefix}{key}.")
        else:
            flat[prefix + key] = inner
    return flat
