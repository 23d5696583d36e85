"""A version that a question asks about, and of which the reader has no document, is told above what others say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from hive_agents import Workspace
from hive_agents.cli.replies import rendered
from tests.copilot.chats import ask, copied_knowledge_base

PAGE = """---
title: Limits
tenant: acme
view: ["{view}"]
version: {version}
---
A limit of requests is set for each lamp. Lamps burn in order. The engine is a V12 of its own.
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Of which dana alone may read v2.88."""
    place = copied_knowledge_base(Path(tmp_path_factory.mktemp("versions")) / "workspace")
    for version, view in (("v2.88", "group:qa"), ("v3.7", "tenant")):
        (place.documents / f"limits-{version.replace('.', '-')}.md").write_text(
            PAGE.format(version=version, view=view), encoding="utf-8"
        )
    (place.documents / "changes-1.4-since-v2.md").write_text(
        PAGE.replace("version: {version}\n", "").format(view="tenant"), encoding="utf-8"
    )
    collection = place.root / "collections" / "kb.json"
    schema = json.loads(collection.read_text(encoding="utf-8"))
    schema["fields"]["version"] = {"type": "keyword", "filterable": True}
    collection.write_text(json.dumps(schema), encoding="utf-8")
    place.index()
    return place


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("how is a limit of requests set in v9.9?", "v9.9"),
        ("how is a limit of requests set in version 9.9?", "9.9"),
        ("does v9.9 limit requests", "v9.9"),
        ("v4 limit of requests", "v4"),
        ("list everything for v9.9", "v9.9"),
        ("how is a limit of requests set in v1.5", "v1.5"),
    ],
)
def test_a_version_that_no_document_is_of_is_told(place: Workspace, text: str, version: str) -> None:
    assert ask(place, "dana", text)["notice"] == f"No document that you may read is of version {version}."


@pytest.mark.parametrize(
    "text",
    [
        "how is a limit of requests set in v2.88?",
        "how is a limit of requests set in v3.7.2?",
        "how is a limit of requests set in v3?",
        "how is a limit of requests set in version 1.4?",  # a path has it
        "how many lamps burn in V12?",  # a passage has it
        "does a lamp burn for 9.9 hours",
        "how do lamps burn on 10.0.0.1",
        "what is a lamp",
    ],
)
def test_a_version_that_documents_have_and_a_number_are_not(place: Workspace, text: str) -> None:
    assert "is of version" not in (ask(place, "dana", text)["notice"] or "")


def test_a_version_of_hidden_documents_is_one_of_none(place: Workspace) -> None:
    hidden, missing = (
        ask(place, "guest", f"how is a limit of requests set in {version}?") for version in ("v2.88", "v9.98")
    )
    assert hidden["notice"] == "No document that you may read is of version v2.88."
    assert hidden["notice"].replace("v2.88", "v9.98") == missing["notice"]
    assert [row["doc_id"] for row in hidden["results"]] == [row["doc_id"] for row in missing["results"]]


def test_where_no_document_names_a_version_none_is_missed(tmp_path: Path) -> None:
    place = copied_knowledge_base(tmp_path / "workspace")
    assert "is of version" not in (ask(place, "dana", "how do I rotate a key in v9.9?")["notice"] or "")


def test_the_terminal_tells_it_above_the_answer_and_the_passages(place: Workspace) -> None:
    console = Console(width=200)
    with console.capture() as captured:
        for part in rendered(ask(place, "dana", "how is a limit of requests set in v9.9?")):
            console.print(part)
    shown = captured.get()
    assert 0 <= shown.index("is of version v9.9") < shown.index("A limit of requests")


def test_a_version_that_the_config_leaves_out_is_told_of(place: Workspace, tmp_path: Path) -> None:
    copied = Workspace(shutil.copytree(place.root, tmp_path / "copied", symlinks=True))
    for config in (copied.root / "configs").glob("*.json"):
        filters = {"version": ["v3.7"]}
        config.write_text(json.dumps(json.loads(config.read_text(encoding="utf-8")) | {"filters": filters}), "utf-8")
    question = "how is a limit of requests set in v2.88?"
    assert ask(place, "dana", question)["status"] == "results"
    told = ask(copied, "dana", question)
    assert (told["status"], told["notice"]) == (
        "not_found",
        "There are documents that meet the filter, but the search that serves here leaves them out.",
    )
    assert "leaves them out" not in (ask(copied, "guest", question)["notice"] or ""), "hers has no such document"
    assert ask(copied, "dana", question.replace("v2.88", "v3.7"))["status"] == "results"
