from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base import did_you_mean
from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.evaluation import GoldenSet, golden as golden_sets, load_golden
from tests.topics import holdout_queries, query, write_golden


def write(workspace: Workspace, text: str) -> None:
    path = workspace.root / "evals" / "golden.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def faults(workspace: Workspace, queries: list[dict[str, Any]], **keys: Any) -> list[Diagnostic]:
    with pytest.raises(HiveError) as raised:
        write_golden(workspace, queries, **keys)
    assert raised.value.exit_code == 1
    for found in raised.value.diagnostics:
        assert found.file == "evals/golden.json"
        assert found.path
        assert found.line
        assert found.fix
    return raised.value.diagnostics


def codes(found: list[Diagnostic]) -> list[tuple[str, str | None]]:
    return [(diagnostic.code, diagnostic.path) for diagnostic in found]


def test_labels_have_a_grade_each(topics: Workspace) -> None:
    golden = write_golden(topics, [query("heater", irrelevant=["notes/empty.md"])])
    (entry,) = golden
    assert entry.qrels == {"guides/heater.md": 1, "faqs/heater.md": -1, "notes/empty.md": 0}
    assert entry.label("guides/heater.md") == "relevant"
    assert entry.label("faqs/heater.md") == "distractor"
    assert entry.label("notes/empty.md") == "irrelevant"
    assert entry.label("guides/gripper.md") == "unjudged"


def test_optional_keys_have_defaults(topics: Workspace) -> None:
    golden = write_golden(topics, [{"id": "q", "query": "heater"}])
    (entry,) = golden
    assert (golden.k, entry.relevant, entry.distractors, entry.tags) == (10, [], [], [])
    assert (entry.irrelevant, entry.split, entry.principal) == (None, None, None)
    assert not golden.has_holdout


def test_splits_are_parts_with_the_identity_of_the_whole(topics: Workspace) -> None:
    golden = write_golden(topics, holdout_queries(), k=3)
    holdout, train, none = golden.split("holdout"), golden.split("train"), golden.split("validation")
    assert (len(golden), len(holdout), len(train), len(none)) == (26, 24, 2, 0)
    assert (holdout.hash, holdout.k, holdout.collection, holdout.file) == (golden.hash, 3, "kb", "evals/golden.json")
    assert golden.has_holdout
    assert not train.has_holdout
    assert train.joined(holdout).texts == golden.texts


def test_split_ignores_case(topics: Workspace) -> None:
    assert write_golden(topics, [query("heater", split="HoldOut")]).has_holdout


def same_hash(workspace: Workspace, first: GoldenSet, text: str) -> bool:
    write(workspace, text)
    return load_golden(workspace).hash == first.hash


def test_hash_binds_what_counts_and_no_layout(topics: Workspace) -> None:
    value = {"collection": "kb", "k": 10, "queries": [query("heater", tags=["a"])]}
    golden = write_golden(topics, value["queries"])  # type: ignore[arg-type]
    assert same_hash(topics, golden, json.dumps(value))
    assert same_hash(topics, golden, json.dumps(dict(reversed(value.items())), indent=5))
    assert same_hash(topics, golden, json.dumps({"$schema": "x", **value}))
    changes: list[dict[str, Any]] = [
        {"k": 9},
        {"queries": [query("heater", tags=["b"])]},
        {"queries": [query("heater", tags=["a"], split="train")]},
        {"queries": [query("heater", tags=["a"], distractors=[])]},
        {"queries": [query("heater", tags=["a"], irrelevant=[])]},
    ]
    for change in changes:
        assert not same_hash(topics, golden, json.dumps(value | change))


def test_label_without_document_is_named_with_a_proposal(topics: Workspace) -> None:
    queries = [query("heater"), query("gripper", distractors=["faqs/griper.md", "nowhere.md"])]
    found = faults(topics, queries)
    assert codes(found) == [("HIVE-109", "queries[1].distractors[0]"), ("HIVE-109", "queries[1].distractors[1]")]
    assert found[0].fix == 'did you mean "faqs/gripper.md"?'
    lines = (topics.root / "evals" / "golden.json").read_text().splitlines()
    assert "griper.md" in lines[(found[0].line or 0) - 1]
    assert "nowhere.md" in lines[(found[1].line or 0) - 1]


