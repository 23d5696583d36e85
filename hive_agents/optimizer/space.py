"""The search space: the values of each lever, and edits of a config."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hive_agents.base import HiveError
from hive_agents.base.files import load_value
from hive_agents.documents import FieldSchema
from hive_agents.evaluation import changed
from hive_agents.index import HALF_LIFE, AnyIndex
from hive_agents.ranking import FACTORS, RetrievalConfig, canonical_hash

LEVERS: dict[str, tuple[Any, ...]] = {
    "retrieval.method": ("keyword", "vector", "hybrid"),
    "retrieval.top_k": (1, 2, 3, 4, 5, 6, 8, 10, 12),
    "retrieval.rrf_k": (1, 5, 10, 20, 40, 60, 100),
    "retrieval.candidates": (20, 50, 100, 200),
    "retrieval.per_document": (None, 1, 2, 3),
    "retrieval.weights.keyword": (0.25, 0.5, 1.0, 2.0, 4.0),
    "retrieval.weights.vector": (0.25, 0.5, 1.0, 2.0, 4.0),
    "bm25.k1": (0.6, 0.9, 1.2, 1.6, 2.0),
    "bm25.b": (0.2, 0.4, 0.6, 0.75, 0.9),
    "bm25.title_boost": (0.0, 1.0, 2.0, 4.0),
    "dynamic_k.gap_threshold_factor": (1.5, 2.0, 3.0, 4.0, 6.0),
    "dynamic_k.min_results": (0, 1, 2, 3),
    **{path: values for factor in FACTORS for path, values in factor.tried.items()},
    "abstain.enabled": (False, True),
    "abstain.min_cosine": (None, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55),
}
RERANKED = (10, 20, 50)
"""How many candidates to rerank, where a reranker is configured."""

BOOSTED = (0.3, 2.0)
HALF_LIVES = (90.0, 365.0, 1095.0)
PEOPLE = frozenset({"owner", "author", "authors", "assignee"})
"""Names of fields that are never levers."""
MAX_VALUES = 16
"""A field with more values than this is an identifier, not a category."""


@dataclass(frozen=True)
class Edit:
    """Values by JSON path; None removes an optional key.

    A field's filter and its boost are one value each, at `filters.<field>` and `boosts.<field>`. `faults` say why the
    edit can't be measured; such an edit is only reported.
    """

    values: tuple[tuple[str, Any], ...]
    cause: str
    reason: str
    proposer: Literal["heuristic", "model"] = "heuristic"
    faults: tuple[str, ...] = ()


def apply(config: RetrievalConfig, values: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the config's JSON with these values, and dependent ones (max_results, detection) made consistent."""
    data = config.model_dump(exclude_unset=True)
    for path, value in values:
        *parents, key = path.split(".")
        block = data
        for parent in parents:
            block = block.setdefault(parent, {})
        if value is None:
            block.pop(key, None)
        else:
            block[key] = value
    return _consistent(data)


def _consistent(data: dict[str, Any]) -> dict[str, Any]:
    retrieval = data["retrieval"]
    if retrieval["method"] != "hybrid":
        for block in ("dynamic_k", "distraction_detection"):
            if data.get(block, {}).get("enabled"):
                data[block]["enabled"] = False
    dynamic = data.get("dynamic_k", {})
    if "max_results" in dynamic and (dynamic["max_results"] or 0) != retrieval["top_k"]:
        # A different cap would hide the effect of top_k.
        dynamic["max_results"] = retrieval["top_k"] if dynamic.get("enabled") else dynamic["max_results"]
    if dynamic.get("enabled"):
        dynamic["min_results"] = min(dynamic.get("min_results", 1), retrieval["top_k"])
    rerank = data.get("rerank", {})
    if rerank.get("enabled"):
        rerank["candidates"] = max(rerank.get("candidates", 50), retrieval["top_k"])
    if retrieval.get("candidates", 100) < retrieval["top_k"]:
        retrieval["candidates"] = retrieval["top_k"]
    return data


