"""Qdrant: a sparse vector of words beside the dense one, fused and boosted by its Query API."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from hive_agents.documents import date_bound, terms
from hive_agents.index import days_of
from hive_agents.ranking.exports.contents import Content, json_line, json_page
from hive_agents.ranking.exports.plan import Difference, ExportPlan, Parts, not_after_fusion
from hive_agents.ranking.exports.template import parameter

_MOST_REPEATS = 8
"""The most repetitions of a lane, which stand for its weight."""
_NUMBERS, _VALUES, _NEWEST = "numbers", "fields", "newest"


def parts(plan: ExportPlan) -> Parts:
    return Parts(
        texts={"collection.json": json_page(_collection(plan)), "query.json": json_page(_request(plan))},
        data={"points.jsonl": lambda found: (json_line(_point(plan, content)) for content in found)},
        request=_request(plan),
        differences=tuple(_differences(plan)),
        factors=("boosts",),
        words="terms" if plan.keyword else "none",
    )


def sparse_query(text: str, language: str) -> dict[str, list[Any]]:
    """Return a question's stems as a sparse vector.

    >>> sparse_query("Rotating keys, rotated", "english")
    {'indices': [1577290920, 2324736937], 'values': [2.0, 1.0]}
    """
    return _sparse({_number(term): float(times) for term, times in Counter(terms(text, language)).items()})


def _number(term: str) -> int:
    return zlib.crc32(term.encode())


def _sparse(weights: Mapping[int, float]) -> dict[str, list[Any]]:
    numbers = sorted(weights)
    return {"indices": numbers, "values": [weights[number] for number in numbers]}


def _differences(plan: ExportPlan) -> Iterator[Difference]:
    retrieval = plan.config.retrieval
    if plan.keyword:
        yield Difference(
            "access", "how rare a word is and how long a text is count over all documents, not the reader's alone"
        )
        yield Difference("bm25", "k1, b and title_boost are in the points: export the data again when they change")
    lanes = _repeats(plan)
    if len(lanes) == 2 and not _exact(plan, lanes):
        shown = f"{lanes[0]} to {lanes[1]}"
        yield Difference("retrieval.weights", f"the lanes are fused {shown}, the nearest to be had by repeating a lane")
    if 0 in lanes:
        yield Difference("retrieval.weights", "a lane of weight 0 adds no candidates")
    yield Difference("retrieval", "equal scores stand in Qdrant's order, not by chunk_id")
    if plan.config.boosts:
        yield Difference("boosts", "a boost counts also where the question names a value of its field or a past year")
    yield from not_after_fusion(plan)
    if retrieval.per_document is not None:
        # Groups would search deeper than `candidates`, which boosts would reveal.
        told = f"all candidates are returned: keep {retrieval.per_document} of each document, then {plan.limit} in all"
        yield Difference("retrieval.per_document", told)


def _repeats(plan: ExportPlan) -> list[int]:
    """Return the repetitions of each lane, since Qdrant's weights of a fusion have another meaning."""
    if len(plan.weights) == 1:
        return [1]
    keyword, vector = plan.weights
    if not keyword or not vector:
        return [int(keyword > 0), int(vector > 0)]
    larger, smaller = max(keyword, vector), min(keyword, vector)
    ratio = max(Fraction(smaller / larger).limit_denominator(_MOST_REPEATS), Fraction(1, _MOST_REPEATS))
    few, many = ratio.numerator, ratio.denominator
    return [many, few] if keyword >= vector else [few, many]


def _exact(plan: ExportPlan, lanes: Sequence[int]) -> bool:
    return 0 in lanes or abs(plan.weights[0] * lanes[1] - plan.weights[1] * lanes[0]) < 1e-9


def _collection(plan: ExportPlan) -> dict[str, Any]:
    """Return the requests for the collection: `create` is the body, `indexes` the payload's, one call each."""
    create: dict[str, Any] = {"vectors": {}}
    if plan.index.embedding_model is not None:
        create["vectors"] = {"dense": {"size": plan.index.dimensions, "distance": "Cosine"}}
    create["sparse_vectors"] = {"words": {"modifier": "idf"}}
    fields = plan.index.collection.fields
    indexes = [{"field_name": name, "field_schema": "keyword"} for name in ("readers", "doc_id")]
    for name in plan.index.collection.filterable:
        indexes.append({"field_name": _key(_VALUES, name), "field_schema": "keyword"})
        if fields[name].type in ("number", "date"):
            indexes.append({"field_name": _key(_NUMBERS, name), "field_schema": "float"})
        if fields[name].type == "date":
            indexes.append({"field_name": _key(_NEWEST, name), "field_schema": "float"})
    return {"create": create, "indexes": indexes}


