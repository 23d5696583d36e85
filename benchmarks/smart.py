"""Classic test collections as workspaces, to measure the optimizer's choice on texts and labels that nobody here wrote.

    python benchmarks/smart.py {cisi,time,npl} DOCUMENTS QUERIES RELEVANCE WORKSPACE
    python benchmarks/optimizer.py --redraw 6 --methods= --workspace WORKSPACE

The three files are those that the SMART project and the University of Glasgow handed on: CISI.ALL,
CISI.QRY and CISI.REL; TIME.ALL, TIME.QUE and TIME.REL; NPL's doc-text, query-text and rlv-ass. A document is a file
without front matter, nothing in it misleads, and the search begins as the sample's does: hybrid, ten results.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from benchmarks.worlds import activate, write_json
from hive_agents import Workspace
from hive_agents.base.files import atomic_write_text

COLLECTION: dict[str, Any] = {
    "name": "kb",
    "fields": {"title": {"type": "text"}, "content": {"type": "text"}},
    "chunking": {"strategy": "by_heading", "max_tokens": 512, "heading_level": 2},
}
NAIVE = {"name": "v1-naive", "collection": "kb", "retrieval": {"method": "hybrid", "top_k": 10}}


def by_dots(text: str) -> dict[str, str]:
    """Return the title and text of each entry by its number, where lines such as `.I 12` and `.W` begin its parts."""
    found = {}
    for entry in re.split(r"^\.I ", text, flags=re.MULTILINE)[1:]:
        number, _, rest = entry.partition("\n")
        parts = re.findall(r"^\.([A-Z])\n(.*?)(?=^\.[A-Z]\n|\Z)", rest, flags=re.MULTILINE | re.DOTALL)
        found[number.strip()] = "\n\n".join(part.strip() for letter, part in parts if letter in "TW")
    return found


def by_stars(text: str) -> dict[str, str]:
    """Return the text of each entry by its place from 1, where a line such as `*TEXT 017` begins it."""
    entries = re.split(r"^\*(?:TEXT|FIND)\b.*$", text.partition("*STOP")[0], flags=re.MULTILINE)[1:]
    return {str(place): " ".join(entry.split()).lower() for place, entry in enumerate(entries, start=1)}


def by_slashes(text: str) -> dict[str, str]:
    """Return the text of each entry by its number, where a slash ends it."""
    entries = (entry.strip().partition("\n") for entry in re.split(r"^\s*/\s*$", text, flags=re.MULTILINE))
    return {number.strip(): " ".join(rest.split()).lower() for number, _, rest in entries if rest}


def pairs(text: str) -> dict[str, list[str]]:
    """Return the relevant documents of each query, a pair a line."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.strip():
            found.setdefault(line.split()[0], []).append(line.split()[1])
    return found


def rows(text: str) -> dict[str, list[str]]:
    """Return the relevant documents of each query, all in its line."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}


READERS: dict[str, Any] = {
    "cisi": (by_dots, pairs),
    "time": (by_stars, rows),
    "npl": (by_slashes, lambda text: {query: found.split() for query, found in by_slashes(text).items()}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=READERS)
    for name in ("documents", "queries", "relevance", "workspace"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    entries, relevance = READERS[options.kind]
    given = (options.documents, options.queries, options.relevance)
    texts, asked, judgements = (path.read_text(encoding="latin-1") for path in given)
    root: Path = options.workspace
    documents, judged = entries(texts), relevance(judgements)
    for number, text in documents.items():
        atomic_write_text(root / "documents" / f"{number}.md", text + "\n")
    write_json(root / "collections" / "kb.json", COLLECTION)
    write_json(root / "configs" / "v1.json", NAIVE)
    activate(root, "v1")
    queries = [
        {"id": f"q{number}", "query": " ".join(text.split()), "relevant": relevant, "distractors": []}
        for number, text in entries(asked).items()
        if (relevant := [f"{one}.md" for one in dict.fromkeys(judged.get(number, ())) if one in documents])
    ]
    write_json(root / "evals" / "golden.json", {"collection": "kb", "k": 10, "queries": queries})
    report = Workspace(root).index()
    print(f"{report.documents} documents, {report.chunks} chunks, {len(queries)} queries in {root}")


if __name__ == "__main__":
    main()