def identity(data: dict[str, Any]) -> str:
    """Return a hash that is the same for configs that search alike, whatever their names and explicit defaults."""
    try:
        value = parsed(data).model_dump(mode="json", exclude={"name", "description", "parent"})
    except HiveError:
        return canonical_hash(data)
    boosts = {field: _effective(boost) for field, boost in value["boosts"].items()}
    value["boosts"] = {field: boost for field, boost in boosts.items() if boost}
    if not value["dynamic_k"]["enabled"]:
        del value["dynamic_k"]
    else:
        value["dynamic_k"]["max_results"] = value["dynamic_k"]["max_results"] or value["retrieval"]["top_k"]
    if not value["rerank"]["enabled"]:
        del value["rerank"]
    if value["lift"]["enabled"] is False:
        value["lift"]["weight"] = 0.0
    if value["lift"]["weight"] is not None:
        del value["lift"]["enabled"]
    if value["retrieval"]["method"] != "hybrid":  # RRF keeps the order of a single lane, whatever its constants
        del value["retrieval"]["rrf_k"], value["retrieval"]["weights"]
    if value["retrieval"]["method"] == "vector":
        del value["bm25"]
    return canonical_hash(value)


def _effective(boost: dict[str, float]) -> dict[str, float]:
    return boost if HALF_LIFE in boost else {value: factor for value, factor in boost.items() if factor != 1}


def in_words(changes: Sequence[dict[str, Any]]) -> str:
    """Return changes in words, for a table.

    >>> in_words([{"path": "retrieval.top_k", "a": 10, "b": 5}])
    'top_k 10 → 5'
    """
    parts = []
    for change in changes:
        path = change["path"].removeprefix("retrieval.")
        if path.startswith("filters."):
            parts.append(f"{path.removeprefix('filters.')}: {_filter_words(change['b'])}")
        elif path.startswith("boosts."):
            parts.append(boost_words(path.removeprefix("boosts."), change["b"]))
        elif path.endswith(".enabled"):
            parts.append(f"{path.removesuffix('.enabled')} {'on' if change['b'] else 'off'}")
        else:
            parts.append(f"{path} {_short(change['a'])} → {_short(change['b'])}")
    return ", ".join(parts) or "no change"


def _filter_words(value: Any) -> str:
    if value is None:
        return "no filter"
    if isinstance(value, dict) and "not" in value:
        return "not " + ", ".join(map(str, value["not"]))
    return ", ".join(map(str, value)) if isinstance(value, list) else _short(value)


def boost_words(field: str, boost: dict[str, float] | None) -> str:
    """Return a field's boost in words, for a table.

    >>> boost_words("status", {"retired": 0.3, "draft": 2.0}), boost_words("updated", {"half_life_days": 365.0})
    ('status: retired × 0.3, draft × 2', 'updated: half-life 365 days')
    """
    if boost is None:
        return f"{field}: no boost"
    if HALF_LIFE in boost:
        return f"{field}: half-life {boost[HALF_LIFE]:g} days"
    return f"{field}: " + ", ".join(f"{value} × {factor:g}" for value, factor in boost.items())


def _short(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value)


def sweep(config: RetrievalConfig, index: AnyIndex, *, reranker: bool = False) -> Iterator[Edit]:
    """Yield every edit of `config` that moves one lever, including reranking where there is a `reranker`."""
    hybrid = config.retrieval.method == "hybrid"
    for path, values in LEVERS.items():
        for value in values:
            edit: list[tuple[str, Any]] = [(path, value)]
            if index.embedding_model is None and needs_model(path, value):
                continue
            if path.startswith("dynamic_k."):
                if not hybrid:
                    continue
                edit.append(("dynamic_k.enabled", True))
            if path == "lift.weight" and config.lift.enabled is False:
                edit.append(("lift.enabled", True))
            if path.startswith(("retrieval.weights", "retrieval.rrf_k")) and not hybrid:
                continue
            if path.startswith("bm25.") and not config.retrieval.keyword:
                continue
            yield Edit(tuple(edit), "sweep", f"sweep of {path}")
    if config.dynamic_k.enabled:
        yield Edit((("dynamic_k.enabled", False),), "sweep", "sweep of dynamic_k")
    if config.rerank.enabled:
        yield Edit((("rerank.enabled", False),), "sweep", "sweep of rerank")
    for candidates in RERANKED if reranker else ():
        values = (("rerank.enabled", True), ("rerank.candidates", candidates))
        yield Edit(values, "sweep", f"rerank the first {candidates}")
    yield from filter_edits(config, index)
    yield from boost_edits(config, index)


def single_edits(
    config: RetrievalConfig, index: AnyIndex, *, reranker: bool = False, declared: bool = True
) -> Iterator[Edit]:
    """Yield every edit of `config` by one lever that an optimizer may try; never one that abstains.

    Boosts are of fields that the collection lets rank, filters of values that it lets hide. Not `declared` are the
    boosts and filters of other fields, which the owner could declare.
    """
    fields = index.collection.fields
    for edit in sweep(config, index, reranker=reranker):
        (path, value), *_ = edit.values
        block, _, field = path.partition(".")
        if block in ("filters", "boosts"):
            hides = _may_hide(fields[field], config.filters.get(field), value)
            if (value is None or (fields[field].ranks if block == "boosts" else hides)) == declared:
                yield edit
        elif declared and block != "abstain":
            yield edit


