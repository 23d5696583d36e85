"""The cost of the index with one document per file: a first build, one edited file, and a cold query.

    python benchmarks/one_file_each.py [--sizes 10000 100000] [--vectors] [--json FILE]

Texts are words of /usr/share/dict or of made-up spelling, drawn with the frequencies of a language. With `--vectors`
each passage has a made-up unit vector: what a model takes for a text isn't in these figures. CPU is that of a process
of its own, with its start; bytes are those that it sent to the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

WORDS = 60_000
EDITS = 3

TASK = """
import json, os, resource, sys
from pathlib import Path
from hive_agents import Workspace
from hive_agents.index import indexing

class Drawn:
    model_id, dimensions = "drawn", 384
    def embed(self, texts, progress=None):
        import numpy as np
        rows = np.stack([np.random.default_rng(abs(hash(text))).standard_normal(384, np.float32) for text in texts])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
    def embed_query(self, text):
        return self.embed([text])[0]

root, task, vectors = sys.argv[1:]
if vectors == "True":
    indexing.open_embedder = lambda workspace: (Drawn(), None)
place = Workspace(root)
if task == "index":
    report = place.index().counts
else:
    report = {"first": place.engine().search(task, {"name": "words", "collection": "knowledge-base",
                                                    "retrieval": {"method": "keyword", "top_k": 10}}).hits[0].doc_id}
used = resource.getrusage(resource.RUSAGE_SELF)
written = int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["wchar"])
print(json.dumps(report | {"cpu": round(used.ru_utime + used.ru_stime, 2), "written": written,
                           "memory": used.ru_maxrss >> 10}))
"""


def text(draw: random.Random, words: list[str], weights: list[float]) -> str:
    """Return a document of two to four sections."""
    parts = []
    for _ in range(draw.randint(2, 4)):
        lines = []
        for _ in range(draw.randint(3, 8)):
            lines.append(" ".join(draw.choices(words, cum_weights=weights, k=draw.randint(6, 14))).capitalize() + ".")
        parts.append(f"## {' '.join(draw.choices(words, cum_weights=weights, k=3))}\n\n" + "\n".join(lines))
    return f"# {' '.join(draw.choices(words, cum_weights=weights, k=4))}\n\n" + "\n\n".join(parts) + "\n"


def shown(root: Path, size: int, vectors: bool, rows: list[dict[str, Any]], name: str, task: str) -> None:
    """Do a task in a process of its own, print what it took and add it to `rows`."""
    command = [sys.executable, "-c", TASK, str(root), task, str(vectors)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    took = done.stdout.splitlines()[-1]
    print(f"{size:>7} {name:<10} {took}", flush=True)
    rows.append({"size": size, "name": name, **json.loads(took)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000])
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    draw = random.Random(7)
    words = sorted({"".join(draw.choices("aeioubcdfghklmnprstvw", k=draw.randint(2, 9))) for _ in range(WORDS)})
    draw.shuffle(words)
    weights, total = [], 0.0
    for rank in range(1, len(words) + 1):
        total += 1 / rank
        weights.append(total)
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            subprocess.run([sys.executable, "-m", "hive_agents", "init", "--empty", folder], check=True)
            if not options.vectors:
                (root / "hive.toml").write_text('[models]\nembedding = "none"\n')
            for number in range(size):
                file = root / "documents" / f"part-{number % 97:02}" / f"{number:06}.md"
                file.parent.mkdir(exist_ok=True)
                file.write_text(text(draw, words, weights))
            show = partial(shown, root, size, options.vectors, rows)
            show("build", "index")
            show("no change", "index")
            for number in (*range(EDITS), 0, 0):  # the first is edited again
                path = root / "documents" / f"part-{number:02}" / f"{number:06}.md"
                path.write_text(path.read_text() + f"\nA quokka{number} was seen.\n")
                show(f"edit {number + 1}", "index")
            show("cold query", "a quokka1 was seen")
            print(f"{size:>7} hive.db    {os.path.getsize(root / '.hive' / 'hive.db') >> 20} MB", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1))


if __name__ == "__main__":
    main()
