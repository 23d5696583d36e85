"""One config over an engine and over the embedded one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import compare_engines, load_golden
from hive_agents.evaluation.engines import EngineQuery, EngineSide
from hive_agents.evaluation.golden import GoldenQuery
from tests.sample import copied_sample, hive, indexed_sample


def test_without_an_engine_there_is_nothing_to_compare() -> None:
    place = Workspace(indexed_sample())
    with pytest.raises(HiveError, match="HIVE-409"):
        compare_engines(place, place.engine().resolve("v1"), load_golden(place, None))


def test_compare_needs_two_configs_or_an_engine(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws")
    for given in (["v1"], [], ["v1", "v1", "--engine"], ["--engine"]):
        ran = hive("compare", *given, "-w", place.root, "--json")
        assert (ran.code, ran.codes) == (2, {"HIVE-409"}), given


def test_an_overlap_is_the_share_of_the_longer_list() -> None:
    def side(*found: str) -> EngineSide:
        return EngineSide(found, {"keyword": found})

    query = GoldenQuery(id="q", query="a", relevant=[])
    assert EngineQuery(query, side("a", "b"), side("b", "c", "a", "d"), {}).overlap == 0.5
    assert EngineQuery(query, side(), side(), {}).overlap == 1.0
    assert EngineQuery(query, side("a"), side(), {}).lanes == {"keyword": 0.0}
