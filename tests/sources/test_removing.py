"""A source that is removed: its entry, what was fetched and its log go, its documents as somebody says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hive_agents.base.files import locked
from hive_agents.sources import add_source
from hive_agents.sources.running import run_source
from hive_agents.store import audit
from hive_agents.workspace import Workspace
from tests.sample import hive


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    root = tmp_path / "ws"
    (root / "collections").mkdir(parents=True)
    (tmp_path / "source").mkdir()
    for name in ("a", "b"):
        (tmp_path / "source" / f"{name}.md").write_text(f"# {name}\n\nA text.\n")
    values = {"kind": "folder", "url": str(tmp_path / "source"), "options": {"pattern": "*.md"}}
    for name in ("notes", "notes-2"):
        add_source(Workspace(root), name, values)
    with (root / "hive.toml").open("a") as file:
        file.write("\n# what the gate asks\n[gate]\nalpha = 0.04\n")
    place = Workspace(root)
    run_source(place, "notes")
    run_source(place, "notes-2")
    (place.documents / "notes" / "b.md").write_text("# b\n\nMine.\n")
    return place


@pytest.mark.parametrize("delete", [True, False])
def test_its_documents_go_or_stay_and_all_else_of_it_goes(place: Workspace, delete: bool) -> None:
    word = "--delete-documents" if delete else "--keep-documents"
    told = hive("sources", "remove", "notes", word, "--yes", "-w", place.root, "--json")
    assert told.code == 0
    assert (told.json["deleted"], sorted(told.json["stay"])) == (
        (["notes/a.md"], ["notes/b.md"]) if delete else ([], ["notes/a.md", "notes/b.md"])
    )
    assert (place.documents / "notes" / "a.md").exists() is not delete
    assert (place.documents / "notes" / "b.md").exists()
    settings = (place.root / "hive.toml").read_text()
    assert list(tomllib.loads(settings)["sources"]) == ["notes-2"]
    assert settings.endswith("# what the gate asks\n[gate]\nalpha = 0.04\n")
    assert not (place.root / ".hive" / "sources" / "notes").exists()
    assert hive("sources", "log", "notes", "-w", place.root, "--json").codes == {"HIVE-409"}
    (row,) = hive("sources", "list", "-w", place.root, "--json").json["sources"]
    assert (row["name"], row["documents"], row["trusted"]) == ("notes-2", 2, True)
    assert audit.recorded(Workspace(place.root), "source_removed")[0]["name"] == "notes"


def test_a_source_that_runs_is_not_removed(place: Workspace) -> None:
    with locked(place.state_folder("sources") / "notes" / "run.lock", "running the source notes"):
        told = hive("sources", "remove", "notes", "--delete-documents", "--yes", "-w", place.root, "--json")
    assert (told.code, told.codes) == (3, {"HIVE-402"})
    assert (place.documents / "notes" / "a.md").exists()
    assert "notes" in tomllib.loads((place.root / "hive.toml").read_text())["sources"]


def test_nothing_is_removed_without_a_word(place: Workspace) -> None:
    before = (place.root / "hive.toml").read_text()
    for words in ([], ["--delete-documents"], ["--keep-documents", "--delete-documents", "--yes"]):
        told = hive("sources", "remove", "notes", *words, "-w", place.root, "--json")
        assert (told.code, told.codes) == (2, {"HIVE-409"})
    assert hive("sources", "remove", "note", "--yes", "-w", place.root, "--json").codes == {"HIVE-409"}
    assert (place.root / "hive.toml").read_text() == before


def test_an_entry_that_is_no_table_is_left_to_its_owner(place: Workspace) -> None:
    (place.root / "hive.toml").write_text('[sources]\nnotes = {kind = "folder", url = "../source"}\n')
    told = hive("sources", "remove", "notes", "--keep-documents", "-w", place.root, "--json")
    assert "by hand" in told.json["diagnostics"][0]["fix"]
    assert (place.documents / "notes" / "a.md").exists()


def test_a_source_whose_readers_are_none_is_not_written(place: Workspace) -> None:
    before = (place.root / "hive.toml").read_text(encoding="utf-8")
    words = "sources add site --kind web --url https://example.org/ --view everyone --json"
    told = hive(*words.split(), "-w", place.root)
    assert told.codes == {"HIVE-105"}
    assert (place.root / "hive.toml").read_text(encoding="utf-8") == before
