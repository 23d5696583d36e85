"""Vectors of tests in a PostgreSQL: made up, sent there, and the lane over them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.engines import find_copy
from hive_agents.engines.pgvector import PgLane
from hive_agents.engines.pgvector_copies import Copies
from hive_agents.engines.postgres import Database
from hive_agents.index.vectors import VectorIndex
from hive_agents.workspace.settings.keys import VectorSettings
from tests.real_engines import Postgres


def units(rows: int, seed: int = 0, dimensions: int = 48) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((rows, dimensions)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def database(server: Postgres, namespace: str, **more: Any) -> Database:
    return Database(None, VectorSettings(url=server.url, namespace=namespace, **more))  # type: ignore[arg-type]


def sent(held: Database, index_hash: str, vectors: NDArray[np.float32]) -> list[tuple[str, int, int]]:
    told: list[tuple[str, int, int]] = []
    with Copies.open(held) as copies:
        copies.complete("kb", index_hash, "model", VectorIndex(vectors), lambda *step: told.append(step))
    return told


def lane(held: Database, index_hash: str) -> PgLane:
    return PgLane(held, lambda: find_copy(held, "kb", index_hash))


def switched(held: Database, index_hash: str) -> None:
    with Copies.open(held) as copies:
        copies.switch("kb", index_hash, {index_hash})


def tables(server: Postgres, namespace: str) -> list[str]:
    """Those of vectors."""
    found = server.run(f"SELECT tablename FROM pg_tables WHERE schemaname = '{namespace}' AND tablename <> 'copy'")
    return found.split()
