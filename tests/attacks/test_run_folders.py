"""Links in the folders where runs keep their files lead nowhere: nothing outside is read or written."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.memory import AgentMemory, DataFiles, Spillover, ToolResult

SECRET = "canary-4d1f"


@pytest.mark.parametrize("link", ["the file", "the folder", "the folder above", "a file that is not there"])
def test_links_in_a_run_s_folder_lead_nowhere(text_workspace: Workspace, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    (outside / "r1").mkdir(parents=True)
    for name in ("a.txt", "r1/a.txt", "adapt.md", "r1/adapt.md"):
        (outside / name).write_text(SECRET)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    runs = text_workspace.state / "runs"
    folder = runs / "r1"
    if link == "the folder above":
        runs.symlink_to(outside)
    elif link == "the folder":
        runs.mkdir()
        folder.symlink_to(outside / "r1")
    else:
        folder.mkdir(parents=True)
        for name in ("a.txt", "adapt.md"):
            (folder / name).symlink_to(outside / name if link == "the file" else outside / f"new-{name}")
    files, memory = DataFiles(folder), AgentMemory(text_workspace, folder)
    read: list[str] = []
    for act in (
        lambda: read.append(files.read("a.txt")),
        lambda: read.append(files.load("a.txt").text),
        lambda: files.save("a.txt", "mine"),
        lambda: files.edit("a.txt", SECRET, "mine"),
        lambda: read.append(memory.read()),
        lambda: memory.save("mine"),
        lambda: memory.add_output("key", "mine"),
    ):
        with suppress(HiveError):  # a link in place of a file may be replaced instead
            act()
    if link in ("the folder", "the folder above"):
        with pytest.raises(HiveError):
            Spillover(files, limit=3).deliver("tool", ToolResult("a long result"))
    assert SECRET not in "".join(read)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before
