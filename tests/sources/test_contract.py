"""What each kind of source does alike: nothing is lost, nothing comes twice, nobody sees what the source denies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_agents.base import HiveError
from hive_agents.base.files import frontmatter
from hive_agents.sources import SourceReport, add_source, run_source, source_log
from hive_agents.workspace import Workspace, trust
from tests.sources.remotes import REMOTES, Remote

KILLED = 99
PROGRAM = f"""
import os, sys, threading
from hive_agents.sources import run_source
from hive_agents.workspace.workspace import Workspace

left, one_by_one = int(sys.argv[2]), threading.Lock()

def counted(call):
    def wrapper(*arguments, **options):
        global left
        with one_by_one:
            left -= 1
            if left == 0:
                os._exit({KILLED})
        return call(*arguments, **options)
    return wrapper

os.replace, os.unlink = counted(os.replace), counted(os.unlink)
run_source(Workspace(sys.argv[1]), "office", may_delete=lambda gone, everything: True)
"""
TEXTS = {name: f"# {name}\n\nThe first text of {name}.\n" for name in ("same", "changed", "renamed", "gone")}


@pytest.fixture(params=REMOTES, ids=lambda kind: str(kind.kind))
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Remote]:
    made: Remote = request.param(tmp_path)
    yield made
    made.close()


def workspace(remote: Remote, folder: str = "ws", **settings: Any) -> Workspace:
    root = remote.folder / folder
    (root / "collections").mkdir(parents=True)
    remote.prepare(root)
    add_source(Workspace(root), "office", {**remote.settings, "tenant": "acme", **settings})
    trust(Workspace(root))
    return Workspace(root)


def run(place: Workspace, *, delete: bool = False) -> SourceReport:
    return run_source(place, "office", may_delete=lambda gone, everything: delete)


def documents(place: Workspace) -> list[str]:
    """Return the last line of each document, which is what its file said."""
    paths = (place.documents / "office").rglob("*.md")
    return sorted(path.read_text().strip().rpartition("\n")[2] for path in paths)


def document(place: Workspace, name: str) -> Path:
    (path,) = (path for path in (place.documents / "office").rglob("*.md") if f"text of {name}." in path.read_text())
    return path


def readers(place: Workspace, name: str) -> list[str]:
    found = frontmatter.values(frontmatter.split(document(place, name).read_text(), "")[0], "")
    assert found["tenant"] == ["acme"]
    return list(found["view"])


def filled(remote: Remote) -> None:
    for name, text in TEXTS.items():
        remote.put(f"{name}.md", text)


def changed(remote: Remote) -> None:
    remote.put("changed.md", "# changed\n\nThe second text.\n")
    remote.put("added.md", "# added\n\nA new text.\n")
    remote.rename("renamed.md", "moved.md")
    remote.remove("gone.md")


AS_FILLED = sorted(f"The first text of {name}." for name in TEXTS)
STAY = ["The first text of same.", "The first text of renamed."]
AS_CHANGED = sorted(["A new text.", "The second text.", *STAY])


def test_what_is_added_changed_renamed_and_deleted_follows_the_source(remote: Remote) -> None:
    filled(remote)
    place = workspace(remote)
    first = run(place)
    assert (first.status, documents(place)) == ("done", AS_FILLED), first.message
    again = run(place)
    assert (again.counts["unchanged"], again.documents.imported, again.documents.deleted) == (4, [], [])
    changed(remote)
    report = run(place, delete=remote.unchanging)  # there, half of the documents go
    assert (documents(place), report.status) == (AS_CHANGED, "done")
    expected = [2, 0, 1, 2] if remote.unchanging else [1, 1, 1, 1]
    assert [len(getattr(report.documents, what)) for what in ("added", "changed", "renamed", "deleted")] == expected
    again = run(place)
    assert (again.counts["unchanged"], again.documents.imported, again.documents.deleted) == (4, [], [])


@pytest.mark.parametrize("after", [400, 1_500, 2_600, 4_500])
def test_a_source_that_breaks_off_loses_nothing_and_goes_on(remote: Remote, after: int) -> None:
    filled(remote)
    place = workspace(remote)
    run(place)
    changed(remote)
    with remote.cut(after):
        report = run(place, delete=True)
    assert report.status in ("failed", "partial") or documents(place) == AS_CHANGED
    there = set(documents(place))
    assert set(STAY) <= there
    assert there & {"The first text of changed.", "The second text."}
    assert (run(place, delete=True).status, documents(place)) == ("done", AS_CHANGED)
    assert [each["status"] for each in source_log(place, "office")["runs"]] == ["done", report.status, "done"]


@pytest.mark.parametrize("after", [400, 1_500, 2_600])
def test_labels_follow_a_renamed_item_also_where_the_source_breaks_off(remote: Remote, after: int) -> None:
    filled(remote)
    place = workspace(remote)
    run(place)
    before = {name: str(document(place, name).relative_to(place.documents)) for name in ("renamed", "same")}
    queries = [{"id": name, "query": name, "relevant": [doc_id]} for name, doc_id in before.items()]
    (place.root / "evals").mkdir()
    golden = place.root / "evals" / "golden.json"
    golden.write_text(json.dumps({"collection": "kb", "queries": queries}))
    changed(remote)
    with remote.cut(after):
        run(place)
    run(place, delete=True)
    after_all = {each["id"]: each["relevant"] for each in json.loads(golden.read_text())["queries"]}
    assert after_all == {name: [str(document(place, name).relative_to(place.documents))] for name in before}


@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_killed_run_is_finished_by_the_next(remote: Remote, at: int) -> None:
    filled(remote)
    place = workspace(remote)
    run(place)
    changed(remote)
    command = [sys.executable, "-c", PROGRAM, str(place.root), str(at)]
    assert subprocess.run(command, capture_output=True).returncode in (0, KILLED)
    run(place, delete=remote.unchanging)
    assert documents(place) == AS_CHANGED
    assert [run(place).counts[what] for what in ("added", "changed", "renamed", "deleted", "conflicts")] == [0] * 5


def test_many_deletions_wait_for_a_word(remote: Remote) -> None:
    filled(remote)
    place = workspace(remote)
    run(place)
    for name in ("same", "changed", "gone"):
        remote.remove(f"{name}.md")
    assert (len(run(place).documents.gone), documents(place)) == (3, AS_FILLED)
    assert len(run(place, delete=True).documents.deleted) == 3
    assert documents(place) == ["The first text of renamed."]


def test_without_a_word_of_the_source_the_owner_alone_reads(remote: Remote) -> None:
    remote.put("same.md", "---\ntenant: globex\nview: [tenant]\n---\n# same\n\nThe text of same.\n")
    place = workspace(remote, owner="user:dana")
    run(place)
    assert readers(place, "same") == ["user:dana"]
    settings = place.root / "hive.toml"
    settings.write_text(settings.read_text().replace('owner = "user:dana"', 'view = ["group:qa"]'))
    with pytest.raises(HiveError, match="HIVE-431"):
        run(Workspace(place.root))
    trust(Workspace(place.root))
    run(Workspace(place.root))
    assert readers(place, "same") == ["group:qa"]


def test_who_may_read_follows_the_source_also_where_a_person_edited(remote: Remote) -> None:
    if not remote.access:
        pytest.skip("this kind doesn't know who may read")
    filled(remote)
    remote.permit("same.md", staff=True)
    remote.permit("changed.md", staff=False)
    place = workspace(remote, options=remote.asks, view=["group:everybody"])
    run(place)
    assert (readers(place, "same"), readers(place, "changed")) == (["group:staff"], [])
    path = document(place, "same")
    path.write_text(path.read_text() + "A remark by hand.\n")
    remote.permit("same.md", staff=False)
    remote.permit("changed.md", staff=True)
    run(place)
    assert (readers(place, "same"), readers(place, "changed")) == ([], ["group:staff"])
    assert path.read_text().endswith("A remark by hand.\n")


def test_who_may_read_follows_the_source_also_where_an_item_has_no_text_any_more(remote: Remote) -> None:
    """The document of before stays, as a reader that fails leaves it; its readers of before don't."""
    if not remote.access:
        pytest.skip("this kind doesn't know who may read")
    filled(remote)
    remote.permit("same.md", staff=True)
    place = workspace(remote, options=remote.asks)
    run(place)
    assert readers(place, "same") == ["group:staff"]
    remote.put("same.md", "")
    remote.permit("same.md", staff=False)
    run(place)
    assert readers(place, "same") == []


def test_no_secret_is_told(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = remote.settings.get("secret_ref")
    if not secret:
        pytest.skip("this kind is reached without a secret")
    filled(remote)
    place = workspace(remote)
    run(place)
    monkeypatch.setenv(secret.removeprefix("env:"), "dana:a-wrong-word-4711")
    if remote.kind == "s3":
        pytest.skip("moto asks for no secret")
    told = run(place)
    assert told.status in ("failed", "partial")
    shown = json.dumps([told.message, told.failed, source_log(place, "office")])
    assert "a-wrong-word-4711" not in shown
    assert documents(place) == AS_FILLED