def _may_hide(field: FieldSchema, before: Any, value: Any) -> bool:
    """Return whether a filter hides no more than what the field's schema lets it hide."""
    if not isinstance(value, dict) or "not" not in value:
        return False
    hidden = set(before["not"]) if isinstance(before, dict) and "not" in before else set()
    return set(value["not"]) - hidden <= {*field.may_hide}


def needs_model(path: str, value: Any) -> bool:
    """Return whether a search with this value takes an embedding model."""
    if path == "retrieval.method":
        return bool(value != "keyword")
    return (path == "abstain.min_cosine" and value is not None) or (path == "abstain.enabled" and bool(value))


def filter_edits(config: RetrievalConfig, index: AnyIndex) -> Iterator[Edit]:
    """Yield edits that exclude one more value, allow one again, keep only one, or drop a field's filter."""
    for field, values in filterable_values(index).items():
        current = config.filters.get(field)
        excluded = list(current["not"]) if isinstance(current, dict) and "not" in current else []
        path = f"filters.{field}"
        if current is not None:
            yield Edit(((path, None),), "sweep", f"without the filter on {field}")
        for value in values:
            if current is None or excluded:
                others = [v for v in excluded if v != value] if value in excluded else sorted([*excluded, value])
                if len(others) < len(values):
                    yield Edit(((path, {"not": others} if others else None),), "sweep", f"{field} without {value}")
            if current is None:
                yield Edit(((path, [value]),), "sweep", f"only {field} {value}")


def boost_edits(config: RetrievalConfig, index: AnyIndex) -> Iterator[Edit]:
    """Yield edits that weigh one value of a field more or less, prefer newer dates, or drop a field's boost."""
    for field, values in filterable_values(index).items():
        current = config.boosts.get(field, {})
        if current:
            yield Edit(((f"boosts.{field}", None),), "sweep", f"without the boost of {field}")
        for value in values:
            if not _passes(config.filters.get(field), value):
                continue  # the filter hides its documents
            for factor in BOOSTED:
                yield Edit(
                    ((f"boosts.{field}", dict(sorted({**current, value: factor}.items()))),),
                    "sweep",
                    f"{field} {value} × {factor:g}",
                )
    for field in date_fields(index):
        if field in config.boosts:
            yield Edit(((f"boosts.{field}", None),), "sweep", f"without the boost of {field}")
        for days in HALF_LIVES:
            yield Edit(((f"boosts.{field}", {HALF_LIFE: days}),), "sweep", f"half-life of {field} {days:g} days")


def _passes(condition: Any, value: str) -> bool:
    if isinstance(condition, dict):
        return value not in condition.get("not", ())
    return condition is None or value in (condition if isinstance(condition, list) else (condition,))


def filterable_values(index: AnyIndex) -> dict[str, list[str]]:
    """Return the values of each field with two to `MAX_VALUES` values, which is a category; none of people."""
    fields = index.collection.fields
    values_of = {
        name: [value for value, _ in index.values(name)]
        for name in index.collection.filterable
        if fields[name].type in ("keyword", "boolean") and not (fields[name].person or name.lower() in PEOPLE)
    }
    return {name: values for name, values in values_of.items() if 1 < len(values) <= MAX_VALUES}


def date_fields(index: AnyIndex) -> list[str]:
    """Return the filterable date fields."""
    return [name for name in index.collection.filterable if index.collection.fields[name].type == "date"]


def changes_from(base: RetrievalConfig, config: RetrievalConfig) -> list[dict[str, Any]]:
    """Return the changes of `config` from `base`, filters by field, without the settings of disabled blocks."""
    off = {name for name, block in (("dynamic_k", config.dynamic_k), ("rerank", config.rerank)) if not block.enabled}
    return [
        change
        for change in changed(base, config)
        if change["path"] != "dynamic_k.max_results"
        and (change["path"].split(".")[0] not in off or change["path"].endswith(".enabled"))
    ]


def parsed(data: dict[str, Any]) -> RetrievalConfig:
    """Return the config of its JSON. Raises: HiveError with the diagnostics of level 1."""
    return load_value(RetrievalConfig, data, f"configs/{data.get('name', 'new')}.json")
