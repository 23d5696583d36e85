"""Exact vector search against faiss's flat index: one query at a time and in batches of 64, turns taken in one process.

    python benchmarks/vectors.py [--rows N] [--threads N] [--rounds N] [--json FILE]

Unit vectors in clusters, as embeddings are, in a memory-mapped file. One turn is 64 queries; the ratio is the median
of the ratios of neighbouring turns. Recall counts the rows of a float64 brute force that are found.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

K, DIMENSIONS, BATCH = 10, 384, 64


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=63_436)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = str(options.threads)
    # Not before: BLAS reads its number of threads when numpy is imported.
    import faiss
    import numpy as np

    from hive_agents.index.vectors import VectorIndex

    faiss.omp_set_num_threads(options.threads)
    random = np.random.default_rng(7)
    centres = random.standard_normal((400, DIMENSIONS))

    def clustered(n: int) -> Any:
        rows = centres[random.integers(len(centres), size=n)] + 0.8 * random.standard_normal((n, DIMENSIONS))
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.npy"
        np.save(path, clustered(options.rows))
        queries = clustered(BATCH)
        matrix = np.load(path, mmap_mode="r")
        ours = VectorIndex(matrix)
        flat = faiss.IndexFlatIP(DIMENSIONS)
        flat.add(matrix)

        def by_faiss(some: Any) -> list[list[int]]:
            return [row.tolist() for row in flat.search(some, K)[1]]

        turns: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "one query": (
                lambda: [ours.top(query, K)[0].tolist() for query in queries],
                lambda: [by_faiss(query[None])[0] for query in queries],
            ),
            f"batch of {BATCH}": (
                lambda: [rows.tolist() for rows, _ in ours.top_many(queries, K)],
                lambda: by_faiss(queries),
            ),
        }
        exact = queries.astype(np.float64) @ matrix.astype(np.float64).T
        truth = [set(np.argsort(-scores, kind="stable")[:K].tolist()) for scores in exact]
        report: dict[str, Any] = {"rows": options.rows, "threads": options.threads}
        for name, (mine, theirs) in turns.items():
            report[name] = compare(mine, theirs, options.rounds) | {
                "recall": statistics.mean(
                    len(wanted & set(found)) / K for wanted, found in zip(truth, mine(), strict=True)
                )
            }
    print(f"{options.rows} x {DIMENSIONS}, top {K}, threads: {options.threads}")
    print(f"{'':14}{'ours q/s':>10}{'faiss q/s':>11}{'ratio':>8}{'recall':>8}")
    for name in turns:
        row = report[name]
        print(f"{name:14}{row['ours']:10.0f}{row['faiss']:11.0f}{row['ratio']:8.2f}{row['recall']:8.3f}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def compare(mine: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Queries a second of both, and the median ratio; a round runs both, in turning order."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for which in (0, 1) if turn % 2 else (1, 0):
            started = time.perf_counter()
            (mine, theirs)[which]()
            if turn:  # the first warms up
                seconds[which].append(time.perf_counter() - started)
    ratios = [slow / fast for fast, slow in zip(*seconds, strict=True)]
    rates = [BATCH / statistics.median(times) for times in seconds]
    return {"ours": rates[0], "faiss": rates[1], "ratio": statistics.median(ratios)}


if __name__ == "__main__":
    main()
