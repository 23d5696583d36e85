"""The OpenSearch engine: ranks by Lucene's BM25, and by vectors where the cluster has the k-NN plugin.

A copy of a generation is a separate index with each chunk's number, index terms and vector, without text and title.
Terms are analyzed here; the cluster only splits them at blanks.

Statistics are those of all documents of the copy, and Lucene stores a length in 8 bits. k1 and b of an index are fixed:
with other values than the defaults the cluster returns candidates, and their scores are computed here.
"""

from __future__ import annotations

import hashlib
import math
import platform
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hive_agents.base import sha256
from hive_agents.engines.opensearch_client import ClusterConnection
from hive_agents.engines.opensearch_lanes import CANDIDATES, NATIVE, CopyReader, VectorsThere, WordsThere
from hive_agents.index import BM25Params, GenerationReader, StaleIndex, VectorLane, WordLane
from hive_agents.store import Progress
from hive_agents.workspace import Workspace

FORMAT = "1"
"""Version of the copies' format."""

_BATCH, _BATCH_BYTES = 500, 4 << 20
_TRIES, _FIRST_PAUSE, _LONGEST_PAUSE = 8, 1, 30
_WINDOW = 10_000
_META_KEYS = {"collection", "index_hash", "owner", "factor", "vectors", "shards"}
KNN = "opensearch-knn"


