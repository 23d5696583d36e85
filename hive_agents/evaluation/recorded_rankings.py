"""Rankings that a search wrote to a file: TREC runs, JSON lines, one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hive_agents.evaluation.golden import GoldenQuery
from hive_agents.evaluation.outside import FoundList, line_fault

QUERY_KEYS = ("id", "query_id", "qid", "_id")
LIST_KEYS = ("documents", "ranking", "results", "hits", "doc_ids", "docs")
DOCUMENT_KEYS = ("doc_id", "docid", "docno", "document_id", "id", "_id")
SHAPES = '{"id": "q1", "documents": ["a", "b"]}, or {"id": "q1", "doc_id": "a", "score": 2.5}'


class Recorded:
    """The results in a file; those of a query that isn't in it are empty."""

    live = False

    def __init__(self, name: str, rankings: Mapping[str, FoundList]) -> None:
        self.name = name
        self._rankings = rankings

    def rank(self, query: GoldenQuery, k: int) -> FoundList:
        return self._rankings.get(query.id, FoundList(()))


def read_trec(path: Path, text: str) -> Recorded:
    """Return the run of a TREC file: query-id, Q0, doc-id, rank, score, tag.

    As trec_eval does, documents are ordered by score, equal scores by doc_id from z to a; the rank column is ignored.
    Raises: HIVE-104 for a line of another form, HIVE-111 for a duplicate document of a query.
    """
    scored: dict[str, list[tuple[float, str]]] = {}
    seen: set[tuple[str, str]] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        columns = line.split()
        if not columns:
            continue
        try:
            query_id, _, doc_id, _, score, *_ = columns
            scored.setdefault(query_id, []).append((_number(score), doc_id))
        except ValueError:
            message = "expected: query-id Q0 doc-id rank score tag, and a finite number as score"
            raise line_fault(path, number, "HIVE-104", message) from None
        # Duplicates would push lower documents, distractors too, below the measured depth.
        if (query_id, doc_id) in seen:
            raise line_fault(path, number, "HIVE-111", f'the query "{query_id}" has the document "{doc_id}" twice')
        seen.add((query_id, doc_id))
    return Recorded(path.name, {query_id: FoundList(_ordered(hits)) for query_id, hits in scored.items()})


def read_json(path: Path, value: Mapping[str, Any]) -> Recorded:
    """Return the rankings of one JSON object: query ids to lists of doc_ids, or to scores by doc_id.

    Raises: HIVE-104 for another form.
    """
    rankings = {}
    for query_id, hits in value.items():
        if isinstance(hits, list):
            rankings[query_id] = FoundList(_listed(path, 1, hits))
        elif isinstance(hits, dict) and all(isinstance(score, int | float) for score in hits.values()):
            rankings[query_id] = FoundList(_ordered([(float(score), doc_id) for doc_id, score in hits.items()]))
        else:
            raise line_fault(path, 1, "HIVE-104", f'"{query_id}" has neither a list of doc_ids nor scores by doc_id')
    return Recorded(path.name, rankings)


def read_json_lines(path: Path, text: str) -> Recorded:
    """Return the rankings of JSON lines: a line is a query with all its documents, or a document with its score.

    A query's line may give `milliseconds`. Raises: HIVE-101, HIVE-104, HIVE-111 for a duplicate query, or a duplicate
    document of a query.
    """
    whole: dict[str, FoundList] = {}
    scored: dict[str, list[tuple[float, str]]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise line_fault(path, number, "HIVE-101", "this line is no JSON object") from None
        query_id = _first(value, QUERY_KEYS) if isinstance(value, dict) else None
        if query_id is None:
            raise line_fault(path, number, "HIVE-104", f"expected {SHAPES}")
        hits = _first(value, LIST_KEYS)
        if isinstance(hits, list):
            if str(query_id) in whole:
                raise line_fault(path, number, "HIVE-111", f'the query "{query_id}" stands there twice')
            milliseconds = value.get("milliseconds")
            seconds = milliseconds / 1000 if isinstance(milliseconds, int | float) else None
            whole[str(query_id)] = FoundList(_listed(path, number, hits), seconds)
            continue
        doc_id, score = _first(value, ("doc_id", "docid", "docno", "document_id")), value.get("score")
        if doc_id is None or not isinstance(score, int | float):
            raise line_fault(path, number, "HIVE-104", f"expected {SHAPES}")
        if any(str(doc_id) == earlier for _, earlier in scored.setdefault(str(query_id), [])):
            raise line_fault(path, number, "HIVE-111", f'the query "{query_id}" has the document "{doc_id}" twice')
        scored[str(query_id)].append((float(score), str(doc_id)))
    return Recorded(path.name, whole | {query_id: FoundList(_ordered(hits)) for query_id, hits in scored.items()})


def doc_id_of(hit: Any) -> str | None:
    """Return the doc_id of a hit, which is a doc_id itself or an object that has one; None where there is none.

    >>> doc_id_of("a.md"), doc_id_of({"doc_id": "a.md", "score": 1}), doc_id_of({"score": 1}), doc_id_of(7)
    ('a.md', 'a.md', None, '7')
    """
    value = _first(hit, DOCUMENT_KEYS) if isinstance(hit, dict) else hit
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def _listed(path: Path, number: int, hits: list[Any]) -> tuple[str, ...]:
    documents = []
    for hit in hits:
        doc_id = doc_id_of(hit)
        if doc_id is None:
            raise line_fault(path, number, "HIVE-104", "a document is a doc_id, or an object that has one")
        documents.append(doc_id)
    return tuple(documents)


def _ordered(hits: list[tuple[float, str]]) -> tuple[str, ...]:
    return tuple(doc_id for _, doc_id in sorted(hits, reverse=True))


def _first(value: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _number(text: str) -> float:
    number = float(text)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number
