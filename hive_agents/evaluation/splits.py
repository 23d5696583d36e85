"""The split of golden queries: train to learn from, validation to choose by, holdout to certify by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from hive_agents.base import sha256
from hive_agents.evaluation.golden import GoldenQuery, GoldenSet, question_key
from hive_agents.evaluation.leakage import alike

Regime = Literal["named", "hashed", "cross_validated", "uncertified"]
SHARES = {"hashed": (0.50, 0.70), "cross_validated": (0.60, 0.60)}
"""Where train and validation end, as places in [0, 1); the rest is the holdout."""
LEAST, HASHED = 20, 40
"""The fewest queries for a holdout, and for a validation split beside it."""
PROVING = 20
"""The fewest held-out queries that can prove a gain."""


@dataclass(frozen=True)
class Splits:
    """The three parts of a golden set; `holdout` is None where there are too few queries to certify anything."""

    train: GoldenSet
    validation: GoldenSet
    holdout: GoldenSet | None
    regime: Regime


def split(golden: GoldenSet) -> Splits:
    """Return the golden set's named splits; else 50/20/30 by cluster from 40 queries on, 60/0/40 from 20, none below.

    A query that names its split, such as a generated one, stays in it, and doesn't count among those 40 or 20.
    Near-duplicates stay together: otherwise the holdout would have questions that were learned from.
    """
    if golden.has_holdout:
        return _named(golden)
    open_queries = golden.only(query.id for query in golden if query.split is None)
    n = len(open_queries)
    if n < LEAST:
        return Splits(golden, golden.only([]), None, "uncertified")
    regime: Regime = "hashed" if n >= HASHED else "cross_validated"
    train, validation = SHARES[regime]
    places = _places(open_queries)
    named = {name: [query.id for query in golden if query.split == name] for name in ("train", "validation")}
    return Splits(
        golden.only([*named["train"], *(query for query, place in places.items() if place < train)]),
        golden.only([*named["validation"], *(query for query, place in places.items() if train <= place < validation)]),
        golden.only(query for query, place in places.items() if place >= validation),
        regime,
    )


def held_out(golden: GoldenSet) -> GoldenSet | None:
    """Return the only queries that may prove a config: those named holdout, else those that `split` holds out."""
    return split(golden).holdout


def open_part(golden: GoldenSet) -> GoldenSet:
    """Return the asked queries that aren't held out."""
    held = {query.id for query in held_out(golden) or ()}
    return golden.asked.only(query.id for query in golden.asked if query.id not in held)


def missing_labels(golden: GoldenSet, needed: int) -> int:
    """Return how many more queries the set needs until at least `needed` are held out, and `PROVING` in any case."""
    needed = max(needed, PROVING)
    if golden.has_holdout:
        return max(0, needed - len(golden.split("holdout")))
    return max(0, golden_size(needed) - sum(query.split is None for query in golden))


def golden_size(held_out: int) -> int:
    """Return how many queries a golden set without named splits needs for a holdout of this size.

    >>> golden_size(8), golden_size(30)
    (20, 100)
    """
    sizes = {regime: math.ceil(round(held_out / (1 - upto), 9)) for regime, (_, upto) in SHARES.items()}
    return sizes["cross_validated"] if sizes["cross_validated"] < HASHED else sizes["hashed"]


def _named(golden: GoldenSet) -> Splits:
    """Return named splits, with other queries in train and validation, 5 to 2; an empty train takes validation's."""
    holdout = golden.split("holdout")
    open_queries = golden.only(query.id for query in golden if query.split is None)
    places = _places(open_queries)
    train = {query.id for query in golden if query.split == "train"} | {
        q for q, place in places.items() if place < 5 / 7
    }
    validation = {query.id for query in golden if query.id not in train and query.split != "holdout"}
    if not train:  # a search needs queries to learn from, and validation queries are open, too
        train, validation = validation, set()
    return Splits(golden.only(train), golden.only(validation), holdout, "named")


def _places(golden: GoldenSet) -> dict[str, float]:
    """Return a stable place in [0, 1) for each query, the same for near-duplicates, evenly spread."""
    clusters = sorted(
        _clusters(list(golden)), key=lambda cluster: sha256(min(question_key(query.query) for query in cluster))
    )
    places: dict[str, float] = {}
    before = 0
    for cluster in clusters:
        places |= dict.fromkeys((query.id for query in cluster), before / max(len(golden), 1))
        before += len(cluster)
    return places


def _clusters(queries: list[GoldenQuery]) -> list[list[GoldenQuery]]:
    """Return the clusters of near-duplicate queries, linked transitively."""
    words = [set(question_key(query.query).split()) for query in queries]
    parents = list(range(len(queries)))

    def find(number: int) -> int:
        while parents[number] != number:
            number = parents[number]
        return number

    for a in range(len(queries)):
        for b in range(a):
            if alike(words[a], words[b]):
                parents[find(a)] = find(b)
    grouped: dict[int, list[GoldenQuery]] = {}
    for number, query in enumerate(queries):
        grouped.setdefault(find(number), []).append(query)
    return list(grouped.values())
