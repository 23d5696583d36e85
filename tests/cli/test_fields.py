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


@pytest.fixture
def rules(tmp_path: Path) -> Workspace:
    said = [
        {"status": "effective", "updated": "2025-01-02", "release": "v2.1", "author": "ann", "kind": "sop"},
        {"status": "effective", "updated": "2024-01-02", "release": "v2.0", "author": "bo", "kind": "faq"},
        {"status": "retired", "updated": "2021-01-02", "release": "v1.0", "author": "bo", "replaces": "d1.md"},
        {"status": "retired", "updated": "2020-01-02", "release": "v1.0", "author": "ann", "kind": "sop"},
    ]
    documents = {
        f"d{n}.md": "---\n" + "".join(f"{key}: {value}\n" for key, value in one.items()) + f"---\nDial {n}.\n"
        for n, one in enumerate(said)
    }
    return make_workspace(tmp_path / "rules", embedding=False, documents=documents)


def test_documents_propose_what_an_optimizer_may_do_and_nothing_is_written(rules: Workspace) -> None:
    """Status, version and dates rank, what no longer holds may hide, people are no lever, a kind is none of these."""
    file = rules.root / "collections" / "kb.json"
    before = file.read_text()
    ran = run(rules, "fields")
    assert {f"{one['field']}.{one['key']}": one["value"] for one in ran.json["proposed"]} == {
        "status.ranks": True,
        "status.may_hide": ["retired"],
        "updated.ranks": True,
        "release.ranks": True,
        "author.person": True,
    }
    assert "1 documents say what replaces what (replaces)" in ran.json["proposed"][0]["why"]
    assert file.read_text() == before
    assert "hive fields --declare" in hive("fields", "-w", rules.root).out


def test_a_person_agrees_by_a_flag_and_hides_only_by_name(rules: Workspace) -> None:
    assert run(rules, "fields", "--declare", "status", "--declare", "author").code == 0
    declared = {one["name"]: one for one in run(rules, "fields").json["fields"]}
    assert (declared["status"]["ranks"], declared["status"]["may_hide"]) == (True, [])
    assert (declared["author"]["person"], declared["author"]["filterable"]) == (True, True)
    ran = run(rules, "fields", "--declare", "status.may_hide", "--declare", "release.ranks")
    found = {one["name"]: one for one in ran.json["fields"]}
    assert (found["status"]["may_hide"], found["release"]["ranks"]) == (["retired"], True)
    assert {one["field"] for one in ran.json["proposed"]} == {"updated"}


@pytest.mark.parametrize("name", ["kind", "state", "kind.may_hide", "nothing.ranks"])
def test_what_is_not_proposed_for_a_field_is_not_declared(rules: Workspace, name: str) -> None:
    ran = run(rules, "fields", "--declare", name)
    assert (ran.code, "nothing is proposed" in ran.err + ran.out) == (2, True)


def test_an_owner_declares_what_no_document_proposes(rules: Workspace) -> None:
    ran = run(rules, "fields", "--declare", "kind.ranks", "--declare", "kind.may_hide=faq")
    (kind,) = (one for one in ran.json["fields"] if one["name"] == "kind")
    assert (kind["ranks"], kind["may_hide"]) == (True, ["faq"])
