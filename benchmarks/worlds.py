"""Workspaces that differ, for measuring what an optimizer keeps: each is one that a user might have.

    python benchmarks/worlds.py --cache DIR [--worlds sample,django,…]

makes them, indexed, in DIR, outside the repository, where the next run finds them again. `django`, `versions`,
`words` and `unmarked` need pip: Django's documentation is no part of this repository.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_agents import RetrievalConfig, Workspace
from hive_agents.base.files import atomic_write_text
from hive_agents.base.files.atomic import atomic_symlink
from hive_agents.cli.sample import init_workspace

CACHE = Path(tempfile.gettempdir()) / "hive-worlds"
DJANGO = Path(__file__).parent.parent / "examples" / "django_docs"
RELEASES = ("5.2", "4.2", "3.2")
FOLDERS = ("topics", "howto", "ref")
EVERY_OLDER = 12
"""Of the versioned documentation's queries each so many-th asks for the oldest release."""

Queries = list[dict[str, Any]]


@dataclass(frozen=True)
class World:
    """`make` writes its workspace into an empty or a known folder; `cache` is where other worlds lie."""

    about: str
    make: Callable[[Path, Path], None]


def workspace_of(name: str, cache: Path) -> Path:
    """The root of the world's workspace, made and indexed where it isn't yet."""
    root = cache / name
    WORLDS[name].make(root, cache)
    Workspace(root).index()
    return root


def copied(source: Path, target: Path) -> Workspace:
    """A workspace of its own for one run; nobody may work in `source` meanwhile."""
    shutil.copytree(source, target, symlinks=True)
    return Workspace(target)


def sample(root: Path, _: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)  # the repository's may have changed
    init_workspace(root)


def small(root: Path, cache: Path) -> None:
    """Every sixth query of the sample, without splits."""
    sample(root, cache)
    queries = [without(query, "split") for query in golden(root)["queries"][::6]]
    rewrite(root, queries[:25])


def null(root: Path, cache: Path) -> None:
    """The sample with labels by lot: one answer and one distractor out of what each query's lanes return.

    Both are as likely at any rank, so every config's nUDCG is 0 in truth, an empty list's too.
    """
    sample(root, cache)
    workspace = Workspace(root)
    workspace.index()
    rng, queries = random.Random(5), []
    pool = RetrievalConfig.model_validate(
        {"name": "pool", "collection": "knowledge-base", "retrieval": {"method": "hybrid", "top_k": 20}}
    )
    engine = workspace.engine()
    for query in golden(root)["queries"]:
        hits = engine.search(query["query"], pool).hits
        found = rng.sample(sorted({hit.doc_id for hit in hits}), 2)
        queries.append(without(query, "irrelevant") | {"relevant": found[:1], "distractors": found[1:]})
    rewrite(root, queries)


def django(root: Path, cache: Path) -> None:
    copy_files(DJANGO, root, ("collections", "configs", "evals"))
    if not (root / "documents").is_dir():
        shutil.copytree(fetched(RELEASES[0], cache), root / "documents")
    activate(root, "v1-naive")


def unmarked(root: Path, cache: Path) -> None:
    """Django's documentation where nobody marked distractors, searched for words alone."""
    derived(root, workspace_of("django", cache))
    rewrite(root, [query | {"distractors": []} for query in golden(DJANGO)["queries"]])
    naive = {"name": "words", "collection": "django-docs", "retrieval": {"method": "keyword", "top_k": 10}}
    write_json(root / "configs" / "words.json", naive)
    activate(root, "words")


