"""The rule for the levels of repeated looks at one holdout, over fifty steps of proposers that adapt."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.ledger import PROPOSERS, deployed, measured

RUNS = 400
SPARE = 2.33 * (0.05 * 0.95 / RUNS) ** 0.5


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("proposer", PROPOSERS)
def test_of_what_is_deployed_at_most_one_in_twenty_is_no_better(proposer: str, share: float) -> None:
    assert measured("kept", proposer, share, RUNS)["fdr"] <= 0.05 + SPARE


def test_where_nothing_is_better_a_holdout_deploys_as_seldom_as_promised() -> None:
    assert measured("kept", "honest", 0.0, RUNS)["any"] <= 0.05 + SPARE


def test_true_steps_find_more_than_a_series_that_passes_use_up() -> None:
    found = {rule: measured(rule, "honest", 0.6, RUNS)["true"] for rule in ("series", "kept")}
    assert found["kept"] > 1.25 * found["series"]


def test_lord_is_beaten_by_who_adds_up_what_was_refused() -> None:
    """Its bound needs figures of fresh questions for each look, and a holdout has the same ones each time."""
    rng = np.random.default_rng(5)
    assert np.mean([deployed("lord", "sum", 0.0, rng)[1] > 0 for _ in range(60)]) > 0.3
