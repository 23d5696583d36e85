from __future__ import annotations

import random
from pathlib import Path

import pytest

from hive_agents.sync import examine_documents
from hive_agents.sync.examining import DocumentFinding
from hive_agents.sync.importing import import_documents
from hive_agents.workspace.workspace import Workspace


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace" / "collections").mkdir(parents=True)
    (tmp_path / "workspace" / "documents").mkdir()
    return Workspace(tmp_path / "workspace")


def write(place: Workspace, doc_id: str, text: str) -> None:
    path = place.documents / doc_id
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def prose(seed: int, words: int = 300) -> str:
    chance = random.Random(seed)
    return " ".join(f"word{chance.randrange(5000)}" for _ in range(words))


def found(place: Workspace) -> dict[str, DocumentFinding]:
    return {finding.name: finding for finding in examine_documents(place)}


def test_documents_without_anything_odd_are_fine(place: Workspace) -> None:
    for number in range(5):
        write(place, f"{number}.md", prose(number))
    [finding] = examine_documents(place)
    assert (finding.status, finding.message) == ("ok", "nothing odd about 5 documents")


def test_a_long_text_without_a_heading_is_told_and_a_long_table_is_not(place: Workspace) -> None:
    write(place, "plain.md", prose(1, 4000))
    write(place, "parted.md", f"# One\n\n{prose(2, 4000)}")
    write(place, "list.md", "\n".join(f"| {prose(number, 20)} |" for number in range(300)))
    assert found(place)["no-headings"].documents == [["plain.md"]]


def test_twins_are_named_together_whatever_their_spacing(place: Workspace) -> None:
    write(place, "a.md", "# Keys\n\n" + prose(1))
    write(place, "b.md", "keys  " + prose(1).replace(" ", "\n"))
    write(place, "c.md", prose(2))
    assert found(place)["duplicates"].documents == [["a.md", "b.md"]]


def test_the_same_page_in_several_versions_proposes_a_series(place: Workspace) -> None:
    for number, version in enumerate(("v3.4", "v3.5", "v3.10")):
        for page in range(3):
            write(place, f"{version}/op/{page}.md", f"{prose(page, 600)} changed in {number} {prose(100 + number, 20)}")
    finding = found(place)["versions"]
    assert len(finding.documents) == 3
    assert "3 pages exist in several versions: v3.4, v3.5, v3.10" in finding.message
    assert '"version": ["v3.10"]' in str(finding.fix)
    assert "series" in str(finding.fix)
    assert "near-duplicates" not in found(place)


def test_nearly_the_same_text_elsewhere_is_told_apart_from_versions(place: Workspace) -> None:
    write(place, "a.md", prose(1, 600))
    write(place, "b.md", prose(1, 600) + " and a last remark by somebody")
    write(place, "c.md", prose(3, 600))
    assert found(place)["near-duplicates"].documents == [["a.md", "b.md"]]


def test_paragraphs_that_each_page_repeats_are_boilerplate(place: Workspace) -> None:
    for number in range(20):
        notice = "\n\nCopyright by us, all rights reserved everywhere.\n\n" if number < 12 else "\n\n"
        write(place, f"{number}.md", prose(number) + notice + "Short one.")
    finding = found(place)["boilerplate"]
    assert "one in 12" in finding.message
    assert len(finding.documents) == 1


def test_empty_huge_and_unreadable_documents_are_named(place: Workspace) -> None:
    write(place, "empty.md", "---\ntitle: x\n---\n\n---\n")
    write(place, "huge.md", prose(1, 30_000))
    write(place, "broken.md", "---\ntitle: [\n---\nText")
    findings = found(place)
    assert findings["empty"].documents == [["empty.md"]]
    assert findings["huge"].documents == [["huge.md"]]
    assert (findings["unreadable"].status, findings["unreadable"].documents) == ("fail", [["broken.md"]])


def test_documents_that_are_behind_their_files_are_stale(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b", "c"):
        (source / f"{name}.md").write_text(name * 5)
    import_documents(place, [str(source)])
    assert "stale" not in found(place)
    (source / "a.md").unlink()
    late = (source / "b.md").stat().st_mtime + 60
    __import__("os").utime(source / "b.md", (late, late))
    assert found(place)["stale"].documents == [["a.md", "b.md"]]


def test_includes_that_were_dropped_are_counted(place: Workspace, tmp_path: Path) -> None:
    book = tmp_path / "book"
    book.mkdir()
    (book / "a.md").write_text("# A\n\n{{#include ../gone.rs}}\n{{#include b.md}}\n\\{{#include x}}\n")
    (book / "b.md").write_text("Lamps are red.\n")
    import_documents(place, book)
    finding = found(place)["includes"]
    assert (finding.status, finding.documents) == ("warn", [["a.md"]])
    assert finding.message.startswith("1 includes in 1 documents were dropped")
