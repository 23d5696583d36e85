"""The documentation of several releases as a workspace, to measure the optimizer's choice where older pages mislead.

    python benchmarks/releases.py FOLDER RELEASE RELEASE... WORKSPACE
    python benchmarks/optimizer.py --redraw 6 --methods= --workspace WORKSPACE

FOLDER has a folder of Markdown pages with a title in their front matter for each release, named newest first, such as
v3.6 v3.5 v3.4 of etcd's website. Each document says its release, and the collection lets it rank. Questions are the
descriptions of the newest pages, and their title with a heading; the answer is that page, its older namesakes mislead.
Each twelfth question asks for the oldest release that has the page, and there the newer ones mislead.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from benchmarks.smart import COLLECTION, NAIVE
from benchmarks.worlds import activate, write_json
from hive_agents import Workspace
from hive_agents.base.files import atomic_write_text, frontmatter

EVERY_OLDER, HEADINGS, SHORTEST = 12, 2, 200


def pages(folder: Path) -> dict[str, tuple[str, str, str]]:
    """Return the (title, description, text) of each page by its path."""
    found = {}
    for file in sorted(folder.rglob("[!_]*.md")):  # Hugo's _index.md lists the others
        written, text = frontmatter.split(file.read_text(encoding="utf-8"), file.name)
        head = frontmatter.parse(written, file.name)
        if "title" in head and len(text) >= SHORTEST:
            told = (str(head["title"]), str(head.get("description") or ""), text)
            found[file.relative_to(folder).as_posix()] = told
    return found


def asked(title: str, description: str, text: str) -> list[str]:
    headings = (re.sub(r"[`*{}\[\]]|\(.*?\)", "", one).strip() for one in re.findall(r"^## +(.+)$", text, re.MULTILINE))
    longer = [f"{title}: {heading}" for heading in headings if " " in heading][:HEADINGS]
    return [*([description] if description else []), *longer]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("releases", nargs="+")
    parser.add_argument("workspace", type=Path)
    options = parser.parse_args()
    root: Path = options.workspace
    every = {release: pages(options.folder / release) for release in options.releases}
    for release, listed in every.items():
        for path, (title, _, text) in listed.items():
            document = frontmatter.render({"title": title, "version": release}, text)
            atomic_write_text(root / "documents" / release / path, document)
    newest = options.releases[0]
    queries: list[dict[str, Any]] = []
    for path, told in every[newest].items():
        there = [release for release in options.releases if path in every[release]]
        for text in asked(*told) if len(there) > 1 else ():
            older = len(queries) % EVERY_OLDER == EVERY_OLDER - 1
            wanted, question = (there[-1], f"{text} ({there[-1]})") if older else (newest, text)
            others = [f"{release}/{path}" for release in there if release != wanted]
            labels = {"relevant": [f"{wanted}/{path}"], "distractors": others}
            queries.append({"id": f"q{len(queries)}", "query": question, **labels})
    version = {"version": {"type": "keyword", "filterable": True, "ranks": True}}
    write_json(root / "collections" / "kb.json", {**COLLECTION, "fields": {**COLLECTION["fields"], **version}})
    write_json(root / "configs" / "v1.json", NAIVE)
    activate(root, "v1")
    write_json(root / "evals" / "golden.json", {"collection": "kb", "k": 10, "queries": queries})
    report = Workspace(root).index()
    print(f"{report.documents} documents, {report.chunks} chunks, {len(queries)} queries in {root}")


if __name__ == "__main__":
    main()
