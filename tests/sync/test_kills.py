"""An import that is killed at any instant: the next one finishes, and nothing that a person wrote is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents.sync.importing import import_documents
from hive_agents.workspace.workspace import Workspace

KILLED = 99
PROGRAM = f"""
import os, sys, threading
from hive_agents.sync.importing import import_documents
from hive_agents.workspace.workspace import Workspace

root, at, after = sys.argv[1], sys.argv[2], sys.argv[3] == "after"
left = int(at) if at.isdigit() else 0
one_by_one = threading.Lock()  # documents are written by several threads

def counted(call):
    def wrapper(*arguments, **options):
        global left
        with one_by_one:
            left -= 1
            last = left == 0 or call.__name__ + " " + os.path.basename(arguments[-1]) == at
        if last and not after:
            os._exit({KILLED})
        result = call(*arguments, **options)
        if last:
            os._exit({KILLED})
        return result
    return wrapper

os.replace, os.unlink = counted(os.replace), counted(os.unlink)
import_documents(Workspace(root), [], may_delete=lambda gone, everything: True)
"""


def prepared(folder: Path) -> Workspace:
    """A workspace with an import behind it, and a source that changed in every way since."""
    (folder / "workspace" / "collections").mkdir(parents=True)
    place = Workspace(folder / "workspace")
    source = folder / "source"
    source.mkdir()
    for name in ("same", "changed", "renamed", "edited", "moved", "gone"):
        (source / f"{name}.txt").write_text(f"{name}: the first text")
    import_documents(place, [str(source)])
    labelled = {"id": "q", "query": "What?", "relevant": ["renamed.md"], "distractors": ["moved.md", "same.md"]}
    (place.root / "evals").mkdir()
    (place.root / "evals" / "golden.json").write_text(json.dumps({"collection": "kb", "queries": [labelled]}))
    (source / "added.txt").write_text("added")
    (source / "changed.txt").write_text("changed: the second text")
    (source / "renamed.txt").rename(source / "new name.txt")
    (source / "gone.txt").unlink()
    for name in ("edited", "moved"):
        with (place.documents / f"{name}.md").open("a") as document:
            document.write("a remark by hand\n")
    (source / "edited.txt").write_text("edited: the second text")
    (source / "moved.txt").rename(source / "away.txt")
    return place


def documents(place: Workspace) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(place.documents.rglob("*")) if path.is_file()}


def labels(place: Workspace) -> list[list[str]]:
    (query,) = json.loads((place.root / "evals" / "golden.json").read_text())["queries"]
    return [query["relevant"], query["distractors"]]


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("unlink moved.md", id="a rename that was edited by hand, half done"),
        pytest.param("unlink renamed.md", id="a rename, half done"),
        pytest.param("replace golden.json", id="a rename whose labels followed"),
        pytest.param("replace changed.md", id="a document of a batch, written"),
    ],
)
def test_what_one_killed_write_left_is_finished(tmp_path: Path, moment: str) -> None:
    """The instants that a wrong order of writing would be seen at; the slow suite has all of them."""
    whole, place = prepared(tmp_path / "whole"), prepared(tmp_path / "killed")
    import_documents(whole, [], may_delete=lambda gone, everything: True)
    command = [sys.executable, "-c", PROGRAM, str(place.root), moment, "after"]
    assert subprocess.run(command, capture_output=True).returncode == KILLED
    report = import_documents(place, [], may_delete=lambda gone, everything: True)
    assert documents(place) == documents(whole)
    assert labels(place) == [["new-name.md"], ["away.md", "same.md"]]
    assert (report.skipped, {one["doc_id"] for one in report.conflicts} <= {"edited.md"}) == ([], True)


def test_a_document_that_a_killed_import_wrote_is_deleted_with_its_file(tmp_path: Path) -> None:
    """Nobody edited it by hand, though its record doesn't have its text yet."""
    place = prepared(tmp_path)
    command = [sys.executable, "-c", PROGRAM, str(place.root), "replace changed.md", "after"]
    assert subprocess.run(command, capture_output=True).returncode == KILLED
    assert "second" in documents(place)["changed.md"]
    (tmp_path / "source" / "changed.txt").unlink()
    report = import_documents(place, [], may_delete=lambda gone, everything: True)
    assert "changed.md" in report.deleted
    assert "changed.md" not in documents(place)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_next_import_finishes_what_a_killed_one_began(tmp_path: Path, moment: str) -> None:
    whole = prepared(tmp_path / "whole")
    import_documents(whole, [], may_delete=lambda gone, everything: True)
    expected = documents(whole)
    assert sorted(expected) == ["added.md", "away.md", "changed.md", "edited.md", "new-name.md", "same.md"]
    killed = 0
    for number in range(1, 30):
        place = prepared(tmp_path / str(number))
        command = [sys.executable, "-c", PROGRAM, str(place.root), str(number), moment]
        code = subprocess.run(command, capture_output=True).returncode
        assert code in (0, KILLED)
        report = import_documents(place, [], may_delete=lambda gone, everything: True)
        assert documents(place) == expected, f"killed {moment} call {number}"
        assert labels(place) == [["new-name.md"], ["away.md", "same.md"]]
        assert report.skipped == []
        again = import_documents(place, [], may_delete=lambda gone, everything: True)
        assert (again.imported, again.deleted, again.renamed, again.conflicts) == ([], [], [], [])
        if code == 0:
            break
        killed += 1
    assert killed >= 8
