"""Which tags lose, and which of the losses are shown; expectations come from independent arithmetic."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from scipy import stats

from hive_agents.evaluation.statistics import holm_adjusted, one_sided_p_value
from hive_agents.gate.tags import TagChange, falling_tags
from hive_agents.workspace.settings import Gate


def rows(*groups: tuple[str, int, float, float]) -> tuple[list[list[str]], list[float], list[float]]:
    """Queries by tag: (tag, how many, nUDCG of each before, and after)."""
    tags = [[tag] for tag, n, _, _ in groups for _ in range(n)]
    before = [was for _, n, was, _ in groups for _ in range(n)]
    after = [now for _, n, _, now in groups for _ in range(n)]
    return tags, before, after


def test_two_queries_never_show_a_loss_and_thirty_that_lose_do() -> None:
    many, few = falling_tags(*rows(("few", 2, 0.0, -0.18), ("many", 30, 0.8, 0.6), ("kept", 5, 0.5, 0.5)), Gate())
    assert (many.tag, many.n, many.blocks) == ("many", 30, True)
    assert many.p_value == pytest.approx(3 * 1 / 10_000)  # none of 9,999 flips, for the first of three tags
    assert (few.tag, few.n, few.blocks) == ("few", 2, False)
    assert few.p_value == pytest.approx(2 * 1 / 4)  # exact, for the second of three
    assert (few.before, few.after) == pytest.approx((0.0, -0.18))


def test_worst_fall_stands_first_and_equal_falls_by_name() -> None:
    groups = ("b", 3, 0.5, 0.2), ("worst", 3, 1.0, 0.0), ("a", 3, 0.5, 0.2), ("rises", 3, 0.0, 1.0)
    assert [change.tag for change in falling_tags(*rows(*groups), Gate())] == ["worst", "a", "b"]


def test_fall_of_exactly_the_tolerance_is_none() -> None:
    assert falling_tags(*rows(("t", 20, 0.5, 0.4)), Gate()) == []
    assert falling_tags(*rows(("t", 20, 0.5, 0.4 - 1e-10)), Gate()) == []
    (fallen,) = falling_tags(*rows(("t", 20, 0.5, 0.4 - 1e-8)), Gate())
    assert fallen.blocks
    assert falling_tags(*rows(("t", 20, 0.5, 0.39)), Gate(tag_drop=0.2)) == []


def test_without_queries_or_tags_nothing_falls() -> None:
    assert falling_tags([], [], [], Gate()) == []
    assert falling_tags([[], []], [1.0, 1.0], [0.0, 0.0], Gate()) == []


def test_any_evidence_blocks_every_fall() -> None:
    (fallen,) = falling_tags(*rows(("few", 2, 0.0, -0.18)), Gate(tag_evidence="any"))
    assert fallen.blocks
    assert fallen.p_value == pytest.approx(0.25)
    assert falling_tags(*rows(("few", 2, 0.0, -0.1)), Gate(tag_evidence="any")) == []


def test_query_counts_for_each_of_its_tags_and_once_for_a_repeated_one() -> None:
    (a, b) = falling_tags([["a", "b", "a"], ["b"]], [1.0, 1.0], [0.0, 0.0], Gate())
    assert (a.tag, a.n, b.tag, b.n) == ("a", 1, "b", 2)
    assert a.to_json() == {"tag": "a", "n": 1, "before": 1.0, "after": 0.0, "p_value": 0.5}
    assert isinstance(a, TagChange)


def test_scores_that_do_not_pair_up_are_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("zip()")):
        falling_tags([["a"]], [1.0], [0.0, 0.0], Gate())


@pytest.mark.parametrize("seed", range(8))
def test_p_values_are_those_of_scipy_adjusted_by_holm(seed: int) -> None:
    """Small tags, so that both tests are exact; scipy adjusts no p by Holm, so that is written out here."""
    draw = random.Random(seed)
    groups = {f"t{number}": draw.randint(2, 9) for number in range(6)}
    tags = [[tag] for tag, n in groups.items() for _ in range(n)]
    before = [draw.randint(-10, 10) / 10 for _ in tags]
    after = [score + draw.randint(-10, 4) / 10 for score in before]
    raw = {}
    for tag in groups:
        lost = np.array([was - now for (of,), was, now in zip(tags, before, after, strict=True) if of == tag])
        signs = stats.permutation_test(
            (lost,), lambda x, axis: x.sum(axis=axis) + 1e-12, permutation_type="samples", alternative="greater"
        )
        raw[tag] = float(signs.pvalue)
    ordered, adjusted, highest = sorted(raw, key=lambda tag: raw[tag]), {}, 0.0
    for place, tag in enumerate(ordered):
        highest = max(highest, min(1.0, (len(raw) - place) * raw[tag]))
        adjusted[tag] = highest
    found = falling_tags(tags, before, after, Gate())
    assert found
    for change in found:
        assert change.p_value == pytest.approx(adjusted[change.tag], abs=1e-9)
        assert change.blocks == (change.p_value <= 0.05)


def test_tags_that_lose_nothing_still_count_as_tested() -> None:
    alone = falling_tags(*rows(("t", 6, 0.5, 0.0)), Gate())
    among = falling_tags(*rows(("t", 6, 0.5, 0.0), *((f"kept{n}", 2, 0.5, 0.5) for n in range(9))), Gate())
    assert alone[0].p_value == pytest.approx(1 / 64)
    assert among[0].p_value == pytest.approx(10 / 64)
    assert alone[0].blocks
    assert not among[0].blocks


def test_holm_adjusts_step_by_step_and_stops_at_one() -> None:
    assert holm_adjusted([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm_adjusted([0.01, 0.04, 0.03], family=5) == pytest.approx([0.05, 0.12, 0.12])
    assert holm_adjusted([0.9, 0.8]) == [1.0, 1.0]
    assert holm_adjusted([]) == []
    with pytest.raises(ValueError, match="2 p-values"):
        holm_adjusted([0.1, 0.1], family=1)


def test_one_sided_p_is_that_of_the_paired_difference() -> None:
    before, after = [0.2, 0.4, 0.1, 0.5, 0.3], [0.4, 0.5, 0.4, 0.5, 0.2]
    assert one_sided_p_value(before, after) == 0.1875
    assert one_sided_p_value(after, before) == 15 / 16


def test_where_no_tag_loses_in_truth_one_blocks_in_at_most_a_twentieth_of_runs() -> None:
    """600 seeded worlds of ten tags with eleven queries each, all of which change: enough to show a loss."""
    draw, runs, blocked, fell = np.random.default_rng(13), 600, 0, 0
    tags = [[f"t{number % 10}"] for number in range(110)]
    for _ in range(runs):
        before = draw.normal(0.4, 0.5, len(tags))
        after = before + draw.normal(0, 0.5, len(tags))
        found = falling_tags(tags, before.tolist(), after.tolist(), Gate())
        fell += bool(found)
        blocked += any(change.blocks for change in found)
    assert fell > runs * 0.9  # each of them blocked while a fall was enough
    assert 0 < blocked <= runs * 0.05
