"""The deploy gate, on measured configs; `tests.topics` says why the figures are what they are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import Evaluation, GoldenSet, evaluate, held_out, load_golden
from hive_agents.evaluation.golden import GoldenQuery
from hive_agents.evaluation.labelling import changed_since_labelled, save_label
from hive_agents.evaluation.results import QueryEvaluation
from hive_agents.evaluation.statistics import spent_alpha
from hive_agents.gate import deploy
from hive_agents.gate.certificate import changed_since
from hive_agents.gate.decision import Reason, regressions, tag_changes
from hive_agents.gate.gate import GateResult, run_gate
from hive_agents.gate.ledger import KIND, MAX_USES, distinct, spend
from hive_agents.optimizer import load_tuning
from hive_agents.ranking import build_index, versions
from hive_agents.store import audit
from hive_agents.workspace.settings import Gate
from tests.conftest import write_document
from tests.topics import (
    CAREFUL,
    NAIVE,
    NO_DRAFTS,
    NOTHING,
    TOPICS,
    declare,
    holdout_queries,
    indexed_engine,
    query,
    stored,
    write_golden,
)


def gate(workspace: Workspace, candidate: str, active: str | None, queries: Any = None) -> GateResult:
    golden = write_golden(workspace, queries)
    before = stored(workspace, active) if active else None
    return run_gate(workspace, indexed_engine(workspace), stored(workspace, candidate), before, golden)


def codes(result: GateResult) -> list[str]:
    return [reason.code for reason in result.reasons]


def test_better_on_every_query_passes(topics: Workspace) -> None:
    result = gate(topics, "careful", "naive", holdout_queries())
    assert (result.decision, result.reasons) == ("passed", [])
    assert result.difference is not None
    assert result.difference.p_value <= 0.001
    assert result.difference.wins == 24
    value = result.to_json()
    assert (value["n"], value["split"], value["j"], value["evidence"]) == (24, "holdout", 1, "holdout")
    assert value["alpha"] == spent_alpha(1)
    assert value["readers"] == {
        "answered": [1.0, 1.0],
        "recall": [1.0, 1.0],
        "first": [0.0, 1.0],
        "reach": [1.0, 1.0],
        "hidden": 0,
    }
    assert (value["needed_queries"], value["measurable"]) == (None, True)
    assert value["active"]["nudcg"] == pytest.approx(NAIVE, abs=1e-3)
    assert value["candidate"]["nudcg"] == pytest.approx(CAREFUL)
    assert set(value["difference"]) == {"n", "nudcg", "ci95", "p_value", "wins", "losses", "ties", "mde"}
    json.dumps(result.record())


def test_regression_blocks_and_names_the_figures(topics: Workspace) -> None:
    result = gate(topics, "naive", "careful")
    assert result.decision == "blocked"
    assert codes(result) == ["HIVE-301", "HIVE-302", "HIVE-301"]
    assert "begin with an answer falls from 1.000 to 0.000" in result.reasons[2].message
    assert result.reasons[0].message == "nUDCG regression 1.00 -> -0.37"
    assert result.reasons[1].message == "distractors per query rise 0.00 -> 1.00"


def test_more_distractors_block_even_where_nudcg_rises(topics: Workspace) -> None:
    queries = [query(t, relevant=[f"faqs/{t}.md"], distractors=[f"guides/{t}.md"]) for t in TOPICS]
    stored(topics, "silent", **NOTHING)
    result = gate(topics, "naive", "silent", queries)
    assert result.difference is not None
    assert result.difference.difference == pytest.approx(1 - 1 / 1.58496, abs=1e-3)
    assert (result.decision, codes(result)) == ("blocked", ["HIVE-302"])


def test_tag_that_falls_is_watched_until_its_queries_show_a_loss(topics: Workspace) -> None:
    rare = query("autoclave", relevant=["faqs/autoclave.md"], distractors=[], tags=["rare"])
    queries = [rare, *(query(topic, tags=["common"]) for topic in TOPICS[1:])]
    result = gate(topics, "careful", "naive", queries)
    assert codes(result) == ["HIVE-301"]  # a question without an answer, and no tag
    assert [(one.tag, one.n, one.before, one.after, one.p_value) for one in result.watch] == [("rare", 1, 1.0, 0.0, 1)]
    assert gate(topics, "careful", "naive", queries[1:]).watch == ()


def blocking(new: Evaluation, old: Evaluation, gate: Gate = Gate()) -> list[Reason]:
    lost = [change for change in tag_changes(new, old, gate) if change.blocks]
    return list(regressions(new, old, gate, lost))


def test_unjudged_documents_of_fully_judged_queries_block(topics: Workspace) -> None:
    judged = [query(topic, distractors=[], irrelevant=[]) for topic in TOPICS]
    result = gate(topics, "naive", "naive", judged)
    assert (result.decision, codes(result)) == ("blocked", ["HIVE-305"])
    assert result.reasons[0].message.startswith("50%")
    named = [query(topic, distractors=[], irrelevant=[f"faqs/{topic}.md"]) for topic in TOPICS]
    assert codes(gate(topics, "naive", "naive", named)) == ["HIVE-306"]
    partly = [query(topic, distractors=[]) for topic in TOPICS]
    result = gate(topics, "naive", "naive", partly)
    assert codes(result) == ["HIVE-306"]
    assert result.to_json()["candidate"]["unjudged"] is None


def measured(seconds: float = 0.01, nudcg: float = 0.5, distractors: float = 0.0, tag: str = "t") -> Evaluation:
    """Ten queries that all measure alike."""
    template = GoldenQuery(id="q", query="q", tags=[tag])
    names = ("nudcg_clipped", "udcg", "ndcg", "recall", "precision", "mrr", "results")
    metrics: dict[str, float | None] = dict.fromkeys(names, 0.5) | {"nudcg": nudcg, "distractors": distractors}
    queries = tuple(QueryEvaluation(template, metrics, (), seconds) for _ in range(10))
    return Evaluation("c", 10, queries, "golden", "index")


@pytest.mark.parametrize(
    ("was", "now", "blocks"),
    [
        (0.030, 0.060, True),
        (0.030, 0.049, False),  # slower by more than half, and still quick
        (0.050, 0.074, False),  # slow, and not by more than half
        (0.033, 0.050, False),  # both bounds must be passed
        (0.200, 0.301, True),
    ],
)
def test_latency_blocks_past_both_bounds(was: float, now: float, blocks: bool) -> None:
    reasons = blocking(measured(now), measured(was))
    assert [reason.code for reason in reasons] == (["HIVE-304"] if blocks else [])
    if blocks:
        assert reasons[0].message == f"p95 latency {was * 1000:.0f} ms -> {now * 1000:.0f} ms"


def test_noise_of_floating_point_blocks_nothing_and_a_small_loss_is_shown_as_one() -> None:
    assert blocking(measured(nudcg=0.5 - 1e-10), measured(nudcg=0.5)) == []
    assert [reason.code for reason in blocking(measured(nudcg=0.5 - 1e-8), measured(nudcg=0.5))] == ["HIVE-301"]
    assert blocking(measured(nudcg=0.8384), measured(nudcg=0.8388))[0].message == "nUDCG regression 0.839 -> 0.838"
    assert blocking(measured(distractors=1 + 1e-10), measured(distractors=1.0)) == []


def test_tag_may_fall_by_the_tenth_that_settings_allow() -> None:
    def tags_of(old: float, new: float, gate: Gate) -> list[str]:
        before, after = measured(nudcg=old, tag="a"), measured(nudcg=new, tag="a")
        lifted = measured(nudcg=0.9, tag="b").queries
        lowered = measured(nudcg=0.1, tag="b").queries
        old_all = replace(before, queries=(*before.queries, *lowered))
        new_all = replace(after, queries=(*after.queries, *lifted))
        return [reason.code for reason in blocking(new_all, old_all, gate)]

    assert tags_of(0.5, 0.4, Gate()) == []
    assert tags_of(0.5, 0.39, Gate()) == ["HIVE-303"]
    assert tags_of(0.5, 0.39, Gate(tag_drop=0.2)) == []


def test_equal_is_inconclusive(topics: Workspace) -> None:
    result = gate(topics, "naive", "naive", holdout_queries())
    assert (result.decision, codes(result)) == ("inconclusive", ["HIVE-306"])
    assert result.difference is not None
    assert (result.difference.p_value, result.difference.ties) == (1.0, 24)
    assert result.reasons[0].message.startswith("no query changes (n = 24)")
    assert (result.needed_queries, result.measurable) == (None, False)


def test_better_without_evidence_is_inconclusive(topics: Workspace) -> None:
    stored(topics, "drafts", **NO_DRAFTS)
    held = [query(t, id=f"{t}-{n}", query=" ".join([t] * n), split="holdout") for n in (1, 2, 3) for t in TOPICS[1:]]
    result = gate(topics, "drafts", "naive", [query(TOPICS[0], split="train"), *held])
    assert (result.decision, codes(result)) == ("inconclusive", ["HIVE-306"])
    assert result.difference is not None
    assert (result.difference.wins, result.difference.losses, result.difference.ties) == (3, 0, 24)
    assert result.difference.p_value == 0.125
    assert "p = 0.125, more than 0.030" in result.reasons[0].message
    assert (result.needed_queries, result.measurable) == (35, False)
    assert result.reasons[0].message.endswith("; about 35 more would show this one")
    assert (result.to_json()["needed_queries"], result.record()["measurable"]) == (35, False)


@pytest.mark.parametrize(
    ("queries", "had"),
    [
        ([query(topic) for topic in TOPICS], "no question is held out"),
        ([query(topic, split="holdout" if n else "train") for n, topic in enumerate(TOPICS)], "9 held-out questions"),
        (
            [query(t, id=f"{t}-{n}", query=f"{t} {'part ' * n}{n}") for n in range(3) for t in TOPICS],
            "12 held-out questions",
        ),
    ],
    ids=["none", "named", "by hash"],
)
def test_too_few_held_out_questions_prove_nothing_and_say_how_many_labels_are_missing(
    topics: Workspace, queries: list[dict[str, Any]], had: str
) -> None:
    """However large the gain is: the questions that chose a config don't prove it. It costs no look, and shows none."""
    for _ in range(2):
        result = gate(topics, "careful", "naive", queries)
        assert (result.decision, codes(result)) == ("inconclusive", ["HIVE-306"])
        assert result.reasons[0].message.startswith(had)
        assert "more labels" in result.reasons[0].message
        assert (result.use, result.split, result.measurable) == (None, None, False)
    held = {query.id for query in held_out(load_golden(topics)) or ()}
    assert not held.intersection(one.query.id for one in result.candidate.queries)
    assert deploy(topics, stored(topics, "naive"), load_golden(topics)).result.decision == "first"
    assert deploy(topics, stored(topics, "careful"), load_golden(topics)).deployed is None
    assert list(audit.entries(topics, KIND)) == []


