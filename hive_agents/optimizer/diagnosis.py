"""The causes of a config's lost nUDCG, each measured by an exact counterfactual over cached rankings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from hive_agents.evaluation import GoldenQuery
from hive_agents.evaluation.metrics import discount, ideal_dcg
from hive_agents.index import HALF_LIFE, AnyIndex
from hive_agents.optimizer.lane_cache import LaneCache, Ranked, Scores
from hive_agents.optimizer.space import HALF_LIVES, apply, boost_words, date_fields, filterable_values, parsed
from hive_agents.ranking import IntArray, RetrievalConfig

Cause = Literal[
    "category_distractor",
    "keyword_trap",
    "vector_trap",
    "tail_junk",
    "ranked_low",
    "unreachable",
    "filtered_away",
    "should_abstain",
    "unjudged",
    "repeats",
    "other_version",
]
APART = 2.0
"""One lane's rank must be this many times the other's before a distractor counts as that lane's trap."""


@dataclass(frozen=True)
class Loss:
    """`points` is the mean nUDCG to gain if this cause alone were removed; causes overlap."""

    cause: Cause
    points: float
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Exclusion:
    """The mean nUDCG and distractors without one value of a field, and how many relevant documents are lost."""

    field: str
    value: str
    nudcg: float
    distractors: float
    lost_relevant: int


@dataclass(frozen=True)
class Preference:
    """The mean nUDCG and distractors with a boost of one field; `boost` is the config's value for the field."""

    field: str
    boost: dict[str, float]
    nudcg: float
    distractors: float


@dataclass(frozen=True)
class Diagnosis:
    """Losses of `n` queries, largest first; `exclusions` and `preferences` are counterfactual filters and boosts."""

    n: int
    nudcg: float
    distractors: float
    losses: tuple[Loss, ...]
    exclusions: tuple[Exclusion, ...]
    preferences: tuple[Preference, ...]
    summary: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def counted(self) -> list[dict[str, Any]]:
        """Return each cause with the number of its queries, as {cause, queries, n, points}."""
        return [
            {"cause": one.cause, "queries": len(one.queries), "n": self.n, "points": one.points} for one in self.losses
        ]

    def loss(self, cause: str) -> Loss | None:
        return next((loss for loss in self.losses if loss.cause == cause), None)


def diagnose(cache: LaneCache, index: AnyIndex, config: RetrievalConfig) -> Diagnosis:
    """Return the diagnosis of one config over the cache's queries."""
    scores = cache.evaluate(config)
    ranked = cache.rank(config, depth=cache.golden.k)
    reachable = _reachable(cache, config)
    unfiltered = _reachable(cache, parsed({**config.model_dump(exclude_unset=True), "filters": {}}))
    points: dict[Cause, dict[str, float]] = {}
    for row, query in enumerate(cache.golden):
        for cause, gain in _of_query(query, row, ranked, scores, reachable[row], unfiltered[row], cache).items():
            points.setdefault(cause, {})[query.id] = gain
    exclusions = _exclusions(cache, index, config, scores)
    n = max(len(cache.golden), 1)
    losses = [
        Loss(cause, sum(by.values()) / n, tuple(sorted(by, key=lambda q: -by[q]))) for cause, by in points.items()
    ]
    mean = float(scores.nudcg.mean())
    if exclusions:
        best = exclusions[0]
        touched = tuple(query.id for query in cache.golden if query.distractors)
        losses.append(Loss("category_distractor", best.nudcg - mean, touched))
    crowded, most = _crowded(cache, ranked)
    if crowded:
        alone = float(cache.evaluate(parsed(apply(config, [("retrieval.per_document", 1)]))).nudcg.mean())
        losses.append(Loss("repeats", max(alone - mean, 0.0), crowded))
    versions = _other_versions(cache, ranked)
    preferences = _preferences(cache, index, config, mean) if versions else ()
    if versions:
        losses.append(Loss("other_version", max(preferences[0].nudcg - mean if preferences else 0.0, 0.0), versions))
    losses.sort(key=lambda loss: (-loss.points, loss.cause))
    distractors = float(scores.distractors.mean())
    summary = _summary(mean, scores, exclusions, preferences, losses)
    if crowded:
        summary += f"; the same document holds up to {most} of {cache.golden.k} places ({len(crowded)} queries)"
    return Diagnosis(len(cache.golden), mean, distractors, tuple(losses), exclusions, preferences, summary)