def _point(plan: ExportPlan, content: Content) -> dict[str, Any]:
    chunk, bm25 = content.chunk, plan.config.bm25
    norm = bm25.k1 * (1 - bm25.b + bm25.b * content.length / (plan.mean_length or 1.0))
    frequencies = {term: float(times) for term, times in Counter(chunk.words).items()}
    for term in chunk.title_words:
        frequencies[term] = frequencies.get(term, 0.0) + bm25.title_boost
    # Two words may have the same hash of 32 bits; the one with the higher weight is kept.
    impacts: dict[int, float] = {}
    for term, tf in frequencies.items():
        if tf > 0:
            impacts[_number(term)] = max(impacts.get(_number(term), 0.0), tf / (tf + norm))
    vector: dict[str, Any] = {"words": _sparse(impacts)}
    if chunk.vector is not None:
        vector["dense"] = chunk.vector.tolist()
    return {
        "id": chunk.number,
        "vector": vector,
        "payload": {
            "chunk_id": chunk.chunk_id,
            "doc_id": chunk.doc_id,
            "title": chunk.title,
            "heading": chunk.ancestors,
            "text": chunk.text,
            "readers": list(content.readers),
            _VALUES: {name: list(values) for name, values in content.values.items()},
            _NUMBERS: {name: list(numbers) for name, numbers in content.numbers.items()},
            _NEWEST: {name: _not_ahead(plan, name, day) for name, day in content.newest.items()},
        },
    }


def _not_ahead(plan: ExportPlan, field: str, day: float) -> float:
    """The decay counts what is ahead of the reference as old, too; for us nothing is newer than new."""
    return min(day, plan.ages[field].reference) if field in plan.ages else day


def _request(plan: ExportPlan) -> dict[str, Any]:
    retrieval = plan.config.retrieval
    words = {"query": parameter("terms"), "using": "words"}
    dense = {"query": parameter("embedding"), "using": "dense", "params": {"exact": True}}
    each = {"filter": _filter(plan), "limit": retrieval.candidates}
    lanes: list[dict[str, Any]] = [
        *([words | each] if plan.keyword else []),
        *([dense | each] if retrieval.vector else []),
    ]
    repeated = [lane for lane, times in zip(lanes, _repeats(plan), strict=True) for _ in range(times)]
    depth = retrieval.candidates * len(lanes)
    # Its ranks begin at 0, ours at 1.
    request: dict[str, Any] = {"prefetch": repeated, "query": {"rrf": {"k": retrieval.rrf_k + 1}}}
    if factors := _factors(plan):
        request = {"prefetch": request | {"limit": depth}, "query": {"formula": {"mult": ["$score", *factors]}}}
        if plan.ages:
            request["query"]["defaults"] = {_key(_NEWEST, name): age.reference for name, age in plan.ages.items()}
    limit = plan.limit if retrieval.per_document is None else depth
    return request | {"limit": limit, "with_payload": ["chunk_id", "doc_id", "title", "text"]}


def _factors(plan: ExportPlan) -> list[Any]:
    found: list[Any] = []
    for name, factors in plan.factors.items():
        for value, factor in factors.items():
            # A condition is 1 where it is met and 0 elsewhere.
            met = {"key": _key(_VALUES, name), "match": {"value": value}}
            found.append({"sum": [1.0, {"mult": [factor - 1.0, met]}]})
    for name, age in plan.ages.items():
        decay = {"x": _key(_NEWEST, name), "target": age.reference, "scale": age.half_life, "midpoint": 0.5}
        found.append({"exp_decay": decay})
    return found


def _filter(plan: ExportPlan) -> dict[str, Any]:
    must: list[Any] = [{"key": "readers", "match": {"any": parameter("reader")}}]
    must_not: list[Any] = []
    for name, wanted in plan.config.conditions.items():
        if wanted.include is not None:
            must.append({"key": _key(_VALUES, name), "match": {"any": plan.filter_texts(name, wanted.include)}})
        if wanted.exclude:
            must_not.append({"key": _key(_VALUES, name), "match": {"any": plan.filter_texts(name, wanted.exclude)}})
        for operator, bound in wanted.bounds:
            if plan.is_date(name):
                operator, day = date_bound(operator, bound)
                limit = days_of(day)
            else:
                limit = float(bound)
            must.append({"key": _key(_NUMBERS, name), "range": {operator: limit}})
    return {"must": must} | ({"must_not": must_not} if must_not else {})


def _key(kind: str, field: str) -> str:
    return f"{kind}.{field}" if field.replace("_", "a").isalnum() else f'{kind}."{field}"'