class OpenSearch:
    """The engine of `[search] url`."""

    kind = "opensearch"

    def __init__(self, connection: ClusterConnection, owner: str, *, vectors: bool) -> None:
        self.connection = connection
        self._owner = owner
        self._vectors_wanted = vectors

    @classmethod
    def of(cls, workspace: Workspace) -> OpenSearch:
        """Raises: as `ClusterConnection`."""
        owner = hashlib.sha256(f"{platform.node()}\0{workspace.root}".encode("utf-8", "surrogateescape")).hexdigest()
        return cls(ClusterConnection(workspace), owner[:16], vectors=not workspace.settings.vectors.url)

    @property
    def name(self) -> str:
        return self.connection.name

    def greet(self) -> None:
        with self.connection.asking("a greeting") as client:
            client.info()

    def ship(self, generation: GenerationReader, progress: Progress) -> None:
        """Send a generation, from where an earlier call stopped; the copy is complete when all of it is searchable."""
        collection = generation.collection.name
        copy = self._copy(collection, generation.index_hash)
        meta = self._copies(collection).get(copy)
        if meta and meta["complete"]:
            return
        self.connection.require_able()
        if meta is None:
            meta = self._meta(generation)
            with self.connection.asking("making an index", heavy=True) as client:
                client.indices.create(index=copy, body=self._definition(copy, generation, meta))
        sent = self._contiguous(copy)
        self._send(copy, _rows(generation, sent, meta["vectors"]), sent, generation.n_chunks, progress)
        with self.connection.asking("completing an index", heavy=True) as client:
            client.indices.refresh(index=copy)
            count = client.count(index=copy)["count"]
            if count != generation.n_chunks:
                why = f"incomplete: it has {count} of {generation.n_chunks} chunks"
                raise self.connection.fault("indexing", why, "run `hive index` again")
            # By alias, not in the mapping: the k-NN plugin of some releases fails when a mapping changes.
            done = {"remove": {"index": copy, "alias": _writing(copy)}}
            client.indices.update_aliases(body={"actions": [done, {"add": {"index": copy, "alias": _complete(copy)}}]})

    def switch(self, collection: str, index_hash: str, keep: Collection[str]) -> None:
        """Move the collection's alias in one step, and delete old copies; those that others are making stay."""
        wanted, alias = self._copy(collection, index_hash), self._alias(collection)
        copies = self._copies(collection)
        if wanted not in copies or not copies[wanted]["complete"]:
            raise self.connection.missing()
        with self.connection.asking("switching an alias") as client:
            current = list(client.indices.get_alias(name=alias)) if client.indices.exists_alias(name=alias) else []
            if current != [wanted]:
                removed = [{"remove": {"index": name, "alias": alias}} for name in current if name != wanted]
                added = [{"add": {"index": wanted, "alias": alias}}]
                client.indices.update_aliases(body={"actions": [*removed, *added]})
            needed = {self._copy(collection, one) for one in keep}
            others = [name for name in copies if name not in needed]
            finished = [name for name in others if copies[name]["complete"]]
            finished.sort(key=lambda name: copies[name]["created"], reverse=True)
            abandoned = [
                name for name in others if not copies[name]["complete"] and copies[name]["owner"] == self._owner
            ]
            for name in (*finished[self.connection.settings.keep :], *abandoned):
                client.indices.delete(index=name, ignore_unavailable=True)

    def words(self, generation: GenerationReader) -> WordLane | None:
        copy, meta = self._complete_copy(generation)
        return WordsThere(CopyReader(self.connection, copy, generation, meta["shards"]), meta["factor"])

    def vectors(self, generation: GenerationReader) -> VectorLane | None:
        copy, meta = self._complete_copy(generation)
        if not meta["vectors"]:
            return None
        return VectorsThere(CopyReader(self.connection, copy, generation, meta["shards"]), generation.dimensions)

    def ranks_vectors_of(self, collection: str, index_hash: str) -> bool:
        """Return whether the copy of a generation has its vectors. Raises: HIVE-434 where there is no complete copy."""
        self.connection.require_able()
        meta = self._copies(collection).get(self._copy(collection, index_hash))
        if meta is None or not meta["complete"]:
            raise self.connection.missing()
        return bool(meta["vectors"])

    def _complete_copy(self, generation: GenerationReader) -> tuple[str, dict[str, Any]]:
        """Return a generation's copy and its metadata. Raises: HIVE-434 where there is no complete copy."""
        copy = self._copy(generation.collection.name, generation.index_hash)
        meta = self._copies(generation.collection.name).get(copy)
        if meta is None or not meta["complete"]:
            raise self.connection.missing() if generation.is_live() else StaleIndex
        return copy, meta

    @property
    def _ranks_vectors(self) -> bool:
        return self._vectors_wanted and KNN in self.connection.plugins

    def reasons(self, bm25: BM25Params) -> dict[str, str]:
        if bm25 != NATIVE:
            return {"keyword": f"only the best {CANDIDATES} by other parameters are scored by the config's"}
        return {"keyword": "a text's length is kept in 8 bits: of two long texts the shorter may count as equally long"}

    def _copies(self, collection: str) -> dict[str, dict[str, Any]]:
        """Return the metadata of the copies of a collection's generations, by name of their index."""
        pattern = f"{self.connection.prefix}.copy-*"
        with self.connection.asking("what copies it has") as client:
            indices = client.indices.get(
                index=pattern,
                params={"filter_path": "*.mappings._meta,*.aliases,*.settings.index.creation_date"},
                allow_no_indices=True,
            )
            copies = {}
            for name, index in indices.items():
                meta = index.get("mappings", {}).get("_meta", {})
                if meta.keys() >= _META_KEYS and meta["collection"] == collection:
                    _require_types(meta)
                    created = int(index["settings"]["index"]["creation_date"])
                    copies[name] = meta | {"created": created, "complete": _complete(name) in index.get("aliases", {})}
        return copies

    def _copy(self, collection: str, index_hash: str) -> str:
        digest = hashlib.sha256("\0".join((FORMAT, collection, index_hash)).encode()).hexdigest()
        return f"{self.connection.prefix}.copy-{digest[:24]}"

    def _alias(self, collection: str) -> str:
        """Return the collection's alias: its name, with a digest where that isn't a valid alias."""
        plain = re.sub(r"[^a-z0-9_-]", "-", collection.lower())
        tail = "" if plain == collection else f"-{sha256(collection)[:8]}"
        return f"{self.connection.prefix}.{plain}{tail}"

    def _meta(self, generation: GenerationReader) -> dict[str, Any]:
        """Return the metadata that is stored in the mapping of a copy's index."""
        return {
            "collection": generation.collection.name,
            "index_hash": generation.index_hash,
            "owner": self._owner,
            # Before release 3 Lucene's formula had the constant factor k1 + 1.
            "factor": NATIVE.k1 + 1 if self.connection.version.startswith("2.") else 1.0,
            "shards": self.connection.settings.shards,
            "vectors": self._ranks_vectors and generation.embedding_model is not None and generation.n_chunks > 0,
        }

    def _definition(self, copy: str, generation: GenerationReader, meta: dict[str, Any]) -> dict[str, Any]:
        settings = self.connection.settings
        properties: dict[str, Any] = {
            "chunk": {"type": "integer"},
            "words": {"type": "text", "analyzer": "whitespace", "index_options": "freqs"},
        }
        if meta["vectors"]:
            properties["vector"] = {"type": "knn_vector", "dimension": generation.dimensions}
        return {
            "settings": {
                "index": {
                    "number_of_shards": meta["shards"],
                    "number_of_replicas": settings.replicas,
                    "refresh_interval": "-1",
                    "max_result_window": max(_WINDOW, generation.n_chunks),
                    "similarity": {"default": {"type": "BM25", "k1": NATIVE.k1, "b": NATIVE.b}},
                }
            },
            "mappings": {
                "_meta": meta,
                "dynamic": "strict",
                "_source": {"enabled": False},
                "properties": properties,
            },
            # Bulk requests use this alias: by name they would recreate an index that was deleted meanwhile.
            "aliases": {_writing(copy): {}},
        }

    def _contiguous(self, copy: str) -> int:
        """Return the number of chunks in the copy; 0 where they aren't the first ones without gaps."""
        with self.connection.asking("how far an index is", heavy=True) as client:
            client.indices.refresh(index=copy)
            count: int = client.count(index=copy)["count"]
            last = client.search(
                index=copy, body={"size": 1, "sort": [{"chunk": "desc"}]}, params={"filter_path": "hits.hits.sort"}
            )
            hits = last.get("hits", {}).get("hits", [])
            return count if hits and hits[0]["sort"][0] == count - 1 else 0

    def _send(self, copy: str, rows: Iterator[dict[str, Any]], sent: int, total: int, progress: Progress) -> None:
        """Send rows; while the cluster is busy, retry with growing pauses for some minutes."""
        from opensearchpy.helpers import streaming_bulk

        done = sent
        with self.connection.asking("indexing", heavy=True) as client:
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
                    why = f"{word}: status {outcome['status']}, {kind}"
                    raise self.connection.fault("indexing", why, "see the cluster's log, then run `hive index` again")
                done += 1
                if done % _BATCH == 0 or done == total:
                    progress(f"sending to {self.name}", done, total)


def _require_types(meta: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError for metadata that isn't ours; `asking` turns them into HIVE-434."""
    if type(meta["vectors"]) is not bool or type(meta["shards"]) is not int or type(meta["factor"]) not in (int, float):
        raise TypeError
    if not 0 < meta["factor"] < math.inf:
        raise ValueError


def _writing(copy: str) -> str:
    return f"{copy}.writing"


def _complete(copy: str) -> str:
    return f"{copy}.complete"


def _rows(generation: GenerationReader, first: int, with_vectors: bool) -> Iterator[dict[str, Any]]:
    for number, words in generation.index_terms(first):
        row: dict[str, Any] = {
            "_op_type": "create",  # a chunk sent twice must not count twice in the statistics
            "_id": str(number),
            "chunk": number,
            "words": " ".join(words),
        }
        if with_vectors:
            row["vector"] = generation.local_vectors.row(number).tolist()
        yield row
