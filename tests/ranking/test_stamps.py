"""Which files are read again, on file systems whose times are as fine or as coarse as there are."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.index.indexing import index_is_stale
from hive_agents.ranking import build_index

SECOND = 1_000_000_000
BEFORE, AFTER = "# The lamp\n\nIt is blue.\n", "# The lamp\n\nIt is pink.\n"
Status = Callable[[os.stat_result], os.stat_result]


@pytest.fixture
def place(text_workspace: Workspace) -> Workspace:
    (text_workspace.documents / "lamp.md").write_text(BEFORE)
    return text_workspace


def times_are(monkeypatch: pytest.MonkeyPatch, of: Callable[[int], int]) -> None:
    """Give every file other times than it has, as another file system would."""
    true = os.lstat

    def lstat(path: str) -> os.stat_result:
        found = true(path)
        times = {f"st_{kind}_ns": of(getattr(found, f"st_{kind}_ns")) for kind in ("mtime", "ctime", "atime")}
        return os.stat_result(tuple(found), times)

    monkeypatch.setattr(os, "lstat", lstat)


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file be ten seconds older than it is."""
    times_are(monkeypatch, lambda ns: ns - 10 * SECOND)


def edited(path: Path, text: str = AFTER) -> None:
    """Write in place: the same inode, and here the same size."""
    with path.open("r+") as file:
        file.write(text)


def updated(place: Workspace) -> int:
    return build_index(place, quick=True).updated


def stamped(place: Workspace) -> set[str]:
    with sqlite3.connect(place.database) as connection:
        rows = connection.execute("SELECT doc_id FROM file_stamps").fetchall()
    connection.close()
    return {row[0] for row in rows}


def test_an_edit_of_the_same_size_is_seen(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    build_index(place)
    edited(place.documents / "lamp.md")
    assert index_is_stale(place)
    assert (updated(place), updated(place)) == (1, 0)
    assert not index_is_stale(place)


@pytest.mark.parametrize("granule", [1, 4_000_000, SECOND, 2 * SECOND])
def test_an_edit_of_the_same_size_and_time_is_seen(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, granule: int
) -> None:
    times_are(monkeypatch, lambda ns: ns // granule * granule)
    build_index(place)
    for text in (AFTER, BEFORE, AFTER):
        edited(place.documents / "lamp.md", text)
        assert index_is_stale(place)
        assert updated(place) == 1


def test_a_file_that_was_just_written_is_read_again_until_its_time_has_passed(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_are(monkeypatch, lambda _: time.time_ns())
    build_index(place)
    assert "lamp.md" not in stamped(place)
    monkeypatch.undo()
    settle(monkeypatch)
    assert updated(place) == 0
    assert "lamp.md" in stamped(place)


def test_an_edit_whose_time_was_set_back_is_seen(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    lamp = place.documents / "lamp.md"
    settle(monkeypatch)
    build_index(place)
    before = lamp.stat()
    edited(lamp)
    os.utime(lamp, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert updated(place) == 1


def test_a_file_that_took_anothers_place_with_its_times_is_seen(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    lamp, other = place.documents / "lamp.md", place.documents / "lamp.txt"
    times_are(monkeypatch, lambda _: SECOND)
    build_index(place)
    other.write_text(AFTER)
    os.replace(other, lamp)
    assert updated(place) == 1


def test_what_has_the_stamp_of_before_is_not_read_unless_everything_is(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_are(monkeypatch, lambda _: SECOND)
    build_index(place)
    edited(place.documents / "lamp.md")
    assert (updated(place), index_is_stale(place), build_index(place).updated) == (0, False, 0)
    assert build_index(place, rebuild=True).updated == 9
    assert any(b"It is pink." in file.read_bytes() for file in place.state.glob("hive.db*"))


def test_a_file_whose_clock_runs_ahead_is_always_read(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    times_are(monkeypatch, lambda _: 4_000_000_000 * SECOND)
    build_index(place)
    edited(place.documents / "lamp.md")
    assert updated(place) == 1
    assert stamped(place) == set()


def test_stamps_of_files_that_are_gone_go(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    build_index(place)
    (place.documents / "lamp.md").unlink()
    assert build_index(place, quick=True).deleted == 1
    assert "lamp.md" not in stamped(place)
    assert len(stamped(place)) == 8


def test_touched_files_are_read_and_nothing_is_indexed(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    build_index(place)
    for path in place.documents.rglob("*.md"):
        path.touch()
    assert not index_is_stale(place)
    report = build_index(place, quick=True)
    assert (report.updated, report.unchanged) == (0, 9)
