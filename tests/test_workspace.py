from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from tests.conftest import make_workspace


def no_workspace(start: Path) -> None:
    with pytest.raises(HiveError) as raised:
        Workspace.find(start)
    (found,) = raised.value.diagnostics
    assert (found.code, raised.value.exit_code) == ("HIVE-410", 2)
    assert "hive init" in str(found.fix)


def test_workspace_is_found_upwards(text_workspace: Workspace) -> None:
    for start in (text_workspace.root, text_workspace.documents / "faqs"):
        assert Workspace.find(start).root == text_workspace.root


def test_nearest_workspace_wins(text_workspace: Workspace) -> None:
    inner = make_workspace(text_workspace.root / "examples" / "inner", embedding=False)
    assert Workspace.find(inner.documents).root == inner.root


def test_folder_workspace_is_the_last_resort(tmp_path: Path) -> None:
    no_workspace(tmp_path)
    made = make_workspace(tmp_path / "workspace", embedding=False)
    assert Workspace.find(tmp_path).root == made.root
    (tmp_path / "other").mkdir()
    no_workspace(tmp_path / "other")


def test_search_starts_where_the_process_is(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(text_workspace.documents)
    assert Workspace.find().root == text_workspace.root


def test_folder_without_collections_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(HiveError) as raised:
        Workspace(tmp_path)
    assert (raised.value.diagnostics[0].code, raised.value.exit_code) == ("HIVE-410", 2)
    (tmp_path / "collections").write_text("a file")
    with pytest.raises(HiveError):
        Workspace(tmp_path)


def test_state_belongs_to_its_owner_alone(text_workspace: Workspace) -> None:
    assert stat.S_IMODE(text_workspace.state.stat().st_mode) == 0o700
    text_workspace.index()
    files = [path for path in text_workspace.state.rglob("*") if path.is_file()]
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_state_that_is_a_file_is_a_diagnostic(text_workspace: Workspace) -> None:
    (text_workspace.root / ".hive").write_text("")
    with pytest.raises(HiveError) as raised:
        text_workspace.index()
    assert (raised.value.diagnostics[0].code, raised.value.exit_code) == ("HIVE-403", 3)


def test_paths_are_shown_below_the_workspace(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    root = text_workspace.root
    link = root.parent / "link"
    link.symlink_to(root)
    (root / "configs" / "active.json").symlink_to("v1.json")
    monkeypatch.chdir(root / "documents")
    for path, shown in {
        root / "configs" / "v1.json": "configs/v1.json",
        Path("../configs/v1.json"): "configs/v1.json",
        Path("faqs/../../hive.toml"): "hive.toml",
        link / "configs" / "v1.json": "configs/v1.json",
        root / "configs" / "active.json": "configs/active.json",
        root.parent / "other.json": (root.parent / "other.json").as_posix(),
    }.items():
        assert text_workspace.relative(path) == shown


def test_one_writer_at_a_time(text_workspace: Workspace) -> None:
    with text_workspace.exclusive("indexing"):
        with pytest.raises(HiveError) as raised, text_workspace.exclusive("deploying", timeout=0.01):
            pass
        assert raised.value.diagnostics[0].code == "HIVE-402"
    with text_workspace.exclusive("deploying", timeout=0.01):
        pass


def test_engine_and_index_are_doors(text_workspace: Workspace) -> None:
    assert text_workspace.index().documents == 8
    assert text_workspace.engine().search("rotate key", "words").hits[0].doc_id == "faqs/rotate-key.md"
    assert repr(text_workspace) == f"Workspace({str(text_workspace.root)!r})"


def test_opening_a_workspace_loads_nothing_of_the_search(text_workspace: Workspace) -> None:
    code = """
import sys
from hive_agents import Workspace
place = Workspace(sys.argv[1])
search = ("hive_agents.ranking.", "hive_agents.index", "hive_agents.engines", "hive_agents.models")
loaded = {name for name in sys.modules if name.startswith(search)} - {"hive_agents.ranking.searchable"}
print(type(place.find(place.documents)) is Workspace, sorted(loaded))
"""
    command = [sys.executable, "-c", code, str(text_workspace.root)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True []\n"
