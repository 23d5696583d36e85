"""Queries a second over vectors: embedded, PostgreSQL with pgvector searched exactly and by HNSW, in turns.

    python benchmarks/scale_vectors.py [--rows N] [--seconds N] [--callers N ...] [--searches exact hnsw]
        [--build-memory 4GB] [--json FILE]

Unit vectors in clusters, as embeddings are, made up: a speed is no matter of what they mean. Each question is for 100
chunks, as a config's `candidates` are by default: of all, of a half, and of one in a hundred, as filters and scopes
leave them. The server is PostgreSQL as it comes, on a socket of this machine and on the same processors. Ratios are
medians of those of neighbouring turns; `recall` is the share of the 100 nearest that HNSW finds. The seconds of HNSW
are those of sending and building; where its graph has no room in the build memory, that takes many times as long.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents import Workspace
from hive_agents.engines.pgvector import PgLane
from hive_agents.engines.pgvector_copies import Copies, find_copy
from hive_agents.engines.postgres import Database
from hive_agents.index import vectors
from hive_agents.index.segments import SegmentPart
from hive_agents.index.vectors import VectorIndex
from hive_agents.workspace.settings.keys import VectorSettings
from tests.real_engines import has_postgres, postgres, postgres_programs

K, DIMENSIONS, TURNS, BLOCK = 100, 384, 5, 50_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=63_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each engine's turn")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--searches", nargs="+", default=["exact", "hnsw"], help="hnsw takes long to build")
    parser.add_argument("--build-memory", default="64MB", help="the server's maintenance_work_mem")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if not has_postgres():
        sys.exit("no PostgreSQL with pgvector on this machine")
    rng = np.random.default_rng(7)
    centres = rng.standard_normal((400, DIMENSIONS)).astype(np.float32)

    def clustered(rows: int) -> NDArray[np.float32]:
        noise = 0.8 * rng.standard_normal((rows, DIMENSIONS), dtype=np.float32)
        found = centres[rng.integers(len(centres), size=rows)] + noise
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)

    found: dict[str, Any] = {"rows": options.rows, "dimensions": DIMENSIONS, "k": K}
    with tempfile.TemporaryDirectory() as folder, postgres(postgres_programs()[-1]) as server:
        server.run(f"ALTER SYSTEM SET maintenance_work_mem = '{options.build_memory}'")
        server.run("SELECT pg_reload_conf()")
        Path(folder, "collections").mkdir()
        blocks = range(0, options.rows, BLOCK)
        vectors.save_vectors(
            Workspace(folder), 1, np.concatenate([clustered(min(BLOCK, options.rows - start)) for start in blocks])
        )
        numbers = np.arange(options.rows, dtype=np.int32)
        here = vectors.open_vectors(Workspace(folder), [SegmentPart(1, numbers, numbers)])
        questions = clustered(64)
        engines: dict[str, VectorIndex | PgLane] = {"embedded": here}
        databases = []
        for search in options.searches:
            name = f"pgvector {search}"
            settings = VectorSettings(url=server.url, namespace=search, search=search, timeout_seconds=600)
            database = Database(Workspace(folder), settings)
            databases.append(database)
            began = time.perf_counter()
            with Copies.open(database) as copies:
                copies.complete("bench", "state", "synthetic", here, lambda *_: None)
            found[f"{name} sent in seconds"] = round(time.perf_counter() - began, 1)
            print(f"{name}: sent in {found[f'{name} sent in seconds']} s", flush=True)
            engines[name] = PgLane(database, partial(find_copy, database, "bench", "state"))
        found["pgvector"] = server.run("SELECT extversion FROM pg_extension WHERE extname = 'vector'").strip()
        found["bytes in PostgreSQL"] = int(server.run("SELECT pg_database_size('postgres')"))
        masks = {"all": None, "half": rng.random(options.rows) < 0.5, "one in 100": rng.random(options.rows) < 0.01}
        for callers in options.callers:
            for shown, mask in masks.items():
                told = turns(engines, questions, mask, callers, options.seconds)
                found[f"{shown}, {callers} at once"] = told
                print(f"{options.rows:,} vectors, {shown}, {callers} at once:", json.dumps(told), flush=True)
        if "pgvector hnsw" in engines:
            found["recall"] = round(recall(here, engines["pgvector hnsw"], questions), 4)
        if "pgvector exact" in engines:
            exact = [
                np.array_equal(here.top(question, K)[0], engines["pgvector exact"].top(question, K)[0])
                for question in questions[:10]
            ]
            found["exact lists are the embedded ones"] = all(exact)
        for database in databases:
            database.close()
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def turns(
    engines: dict[str, VectorIndex | PgLane],
    questions: NDArray[np.float32],
    mask: NDArray[np.bool_] | None,
    callers: int,
    seconds: float,
) -> dict[str, Any]:
    """Return queries a second of each engine, the median of its turns, and its ratio to the embedded one."""
    rates: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(TURNS):
        for name, engine in engines.items():
            rates[name].append(rate(partial(engine.top, k=K, mask=mask), questions, callers, seconds))
    told: dict[str, Any] = {}
    for name, found in rates.items():
        ratios = [mine / theirs for mine, theirs in zip(found, rates["embedded"], strict=True)]
        told[name] = {
            "queries_per_second": round(statistics.median(found), 1),
            "ratio": round(statistics.median(ratios), 3),
        }
    return told


def rate(ask: Callable[[Any], Any], questions: NDArray[np.float32], callers: int, seconds: float) -> float:
    ask(questions[0])
    until = time.perf_counter() + seconds

    def work(first: int) -> int:
        done = 0
        while time.perf_counter() < until:
            ask(questions[(first + done) % len(questions)])
            done += 1
        return done

    began = time.perf_counter()
    with ThreadPoolExecutor(callers) as pool:
        done = sum(pool.map(work, range(0, 8 * callers, 8)))
    return done / (time.perf_counter() - began)


def recall(here: VectorIndex, there: Any, questions: NDArray[np.float32]) -> float:
    shares = [len(np.intersect1d(here.top(one, K)[0], there.top(one, K)[0])) / K for one in questions]
    return statistics.mean(shares)


if __name__ == "__main__":
    main()
