from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import load_golden
from hive_agents.evaluation.labelling import LabelPool, save_label
from hive_agents.ranking import SearchEngine
from tests.conftest import COLLECTION, write_document
from tests.topics import indexed_engine, query, write_golden

ROOT = Path(__file__).parents[2]


def label(workspace: Workspace, text: str, **labels: Any) -> dict[str, Any]:
    topic = text.split()[-1].strip("?").lower()
    lists: dict[str, Any] = {"relevant": [f"guides/{topic}.md"], "distractors": [], "irrelevant": None}
    return save_label(workspace, text, "kb", **(lists | labels))


def golden_json(workspace: Workspace) -> Any:
    return json.loads((workspace.root / "evals" / "golden.json").read_text(encoding="utf-8"))


def test_first_label_makes_the_golden_set(topics: Workspace) -> None:
    entry = label(topics, "set the heater", distractors=["faqs/heater.md"], tags=["hot"], split="train")
    assert entry["seen"].keys() == {"guides/heater.md", "faqs/heater.md"}
    assert {key: value for key, value in entry.items() if key != "seen"} == {
        "id": "q1",
        "query": "set the heater",
        "relevant": ["guides/heater.md"],
        "distractors": ["faqs/heater.md"],
        "tags": ["hot"],
        "split": "train",
    }
    assert golden_json(topics) == {"collection": "kb", "k": 10, "queries": [entry]}
    assert len(load_golden(topics)) == 1


def test_further_label_leaves_the_rest_as_it_is(topics: Workspace) -> None:
    write_golden(topics, [query("heater", tags=["hot"], irrelevant=[])], k=7)
    before = golden_json(topics)
    entry = label(topics, "set the gripper")
    assert golden_json(topics) == before | {"queries": [*before["queries"], entry]}


def test_same_query_again_moves_the_documents_named_and_keeps_the_rest(topics: Workspace) -> None:
    first = label(topics, "Set the heater?", distractors=["faqs/heater.md"], irrelevant=["notes/empty.md"])
    again = label(topics, "set   the HEATER", relevant=["notes/empty.md"])
    assert again["id"] == first["id"]
    (entry,) = golden_json(topics)["queries"]
    assert entry["relevant"] == [*first["relevant"], "notes/empty.md"]
    assert (entry["distractors"], entry["irrelevant"]) == (["faqs/heater.md"], [])


def test_a_label_changes_one_line_of_the_file(topics: Workspace) -> None:
    for topic in ("heater", "gripper", "balance"):
        label(topics, f"the {topic}")
    before = (topics.root / "evals" / "golden.json").read_text().splitlines()
    label(topics, "the gripper", distractors=["faqs/heater.md"])
    after = (topics.root / "evals" / "golden.json").read_text().splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_ids_fill_what_is_free(topics: Workspace) -> None:
    write_golden(topics, [query("heater", id="q1"), query("gripper", id="q3")])
    assert [label(topics, f"the {topic}")["id"] for topic in ("jacket", "balance", "incubator")] == ["q2", "q4", "q5"]


def test_fully_judged_query_keeps_its_empty_list(topics: Workspace) -> None:
    assert label(topics, "the heater", irrelevant=[])["irrelevant"] == []
    assert load_golden(topics).queries[0].irrelevant == []


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        ({"relevant": ["guides/none.md"]}, "HIVE-109"),
        ({"distractors": ["guides/heater.md"]}, "HIVE-110"),
        ({"split": "test"}, "HIVE-105"),
    ],
)
def test_wrong_label_changes_nothing(topics: Workspace, labels: dict[str, Any], code: str) -> None:
    file = topics.root / "evals" / "golden.json"
    with pytest.raises(HiveError, match=code):
        label(topics, "the heater", **labels)
    assert not file.exists()
    write_golden(topics)
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    with pytest.raises(HiveError, match=code):
        label(topics, "the heater", **labels)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_query_without_words_is_refused(topics: Workspace) -> None:
    with pytest.raises(HiveError, match="HIVE-105"):
        save_label(topics, "??", "kb", relevant=[], distractors=[], irrelevant=None)


@pytest.mark.parametrize(("text", "code"), [("{", "HIVE-101"), ("[]", "HIVE-104")])
def test_broken_golden_set_is_left_alone(topics: Workspace, text: str, code: str) -> None:
    file = topics.root / "evals" / "golden.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(HiveError, match=code):
        label(topics, "the heater")
    file.write_bytes(b"\xff")
    with pytest.raises(HiveError, match="HIVE-112"):
        label(topics, "the heater")
    assert file.read_bytes() == b"\xff"


def test_golden_set_of_another_collection_is_refused(topics: Workspace) -> None:
    (topics.root / "collections" / "other.json").write_text(json.dumps(COLLECTION | {"name": "other"}))
    write_golden(topics, [query("heater")], collection="other")
    with pytest.raises(HiveError) as raised:
        label(topics, "the heater")
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, found.path) == ("HIVE-213", "evals/golden.json", "collection")
    assert found.fix


def test_labels_can_go_to_another_file(topics: Workspace) -> None:
    path = topics.root / "evals" / "mine.json"
    label(topics, "the heater", path=path)
    assert len(load_golden(topics, path)) == 1
    assert not (topics.root / "evals" / "golden.json").exists()


LABELLER = """
import sys
from hive_agents.evaluation.labelling import save_label
from hive_agents import Workspace
for topic in sys.argv[2:]:
    save_label(Workspace(sys.argv[1]), topic, "kb", relevant=[f"guides/{topic}.md"], distractors=[], irrelevant=None)
"""


@pytest.mark.slow
def test_people_who_label_at_once_lose_nothing(topics: Workspace) -> None:
    shares = [("autoclave", "balance", "centrifuge"), ("dispenser", "evaporator"), ("gripper", "heater")]
    started = [
        subprocess.Popen([sys.executable, "-c", LABELLER, str(topics.root), *share], cwd=ROOT) for share in shares
    ]
    assert [labeller.wait() for labeller in started] == [0, 0, 0]
    golden = load_golden(topics)
    assert sorted(golden.texts) == sorted(topic for share in shares for topic in share)


def test_pool_holds_each_document_once(topics: Workspace) -> None:
    write_document(topics, "guides/valve.md", "# Valve\n\nvalve\n\n## More\n\nvalve valve\n\n## Most\n\nvalve\n")
    pool = LabelPool(indexed_engine(topics), "kb")
    hits = pool.documents("valve heater")
    assert sorted(hit.doc_id for hit in hits) == ["faqs/heater.md", "guides/heater.md", "guides/valve.md"]
    assert pool.documents("unheardof") == []


def test_pool_takes_from_both_lanes_in_turn(indexed: Workspace) -> None:
    engine = SearchEngine(indexed)
    text = "replace credentials for webhooks"
    both = [hit.doc_id for hit in LabelPool(engine, "kb").documents(text)]
    by_words = [hit.doc_id for hit in engine.search(text, "words").hits]
    by_meaning = [hit.doc_id for hit in engine.search(text, "meaning").hits]
    assert both[0] == by_words[0]
    assert next(doc_id for doc_id in by_meaning if doc_id != both[0]) in both[1:3]
    assert set(both) >= {*by_words, *by_meaning}
    assert len(set(both)) == len(both)
