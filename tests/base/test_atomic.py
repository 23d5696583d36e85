from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from hive_agents.base.errors import HiveError
from hive_agents.base.files import atomic_write, atomic_write_text, disk_errors, locked
from hive_agents.base.files.atomic import append_line, atomic_create, atomic_symlink

ROOT = Path(__file__).parents[2]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_write_makes_folders_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    atomic_write_text(path, "é\n")
    assert path.read_bytes() == "é\n".encode()
    assert [entry.name for entry in path.parent.iterdir()] == ["b.json"]


def test_write_keeps_the_mode_of_the_file_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "f"
    atomic_write(path, b"1")
    old = os.umask(0)
    os.umask(old)
    assert mode(path) == 0o666 & ~old
    path.chmod(0o640)
    atomic_write(path, b"2")
    assert mode(path) == 0o640
    atomic_write(path, b"3", mode=0o600)
    assert mode(path) == 0o600


def test_reader_of_the_old_file_keeps_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "f"
    atomic_write(path, b"old" * 1000)
    with path.open("rb") as reader:
        atomic_write(path, b"new")
        assert reader.read() == b"old" * 1000
    assert path.read_bytes() == b"new"


def test_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "f"
    (path / "inside").mkdir(parents=True)  # a folder cannot be replaced by a file
    with pytest.raises(HiveError) as raised:
        atomic_write(path, b"new")
    assert (raised.value.diagnostics[0].code, raised.value.exit_code) == ("HIVE-403", 3)
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]
    assert (path / "inside").is_dir()


def test_a_file_that_is_there_is_not_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for data in (b"first", b"second"):
        atomic_create(path, data, mode=0o600)
        assert (path.read_bytes(), mode(path)) == (b"first", 0o600)
        assert [entry.name for entry in tmp_path.iterdir()] == ["f"]
    with pytest.raises(HiveError) as raised:
        atomic_create(tmp_path / "gone" / "f", b"", mode=0o600)
    assert raised.value.diagnostics[0].code == "HIVE-403"
    assert not (tmp_path / "gone").exists()


def test_link_is_replaced_in_one_step(tmp_path: Path) -> None:
    link = tmp_path / "active.json"
    for target in ("v1.json", "v2.json", "v2.json"):
        atomic_symlink(link, target)
        assert str(link.readlink()) == target
    link.unlink()
    link.write_text("a file")
    atomic_symlink(link, "v3.json")
    assert str(link.readlink()) == "v3.json"
    assert [entry.name for entry in tmp_path.iterdir()] == ["active.json"]


def test_lines_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "log" / "log.jsonl"
    append_line(path, "one")
    append_line(path, "zwölf")
    assert path.read_text(encoding="utf-8") == "one\nzwölf\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_is_a_diagnostic() -> None:
    with pytest.raises(HiveError) as raised:
        append_line(Path("/dev/full"), "one")
    (found,) = raised.value.diagnostics
    assert (found.code, raised.value.exit_code) == ("HIVE-403", 3)
    assert "disk is full" in found.message
    assert "free some space" in str(found.fix)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO, errno.ENOTDIR])
def test_every_refusal_of_the_system_is_a_diagnostic(number: int) -> None:
    with pytest.raises(HiveError) as raised, disk_errors(Path("a/f")):
        raise OSError(number, os.strerror(number))
    (found,) = raised.value.diagnostics
    assert (found.code, found.file) == ("HIVE-403", "f")
    assert found.fix


def test_other_errors_pass_through() -> None:
    with pytest.raises(KeyError), disk_errors(Path("f")):
        raise KeyError


HOLDER = """
import sys
from pathlib import Path
from hive_agents.base.files import locked
with locked(Path(sys.argv[1]), "indexing"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def held_by_another_process(path: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    return holder


def test_second_process_waits_and_then_fails_clearly(tmp_path: Path) -> None:
    path = tmp_path / ".hive" / "write.lock"
    holder = held_by_another_process(path)
    with pytest.raises(HiveError) as raised, locked(path, "deploying", timeout=0.05):
        pass
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, raised.value.exit_code) == ("HIVE-402", ".hive/write.lock", 3)
    assert found.fix
    holder.communicate("\n")
    with locked(path, "deploying"):
        assert mode(path) == 0o600
        assert mode(path.parent) == 0o700


def test_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "write.lock"
    holder = held_by_another_process(path)
    holder.kill()
    holder.communicate()
    with locked(path, "deploying", timeout=5):
        pass


def test_lock_holds_between_threads_and_is_freed_by_an_error(tmp_path: Path) -> None:
    path, order = tmp_path / "lock", []

    def second() -> None:
        with locked(path, "waiting"):
            order.append("second")

    thread = threading.Thread(target=second)
    with suppress(KeyError), locked(path, "working"):
        thread.start()
        order.append("first")
        raise KeyError
    thread.join()
    assert order == ["first", "second"]


def test_who_waits_for_a_thread_of_its_own_process_hears_of_it_at_the_end_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_agents.base.files.atomic._SILENT_SECONDS", 0.01)
    told: list[str] = []
    with (
        locked(tmp_path / "write.lock", "indexing"),
        pytest.raises(HiveError, match=r"another thread of this process is indexing \(process "),
        locked(tmp_path / "write.lock", "deploying", timeout=0.05, waiting=told.append),
    ):
        pass
    assert told == []


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, flock, removed = tmp_path / "write.lock", fcntl.flock, []

    def removing(handle: int, operation: int) -> None:
        if not removed:
            removed.append(path.unlink())
        flock(handle, operation)

    monkeypatch.setattr("fcntl.flock", removing)
    with (
        locked(path, "indexing"),
        pytest.raises(HiveError, match="is indexing"),
        locked(path, "deploying", timeout=0.05),
    ):
        pass
    assert removed
