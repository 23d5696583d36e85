from __future__ import annotations

import json
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.base.files import load_value
from hive_agents.evaluation import Comparison, compare
from hive_agents.evaluation.compare import changed
from hive_agents.ranking import RetrievalConfig
from tests.conftest import config_json
from tests.topics import NAIVE, NO_DRAFTS, TOPICS, holdout_queries, indexed_engine, query, stored, write_golden


def compared(workspace: Workspace, a: str, b: str, queries: Any = None) -> Comparison:
    golden = write_golden(workspace, queries)
    return compare(indexed_engine(workspace), stored(workspace, a).config, stored(workspace, b).config, golden)


def test_everything_is_b_minus_a(topics: Workspace) -> None:
    there, back = compared(topics, "naive", "careful"), compared(topics, "careful", "naive")
    assert there.difference.difference == pytest.approx(1 - NAIVE, abs=1e-3)
    assert back.difference.difference == pytest.approx(-there.difference.difference)
    assert (there.difference.wins, there.difference.losses) == (10, 0)
    assert (back.difference.wins, back.difference.losses) == (0, 10)
    assert (there.difference.p_value, back.difference.p_value) == (pytest.approx(1 / 1024), 1.0)
    assert all(entry["delta"] > 0 for entry in there.to_json()["queries"])
    assert all(entry["delta"] < 0 for entry in back.to_json()["queries"])


def test_json_has_the_documented_fields(topics: Workspace) -> None:
    value = json.loads(json.dumps(compared(topics, "naive", "careful").to_json()))
    assert list(value) == ["a", "b", "difference", "queries", "changes"]
    assert value["a"]["config"] == "naive"
    assert value["b"]["metrics"]["nudcg"] == 1.0
    assert set(value["difference"]) == {"nudcg", "ci95", "p_value", "wins", "losses", "ties", "mde", "n"}
    assert len(value["difference"]["ci95"]) == 2
    assert value["difference"]["n"] == 10
    first = value["queries"][0]
    assert (first["id"], first["b"], first["delta"]) == ("autoclave", 1.0, pytest.approx(1 - NAIVE, abs=1e-3))
    assert value["changes"] == [{"path": "filters.category", "a": None, "b": {"not": ["faqs"]}}]


def test_config_compared_with_itself_ties_everywhere(topics: Workspace) -> None:
    comparison = compared(topics, "naive", "naive")
    assert (comparison.difference.ties, comparison.difference.p_value, comparison.changes) == (10, 1.0, [])


def test_partial_gain_is_counted_query_by_query(topics: Workspace) -> None:
    stored(topics, "drafts", **NO_DRAFTS)
    d = compared(topics, "naive", "drafts").difference
    assert (d.wins, d.losses, d.ties, d.p_value) == (2, 0, 8, 0.25)
    assert d.ci95[0] <= d.difference <= d.ci95[1]


def test_hidden_split_counts_and_is_not_listed(topics: Workspace) -> None:
    hidden = frozenset(one["id"] for one in holdout_queries() if one["split"] == "holdout")
    value = compared(topics, "naive", "careful", holdout_queries()).to_json(hide=hidden)
    assert value["difference"]["n"] == 26
    assert [entry["id"] for entry in value["queries"]] == list(TOPICS[:2])


def test_single_query_has_no_detectable_effect(topics: Workspace) -> None:
    assert compared(topics, "naive", "careful", [query("heater")]).to_json()["difference"]["mde"] is None


def test_empty_golden_set_is_a_diagnostic(topics: Workspace) -> None:
    with pytest.raises(HiveError) as raised:
        compared(topics, "naive", "careful", [])
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, found.path) == ("HIVE-105", "evals/golden.json", "queries")
    assert "hive label" in str(found.fix)


def config(**blocks: Any) -> RetrievalConfig:
    return load_value(RetrievalConfig, config_json("c", "hybrid", **blocks), "c")


@pytest.mark.parametrize(
    ("a", "b", "changes"),
    [
        ({}, {"retrieval": {"top_k": 5}}, [("retrieval.top_k", 10, 5)]),
        ({}, {"retrieval": {"weights": {"vector": 2}}}, [("retrieval.weights.vector", 1.0, 2.0)]),
        ({}, {"bm25": {"b": 0.5}, "rerank": {"floor": 0.1}}, [("bm25.b", 0.75, 0.5), ("rerank.floor", None, 0.1)]),
        ({"filters": {"a": "x", "b": "y"}}, {"filters": {"a": "x"}}, [("filters.b", "y", None)]),
        ({"filters": {"a": "x"}}, {"filters": {"a": ["x"]}}, [("filters.a", "x", ["x"])]),
        ({"filters": {"a": {"gte": 1}}}, {"filters": {"a": {"gte": 2}}}, [("filters.a", {"gte": 1}, {"gte": 2})]),
        ({}, {"bm25": {"b": 0.75}, "retrieval": {"rrf_k": 60, "candidates": 100}}, []),
        ({"description": "x", "parent": "p"}, {"description": "y"}, []),
    ],
)
def test_changes_are_what_differs_and_nothing_else(a: Any, b: Any, changes: list[tuple[str, Any, Any]]) -> None:
    assert changed(config(**a), config(**b)) == [{"path": p, "a": x, "b": y} for p, x, y in changes]
