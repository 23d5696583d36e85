"""What multiplies fused scores is known in one place to searches, the optimizer, explanations and exports."""

import pytest

from hive_agents import RetrievalConfig, Workspace
from hive_agents.optimizer.space import LEVERS
from hive_agents.ranking.explain import explain_hit, explain_text
from hive_agents.ranking.factors import FACTORS, by_boilerplate
from hive_agents.ranking.fusion import best_columns, joined
from hive_agents.ranking.pipeline import RETRIEVE, RankingState, run
from hive_agents.ranking.stages import retrieve
from tests.conftest import config_json, make_workspace

QUERY = "who may copy the page of valve V-23"
MENU = "- Home - About us - Contact - Imprint"
ON = {
    "boosts": {"category": {"odd": 2.0}},
    "boilerplate": {"weight": 0.5},
    "lift": {"weight": 2.0},
}


def config(**parts: object) -> RetrievalConfig:
    return RetrievalConfig.model_validate(config_json("a", "hybrid") | {"lift": {"enabled": False}} | parts)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Thirty pages of two categories with a menu on each, but for one that tells who may copy them."""
    heads = [f"---\ncategory: {'odd' if n % 2 else 'even'}\n---\n# Valve V-{n}" for n in range(30)]
    pages = {f"{n}.md": f"{head}\n\n{MENU}\n\nThe valve {n} holds.\n" for n, head in enumerate(heads)}
    pages["legal.md"] = "# Legal\n\nEverybody may copy a page.\n"
    workspace = make_workspace(tmp_path_factory.mktemp("site") / "kb", documents=pages)
    workspace.index()
    return workspace


def test_every_factor_is_a_block_of_a_config_and_tries_values_of_it() -> None:
    assert [factor.block for factor in FACTORS] == list(ON)
    for factor in FACTORS:
        assert factor.block in RetrievalConfig.model_fields
        assert all(path.startswith(f"{factor.block}.") and LEVERS[path] == grid for path, grid in factor.tried.items())


@pytest.mark.parametrize("block", ON)
def test_a_factor_that_is_off_has_no_setting_and_one_that_is_on_is_no_others(block: str) -> None:
    parts = {block: ON[block]}
    assert not any(factor.setting(config(), "english+") for factor in FACTORS)
    assert [factor.block for factor in FACTORS if factor.setting(config(**parts), "english+") is not None] == [block]


def test_a_search_multiplies_by_every_factor_in_their_order(site: Workspace) -> None:
    index, every = site.engine().index("kb"), config(**ON)
    of = retrieve(index, QUERY, every).of
    pool = joined(of.lanes["keyword"].chunks[None], of.lanes["vector"].chunks[None])
    plain = run(RankingState(pool, pool.depth), of, every, RETRIEVE[:1]).scores
    expected = plain.copy()
    for factor in FACTORS:
        factors = factor.factors(of, pool, every)
        assert factors.shape == pool.chunks.shape
        assert (factors != 1).any(), factor.block
        expected[plain >= 0] *= factors[plain >= 0]
    assert [step.name for step in RETRIEVE[1 : 1 + len(FACTORS)]] == list(ON)
    found = run(RankingState(pool, pool.depth), of, every, RETRIEVE[: 1 + len(FACTORS)]).scores
    assert found.tolist() == expected.tolist()
    order = best_columns(found, found.shape[1])[0, : int((found >= 0).sum())]
    assert retrieve(index, QUERY, every).fused.scores.tolist() == found[0, order].tolist()


def test_an_explanation_tells_every_factor_of_a_document(site: Workspace) -> None:
    engine = site.engine()
    index = engine.index("kb")
    facts = explain_hit(engine, QUERY, config(**ON), "23.md")
    (share,) = index.boilerplate_shares(index.chunks_of("23.md"))
    assert 0 < share < 1
    assert (facts["boost"], facts["boilerplate"]) == (2.0, by_boilerplate(share, 0.5))
    assert facts["lift"] > 1
    told = explain_text(facts)
    for words in ("boosted by 2", f"weighed {1 - share / 2:.3g} for lines that many documents share", "lifted by"):
        assert words in told
    without = explain_hit(engine, QUERY, config(), "23.md")
    assert {without[factor.fact] for factor in FACTORS} == {1.0}
    assert "weighed" not in explain_text(without)
