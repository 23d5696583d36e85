"""A backup, and the workspace that is made of it."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
import subprocess
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import AgentRun
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.host import back_up
from hive_agents.models import Chain
from hive_agents.runs import RunStore
from hive_agents.store import audit, connected
from hive_agents.workspace.trusted import trust
from hive_agents.workspace.workspace import RemoteDatabase
from tests.agents.conftest import GOAL, agent_json, node, write_json
from tests.agents.loops import said, sets
from tests.real_engines import postgres
from tests.records import all_records
from tests.sample import hive

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    root = tmp_path / "ws"
    for folder in ("collections", "documents", "configs"):
        (root / folder).mkdir(parents=True)
    (root / "hive.toml").write_text('[models]\nembedding = "none"\n', encoding="utf-8")
    (root / "documents" / "bees.md").write_text("# Bees\n", encoding="utf-8")
    found = Workspace(root)
    write_json(found, "goals/digest.json", GOAL)
    write_json(found, "agents/asks.json", agent_json(node("ask", output_keys=["text"], pause_before=True), id="asks"))
    trust(found)
    return found


def packed(place: Workspace, *to: Path) -> Path:
    return back_up(place, *to, progress=lambda what, done, total: None).path


def restored(archive: Path, folder: Path) -> Workspace:
    folder.mkdir()
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="tar")
    found = Workspace(folder)
    trust(found)
    return found


def names(archive: Path) -> set[str]:
    with tarfile.open(archive) as opened:
        return set(opened.getnames())


def models(*answers: Any) -> dict[str, Any]:
    return {"models": lambda role: Chain([said(*answers)])}


@pytest.mark.slow
def test_a_run_that_waited_goes_on_in_what_a_backup_is_unpacked_to(place: Workspace, tmp_path: Path) -> None:
    run = AgentRun.start(place, "asks", {}, **models())
    request_id = run.go()["approval_ids"][0]
    other = restored(packed(place), tmp_path / "other")
    assert audit.verify(other).ok
    assert list(audit.entries(other)) == list(audit.entries(place))
    ApprovalStore(other).decide(request_id, "approve", by="user:dana")
    ended = AgentRun.resume(other, run.row.run_id, **models([sets("text", "bees")])).go()
    assert (ended["status"], ended["outputs"]) == ("done", {"text": "bees"})
    assert RunStore(place).get(run.row.run_id).status == "waiting"


def test_what_is_being_written_is_not_in_a_backup_and_holds_it_up_no_longer(place: Workspace, tmp_path: Path) -> None:
    RunStore(place).insert("worker", {}, agent=None, owner=None, thread_id="t1", key=None, run_id="r1")
    with connected(place.database), closing(sqlite3.connect(place.database)) as writing:
        writing.execute("BEGIN IMMEDIATE")
        writing.execute("UPDATE runs SET status = 'done'")
        other = restored(packed(place), tmp_path / "other")
        writing.rollback()
    assert RunStore(other).get("r1").status == "queued"


def test_a_backup_holds_links_and_files_of_two_names_and_no_key_or_earlier_backup(place: Workspace) -> None:
    (place.configs / "v1.json").write_text("{}", encoding="utf-8")
    (place.configs / "active.json").symlink_to("v1.json")
    os.link(place.documents / "bees.md", place.documents / "wasps.md")
    (place.state / "local.key").write_text("secret", encoding="utf-8")
    packed(place, place.root.parent / "first.tar.gz")
    first = packed(place)
    second = packed(place, place.root.parent)
    assert first.parent == place.state / "backups"
    assert names(second) >= {"documents/bees.md", "documents/wasps.md", "configs/active.json", "hive.toml"}
    assert not {name for name in names(second) if "local.key" in name or "backups" in name or name.endswith(".lock")}
    with tarfile.open(second) as archive:
        assert archive.getmember("configs/active.json").linkname == "v1.json"
        twice = archive.extractfile("documents/wasps.md")
        assert twice is not None
        assert twice.read() == b"# Bees\n"
    assert second.stat().st_mode & 0o077 == 0


def test_what_is_no_file_ends_no_backup(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.documents)  # an address of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.md")
        os.mkfifo("pipe.md")
        assert {name for name in names(packed(place)) if name.startswith("documents/")} == {"documents/bees.md"}


@pytest.mark.parametrize("name", ["taken.tar.gz", "ws/documents/inside.tar.gz", "unmounted", "lost.tar.gz"])
def test_a_backup_is_written_over_nothing_and_into_no_workspace(place: Workspace, name: str) -> None:
    (place.root.parent / "taken.tar.gz").write_text("kept", encoding="utf-8")
    (place.root.parent / "lost.tar.gz").symlink_to(place.root.parent / "nowhere")
    with pytest.raises(HiveError) as refused:
        packed(place, place.root.parent / name)
    assert (refused.value.diagnostics[0].code, refused.value.exit_code) == ("HIVE-409", 2)
    assert (place.root.parent / "taken.tar.gz").read_text(encoding="utf-8") == "kept"


def test_a_folder_that_cannot_be_read_is_told_and_not_left_out(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = place.documents / "closed"
    closed.mkdir()
    listed = os.scandir

    def scandir(path: Any) -> Any:  # or an open folder's number
        if str(path) == str(closed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(HiveError, match="documents/closed cannot be read"):
        packed(place, place.root.parent / "mine.tar.gz")
    monkeypatch.undo()
    assert sorted(path.name for path in place.root.parent.iterdir()) == ["ws"]


def test_a_disk_without_second_names_and_modes_takes_a_backup(
    place: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stick = tmp_path / "stick"
    stick.mkdir()
    place.database.touch()
    changed = os.chmod

    def refused(path: Any, *rest: Any, **options: Any) -> None:
        if Path(path).is_relative_to(stick):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        changed(path, *rest, **options)

    monkeypatch.setattr(os, "link", refused)
    monkeypatch.setattr(os, "chmod", refused)
    made = packed(place, stick)
    monkeypatch.undo()
    assert [path.name for path in stick.iterdir()] == [made.name]
    assert made.stat().st_mode & 0o077 == 0
    with tarfile.open(made) as archive:
        assert archive.getmember(".hive/hive.db").mode == 0o600


def test_records_on_a_server_that_is_away_make_no_backup(place: Workspace) -> None:
    place.__dict__["records"] = RemoteDatabase("postgresql://u@127.0.0.1:9/db", "hive", place.root)
    with pytest.raises(HiveError, match="HIVE-402"):
        packed(place)
    assert not list((place.state / "backups").iterdir())


@pytest.mark.slow
@pytest.mark.sqlite_file
def test_records_on_a_server_are_dumped_into_the_archive(
    place: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restored into another database, they are the same, and the audit log is whole."""
    with postgres() as server:
        schema, folder = "backed", tmp_path / "restored"
        moved = hive("storage", "setup", server.url, "--namespace", schema, "--yes", "-w", place.root, "--json")
        assert moved.json["verified"], moved.err
        there = Workspace(place.root)
        audit.append(there, "note", text="last")
        before = all_records(there)
        monkeypatch.setenv("PATH", f"{tmp_path / 'none'}")
        told = hive("backup", tmp_path / "whole.tar.gz", "-w", place.root, "--json")
        assert (told.codes, "pg_dump --schema backed" in told.out) == ({"HIVE-409"}, True)
        monkeypatch.setenv("PATH", f"{server.programs}:{os.defpath}")
        assert hive("backup", tmp_path / "whole.tar.gz", "-w", place.root, "--json").code == 0
        with tarfile.open(tmp_path / "whole.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        server.run("CREATE DATABASE other")
        other = server.url.replace("@/postgres", "@/other")
        restore = [server.programs / "pg_restore", "--no-owner", "-d", other, folder / ".hive" / "records.dump"]
        subprocess.run(restore, check=True)
        settings = folder / "hive.toml"
        settings.write_text(settings.read_text().replace(server.url, other))
        trust(Workspace(folder))
        restored = Workspace(folder)
        assert all_records(restored) == before
        assert audit.verify(restored).ok


def test_the_command_says_where_the_backup_is(place: Workspace, tmp_path: Path) -> None:
    told = hive("backup", tmp_path / "mine.tar.gz", "-w", place.root, "--json")
    assert told.code == 0, told.err
    assert told.json["file"] == str(tmp_path / "mine.tar.gz")
    assert told.json["bytes"] == (tmp_path / "mine.tar.gz").stat().st_size
    with tarfile.open(tmp_path / "mine.tar.gz") as archive:
        assert told.json["files"] == sum(not member.isdir() for member in archive.getmembers())
    assert hive("backup", tmp_path / "mine.tar.gz", "-w", place.root).code == 2
