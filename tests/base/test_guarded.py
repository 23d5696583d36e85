"""Below a guarded folder no link is followed, whoever reads or writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hive_agents.base.errors import HiveError
from hive_agents.base.files import atomic_write, locked, make_folder, opened, read_bytes, remove, unlinked
from hive_agents.base.files.atomic import append_line, atomic_symlink
from hive_agents.base.files.guarded import guard, release


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    folder = tmp_path / "root"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "own").write_text("own")
    guard(folder)
    yield folder
    release(folder)


def hold(path: Path) -> None:
    with locked(path, "testing"):
        pass


USES: dict[str, Callable[[Path], object]] = {
    "read": read_bytes,
    "write": lambda path: atomic_write(path, b"changed"),
    "append": lambda path: append_line(path, "changed"),
    "lock": hold,
    "open": lambda path: os.close(opened(path, os.O_WRONLY | os.O_TRUNC)),
    "name": unlinked,
    "folder": lambda path: make_folder(path / "made"),
    "remove": lambda path: remove(path / "secret"),
}


@pytest.mark.parametrize("use", [name for name in USES if name not in ("write", "folder", "remove")])
def test_a_link_in_the_place_of_a_file_is_refused(root: Path, use: str) -> None:
    (root / "link").symlink_to("../outside/secret")
    with pytest.raises(HiveError) as raised:
        USES[use](root / "link")
    assert raised.value.diagnostics[0].code == "HIVE-114"
    assert (root.parent / "outside" / "secret").read_text() == "secret"


@pytest.mark.parametrize("use", [name for name in USES if name not in ("folder", "remove")])
def test_a_link_in_the_place_of_a_folder_is_refused(root: Path, use: str) -> None:
    (root / "away").symlink_to("../outside")
    with pytest.raises(HiveError) as raised:
        USES[use](root / "away" / "secret")
    found = raised.value.diagnostics[0]
    assert (found.code, found.file) == ("HIVE-114", "away")
    assert [path.name for path in (root.parent / "outside").iterdir()] == ["secret"]
    assert (root.parent / "outside" / "secret").read_text() == "secret"


@pytest.mark.parametrize("use", ["folder", "remove"])
def test_nothing_is_made_or_removed_through_a_link(root: Path, use: str) -> None:
    (root / "away").symlink_to("../outside")
    with pytest.raises(HiveError) as raised:
        USES[use](root / "away")
    assert raised.value.diagnostics[0].code == "HIVE-114"
    assert [path.name for path in (root.parent / "outside").iterdir()] == ["secret"]


def test_a_link_to_a_file_of_the_same_folder_is_refused_too(root: Path) -> None:
    (root / "alias").symlink_to("inner/own")
    with pytest.raises(HiveError):
        read_bytes(root / "alias")


def test_writing_replaces_a_link_and_not_what_it_leads_to(root: Path) -> None:
    atomic_symlink(root / "active.json", "v1.json")
    (root / "v1.json").write_text("one")
    atomic_symlink(root / "active.json", "v2.json")
    assert (os.readlink(root / "active.json"), (root / "v1.json").read_text()) == ("v2.json", "one")
    remove(root / "active.json")
    assert not (root / "active.json").is_symlink()
    remove(root / "active.json")


def test_dots_are_taken_back_by_name_before_anything_is_opened(root: Path) -> None:
    (root / "away").symlink_to("../outside")
    assert read_bytes(root / "away" / ".." / "inner" / "own") == b"own"


def test_a_pipe_is_no_file_and_nobody_waits_for_it(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(OSError, match="it is no file"):
        read_bytes(root / "pipe")


def test_a_file_that_is_missing_is_missing_under_its_whole_name(root: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        read_bytes(root / "inner" / "none")
    assert raised.value.filename == str(root / "inner" / "none")


def test_the_guarded_folder_itself_may_be_reached_by_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    guard(tmp_path / "alias")
    atomic_write(root / "inner" / "new", b"1")
    assert read_bytes(root / "inner" / "new") == b"1"


def test_outside_of_guarded_folders_links_lead_where_they_lead(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    assert read_bytes(tmp_path / "link") == b"text"


def test_what_another_folder_lends_is_opened_there_by_its_rules(root: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (root / "inner" / "away").symlink_to("../../outside/secret")
    guard(scratch, {"inner": root / "inner"})
    assert read_bytes(scratch / "inner" / "own") == b"own"
    with pytest.raises(HiveError):
        read_bytes(scratch / "inner" / "away")
    release(scratch)
