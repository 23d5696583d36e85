from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hive_agents.optimizer.selection import (
    SHORT,
    Candidate,
    ConfigChange,
    ablated,
    best_mean,
    by_mean_rank,
    close_to,
    fewest_distractors,
)


def changes(*paths: str) -> list[ConfigChange]:
    return [{"path": path, "a": None, "b": 1} for path in paths]


def paths(found: Sequence[ConfigChange]) -> list[str]:
    return [change["path"] for change in found]


STEADY = np.tile([0.09, 0.11], 20)
LUCKY = np.where(np.arange(40) < 1, 4.4, 0.0)  # 0.11 on average, all of it from one query
OTHERS = [Candidate(changes(f"other{n}"), STEADY - n / 100) for n in (1, 2, 3)]


def test_a_steady_gain_comes_before_a_slightly_higher_one_that_a_query_makes() -> None:
    found = by_mean_rank([Candidate(changes("lucky"), LUCKY), *OTHERS, Candidate(changes("steady"), STEADY)])
    assert [paths(candidate.changes) for candidate in found[:2]] == [["steady"], ["other1"]]


def test_a_much_higher_gain_comes_before_a_steady_one() -> None:
    found = by_mean_rank([Candidate(changes("steady"), STEADY), Candidate(changes("high"), STEADY + LUCKY / 4)])
    assert paths(found[0].changes) == ["high"]


def test_a_noisy_gain_may_still_be_chosen() -> None:
    noisy = np.array([1.0, -0.9, 0.9, -0.9])
    assert len(by_mean_rank([Candidate(changes("noisy"), noisy)])) == 1


def test_what_gains_nothing_on_average_is_no_candidate() -> None:
    assert by_mean_rank([Candidate(changes("a"), np.zeros(4)), Candidate(changes("b"), np.full(4, -0.1))]) == []


def test_of_equal_gains_the_one_with_fewer_changes_comes_first_and_then_the_earlier() -> None:
    equal = [Candidate(changes(*names), STEADY) for names in (("a", "b"), ("c",), ("d",))]
    assert [paths(candidate.changes) for candidate in by_mean_rank(equal)] == [["c"], ["d"], ["a", "b"]]


def test_many_configs_that_search_alike_push_no_other_down() -> None:
    alike = [Candidate(changes(f"alike{n}"), LUCKY) for n in range(50)]
    found = by_mean_rank([*alike, *OTHERS, Candidate(changes("steady"), STEADY)])
    assert paths(found[0].changes) == ["steady"]


def test_nothing_far_below_the_best_mean_is_close_to_it() -> None:
    best, far = Candidate(changes("best"), STEADY), Candidate(changes("far"), STEADY - 2 * SHORT)
    edge = Candidate(changes("edge"), STEADY - SHORT)
    assert close_to(best, [far, edge, best]) == [edge, best]


def test_the_best_mean_is_that_of_a_config_that_may_be_chosen() -> None:
    refused, best, equal = (Candidate(changes(name), STEADY + more) for name, more in (("r", 0.1), ("b", 0), ("e", 0)))
    assert best_mean([refused, best, equal], lambda candidate: candidate is not refused) is best
    assert best_mean([refused], lambda candidate: candidate is not refused) is None


def test_of_what_the_queries_cannot_tell_from_the_best_the_fewest_distractors_come_first() -> None:
    leader = Candidate(changes("leader"), LUCKY, 0.4)
    cleaner = Candidate(changes("cleaner"), LUCKY - 0.001 * np.tile([1.0, -0.98], 20), 0.1)
    worse = Candidate(changes("worse"), LUCKY - 0.01, 0.0)
    assert fewest_distractors(leader, [worse, cleaner]) == [cleaner, leader]


def test_of_as_many_distractors_the_best_is_chosen() -> None:
    leader = Candidate(changes("leader"), STEADY, 0.4)
    assert fewest_distractors(leader, [Candidate(changes("same"), STEADY, 0.4)])[0] is leader


def test_nothing_is_chosen_for_its_distractors_that_gains_nothing() -> None:
    noisy = np.array([1.0, -0.9, 0.9, -0.9])
    leader, silent = Candidate(changes("leader"), noisy, 0.4), Candidate(changes("silent"), np.zeros(4), 0.0)
    assert fewest_distractors(leader, [silent]) == [leader]


def test_a_change_without_which_the_mean_is_no_lower_is_taken_out() -> None:
    worth = {"retrieval.top_k": 0.2, "bm25.b": 0.0, "retrieval.rrf_k": -0.01}
    left = ablated(changes(*worth), lambda kept: sum(worth[path] for path in paths(kept)))
    assert paths(left) == ["retrieval.top_k"]


def test_a_change_that_gains_the_least_bit_stays() -> None:
    worth = {"retrieval.top_k": 0.2, "bm25.b": 0.0001}
    assert len(ablated(changes(*worth), lambda kept: sum(worth[path] for path in paths(kept)))) == 2


def test_changes_of_a_block_that_only_hold_each_other_up_go_together() -> None:
    def mean(kept: Sequence[ConfigChange]) -> float:
        lanes = {"retrieval.weights.keyword", "retrieval.weights.vector"}
        return 0.5 - 0.1 * (len(lanes.intersection(paths(kept))) == 1)

    assert ablated(changes("retrieval.weights.keyword", "retrieval.weights.vector"), mean) == []


def test_a_setting_of_a_block_that_was_switched_off_goes_with_its_switch() -> None:
    def mean(kept: Sequence[ConfigChange]) -> float:
        on = "dynamic_k.enabled" in paths(kept)
        return 0.4 if on and "dynamic_k.min_results" not in paths(kept) else 0.5

    every = ("dynamic_k.enabled", "dynamic_k.gap_threshold_factor", "dynamic_k.min_results")
    assert ablated(changes(*every), mean) == []


def test_what_may_not_be_chosen_is_no_way_to_get_simpler() -> None:
    def mean(kept: Sequence[ConfigChange]) -> float | None:
        return None if "filters.status" not in paths(kept) else 0.5

    assert paths(ablated(changes("filters.status", "bm25.b"), mean)) == ["filters.status"]


def test_the_same_changes_are_left_whatever_their_order() -> None:
    worth = {"a.x": 0.2, "b.x": 0.1, "b.y": -0.05, "c.x": 0.0}
    mean = lambda kept: sum(worth[path] for path in paths(kept)) - 0.15 * ({"a.x", "b.x"} <= set(paths(kept)))  # noqa: E731
    forward, backward = ablated(changes(*worth), mean), ablated(changes(*reversed(worth)), mean)
    assert sorted(paths(forward)) == sorted(paths(backward))
