"""Boosts multiply the fused scores, between fusion and everything behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.index.boosts import by_age, newest_day
from hive_agents.ranking import RetrievalConfig
from hive_agents.ranking.explain import explain_hit, explain_text
from hive_agents.ranking.stages import retrieve
from tests.conftest import config_json, write_document

QUERY = "How do I rotate an API key?"


def parsed(method: str = "hybrid", **blocks: Any) -> RetrievalConfig:
    return RetrievalConfig.model_validate(config_json("a", method, **blocks))


def factors(workspace: Workspace, doc_ids: list[str], **boosts: dict[str, float]) -> list[float]:
    index = workspace.engine().index("kb")
    return index.factors(boosts, np.array([index.chunks_of(doc_id)[0] for doc_id in doc_ids])).tolist()


def test_a_boost_multiplies_the_fused_score_and_the_list_is_sorted_again(indexed: Workspace) -> None:
    index = indexed.engine().index("kb")
    plain = retrieve(index, QUERY, parsed())
    boosts = {"status": {"draft": 3.0, "effective": 0.5}}
    found = retrieve(index, QUERY, parsed(boosts=boosts))
    expected = {
        chunk: score * factor
        for chunk, score, factor in zip(
            plain.fused.chunks.tolist(),
            plain.fused.scores.tolist(),
            index.factors(boosts, plain.fused.chunks).tolist(),
            strict=True,
        )
    }
    assert found.fused.scores.tolist() == [expected[chunk] for chunk in found.fused.chunks.tolist()]
    assert found.fused.chunks.tolist() == sorted(expected, key=lambda chunk: (-expected[chunk], chunk))
    assert found.fused.chunks.tolist() != plain.fused.chunks.tolist()


def test_a_document_without_the_value_has_the_factor_one(text_workspace: Workspace) -> None:
    text_workspace.index()
    names = ["faqs/lost-key.md", "guides/pipettes.md", "welcome.md"]
    assert factors(text_workspace, names, status={"draft": 2.0, "retired": 0.0}) == [2.0, 0.0, 1.0]
    assert factors(text_workspace, names, version={"1": 0.5, "1.50": 3}) == [3.0, 0.5, 1.0]
    assert factors(text_workspace, names, public={"true": 4, "False": 0.25}) == [4.0, 0.25, 1.0]


def test_factors_of_several_values_and_fields_multiply(text_workspace: Workspace) -> None:
    text_workspace.index()
    boosts = {"labels": {"auth": 2.0, "keys": 3.0}, "status": {"effective": 0.5}}
    assert factors(text_workspace, ["faqs/rotate-key.md", "faqs/lost-key.md"], **boosts) == [3.0, 2.0]


def test_age_is_counted_from_the_newest_date_and_never_from_the_clock(text_workspace: Workspace) -> None:
    text_workspace.index()
    names = ["faqs/lost-key.md", "faqs/rotate-key.md", "welcome.md"]  # 2025-06-15, 106 days before it, no date
    assert factors(text_workspace, names, effective={"half_life_days": 53}) == [1.0, 0.25, 1.0]


def test_inside_a_scope_the_newest_date_is_that_of_the_visible_documents(text_workspace: Workspace) -> None:
    text_workspace.index()
    index = text_workspace.engine().index("kb")
    hidden = "faqs/lost-key.md"
    scope = index.within(np.array([doc_id != hidden for doc_id in index.doc_ids()]))
    chunk = scope.chunks_of("faqs/rotate-key.md")
    assert scope.factors({"effective": {"half_life_days": 53}}, chunk).tolist() == [1.0]
    assert scope.factors({"status": {"draft": 5.0}}, chunk).tolist() == [1.0]


def test_a_value_that_left_with_its_last_document_changes_nothing(text_workspace: Workspace) -> None:
    text_workspace.index()
    config = parsed("keyword", boosts={"status": {"retired": 5.0}})
    before = text_workspace.engine().search("API key", config).hits
    (text_workspace.root / "documents" / "guides" / "pipettes.md").unlink()
    text_workspace.index()
    after = text_workspace.engine().search("API key", config).hits
    assert [hit.doc_id for hit in after] == [hit.doc_id for hit in before]


@pytest.mark.parametrize(
    ("boosts", "code"),
    [
        ({"state": {"draft": 2}}, "HIVE-206"),
        ({"owner": {"dana": 2}}, "HIVE-207"),
        ({"status": {"half_life_days": 9}}, "HIVE-207"),
        ({"effective": {"2025-03-01": 2}}, "HIVE-207"),
    ],
)
def test_a_boost_that_no_document_can_have_is_an_error(text_workspace: Workspace, boosts: Any, code: str) -> None:
    text_workspace.index()
    with pytest.raises(HiveError, match=code):
        text_workspace.engine().search("key", parsed("keyword", boosts=boosts))


def test_a_date_with_a_time_zone_is_an_age_like_any_other(text_workspace: Workspace) -> None:
    write_document(text_workspace, "late.md", "---\ntitle: Late\neffective: 2025-06-16T02:00:00+02:00\n---\nKey.\n")
    text_workspace.index()
    names = ["late.md", "faqs/lost-key.md"]
    assert factors(text_workspace, names, effective={"half_life_days": 1}) == [1.0, 0.5]


def test_the_explanation_names_the_boost(text_workspace: Workspace) -> None:
    text_workspace.index()
    engine = text_workspace.engine()
    config = parsed("keyword", boosts={"status": {"draft": 2.5}})
    found = explain_hit(engine, QUERY, config, "faqs/lost-key.md")
    assert found["boost"] == 2.5
    assert "boosted by 2.5" in explain_text(found)
    assert "boosted" not in explain_text(explain_hit(engine, QUERY, config, "faqs/rotate-key.md"))


def test_one_date_far_in_the_future_leaves_the_ages_of_the_others() -> None:
    days = np.array([*np.arange(0.0, 400.0, 10.0), 27_000.0])
    factors = by_age(newest_day(days, 30.0) - days, 30.0)
    assert factors[-1] == factors[-2] == 1.0
    assert factors[-5] == pytest.approx(0.5)


def test_a_few_documents_are_counted_from_the_newest_whatever_the_gap() -> None:
    days = np.array([0.0, 5000.0])
    assert newest_day(days, 30.0) == 5000.0


def test_a_boost_switches_off_where_the_question_names_a_value_of_its_field(indexed: Workspace) -> None:
    index = indexed.engine().index("kb")
    config, plain = parsed(boosts={"status": {"draft": 0.1}}), parsed()

    def order(query: str, by: RetrievalConfig) -> list[int]:
        return retrieve(index, query, by).fused.chunks.tolist()

    assert order(QUERY, config) != order(QUERY, plain)
    asked = "Which draft says how I rotate an API key?"
    assert order(asked, config) == order(asked, plain)


def test_what_no_longer_holds_is_not_demoted_for_who_asks_about_a_past_year(text_workspace: Workspace) -> None:
    """A retired procedure of 2023 answers what held then, and not what holds in the newest year of the documents."""
    text_workspace.index()
    index = text_workspace.engine().index("kb")
    config, plain = parsed("keyword", boosts={"status": {"retired": 0.1}}), parsed("keyword")
    for year, off in (("2023", True), ("2025", False), ("1999", False)):
        asked = f"how were pipettes calibrated in {year}"
        boosted, before = (retrieve(index, asked, by).fused.scores.tolist() for by in (config, plain))
        assert (boosted == before) == off, year


def test_a_state_is_named_by_no_year_where_every_document_still_holds(text_workspace: Workspace) -> None:
    (text_workspace.documents / "guides" / "pipettes.md").unlink()
    text_workspace.index()
    assert text_workspace.engine().index("kb").named("what held in 2024", ["status"]) == set()


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("what holds for a Draft now?", {"status"}),
        ("keys for auth", {"labels"}),
        ("what was public before", {"public"}),
        ("is it true that drafty rooms rotate", set()),
        ("what held in 2025", {"effective"}),
        ("what held in 2024", {"effective", "status"}),
        ("what held in 2022", set()),
    ],
)
def test_a_value_is_named_by_whole_words_a_year_or_the_field_of_a_yes(
    text_workspace: Workspace, query: str, named: set[str]
) -> None:
    text_workspace.index()
    index = text_workspace.engine().index("kb")
    assert index.named(query, ["status", "labels", "public", "effective"]) == named
