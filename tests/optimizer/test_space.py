from __future__ import annotations

from random import Random
from typing import Any

from benchmarks.optimizer import random_edit
from hive_agents import RetrievalConfig, Workspace
from hive_agents.documents import load_collection
from hive_agents.index.index import SqliteIndex
from hive_agents.optimizer.space import apply, changes_from, identity, parsed, sweep
from hive_agents.ranking import build_index, check_config
from hive_agents.ranking.check import stored_from
from tests.conftest import config_json
from tests.sample import indexed_sample


def config(**parts: Any) -> RetrievalConfig:
    retrieval = {"method": "hybrid", "top_k": 10} | parts.pop("retrieval", {})
    return RetrievalConfig.model_validate(
        {"name": "v1", "collection": "knowledge-base", "retrieval": retrieval} | parts
    )


def test_an_edit_leaves_the_original_alone() -> None:
    base = config(filters={"status": ["effective"]})
    changed = apply(base, [("filters.status", None), ("retrieval.top_k", 3)])
    assert changed["filters"] == {}
    assert changed["retrieval"]["top_k"] == 3
    assert base.filters == {"status": ["effective"]}
    assert base.retrieval.top_k == 10


def test_an_edit_takes_along_what_depends_on_it() -> None:
    base = config(dynamic_k={"enabled": True, "max_results": 10, "min_results": 4})
    short = apply(base, [("retrieval.top_k", 3)])
    assert short["dynamic_k"] == {"enabled": True, "max_results": 3, "min_results": 3}
    assert apply(base, [("retrieval.method", "keyword")])["dynamic_k"]["enabled"] is False


def test_configs_that_search_alike_have_one_identity() -> None:
    first = config().model_dump(exclude_unset=True)
    assert identity(first) == identity(first | {"name": "v9", "description": "x", "parent": "v1"})
    assert identity(first) != identity(first | {"filters": {"status": "draft"}})


def test_changes_name_paths_and_ignore_what_is_switched_off() -> None:
    base = config(dynamic_k={"enabled": False, "gap_threshold_factor": 3.0})
    other = config(retrieval={"top_k": 5}, dynamic_k={"enabled": False, "gap_threshold_factor": 2.0})
    assert changes_from(base, other) == [{"path": "retrieval.top_k", "a": 10, "b": 5}]
    on = config(dynamic_k={"enabled": True, "gap_threshold_factor": 2.0})
    assert {change["path"] for change in changes_from(base, on)} == {
        "dynamic_k.enabled",
        "dynamic_k.gap_threshold_factor",
    }


def test_a_lift_that_is_off_is_weight_0_and_an_edit_of_its_weight_turns_it_on() -> None:
    index = SqliteIndex(place := Workspace(indexed_sample()), load_collection(place))
    off, weighed = config(lift={"enabled": False}), config(lift={"weight": 2.0})
    same = [config(lift={"weight": 0.0}), config(lift={"enabled": False, "weight": 2.0})]
    assert {identity(one.model_dump(exclude_unset=True)) for one in (off, *same)} == {identity(off.model_dump())}
    assert identity(weighed.model_dump()) == identity(config(lift={"enabled": True, "weight": 2.0}).model_dump())
    lifted = [edit for edit in sweep(off, index) if edit.values[0] == ("lift.weight", 2.0)]
    assert [identity(apply(off, edit.values)) for edit in lifted] == [identity(weighed.model_dump())]


def test_every_step_of_the_sweep_is_a_sound_config() -> None:
    workspace = Workspace(indexed_sample())
    index = SqliteIndex(workspace, load_collection(workspace))
    for base in (config(), config(retrieval={"method": "keyword"}), config(filters={"status": {"not": ["draft"]}})):
        edits = [*sweep(base, index)]
        assert len(edits) > 32
        for edit in edits:
            stored = stored_from(parsed(apply(base, edit.values)), "configs/candidate.json")
            assert check_config(workspace, stored, refresh=False) == [], edit


def test_a_random_edit_without_an_embedding_model_needs_none(text_workspace: Workspace) -> None:
    build_index(text_workspace)
    index, rng = SqliteIndex(text_workspace, load_collection(text_workspace)), Random(1)
    for values in (dict(random_edit(rng, index).values) for _ in range(50)):
        assert values.get("retrieval.method", "keyword") == "keyword"
        assert values.get("abstain.min_cosine") is None


def test_a_sweep_without_an_embedding_model_needs_none(text_workspace: Workspace) -> None:
    """An empty list counts as right for a question without an answer: what can't be searched must not be measured."""
    build_index(text_workspace)
    index = SqliteIndex(text_workspace, load_collection(text_workspace))
    words = RetrievalConfig.model_validate(config_json("words", "keyword", abstain={"min_cosine": 0.3}))
    for edit in sweep(words, index):
        values = dict(edit.values)
        assert values.get("retrieval.method", "keyword") == "keyword"
        assert values.get("abstain.min_cosine") is None
