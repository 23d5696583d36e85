"""`hive gate` as a stranger meets it: runs of tantivy and bm25s over a collection with qrels, and how long it takes.

The collection is the docstrings of numpy and scipy, without their first sentence. A query is that sentence, its answer
the function it belongs to, and a namesake in another module (numpy.ma.sum for numpy.sum) its distractor: the one that
was not asked for. Writes qrels.txt, queries.tsv, bm25s.run and tantivy.run to a folder, then runs the command on them.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

MODULES = (
    "numpy numpy.ma numpy.linalg numpy.fft numpy.strings numpy.polynomial.polynomial numpy.polynomial.chebyshev"
    " scipy.linalg scipy.fft scipy.signal scipy.stats scipy.stats.mstats scipy.ndimage scipy.sparse scipy.sparse.linalg"
    " scipy.optimize scipy.interpolate scipy.integrate scipy.special scipy.spatial.distance"
)


def collection() -> tuple[dict[str, str], dict[str, str]]:
    """Return (doc_id → text, doc_id → first sentence) of every documented function."""
    texts, sentences = {}, {}
    for name in MODULES.split():
        module = importlib.import_module(name)
        for attribute in sorted(vars(module)):
            found = getattr(module, attribute)
            text = inspect.getdoc(found) or ""
            if attribute.startswith("_") or not callable(found) or inspect.isclass(found):
                continue
            first, _, rest = text.partition("\n\n")
            if re.match(r"\w+\(.*\)$", first.split("\n")[0]):  # a signature
                first, _, rest = rest.partition("\n\n")
            first = " ".join(first.split())
            if 5 <= len(first.split()) <= 40 and len(rest) > 200:
                texts[f"{name}.{attribute}"] = rest
                sentences[f"{name}.{attribute}"] = first
    return texts, sentences


def labelled(sentences: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the lines of queries.tsv and qrels.txt."""
    by_name: dict[str, list[str]] = {}
    for doc_id in sentences:
        by_name.setdefault(doc_id.rsplit(".", 1)[1], []).append(doc_id)
    queries, qrels = [], []
    for number, (doc_id, sentence) in enumerate(sorted(sentences.items())):
        if number % 5:  # a fifth of the functions is asked for
            continue
        queries.append(f"q{number}\t{sentence}")
        for other in by_name[doc_id.rsplit(".", 1)[1]]:
            # The same sentence is the same function under another name, or as good an answer.
            grade = 1 if other == doc_id or sentences[other] == sentence else -1
            qrels.append(f"q{number} 0 {other} {grade}")
    return queries, qrels


def bm25s_run(texts: dict[str, str], queries: dict[str, str], k: int) -> list[str]:
    import bm25s

    ids = list(texts)
    model = bm25s.BM25()
    model.index(bm25s.tokenize(list(texts.values()), show_progress=False), show_progress=False)
    asked = bm25s.tokenize(list(queries.values()), show_progress=False)
    found, scores = model.retrieve(asked, k=k, show_progress=False, n_threads=1)
    return [
        f"{query_id} Q0 {ids[number]} {rank} {score:.6f} bm25s"
        for query_id, row, line in zip(queries, found.tolist(), scores.tolist(), strict=True)
        for rank, (number, score) in enumerate(zip(row, line, strict=True), start=1)
        if score > 0
    ]


def tantivy_run(texts: dict[str, str], queries: dict[str, str], k: int) -> list[str]:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw")
    builder.add_text_field("body", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer()
    for doc_id, text in texts.items():
        writer.add_document(tantivy.Document(id=doc_id, body=text))
    writer.commit()
    index.reload()
    searcher = index.searcher()
    lines = []
    for query_id, text in queries.items():
        query = index.parse_query(" ".join(re.findall(r"\w+", text)).lower(), ["body"])
        for rank, (score, address) in enumerate(searcher.search(query, k).hits, start=1):
            lines.append(f"{query_id} Q0 {searcher.doc(address)['id'][0]} {rank} {score:.6f} tantivy")
    return lines


def write(folder: Path, k: int) -> dict[str, int]:
    texts, sentences = collection()
    queries, qrels = labelled(sentences)
    asked = dict(line.split("\t", 1) for line in queries)
    files = {
        "queries.tsv": queries,
        "qrels.txt": qrels,
        "bm25s.run": bm25s_run(texts, asked, k),
        "tantivy.run": tantivy_run(texts, asked, k),
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"documents": len(texts), "queries": len(queries), "labels": len(qrels)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="keep the files in this folder")
    parser.add_argument("--hive", default=f"{sys.executable} -m hive_agents", help="the command to measure")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as made:
        folder = options.out or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        sizes = write(folder, k=10)
        command = [*options.hive.split(), "gate", "--before", "bm25s.run", "--after", "tantivy.run"]
        command += ["--qrels", "qrels.txt", "--queries", "queries.tsv", "--json"]
        seconds, printed = [], ""
        for _ in range(options.rounds):
            started = time.perf_counter()
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            seconds.append(time.perf_counter() - started)
            if ran.returncode not in (0, 1):
                sys.exit(ran.stdout + ran.stderr)
            printed = ran.stdout
    finding = json.loads(printed)
    figures = sizes | {
        "seconds": round(sorted(seconds)[len(seconds) // 2], 2),
        "decision": finding["decision"],
        "before": round(finding["evaluation"]["active"]["nudcg"], 4),
        "after": round(finding["evaluation"]["candidate"]["nudcg"], 4),
        "p_value": finding["evaluation"]["difference"]["p_value"],
    }
    for name, value in figures.items():
        print(f"{name:10} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
