"""Searches by words, embedded against OpenSearch: queries a second over the same chunks, turns taken in one run.

    python benchmarks/scale_search.py [--chunks 63000] [--seconds 3] [--callers 1 4] [--json FILE]

The text is what packages leave in /usr/share/doc, cut into parts of about 120 words; where that is too little for
`--chunks` (63,000 and 1,000,000 are the sizes of docs/scale.md), words of further parts are drawn from these texts with
the frequencies that they have there, and the result says how many parts were drawn. A query is eight words in a row
from a part. OpenSearch is a node on this machine, with one shard, fetched by Maven; what it gets and answers goes over
loopback. Both have the same cores, so that only ratios mean anything on another machine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from hive_agents import Workspace
from hive_agents.documents import load_collection
from hive_agents.engines import open_engines
from hive_agents.index import BM25Params, Mask, SqliteIndex
from hive_agents.ranking import build_index
from hive_agents.workspace.trusted import trust
from tests.real_engines import opensearch

K = 10
WORDS_A_PART = 120
PARTS_A_DOCUMENT = 50
QUERIES = 256
TURNS = 5
COLLECTION = {
    "name": "bench",
    "fields": {"title": {"type": "text"}, "content": {"type": "text"}},
    "chunking": {"strategy": "by_heading", "max_tokens": 512, "heading_level": 2},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=63_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each turn")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="hive-bench-") as folder, opensearch() as server:
        place, queries, drawn = written(Path(folder) / "ws", options.chunks, rng)
        began = time.perf_counter()
        build_index(place)
        seconds_here = time.perf_counter() - began
        print(f"indexed here in {seconds_here:.0f} s", flush=True)
        with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
            file.write(f'[search]\nurl = "{server.url("bench")}"\ntimeout_seconds = 120.0\n')
        place = Workspace(place.root)
        trust(place)
        began = time.perf_counter()
        build_index(place)
        seconds_there = time.perf_counter() - began
        print(f"sent in {seconds_there:.0f} s", flush=True)
        schema = load_collection(place, "bench")
        served = SqliteIndex(place, schema, engines=partial(open_engines, place))
        engines = {"embedded": SqliteIndex(place, schema), "OpenSearch": served}
        found: dict[str, Any] = {
            "chunks": engines["embedded"].n_chunks,
            "parts drawn from frequencies": drawn,
            "indexed here in seconds": round(seconds_here, 1),
            "sent in seconds": round(seconds_there, 1),
            "bytes in OpenSearch": server.call("GET", "/bench.copy-*/_stats/store")["_all"]["total"]["store"][
                "size_in_bytes"
            ],
            "bytes in hive.db": os.path.getsize(place.database),
            "overlap at 10": round(overlap(engines, queries), 4),
        }
        random_mask = np.random.default_rng(0).random(engines["embedded"].n_chunks)
        for shown, mask in {"all": None, "half": random_mask < 0.5, "one in 100": random_mask < 0.01}.items():
            for callers in options.callers:
                told = turns(engines, queries, mask, callers, options.seconds)
                found[f"{shown}, {callers} at once"] = told
                print(f"{shown}, {callers} at once:", json.dumps(told), flush=True)
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def written(root: Path, chunks: int, rng: random.Random) -> tuple[Workspace, list[str], int]:
    """Return a workspace of so many chunks, queries to it, and how many chunks aren't anybody's text."""
    (root / "collections").mkdir(parents=True)
    (root / "collections" / "bench.json").write_text(json.dumps(COLLECTION))
    (root / "hive.toml").write_text('[models]\nembedding = "none"\n[access]\nmode = "open"\n')
    real = list(islice(parts(), chunks))
    vocabulary = [word for part in real for word in part.split()]
    queries: list[str] = []
    while len(queries) < QUERIES:
        words = re.findall(r"\w{2,}", rng.choice(real))
        if len(words) >= 8:
            start = rng.randrange(len(words) - 7)
            queries.append(" ".join(words[start : start + 8]))
    for number in range(0, chunks, PARTS_A_DOCUMENT):
        texts = real[number : number + PARTS_A_DOCUMENT]
        while len(texts) < min(PARTS_A_DOCUMENT, chunks - number):
            texts.append(" ".join(rng.choices(vocabulary, k=WORDS_A_PART)))
        path = root / "documents" / f"{number // 10_000:04}" / f"{number:08}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(f"## Part {n}\n\n{text}" for n, text in enumerate(texts)), encoding="utf-8")
    return Workspace(root), queries, max(0, chunks - len(real))


def parts() -> Iterator[str]:
    """Texts of installed packages, without markup, each once."""
    known: set[str] = set()
    for path in sorted(Path("/usr/share/doc").rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if b"\0" in data[:1000]:
            continue
        text = re.sub(r"<[^>]*>|[#`|~*_=+\-]{2,}|[<>\[\]]", " ", data.decode("utf-8", "replace"))
        words = [word for word in text.split() if len(word) <= 40]
        for start in range(0, len(words) - 20, WORDS_A_PART):
            part = " ".join(words[start : start + WORDS_A_PART])
            if part not in known:
                known.add(part)
                yield part


def turns(
    engines: dict[str, SqliteIndex], queries: list[str], mask: Mask | None, callers: int, seconds: float
) -> dict[str, Any]:
    """Return queries a second of each engine, the median of its turns, and its ratio to the embedded one."""
    rates: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(TURNS):
        for name, engine in engines.items():
            rates[name].append(rate(engine, queries, mask, callers, seconds))
    told = {}
    for name, found in rates.items():
        ratios = [mine / theirs for mine, theirs in zip(found, rates["embedded"], strict=True)]
        told[name] = {
            "queries_per_second": round(statistics.median(found), 1),
            "ratio": round(statistics.median(ratios), 3),
        }
    return told


def rate(engine: SqliteIndex, queries: list[str], mask: Mask | None, callers: int, seconds: float) -> float:
    def ask(number: int) -> None:
        engine.keyword(queries[number % len(queries)], K, BM25Params(), mask)

    ask(0)
    until = time.perf_counter() + seconds

    def work(first: int) -> int:
        done = 0
        while time.perf_counter() < until:
            ask(first + done)
            done += 1
        return done

    began = time.perf_counter()
    with ThreadPoolExecutor(callers) as pool:
        done = sum(pool.map(work, range(0, 64 * callers, 64)))
    return done / (time.perf_counter() - began)


def overlap(engines: dict[str, SqliteIndex], queries: list[str]) -> float:
    shares = []
    for query in queries:
        ours, theirs = (set(one.keyword(query, K, BM25Params(), None).chunks.tolist()) for one in engines.values())
        shares.append(len(ours & theirs) / max(len(ours), len(theirs)))
    return statistics.mean(shares)


if __name__ == "__main__":
    main()
