"""BM25 against tantivy, bm25s and SQLite FTS5: same tokens, same queries, one thread, turns taken in one process.

    python benchmarks/bm25.py [--lists DIR] [--documents N] [--json FILE]

The corpus is the descriptions of Debian's packages, from the lists that `apt-get update` leaves. Where the machine
has no long descriptions (no `*_Translation-en`), the message says how to fetch them into a folder of one's own.
A query's time includes splitting it to words and fetching the external ids of its hits. The engines take turns
batch by batch, so that a slow moment hits all of them; only the ratios mean anything on another machine.
"""

import argparse
import gc
import json
import math
import multiprocessing
import random
import re
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import tantivy
from numpy.typing import NDArray

from hive_agents.index.bm25 import BM25
from hive_agents.index.postings import Postings, TokenRuns, build_postings, document_lengths, read_postings

K = 10
Engine = Callable[[str], list[str]]
WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


# Corpus


def stanzas(lists: Path, pattern: str) -> Iterator[dict[str, str]]:
    """The stanzas of apt's lists, decompressed by apt itself."""
    for path in sorted(lists.glob(pattern)):
        text = subprocess.run(
            ["/usr/lib/apt/apt-helper", "cat-file", str(path)], check=True, capture_output=True
        ).stdout.decode()
        for stanza in text.strip().split("\n\n"):
            fields = re.split(r"\n(?=\S)", stanza)
            yield dict(field.partition(": ")[::2] for field in fields if field)


def corpus(lists: Path) -> list[tuple[str, str, str]]:
    """(package, short description, long description) in order of package name."""
    long: dict[str, str] = {}
    for stanza in stanzas(lists, "*_Translation-en*"):
        long[stanza["Description-md5"]] = stanza.get("Description-en", "")
    if not long:
        sys.exit(
            f"{lists} holds no Translation-en list. Fetch them into a folder of your own:\n"
            "  mkdir -p apt/lists/partial apt/cache/archives/partial\n"
            '  apt-get update -o Dir::State::Lists="$PWD/apt/lists" -o Dir::Cache="$PWD/apt/cache"'
            " -o Acquire::Languages=en\n"
            "  python benchmarks/bm25.py --lists apt/lists"
        )
    found: dict[str, tuple[str, str, str]] = {}
    # The largest list: those of security and point updates repeat its packages.
    largest = max(lists.glob("*_binary-*_Packages*"), key=lambda path: path.stat().st_size)
    for stanza in stanzas(lists, largest.name):
        short = stanza.get("Description", "")
        text = long.get(stanza.get("Description-md5", ""), short)
        found.setdefault(stanza["Package"], (stanza["Package"], short, text.partition("\n")[2]))
    return [found[name] for name in sorted(found)]


def replicated(docs: list[tuple[str, str, str]], n: int, rng: random.Random) -> list[tuple[str, str, str]]:
    """At least as many documents as the corpus has, by copies with 30 % of the words drawn anew."""
    if n <= len(docs):
        return sorted(rng.sample(docs, n))
    pool = [word for _, _, text in rng.sample(docs, 5000) for word in words(text)]
    copies = list(docs)
    while len(copies) < n:
        name, short, text = docs[len(copies) % len(docs)]
        redrawn = (rng.choice(pool) if rng.random() < 0.3 else word for word in words(text))
        copies.append((f"{name}+{len(copies)}", short, " ".join(redrawn)))
    return sorted(copies)


def queries(docs: list[tuple[str, str, str]], n: int, rng: random.Random) -> list[str]:
    """Short descriptions of random packages: what somebody who looks for such a package would type."""
    texts = [short for _, short, _ in rng.sample(docs, min(len(docs), 2 * n)) if len(words(short)) > 2]
    return [" ".join(words(text)[:6]) for text in texts[:n]]


# Engines


