from __future__ import annotations

import pytest

from hive_agents import Workspace
from hive_agents.evaluation import GoldenQuery, LabelYield, load_golden, open_questions, suggest
from hive_agents.evaluation.labelling import LabelPool
from hive_agents.ranking import named_config
from tests.sample import indexed_sample
from tests.topics import CAREFUL, NAIVE, indexed_engine


def worth(topics: Workspace, differences: list[float]) -> LabelYield:
    return LabelYield(LabelPool(indexed_engine(topics), "kb"), differences)


def test_more_questions_show_a_smaller_gain(topics: Workspace) -> None:
    few = worth(topics, [0.0, 0.4, -0.2, 0.1, 0.3])
    assert few.smallest_gain() == pytest.approx(0.2655, abs=1e-3)
    assert few.smallest_gain(20) == pytest.approx(0.1327, abs=1e-3)
    assert "5 questions can show a gain of 0.27 nUDCG in four cases of five, 20 of 0.13, 50 of 0.08" in few.told()
    assert worth(topics, [0.1] * 4).smallest_gain() is None
    assert "as a rule 20 questions can show a gain of 0.26 nUDCG, 50 of 0.16" in worth(topics, []).told()


def test_it_is_enough_where_ten_more_would_change_little(topics: Workspace) -> None:
    assert worth(topics, [0.0, 0.4] * 15).enough() is None
    why = worth(topics, [0.0, 0.4] * 100).enough()
    assert why is not None
    assert "10 more questions" in why


def test_a_question_without_an_answer_shows_no_gain(topics: Workspace) -> None:
    found = worth(topics, [])
    found.add(GoldenQuery(id="q1", query="heater", relevant=["guides/heater.md"]))
    found.add(GoldenQuery(id="q2", query="nothing", relevant=[]))
    assert len(found.differences) == 1


def test_each_open_question_comes_once() -> None:
    assert open_questions(["A key?", "a  key", "", "?!", "b"], ["B"]) == ["A key?"]


def test_suggested_questions_are_spread_over_the_documents(topics: Workspace) -> None:
    made = suggest(indexed_engine(topics), "kb", 5)
    assert len({one.doc_id for one in made.found}) == len(made.found)
    again = suggest(indexed_engine(topics), "kb", 50, [one.question for one in made.found])
    assert not {one.question for one in made.found} & {one.question for one in again.found}


def test_questions_that_words_and_meaning_answer_otherwise_come_first(topics: Workspace) -> None:
    assert worth(topics, []).telling_first(["heater", "gripper"]) == ["heater", "gripper"]
    engine = Workspace(indexed_sample()).engine()
    golden = load_golden(engine.workspace)
    pool = LabelPool(engine, golden.collection)
    found = LabelYield(pool)
    asked = golden.texts[:12]
    ordered = found.telling_first(asked)
    assert sorted(ordered) == sorted(asked)
    assert ordered != asked
    assert len(pool.documents(ordered[0])) >= len(pool.documents(ordered[-1]))


def test_between_two_configs_questions_come_first_that_they_answer_otherwise(topics: Workspace) -> None:
    configs = [named_config(topics, name).config for name in ("naive", "careful")]
    pool = LabelPool(indexed_engine(topics), "kb", between=configs)
    found = LabelYield(pool)
    assert found.telling_first(["nothing of use", "heater"]) == ["heater", "nothing of use"]
    assert {hit.doc_id for hit in pool.documents("heater")} == {"guides/heater.md", "faqs/heater.md"}
    found.add(GoldenQuery(id="q1", query="heater", relevant=["guides/heater.md"], distractors=["faqs/heater.md"]))
    assert found.differences == [pytest.approx(NAIVE - CAREFUL, abs=1e-3)]