def test_open_questions_that_were_held_out_before_cost_a_look_all_the_same(topics: Workspace) -> None:
    """Otherwise naming a few of them would make looks at the others free."""
    before = write_golden(topics, [query(t, split="holdout") for t in TOPICS])
    spend(topics, before, "gate")
    few = [query(topic, split="holdout" if n < 3 else "train") for n, topic in enumerate(TOPICS)]
    result = gate(topics, "careful", "naive", few)
    assert (result.decision, codes(result), result.split) == ("inconclusive", ["HIVE-306"], None)
    assert [entry["j"] for entry in audit.entries(topics, KIND)] == [1, 2]


def test_held_out_questions_that_prove_nothing_are_left_out_and_counted(topics: Workspace) -> None:
    """One repeats an open question in other words, one stands in a document, one is about a document that changed."""
    twin = query(TOPICS[0], id="twin", query=f"{TOPICS[0]} {TOPICS[0]}", split="holdout")
    asked = f"{TOPICS[2]} of the third floor is broken again"
    copied = query(TOPICS[2], id="copied", query=asked, split="holdout")
    write_document(topics, "faqs/floor.md", f"# Broken\n\n{asked}?\n\nCall us.\n")
    four_times = "dispenser dispenser dispenser dispenser"
    outdated = query("dispenser", id="outdated", query=four_times, split="holdout")
    outdated["seen"] = {"guides/dispenser.md": "0123456789abcdef"}
    emptied = query("heater", id="emptied", query="heater heater heater heater", relevant=["notes/blank.md"])
    emptied["split"] = "holdout"
    write_document(topics, "notes/blank.md", "---\ntitle: Blank\n---\n")
    result = gate(topics, "careful", "naive", [*holdout_queries(), twin, copied, outdated, emptied])
    assert result.to_json()["left_out"] == {
        "near_duplicate": ["twin"],
        "in_document": ["copied"],
        "changed": ["outdated", "emptied"],
    }
    assert (result.decision, result.to_json()["n"]) == ("passed", 24)
    told = [warning.message for warning in result.warnings if warning.code == "HIVE-313"]
    assert len(told) == 3
    assert "2 are about documents that changed since they were labelled: outdated (guides/dispenser.md)" in told[2]