class SqlitePostings:
    """The source of postings as the library keeps it: one row a term in SQLite."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path)
        self._db.execute("PRAGMA cache_size = -2000")
        self.lengths: NDArray[np.int32] = np.frombuffer(
            self._db.execute("SELECT lengths FROM corpus").fetchone()[0], "<i4"
        )
        self.n_docs = len(self.lengths)

    def postings(self, term: str) -> Postings | None:
        row = self._db.execute("SELECT df, blob FROM postings WHERE term = ?", (term,)).fetchone()
        return None if row is None else read_postings(*row)

    def ids(self, docs: list[int]) -> list[str]:
        marks = ",".join("?" * len(docs))
        found = dict(self._db.execute(f"SELECT doc, id FROM documents WHERE doc IN ({marks})", docs))
        return [found[doc] for doc in docs]


def runs(texts: list[list[str]], numbers: defaultdict[str, int]) -> TokenRuns:
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    terms = map(numbers.__getitem__, chain.from_iterable(texts))
    return TokenRuns(np.fromiter(terms, np.int32, int(lengths.sum())), np.append(0, np.cumsum(lengths)))


def build_hive(path: Path, ids: list[str], titles: list[list[str]], bodies: list[list[str]]) -> SqlitePostings:
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    body, title = runs(bodies, numbers), runs(titles, numbers)
    names = list(numbers)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE postings (term TEXT PRIMARY KEY, df INTEGER, blob BLOB) WITHOUT ROWID")
        db.execute("CREATE TABLE documents (doc INTEGER PRIMARY KEY, id TEXT)")
        db.execute("CREATE TABLE corpus (lengths BLOB)")
        rows = sorted((names[number], df, blob) for number, df, blob in build_postings(body, title, len(names)))
        db.executemany("INSERT INTO postings VALUES (?, ?, ?)", rows)
        db.executemany("INSERT INTO documents VALUES (?, ?)", enumerate(ids))
        db.execute("INSERT INTO corpus VALUES (?)", (document_lengths(body, title).astype("<i4").tobytes(),))
    db.close()
    return SqlitePostings(path)


def hive_engine(source: SqlitePostings, bm25: BM25) -> Engine:
    def search(text: str) -> list[str]:
        docs, _ = bm25.top(words(text), K)
        return source.ids(docs.tolist())

    return search


def build_tantivy(ids: list[str], texts: list[str]) -> Any:
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("id", stored=True, tokenizer_name="raw")
    schema.add_text_field("text", tokenizer_name="whitespace", index_option="freq")
    index = tantivy.Index(schema.build())
    writer = index.writer(heap_size=128_000_000, num_threads=1)
    for doc_id, text in zip(ids, texts, strict=True):
        writer.add_document(tantivy.Document(id=doc_id, text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def tantivy_engine(index: Any, **options: Any) -> Engine:
    searcher = index.searcher()

    def search(text: str) -> list[str]:
        query = index.parse_query(" ".join(words(text)), ["text"])
        return [searcher.doc(address)["id"][0] for _, address in searcher.search(query, K, **options).hits]

    return search


def build_bm25s(tokens: list[list[str]]) -> Any:
    retriever = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    retriever.index(tokens, show_progress=False)
    return retriever


def bm25s_engine(retriever: Any, ids: list[str]) -> Engine:
    def search(text: str) -> list[str]:
        known = [word for word in words(text) if word in retriever.vocab_dict]
        docs, _ = retriever.retrieve([known], k=min(K, len(ids)), show_progress=False)
        return [ids[doc] for doc in docs[0]]

    return search


def build_fts5(path: Path, ids: list[str], texts: list[str]) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute("CREATE VIRTUAL TABLE docs USING fts5(id UNINDEXED, text, content='', columnsize=1)")
    db.execute("CREATE TABLE ids (doc INTEGER PRIMARY KEY, id TEXT)")
    with db:
        db.executemany("INSERT INTO docs (rowid, text) VALUES (?, ?)", enumerate(texts, 1))
        db.executemany("INSERT INTO ids VALUES (?, ?)", enumerate(ids, 1))
    return db


def fts5_engine(db: sqlite3.Connection) -> Engine:
    statement = "SELECT rowid FROM docs WHERE docs MATCH ? ORDER BY rank LIMIT ?"

    def search(text: str) -> list[str]:
        match = " OR ".join(f'"{word}"' for word in words(text))
        docs = [doc for (doc,) in db.execute(statement, (match, K))]
        marks = ",".join("?" * len(docs))
        found = dict(db.execute(f"SELECT doc, id FROM ids WHERE doc IN ({marks})", docs))
        return [found[doc] for doc in docs]

    return search


# Measures


def interleaved(engines: dict[str, Engine], texts: list[str], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Seconds of each query, the median of its rounds; an engine too slow for all queries answers the first ones."""
    asked: dict[str, list[str]] = {}
    for name, search in engines.items():
        began = time.perf_counter()
        for text in texts[:20]:
            search(text)
        each = (time.perf_counter() - began) / 20
        asked[name] = texts[: max(50, int(seconds / rounds / each))]
        for text in asked[name]:
            search(text)
    taken: dict[str, list[list[float]]] = {name: [[] for _ in asked[name]] for name in engines}
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for start in range(0, len(texts), 50):
            for name, search in engines.items():
                for i, text in enumerate(asked[name][start : start + 50], start):
                    began = time.perf_counter()
                    search(text)
                    taken[name][i].append(time.perf_counter() - began)
    gc.enable()
    return {name: [statistics.median(times) for times in each] for name, each in taken.items()}