def versions(root: Path, cache: Path) -> None:
    """The pages that Django's golden set names, in three releases.

    A query's answers are its pages of the newest release; their older namesakes mislead, and so do the golden set's
    own distractors. Each twelfth query asks for the oldest release, and there the newer ones mislead.
    """
    copy_files(DJANGO, root, ("collections", "configs"))
    collection = json.loads((DJANGO / "collections" / "django-docs.json").read_text(encoding="utf-8"))
    collection["fields"]["version"] = {"type": "keyword", "filterable": True}
    write_json(root / "collections" / "django-docs.json", collection)
    listed = [query for query in golden(DJANGO)["queries"] if any(map(in_folders, query["relevant"]))]
    pages = sorted({page for query in listed for page in (*query["relevant"], *query["distractors"])})
    known = {(release, page) for release in RELEASES for page in filter(in_folders, pages)}
    known = {(release, page) for release, page in known if (fetched(release, cache) / page).is_file()}
    for release, page in sorted(known):
        head, _, text = (fetched(release, cache) / page).read_text(encoding="utf-8").partition("---\n\n")
        atomic_write_text(root / "documents" / release / page, f'{head}version: "{release}"\n---\n\n{text}')
    rewrite(root, [of_releases(query, number, known) for number, query in enumerate(listed)], source=DJANGO)
    seed, own = cache / "django" / ".hive" / "embeddings", Workspace(root).state / "embeddings"
    if seed.is_dir() and not own.exists():
        shutil.copytree(seed, own)
    activate(root, "v1-naive")


def of_releases(query: dict[str, Any], number: int, known: set[tuple[str, str]]) -> dict[str, Any]:
    """The query's labels, each page with the release in front."""
    asked = RELEASES[0]
    tags, text = list(query["tags"]), query["query"]
    if number % EVERY_OLDER == EVERY_OLDER - 1 and any((RELEASES[-1], page) in known for page in query["relevant"]):
        asked, tags, text = RELEASES[-1], [*tags, "older"], f"{text} (Django {RELEASES[-1]})"
    relevant = [f"{asked}/{page}" for page in query["relevant"] if (asked, page) in known]
    namesakes = [(release, page) for release in RELEASES for page in query["relevant"] if release != asked]
    misleading = [*namesakes, *((asked, page) for page in query["distractors"])]
    distractors = dict.fromkeys(f"{release}/{page}" for release, page in misleading if (release, page) in known)
    labels = {"relevant": relevant, "distractors": [page for page in distractors if page not in relevant]}
    return {"id": query["id"], "query": text, "tags": tags, **labels}


def words(root: Path, cache: Path) -> None:
    """The same, with a starting point that returns one result of the words alone."""
    derived(root, workspace_of("versions", cache))
    naive = {"name": "words", "collection": "django-docs", "retrieval": {"method": "keyword", "top_k": 1}}
    write_json(root / "configs" / "words.json", naive)
    activate(root, "words")


WORLDS = {
    "sample": World("the sample workspace", sample),
    "django": World("Django's documentation, 125 queries", django),
    "versions": World("three releases of the same pages, the newest is wanted", versions),
    "words": World("the same, starting from one result of keyword search", words),
    "small": World("25 queries of the sample", small),
    "unmarked": World("Django's documentation without distractors, starting from keyword search", unmarked),
    "null": World("the sample with labels that no lever can learn", null),
}


def fetched(release: str, cache: Path) -> Path:
    """The folder of a release's converted pages, downloaded once."""
    folder = cache / "fetched" / release
    if not (folder / "documents").is_dir():
        command = [sys.executable, str(DJANGO / "fetch.py"), "--release", release, "--into", str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "documents"


def golden(root: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((root / "evals" / "golden.json").read_text(encoding="utf-8"))
    return value


def rewrite(root: Path, queries: Queries, source: Path | None = None) -> None:
    write_json(root / "evals" / "golden.json", golden(source or root) | {"queries": queries})


def without(query: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in query.items() if key not in keys}


def in_folders(page: str) -> bool:
    return page.split("/")[0] in FOLDERS


def copy_files(source: Path, root: Path, folders: Iterable[str]) -> None:
    for folder in folders:
        shutil.copytree(source / folder, root / folder, dirs_exist_ok=True)


def derived(root: Path, source: Path) -> None:
    """Another world's workspace with its index; the golden set and the active config are the caller's."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(source, root, symlinks=True)


def activate(root: Path, config: str) -> None:
    atomic_symlink(root / "configs" / "active.json", f"{config}.json")


def write_json(path: Path, value: Any) -> None:
    atomic_write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    options = parser.parse_args()
    for name in options.worlds.split(","):
        started = time.perf_counter()
        root = workspace_of(name, options.cache)
        print(f"{name:10}{len(golden(root)['queries']):>5} queries  {time.perf_counter() - started:6.0f} s  {root}")


if __name__ == "__main__":
    main()
