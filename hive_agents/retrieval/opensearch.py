"""OpenSearch ranks the words: index terms made here, BM25 by Lucene, filters and scopes as bitmaps before it ranks.

A copy of a generation is an index of its own, with each chunk's number and index terms: no text and no title. Both
sides have the same analyzer, since the terms are made here and the cluster splits them at blanks alone.

Statistics are those of all documents of the copy, and a length has 8 bits, as Lucene keeps it. An index can't change
its k1 and b: with others than the default ones the cluster gives the candidates, and their scores are computed here.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from hive_agents.retrieval.bm25 import BM25Params
from hive_agents.retrieval.config import RetrievalConfig
from hive_agents.retrieval.engines import Progress
from hive_agents.retrieval.index import SqliteIndex, StaleIndex
from hive_agents.retrieval.lanes import Lane, VectorLane, WordLane
from hive_agents.retrieval.opensearch_client import Connection, MissingCopy
from hive_agents.retrieval.roaring import roaring
from hive_agents.retrieval.vectors import Mask
from hive_agents.workspace import Workspace

FORMAT = "1"
"""Changes whenever a copy would be made otherwise."""

_BATCH, _BATCH_BYTES = 500, 4 << 20
_TRIES, _FIRST_PAUSE, _LONGEST_PAUSE = 8, 1, 30
_SEARCHES = 64
"""Searches in one request."""

_MOST_TERMS = 1000
"""Different ones of a query; a server takes 1024 by default."""

_CANDIDATES, _CANDIDATE_FACTOR = 1000, 10
_WINDOW = 10_000
_NATIVE = BM25Params()
_TOLD = {"collection", "index_hash", "owner", "factor", "complete"}


class OpenSearch:
    """The engine of `[search] url`."""

    def __init__(self, connection: Connection, owner: str) -> None:
        self.connection = connection
        self._owner = owner

    @classmethod
    def of(cls, workspace: Workspace) -> OpenSearch:
        """Raises: as `Connection`."""
        owner = hashlib.sha256(f"{platform.node()}\0{workspace.root}".encode("utf-8", "surrogateescape")).hexdigest()
        return cls(Connection(workspace), owner[:16])

    @property
    def name(self) -> str:
        return self.connection.name

    def ship(self, index: SqliteIndex, progress: Progress) -> None:
        """Goes on where an earlier call stopped; the copy counts as complete when all of it can be searched."""
        copy, collection = self._copy(index.collection.name, index.index_hash), index.collection.name
        known = self._copies(collection).get(copy)
        if known and known["complete"]:
            return
        self.connection.require_able()
        told: dict[str, Any] = {"collection": collection, "index_hash": index.index_hash, "owner": self._owner}
        # Before release 3 Lucene's formula still had the constant factor k1 + 1.
        told["factor"] = _NATIVE.k1 + 1 if self.connection.version.startswith("2.") else 1.0
        if known is None:
            with self.connection.asking("making an index") as client:
                client.indices.create(index=copy, body=self._definition(copy, index, told | {"complete": False}))
        sent = self._contiguous(copy)
        chunks = (chunk for chunk in index.stored() if chunk.number >= sent)
        rows = (
            {
                "_op_type": "create",  # what is there already is no second document, which statistics would count
                "_id": str(chunk.number),
                "chunk": chunk.number,
                "words": " ".join((*chunk.title_words, *chunk.words)),
            }
            for chunk in chunks
        )
        self._send(copy, rows, sent, index.n_chunks, progress)
        with self.connection.asking("completing an index") as client:
            client.indices.refresh(index=copy)
            found = client.count(index=copy)["count"]
            if found != index.n_chunks:
                why = f"incomplete: it has {found} of {index.n_chunks} chunks"
                raise self.connection.fault("indexing", why, "run `hive index` again")
            client.indices.put_settings(index=copy, body={"index": {"refresh_interval": "-1"}})
            client.indices.put_mapping(index=copy, body={"_meta": told | {"complete": True}})

    def switch(self, collection: str, index_hash: str, keep: Collection[str]) -> None:
        """The alias of the collection moves, in one step; others' copies that are being made stay."""
        wanted, alias = self._copy(collection, index_hash), self._alias(collection)
        copies = self._copies(collection)
        if wanted not in copies or not copies[wanted]["complete"]:
            raise self.connection.missing()
        with self.connection.asking("switching an alias") as client:
            now = list(client.indices.get_alias(name=alias)) if client.indices.exists_alias(name=alias) else []
            if now != [wanted]:
                removed = [{"remove": {"index": one, "alias": alias}} for one in now if one != wanted]
                added = [{"add": {"index": wanted, "alias": alias}}]
                client.indices.update_aliases(body={"actions": [*removed, *added]})
            kept = {self._copy(collection, one) for one in keep}
            others = [one for one in copies if one not in kept]
            finished = [one for one in others if copies[one]["complete"]]
            finished.sort(key=lambda one: copies[one]["created"], reverse=True)
            own = [one for one in others if not copies[one]["complete"] and copies[one]["owner"] == self._owner]
            for one in (*finished[self.connection.settings.keep :], *own):
                client.indices.delete(index=one, ignore_unavailable=True)

    def words(self, index: SqliteIndex) -> WordLane | None:
        copy = self._copy(index.collection.name, index.index_hash)
        known = self._copies(index.collection.name).get(copy)
        if known is None or not known["complete"]:
            if not index.is_live():
                raise StaleIndex
            raise self.connection.missing()
        return _Words(self.connection, copy, known["factor"], index)

    def vectors(self, index: SqliteIndex) -> VectorLane | None:
        return None

    def reasons(self, config: RetrievalConfig) -> dict[str, str]:
        asked = BM25Params(config.bm25.k1, config.bm25.b, config.bm25.title_boost)
        if asked != _NATIVE:
            return {"keyword": f"only the best {_CANDIDATES} by other parameters are scored by the config's"}
        return {"keyword": "a text's length is kept in 8 bits: of two long texts the shorter may count as equally long"}

    def _copies(self, collection: str) -> dict[str, dict[str, Any]]:
        """The copies of any generation of a collection, by name of their index."""
        pattern = f"{self.connection.prefix}.copy-*"
        with self.connection.asking("what copies it has") as client:
            found = client.indices.get(
                index=pattern,
                params={"filter_path": "*.mappings._meta,*.settings.index.creation_date"},
                allow_no_indices=True,
            )
        copies = {}
        for name, one in found.items():
            told = one.get("mappings", {}).get("_meta", {})
            if told.keys() >= _TOLD and told["collection"] == collection:
                copies[name] = told | {"created": int(one["settings"]["index"]["creation_date"])}
        return copies

    def _copy(self, collection: str, index_hash: str) -> str:
        digest = hashlib.sha256("\0".join((FORMAT, collection, index_hash)).encode()).hexdigest()
        return f"{self.connection.prefix}.copy-{digest[:24]}"

    def _alias(self, collection: str) -> str:
        """The collection's name where an alias may be called so, else with a digest."""
        plain = re.sub(r"[^a-z0-9_-]", "-", collection.lower())
        tail = "" if plain == collection else f"-{hashlib.sha256(collection.encode()).hexdigest()[:8]}"
        return f"{self.connection.prefix}.{plain}{tail}"

    def _definition(self, copy: str, index: SqliteIndex, told: dict[str, Any]) -> dict[str, Any]:
        settings = self.connection.settings
        return {
            "settings": {
                "index": {
                    "number_of_shards": settings.shards,
                    "number_of_replicas": settings.replicas,
                    "refresh_interval": "-1",
                    "max_result_window": max(_WINDOW, index.n_chunks),
                    "similarity": {"default": {"type": "BM25", "k1": _NATIVE.k1, "b": _NATIVE.b}},
                }
            },
            "mappings": {
                "_meta": told,
                "dynamic": "strict",
                "_source": {"enabled": False},
                "properties": {
                    "chunk": {"type": "integer"},
                    "words": {"type": "text", "analyzer": "whitespace", "index_options": "freqs"},
                },
            },
            # Bulk requests go through it: were the index deleted meanwhile, they would make another one by themselves.
            "aliases": {_writing(copy): {}},
        }

    def _contiguous(self, copy: str) -> int:
        """How many of the first chunks are there; 0 where there are gaps."""
        with self.connection.asking("how far an index is") as client:
            client.indices.refresh(index=copy)
            count: int = client.count(index=copy)["count"]
            last = client.search(
                index=copy, body={"size": 1, "sort": [{"chunk": "desc"}]}, params={"filter_path": "hits.hits.sort"}
            )
        hits = last.get("hits", {}).get("hits", [])
        return count if hits and hits[0]["sort"][0] == count - 1 else 0

    def _send(self, copy: str, rows: Iterator[dict[str, Any]], sent: int, total: int, progress: Progress) -> None:
        """Waits where the cluster has too much to do, longer each time, and gives up after some minutes."""
        from opensearchpy.helpers import streaming_bulk

        done = sent
        with self.connection.asking("indexing") as client:
            for _, answer in streaming_bulk(
                client,
                rows,
                index=_writing(copy),
                chunk_size=_BATCH,
                max_chunk_bytes=_BATCH_BYTES,
                max_retries=_TRIES,
                initial_backoff=_FIRST_PAUSE,
                max_backoff=_LONGEST_PAUSE,
                raise_on_error=False,
                require_alias=True,
            ):
                outcome = answer["create"]
                if outcome["status"] not in (200, 201, 409):
                    word = "busy" if outcome["status"] == 429 else "failed"
                    kind = str(outcome.get("error", {}).get("type", "unknown"))
                    told = f"{word}: status {outcome['status']}, {kind}"
                    raise self.connection.fault("indexing", told, "see the cluster's log, then run `hive index` again")
                done += 1
                if done % _BATCH == 0 or done == total:
                    progress(f"sending to {self.name}", done, total)


