"""A source that an import remembers is forgotten, and two documents of one name are told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hive_agents import Workspace
from tests.sample import hive


@pytest.fixture
def own(tmp_path: Path) -> Workspace:
    """With two sources, of which either has an `a.md`."""
    hive("init", tmp_path / "ws", "--empty")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# A of {name}\n")
    (tmp_path / "one" / "b.md").write_text("# B\n")
    for name in ("one", "two"):
        assert hive("import", tmp_path / name, "-w", tmp_path / "ws").code == 0
    return Workspace(tmp_path / "ws")


def documents(own: Workspace) -> list[str]:
    return sorted(path.name for path in own.documents.rglob("*.md"))


def test_a_name_that_another_document_has_is_told(own: Workspace, tmp_path: Path) -> None:
    assert documents(own) == ["a-md.md", "a.md", "b.md"]
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "b.md").write_text("# Another B\n")
    told = hive("import", tmp_path / "three", "-w", own.root, "--json").json["beside"]
    assert told == [{"doc_id": "b-md.md", "named": "b.md", "file": str(tmp_path / "three" / "b.md")}]
    (tmp_path / "three" / "a.md").write_text("# A third A\n")
    assert "a-2.md beside a.md" in hive("import", "-w", own.root).out
    assert "beside" not in hive("import", "-w", own.root).out


def test_a_forgotten_source_is_looked_at_no_more_and_its_documents_stay(own: Workspace, tmp_path: Path) -> None:
    ran = hive("import", "--forget", tmp_path / "one", "-w", own.root)
    assert (ran.code, "2 documents stay in documents/ as your own" in ran.out) == (0, True)
    shutil.rmtree(tmp_path / "one")
    again = hive("import", "--delete", "-w", own.root, "--json")
    assert (again.code, again.json["unchanged"], again.json["gone"]) == (0, 1, [])
    assert documents(own) == ["a-md.md", "a.md", "b.md"]


def test_with_delete_the_documents_go_that_nobody_edited(own: Workspace, tmp_path: Path) -> None:
    (own.documents / "b.md").write_text("# B as I want it\n")
    shutil.rmtree(tmp_path / "one")
    value = hive("import", "--forget", tmp_path / "one", "--delete", "-w", own.root, "--json").json
    assert value == {"forgotten": [str(tmp_path / "one")], "deleted": ["a.md"], "stay": ["b.md"]}
    assert documents(own) == ["a-md.md", "b.md"]


def test_a_source_of_several_places_is_forgotten_where_it_is_said(own: Workspace, tmp_path: Path) -> None:
    assert hive("import", tmp_path / "two", "--to", "second", "-w", own.root).code == 0
    value = hive("import", "--forget", tmp_path / "two", "--to", "second", "--delete", "-w", own.root, "--json").json
    assert value["deleted"] == ["second/a.md"]
    assert hive("import", tmp_path / "two", "-w", own.root, "--json").json["unchanged"] == 1


def test_what_is_not_remembered_is_not_forgotten_and_nothing_else_is_either(own: Workspace, tmp_path: Path) -> None:
    ran = hive("import", "--forget", tmp_path / "two", tmp_path / "tow", "-w", own.root)
    assert (ran.code, str(tmp_path / "two") in ran.err) == (2, True)
    assert hive("import", "-w", own.root, "--json").json["unchanged"] == 3
    for given in ([], [tmp_path / "two", "--theirs"], [tmp_path / "two", "--field", "version=3"]):
        ran = hive("import", "--forget", *given, "-w", own.root)
        assert (ran.code, "--forget takes sources" in ran.err) == (2, True)