def _of_query(
    query: GoldenQuery,
    row: int,
    ranked: Ranked,
    scores: Scores,
    reachable: set[int],
    unfiltered: set[int],
    cache: LaneCache,
) -> dict[Cause, float]:
    """Return the nUDCG that each cause costs one query."""
    k = cache.golden.k
    returned = int(ranked.returned[row])
    labels = ranked.labels[row, : min(returned, k)].tolist()
    actual = float(scores.nudcg[row])
    if not query.relevant:
        return {"should_abstain": 1.0 - actual} if returned else {}
    ideal = ideal_dcg(len(query.relevant), k)
    documents = ranked.documents[row, : len(labels)].tolist()
    counted = _first_occurrences(documents, labels)
    keyword, vector = ranked.keyword[row], ranked.vector[row]
    gains: dict[Cause, float] = {
        "keyword_trap": _without_traps(counted, keyword, vector) / ideal - actual,
        "vector_trap": _without_traps(counted, vector, keyword) / ideal - actual,
        "tail_junk": max(_dcg(counted[:length]) for length in range(len(counted) + 1)) / ideal - actual,
    }
    numbers = {cache.number_of(doc_id) for doc_id in query.relevant}
    shown = {number for number, label in zip(documents, counted, strict=True) if label > 0}
    missing = numbers - shown
    low = missing & reachable
    missing_by_cause: dict[Cause, set[int]] = {
        "ranked_low": low,
        "filtered_away": (missing - low) & unfiltered,
        "unreachable": missing - low - unfiltered,
    }
    for cause, lost in missing_by_cause.items():
        gains[cause] = (ideal_dcg(len(shown) + len(lost), k) - ideal_dcg(len(shown), k)) / ideal
    gains = {cause: gain for cause, gain in gains.items() if gain > 1e-12}
    if query.irrelevant is not None and {*documents} - {cache.number_of(doc_id) for doc_id in query.qrels}:
        gains["unjudged"] = 0.0
    return gains


def _without_traps(labels: list[int], lane: IntArray, other: IntArray) -> float:
    """Return the DCG of a list without the distractors that `lane` ranks far higher than the `other` lane."""
    return _dcg(
        [
            label
            for place, label in enumerate(labels)
            if label >= 0 or not lane[place] or (other[place] and other[place] < APART * lane[place])
        ]
    )


def _first_occurrences(documents: Iterable[int], labels: Iterable[int]) -> list[int]:
    """Return the labels, 0 where a document is repeated."""
    seen: set[int] = set()
    first = []
    for document, label in zip(documents, labels, strict=True):
        first.append(0 if document in seen else label)
        seen.add(document)
    return first


def _dcg(labels: list[int]) -> float:
    return sum(label * discount(rank) for rank, label in enumerate(labels, start=1))


def _reachable(cache: LaneCache, config: RetrievalConfig) -> list[set[int]]:
    """Return the documents among the candidates of the lanes in use, one set per query."""
    plain = parsed(config.model_dump(exclude_unset=True) | {"rerank": {}})  # the order doesn't matter here
    everything = cache.rank(plain, depth=10_000)
    candidates = config.retrieval.candidates
    inside = np.zeros(everything.documents.shape, np.bool_)
    for used, lane in ((config.retrieval.keyword, everything.keyword), (config.retrieval.vector, everything.vector)):
        if used:
            inside |= (lane > 0) & (lane <= candidates)
    return [set(documents[mask].tolist()) for documents, mask in zip(everything.documents, inside, strict=True)]


def _exclusions(cache: LaneCache, index: AnyIndex, config: RetrievalConfig, before: Scores) -> tuple[Exclusion, ...]:
    exclusions = []
    relevant_before = cache.relevant_returned(config)
    for field, values in filterable_values(index).items():
        current = config.filters.get(field)
        excluded = list(current["not"]) if isinstance(current, dict) and "not" in current else []
        if current is not None and not excluded:
            continue
        for value in values:
            if value in excluded or len(excluded) + 1 >= len(values):
                continue
            candidate = parsed(apply(config, [(f"filters.{field}", {"not": sorted([*excluded, value])})]))
            after = cache.evaluate(candidate)
            nudcg = float(after.nudcg.mean())
            if nudcg > float(before.nudcg.mean()) + 1e-9:
                lost = max(0, relevant_before - cache.relevant_returned(candidate))
                exclusions.append(Exclusion(field, value, nudcg, float(after.distractors.mean()), lost))
    exclusions.sort(key=lambda one: (-one.nudcg, one.lost_relevant, one.field, one.value))
    return tuple(exclusions[:6])