def test_a_label_is_outdated_once_the_words_of_its_document_change(topics: Workspace) -> None:
    save_label(topics, "How is it set?", "kb", relevant=["guides/heater.md"], distractors=[], irrelevant=None)
    golden = load_golden(topics)
    assert changed_since_labelled(topics, golden) == {}
    path = topics.documents / "guides/heater.md"
    path.write_text(path.read_text().replace("status: effective", "status: draft"))
    assert changed_since_labelled(topics, golden) == {}
    path.write_text(path.read_text().replace("screw", "dial"))
    assert changed_since_labelled(topics, golden) == {"q1": "guides/heater.md"}
    save_label(topics, "How is it set?", "kb", relevant=["guides/heater.md"], distractors=[], irrelevant=None)
    assert changed_since_labelled(topics, load_golden(topics)) == {}


def test_the_same_questions_are_held_out_for_whoever_asks(topics: Workspace) -> None:
    """Without named splits the questions that an optimizer never saw are measured, and no others."""
    queries = [query(topic, id=f"{topic}-{n}", query=f"{topic} {'part ' * n}{n}") for n in range(7) for topic in TOPICS]
    golden = write_golden(topics, queries)
    result = gate(topics, "careful", "naive", queries)
    proved = {one.query.id for one in result.candidate.queries}
    learned = {one.id for one in load_tuning(topics, None).queries}
    assert (result.decision, result.split, result.use and result.use.j) == ("passed", "holdout", 1)
    assert not proved & learned
    assert proved | learned == {one.id for one in golden}


