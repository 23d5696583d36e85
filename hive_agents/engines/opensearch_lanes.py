"""Lanes of one copy in OpenSearch. Filters and scopes are sent as Roaring bitmaps, which apply before the limit k."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.engines.breaker import TimedOut
from hive_agents.engines.opensearch_client import ClusterConnection, MissingCopy
from hive_agents.index import BM25Params, GenerationReader, Lane, Mask, StaleIndex, vectors

_COOKIE = 12346
_BLOCK = 1 << 16
_MOST_LISTED = 4096


def roaring(mask: NDArray[np.bool_]) -> bytes:
    """Return the positions at which `mask` is True, in the portable roaring format.

    >>> roaring(np.array([False, True, True])).hex()
    '3a30000001000000000001001000000001000200'
    """
    numbers = mask.nonzero()[0]
    keys, starts = np.unique(numbers >> 16, return_index=True)
    runs = np.split(numbers & (_BLOCK - 1), starts[1:])
    head, offsets, bodies = [struct.pack("<II", _COOKIE, len(keys))], [], []
    offset = 8 + 8 * len(keys)
    for key, low in zip(keys.tolist(), runs, strict=False):
        head.append(struct.pack("<HH", key, len(low) - 1))
        offsets.append(struct.pack("<I", offset))
        if len(low) <= _MOST_LISTED:
            body = low.astype("<u2").tobytes()
        else:
            bits = np.zeros(_BLOCK, np.bool_)
            bits[low] = True
            body = np.packbits(bits, bitorder="little").tobytes()
        bodies.append(body)
        offset += len(body)
    return b"".join((*head, *offsets, *bodies))


NATIVE = BM25Params()
"""The parameters of a copy's index; for others the best candidates by these are scored here."""

CANDIDATES = 1000
_CANDIDATE_FACTOR = 10
_SEARCHES = 64
"""Most searches in one request."""

_FEWER = 8
"""Divisor of the number of searches in a request after a timeout."""

_MOST_TERMS = 1000
"""Most distinct terms of a query; the server's default limit is 1024."""

_ANSWER = "hits.hits.sort,timed_out,error,status,_shards.failed"
_KIND = 80
"""Most characters of a failure's kind in messages."""

_FIX = "use OpenSearch itself, without a proxy that changes requests"