def _crowded(cache: LaneCache, ranked: Ranked) -> tuple[tuple[str, ...], int]:
    """Return the queries whose list repeats a document, most repeats first, and the highest number of one document."""
    most: dict[str, int] = {}
    for row, query in enumerate(cache.golden):
        upto = min(int(ranked.returned[row]), cache.golden.k)
        counts = np.unique(ranked.documents[row, :upto], return_counts=True)[1]
        if counts.max(initial=0) > 1:
            most[query.id] = int(counts.max())
    return tuple(sorted(most, key=lambda id: -most[id])), max(most.values(), default=0)


def _other_versions(cache: LaneCache, ranked: Ranked) -> tuple[str, ...]:
    """Return the queries that get a distractor named like a relevant page, mostly another version of it."""
    names = cache.doc_ids
    queries = []
    for row, query in enumerate(cache.golden):
        upto = min(int(ranked.returned[row]), cache.golden.k)
        wrong = ranked.documents[row, :upto][ranked.labels[row, :upto] < 0].tolist()
        pages = {page_name(doc_id) for doc_id in query.relevant}
        if any(page_name(names[number]) in pages for number in wrong):
            queries.append(query.id)
    return tuple(queries)


def page_name(doc_id: str) -> str:
    """Return the end of a path that names the page: its versions are in different folders.

    >>> page_name("v3.5/op-guide/failures.md"), page_name("v3.6/learning/index.md")
    ('failures.md', 'learning/index.md')
    """
    *folders, name = doc_id.split("/")
    unspecific = name.rsplit(".", 1)[0].lower() in ("index", "_index", "readme")
    return "/".join([*folders[-1:], name]) if unspecific else name


def _preferences(cache: LaneCache, index: AnyIndex, config: RetrievalConfig, before: float) -> tuple[Preference, ...]:
    """Return the boosts of one value, or of newer dates, that raise the mean nUDCG, best first."""
    boosts: list[tuple[str, dict[str, float]]] = []
    for field, values in filterable_values(index).items():
        current = {value: factor for value, factor in config.boosts.get(field, {}).items() if value in values}
        boosts += [(field, dict(sorted({**current, value: 2.0}.items()))) for value in values]
    for field in date_fields(index):
        boosts += [(field, {HALF_LIFE: days}) for days in HALF_LIVES]
    preferences = []
    for field, boost in boosts:
        after = cache.evaluate(parsed(apply(config, [(f"boosts.{field}", boost)])))
        nudcg = float(after.nudcg.mean())
        if nudcg > before + 1e-9:
            preferences.append(Preference(field, boost, nudcg, float(after.distractors.mean())))
    preferences.sort(key=lambda one: (-one.nudcg, one.field, sorted(one.boost.items())))
    return tuple(preferences[:6])


def _summary(
    mean: float,
    scores: Scores,
    exclusions: tuple[Exclusion, ...],
    preferences: tuple[Preference, ...],
    losses: list[Loss],
) -> str:
    total = int(scores.distractors.sum())
    parts = [
        f"quality of the lists {mean:.2f}; "
        f"{total} distractors in {int((scores.distractors > 0).sum())} of {len(scores.nudcg)} queries"
    ]
    if exclusions:
        best = exclusions[0]
        lost = "no relevant document" if not best.lost_relevant else f"{best.lost_relevant} relevant documents"
        parts.append(f"leaving out {best.field} {best.value} would give {best.nudcg:.2f} and lose {lost}")
    if preferences:
        first = preferences[0]
        parts.append(
            f"other pages of the same name win: prefer {boost_words(first.field, first.boost)}, which would give"
            f" {first.nudcg:.2f}"
        )
    words = {
        "keyword_trap": "keyword search alone is fooled",
        "vector_trap": "vector search alone is fooled",
        "tail_junk": "the list goes on after the answer",
        "ranked_low": "the answer is found and ranked too low",
        "unreachable": "the answer is no candidate of any lane",
        "filtered_away": "a filter hides the answer",
        "should_abstain": "there is no answer, and something is returned",
    }
    for loss in losses[:3]:
        if loss.cause in words and loss.points >= 0.005:
            parts.append(f"{words[loss.cause]} ({len(loss.queries)} queries, {loss.points:.2f})")
    return "; ".join(parts)
