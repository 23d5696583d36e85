"""OpenSearch ranks the words, BM25 by Lucene, and the vectors where it has the k-NN plugin.

A copy of a generation is an index of its own, with each chunk's number, index terms and vector: no text and no title.
Both sides have the same analyzer, since the terms are made here and the cluster splits them at blanks alone.

Statistics are those of all documents of the copy, and a length has 8 bits, as Lucene keeps it. An index can't change
its k1 and b: with others than the default ones the cluster gives the candidates, and their scores are computed here.
"""

from __future__ import annotations

import hashlib
import math
import platform
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hive_agents.retrieval.config import RetrievalConfig
from hive_agents.retrieval.generation_reader import GenerationReader, StaleIndex
from hive_agents.retrieval.lanes import VectorLane, WordLane
from hive_agents.retrieval.opensearch_client import ClusterConnection
from hive_agents.retrieval.opensearch_lanes import CANDIDATES, NATIVE, CopyReader, VectorsThere, WordsThere
from hive_agents.store import Progress
from hive_agents.text import sha256
from hive_agents.workspace import Workspace

FORMAT = "1"
"""Changes whenever a copy would be made otherwise."""

_BATCH, _BATCH_BYTES = 500, 4 << 20
_TRIES, _FIRST_PAUSE, _LONGEST_PAUSE = 8, 1, 30
_WINDOW = 10_000
_TOLD = {"collection", "index_hash", "owner", "factor", "vectors", "shards"}
KNN = "opensearch-knn"


