"""The vector lane of PostgreSQL with pgvector.

By default order and scores equal those of the embedded lane to the bit: the server ranks in 32 bits and sends the best
rows with their vectors, and exact scores are computed here. With HNSW the server may miss some of the nearest; the
scores of the others are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.engines.pgvector_copies import Copies, CopyOfState, find_copy
from hive_agents.engines.postgres import Database, NoCopy
from hive_agents.index import BM25Params, GenerationReader, Mask, VectorLane, WordLane, vectors
from hive_agents.store import Progress

if TYPE_CHECKING:
    from psycopg.sql import Composable, Composed


_MORE = 16
"""Rows requested beyond k, to prove that no row behind them can be better."""

_MANY = 4096
"""For a larger k the rows are read in parts of this size, and ranked here."""

_FEW, _RARE = 1024, 50
"""Up to this many allowed rows, or one in `_RARE`, are named to the server, which reads no others."""

_EF_MOST = 1000  # pgvector's limit


class PgVector:
    """The `Engine` of `[vectors]`, for the vector lane only."""

    kind = "pgvector"

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def name(self) -> str:
        return f"PostgreSQL at {self._database.shown}"

    def greet(self) -> None:
        from psycopg.sql import SQL

        self._database.rows(SQL("SELECT 1").format(), {})

    def ship(self, generation: GenerationReader, progress: Progress) -> None:
        if generation.embedding_model is not None:
            with Copies.open(self._database) as copies:
                copies.complete(
                    generation.collection.name,
                    generation.index_hash,
                    generation.embedding_model,
                    generation.local_vectors,
                    progress,
                )

    def switch(self, collection: str, index_hash: str, keep: Collection[str]) -> None:
        with Copies.open(self._database) as copies:
            copies.switch(collection, index_hash, keep)

    def words(self, generation: GenerationReader) -> WordLane | None:
        return None

    def vectors(self, generation: GenerationReader) -> VectorLane:
        def checked_copy() -> CopyOfState:
            copy = find_copy(self._database, generation.collection.name, generation.index_hash)
            if copy.chunks != generation.n_chunks:
                why = f"its copy is told to have {copy.chunks} chunks, not {generation.n_chunks}"
                raise self._database.unusable(why, "see who may write there, then run `hive index`")
            return copy

        return PgLane(self._database, checked_copy)

    def reasons(self, bm25: BM25Params) -> dict[str, str]:
        if self._database.settings.search == "hnsw":
            return {"vector": "an index of neighbours finds nearly the nearest"}
        return {}


@dataclass(frozen=True)
class _Fetched:
    """The rows of a query: their numbers, distances and vectors."""

    rows: NDArray[np.intp]
    distances: NDArray[np.float64]
    vectors: NDArray[np.float32]


class PgLane:
    """A `VectorLane` over one complete copy of a generation; safe to share between threads.

    Raises: HIVE-434, also where there is no copy of this state of the index.
    """

    def __init__(self, database: Database, find: Callable[[], CopyOfState]) -> None:
        self._database, self._find = database, find
        self._copy = find()

    def __len__(self) -> int:
        return self._copy.chunks

    @property
    def dimensions(self) -> int:
        return self._copy.dimensions

    def top(self, query: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> vectors.Scored:
        query = vectors.checked_queries(query, 1, self.dimensions)
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        vectors.require_mask(mask, len(self))
        if mask is not None and mask.all():
            mask = None
        allowed = len(self) if mask is None else int(np.count_nonzero(mask))
        if not allowed:
            return np.empty(0, np.intp), np.empty(0, np.float32)
        if k > _MANY:
            return self._ranked_here(query, k, mask)
        chosen: vectors.Scored | None = None
        if self._by_graph(k, allowed, mask):
            fetched = self._nearly_nearest(query, k, mask)
            if len(fetched.rows) == min(k, allowed):
                chosen = vectors.best(fetched.rows, vectors.cosines(fetched.vectors, query), k)
        chosen = chosen or self._nearest(query, k, mask, allowed)
        rows = chosen[0]
        if not ((rows >= 0) & (rows < len(self))).all() or (mask is not None and not mask[rows].all()):
            # Write access to the database must not decide what a reader sees.
            raise self._database.unusable("it sent chunks that weren't asked for", "see who may write there")
        return chosen

    def top_many(self, queries: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> list[vectors.Scored]:
        return [self.top(query, k, mask=mask) for query in vectors.checked_queries(queries, 2, self.dimensions)]

    def scores(self, query: NDArray[np.float32], rows: NDArray[np.intp] | Sequence[int]) -> NDArray[np.float32]:
        """Return the cosine of each of `rows`, equal to the scores of `top`."""
        query, wanted = vectors.checked_queries(query, 1, self.dimensions), np.asarray(rows, np.intp)
        numbers, places = np.unique(wanted, return_inverse=True)
        scores = np.empty(len(numbers), np.float32)
        for start in range(0, len(numbers), _MANY):
            part = slice(start, start + _MANY)
            where, values = _one_of(numbers[part])
            fetched = self._fetch(
                "SELECT chunk, 0::float8, vector_send(embedding) FROM {table} WHERE {where}", where, values
            )
            if not np.array_equal(np.sort(fetched.rows), numbers[part]):
                raise self._database.unusable("chunks are missing from its copy of the index", "run `hive index`")
            scores[part] = vectors.cosines(fetched.vectors[np.argsort(fetched.rows)], query)
        return scores[places]

    def _nearest(self, query: NDArray[np.float32], k: int, mask: Mask | None, allowed: int) -> vectors.Scored:
        """Return the exact `k` best: request more rows until none that wasn't sent can be among them."""
        wanted = k + _MORE
        while True:
            where, values = self._where(mask, allowed)
            # The sum with 0 keeps the server from using an HNSW index.
            fetched = self._fetch(
                "SELECT chunk, distance, vector_send(embedding) FROM (SELECT chunk, embedding,"
                " (embedding <#> %(query)s::vector) + 0 AS distance FROM {table} WHERE {where}"
                " ORDER BY distance, chunk LIMIT %(wanted)s) AS nearest",
                where,
                values | {"query": _text(query), "wanted": wanted},
            )
            chosen = vectors.best(fetched.rows, vectors.cosines(fetched.vectors, query), k)
            if len(fetched.rows) < wanted or chosen[1][-1] > -fetched.distances.max() + vectors.doubt(query):
                return chosen
            wanted *= 4

    def _by_graph(self, k: int, allowed: int, mask: Mask | None) -> bool:
        copy = self._copy
        if self._database.settings.search != "hnsw" or not copy.hnsw or k > _EF_MOST:
            return False
        return mask is None or (copy.iterative and not self._are_few(allowed))

    def _are_few(self, allowed: int) -> bool:
        return allowed <= max(_FEW, len(self) // _RARE)

    def _nearly_nearest(self, query: NDArray[np.float32], k: int, mask: Mask | None) -> _Fetched:
        """Return up to `k` rows of the HNSW index, most of them the nearest."""
        where, values = self._where(mask, len(self))
        local = {"enable_seqscan": "off", "hnsw.ef_search": str(min(_EF_MOST, max(2 * k, 100)))}
        if mask is not None:
            local["hnsw.iterative_scan"] = "relaxed_order"
        return self._fetch(
            "SELECT chunk, distance, vector_send(embedding) FROM (SELECT chunk, embedding,"
            " embedding <#> %(query)s::vector AS distance FROM {table} WHERE {where}"
            " ORDER BY embedding <#> %(query)s::vector LIMIT %(wanted)s) AS nearest",
            where,
            values | {"query": _text(query), "wanted": k},
            local,
        )

    def _ranked_here(self, query: NDArray[np.float32], k: int, mask: Mask | None) -> vectors.Scored:
        rows, scores = [], []
        for start in range(0, len(self), _MANY):
            allowed = np.arange(start, min(start + _MANY, len(self)))
            if mask is not None:
                allowed = allowed[mask[allowed]]
            rows.append(allowed)
            scores.append(self.scores(query, allowed))
        return vectors.best(np.concatenate(rows), np.concatenate(scores), k)

    def _where(self, mask: Mask | None, allowed: int) -> tuple[str, dict[str, Any]]:
        if mask is None:
            return "true", {}
        if self._are_few(allowed):
            return _one_of(mask.nonzero()[0])
        return "get_bit(%(mask)b, chunk) = 1", {"mask": np.packbits(mask, bitorder="little").tobytes()}

    def _fetch(
        self, query: str, where: str, values: Mapping[str, Any], local: Mapping[str, str] | None = None
    ) -> _Fetched:
        try:
            rows = self._database.rows(self._composed(query, where), values, local)
        except NoCopy:
            self._copy = self._find()  # the copy was sent again, to another table
            rows = self._database.rows(self._composed(query, where), values, local)
        try:
            sent = np.frombuffer(b"".join(row[2] for row in rows), np.uint8).reshape(
                len(rows), 4 + 4 * self.dimensions
            )
            fetched = _Fetched(
                np.array([row[0] for row in rows], np.intp),
                np.array([row[1] for row in rows], np.float64),
                # A header of two 16-bit numbers precedes each vector.
                np.ascontiguousarray(sent[:, 4:]).view(">f4").astype(np.float32),
            )
        except (ArithmeticError, TypeError, ValueError):
            raise self._database.unusable("it sent rows of another form", "see who may write there") from None
        if len(np.unique(fetched.rows)) < len(rows) or not np.isfinite(fetched.vectors).all():
            raise self._database.unusable("it sent chunks twice, or vectors that are none", "see who may write there")
        return fetched

    def _composed(self, query: str, where: str) -> Composed:
        from psycopg.sql import SQL

        parts: dict[str, Composable] = {"table": self._copy.table, "where": SQL(where)}
        return SQL(query).format(**parts)


def _one_of(chunks: NDArray[np.intp]) -> tuple[str, dict[str, Any]]:
    return "chunk = ANY(%(chunks)s::integer[])", {"chunks": f"{{{','.join(map(str, chunks.tolist()))}}}"}


def _text(vector: NDArray[np.float32]) -> str:
    """Return a vector in pgvector's text format, without loss."""
    return f"[{','.join(map(repr, vector.tolist()))}]"
