from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hive_agents.base.errors import HiveError
from hive_agents.sync import ImportReport
from hive_agents.sync.forgetting import forget_sources
from hive_agents.sync.ignoring import GitIgnore
from hive_agents.sync.importing import import_documents
from hive_agents.workspace.workspace import Workspace


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace" / "collections").mkdir(parents=True)
    return Workspace(tmp_path / "workspace")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "HR Team").mkdir(parents=True)
    (source / "HR Team" / "Leave Policy.txt").write_text("Thirty days.")
    (source / "guide.md").write_text("# Guide\n")
    (source / ".secret.md").write_text("hidden")
    (source / "photo.jpg").write_bytes(b"\xff\xd8")
    (source / "empty.md").write_text("")
    return source


def run(place: Workspace, *sources: Path | str, delete: bool = False, **options: Any) -> ImportReport:
    return import_documents(place, list(map(str, sources)), may_delete=lambda gone, everything: delete, **options)


def messages(report: ImportReport) -> dict[str, str]:
    return {Path(skipped["file"]).name: skipped["message"] for skipped in report.skipped}


def documents(place: Workspace) -> dict[str, str]:
    found = sorted(place.documents.rglob("*.md"))
    return {path.relative_to(place.documents).as_posix(): path.read_text(encoding="utf-8") for path in found}


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_no_source(place: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(HiveError, match="the name of a source is empty") as error:
        run(place, name)
    assert error.value.exit_code == 2
    assert documents(place) == {}


def test_a_folder_keeps_its_structure_and_reports_what_it_could_not_read(place: Workspace, folder: Path) -> None:
    report = run(place, folder, to="inbox")
    assert sorted(report.imported) == ["inbox/guide.md", "inbox/hr-team/leave-policy.md"]
    assert messages(report) == {
        "photo.jpg": ".jpg: not a supported kind of file",
        "empty.md": "the file is empty",
    }
    assert report.ignored == {"hidden": 1}
    assert documents(place)["inbox/guide.md"] == "# Guide\n"


def test_metadata_and_title_go_into_the_front_matter(place: Workspace, handbook_docx: Path) -> None:
    report = run(place, handbook_docx, metadata={"tenant": "acme", "view": ["group:qa", "user:dana"]})
    assert report.imported == ["freezer-handbook.md"]
    _, head, body = documents(place)["freezer-handbook.md"].split("---\n", 2)
    assert yaml.safe_load(head) == {
        "title": "Freezer handbook",
        "tenant": "acme",
        "view": ["group:qa", "user:dana"],
        "source_file": "Freezer Handbook.docx",
    }
    assert body.startswith("\n# Freezer handbook\n")


def test_metadata_wins_over_what_a_markdown_source_says(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "a.md"
    source.write_text("---\ntenant: other\nowner: dana\nversion: 3.10\n---\nText.\n")
    run(place, source, metadata={"tenant": "acme"})
    assert documents(place)["a.md"] == "---\ntenant: acme\nowner: dana\nversion: '3.10'\n---\n\nText.\n"


def test_markdown_with_nothing_to_add_keeps_every_byte(place: Workspace, tmp_path: Path) -> None:
    text = "---\n# a comment\nversion:   3.10\nday: 2024-1-5\n---\n*  odd   spacing*\n"
    (tmp_path / "a.md").write_text(text)
    run(place, tmp_path / "a.md")
    assert documents(place)["a.md"] == text


def test_without_a_title_the_file_name_is_the_title(place: Workspace, folder: Path) -> None:
    run(place, folder / "HR Team" / "Leave Policy.txt")
    assert "title: Leave Policy\n" in documents(place)["leave-policy.md"]


def test_a_name_keeps_the_marks_of_its_letters(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("हिन्दी गाइड", "คู่มือ", "Cafe\u0301", "❤\ufe0f hive"):
        (source / f"{name}.txt").write_text("Text of it.")
    assert sorted(run(place, source).imported) == ["café.md", "hive.md", "हिन्दी-गाइड.md", "คู่มือ.md"]


def test_names_that_collide_keep_both(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.txt", "A.md", "a.html", "a!.txt"):
        (source / name).write_text(f"<p>{name}</p>")
    report = run(place, source)
    assert sorted(report.imported) == ["a-2.md", "a-html.md", "a-txt.md", "a.md"]
    assert {name for name in ("a.txt", "A.md", "a.html", "a!.txt") if name in "".join(documents(place).values())} == {
        "a.txt",
        "A.md",
        "a.html",
        "a!.txt",
    }
    assert run(place, source).unchanged == 4


def test_a_pattern_keeps_the_structure_below_its_folder(place: Workspace, tmp_path: Path) -> None:
    for name in ("v1/index.md", "v1/ops/index.md", "v2/index.md", "v2/notes.txt"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(name)
    report = run(place, f"{tmp_path}/docs/**/*.md")
    assert sorted(report.imported) == ["v1/index.md", "v1/ops/index.md", "v2/index.md"]


def test_what_a_shell_expanded_keeps_its_structure(place: Workspace, tmp_path: Path) -> None:
    for name in ("a/index.md", "b/index.md", "index.md"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(name)
    given = sorted((tmp_path / "docs").rglob("*"))
    assert sorted(run(place, *given).imported) == ["a/index.md", "b/index.md", "index.md"]


def test_a_document_of_another_origin_is_never_replaced(place: Workspace, tmp_path: Path) -> None:
    place.documents.mkdir()
    (place.documents / "a.md").write_text("by hand")
    (tmp_path / "a.md").write_text("mine")
    assert run(place, tmp_path / "a.md").imported == ["a-md.md"]
    assert documents(place) == {"a.md": "by hand", "a-md.md": "mine"}


def test_links_that_leave_the_folder_are_skipped(place: Workspace, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("secret")
    (folder / "link.md").symlink_to(tmp_path / "outside.md")
    (folder / "inside.md").symlink_to(folder / "guide.md")
    (folder / "loop").symlink_to(folder)
    report = run(place, folder)
    assert "inside.md" in report.imported
    assert "link.md" not in report.imported
    assert messages(report)["link.md"] == "a link that leaves the folder"
    assert messages(report)["loop"] == "a link to a folder; import the folder itself"


def test_what_several_patterns_lead_to_is_told_once(place: Workspace, folder: Path) -> None:
    (folder / "loop").symlink_to(folder)
    (folder / "linked").mkdir()
    (folder / "linked" / "guide.md").write_text("# Guide\n\nOf what is linked.\n")
    report = run(place, folder / "*" / "*.md", folder / "l*" / "*.md")
    assert [Path(one["file"]).name for one in report.skipped].count("loop") == 1


def test_a_linked_folder_that_a_pattern_does_not_lead_into_is_not_told(place: Workspace, folder: Path) -> None:
    (folder / "loop").symlink_to(folder)
    assert "loop" not in messages(run(place, folder / "*.md"))
    assert "loop" in messages(run(place, folder / "l*"))


def test_no_name_leads_out_of_the_documents(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "...hidden name..txt"
    source.write_text("x")
    assert run(place, source).imported == ["hidden-name.md"]
    for outside in ("..", "documents/../..", "/tmp", "~", "documents/.hidden"):
        with pytest.raises(HiveError, match="documents"):
            run(place, source, to=outside)


def test_a_linked_folder_below_the_documents_is_not_written_through(
    place: Workspace, folder: Path, tmp_path: Path
) -> None:
    place.documents.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (place.documents / "hr-team").symlink_to(tmp_path / "elsewhere")
    assert "link that leaves" in messages(run(place, folder))["Leave Policy.txt"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_of_documents_that_became_a_link_is_no_document_of_ours(
    place: Workspace, folder: Path, tmp_path: Path
) -> None:
    """Neither a file that moves nor a forgotten source touches what the link leads to."""
    run(place, folder)
    (place.documents / "hr-team").rename(tmp_path / "elsewhere")
    (place.documents / "hr-team").symlink_to(tmp_path / "elsewhere")
    (folder / "HR Team" / "Leave Policy.txt").rename(folder / "policy.txt")
    assert "link that leaves" in messages(run(place, folder, delete=True))["policy.txt"]
    assert forget_sources(place, [str(folder)], delete=True).deleted == ["guide.md"]
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["leave-policy.md"]


@pytest.mark.parametrize("option", ["delete", "keep"])
def test_a_file_that_goes_while_its_document_is_behind_a_link_is_told(
    place: Workspace, folder: Path, tmp_path: Path, option: str
) -> None:
    run(place, folder)
    (place.documents / "hr-team").rename(tmp_path / "elsewhere")
    (place.documents / "hr-team").symlink_to(tmp_path / "elsewhere")
    (folder / "HR Team" / "Leave Policy.txt").unlink()
    report = run(place, folder, delete=option == "delete")
    message = "its file is gone, and its place cannot be read: it stays, as your own"
    assert report.conflicts == [{"doc_id": "hr-team/leave-policy.md", "message": message, "note": None}]
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["leave-policy.md"]
    assert run(place, folder, delete=True).conflicts == []


def test_documents_are_not_imported_into_themselves(place: Workspace) -> None:
    place.documents.mkdir()
    (place.documents / "a.md").write_text("x")
    assert messages(run(place, place.documents / "a.md", to="copy")) == {"a.md": "is in the documents folder already"}


@pytest.mark.parametrize("pattern", ["", "**/*.md"])
def test_a_folder_around_the_workspace_gives_none_of_the_workspaces_own_files(place: Workspace, pattern: str) -> None:
    for own in ("AGENTS.md", "prompts/judge.md", "documents/old.md", "agents/a/notes.md"):
        (place.root / own).parent.mkdir(parents=True, exist_ok=True)
        (place.root / own).write_text("own")
    for mine in ("readme.md", "papers/prompts/a.md"):
        (place.root / mine).parent.mkdir(parents=True, exist_ok=True)
        (place.root / mine).write_text("mine")
    report = run(place, place.root / pattern if pattern else place.root)
    assert sorted(report.imported) == ["papers/prompts/a.md", "readme.md"]
    assert report.skipped == []
    assert report.ignored["the workspace's own"] >= 3


def test_a_file_named_twice_is_imported_once(place: Workspace, folder: Path) -> None:
    report = run(place, folder / "guide.md", folder / "guide.md")
    assert (report.imported, report.skipped) == (["guide.md"], [])


def test_a_missing_source_is_an_error(place: Workspace, tmp_path: Path) -> None:
    with pytest.raises(HiveError, match="there is no"):
        run(place, tmp_path / "gone")
    with pytest.raises(HiveError, match="no source is remembered"):
        run(place)


def test_what_nobody_wrote_is_ignored(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    kept = ["guide.md", "build/how.md", "dist.md", "logs/keep.md"]
    left_out = [
        "node_modules/a/readme.md",
        ".venv/a.md",
        "env/pyvenv.cfg",
        "env/lib/a.md",
        "app/package.json",
        "app/dist/a.md",
        "drafts/a.md",
        "logs/a.md",
        ".git/a.md",
    ]
    for name in kept + left_out:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("text")
    (source / ".gitignore").write_text("drafts/\nlogs/*\n!logs/keep.md\n")
    report = run(place, source)
    assert sorted(report.imported) == sorted(kept)
    assert report.ignored[".gitignore"] == 2


def test_a_built_site_gives_its_pages_and_not_their_sources_or_lists(place: Workspace, tmp_path: Path) -> None:
    for name in ("index.html", "genindex.html", "genindex-A.html", "search.html", "guide/search.html"):
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(f"<h1>{name}</h1><p>Some text.</p>")
    (tmp_path / "site" / "_sources").mkdir()
    (tmp_path / "site" / "_sources" / "index.txt").write_text("Some text.\n")
    assert len(import_documents(place, [str(tmp_path / "site")]).imported) == 6, "no site without its search index"
    (tmp_path / "site" / "searchindex.js").write_text("Search.setIndex({})")
    report = import_documents(place, [str(tmp_path / "site")], may_delete=lambda *_: True)
    assert report.deleted == ["_sources/index.md", "genindex-a.md", "genindex.md", "search.md"]
    assert sum(report.ignored.values()) == 4


def test_a_named_folder_is_imported_though_its_repository_ignores_it(place: Workspace, tmp_path: Path) -> None:
    (tmp_path / "repo" / "out").mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / ".gitignore").write_text("out/\n*.tmp.md\n")
    (tmp_path / "repo" / "docs").mkdir()
    for name in ("out/a.md", "docs/b.md", "docs/b.tmp.md"):
        (tmp_path / "repo" / name).write_text("x")
    assert run(place, tmp_path / "repo" / "out").imported == ["a.md"]
    assert run(place, tmp_path / "repo" / "docs").imported == ["b.md"]


def test_importing_again_with_nothing_changed_changes_nothing(place: Workspace, folder: Path) -> None:
    run(place, folder)
    before = {path: path.stat().st_mtime_ns for path in place.documents.rglob("*.md")}
    again = run(place, folder)
    assert (again.imported, again.skipped, again.unchanged, again.still_skipped) == ([], [], 2, 2)
    assert {path: path.stat().st_mtime_ns for path in place.documents.rglob("*.md")} == before


def test_a_source_is_synced_without_being_named_again(place: Workspace, folder: Path) -> None:
    run(place, folder, to="inbox", metadata={"tenant": "acme"})
    (folder / "new.md").write_text("# New\n")
    (folder / "HR Team" / "Leave Policy.txt").write_text("Forty days.")
    report = run(place)
    assert (report.added, report.changed) == (["inbox/new.md"], ["inbox/hr-team/leave-policy.md"])
    assert "Forty days." in documents(place)["inbox/hr-team/leave-policy.md"]
    assert "tenant: acme" in documents(place)["inbox/new.md"]


def test_fields_that_are_given_later_add_to_those_before_and_an_empty_one_is_taken_back(
    place: Workspace, folder: Path
) -> None:
    run(place, folder, metadata={"tenant": ["acme"]})
    assert sorted(run(place, metadata={"version": "v2"}).changed) == ["guide.md", "hr-team/leave-policy.md"]
    assert "tenant:\n- acme\nversion: v2\n" in documents(place)["guide.md"]
    run(place, metadata={"version": ""})
    assert "version" not in documents(place)["guide.md"]
    assert "- acme" in documents(place)["guide.md"]


def test_a_file_of_a_remembered_folder_keeps_its_place(place: Workspace, folder: Path) -> None:
    run(place, folder, to="inbox")
    (folder / "guide.md").write_text("# Guide 2\n")
    (folder / "HR Team" / "Leave Policy.txt").write_text("Forty days.")
    assert run(place, folder / "HR Team").changed == ["inbox/hr-team/leave-policy.md"]
    assert run(place, folder / "guide.md").changed == ["inbox/guide.md"]


def test_a_document_whose_file_is_gone_is_deleted_only_when_that_was_agreed(place: Workspace, folder: Path) -> None:
    run(place, folder)
    (folder / "HR Team" / "Leave Policy.txt").unlink()
    left = run(place, folder)
    assert (left.gone, left.deleted) == (["hr-team/leave-policy.md"], [])
    assert "hr-team/leave-policy.md" in documents(place)
    assert run(place, folder, delete=True).deleted == ["hr-team/leave-policy.md"]
    assert documents(place) == {"guide.md": "# Guide\n"}
    assert not (place.documents / "hr-team").exists()
    assert run(place, folder, delete=True).deleted == []


def test_a_renamed_file_takes_its_document_along_with_what_was_edited_in_it(place: Workspace, folder: Path) -> None:
    run(place, folder)
    (place.documents / "guide.md").write_text("# Guide\n\nA remark.\n")
    (folder / "guide.md").rename(folder / "manual.md")
    (folder / "HR Team").rename(folder / "People")
    report = run(place, folder)
    assert report.renamed == [
        {"from": "guide.md", "to": "manual.md"},
        {"from": "hr-team/leave-policy.md", "to": "people/leave-policy.md"},
    ]
    assert (report.added, report.deleted, report.gone) == ([], [], [])
    assert documents(place)["manual.md"] == "# Guide\n\nA remark.\n"
    assert sorted(documents(place)) == ["manual.md", "people/leave-policy.md"]


def test_a_file_renamed_in_case_only_keeps_its_document(place: Workspace, folder: Path) -> None:
    run(place, folder)
    (folder / "guide.md").rename(folder / "GUIDE.markdown")
    assert run(place, folder).gone == []
    assert documents(place)["guide.md"] == "# Guide\n"


def test_what_was_edited_by_hand_stays(place: Workspace, folder: Path) -> None:
    run(place, folder)
    (place.documents / "guide.md").write_text("# My guide\n")
    report = run(place, folder)
    assert (report.kept, report.changed, report.conflicts) == (["guide.md"], [], [])
    assert documents(place)["guide.md"] == "# My guide\n"


def test_what_both_changed_stays_with_a_note_of_what_the_source_changed(place: Workspace, folder: Path) -> None:
    run(place, folder)
    (place.documents / "guide.md").write_text("# My guide\n")
    (folder / "guide.md").write_text("# Their guide\n")
    [conflict] = run(place, folder).conflicts
    assert conflict["doc_id"] == "guide.md"
    assert documents(place)["guide.md"] == "# My guide\n"
    note = (place.root / str(conflict["note"])).read_text()
    assert "-# Guide\n" in note
    assert "+# Their guide\n" in note
    assert run(place, folder).conflicts == []  # told once


def test_what_was_edited_or_deleted_by_hand_is_told_truly_when_its_fields_change(
    place: Workspace, folder: Path
) -> None:
    run(place, folder)
    (place.documents / "guide.md").write_text("# Mine\n")
    (place.documents / "hr-team" / "leave-policy.md").unlink()
    report = run(place, metadata={"tenant": "acme"})
    assert report.kept == ["hr-team/leave-policy.md"]
    [conflict] = report.conflicts
    assert (conflict["doc_id"], conflict["message"]) == (
        "guide.md",
        "edited by hand, and what an import makes of its file changed: your text stays",
    )
    assert sorted(documents(place)) == ["guide.md"]
    again = run(place)
    assert (sorted(again.kept), again.conflicts) == (["guide.md", "hr-team/leave-policy.md"], [])


def test_the_source_s_text_is_taken_on_request_and_the_edited_one_kept_aside(place: Workspace, folder: Path) -> None:
    run(place, folder)
    (place.documents / "guide.md").write_text("# My guide\n")
    report = run(place, folder / "guide.md", theirs=True)
    assert report.changed == ["guide.md"]
    assert documents(place)["guide.md"] == "# Guide\n"
    assert (place.state / "imports" / "guide.md.mine.md").read_text() == "# My guide\n"


def test_the_same_change_on_both_sides_is_no_conflict(place: Workspace, folder: Path) -> None:
    run(place, folder)
    for path in (place.documents / "guide.md", folder / "guide.md"):
        path.write_text("# Same\n")
    report = run(place, folder)
    assert (report.conflicts, report.kept, report.unchanged) == ([], [], 2)


def test_a_document_deleted_by_hand_stays_away(place: Workspace, folder: Path) -> None:
    run(place, folder)
    (place.documents / "guide.md").unlink()
    assert run(place, folder).kept == ["guide.md"]
    (folder / "guide.md").write_text("# Guide 2\n")
    assert [conflict["doc_id"] for conflict in run(place, folder).conflicts] == ["guide.md"]
    assert "guide.md" not in documents(place)


def test_an_edited_document_outlives_its_file(place: Workspace, folder: Path) -> None:
    run(place, folder)
    (place.documents / "guide.md").write_text("# My guide\n")
    (folder / "guide.md").unlink()
    report = run(place, folder, delete=True)
    assert (report.deleted, [one["doc_id"] for one in report.conflicts]) == ([], ["guide.md"])
    assert documents(place)["guide.md"] == "# My guide\n"


def test_what_could_not_be_read_is_told_again_after_an_import_that_was_interrupted(
    place: Workspace, folder: Path
) -> None:
    (folder / "aa.pdf").write_bytes(b"none")
    told: list[str] = []

    def interrupted(what: str, done: int, total: int) -> None:
        if done == total - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_documents(place, [folder], progress=interrupted, tell=lambda skipped: told.append(skipped["message"]))
    assert "not a PDF file, whatever its name says" in told
    report = import_documents(place, [folder])
    assert report.still_skipped == 0
    assert "not a PDF file, whatever its name says" in messages(report).values()
    assert import_documents(place, [folder]).skipped == []


@pytest.mark.parametrize("deleted", [False, True])
def test_what_both_changed_is_told_again_after_an_import_that_was_interrupted(
    place: Workspace, folder: Path, deleted: bool
) -> None:
    (folder / "aa.md").write_text("# Alpha\n")
    run(place, folder)
    (folder / "aa.md").write_text("# Alpha, changed there\n")
    if deleted:
        (place.documents / "aa.md").unlink()
    else:
        (place.documents / "aa.md").write_text("# My alpha\n")

    def interrupted(what: str, done: int, total: int) -> None:
        if done == total - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_documents(place, [folder], progress=interrupted)
    assert [one["doc_id"] for one in import_documents(place, [folder]).conflicts] == ["aa.md"]
    assert import_documents(place, [folder]).conflicts == []


def test_a_file_that_became_unreadable_leaves_its_document_alone(place: Workspace, folder: Path) -> None:
    run(place, folder)
    (folder / "guide.md").write_bytes(b"\x00\x01\xff\xfe" * 9)
    report = run(place, folder)
    assert "stays as it was imported before" in messages(report)["guide.md"]
    assert documents(place)["guide.md"] == "# Guide\n"
    assert run(place, folder).skipped == []  # told once


def test_a_source_that_is_gone_as_a_whole_deletes_nothing_unasked(place: Workspace, folder: Path) -> None:
    run(place, folder)
    folder.rename(folder.with_name("elsewhere"))
    asked: list[bool] = []

    def refuse(gone: Any, everything: bool) -> bool:
        asked.append(everything)
        return False

    report = import_documents(place, [], may_delete=refuse)
    assert asked == [True]
    assert sorted(report.gone) == ["guide.md", "hr-team/leave-policy.md"]
    assert len(documents(place)) == 2
    folder.with_name("elsewhere").rename(folder)
    assert run(place).unchanged == 2


@pytest.mark.parametrize("files", [1, 2])
def test_a_folder_that_is_empty_now_is_asked_about_as_one_that_is_gone(
    place: Workspace, folder: Path, files: int
) -> None:
    """What isn't mounted looks like an empty folder; the only file of a folder may well be deleted."""
    own = folder / "own"
    own.mkdir()
    for number in range(files):
        (own / f"{number}.md").write_text(f"# {number}\n")
    run(place, own)
    for file in own.iterdir():
        file.unlink()
    asked: list[tuple[list[str], bool]] = []

    def refuse(gone: Any, everything: bool) -> bool:
        asked.append((list(gone), everything))
        return False

    report = import_documents(place, [str(own)], may_delete=refuse)
    assert asked == [([f"{number}.md" for number in range(files)], files > 1)]
    assert len(documents(place)) == files
    told = f"holds no file any more; its {files} documents stay" if files > 1 else None
    assert messages(report).get("own") == told


def test_what_is_no_file_and_leads_nowhere_is_told(place: Workspace, folder: Path) -> None:
    (folder / "self.md").symlink_to("self.md")
    (folder / "one.md").symlink_to("two.md")
    (folder / "two.md").symlink_to("one.md")
    (folder / "gone.md").symlink_to("missing.md")
    os.mkfifo(folder / "pipe.md")
    report = run(place, folder)
    assert "guide.md" in report.imported
    nowhere = dict.fromkeys(("self.md", "one.md", "two.md", "gone.md"), "a link that leads nowhere")
    assert {name: why for name, why in messages(report).items() if name in {*nowhere, "pipe.md"}} == {
        **nowhere,
        "pipe.md": "neither a file nor a folder",
    }


def test_rules_that_are_no_file_or_have_no_end_are_told_and_their_folder_alone_is_left_out(
    place: Workspace, folder: Path
) -> None:
    for name in ("waits", "endless", "long"):
        (folder / name).mkdir()
        (folder / name / "a.md").write_text("# A\n")
    os.mkfifo(folder / "waits" / ".gitignore")  # whoever opens it waits without an end
    (folder / "endless" / ".gitignore").symlink_to("/dev/zero")
    (folder / "long" / ".gitignore").write_text("a\n" * 60_000)
    report = run(place, folder)
    assert "guide.md" in report.imported
    told = messages(report)
    assert [told[name].rpartition(".gitignore ")[2] for name in ("waits", "endless", "long")] == [
        *["is no file"] * 2,
        "has more than 100,000 bytes",
    ]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("rule", "name"),
    [("*a" * 30 + "*b", "a" * 250), ("[ab]?" + "*[a]" * 30 + "*x", "a" * 250), ("**/a/" * 20 + "b", "a/" * 800 + "c")],
)
def test_no_rule_costs_more_than_it_is_long(tmp_path: Path, rule: str, name: str) -> None:
    """Whoever breaks this waits: six stars in a line held an import for hours."""
    (tmp_path / ".gitignore").write_text(f"{rule}\n*a*a*c\n**/b/**/d/**\n")
    rules = GitIgnore(tmp_path)
    rules.enter(tmp_path)
    assert not rules.ignores(tmp_path / name)
    assert rules.ignores(tmp_path / "xaxaxc")
    assert rules.ignores(tmp_path / "x/b/x/y/d/z")
    assert not rules.ignores(tmp_path / "x/b/x/yd/z")


def obey_permissions() -> None:
    """Root, too, is refused what a file's mode forbids: drop CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


def test_names_that_are_no_utf8_are_read_as_western_ones(place: Workspace, folder: Path) -> None:
    (Path(os.fsdecode(os.fsencode(folder) + b"/R\xe9sum\xe9")).mkdir())
    Path(os.fsdecode(os.fsencode(folder) + b"/R\xe9sum\xe9/caf\xe9.txt")).write_text("Hot.\n")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.md")).write_text("# Hot\n")
    report = run(place, folder)
    assert {"résumé/café.md", "café.md"} <= set(report.imported)
    assert documents(place)["résumé/café.md"].startswith("---\ntitle: café\n")
    assert run(place).imported == []


@pytest.mark.skipif(sys.platform != "linux", reason="uses prctl")
def test_what_may_not_be_read_is_told_and_the_rest_imported(place: Workspace, folder: Path) -> None:
    for name, mode in (("closed", 0), ("names", 0o400), ("ignoring", 0o700)):
        (folder / name).mkdir()
        (folder / name / "a.md").write_text("# A\n")
        (folder / name).chmod(mode)
    (folder / "ignoring" / ".gitignore").write_text("*.txt\n")
    (folder / "ignoring" / ".gitignore").chmod(0)
    (folder / "secret.md").write_text("secret")
    (folder / "secret.md").chmod(0)
    code = (
        "import json, sys\n"
        "from hive_agents import Workspace\n"
        "from hive_agents.sync.importing import import_documents\n"
        "report = import_documents(Workspace(sys.argv[1]), sys.argv[2])\n"
        "print(json.dumps([report.imported, report.skipped]))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code, place.root, folder],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=obey_permissions,
    ).stdout
    for name in ("closed", "names", "ignoring"):
        (folder / name).chmod(0o700)
    imported, skipped = json.loads(printed)
    assert sorted(imported) == ["guide.md", "hr-team/leave-policy.md"]
    denied = {
        Path(one["file"]).relative_to(folder).as_posix() for one in skipped if "Permission denied" in one["message"]
    }
    assert denied == {"closed", "names/a.md", "ignoring", "secret.md"}


def test_a_folder_that_cannot_be_listed_deletes_nothing(
    place: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(place, folder)
    scandir = __import__("os").scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("HR Team"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    report = run(place, folder, delete=True)
    assert (report.deleted, report.gone) == ([], [])
    assert messages(report) == {"HR Team": "cannot be read: Permission denied"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    (path / "docs").mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    (path / "docs" / "a.md").write_text("# One\n")
    (path / "top.md").write_text("# Top\n")
    commit(path, "v1")
    (path / "docs" / "a.md").write_text("# Two\n")
    (path / "docs" / "b.md").write_text("# B\n")
    commit(path, "v2")
    (path / "docs" / "a.md").write_text("# Not committed\n")
    return path


def git(path: Path, *arguments: str) -> None:
    who = ["-c", "user.name=dana", "-c", "user.email=dana@example.org"]
    subprocess.run(["git", *who, "-C", str(path), *arguments], check=True, capture_output=True)


def commit(path: Path, tag: str) -> None:
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", tag)
    git(path, "tag", tag)


def test_a_revision_of_a_repository_is_read_without_its_work_tree(place: Workspace, repository: Path) -> None:
    assert run(place, repository / "docs", rev="v1").imported == ["a.md"]
    assert documents(place) == {"a.md": "# One\n"}
    report = run(place, repository / "docs", rev="v2")
    assert (report.added, report.changed) == (["b.md"], ["a.md"])
    assert documents(place)["a.md"] == "# Two\n"
    assert run(place).unchanged == 2
    assert run(place, repository / "docs", rev="v1", delete=True).deleted == ["b.md"]


def test_a_revision_is_read_where_its_work_tree_has_the_path_no_longer(place: Workspace, repository: Path) -> None:
    git(repository, "mv", "-f", "docs", "manual")
    (repository / "manual" / "deep").mkdir()
    (repository / "manual" / "deep" / "a.md").write_text("# Deep\n")
    commit(repository, "v3")
    assert run(place, repository / "docs", rev="v2").imported == ["a.md", "b.md"]
    assert documents(place)["a.md"] == "# Two\n"
    assert run(place).unchanged == 2
    git(repository, "rm", "-q", "-r", "manual")
    assert run(place, repository / "manual" / "a.md", rev="v3", to="alone").imported == ["alone/a.md"]
    report = run(place, repository / "docs", rev="v3", to="none")
    assert messages(report) == {"docs at v3": "is not in the revision v3"}


@pytest.mark.parametrize("rev", ["nothing", "--help", "v1:docs", ""])
def test_a_revision_that_is_none_is_told(place: Workspace, repository: Path, rev: str) -> None:
    [message] = messages(run(place, repository, rev=rev)).values()
    assert "has no revision" in message


def test_a_name_that_is_no_text_is_imported(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    Path(str(source).encode().decode() + "/caf\udce9.txt").write_text("Coffee.")
    assert len(run(place, source).imported) == 1
    assert run(place, source).unchanged == 1


def test_names_that_no_disk_takes_or_a_folder_has_lose_no_file(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "b.md").mkdir(parents=True)
    long = "ü" * 120
    for name in (f"{long}.txt", "b.txt", "b.md/inner.txt"):
        (source / name).write_text(name)
    (place.documents / "c.md").mkdir(parents=True)
    (source / "c.txt").write_text("c")
    report = run(place, source)
    assert "c-txt.md" in report.imported
    assert len(report.imported) + len(report.skipped) == 4
    assert all("is a document already" in one["message"] for one in report.skipped)
    again = run(place, source)
    assert again.unchanged == len(report.imported)


MAIN = """\
use lamps;
// ANCHOR: all
fn main() {
    // ANCHOR: on
    lamps::on();
    // ANCHOR_END: on
}
// ANCHOR_END: all
"""


def included(place: Workspace, tmp_path: Path, text: str) -> str:
    book = tmp_path / "book"
    for name, content in (("code/main.rs", MAIN), ("src/part.md", "A part.\n{{#include more.md}}\n")):
        (book / name).parent.mkdir(parents=True, exist_ok=True)
        (book / name).write_text(content)
    (book / "src" / "more.md").write_text("More.\n{{#include part.md}}\n")
    (book / ".env").write_text("secret")
    (tmp_path / "outside.md").write_text("outside")
    (book / "src" / "page.md").write_text(text)
    run(place, book)
    return documents(place)["src/page.md"]


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        ("{{#include ../code/main.rs}}", "use lamps;\nfn main() {\n    lamps::on();\n}\n"),
        ("{{#rustdoc_include ../code/main.rs:on}}", "    lamps::on();\n"),
        ("{{#playground ../code/main.rs:3:5 editable}}", "fn main() {\n    lamps::on();\n"),
        ("{{#include ../code/main.rs:1}}", "use lamps;\n"),
        ("- {{#include ../code/main.rs::1}}.", "- use lamps;.\n"),
        ("  {{ #include ../code/main.rs:all}}", "  fn main() {\n      lamps::on();\n  }\n"),
        ("{{#include part.md}}", "A part.\nMore.\n"),
        ("\\{{#include ../code/main.rs}}", "\\{{#include ../code/main.rs}}\n"),
        ("{{#include ../code/gone.rs}}", ""),
        ("{{#include ../code/main.rs:gone}}", ""),
        ("{{#include ../code/main.rs:90:}}", ""),
        ("{{#include ../../outside.md}}", ""),
        ("{{#include ../.env}}", ""),
        ("{{#include /etc/hostname}}", ""),
        ("{{#include page.md}}", ""),
        ("See {{#include gone.md}}.", "See .\n"),
    ],
)
def test_a_book_s_includes_are_the_lines_that_they_name(
    place: Workspace, tmp_path: Path, call: str, lines: str
) -> None:
    assert included(place, tmp_path, f"# Lamps\n\n```rust\n{call}\n```\n") == f"# Lamps\n\n```rust\n{lines}```\n"


def test_a_document_follows_what_it_includes(place: Workspace, tmp_path: Path) -> None:
    included(place, tmp_path, "{{#include ../code/main.rs:on}}\n")
    assert run(place).changed == []
    (tmp_path / "book" / "code" / "main.rs").write_text(MAIN.replace("lamps::on", "lamps::off"))
    assert run(place, tmp_path / "book" / "src" / "page.md").changed == ["src/page.md"]
    assert documents(place)["src/page.md"] == "    lamps::off();\n"


def test_files_that_include_one_another_many_times_stay_small(place: Workspace, tmp_path: Path) -> None:
    bombs = tmp_path / "bombs"
    bombs.mkdir()
    for number in range(9):
        (bombs / f"{number}.md").write_text(f"{{{{#include {number + 1}.md}}}}\n" * 9 + "boom " * 1000)
    run(place, bombs)
    assert all(len(text) < 8_000_000 for text in documents(place).values())