class OpenSearch:
    """The engine of `[search] url`."""

    def __init__(self, connection: ClusterConnection, owner: str, *, vectors: bool) -> None:
        self.connection = connection
        self._owner = owner
        self._vectors_wanted = vectors

    @classmethod
    def of(cls, workspace: Workspace) -> OpenSearch:
        """Raises: as `Connection`."""
        owner = hashlib.sha256(f"{platform.node()}\0{workspace.root}".encode("utf-8", "surrogateescape")).hexdigest()
        return cls(ClusterConnection(workspace), owner[:16], vectors=not workspace.settings.vectors.url)

    @property
    def name(self) -> str:
        return self.connection.name

    def ship(self, generation: GenerationReader, progress: Progress) -> None:
        """Goes on where an earlier call stopped; the copy counts as complete when all of it can be searched."""
        copy, collection = self._copy(generation.collection.name, generation.index_hash), generation.collection.name
        known = self._copies(collection).get(copy)
        if known and known["complete"]:
            return
        self.connection.require_able()
        if known is None:
            known = self._about(generation)
            with self.connection.asking("making an index") as client:
                client.indices.create(index=copy, body=self._definition(copy, generation, known))
        sent = self._contiguous(copy)
        self._send(copy, _rows(generation, sent, known["vectors"]), sent, generation.n_chunks, progress)
        with self.connection.asking("completing an index") as client:
            client.indices.refresh(index=copy)
            found = client.count(index=copy)["count"]
            if found != generation.n_chunks:
                why = f"incomplete: it has {found} of {generation.n_chunks} chunks"
                raise self.connection.fault("indexing", why, "run `hive index` again")
            # By alias, not in the mapping: the k-NN plugin of some releases can't bear that a mapping changes.
            done = {"remove": {"index": copy, "alias": _writing(copy)}}
            client.indices.update_aliases(body={"actions": [done, {"add": {"index": copy, "alias": _complete(copy)}}]})

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

    def words(self, generation: GenerationReader) -> WordLane | None:
        copy, told = self._held(generation)
        return WordsThere(CopyReader(self.connection, copy, generation, told["shards"]), told["factor"])

    def vectors(self, generation: GenerationReader) -> VectorLane | None:
        copy, told = self._held(generation)
        if not told["vectors"]:
            return None
        return VectorsThere(CopyReader(self.connection, copy, generation, told["shards"]), generation.dimensions)

    def ranks_vectors_of(self, collection: str, index_hash: str) -> bool:
        """Return whether the copy of a generation has its vectors. Raises: HIVE-434 where there is no complete copy."""
        self.connection.require_able()
        told = self._copies(collection).get(self._copy(collection, index_hash))
        if told is None or not told["complete"]:
            raise self.connection.missing()
        return bool(told["vectors"])

    def _held(self, generation: GenerationReader) -> tuple[str, dict[str, Any]]:
        """Return the copy of a generation and what is told of it. Raises: HIVE-434 where there is no complete one."""
        copy = self._copy(generation.collection.name, generation.index_hash)
        told = self._copies(generation.collection.name).get(copy)
        if told is None or not told["complete"]:
            raise self.connection.missing() if generation.is_live() else StaleIndex
        return copy, told

    @property
    def _ranks_vectors(self) -> bool:
        return self._vectors_wanted and KNN in self.connection.plugins

    def reasons(self, config: RetrievalConfig) -> dict[str, str]:
        if config.bm25.params != NATIVE:
            return {"keyword": f"only the best {CANDIDATES} by other parameters are scored by the config's"}
        return {"keyword": "a text's length is kept in 8 bits: of two long texts the shorter may count as equally long"}

    def _copies(self, collection: str) -> dict[str, dict[str, Any]]:
        """Return the copies of any generation of a collection, by name of their index."""
        pattern = f"{self.connection.prefix}.copy-*"
        with self.connection.asking("what copies it has") as client:
            found = client.indices.get(
                index=pattern,
                params={"filter_path": "*.mappings._meta,*.aliases,*.settings.index.creation_date"},
                allow_no_indices=True,
            )
            copies = {}
            for name, one in found.items():
                told = one.get("mappings", {}).get("_meta", {})
                if told.keys() >= _TOLD and told["collection"] == collection:
                    _require_form(told)
                    created = int(one["settings"]["index"]["creation_date"])
                    copies[name] = told | {"created": created, "complete": _complete(name) in one.get("aliases", {})}
        return copies

    def _copy(self, collection: str, index_hash: str) -> str:
        digest = hashlib.sha256("\0".join((FORMAT, collection, index_hash)).encode()).hexdigest()
        return f"{self.connection.prefix}.copy-{digest[:24]}"

    def _alias(self, collection: str) -> str:
        """Return the collection's name where an alias may be called so, else with a digest."""
        plain = re.sub(r"[^a-z0-9_-]", "-", collection.lower())
        tail = "" if plain == collection else f"-{sha256(collection)[:8]}"
        return f"{self.connection.prefix}.{plain}{tail}"

    def _about(self, generation: GenerationReader) -> dict[str, Any]:
        """Return what an index tells of itself."""
        return {
            "collection": generation.collection.name,
            "index_hash": generation.index_hash,
            "owner": self._owner,
            # Before release 3 Lucene's formula still had the constant factor k1 + 1.
            "factor": NATIVE.k1 + 1 if self.connection.version.startswith("2.") else 1.0,
            "shards": self.connection.settings.shards,
            "vectors": self._ranks_vectors and generation.embedding_model is not None and generation.n_chunks > 0,
        }

    def _definition(self, copy: str, generation: GenerationReader, told: dict[str, Any]) -> dict[str, Any]:
        settings = self.connection.settings
        properties: dict[str, Any] = {
            "chunk": {"type": "integer"},
            "words": {"type": "text", "analyzer": "whitespace", "index_options": "freqs"},
        }
        if told["vectors"]:
            properties["vector"] = {"type": "knn_vector", "dimension": generation.dimensions}
        return {
            "settings": {
                "index": {
                    "number_of_shards": told["shards"],
                    "number_of_replicas": settings.replicas,
                    "refresh_interval": "-1",
                    "max_result_window": max(_WINDOW, generation.n_chunks),
                    "similarity": {"default": {"type": "BM25", "k1": NATIVE.k1, "b": NATIVE.b}},
                }
            },
            "mappings": {
                "_meta": told,
                "dynamic": "strict",
                "_source": {"enabled": False},
                "properties": properties,
            },
            # Bulk requests go through it: were the index deleted meanwhile, they would make another one by themselves.
            "aliases": {_writing(copy): {}},
        }

    def _contiguous(self, copy: str) -> int:
        """Return how many of the first chunks are there; 0 where there are gaps."""
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
                    kind = str(outcome.get("error", {}).get("type", "unknown"))[:80]
                    told = f"{word}: status {outcome['status']}, {kind}"
                    raise self.connection.fault("indexing", told, "see the cluster's log, then run `hive index` again")
                done += 1
                if done % _BATCH == 0 or done == total:
                    progress(f"sending to {self.name}", done, total)


def _require_form(told: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError, which `asking` tells of, where an index tells something else than ours."""
    if type(told["vectors"]) is not bool or type(told["shards"]) is not int or type(told["factor"]) not in (int, float):
        raise TypeError
    if not 0 < told["factor"] < math.inf:
        raise ValueError


def _writing(copy: str) -> str:
    return f"{copy}.writing"


def _complete(copy: str) -> str:
    return f"{copy}.complete"


def _rows(generation: GenerationReader, first: int, with_vectors: bool) -> Iterator[dict[str, Any]]:
    for number, words in generation.index_terms(first):
        row: dict[str, Any] = {
            "_op_type": "create",  # what is there already is no second document, which statistics would count
            "_id": str(number),
            "chunk": number,
            "words": " ".join(words),
        }
        if with_vectors:
            row["vector"] = generation.local_vectors.row(number).tolist()
        yield row
