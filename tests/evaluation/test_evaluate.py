from __future__ import annotations

import json

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import evaluate
from hive_agents.evaluation.evaluate import evaluate_interleaved
from hive_agents.evaluation.results import mean, percentile, record
from hive_agents.ranking import build_index
from hive_agents.store.database import connect
from tests.conftest import write_config, write_document
from tests.topics import (
    CAREFUL,
    NAIVE,
    NOTHING,
    TOPICS,
    activate,
    holdout_queries,
    indexed_engine,
    query,
    stored,
    write_golden,
)

LONG = "---\ntitle: Valve\n---\n# One\n\nvalve valve valve\n\n## Two\n\nvalve valve\n\n## Three\n\nvalve\n"


def test_metrics_are_means_over_the_queries(topics: Workspace) -> None:
    build_index(topics)
    evaluation = evaluate(topics, "naive", golden=write_golden(topics))
    metrics = evaluation.metrics
    assert metrics["nudcg"] == pytest.approx(NAIVE, abs=1e-3)
    assert metrics["recall"] == 1.0
    assert metrics["mrr"] == 0.5
    assert metrics["distractors"] == 1.0
    assert metrics["results"] == 2.0
    assert metrics["unjudged"] is None
    assert set(metrics) == {
        "nudcg",
        "nudcg_clipped",
        "udcg",
        "ndcg",
        "recall",
        "precision",
        "mrr",
        "distractors",
        "results",
        "unjudged",
        "latency_ms_p50",
        "latency_ms_p95",
    }
    assert evaluation.scores() == pytest.approx([NAIVE] * 10, abs=1e-3)


def test_json_has_the_documented_fields(topics: Workspace) -> None:
    build_index(topics)
    golden = write_golden(topics, [query("heater", tags=["hot"])])
    evaluation = evaluate(topics, "naive", golden=golden)
    value = json.loads(json.dumps(evaluation.to_json()))
    assert list(value) == [
        "config",
        "k",
        "n",
        "split",
        "metrics",
        "tags",
        "abstention",
        "index_hash",
        "golden_hash",
        "queries",
    ]
    assert (value["config"], value["k"], value["n"], value["golden_hash"]) == ("naive", 10, 1, golden.hash)
    (entry,) = value["queries"]
    assert {"id", "query", "metrics", "hits"} <= set(entry)
    assert entry["hits"] == [
        {"rank": 1, "doc_id": "faqs/heater.md", "chunk_id": "faqs/heater.md#0", "label": "distractor"},
        {"rank": 2, "doc_id": "guides/heater.md", "chunk_id": "guides/heater.md#0", "label": "relevant"},
    ]
    assert value["tags"] == {"hot": {"n": 1, "nudcg": pytest.approx(NAIVE, abs=1e-3), "distractors": 1.0}}


def test_active_config_is_measured_where_none_is_named(topics: Workspace) -> None:
    build_index(topics)
    write_golden(topics)
    with pytest.raises(HiveError, match="HIVE-408"):
        evaluate(topics)
    activate(topics, "careful")
    evaluation = evaluate(topics)
    assert (evaluation.config, evaluation.metrics["nudcg"]) == ("careful", CAREFUL)


def test_later_chunk_of_a_document_holds_its_rank_and_counts_nothing(topics: Workspace) -> None:
    write_document(topics, "guides/valve.md", LONG)
    write_document(topics, "faqs/valve.md", "---\ntitle: Valve\n---\nOne valve among many words in this document.\n")
    build_index(topics)
    golden = write_golden(topics, [query("valve", irrelevant=[])])
    (measured,) = evaluate(topics, "naive", golden=golden).queries
    labels = [hit.label for hit in measured.hits]
    assert sorted(labels) == ["distractor", "relevant", "repeat", "repeat"]
    assert measured.unjudged == (0, 2)
    assert [hit.rank for hit in measured.hits] == [1, 2, 3, 4]


def test_depth_is_the_golden_sets_for_every_config(topics: Workspace) -> None:
    build_index(topics)
    golden = write_golden(topics, k=1)
    evaluation = evaluate(topics, "naive", golden=golden)
    assert evaluation.k == 1
    assert evaluation.metrics["nudcg"] == -1.0
    assert {len(measured.hits) for measured in evaluation.queries} == {1}


def test_returning_less_of_what_counts_never_scores_higher(topics: Workspace) -> None:
    queries = [query(t, relevant=[f"guides/{t}.md", f"faqs/{t}.md"], distractors=[]) for t in TOPICS]
    golden = write_golden(topics, queries)
    build_index(topics)
    write_config(topics, "short", "keyword", retrieval={"top_k": 1})
    full, short = (evaluate(topics, name, golden=golden).metrics["nudcg"] for name in ("naive", "short"))
    assert full == 1.0
    assert short is not None
    assert short < 1.0


