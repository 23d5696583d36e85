from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.store import audit

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def log(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log's file, with three entries in it."""
    monkeypatch.delenv("HIVE_AUDIT_KEY", raising=False)
    for number in range(3):
        audit.append(text_workspace, "test", number=number, text="grüße")
    return text_workspace.root / audit.FILE


def numbers(workspace: Workspace) -> list[int]:
    return [entry["number"] for entry in audit.entries(workspace)]


def rewrite(log: Path, line: int, **changes: object) -> None:
    lines = log.read_text().splitlines()
    lines[line - 1] = json.dumps(json.loads(lines[line - 1]) | changes)
    log.write_text("\n".join(lines) + "\n")


def test_entries_come_in_order_and_are_chained(text_workspace: Workspace, log: Path) -> None:
    entries = list(audit.entries(text_workspace))
    assert [entry["seq"] for entry in entries] == [1, 2, 3]
    assert [entry["previous"] for entry in entries] == ["", entries[0]["digest"], entries[1]["digest"]]
    assert entries[0]["text"] == "grüße"
    assert entries[0]["at"].endswith("+00:00")
    assert list(audit.entries(text_workspace, "other")) == []
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.entries, verdict.first_bad, verdict.keyed) == (True, 3, None, False)
    assert verdict.head == entries[2]["digest"]


def test_workspace_without_a_log_has_no_entries(text_workspace: Workspace) -> None:
    assert list(audit.entries(text_workspace)) == []
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.entries, verdict.head) == (True, 0, "")


@pytest.mark.parametrize("changes", [{"number": 7}, {"at": "2020-01-01"}, {"extra": 1}, {"kind": "other"}])
def test_changed_entry_shows(text_workspace: Workspace, log: Path, changes: dict[str, object]) -> None:
    rewrite(log, 2, **changes)
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.first_bad) == (False, 2)


def test_entry_changed_with_its_digest_breaks_the_next(text_workspace: Workspace, log: Path) -> None:
    entry = json.loads(log.read_text().splitlines()[1]) | {"number": 7}
    rewrite(log, 2, number=7, digest=audit._digest(entry, None))
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.first_bad) == (False, 3)


def test_removed_and_swapped_lines_show(text_workspace: Workspace, log: Path) -> None:
    first, second, third = log.read_text().splitlines()
    log.write_text(f"{first}\n{third}\n")
    assert audit.verify(text_workspace).first_bad == 2
    log.write_text(f"{second}\n{first}\n{third}\n")
    assert audit.verify(text_workspace).first_bad == 1
    log.write_text(f"{second}\n{third}\n")
    assert audit.verify(text_workspace).first_bad == 1


@pytest.mark.parametrize("digest", ["ünï", "\\ud800", "", "0" * 64])
def test_any_digest_can_be_checked(text_workspace: Workspace, log: Path, digest: str) -> None:
    lines = log.read_text().splitlines()
    old = json.loads(lines[1])["digest"]
    log.write_text("\n".join([lines[0], lines[1].replace(old, digest), lines[2]]) + "\n")
    assert audit.verify(text_workspace).first_bad == 2


def test_line_cut_by_a_crash_was_never_promised(text_workspace: Workspace, log: Path) -> None:
    log.write_bytes(log.read_bytes() + log.read_bytes().splitlines()[-1][:-40])
    assert numbers(text_workspace) == [0, 1, 2]
    assert audit.verify(text_workspace).entries == 3
    audit.append(text_workspace, "test", number=9)
    assert numbers(text_workspace) == [0, 1, 2, 9]
    assert audit.verify(text_workspace).ok


def test_whole_entry_without_its_end_of_line_is_kept(text_workspace: Workspace, log: Path) -> None:
    log.write_bytes(log.read_bytes().removesuffix(b"\n"))
    assert numbers(text_workspace) == [0, 1, 2]
    audit.append(text_workspace, "test", number=9)
    assert numbers(text_workspace) == [0, 1, 2, 9]
    assert audit.verify(text_workspace).ok


