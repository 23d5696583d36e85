"""What a folder on this disk no longer lets us read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.sources.adding import add_source
from hive_agents.sources.running import run_source

AS_OTHERS = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
"""Root reads all; without these capabilities it reads what anybody in its place would."""


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    if os.geteuid() == 0 and shutil.which(AS_OTHERS[0]) is None:
        pytest.skip("root reads what is denied, and there is no setpriv")
    (tmp_path / "ws" / "collections").mkdir(parents=True)
    for name in ("apart/one.md", "apart/below/two.md", "three.md", "four.md"):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {path.stem}\n\nThe text of {path.stem}.\n")
    values = {"kind": "folder", "url": str(tmp_path / "source"), "view": ["group:staff"]}
    add_source(Workspace(tmp_path / "ws"), "office", values)
    return Workspace(tmp_path / "ws")


def readers(place: Workspace) -> dict[str, bool]:
    found = sorted((place.documents / "office").rglob("*.md"))
    return {path.stem: "group:staff" in path.read_text() for path in found}


def synced(place: Workspace) -> dict[str, bool]:
    command = [sys.executable, "-m", "hive_agents", "sources", "run", "office"]
    subprocess.run([*(AS_OTHERS if os.geteuid() == 0 else []), *command], cwd=place.root, capture_output=True)
    return readers(place)


def test_what_a_folder_denies_is_nobodys_until_it_can_be_read_again(place: Workspace) -> None:
    """Who took the right to read from us, of a folder or one file, took it from nobody who reads here."""
    assert synced(place) == {"one": True, "two": True, "three": True, "four": True}
    folder = place.root.parent / "source"
    edited = place.documents / "office" / "apart" / "below" / "two.md"
    edited.write_text(edited.read_text() + "A remark by hand.\n")
    for name in ("apart", "three.md"):
        (folder / name).chmod(0)
    assert synced(place) == {"one": False, "two": False, "three": False, "four": True}
    assert synced(place) == {"one": False, "two": False, "three": False, "four": True}
    (folder / "apart").chmod(0o755)
    (folder / "three.md").chmod(0o644)
    assert synced(place) == {"one": True, "two": True, "three": True, "four": True}
    assert "A remark by hand." in edited.read_text()


def test_what_is_broken_and_not_denied_stays_as_it_was(place: Workspace) -> None:
    run_source(place, "office")
    path = place.root.parent / "source" / "three.md"
    path.write_bytes(b"\x00\x01\x02")
    run_source(place, "office")
    assert readers(place)["three"]