def test_what_readers_lose_blocks_and_a_person_may_accept_it_by_name(topics: Workspace) -> None:
    """One in ten lists becomes empty: better by nUDCG, as each had its distractor first, and worse for readers."""
    write_golden(topics, holdout_queries())
    stored(topics, "silent", **NOTHING)
    result = gate(topics, "silent", "naive", holdout_queries())
    assert (result.decision, set(codes(result))) == ("blocked", {"HIVE-301"})
    assert result.difference is not None
    assert result.difference.difference > 0
    assert result.lost_readers == ("answered", "recall", "reach", "hidden")
    assert result.readers is not None
    assert result.readers.to_json() | {"reach": None} == {
        "answered": [1.0, 0.0],
        "recall": [1.0, 0.0],
        "first": [0.0, 0.0],
        "reach": None,
        "hidden": 10,
    }
    golden = write_golden(topics, holdout_queries())
    some = deploy(topics, stored(topics, "naive"), golden)
    assert some.result.decision == "first"
    silent = stored(topics, "silent")
    kept = deploy(topics, silent, golden, accept=["answered", "recall"], reason="fewer traps", by="user:dana")
    assert (kept.result.decision, kept.result.lost_readers) == ("blocked", ("reach", "hidden"))
    outcome = deploy(topics, silent, golden, accept=kept.result.lost_readers + kept.result.accepted,
                     reason="fewer traps", by="user:dana")  # fmt: skip
    assert outcome.deployed == "silent"
    assert versions(topics)[0].evaluation is not None
    assert versions(topics)[0].evaluation["accepted"] == ["answered", "recall", "reach", "hidden"]