def test_tags_and_abstention_are_reported_apart(topics: Workspace) -> None:
    build_index(topics)
    queries = [
        query("heater", tags=["hot", "hot"]),
        query("gripper", tags=["cold", "hot"]),
        query("unheardof", id="u", relevant=[], distractors=[], tags=["cold"]),
        query("jacket", relevant=[], distractors=["faqs/jacket.md"]),
    ]
    evaluation = evaluate(topics, "naive", golden=write_golden(topics, queries))
    assert {tag: values["n"] for tag, values in evaluation.tags.items()} == {"cold": 2, "hot": 2}
    assert evaluation.tags["cold"]["nudcg"] == pytest.approx((NAIVE + 1) / 2, abs=1e-3)
    assert evaluation.abstention == {"n": 2, "nudcg": pytest.approx((1 - 1) / 2)}


def test_unjudged_share_is_of_fully_judged_queries_only(topics: Workspace) -> None:
    build_index(topics)
    judged = query("heater", distractors=[], irrelevant=[])
    named = query("gripper", distractors=[], irrelevant=["faqs/gripper.md"])
    partly = query("jacket", distractors=[])
    for queries, share in (([partly], None), ([judged, partly], 0.5), ([judged, named], 0.25), ([named], 0.0)):
        assert evaluate(topics, "naive", golden=write_golden(topics, queries)).metrics["unjudged"] == share
    empty = stored(topics, "silent", **NOTHING)
    assert evaluate(topics, empty.config, golden=write_golden(topics, [judged])).metrics["unjudged"] == 0.0


def test_hidden_split_counts_and_is_not_listed(topics: Workspace) -> None:
    build_index(topics)
    golden = write_golden(topics, holdout_queries())
    evaluation = evaluate(topics, "naive", golden=golden)
    value = evaluation.to_json(hide=frozenset(query.id for query in golden.split("holdout")))
    assert (value["n"], [entry["id"] for entry in value["queries"]]) == (26, list(TOPICS[:2]))
    assert len(evaluation.to_json()["queries"]) == 26


def test_a_golden_set_without_queries_is_an_error(topics: Workspace) -> None:
    build_index(topics)
    with pytest.raises(HiveError, match="HIVE-105"):
        evaluate(topics, "naive", golden=write_golden(topics, []))
    with pytest.raises(HiveError, match="HIVE-105"):
        evaluate_interleaved(indexed_engine(topics), [], write_golden(topics, []))


def test_evaluation_binds_index_and_golden_set(topics: Workspace) -> None:
    build_index(topics)
    golden = write_golden(topics)
    before = evaluate(topics, "naive", golden=golden)
    assert evaluate(topics, "careful", golden=golden).index_hash == before.index_hash
    write_document(topics, "notes/more.md", "More.\n")
    build_index(topics)
    after = evaluate(topics, "naive", golden=golden)
    assert after.index_hash != before.index_hash
    assert after.golden_hash == before.golden_hash == golden.hash


def test_interleaved_measures_as_alone(topics: Workspace) -> None:
    engine = indexed_engine(topics)
    golden = write_golden(topics)
    configs = [stored(topics, name).config for name in ("naive", "careful", "naive")]
    together = evaluate_interleaved(engine, configs, golden)
    alone = [evaluate(topics, config, golden=golden, engine=engine) for config in configs]
    assert [e.scores() for e in together] == [e.scores() for e in alone]
    assert [[q.hits for q in e.queries] for e in together] == [[q.hits for q in e.queries] for e in alone]


def test_evaluation_is_recorded_for_people(topics: Workspace) -> None:
    build_index(topics)
    golden = write_golden(topics)
    config = stored(topics, "naive").config
    record(topics, config, evaluate(topics, config, golden=golden))
    connection = connect(topics.database)
    ((golden_hash, metrics),) = connection.execute("SELECT golden_hash, metrics FROM eval_results").fetchall()
    connection.close()
    assert golden_hash == golden.hash
    assert json.loads(metrics)["nudcg"] == pytest.approx(NAIVE, abs=1e-3)


def test_hybrid_config_is_measured_with_the_real_model(indexed: Workspace) -> None:
    queries = [
        {"id": "a", "query": "how to replace a credential", "relevant": ["faqs/rotate-key.md"]},
        {"id": "b", "query": "the rotor shakes and stops", "relevant": ["guides/centrifuge.md"]},
    ]
    golden = write_golden(indexed, queries)
    vector = evaluate(indexed, "meaning", golden=golden).metrics
    keyword = evaluate(indexed, "words", golden=golden).metrics
    assert vector["recall"] == 1.0
    assert (vector["mrr"] or 0) > (keyword["mrr"] or 0)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, None), ([7.0], 0.95, 7.0), ([1.0, 2.0], 0.5, 1.0), ([float(n) for n in range(1, 101)], 0.95, 95.0)],
)
def test_percentile_is_a_value_that_was_measured(values: list[float], share: float, expected: float | None) -> None:
    assert percentile(values, share) == expected


def test_the_mean_of_nothing_is_nothing_and_no_zero() -> None:
    """A metric that exists for no query is a dash: as zero it would look like the worst result there is."""
    assert mean([]) is None
    assert mean([None, None]) is None
    assert mean([None, 0.5]) == 0.5