@pytest.mark.parametrize(
    "damage", ["not json", "[]", "{}", '{"seq": "1", "kind": "x", "digest": "x"}', "[" * 5000, '{"seq": 1}', "\udcff"]
)
def test_damaged_line_is_told_with_its_number(text_workspace: Workspace, log: Path, damage: str) -> None:
    first, _, third = log.read_text().splitlines()
    log.write_text(f"{first}\n{damage}\n{third}\n", errors="surrogateescape")
    with pytest.raises(HiveError) as raised:
        list(audit.entries(text_workspace))
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, found.path, found.line) == ("HIVE-101", audit.FILE, "$", 2)
    assert "backup" in str(found.fix)
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.first_bad) == (False, 2)
    with pytest.raises(HiveError):
        audit.append(text_workspace, "test")


def test_key_makes_a_chain_that_only_its_holder_continues(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_AUDIT_KEY", "secret")
    audit.append(text_workspace, "test", number=0)
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.keyed) == (True, True)
    monkeypatch.setenv("HIVE_AUDIT_KEY", "guess")
    assert audit.verify(text_workspace).first_bad == 1
    monkeypatch.delenv("HIVE_AUDIT_KEY")
    audit.append(text_workspace, "test", number=1)
    monkeypatch.setenv("HIVE_AUDIT_KEY", "secret")
    assert audit.verify(text_workspace).first_bad == 2
    assert "secret" not in (text_workspace.root / audit.FILE).read_text()


@pytest.mark.parametrize("key", ["", "secret"])
@pytest.mark.parametrize("keep", [0, 1, 2])
def test_a_cut_tail_shows(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch, keep: int, key: str) -> None:
    monkeypatch.setenv("HIVE_AUDIT_KEY", key)
    log = text_workspace.root / audit.FILE
    for number in range(3):
        audit.append(text_workspace, "test", number=number)
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:keep]))
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.entries, verdict.first_bad) == (False, keep, keep + 1)
    assert "3 lines were written" in verdict.reason
    with pytest.raises(HiveError, match="HIVE-413"):
        audit.vouched(text_workspace, "test")


def test_a_deleted_log_shows_and_a_restored_one_is_whole(text_workspace: Workspace, log: Path) -> None:
    whole = log.read_bytes()
    log.unlink()
    assert (audit.verify(text_workspace).ok, audit.verify(text_workspace).first_bad) == (False, 1)
    log.write_bytes(whole)
    assert audit.verify(text_workspace).ok


def test_what_a_cut_log_lacks_and_what_was_added_to_it_is_not_forgotten(text_workspace: Workspace, log: Path) -> None:
    """Otherwise the next command would hide the cut, or putting the log back would hide what was done meanwhile."""
    whole = log.read_bytes()
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    for number in range(7, 9):
        audit.append(text_workspace, "test", number=number)
        assert not audit.verify(text_workspace).ok
    log.write_bytes(whole)
    assert not audit.verify(text_workspace).ok


