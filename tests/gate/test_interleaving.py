"""The draft is fair to both lists, and its evidence is wrong in at most one of twenty canaries, whenever one looks."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hive_agents.gate.interleaving import ALARM, e_value, still_missing, team_draft

lists = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=8)


@given(lists, lists, st.text(max_size=4))
def test_a_draft_holds_each_document_once_and_is_as_long_as_the_new_list(
    new: list[str], previous: list[str], seed: str
) -> None:
    draft = team_draft(new, previous, seed)
    assert len(draft.order) == len(draft.teams) == len(set(draft.order)) == len(new)
    assert set(draft.order) <= {*new, *previous}
    assert draft == team_draft(new, previous, seed)


@given(lists, lists, st.text(max_size=4))
def test_each_side_places_its_best_document_that_is_left(new: list[str], previous: list[str], seed: str) -> None:
    draft = team_draft(new, previous, seed)
    for place, (doc, team) in enumerate(zip(draft.order, draft.teams, strict=True)):
        of = {"n": new, "p": previous, "-": new}[team]
        assert doc == next(one for one in of if one not in draft.order[:place])
    assert abs(draft.teams.count("n") - draft.teams.count("p")) <= 1


def test_the_common_beginning_is_nobodys() -> None:
    assert team_draft("abcd", "abdc", "x").teams[:2] == "--"
    assert set(team_draft("abcd", "abcd", "x").teams) == {"-"}
    assert set(team_draft("ab", "abcd", "x").teams) == {"-"}
    assert set(team_draft("abcd", "ab", "x").teams) == {"-"}


@pytest.mark.parametrize("other", ["bac", "cad", "dab", "bcd"])
def test_a_reader_who_wants_one_document_credits_both_sides_of_alike_lists_alike(other: str) -> None:
    """Swapping the lists swaps the credit: whatever a document is worth, the coin decides who gets it."""
    seeds = [str(n) for n in range(800)]
    for wanted in "abcd":
        forth, back = [0, 0], [0, 0]
        for seed in seeds:
            for counts, draft in ((forth, team_draft("abc", other, seed)), (back, team_draft(other, "abc", seed))):
                if wanted in draft.order:
                    team = draft.teams[draft.order.index(wanted)]
                    counts[0] += team == "n"
                    counts[1] += team == "p"
        assert forth[0] == pytest.approx(back[1], abs=100)
        assert forth[1] == pytest.approx(back[0], abs=100)


def test_a_list_is_drawn_alike_by_either_side() -> None:
    first = [team_draft("ab", "ba", str(n)).teams for n in range(4000)]
    assert np.mean([teams == "np" for teams in first]) == pytest.approx(0.5, abs=0.04)


@given(st.integers(0, 25), st.integers(0, 25))
def test_the_evidence_is_the_mean_over_all_bets(losses: int, wins: int) -> None:
    """By exact integration: (1 + s)^losses (1 - s)^wins over s from 0 to 1."""
    from numpy.polynomial import Polynomial

    bets = Polynomial([1.0, 1.0]) ** losses * Polynomial([1.0, -1.0]) ** wins
    exact = sum(Fraction(round(c)) / (power + 1) for power, c in enumerate(bets.coef))
    assert e_value(losses, wins) == pytest.approx(float(exact), rel=1e-9)


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_evidence_is_a_martingale_where_nobody_is_better(losses: int, wins: int) -> None:
    now, after = e_value(losses, wins), (e_value(losses + 1, wins) + e_value(losses, wins + 1)) / 2
    assert after == pytest.approx(now, rel=1e-9)
    assert e_value(losses + 1, wins) > now > e_value(losses, wins + 1)


def test_evidence_without_end_is_infinite_and_nothing_is_missing() -> None:
    assert e_value(5000, 0) == float("inf")
    assert (still_missing(7, 0), still_missing(6, 0)) == (0, 1)


@cache
def losses_that_alarm(length: int) -> np.ndarray:
    """Return by the number of decided impressions how many of them have to be lost for an alarm."""
    needed, found = 0, []
    for decided in range(length + 1):
        while needed <= decided and e_value(needed, decided - needed) < ALARM:
            needed += 1
        found.append(needed)
    return np.array(found)


def alarms(chance_of_loss: float, worlds: int, length: int, seed: int = 1) -> np.ndarray:
    """Return for each world after how many decided impressions it alarms; `length` + 1 where it never does."""
    lost = np.cumsum(np.random.default_rng(seed).random((worlds, length)) < chance_of_loss, axis=1)
    over = lost >= losses_that_alarm(length)[1:]
    return np.where(over.any(axis=1), over.argmax(axis=1) + 1, length + 1)


def test_a_config_that_is_no_worse_is_rolled_back_in_at_most_one_of_twenty_canaries_of_any_length() -> None:
    error = 3 * np.sqrt(0.05 * 0.95 / 4000)
    assert np.mean(alarms(0.5, 4000, 500) <= 500) <= 0.05 + error
    assert np.mean(alarms(0.4, 4000, 500) <= 500) <= 0.01


def test_the_same_alarm_by_a_test_of_fixed_length_would_be_wrong_far_more_often() -> None:
    """The control: looking at p < .05 after each impression."""
    lost = np.cumsum(np.random.default_rng(1).random((2000, 500)) < 0.5, axis=1)
    decided = np.arange(1, 501)
    z = (lost - decided / 2) / np.sqrt(decided / 4)
    assert np.mean((z[:, 20:] > 1.645).any(axis=1)) > 0.2


def test_a_config_that_is_worse_is_rolled_back() -> None:
    for chance, within in ((0.9, 25), (0.7, 120), (0.6, 500)):
        assert np.mean(alarms(chance, 2000, 500) <= within) >= 0.9


def test_readers_who_open_whatever_stands_first_prefer_nobody() -> None:
    """Two lists of the same quality; readers open the first document that is to their taste, with luck."""
    dice, won, lost = random.Random(3), 0, 0
    for world in range(4000):
        new, previous = dice.sample("abcdefgh", 5), dice.sample("abcdefgh", 5)
        draft = team_draft(new, previous, str(world))
        place = next((n for n in range(5) if dice.random() < 0.4), None)
        if place is not None:
            won += draft.teams[place] == "n"
            lost += draft.teams[place] == "p"
    assert won / (won + lost) == pytest.approx(0.5, abs=0.03)


def end_of_canary(dice: random.Random, new: list[str], previous: list[str], most: int) -> tuple[str, int]:
    """Return how a canary ends whose readers want "a" most, look down the list and open what they like."""
    won = lost = 0
    for search in range(1, most + 1):
        draft = team_draft(new, previous, str(dice.random()))
        credit = dict.fromkeys("np-", 0)
        for doc, team in zip(draft.order, draft.teams, strict=True):
            credit[team] += dice.random() < {"a": 0.6, "b": 0.3}.get(doc, 0.05)
            if dice.random() > 0.75:
                break
        won += credit["n"] > credit["p"]
        lost += credit["n"] < credit["p"]
        if e_value(lost, won) >= ALARM:
            return "worse", search
        if e_value(won, lost) >= ALARM:
            return "better", search
    return "undecided", most


@pytest.mark.slow
def test_readers_of_drafted_lists_find_out_what_is_worse_and_nothing_where_nothing_is() -> None:
    dice = random.Random(5)
    alike = [end_of_canary(dice, list("zabyx"), list("yabzw"), 150)[0] for _ in range(500)]
    assert np.mean([end == "worse" for end in alike]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 500)
    assert np.mean([end == "better" for end in alike]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 500)
    worse = [end_of_canary(dice, list("zyxba"), list("abxyz"), 300) for _ in range(100)]
    assert np.mean([end == "worse" for end, _ in worse]) >= 0.95
    better = [end_of_canary(dice, list("abxyz"), list("zyxba"), 300) for _ in range(100)]
    assert np.mean([end == "better" for end, _ in better]) >= 0.95