def test_labels_of_a_folder_that_is_gone_are_told_without_a_search_for_each(
    topics: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[str] = []

    def similar(word: str, known: Iterable[str], otherwise: str) -> str:
        looked_for.append(word)
        return did_you_mean(word, known, otherwise)

    monkeypatch.setattr(golden_sets, "did_you_mean", similar)
    lost = [f"faqs/griper{number}.md" for number in range(30)]
    found = faults(topics, [query("heater", id=f"q{number}", distractors=lost) for number in range(3)])
    assert codes(found) == [("HIVE-109", f"queries[{q}].distractors[{n}]") for q in range(3) for n in range(30)]
    assert looked_for == lost[:20]
    assert found[60].fix == 'did you mean "faqs/gripper.md"?'
    assert "hive index" in str(found[-1].fix)


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"distractors": ["guides/heater.md"]}, "queries[0].distractors[0]"),
        ({"irrelevant": ["faqs/heater.md"]}, "queries[0].irrelevant[0]"),
        ({"relevant": ["guides/heater.md", "guides/heater.md"]}, "queries[0].relevant[1]"),
    ],
)
def test_document_stands_in_one_list_and_there_once(topics: Workspace, keys: dict[str, Any], path: str) -> None:
    assert codes(faults(topics, [query("heater", **keys)])) == [("HIVE-110", path)]


def test_id_is_used_once(topics: Workspace) -> None:
    found = faults(topics, [query("heater"), query("gripper", id="heater")])
    assert codes(found) == [("HIVE-111", "queries[1].id")]


def test_all_faults_of_the_labels_are_collected(topics: Workspace) -> None:
    found = faults(topics, [query("heater", relevant=["x.md"]), query("heater", distractors=["guides/heater.md"])])
    assert [d.code for d in found] == ["HIVE-109", "HIVE-111", "HIVE-110"]


@pytest.mark.parametrize(
    ("entry", "code", "path"),
    [
        ({"query": "heater"}, "HIVE-106", "queries[0].id"),
        ({"id": "q"}, "HIVE-106", "queries[0].query"),
        ({"id": "", "query": "heater"}, "HIVE-105", "queries[0].id"),
        ({"id": "q", "query": "?!"}, "HIVE-105", "queries[0].query"),
        ({"id": "q", "query": ""}, "HIVE-105", "queries[0].query"),
        ({"id": "q", "query": "heater", "split": "test"}, "HIVE-105", "queries[0].split"),
        ({"id": "q", "query": "heater", "relevent": []}, "HIVE-103", "queries[0].relevent"),
        ({"id": "q", "query": "heater", "relevant": "x.md"}, "HIVE-104", "queries[0].relevant"),
    ],
)
def test_query_is_checked_key_by_key(topics: Workspace, entry: dict[str, Any], code: str, path: str) -> None:
    assert codes(faults(topics, [entry])) == [(code, path)]


@pytest.mark.parametrize("k", [0, 1001, "10"])
def test_depth_has_a_range(topics: Workspace, k: object) -> None:
    ((code, path),) = codes(faults(topics, [query("heater")], k=k))
    assert (code, path) == ("HIVE-104" if isinstance(k, str) else "HIVE-105", "k")


def test_collection_that_does_not_exist_is_told_with_its_place(topics: Workspace) -> None:
    (found,) = faults(topics, [query("heater")], collection="kbs")
    assert (found.code, found.path, found.line, found.fix) == ("HIVE-211", "collection", 2, 'did you mean "kb"?')


def test_golden_set_can_be_another_file(topics: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_golden(topics)
    elsewhere = tmp_path / "mine.json"
    (topics.root / "evals" / "golden.json").rename(elsewhere)
    assert load_golden(topics, elsewhere).file == elsewhere.as_posix()
    (topics.root / "evals" / "two.json").write_bytes(elsewhere.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert load_golden(topics, Path("evals/two.json")).file == "evals/two.json"


def test_missing_golden_set_is_wrong_usage(topics: Workspace) -> None:
    for path in (None, Path("evals/none.json")):
        with pytest.raises(HiveError) as raised:
            load_golden(topics, path)
        (found,) = raised.value.diagnostics
        assert (found.code, found.path, raised.value.exit_code) == ("HIVE-107", "$", 2)
        assert "hive label" in str(found.fix)


@pytest.mark.parametrize("text", ["", "[]", '{"queries": [', '{"collection": "kb", "queries": [] // none\n}'])
def test_broken_file_is_level_1(topics: Workspace, text: str) -> None:
    write(topics, text)
    with pytest.raises(HiveError) as raised:
        load_golden(topics)
    assert {d.level for d in raised.value.diagnostics} == {1}
