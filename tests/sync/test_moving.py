"""What follows a document that moves: labels, feedback, grants; and what doesn't change by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents.access import ViewGate, owner
from hive_agents.copilot.feedback import FeedbackQueue
from hive_agents.evaluation import held_out, load_golden
from hive_agents.evaluation.labelling import changed_since_labelled, save_label
from hive_agents.gate import accept, is_accepted
from hive_agents.gate.ledger import query_hashes
from hive_agents.ranking import build_index
from hive_agents.store import audit, connected
from hive_agents.sync.importing import import_documents
from hive_agents.workspace import Workspace
from tests.sample import hive
from tests.sync.test_importing import documents, run

GRANTS = """{"grants": [{"tenant": "acme", "match": "guide.md", "view": ["group:qa"]},
    {"tenant": "acme", "match": "hr/**", "view": ["group:qa"]}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "hr").mkdir(parents=True)
    for name in ("guide", "hr/leave", "hr/travel"):
        (source / f"{name}.md").write_text(f"# {name}\n\nThe text of {name}.\n")
    return source


@pytest.fixture
def place(tmp_path: Path, folder: Path) -> Workspace:
    root = tmp_path / "workspace"
    for name in ("collections", "access"):
        (root / name).mkdir(parents=True)
    fields = {"title": {"type": "text"}, "content": {"type": "text"}}
    (root / "collections" / "kb.json").write_text(json.dumps({"name": "kb", "fields": fields}))
    (root / "access" / "grants.json").write_text(GRANTS)
    place = Workspace(root)
    run(place, folder)
    label(place, "How do I begin?", relevant=["guide.md"], distractors=["hr/leave.md"], split="holdout")
    label(place, "How do I travel?", relevant=["hr/travel.md"], irrelevant=["guide.md"])
    return place


def label(place: Workspace, question: str, **labels: Any) -> None:
    save_label(place, question, "kb", **{"relevant": [], "distractors": [], "irrelevant": None} | labels)


def labels(place: Workspace) -> list[tuple[list[str], list[str], list[str] | None]]:
    return [(one.relevant, one.distractors, one.irrelevant) for one in load_golden(place)]


def test_labels_follow_a_renamed_document_and_are_told(place: Workspace, folder: Path) -> None:
    (folder / "guide.md").rename(folder / "manual.md")
    (folder / "hr").rename(folder / "people")
    report = run(place, folder)
    assert len(report.renamed) == 3
    assert report.labels == {"evals/golden.json": 4}
    assert labels(place) == [(["manual.md"], ["people/leave.md"], None), (["people/travel.md"], [], ["manual.md"])]
    assert changed_since_labelled(place, load_golden(place)) == {}
    (told,) = audit.recorded(place, "documents_moved")
    assert told["moves"]["guide.md"] == "manual.md"


def test_a_held_out_question_is_the_same_and_the_set_stays_accepted(place: Workspace, folder: Path) -> None:
    before = load_golden(place)
    assert is_accepted(place, before)
    (folder / "guide.md").rename(folder / "manual.md")
    run(place, folder)
    (folder / "manual.md").rename(folder / "handbook.md")
    run(place, folder)
    golden = load_golden(place)
    assert is_accepted(place, golden)
    assert query_hashes(held_out(golden) or golden) == query_hashes(held_out(before) or before)
    label(place, "And then?", relevant=["handbook.md"])
    assert not is_accepted(place, load_golden(place))
    accept(place, load_golden(place), "user:dana", "read it")
    (folder / "handbook.md").rename(folder / "guide.md")
    run(place, folder)
    assert is_accepted(place, load_golden(place))


def test_a_document_that_was_edited_by_hand_keeps_its_labels_too(place: Workspace, folder: Path) -> None:
    (place.documents / "guide.md").write_text("# Guide\n\nMine.\n")
    (folder / "guide.md").rename(folder / "manual.md")
    run(place, folder)
    assert documents(place)["manual.md"] == "# Guide\n\nMine.\n"
    assert labels(place)[0][0] == ["manual.md"]
    assert changed_since_labelled(place, load_golden(place)) == {"q1": "manual.md"}


def test_a_file_that_moves_to_another_source_keeps_its_labels(place: Workspace, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (folder / "guide.md").rename(other / "start.md")
    report = run(place, folder, other, delete=True)
    assert (report.added, report.deleted) == (["other/start.md"], ["guide.md"])
    assert labels(place)[0][0] == ["other/start.md"]


def test_a_document_that_stays_keeps_its_labels_though_a_copy_comes(place: Workspace, folder: Path) -> None:
    (folder / "copy.md").write_text((folder / "guide.md").read_text())
    (folder / "hr" / "leave.md").unlink()
    report = run(place, folder)
    assert (report.labels, report.gone) == ({}, ["hr/leave.md"])
    assert labels(place)[0] == (["guide.md"], ["hr/leave.md"], None)


def test_grants_to_the_document_alone_follow_and_those_of_folders_do_not(place: Workspace, folder: Path) -> None:
    (folder / "guide.md").rename(folder / "manual.md")
    (folder / "hr").rename(folder / "people")
    run(place, folder)
    assert (place.root / "access" / "grants.json").read_text() == GRANTS.replace("guide.md", "manual.md")


def test_what_readers_said_follows(place: Workspace, folder: Path) -> None:
    (place.root / "hive.toml").write_text('[access]\nmode = "open"\n')
    place = Workspace(place.root)
    row = ("f1", "2026-01-01", "local", "t", "r", "how?", "guide.md", "relevant", "user:a", "pending")
    with connected(place.records) as connection:
        connection.execute(
            "INSERT INTO feedback (id, created_at, tenant, thread_id, run_id, query, doc_id, verdict, by, status)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
    (folder / "guide.md").rename(folder / "manual.md")
    run(place, folder)
    (folder / "guide.md").write_text("# Another\n")
    (folder / "manual.md").rename(folder / "handbook.md")
    run(place, folder)
    queue = FeedbackQueue(place, owner(), ViewGate.of(place, owner()))
    assert [item.doc_id for item in queue.items()] == ["handbook.md"]


def test_a_broken_golden_set_stops_no_import(place: Workspace, folder: Path) -> None:
    (place.root / "evals" / "golden.json").write_text("{")
    (folder / "guide.md").rename(folder / "manual.md")
    assert len(import_documents(place).renamed) == 1


def by_hand(place: Workspace, old: str, new: str) -> None:
    (place.documents / new).parent.mkdir(exist_ok=True)
    (place.documents / old).rename(place.documents / new)


@pytest.mark.parametrize("quick", [False, True])
def test_labels_follow_a_document_that_is_renamed_by_hand(place: Workspace, quick: bool) -> None:
    build_index(place)
    by_hand(place, "guide.md", "manual.md")
    by_hand(place, "hr/leave.md", "people/leave.md")
    report = build_index(place, quick=quick)
    assert (report.labels, report.added, report.deleted) == ({"evals/golden.json": 3}, 2, 2)
    assert labels(place) == [(["manual.md"], ["people/leave.md"], None), (["hr/travel.md"], [], ["manual.md"])]
    (told,) = audit.recorded(place, "documents_moved")
    assert told["moves"] == {"guide.md": "manual.md", "hr/leave.md": "people/leave.md"}
    assert build_index(place).labels == {}
    assert "guide.md" in (place.root / "access" / "grants.json").read_text(), "who may view it isn't the name's to say"


def test_an_accepted_golden_set_stays_so_where_a_document_is_renamed_by_hand(place: Workspace) -> None:
    build_index(place)
    accept(place, load_golden(place), "user:dana", "read it")
    by_hand(place, "guide.md", "manual.md")
    build_index(place)
    assert is_accepted(place, load_golden(place))


def test_no_label_follows_where_it_is_not_certain_what_was_renamed(place: Workspace) -> None:
    before = (place.root / "evals" / "golden.json").read_text()
    (place.documents / "twin.md").write_bytes((place.documents / "guide.md").read_bytes())
    (place.documents / "empty.md").write_text("")
    build_index(place)
    by_hand(place, "guide.md", "one.md")  # two of one text are gone, and two come
    by_hand(place, "twin.md", "two.md")
    by_hand(place, "empty.md", "other.md")
    by_hand(place, "hr/leave.md", "hr/holidays.md")
    (place.documents / "hr/holidays.md").write_text("# Holidays\n\nAnother text.\n")
    assert build_index(place).labels == {}
    assert (place.root / "evals" / "golden.json").read_text() == before
    assert audit.recorded(place, "documents_moved") == []


def test_a_document_with_a_copy_keeps_its_labels(place: Workspace) -> None:
    before = labels(place)
    build_index(place)
    (place.documents / "copy.md").write_bytes((place.documents / "guide.md").read_bytes())
    assert build_index(place).labels == {}
    assert labels(place) == before


def test_a_rename_through_an_import_is_recorded_once(place: Workspace, folder: Path) -> None:
    build_index(place)
    (folder / "guide.md").rename(folder / "manual.md")
    run(place, folder)
    assert build_index(place).labels == {}, "the import moved them"
    assert len(audit.recorded(place, "documents_moved")) == 1


def test_who_measures_or_deploys_meets_the_new_name(place: Workspace) -> None:
    config = {"name": "words", "collection": "kb", "retrieval": {"method": "keyword", "top_k": 5}}
    (place.root / "configs").mkdir()
    (place.root / "configs" / "words.json").write_text(json.dumps(config))
    build_index(place)
    for number, command in enumerate((["deploy", "words"], ["evaluate", "words"])):
        by_hand(place, f"guide{number or ''}.md", f"guide{number + 1}.md")
        assert "HIVE-109" not in hive(*command, "-w", place.root).err
        assert load_golden(place).queries[0].relevant == [f"guide{number + 1}.md"]
