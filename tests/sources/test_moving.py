"""A document whose new name is seen before it is known that the old one is gone."""

from __future__ import annotations

import json
from pathlib import Path

from hive_agents.sources import add_source
from hive_agents.sources.running import run_source
from hive_agents.workspace import Workspace, trust

LOADER = """
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

ITEMS = {items!r}

class Files(BaseLoader):
    def lazy_load(self):
        for name, text in ITEMS:
            if text is None:
                raise RuntimeError("it broke off")
            yield Document(text, metadata={{"source": name}})
"""
LABELLED = {"id": "q", "query": "What?", "relevant": ["office/old.md"], "distractors": ["office/same.md"]}


def run(place: Workspace, *items: tuple[str, str | None]) -> dict[str, int]:
    (place.root / "loaders" / "files.py").write_text(LOADER.format(items=list(items)))
    trust(place)
    return run_source(place, "office").counts


def test_what_moved_waits_for_a_whole_listing_and_keeps_its_labels(tmp_path: Path) -> None:
    for name in ("collections", "loaders", "evals"):
        (tmp_path / name).mkdir()
    (tmp_path / "loaders" / "files.py").write_text("")
    add_source(Workspace(tmp_path), "office", {"kind": "loader", "url": "loaders/files.py:Files"})
    place = Workspace(tmp_path)
    golden = tmp_path / "evals" / "golden.json"
    run(place, ("old", "The text."), ("same", "Another."))
    golden.write_text(json.dumps({"collection": "kb", "queries": [LABELLED]}))
    cut = run(place, ("new", "The text."), ("added", "Added."), ("last", "Not given."), ("", None))
    assert (cut["added"], cut["renamed"]) == (1, 0)
    whole = run(place, ("new", "The text."), ("added", "Added."), ("same", "Another."))
    assert (whole["added"], whole["renamed"], whole["labels"], whole["gone"]) == (0, 1, 1, 0)
    (query,) = json.loads(golden.read_text())["queries"]
    assert (query["relevant"], query["distractors"]) == (["office/new.md"], ["office/same.md"])
