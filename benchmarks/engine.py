"""The engine as a user meets it: index, open, search, index again, the command line; and cost against corpus size.

    python benchmarks/engine.py [--lists DIR] [--sizes 1000 10000 63436] [--json FILE]

Documents are the descriptions of Debian's packages (see bm25.py), one Markdown file each, with the text lane only: a
vector lane is measured in vectors.py and embedding in embedding.py. Times are medians in milliseconds on this machine;
what carries over to another one is their growth with the corpus.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.bm25 import corpus, queries
from hive_agents import RetrievalConfig, Workspace
from hive_agents.cli.sample import init_workspace
from hive_agents.ranking import SearchEngine

KEYWORD = RetrievalConfig.model_validate(
    {"name": "words", "collection": "packages", "retrieval": {"method": "keyword", "top_k": 10}}
)
COLLECTION = {
    "name": "packages",
    "fields": {
        "title": {"type": "text"},
        "category": {"type": "keyword", "filterable": True},
        "content": {"type": "text"},
    },
}


def build(root: Path, docs: list[tuple[str, str, str]]) -> Workspace:
    (root / "collections").mkdir(parents=True)
    (root / "collections" / "packages.json").write_text(json.dumps(COLLECTION))
    (root / "hive.toml").write_text('[models]\nembedding = "none"\n')
    for name, short, text in docs:
        folder = root / "documents" / name[0]
        folder.mkdir(parents=True, exist_ok=True)
        title = json.dumps(f"{name}: {short}")
        (folder / f"{name.replace('/', '-')}.md").write_text(f"---\ntitle: {title}\n---\n{text}\n")
    return Workspace(root)


def ms(work: Callable[[], object], times: int = 5) -> float:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def measure(docs: list[tuple[str, str, str]], texts: list[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        workspace = build(Path(folder) / "w", docs)
        started = time.perf_counter()
        report = workspace.index()
        row: dict[str, float] = {"documents": report.documents, "index s": time.perf_counter() - started}
        row["again ms"] = ms(workspace.index, 3)
        row["open and first query ms"] = ms(lambda: SearchEngine(workspace).search(texts[0], KEYWORD))
        engine = workspace.engine()
        for text in texts:
            engine.search(text, KEYWORD)
        each = [ms(partial(engine.search, text, KEYWORD), 1) for text in texts]
        row["search p50 ms"] = statistics.median(each)
        row["search p99 ms"] = sorted(each)[int(len(each) * 0.99)]
        return row


def command_line(times: int = 7) -> dict[str, float]:
    """Whole processes, from a warm page cache."""
    with tempfile.TemporaryDirectory() as folder:
        place = init_workspace(Path(folder) / "sample")
        hive = [sys.executable, "-m", "hive_agents"]
        subprocess.run([*hive, "index", "--quiet", "-w", place], check=True)

        def run(*arguments: object) -> Callable[[], object]:
            command = [*hive, *map(str, arguments)]
            return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

        return {
            "hive --help ms": ms(run("--help"), times),
            "hive query ms": ms(run("query", "rotate an API token", "-w", place), times),
            "hive index, nothing changed ms": ms(run("index", "-w", place), times),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=Path, default=Path("/var/lib/apt/lists"))
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 10_000, 63_436])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    if options.sizes:
        docs, rng = corpus(options.lists), random.Random(3)
        texts = queries(docs, options.queries, rng)
        for size in options.sizes:
            chosen = sorted(rng.sample(docs, min(size, len(docs))))
            rows.append(measure(chosen, texts))
    commands = command_line()
    for row in rows:
        print("  ".join(f"{name} {value:,.1f}" for name, value in row.items()))
    print("  ".join(f"{name} {value:,.0f}" for name, value in commands.items()))
    if options.json:
        options.json.write_text(json.dumps({"sizes": rows, "commands": commands}, indent=1))


if __name__ == "__main__":
    main()
