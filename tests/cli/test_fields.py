"""`hive fields`: what documents have beside the declared fields, and how that becomes filterable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hive_agents import Workspace
from tests.conftest import make_workspace, write_config
from tests.sample import Ran, hive

SAID = [
    {"status": "final", "created": "2020-07-16", "number": 8, "draft": False, "abstract": "One. " * 30, "by": "ann"},
    {"status": "final", "created": "2021-01-02", "number": 9, "draft": True, "abstract": "Two. " * 30, "by": "bea"},
    {"status": "active", "created": "2022-03-04", "number": 10, "draft": False, "tags": ["a", "b"], "lonely": "x"},
    {"tags": ["b"], "nested": {"a": 1}},
]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    documents = {
        f"d{n}.md": "---\n"
        + "".join(f"{key}: {json.dumps(value)}\n" for key, value in said.items())
        + "---\nThe dial.\n"
        for n, said in enumerate(SAID)
    }
    workspace = make_workspace(tmp_path / "ws", embedding=False, documents=documents)
    path = workspace.root / "collections" / "kb.json"
    path.write_text(json.dumps({"name": "kb", "fields": {"title": {"type": "text"}, "content": {"type": "text"}}}))
    write_config(workspace, "final", "keyword", filters={"status": "final"})
    return workspace


def run(place: Workspace, *arguments: object) -> Ran:
    return hive(*arguments, "-w", place.root, "--json")


def test_fields_that_no_collection_declares_are_told_with_their_types(place: Workspace) -> None:
    """Text, mappings, and what one document alone has, or each for itself, are no fields to filter by."""
    found = {one["name"]: (one["type"], one["documents"]) for one in run(place, "fields").json["undeclared"]}
    assert found == {
        "status": ("keyword", 3),
        "created": ("date", 3),
        "number": ("number", 3),
        "draft": ("boolean", 3),
        "tags": ("keyword", 2),
    }


def test_a_field_that_is_named_needs_no_values_that_documents_share(place: Workspace) -> None:
    assert run(place, "fields", "--add", "by", "--add", "lonely").code == 0
    found = {one["name"]: [value["value"] for value in one["values"]] for one in run(place, "fields").json["fields"]}
    assert (found["by"], found["lonely"]) == (["ann", "bea"], ["x"])
    assert run(place, "fields", "--add", "abstract").code == 2


def test_an_index_of_new_documents_tells_of_them_once(place: Workspace) -> None:
    assert "fields that can't be filtered yet: created (3 documents)" in hive("index", "-w", place.root).out
    assert "can't be filtered yet" not in hive("index", "-w", place.root).out


def test_a_field_that_is_added_filters_at_once(place: Workspace) -> None:
    assert run(place, "query", "dial", "--config", "final").code == 1  # HIVE-206
    added = run(place, "fields", "--add", "status", "--add", "created")
    assert added.code == 0
    assert {one["name"] for one in added.json["undeclared"]} == {"number", "draft", "tags"}
    (status,) = (one for one in added.json["fields"] if one["name"] == "status")
    assert (status["filterable"], status["values"]) == (
        True,
        [{"value": "active", "documents": 1}, {"value": "final", "documents": 2}],
    )
    assert {hit["doc_id"] for hit in run(place, "query", "dial", "--config", "final").json["hits"]} == {
        "d0.md",
        "d1.md",
    }


@pytest.mark.parametrize(("name", "told"), [("stats", "did you mean status?"), ("title", "title is declared already")])
def test_only_fields_that_documents_have_can_be_added(place: Workspace, name: str, told: str) -> None:
    before = (place.root / "collections" / "kb.json").read_text()
    ran = run(place, "fields", "--add", name)
    assert (ran.code, told in ran.err + ran.out) == (2, True)
    assert (place.root / "collections" / "kb.json").read_text() == before
