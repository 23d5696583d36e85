"""Folders within folders without an end: they cost their own files, and end no import."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_agents.base import HiveError
from hive_agents.sync import ImportReport
from hive_agents.sync.importing import import_documents
from hive_agents.workspace import Workspace


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with two files, one of them 1,500 folders deep."""
    root, here = tmp_path / "source", Path.cwd()
    root.mkdir()
    (root / "shed.md").write_text("# Shed\n\nThe roof of the shed is tin.\n")
    os.chdir(root)
    try:
        for _ in range(1_500):
            os.mkdir("d")
            os.chdir("d")
        Path("deep.md").write_text("# Deep\n")
    finally:
        os.chdir(here)
    yield root
    at = root
    for number in range(15):  # a hundred levels at a time: removal calls itself, too
        part = at.joinpath(*["d"] * 100)
        if part.exists():
            part.rename(tmp_path / f"part{number}")
            at = tmp_path / f"part{number}"
    for each in tmp_path.glob("part*"):
        shutil.rmtree(each)


def run(tmp_path: Path, source: Path) -> tuple[list[str], ImportReport]:
    (tmp_path / "ws" / "collections").mkdir(parents=True)
    report = import_documents(Workspace(tmp_path / "ws"), [str(source)])
    return sorted(path.name for path in (tmp_path / "ws" / "documents").rglob("*.md")), report


def test_folders_that_are_too_deep_are_told_and_the_others_are_read(tmp_path: Path, deep: Path) -> None:
    found, report = run(tmp_path, deep)
    assert found == ["shed.md"]
    assert [each["message"] for each in report.skipped] == ["more than 200 folders deep"]


def test_a_pattern_over_folders_that_are_too_deep_is_told(tmp_path: Path, deep: Path) -> None:
    with pytest.raises(HiveError, match="200 deep") as told:
        run(tmp_path, deep / "**" / "*.md")
    assert told.value.diagnostics[0].code == "HIVE-409"
