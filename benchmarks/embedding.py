"""The local embedding model against its own file run as it is, passages of 200 words, turns taken in one process.

    python benchmarks/embedding.py [--passages N] [--rounds N] [--threads N] [--json FILE]

The passages are cut from the plain words of the installed packages' descriptions, those that fit in one window. The
file as it is runs float32 in onnxruntime's default session: a text at a time, and padded batches of 8 sorted by
length; ratios are to the faster. Cosine is to the file as it is, which is itself .9995 from the original weights.
"""

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hive_agents.models.embedding.minilm import LocalMiniLM, installed_weights
from hive_agents.models.embedding.wordpieces import WordPieces

WORDS = 200
PLAIN = re.compile(r"(?<!\S)[A-Za-z]+[.,:;]?(?!\S)")
Vectors = NDArray[np.float32]


def passages(wanted: int) -> list[str]:
    pieces, found = WordPieces(), []
    packages = sorted(metadata.distributions(), key=lambda package: str(package.metadata["Name"]))
    for package in packages:
        words = PLAIN.findall(str(package.metadata.get_payload()))  # type: ignore[attr-defined]
        for start in range(0, len(words) - WORDS, WORDS):
            passage = " ".join(words[start : start + WORDS])
            if len(pieces.windows(passage)) == 1:
                found.append(passage)
    return found[:: max(1, len(found) // wanted)][:wanted]


class FileAsItIs:
    def __init__(self, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(installed_weights(), options)
        self._pieces = WordPieces()

    def embed(self, texts: list[str], size: int) -> Vectors:
        windows = [self._pieces.windows(text)[0] for text in texts]
        order = sorted(range(len(texts)), key=lambda place: len(windows[place]))
        vectors = np.empty((len(texts), 384), np.float32)
        for start in range(0, len(order), size):
            places = order[start : start + size]
            vectors[places] = self._run([windows[place] for place in places])
        return vectors

    def _run(self, windows: list[list[int]]) -> Vectors:
        ids = np.zeros((len(windows), max(map(len, windows))), np.int64)
        mask = np.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : len(window)], mask[row, : len(window)] = window, 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(None, given)[0]
        means = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True), np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    texts = passages(options.passages)
    ours, file = LocalMiniLM(threads=options.threads), FileAsItIs(options.threads)
    peers: dict[str, Callable[[], Vectors]] = {
        "file, one at a time": lambda: file.embed(texts, 1),
        "file, batches of 8": lambda: file.embed(texts, 8),
        "ours": lambda: ours.embed(texts),
    }
    vectors = {name: run() for name, run in peers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(options.rounds):
        for name, run in peers.items():
            time.sleep(0.1)  # onnxruntime's threads spin for a while after a run, on the next one's cores
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    cosines = (vectors["ours"] * vectors["file, one at a time"]).sum(axis=1)
    ratios = [min(one, eight) / mine for one, eight, mine in zip(*seconds.values(), strict=True)]
    report: dict[str, Any] = {
        "passages": len(texts),
        "per_second": {name: len(texts) / statistics.median(times) for name, times in seconds.items()},
        "ratio_to_the_faster": statistics.median(ratios),
        "cosine_mean": float(cosines.mean()),
        "cosine_min": float(cosines.min()),
    }
    for name, rate in report["per_second"].items():
        print(f"{name:22}{rate:8.1f} passages/s")
    rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"ratio to the faster   {report['ratio_to_the_faster']:8.2f}   (each round: {rounds})")
    print(f"cosine to float32     {report['cosine_mean']:8.4f}   (lowest {report['cosine_min']:.4f})")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