def test_only_a_person_accepts_what_readers_lose_and_by_a_known_name(topics: Workspace) -> None:
    golden, careful = write_golden(topics, holdout_queries()), stored(topics, "careful")
    with pytest.raises(HiveError, match="HIVE-415"):
        deploy(topics, careful, golden, accept=["reach"], reason="x", by="agent:optimizer")
    with pytest.raises(HiveError, match="HIVE-409"):
        deploy(topics, careful, golden, accept=["reach"], by="user:dana")
    with pytest.raises(HiveError, match="no figure of the readers"):
        deploy(topics, careful, golden, accept=["nudcg"], reason="x", by="user:dana")


def test_documents_of_a_value_that_may_be_hidden_are_hidden_and_others_are_not(topics: Workspace) -> None:
    queries = [*holdout_queries()]
    declare(topics, category={"may_hide": []})
    result = gate(topics, "careful", "naive", queries)
    assert (result.decision, result.lost_readers) == ("blocked", ("reach", "hidden"))
    declare(topics, category={"may_hide": ["faqs"]})
    result = gate(topics, "careful", "naive", queries)
    assert (result.decision, result.reasons) == ("passed", [])


def test_single_query_has_no_detectable_effect(topics: Workspace) -> None:
    result = gate(topics, "careful", "naive", [query("heater")])
    assert result.decision == "inconclusive"
    assert result.difference is not None
    assert result.difference.mde is None


def test_without_active_config_there_is_nothing_to_compare_with(topics: Workspace) -> None:
    result = gate(topics, "naive", None)
    assert (result.decision, result.reasons, result.active, result.difference) == ("first", [], None, None)
    assert result.certificate.active_hash is None
    value = result.to_json()
    assert (value["active"], value["difference"]) == (None, None)
    assert (value["needed_queries"], value["measurable"], value["watch"]) == (None, True, [])


def test_first_config_is_measured_on_the_holdout_and_spends_nothing(topics: Workspace) -> None:
    result = gate(topics, "naive", None, holdout_queries())
    value = result.to_json()
    assert (value["n"], value["split"], value["evidence"], value["j"]) == (24, "holdout", "holdout", None)
    assert list(audit.entries(topics, KIND)) == []


def test_each_run_on_a_holdout_must_reach_a_stricter_level(topics: Workspace) -> None:
    results = [gate(topics, "careful", "naive", holdout_queries()) for _ in range(3)]
    assert [result.use.j for result in results if result.use] == [1, 2, 3]
    assert [result.alpha for result in results] == [spent_alpha(j) for j in (1, 2, 3)]
    value = results[1].to_json()
    assert (value["n"], value["split"], value["j"], value["evidence"]) == (24, "holdout", 2, "holdout")
    assert [entry["j"] for entry in audit.entries(topics, KIND)] == [1, 2, 3]


def test_worn_out_holdout_proves_nothing_but_still_blocks(topics: Workspace) -> None:
    holdout = write_golden(topics, holdout_queries()).split("holdout")
    for _ in range(MAX_USES):
        spend(topics, holdout, "test")
    result = gate(topics, "careful", "naive", holdout_queries())
    assert (result.decision, codes(result)) == ("inconclusive", ["HIVE-308"])
    assert result.use is not None
    assert result.use.exhausted
    assert gate(topics, "naive", "careful", holdout_queries()).decision == "blocked"
    assert len(list(audit.entries(topics, KIND))) == MAX_USES


def test_golden_set_without_queries_measures_nothing(topics: Workspace) -> None:
    with pytest.raises(HiveError) as raised:
        gate(topics, "careful", "naive", [])
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, found.path) == ("HIVE-105", "evals/golden.json", "queries")
    assert found.fix


def test_certificate_names_what_was_measured(topics: Workspace) -> None:
    result = gate(topics, "careful", "naive")
    golden = write_golden(topics)
    certificate = result.certificate
    assert certificate.config_hash == stored(topics, "careful").hash
    assert certificate.active_hash == stored(topics, "naive").hash
    assert certificate.golden_hash == golden.hash
    assert certificate.index_hash == evaluate(topics, "naive").index_hash
    assert certificate.at.endswith("+00:00")


