from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hive_agents.importing import ImportFailure, ImportReport, import_files


def run(root: Path, *sources: Path, to: str = "", **options: Any) -> ImportReport:
    root.mkdir(exist_ok=True)
    return import_files(sources, root / to, root=root, **{"metadata": {}, **options})


def messages(report: ImportReport) -> dict[str, str]:
    return {Path(skipped["file"]).name: skipped["message"] for skipped in report.skipped}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / "documents"


@pytest.fixture(autouse=True)
def parents(root: Path) -> None:
    root.parent.mkdir()


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


def test_a_folder_keeps_its_structure_and_reports_what_it_could_not_read(root: Path, folder: Path) -> None:
    report = run(root, folder, to="inbox")
    assert sorted(report.imported) == ["inbox/guide.md", "inbox/hr-team/leave-policy.md"]
    assert messages(report) == {
        "photo.jpg": ".jpg: not a supported kind of file",
        "empty.md": "the file is empty",
    }
    assert (root / "inbox" / "guide.md").read_text() == "# Guide\n"


def test_metadata_and_title_go_into_the_front_matter(root: Path, handbook_docx: Path) -> None:
    report = run(root, handbook_docx, metadata={"tenant": "acme", "view": ["group:qa", "user:dana"]})
    assert report.imported == ["freezer-handbook.md"]
    _, head, body = (root / "freezer-handbook.md").read_text().split("---\n", 2)
    assert yaml.safe_load(head) == {
        "title": "Freezer handbook",
        "tenant": "acme",
        "view": ["group:qa", "user:dana"],
        "source_file": "Freezer Handbook.docx",
    }
    assert body.startswith("\n# Freezer handbook\n")


def test_metadata_wins_over_what_a_markdown_source_says(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.md"
    source.write_text("---\ntenant: other\nowner: dana\n---\nText.\n")
    run(root, source, metadata={"tenant": "acme"})
    assert (root / "a.md").read_text() == "---\ntenant: acme\nowner: dana\n---\n\nText.\n"


def test_without_a_title_the_file_name_is_the_title(root: Path, folder: Path) -> None:
    run(root, folder / "HR Team" / "Leave Policy.txt")
    assert "title: Leave Policy\n" in (root / "leave-policy.md").read_text()


def test_two_files_for_one_document_are_a_collision(root: Path, tmp_path: Path) -> None:
    for name in ("a.txt", "A.md"):
        (tmp_path / name).write_text(name)
    report = run(root, tmp_path / "a.txt", tmp_path / "A.md", overwrite=True)
    assert report.imported == ["a.md"]
    assert messages(report) == {"A.md": "a.txt became a.md already; rename one of them"}


def test_an_existing_document_is_replaced_only_when_asked_and_from_the_same_file(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("old")
    run(root, source)
    source.write_text("new")
    assert "overwrite was not asked for" in messages(run(root, source))["a.txt"]
    assert run(root, source, overwrite=True).imported == ["a.md"]
    assert (root / "a.md").read_text().endswith("\nnew\n")

    other = tmp_path / "a.md"
    other.write_text("mine")
    assert "is another document (from a.txt)" in messages(run(root, other, overwrite=True))["a.md"]


def test_links_that_leave_the_folder_are_skipped(root: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("secret")
    (folder / "link.md").symlink_to(tmp_path / "outside.md")
    (folder / "inside.md").symlink_to(folder / "guide.md")
    (folder / "loop").symlink_to(folder)
    report = run(root, folder)
    assert "inside.md" in report.imported
    assert "link.md" not in report.imported
    assert messages(report)["link.md"] == "a link that leaves the folder"
    assert messages(report)["loop"] == "a link to a folder; import the folder itself"


def test_no_name_leads_out_of_the_documents(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "...hidden name..txt"
    source.write_text("x")
    assert run(root, source).imported == ["hidden-name.md"]
    with pytest.raises(ImportFailure, match="outside the documents folder"):
        run(root, source, to="..")


def test_a_linked_folder_below_the_documents_is_not_written_through(root: Path, folder: Path, tmp_path: Path) -> None:
    root.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (root / "hr-team").symlink_to(tmp_path / "elsewhere")
    assert "link that leaves" in messages(run(root, folder))["Leave Policy.txt"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_documents_are_not_imported_into_themselves(root: Path) -> None:
    root.mkdir()
    (root / "a.md").write_text("x")
    assert messages(run(root, root / "a.md", to="copy")) == {"a.md": "is in the documents folder already"}


def test_a_file_named_twice_is_imported_once(root: Path, folder: Path) -> None:
    report = run(root, folder / "guide.md", folder / "guide.md")
    assert (report.imported, report.skipped) == (["guide.md"], [])


def test_a_missing_source_is_reported(root: Path, tmp_path: Path) -> None:
    assert messages(run(root, tmp_path / "gone")) == {"gone": "no such file"}
