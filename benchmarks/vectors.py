"""Exact vector search against faiss's flat index: one query at a time and in batches of 64, turns taken in one process.

    python benchmarks/vectors.py [--rows N] [--allowed SHARE ...] [--like FILE] [--threads N] [--rounds N] [--json FILE]

Unit vectors in clusters, as embeddings are, or near the rows of FILE, stored and opened as those of an index are. One
turn is 64 queries, of all rows and of random shares that are allowed; the ratio is the median of the ratios of
neighbouring turns, on a busy machine that of the processor's time says more. Recall counts the rows of a float64 brute
force that are found.
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

K, DIMENSIONS, BATCH, BLOCK = 10, 384, 64, 50_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=63_436)
    parser.add_argument("--allowed", type=float, nargs="*", default=[], metavar="SHARE")
    parser.add_argument("--like", type=Path, help="an .npy file of embeddings of 384 numbers")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = str(options.threads)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])  # our threads are as many as cores
    # Not before: BLAS reads its number of threads when numpy is imported.
    import faiss
    import numpy as np

    from hive_agents import Workspace
    from hive_agents.index import vectors
    from hive_agents.index.segments import SegmentPart

    faiss.omp_set_num_threads(options.threads)
    random = np.random.default_rng(7)
    centres = random.standard_normal((400, DIMENSIONS)) if options.like is None else np.load(options.like)
    noise = 0.8 if options.like is None else 0.02

    def clustered(n: int) -> Any:
        found = np.empty((n, DIMENSIONS), np.float32)
        for start in range(0, n, BLOCK):
            rows = centres[random.integers(len(centres), size=min(BLOCK, n - start))]
            rows = rows + noise * random.standard_normal(rows.shape)
            found[start : start + BLOCK] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return found

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "collections").mkdir()
        place, numbers = Workspace(folder), np.arange(options.rows, dtype=np.int32)
        matrix, queries = clustered(options.rows), clustered(BATCH)
        began = time.perf_counter()
        vectors.save_vectors(place, 1, matrix)
        report: dict[str, Any] = {"rows": options.rows, "threads": options.threads}
        report["seconds to write"] = time.perf_counter() - began
        ours = vectors.open_vectors(place, [SegmentPart(1, numbers, numbers)])
        flat = faiss.IndexFlatIP(DIMENSIONS)
        flat.add(matrix)
        for share in [1.0, *options.allowed]:
            mask = None if share == 1 else random.random(options.rows) < share
            parameters = None
            if mask is not None:
                untyped: Any = faiss  # its stubs don't know what its classes take
                chosen = untyped.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
                parameters = untyped.SearchParameters(sel=chosen)

            def by_faiss(some: Any, parameters: Any = parameters) -> list[list[int]]:
                return [row.tolist() for row in flat.search(some, K, params=parameters)[1]]

            def alone(mask: Any = mask) -> Any:
                return [ours.top(query, K, mask=mask)[0].tolist() for query in queries]

            def together(mask: Any = mask) -> Any:
                return [rows.tolist() for rows, _ in ours.top_many(queries, K, mask=mask)]

            turns: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
                "one query": (alone, lambda: [by_faiss(query[None])[0] for query in queries]),
                f"batch of {BATCH}": (together, lambda: by_faiss(queries)),
            }
            exact = np.concatenate(
                [
                    queries.astype(np.float64) @ matrix[start : start + BLOCK].astype(np.float64).T
                    for start in range(0, options.rows, BLOCK)
                ],
                axis=1,
            )
            if mask is not None:
                exact[:, ~mask] = -2
            truth = [set(np.argpartition(-scores, K)[:K].tolist()) for scores in exact]
            for name, (mine, theirs) in turns.items():
                shown = name if mask is None else f"{name}, {share:.0%} allowed"
                report[shown] = compare(mine, theirs, options.rounds) | {
                    "recall": statistics.mean(
                        len(wanted & set(found)) / K for wanted, found in zip(truth, mine(), strict=True)
                    )
                }
    print(f"{options.rows} x {DIMENSIONS}, top {K}, threads: {options.threads}")
    print(f"{'':26}{'ours q/s':>10}{'faiss q/s':>11}{'ratio':>8}{'by CPU':>8}{'recall':>8}")
    for name, row in report.items():
        if isinstance(row, dict):
            ratios = f"{row['ratio']:8.2f}{row['processor ratio']:8.2f}"
            print(f"{name:26}{row['ours']:10.1f}{row['faiss']:11.1f}{ratios}{row['recall']:8.3f}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def compare(mine: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Queries a second of both, and the median ratios; a round runs both, in turning order."""
    seconds: tuple[list[float], list[float]] = ([], [])
    processor: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for which in (0, 1) if turn % 2 else (1, 0):
            started, used = time.perf_counter(), time.process_time()
            (mine, theirs)[which]()
            if turn:  # the first warms up
                seconds[which].append(time.perf_counter() - started)
                processor[which].append(time.process_time() - used)
    ratio, by_processor = (
        statistics.median(slow / fast for fast, slow in zip(*taken, strict=True)) for taken in (seconds, processor)
    )
    rates = [BATCH / statistics.median(times) for times in seconds]
    return {"ours": rates[0], "faiss": rates[1], "ratio": ratio, "processor ratio": by_processor}


if __name__ == "__main__":
    main()