def test_the_same_entry_twice_in_the_place_of_one_shows(
    text_workspace: Workspace, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two looks at a holdout in one second have one digest, where the first was cut off."""
    monkeypatch.setattr(audit, "now", lambda: "2030-01-01T00:00:00+00:00")
    whole = log.read_bytes()
    first = audit.append(text_workspace, "test", number=9)
    log.write_bytes(whole)
    assert audit.append(text_workspace, "test", number=9) == first
    assert not audit.verify(text_workspace).ok


def test_a_clone_and_a_log_that_others_continued_are_whole(text_workspace: Workspace, log: Path) -> None:
    shorter = (text_workspace.state / "audit.head").read_bytes()
    audit.append(text_workspace, "test", number=3)
    (text_workspace.state / "audit.head").write_bytes(shorter)
    assert audit.verify(text_workspace).ok
    shutil.rmtree(text_workspace.state)
    clone = Workspace(text_workspace.root)
    assert audit.verify(clone).ok
    audit.append(clone, "test", number=4)
    assert (audit.verify(clone).ok, audit.verify(clone).entries) == (True, 5)


@pytest.mark.parametrize("head", ["", "{", "3", "[3]", "[[1]]", '[["x", "y"]]', "[[Infinity, 1]]"])
def test_a_damaged_head_is_no_fresh_start(text_workspace: Workspace, log: Path, head: str) -> None:
    (text_workspace.state / "audit.head").write_text(head)
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.reason) == (False, ".hive/audit.head is damaged")
    with pytest.raises(HiveError, match="HIVE-413"):
        audit.append(text_workspace, "test")


def test_a_log_rewritten_as_a_whole_is_not_the_one_that_was_written(text_workspace: Workspace, log: Path) -> None:
    head = ""
    lines = []
    for entry in list(audit.entries(text_workspace)):
        entry |= {"number": 7, "previous": head}
        head = entry["digest"] = audit._digest(entry, None)
        lines.append(json.dumps(entry))
    log.write_text("\n".join(lines) + "\n")
    assert (audit.verify(text_workspace).ok, audit.verify(text_workspace).first_bad) == (False, 3)


@pytest.mark.parametrize("line", [1, 3])
def test_a_key_that_stands_twice_in_a_line_shows(text_workspace: Workspace, log: Path, line: int) -> None:
    lines = log.read_text().splitlines()
    lines[line - 1] = '{"number": 7, ' + lines[line - 1][1:]
    log.write_text("\n".join(lines) + "\n")
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.first_bad) == (False, line)


def test_a_key_set_later_is_named_as_the_reason(
    text_workspace: Workspace, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_AUDIT_KEY", "late")
    verdict = audit.verify(text_workspace)
    assert (verdict.first_bad, verdict.reason.startswith("line 1 was written without a key")) == (1, True)


KILLED = """
import os, signal, sys
from hive_agents.store import audit
from hive_agents import Workspace
audit.atomic_write = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
audit.append(Workspace(sys.argv[1]), "test", number=3)
"""


def test_a_process_killed_between_line_and_head_leaves_a_whole_log(text_workspace: Workspace, log: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(text_workspace.root)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert (numbers(text_workspace), audit.verify(text_workspace).ok) == ([0, 1, 2, 3], True)
    audit.append(text_workspace, "test", number=4)
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:4]))
    assert audit.verify(text_workspace).first_bad == 5


APPENDER = """
import sys
from hive_agents.store import audit
from hive_agents import Workspace
workspace = Workspace(sys.argv[1])
for number in range(10):
    audit.append(workspace, "race", number=number)
"""


def test_processes_that_append_at_once_keep_the_chain(text_workspace: Workspace) -> None:
    command = [sys.executable, "-c", APPENDER, str(text_workspace.root)]
    appenders = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [appender.wait() for appender in appenders] == [0, 0, 0]
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.entries) == (True, 30)
    assert sorted(numbers(text_workspace)) == sorted([*range(10)] * 3)


def test_a_log_that_grew_after_it_was_read_is_verified_with_what_stood_there_before(
    text_workspace: Workspace, log: Path
) -> None:
    assert audit.verify(text_workspace).ok
    audit.append(text_workspace, "test", number=3)
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.entries, verdict.head) == (True, 4, list(audit.entries(text_workspace))[-1]["digest"])
    whole = log.read_bytes()
    audit.append(text_workspace, "test", number=4)
    grown = log.read_bytes()
    log.write_bytes(whole.replace(b"gr", b"GR", 1) + grown[len(whole) :])
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.first_bad) == (False, 1)
    log.write_bytes(grown[:-9])  # a crash in the middle of a line, after the log had been read whole
    verdict = audit.verify(text_workspace)
    assert (verdict.ok, verdict.first_bad, verdict.entries) == (False, 5, 4)
    log.write_bytes(grown)
    assert audit.verify(text_workspace).ok


def test_lines_that_come_after_a_read_are_numbered_from_the_beginning(text_workspace: Workspace, log: Path) -> None:
    assert audit.verify(text_workspace).ok
    with log.open("a") as file:
        file.write("no entry\n")
    assert audit.verify(text_workspace).first_bad == 4
    with pytest.raises(HiveError) as caught:
        audit.append(text_workspace, "test", number=5)
    assert caught.value.diagnostics[0].line == 4
