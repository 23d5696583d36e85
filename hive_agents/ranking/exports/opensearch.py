"""OpenSearch: BM25 by Lucene, exact vectors by its k-NN plugin, fused by a search pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hive_agents.documents import date_bound, is_exact, language_of
from hive_agents.ranking.exports.contents import Content, json_line, json_page
from hive_agents.ranking.exports.plan import Difference, ExportPlan, Parts, not_after_fusion
from hive_agents.ranking.exports.template import parameter

# Lucene's names of Snowball stemmers that differ.
_STEMMERS = {"english": "porter2", "porter": "porter", "german": "german2", "norwegian": "norwegian"}
_WORD = "(?U)[^\\W_]+(?:['’][^\\W\\d_]+)?"


def parts(plan: ExportPlan) -> Parts:
    request = _request(plan)
    return Parts(
        texts={"index.json": json_page(_index(plan)), "query.json": json_page(request)},
        data={"chunks.ndjson": lambda found: _bulk(plan, found)},
        request=request,
        differences=tuple(_differences(plan)),
        factors=("boosts",),
        words="query" if plan.keyword else "none",
    )


def title_repeats(boost: float) -> int:
    """Return how often the title is repeated in the indexed words: its boost as an integer."""
    return round(boost)


def _differences(plan: ExportPlan) -> Iterator[Difference]:
    config, retrieval = plan.config, plan.config.retrieval
    if plan.keyword:
        yield Difference(
            "access", "how rare a word is and how long a text is count over all documents, not the reader's alone"
        )
        yield Difference(
            "bm25", "Lucene keeps a length in 8 bits: of two long texts the shorter may count as equally long"
        )
        yield Difference("retrieval", "words aren't brought to compatibility form: ﬁ isn't found as fi")
        if is_exact(plan.index.language):
            told = "words without accents, parts of camelCase and joined writings such as CVE-2024-1234"
            yield Difference("retrieval", f"{told} aren't indexed apart")
        repeats = title_repeats(config.bm25.title_boost)
        if repeats != 1:
            told = f"the title stands {repeats} times in the words, and in their length"
            yield Difference("bm25.title_boost", told if repeats else "titles aren't indexed, nor counted as length")
    if plan.keyword and retrieval.vector:
        if retrieval.weights.keyword != retrieval.weights.vector:
            yield Difference("retrieval.weights", "weights of a rank fusion need OpenSearch 3 or later")
        yield Difference("retrieval", "equal scores stand in OpenSearch's order, not by chunk_id")
    for name in config.boosts:
        yield Difference(f"boosts.{name}", "nothing can be multiplied behind a fusion: the boost is left out")
    yield from not_after_fusion(plan)
    if retrieval.per_document is not None:
        if retrieval.per_document > 1:
            told = f"a hit is a document; its best {retrieval.per_document} chunks are its inner hits, all to be sorted"
            yield Difference("retrieval.per_document", f"{told} by score and cut at {plan.limit}")
        if plan.keyword and retrieval.vector:
            yield Difference("retrieval.per_document", "a fused list can be collapsed by OpenSearch 3.1 or later")


def _index(plan: ExportPlan) -> dict[str, Any]:
    bm25, language = plan.config.bm25, language_of(plan.index.language)
    filters = ["lowercase"]
    analysis: dict[str, Any] = {
        "char_filter": {"apostrophe": {"type": "mapping", "mappings": ["’=>'"]}},
        "tokenizer": {"word": {"type": "pattern", "pattern": _WORD, "group": 0}},
    }
    if language != "none":
        analysis["filter"] = {"stem": {"type": "stemmer", "language": _STEMMERS.get(language, language)}}
        filters.append("stem")
    analysis["analyzer"] = {
        "hive": {"type": "custom", "char_filter": ["apostrophe"], "tokenizer": "word", "filter": filters}
    }
    properties: dict[str, Any] = {
        "chunk_id": {"type": "keyword"},
        "doc_id": {"type": "keyword"},
        "title": {"type": "text", "index": False},
        "heading": {"type": "text", "index": False},
        "text": {"type": "text", "index": False},
        "words": {"type": "text", "analyzer": "hive", "similarity": "bm25"},
        "readers": {"type": "keyword"},
        "fields": {"properties": {name: {"type": "keyword"} for name in plan.index.collection.filterable}},
        "numbers": {"properties": {name: {"type": "double"} for name in _numbers(plan)}},
    }
    settings: dict[str, Any] = {
        # Each of several shards would use the statistics of its own documents.
        "number_of_shards": 1,
        "similarity": {"bm25": {"type": "BM25", "k1": bm25.k1, "b": bm25.b}},
        "analysis": analysis,
    }
    if plan.vector:
        settings["knn"] = True
        properties["embedding"] = {"type": "knn_vector", "dimension": plan.index.dimensions}
    mappings = {"dynamic": False, "_source": {"excludes": ["words"]}, "properties": properties}
    return {"settings": {"index": settings}, "mappings": mappings}


def _numbers(plan: ExportPlan) -> list[str]:
    fields = plan.index.collection.fields
    return [name for name in plan.index.collection.filterable if fields[name].type == "number"]


def _bulk(plan: ExportPlan, found: Iterator[Content]) -> Iterator[str]:
    repeats = title_repeats(plan.config.bm25.title_boost)
    for content in found:
        chunk = content.chunk
        row: dict[str, Any] = {
            "chunk_id": chunk.chunk_id,
            "doc_id": chunk.doc_id,
            "title": chunk.title,
            "heading": chunk.ancestors,
            "text": chunk.text,
            "words": "\n".join([*[chunk.title] * repeats, chunk.ancestors, chunk.text]),
            "readers": list(content.readers),
            "fields": {name: list(values) for name, values in content.values.items()},
            "numbers": {name: list(content.numbers[name]) for name in _numbers(plan)},
        }
        if plan.vector and chunk.vector is not None:
            row["embedding"] = chunk.vector.tolist()
        yield json_line({"index": {"_id": chunk.chunk_id}}) + json_line(row)


def _request(plan: ExportPlan) -> dict[str, Any]:
    retrieval = plan.config.retrieval
    lanes = [*([_words(plan)] if plan.keyword else []), *([_nearest(plan)] if retrieval.vector else [])]
    request: dict[str, Any] = {"size": plan.limit, "_source": ["chunk_id", "doc_id", "title", "text"]}
    if len(lanes) == 1:
        request |= {"query": lanes[0], "sort": ["_score", {"chunk_id": "asc"}]}
    else:
        combination: dict[str, Any] = {"technique": "rrf", "rank_constant": retrieval.rrf_k}
        total = sum(plan.weights)
        if plan.weights[0] != plan.weights[1]:
            combination["parameters"] = {"weights": [weight / total for weight in plan.weights]}
        processor = {"score-ranker-processor": {"combination": combination}}
        request |= {
            "query": {"hybrid": {"queries": lanes, "pagination_depth": retrieval.candidates}},
            "search_pipeline": {"phase_results_processors": [processor]},
        }
    if retrieval.per_document is not None:
        request["collapse"] = {"field": "doc_id"}
        if retrieval.per_document > 1:
            request["collapse"]["inner_hits"] = {"name": "chunks", "size": retrieval.per_document}
    return request


def _words(plan: ExportPlan) -> dict[str, Any]:
    match = {"match": {"words": {"query": parameter("query")}}}
    return {"bool": {"must": [match], **_filter(plan)}}


def _nearest(plan: ExportPlan) -> dict[str, Any]:
    """Exact: an approximate search would filter after it has looked."""
    script = {
        "source": "knn_score",
        "lang": "knn",
        "params": {"field": "embedding", "query_value": parameter("embedding"), "space_type": "cosinesimil"},
    }
    return {"script_score": {"query": {"bool": _filter(plan)}, "script": script}}


def _filter(plan: ExportPlan) -> dict[str, Any]:
    must: list[Any] = [{"terms": {"readers": parameter("reader")}}]
    must_not: list[Any] = []
    for name, wanted in plan.config.conditions.items():
        if wanted.include is not None:
            must.append({"terms": {f"fields.{name}": plan.filter_texts(name, wanted.include)}})
        if wanted.exclude:
            must_not.append({"terms": {f"fields.{name}": plan.filter_texts(name, wanted.exclude)}})
        for operator, bound in wanted.bounds:
            if plan.is_date(name):  # ISO 8601, which is in order as text
                must.append({"range": {f"fields.{name}": dict([date_bound(operator, bound)])}})
            else:
                must.append({"range": {f"numbers.{name}": {operator: float(bound)}}})
    return {"filter": must} | ({"must_not": must_not} if must_not else {})
