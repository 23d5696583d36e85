from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents import audit
from hive_agents.errors import HiveError
from hive_agents.workspace import Workspace

ROOT = Path(__file__).parents[1]


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
    whole = log.read_bytes()
    log.write_bytes(whole[:-40])
    assert numbers(text_workspace) == [0, 1]
    assert audit.verify(text_workspace).entries == 2
    audit.append(text_workspace, "test", number=9)
    assert numbers(text_workspace) == [0, 1, 9]
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


APPENDER = """
import sys
from hive_agents import audit
from hive_agents.workspace import Workspace
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