class CopyReader:
    """Searches one copy, and checks that answers have no chunk outside of the filter."""

    def __init__(self, connection: ClusterConnection, copy: str, generation: GenerationReader, shards: int) -> None:
        self._connection, self._copy, self.generation = connection, copy, generation
        # Results of some of the shards would rank differently. Statistics are each shard's own, unless those of all
        # are requested first, which doubles the time.
        self._parameters = {"allow_partial_search_results": "false"}
        self._at_once = _SEARCHES
        if shards > 1:
            self._parameters["search_type"] = "dfs_query_then_fetch"

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which errors of reading an answer are raised as HIVE-434."""
        return self._connection.reading("a search")

    def best(self, queries: Sequence[dict[str, Any]], depth: int, mask: Mask | None) -> list[Lane]:
        """Return the `depth` best chunks inside `mask` for each query, with the cluster's scores; ties by number."""
        if depth < 1 or (mask is not None and not mask.any()):
            return [_lane([]) for _ in queries]
        filters = [] if mask is None or mask.all() else [_bitmap(mask)]
        searches = [
            {
                "size": min(depth, max(self.generation.n_chunks, 1)),
                "track_total_hits": False,
                "query": _filtered(query, filters),
                "sort": ["_score", {"chunk": "asc"}],
            }
            for query in queries
        ]
        lanes: list[Lane] = []
        while len(lanes) < len(searches):
            batch = searches[len(lanes) : len(lanes) + self._at_once]
            try:
                lanes += [self._checked(hits, mask) for hits in self._answers(batch)]
            except TimedOut:
                if len(batch) == 1:
                    raise
                self._at_once = max(len(batch) // _FEWER, 1)
        return lanes

    def _answers(self, searches: Sequence[dict[str, Any]]) -> Iterator[list[Any]]:
        """Yield the hits of each search."""
        parameters = self._parameters
        try:
            with self._connection.asking("a search", heavy=len(searches) > 1) as client:
                if len(searches) == 1:
                    params = parameters | {"filter_path": _ANSWER}
                    answers = [client.search(index=self._copy, body=searches[0], params=params)]
                else:
                    lines = [line for search in searches for line in ({"index": self._copy} | parameters, search)]
                    paths = ",".join(f"responses.{part}" for part in _ANSWER.split(","))
                    answers = client.msearch(body=lines, params={"filter_path": paths})["responses"]
                if not isinstance(answers, list) or len(answers) != len(searches):
                    raise TypeError  # `reading` turns it into HIVE-434
                parts = [_Parts.of(answer) for answer in answers]
        except MissingCopy:
            if not self.generation.is_live():
                raise StaleIndex from None
            raise
        for search, part in zip(searches, parts, strict=True):
            if part.error == "index_not_found_exception":
                raise self._connection.missing() if self.generation.is_live() else StaleIndex
            if part.error:
                raise self._connection.fault("a search", f"failed: {part.error}", "see the cluster's log")
            if part.is_partial:
                raise self._connection.fault("a search", "incomplete: some shards failed", "see the cluster's health")
            if len(part.hits) > search["size"]:
                raise self._connection.fault("a search", "failed: it answered with more than was asked for", _FIX)
            yield part.hits

    def _checked(self, hits: list[Any], mask: Mask | None) -> Lane:
        with self.reading():
            lane = _lane([_pair(hit) for hit in hits])
        inside = (lane.chunks >= 0) & (lane.chunks < self.generation.n_chunks)
        if not inside.all() or (mask is not None and not mask[lane.chunks].all()):
            raise self._connection.fault("a search", "failed: it answered with chunks outside of the filter", _FIX)
        if len(np.unique(lane.chunks)) < len(lane.chunks) or (np.diff(lane.scores) > 0).any():
            raise self._connection.fault("a search", "failed: its list has chunks twice, or isn't in order", _FIX)
        return lane


@dataclass(frozen=True)
class _Parts:
    """The parts of an answer; `error` is the kind of its failure, "" without one."""

    hits: list[Any]
    error: str
    is_partial: bool

    @classmethod
    def of(cls, answer: Any) -> _Parts:
        """Return the parts of a search's answer. Raises: AttributeError or TypeError for another form."""
        error = str(answer["error"].get("type", "unknown"))[:_KIND] if "error" in answer else ""
        is_partial = bool(answer.get("timed_out") or answer.get("_shards", {}).get("failed"))
        hits = answer.get("hits", {}).get("hits", [])
        if not isinstance(hits, list):
            raise TypeError
        return cls(hits, error, is_partial)


def _pair(hit: Any) -> tuple[float, int]:
    """Return score and chunk of a hit. Raises: LookupError, TypeError or ValueError for anything else."""
    score, chunk = hit["sort"]
    if type(score) not in (int, float) or type(chunk) is not int or not math.isfinite(score):
        raise TypeError
    return score, chunk


class WordsThere:
    """A `WordLane`: BM25 by Lucene, whose scores are `factor` times ours."""

    def __init__(self, copy: CopyReader, factor: float) -> None:
        self._copy, self._factor = copy, factor

    def top(self, queries: Sequence[Sequence[str]], depth: int, params: BM25Params, mask: Mask | None) -> list[Lane]:
        native = params == NATIVE
        deep = depth if native else max(CANDIDATES, _CANDIDATE_FACTOR * depth)
        lanes = self._copy.best([_match(query) for query in queries], deep if depth > 0 else 0, mask)
        if native:
            return [Lane(lane.chunks, lane.scores / np.float32(self._factor)) for lane in lanes]
        return [self._scored(query, lane, depth, params) for query, lane in zip(queries, lanes, strict=True)]

    def _scored(self, query: Sequence[str], lane: Lane, depth: int, params: BM25Params) -> Lane:
        """Return the candidates by `params`, as the embedded lane scores them."""
        scores = self._copy.generation.term_scores(query, lane.chunks, params)
        order = np.lexsort((lane.chunks, -scores))
        order = order[scores[order] > 0][:depth]
        return Lane(lane.chunks[order], scores[order])


class VectorsThere:
    """A `VectorLane`: the exact cosine of every chunk inside the mask, by the k-NN plugin."""

    def __init__(self, copy: CopyReader, dimensions: int) -> None:
        self._copy, self._dimensions = copy, dimensions

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def top(self, query: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> vectors.Scored:
        return self.top_many(query[None], k, mask=mask)[0]

    def top_many(self, queries: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> list[vectors.Scored]:
        if queries.ndim != 2 or queries.shape[1] != self._dimensions:
            raise ValueError(f"the index has {self._dimensions} dimensions, the queries have shape {queries.shape}")
        lanes = self._copy.best([_nearest(query) for query in queries], k, mask)
        return [(lane.chunks, lane.scores / self._half - 1) for lane in lanes]

    def scores(self, query: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float32]:
        mask = np.zeros(self._copy.generation.n_chunks, np.bool_)
        mask[rows] = True
        chunks, scores = self.top(query, len(mask), mask=mask)
        by_chunk = dict(zip(chunks.tolist(), scores.tolist(), strict=True))
        with self._copy.reading():
            return np.array([by_chunk[row] for row in np.asarray(rows).tolist()], np.float32)

    @cached_property
    def _half(self) -> np.float32:
        """The plugin's score of a cosine of 0; releases scale scores differently, but all score -1 as 0."""
        mask = np.zeros(self._copy.generation.n_chunks, np.bool_)
        mask[0] = True
        (lane,) = self._copy.best([_nearest(self._copy.generation.local_vectors.row(0))], 1, mask)
        with self._copy.reading():
            (score,) = lane.scores.tolist()
            if score <= 0:
                raise ValueError  # `reading` turns it into HIVE-434
        return np.float32(score / 2)


def _match(query: Sequence[str]) -> dict[str, Any]:
    first_terms = set(list(dict.fromkeys(query))[:_MOST_TERMS])
    return {"match": {"words": " ".join(word for word in query if word in first_terms)}}


def _nearest(vector: NDArray[np.float32]) -> dict[str, Any]:
    params = {"field": "vector", "query_value": vector.tolist(), "space_type": "cosinesimil"}
    script = {"lang": "knn", "source": "knn_score", "params": params}
    return {"script_score": {"query": {"match_all": {}}, "script": script}}


def _filtered(query: dict[str, Any], filters: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the query with filters that apply before scores are computed."""
    if not filters:
        return query
    if "script_score" in query:
        return {"script_score": query["script_score"] | {"query": {"bool": {"filter": filters}}}}
    return {"bool": {"must": [query], "filter": filters}}


def _lane(pairs: Sequence[Sequence[float]]) -> Lane:
    """Return a lane of (score, chunk) pairs."""
    return Lane(np.array([chunk for _, chunk in pairs], np.intp), np.array([score for score, _ in pairs], np.float32))


def _bitmap(mask: Mask) -> dict[str, Any]:
    return {"terms": {"chunk": [base64.b64encode(roaring(mask)).decode()], "value_type": "bitmap"}}
