"""What a run says of the configs that it refused: on a workspace where leaving out the FAQs helps, and harms a tag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.optimizer.rejected import rejected, stopped_by_gate
from hive_agents.optimizer.session import OptimizerSession, next_data
from hive_agents.optimizer.space import Edit, identity
from hive_agents.ranking import build_index
from tests.topics import NO_FAQS, TOPICS, activate, make_topics, query, write_golden

WORDS = ("set", "open", "turn")
HOLDOUT = [query(topic, id=f"held-{topic}", query=f"{topic} please", split="holdout") for topic in TOPICS[:6]]
EDITS = {
    "no_faqs": ("filters.category", {"not": ["faqs"]}),
    "one": ("retrieval.top_k", 1),
    "two": ("retrieval.top_k", 2),
}


def queries(relevant: str, distracting: str, tag: str, count: int) -> list[dict[str, Any]]:
    """Training queries, each of which has one page that answers and one that misleads."""
    names = [(topic, word) for word in WORDS for topic in TOPICS][:count]
    labels = lambda topic: {"relevant": [f"{relevant}/{topic}.md"], "distractors": [f"{distracting}/{topic}.md"]}  # noqa: E731
    return [
        query(topic, id=f"{tag}-{topic}-{word}", query=f"{topic} {word}", tags=[tag], split="train") | labels(topic)
        for topic, word in names
    ]


@pytest.fixture
def tuned(tmp_path: Path) -> OptimizerSession:
    """`naive` serves. Without FAQs the tag `guides` wins on twenty queries, and `faqs` loses on eight."""
    workspace = make_topics(tmp_path / "w")
    (workspace.configs / "careful.json").unlink()
    write_golden(workspace, [*queries("guides", "faqs", "guides", 20), *queries("faqs", "guides", "faqs", 8), *HOLDOUT])
    activate(workspace, "naive")
    build_index(workspace)
    return OptimizerSession(workspace, workspace.settings.optimizer)


def rows(session: OptimizerSession, *names: str) -> list[dict[str, Any]]:
    found = []
    for name in names:
        data = next_data(session.baseline, Edit((EDITS[name],), "test", ""))
        shown = {"train": 0.5, "changes": session.changes(data), "reason": f"tried {name}", "identity": identity(data)}
        shown["verdict"] = "retry"
        found.append(shown)
    return found


def state(session: OptimizerSession, *names: str, **keys: Any) -> dict[str, Any]:
    return {"rows": rows(session, *names), "status": "no_improvement"} | keys


def best(session: OptimizerSession, name: str) -> dict[str, Any]:
    data = session.restored(rows(session, name)[0]["changes"])
    return data | {"name": session.write(data, session.changes(data), "naive")}


CERTIFICATE = {"decision": "inconclusive", "reasons": [{"code": "HIVE-306", "message": "p = 0.4"}], "lost_tags": []}


def test_a_config_that_a_tag_stopped_is_listed_with_the_command_that_accepts_the_loss(tuned: OptimizerSession) -> None:
    (listed,) = rejected(tuned, state(tuned, "no_faqs"))
    assert 'tag "faqs" falls' in listed["why"]
    assert "(n = 8" in listed["why"]
    flags = "--accept-tag faqs --accept answered --accept recall"
    assert listed["why"].endswith(f'hive deploy {listed["config"]} {flags} --reason "…"')
    assert listed["changes"] == [{"path": "filters.category", "a": None, "b": NO_FAQS["category"]}]
    assert listed["train"] > tuned.baseline_measured.train_nudcg
    assert (listed["validation"], listed["distractors"]) == (
        None,
        tuned.measured(rows(tuned, "no_faqs"))[0][1].distractors,
    )


def test_a_refused_config_that_is_listed_has_a_file_that_is_written_once(tuned: OptimizerSession) -> None:
    before = set(tuned.workspace.configs.iterdir())
    (first,) = rejected(tuned, state(tuned, "no_faqs"))
    (second,) = rejected(tuned, state(tuned, "no_faqs"))
    assert first == second
    stored = tuned.stored(first["config"])
    assert (stored.config.description, stored.config.parent) == ("category: not faqs", "naive")
    assert set(tuned.workspace.configs.iterdir()) - before == {tuned.workspace.configs / f"{first['config']}.json"}


def test_what_was_only_not_better_is_not_listed(tuned: OptimizerSession) -> None:
    assert rejected(tuned, state(tuned, "two")) == []


def test_what_is_worse_than_what_is_kept_is_not_listed(tuned: OptimizerSession) -> None:
    kept = best(tuned, "no_faqs")
    assert rejected(tuned, state(tuned, "no_faqs", best=kept, certificate={"decision": "passed"})) == []


def test_a_candidate_that_waits_for_a_person_is_accepted_by_its_approval(tuned: OptimizerSession) -> None:
    certificate = CERTIFICATE | {"needed_queries": 30}
    asked = {"status": "escalated", "approval_id": "a123", "best": best(tuned, "no_faqs"), "certificate": certificate}
    (listed,) = rejected(tuned, state(tuned, "no_faqs", **asked))
    assert listed["config"] == asked["best"]["name"]
    told = "inconclusive by the gate: p = 0.4; about 30 queries more would show the gain"
    assert listed["why"] == f"{told}; to accept it: hive approvals approve a123"


@pytest.mark.parametrize(
    ("decision", "code", "tags", "flags"),
    [
        ("inconclusive", "HIVE-306", [], "--allow-inconclusive"),
        ("blocked", "HIVE-303", ["old ones"], "--accept-tag 'old ones'"),
        ("blocked", "HIVE-302", [], "--override"),
    ],
)
def test_a_candidate_that_nobody_is_asked_about_is_accepted_by_a_deployment(
    tuned: OptimizerSession, decision: str, code: str, tags: list[str], flags: str
) -> None:
    reasons = [{"code": code, "message": "because"}]
    certificate = {"decision": decision, "reasons": reasons, "lost_tags": tags, "needed_queries": None}
    ended = {"status": "stopped", "best": best(tuned, "no_faqs"), "certificate": certificate}
    (listed,) = rejected(tuned, state(tuned, "no_faqs", **ended))
    name = listed["config"]
    assert listed["why"] == f'{decision} by the gate: because; to accept it: hive deploy {name} {flags} --reason "…"'


def test_a_rise_of_distractors_takes_another_person(tmp_path: Path) -> None:
    workspace = make_topics(tmp_path / "w")
    entries = [query(topic, split="train", relevant=[f"faqs/{topic}.md"], distractors=[]) for topic in TOPICS]
    entries[0] |= {"relevant": ["notes/empty.md"], "distractors": [f"guides/{TOPICS[0]}.md"]}
    write_golden(workspace, [entry | {"query": f"{entry['query']} notes"} for entry in entries] + HOLDOUT)
    (workspace.configs / "naive.json").write_text(
        '{"name": "naive", "collection": "kb", "retrieval": {"method": "keyword", "top_k": 1},'
        ' "filters": {"category": "notes"}}'
    )
    activate(workspace, "naive")
    build_index(workspace)
    session = OptimizerSession(Workspace(workspace.root), workspace.settings.optimizer)
    data = next_data(session.baseline, Edit((("filters.category", None), ("retrieval.top_k", 3)), "test", ""))
    row = {"train": 0.5, "changes": session.changes(data), "reason": "without the filter", "identity": identity(data)}
    row["verdict"] = "retry"
    (listed,) = rejected(session, {"rows": [row], "status": "no_improvement"})
    assert "distractors rise from 0.00 to 0.10 on the open queries" in listed["why"]
    assert listed["why"].endswith(f'hive deploy {listed["config"]} --override --reason "…"')


def test_the_gates_own_number_of_missing_queries_is_not_told_twice() -> None:
    reasons = [{"code": "HIVE-306", "message": "p = 0.4; about 30 more would show this one"}]
    told = stopped_by_gate({"decision": "inconclusive", "reasons": reasons, "needed_queries": 30})
    assert told == "inconclusive by the gate: p = 0.4; about 30 more would show this one"
