"""What each kind of source does alike: nothing is lost, nothing comes twice, nobody sees what the source denies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_agents.base import HiveError
from hive_agents.base.files import frontmatter
from hive_agents.sources import add_source
from hive_agents.sources.running import SourceReport, run_source
from hive_agents.sources.showing import source_log
from hive_agents.workspace import Workspace, trust
from tests.sources.emulated import EMULATED
from tests.sources.killing import Killing
from tests.sources.remotes import REMOTES, Remote

TEXTS = {name: f"# {name}\n\nThe first text of {name}.\n" for name in ("same", "changed", "renamed", "gone")}


@pytest.fixture(
    params=[*REMOTES, *(pytest.param(kind, marks=pytest.mark.slow) for kind in EMULATED)],
    ids=lambda kind: str(kind.__name__).lower(),
)
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
    return viewers(place, f"text of {name}.")


def viewers(place: Workspace, text: str) -> list[str]:
    (path,) = (path for path in (place.documents / "office").rglob("*.md") if text in path.read_text())
    found = frontmatter.values(frontmatter.split(path.read_text(), "")[0], "")
    assert found["tenant"] == ["acme"]
    return list(found["view"])


def known(remote: Remote) -> dict[str, Any]:
    """Return the settings by which it is known who may read."""
    return {"options": remote.asks} if remote.access else {"view": STAFF}


def permit(remote: Remote, name: str, *, staff: bool) -> None:
    if remote.access:
        remote.permit(name, staff=staff)


def filled(remote: Remote) -> None:
    for name, text in TEXTS.items():
        remote.put(f"{name}.md", text)


def labelled(place: Workspace, *names: str) -> dict[str, str]:
    """Judge the documents of these names as relevant, each for a question, and return their ids."""
    found = {name: str(document(place, name).relative_to(place.documents)) for name in names}
    queries = [{"id": name, "query": name, "relevant": [doc_id]} for name, doc_id in found.items()]
    (place.root / "evals").mkdir()
    (place.root / "evals" / "golden.json").write_text(json.dumps({"collection": "kb", "queries": queries}))
    return found


def labels(place: Workspace) -> dict[str, list[str]]:
    golden = json.loads((place.root / "evals" / "golden.json").read_text())
    return {each["id"]: each["relevant"] for each in golden["queries"]}


def changed(remote: Remote) -> None:
    remote.put("changed.md", "# changed\n\nThe second text.\n")
    remote.put("added.md", "# added\n\nA new text.\n")
    remote.rename("renamed.md", "moved.md")
    remote.remove("gone.md")


AS_FILLED = sorted(f"The first text of {name}." for name in TEXTS)
STAFF = ["group:staff"]
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
    labelled(place, "renamed", "same")
    changed(remote)
    with remote.cut(after):
        run(place)
    run(place, delete=True)
    assert labels(place) == {
        name: [str(document(place, name).relative_to(place.documents))] for name in ("renamed", "same")
    }


def killed_at_each(remote: Remote, points: int) -> None:
    """Kill the first run and one that finds changes, at so many points each, and look at what is there and who reads it
    before and after the next run."""
    place = workspace(remote, **known(remote))
    filled(remote)
    for name in TEXTS:
        permit(remote, f"{name}.md", staff=True)
    with Killing(place.root) as killing:
        for _ in each_kill(place, killing, points):
            assert run(place).status == "done"
            assert (documents(place), readers(place, "changed")) == (AS_FILLED, ["group:staff"])
        expected = labelled(place, "renamed", "same")
        changed(remote)
        for name in ("changed", "added"):
            permit(remote, f"{name}.md", staff=False)
        for _ in each_kill(place, killing, points):
            there = documents(place)
            assert set(STAY) <= set(there), "lost"
            seen = [text for text in there if text in ("The second text.", "A new text.") and remote.access]
            assert not any("group:staff" in viewers(place, text) for text in seen), "seen"
            run(place, delete=True)
            assert documents(place) == AS_CHANGED
            assert viewers(place, "The second text.") == ([] if remote.access else STAFF)
            expected["renamed"] = str(document(place, "renamed").relative_to(place.documents))
            assert labels(place) == {name: [doc_id] for name, doc_id in expected.items()}
            again = run(place).counts
            assert [again[what] for what in ("added", "changed", "renamed", "deleted", "conflicts")] == [0] * 5


def each_kill(place: Workspace, killing: Killing, points: int) -> Iterator[int]:
    """Yield after each of so many kills of one run, which begins each time where the workspace was."""
    before = place.root.with_name("before")
    shutil.copytree(place.root, before)
    code, lines = killing.run()
    assert (code, lines > points) == (0, True)
    for number in range(points):
        shutil.rmtree(place.root)
        shutil.copytree(before, place.root)
        killing.run(1 + (2 * number + 1) * lines // (2 * points))
        yield number
    shutil.rmtree(before)


@pytest.mark.slow
def test_a_run_killed_at_any_point_is_finished_by_the_next(remote: Remote) -> None:
    killed_at_each(remote, 24)


def test_a_killed_run_is_finished_by_the_next(remote: Remote) -> None:
    killed_at_each(remote, 1)


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


def test_who_may_not_enter_a_folder_reads_nothing_in_it(remote: Remote) -> None:
    if remote.kind not in ("folder", "sftp"):
        pytest.skip("this kind has no folders that only some may enter")
    remote.put("apart/kept.md", "# kept\n\nThe text of kept.\n")
    remote.permit("apart/kept.md", staff=True)
    place = workspace(remote, options=remote.asks)
    for mode, expected in ((0o750, STAFF), (0o700, []), (0o755, STAFF)):
        (remote.root / "apart").chmod(mode)
        run(place)
        assert readers(place, "kept") == expected


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


def test_what_the_source_denies_is_nobodys_until_it_gives_it_again(remote: Remote) -> None:
    if not remote.denies:
        pytest.skip("this kind denies nothing of what it holds")
    filled(remote)
    remote.put("apart/kept.md", "# kept\n\nThe text of kept.\n")
    remote.put("apart/other.md", "# other\n\nThe text of other.\n")
    place = workspace(remote, **known(remote))
    for name in (*TEXTS, "apart/kept", "apart/other"):
        permit(remote, f"{name}.md", staff=True)
    run(place)
    assert (readers(place, "kept"), readers(place, "other")) == (STAFF, STAFF)
    remote.put("apart/other.md", "# other\n\nThe second text of other.\n")
    permit(remote, "apart/other.md", staff=True)
    remote.deny(True)
    assert run(place).status == "partial"
    seen = [path for path in (place.documents / "office").rglob("*.md") if "group:staff" in path.read_text()]
    assert sorted(path.read_text().strip().rpartition("\n")[2] for path in seen) == AS_FILLED
    remote.deny(False)
    run(place, delete=True)
    assert (readers(place, "kept"), viewers(place, "The second text of other.")) == (STAFF, STAFF)
    assert len(documents(place)) == 6


def test_no_secret_is_told(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = remote.settings.get("secret_ref")
    if not secret:
        pytest.skip("this kind is reached without a secret")
    filled(remote)
    place = workspace(remote)
    run(place)
    monkeypatch.setenv(secret.removeprefix("env:"), "dana:a-wrong-word-4711")
    told = run(place)
    assert told.status in ("failed", "partial")
    shown = json.dumps([told.message, told.failed, source_log(place, "office")])
    assert "a-wrong-word-4711" not in shown
    assert documents(place) == AS_FILLED