def _writing(copy: str) -> str:
    return f"{copy}.writing"


class _Words:
    """A `WordLane` over one copy."""

    def __init__(self, connection: Connection, copy: str, factor: float, index: SqliteIndex) -> None:
        self._connection, self._copy, self._factor, self._index = connection, copy, factor, index

    def top(self, queries: Sequence[Sequence[str]], depth: int, params: BM25Params, mask: Mask | None) -> list[Lane]:
        if depth < 1 or (mask is not None and not mask.any()):
            return [_lane([]) for _ in queries]
        native = params == _NATIVE
        deep = min(depth if native else max(_CANDIDATES, _CANDIDATE_FACTOR * depth), max(self._index.n_chunks, 1))
        filters = [] if mask is None or mask.all() else [_bitmap(mask)]
        asked = [self._search(query, deep, filters) for query in queries]
        lanes = []
        for start in range(0, len(asked), _SEARCHES):
            lanes += [self._checked(found, mask) for found in self._answers(asked[start : start + _SEARCHES])]
        if native:
            return lanes
        return [self._scored(query, lane, depth, params) for query, lane in zip(queries, lanes, strict=True)]

    def _search(self, query: Sequence[str], depth: int, filters: list[dict[str, Any]]) -> dict[str, Any]:
        kept = set(list(dict.fromkeys(query))[:_MOST_TERMS])
        words = " ".join(word for word in query if word in kept)
        return {
            "size": depth,
            "track_total_hits": False,
            "query": {"bool": {"must": [{"match": {"words": words}}], "filter": filters}},
            "sort": ["_score", {"chunk": "asc"}],
        }

    def _answers(self, searches: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        one = {"search_type": "dfs_query_then_fetch", "allow_partial_search_results": False}
        path = "hits.hits.sort,timed_out,error,status,_shards.failed"
        try:
            with self._connection.asking("a search") as client:
                if len(searches) == 1:
                    found = client.search(
                        index=self._copy, body=searches[0], params=_as_text(one) | {"filter_path": path}
                    )
                    answers = [found]
                else:
                    lines = [line for search in searches for line in ({"index": self._copy} | one, search)]
                    under = ",".join(f"responses.{part}" for part in path.split(","))
                    answers = client.msearch(body=lines, params={"filter_path": under})["responses"]
        except MissingCopy:
            if not self._index.is_live():
                raise StaleIndex from None
            raise
        for answer in answers:
            if "error" in answer:
                kind = str(answer["error"].get("type", "unknown"))
                if kind == "index_not_found_exception" and not self._index.is_live():
                    raise StaleIndex
                raise self._connection.fault("a search", f"failed: {kind}", "see the cluster's log")
            if answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
                raise self._connection.fault("a search", "incomplete: some shards failed", "see the cluster's health")
            yield answer

    def _checked(self, answer: dict[str, Any], mask: Mask | None) -> Lane:
        """The lane, once no chunk stands in it that was not to be found, whatever the cluster does."""
        found = [hit["sort"] for hit in answer.get("hits", {}).get("hits", [])]
        lane = _lane([(score / self._factor, chunk) for score, chunk in found])
        inside = (lane.chunks >= 0) & (lane.chunks < self._index.n_chunks)
        if not inside.all() or (mask is not None and not mask[lane.chunks].all()):
            raise self._connection.fault("a search", "failed: it answered with chunks outside of the filter", _FIX)
        return lane

    def _scored(self, query: Sequence[str], lane: Lane, depth: int, params: BM25Params) -> Lane:
        """The candidates by `params`, as the embedded lane scores them."""
        scores = self._index.term_scores(query, lane.chunks, params)
        order = np.lexsort((lane.chunks, -scores))
        order = order[scores[order] > 0][:depth]
        return Lane(lane.chunks[order], scores[order])


_FIX = "use OpenSearch itself, without a proxy that changes requests"


def _lane(found: Sequence[Sequence[float]]) -> Lane:
    return Lane(np.array([chunk for _, chunk in found], np.intp), np.array([score for score, _ in found], np.float32))


def _bitmap(mask: Mask) -> dict[str, Any]:
    return {"terms": {"chunk": [base64.b64encode(roaring(mask)).decode()], "value_type": "bitmap"}}


def _as_text(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value).lower() for name, value in parameters.items()}