def test_certificate_is_stale_when_a_scope_that_was_measured_has_changed(topics: Workspace) -> None:
    access = topics.root / "access" / "principals.json"
    access.parent.mkdir()
    access.write_text('{"principals": {"dana": {"tenant": "acme"}}}')
    result = gate(topics, "careful", "naive", [query(topic, principal="dana") for topic in TOPICS])
    careful, naive = stored(topics, "careful"), stored(topics, "naive")
    assert changed_since(topics, careful, naive.hash, result.record()) == ""
    access.write_text('{"principals": {"dana": {"tenant": "globex"}}}')
    assert changed_since(topics, careful, naive.hash, result.record()) == "the access files were changed"


def test_certificate_is_stale_when_anything_measured_has_changed(topics: Workspace) -> None:
    result = gate(topics, "careful", "naive")
    careful, naive = stored(topics, "careful"), stored(topics, "naive")
    record = result.record()

    def stale(active: str | None = naive.hash) -> str:
        return changed_since(topics, careful, active, record)

    assert stale() == ""
    assert stale(careful.hash) == "another config was deployed"
    assert stale(None) == "another config was deployed"
    assert changed_since(topics, stored(topics, "other", **NO_DRAFTS), naive.hash, record) == "the config was edited"
    write_golden(topics, k=5)
    assert stale() == "the golden set was changed"
    (topics.root / "evals" / "golden.json").unlink()
    assert stale() == "the golden set was changed"
    write_golden(topics)
    assert stale() == ""
    write_document(topics, "notes/new.md", "A new note.\n")
    build_index(topics)
    assert stale() == "the index was changed"


def test_held_out_questions_that_are_open_ones_too_prove_nothing(topics: Workspace) -> None:
    """Half of the holdout are questions that the search was tuned to, in capitals: the other half is what counts."""
    queries = holdout_queries()[:18]
    fresh = [query(topic, id=f"fresh-{topic}", query=f"how is a {topic} set", split="holdout") for topic in TOPICS[2:]]
    queries += fresh
    held = [one for one in queries if one["split"] == "holdout"]
    copies = [one | {"id": f"open-{one['id']}", "query": one["query"].upper(), "split": "train"} for one in held[:16]]
    result = gate(topics, "careful", "naive", [*queries, *copies])
    assert (result.decision, codes(result)) == ("inconclusive", ["HIVE-306"])
    assert result.difference is not None
    assert (result.use, result.difference.n) == (None, 18)
    assert result.reasons[0].message.startswith("8 held-out questions prove nothing")
    told = next(one.message for one in result.warnings if one.code == "HIVE-313")
    assert told == f"16 of 24 held-out questions are open ones, too, and count for nothing: {held[0]['id']}"
    golden = write_golden(topics, [*queries, *copies])
    asked_as = [one.model_copy(update={"principal": "dana"}) for one in golden.split("holdout")]
    scoped = GoldenSet(golden.collection, golden.k, tuple(asked_as), golden.file, golden.hash)
    assert len(distinct(scoped, golden)[0]) == 8


def test_a_holdout_of_open_questions_alone_measures_nothing(topics: Workspace) -> None:
    held = [one for one in holdout_queries() if one["split"] == "holdout"]
    copies = [one | {"id": f"open-{one['id']}", "split": "train"} for one in held]
    with pytest.raises(HiveError, match="HIVE-313"):
        gate(topics, "careful", "naive", [*held, *copies])


def test_documents_that_a_filter_keeps_from_every_question_are_told(topics: Workspace) -> None:
    warnings = [one for one in gate(topics, "careful", "naive").warnings if one.code == "HIVE-314"]
    assert [one.message for one in warnings] == [
        "readers can no longer find 10 of the 21 documents that naive finds, whatever they ask: the filters of careful"
        " hide them; the other 11 can still be found"
    ]
    assert not [one for one in gate(topics, "naive", "careful").warnings if one.code == "HIVE-314"]
    assert not [one for one in gate(topics, "careful", "careful").warnings if one.code == "HIVE-314"]