def brute_force(tokens: list[list[str]]) -> Callable[[str], NDArray[np.float64]]:
    """The formula once more, in float64, over counts that `numpy.unique` made."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    flat = runs(tokens, numbers)
    n = len(tokens)
    lengths = np.diff(flat.offsets)
    keys, counts = np.unique(flat.terms.astype(np.int64) * n + np.repeat(np.arange(n), lengths), return_counts=True)
    norm = 1.2 * (1 - 0.75 + 0.75 * lengths / (lengths.sum() / n))

    def scores(text: str) -> NDArray[np.float64]:
        total = np.zeros(n)
        for word in words(text):
            if word in numbers:
                term = slice(*np.searchsorted(keys, (numbers[word] * n, (numbers[word] + 1) * n)))
                docs, tf = keys[term] % n, counts[term]
                total[docs] += math.log(1 + (n - len(docs) + 0.5) / (len(docs) + 0.5)) * tf / (tf + norm[docs])
        return total

    return scores


def lists_that_differ(bm25: BM25, exact: Callable[[str], NDArray[np.float64]], texts: list[str]) -> int:
    """Lists in another order than the float64 scores, where these tell neighbours apart (1e-5), or scored otherwise."""
    wrong = 0
    for i, text in enumerate(texts):
        k = (1, 10, 100)[i % 3]
        docs, scores = bm25.top(words(text), k)
        expected = exact(text)
        best = np.sort(expected[expected > 0])[::-1][:k]
        same = len(best) == len(docs) and bool(
            np.allclose(expected[docs], best, rtol=1e-5, atol=0) and np.allclose(scores, best, rtol=1e-5, atol=0)
        )
        # Documents whose scores are the same number must stand in order of number.
        tied = (scores[1:] == scores[:-1]) & (docs[1:] < docs[:-1])
        wrong += int(not same or bool(tied.any()))
    return wrong


def timed(build: Callable[[], Any]) -> tuple[Any, float]:
    gc.collect()
    began = time.perf_counter()
    return build(), time.perf_counter() - began


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def first_use(path: Path, texts: list[str], cache_bytes: int | None) -> dict[str, float]:
    """What opening the file and a first pass cost; to be called in a process that holds no corpus."""
    gc.collect()
    before = resident()
    source, opened = timed(lambda: SqlitePostings(path))
    bm25 = BM25(source, cache_bytes=cache_bytes)
    _, first = timed(lambda: bm25.top(words(texts[0]), K))
    _, rest = timed(lambda: [bm25.top(words(text), K) for text in texts])
    return {
        "memory, MB": round((resident() - before) / 1e6, 1),
        "of it cached terms, MB": round(bm25.cache.nbytes / 1e6, 1),
        "open and first query, ms": round((opened + first) * 1e3, 2),
        "first pass, s": round(rest, 3),
    }


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--lists", type=Path, default=Path("/var/lib/apt/lists"))
    arguments.add_argument("--documents", type=int, default=0, help="sample or replicate to this many; 0: as they are")
    arguments.add_argument("--queries", type=int, default=1000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=10, help="measured time of each engine, at most about")
    arguments.add_argument("--cache-mb", type=int, help="of decoded terms; by default as the library has it")
    arguments.add_argument("--skip", nargs="*", default=[], help="engines to leave out: tantivy, bm25s, fts5")
    arguments.add_argument("--json", type=Path, help="write the figures here")
    options = arguments.parse_args()

    cache_bytes = options.cache_mb << 20 if options.cache_mb else None
    rng = random.Random(7)
    docs = corpus(options.lists)
    texts = queries(docs, options.queries, rng)
    docs = replicated(docs, options.documents or len(docs), rng)
    ids = [name for name, _, _ in docs]
    titles, bodies = ([list(map(sys.intern, words(doc[i]))) for doc in docs] for i in (1, 2))
    tokens = [title + body for title, body in zip(titles, bodies, strict=True)]
    joined = [" ".join(each) for each in tokens]
    report: dict[str, Any] = {
        "documents": len(docs),
        "tokens": sum(map(len, tokens)),
        "queries": len(texts),
        "numpy": np.__version__,
        "versions": {name: version(name) for name in ("tantivy", "bm25s")} | {"sqlite": sqlite3.sqlite_version},
    }

    gc.collect()
    gc.freeze()  # the corpus is nobody's memory: collections that an index build causes need not walk it

    with tempfile.TemporaryDirectory() as folder:
        seconds: dict[str, float] = {}
        path = Path(folder) / "hive.db"
        source, seconds["hive"] = timed(lambda: build_hive(path, ids, titles, bodies))
        kept, size = sqlite3.connect(path).execute("SELECT sum(df), sum(length(blob)) FROM postings").fetchone()
        report["postings"] = kept
        report["blob bytes a posting"] = round(size / kept, 2)
        report["file bytes a posting, ids included"] = round(path.stat().st_size / kept, 2)

        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
            report |= fresh.submit(first_use, path, texts, cache_bytes).result()
        bm25 = BM25(source, cache_bytes=cache_bytes)
        touched = [sum(len(found.docs) for found in filter(None, map(source.postings, words(text)))) for text in texts]
        report["median postings a query"] = round(statistics.median(touched))

        engines = {"hive": hive_engine(source, bm25)}
        if "tantivy" not in options.skip:
            index, seconds["tantivy"] = timed(lambda: build_tantivy(ids, joined))
            engines["tantivy"] = tantivy_engine(index)
            engines["tantivy count=False"] = tantivy_engine(index, count=False)
        if "bm25s" not in options.skip:
            retriever, seconds["bm25s"] = timed(lambda: build_bm25s(tokens))
            engines["bm25s"] = bm25s_engine(retriever, ids)
        if "fts5" not in options.skip:
            db, seconds["fts5"] = timed(lambda: build_fts5(Path(folder) / "fts5.db", ids, joined))
            engines["fts5"] = fts5_engine(db)
        times = interleaved(engines, texts, options.rounds, options.seconds)
        exact = brute_force(tokens)
        report["lists that differ from float64"] = lists_that_differ(bm25, exact, texts)
        report["lists checked"] = len(texts)

    print(f"{'engine':22}{'q/s':>8}{'x ours':>8}{'p50 us':>9}{'p99 us':>9}{'index s':>9}{'ours/its':>10}")
    report["engines"] = {}
    for name, each in times.items():
        ours = times["hive"][: len(each)]
        took = seconds.get(name.split()[0], 0.0)
        row = {
            "queries per second": round(len(each) / sum(each)),
            "ours faster by": round(sum(each) / sum(ours), 2),
            "p50 us": round(percentile(each, 0.5) * 1e6, 1),
            "p99 us": round(percentile(each, 0.99) * 1e6, 1),
            "index seconds": round(took, 2),
            "our index time to its": round(seconds["hive"] / took, 2),
            "queries": len(each),
        }
        report["engines"][name] = row
        cells = zip(row.values(), (8, 8, 9, 9, 9, 10), strict=False)
        print(f"{name:22}" + "".join(f"{value:>{width}}" for value, width in cells))
    for key, value in report.items():
        if key != "engines":
            print(f"{key}: {value}")
    if np.__version__ >= "2" and "bm25s" in report["engines"]:
        print("bm25s partitions a mostly zero array, slow on some processors with numpy 2: compare on numpy 1.26.")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
