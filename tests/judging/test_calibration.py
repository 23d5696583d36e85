from __future__ import annotations

import datetime as dt
import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

from benchmarks.calibration import recommended_threshold, thresholds
from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.judging import drift
from hive_agents.judging.binomial import binomial_cdf, lower_bound, minimum_n, upper_bound
from hive_agents.judging.calibration import calibrate
from hive_agents.judging.certify import Certificate, Stratum, certify
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.metrics import CalibrationMetrics
from hive_agents.judging.thresholds import (
    GLOBAL,
    Threshold,
    apply_threshold,
    awaiting,
    refuse_thresholds,
    threshold_for,
)
from hive_agents.store import connected
from tests.judging.recorded import load_recorded
from tests.judging.test_drift import alarm

NOW = dt.datetime(2026, 2, 1, tzinfo=dt.UTC)


def put(workspace: Workspace, n: int, *, errors: int = 0, confidence: float = 0.9, **more: Any) -> None:
    """`n` audited decisions of which `errors` were wrong."""
    log = DecisionLog(workspace)
    signal = {"source": "llm", "action": "accept", "confidence": confidence}
    label = {"by": "user:amira", "at": "2026-01-02", "blind": True}
    base = {"at": "2026-01-01T00:00:00+00:00", "goal_type": "summary", "judge_hash": "a", "result": {}, "audit": 1}
    log.load(
        json.dumps(
            {
                **base,
                "judgment": {"action": "accept", "confidence": confidence, "signals": [signal]},
                "labels": [{**label, "action": "retry" if i < errors else "accept"}],
                **more,
            }
        )
        for i in range(n)
    )


@pytest.mark.parametrize(
    ("alpha", "delta", "least"),
    [
        (0.05, 0.10, [45, 77, 105, 132]),
        (0.05, 0.05, [59, 93, 124, 153]),
        (0.10, 0.10, [22, 38, 52, 65]),
        (0.01, 0.10, [230, 388, 531, 667]),
    ],
)
def test_the_least_number_of_audits_per_error(alpha: float, delta: float, least: list[int]) -> None:
    assert [minimum_n(errors, alpha, delta) for errors in range(4)] == least


def test_binomial_and_clopper_pearson_agree_with_scipy() -> None:
    for k, n, p in [(0, 45, 0.05), (3, 132, 0.05), (50, 1000, 0.05), (700, 1000, 0.71), (9, 10, 0.5)]:
        assert binomial_cdf(k, n, p) == pytest.approx(float(binom.cdf(k, n, p)), rel=1e-9)
    for k, n, delta in [(0, 45, 0.1), (3, 132, 0.1), (20, 1000, 0.02), (9, 10, 0.05)]:
        assert upper_bound(k, n, delta) == pytest.approx(float(beta.ppf(1 - delta, k + 1, n - k)), rel=1e-9)


def test_ten_of_ten_is_not_certainty() -> None:
    assert [round(lower_bound(n, n), 3) for n in (10, 29, 59, 149)] == [0.741, 0.902, 0.950, 0.980]
    assert lower_bound(0, 0) == 0.0


@pytest.mark.parametrize(("errors", "least"), [(0, 45), (1, 77), (2, 105), (3, 132)])
def test_a_threshold_is_certified_from_the_least_number_on(errors: int, least: int) -> None:
    def at(n: int) -> Any:
        return recommended_threshold([0.9] * n, [False] * errors + [True] * (n - errors))

    assert at(least).threshold == 0.9
    assert (at(least).n, at(least).k, at(least).needed) == (least, errors, 0)
    assert (at(least - 1).threshold, at(least - 1).needed) == (None, 1)


def test_nothing_and_one_class_need_all_the_audits() -> None:
    assert (recommended_threshold([], []).threshold, recommended_threshold([], []).needed) == (None, 45)
    assert recommended_threshold([0.9] * 500, [False] * 500).threshold is None


def test_a_target_without_error_is_never_certified() -> None:
    assert recommended_threshold([0.9] * 5000, [True] * 5000, alpha=0.0).threshold is None


def test_confidences_that_are_none_are_rejected_and_counted() -> None:
    confidence = [0.9] * 45 + [float("nan"), 1.2, -0.1, float("inf")]
    found = recommended_threshold(confidence, [True] * 45 + [False] * 4)
    assert (found.threshold, found.n, found.rejected) == (0.9, 45, 4)


def test_ties_enter_together() -> None:
    found = recommended_threshold([0.9] * 60 + [0.8] * 60, [True] * 60 + [True] * 50 + [False] * 10)
    assert (found.threshold, found.n) == (0.9, 60)


def test_the_sequence_stops_at_the_first_failure() -> None:
    confidence = [0.95] * 60 + [0.9] * 5 + [0.8] * 400
    agrees = [False] * 5 + [True] * 460
    found = recommended_threshold(confidence, agrees)
    assert found.threshold is None  # later ones would pass, and may not count
    assert found.bins == (0.8,)


def test_thresholds_that_cannot_pass_are_skipped_without_looking_at_labels() -> None:
    confidence = [0.99] * 10 + [0.9] * 200
    found = recommended_threshold(confidence, [False] + [True] * 209)
    assert (found.threshold, found.k) == (0.9, 1)


def test_five_starts_need_more_audits_each() -> None:
    rng = np.random.default_rng(2)
    confidence = np.r_[np.full(50, 0.99), np.round(rng.uniform(0.1, 0.9, 450), 2)]  # none has labels for its own test
    agrees = np.r_[np.ones(50, dtype=bool), np.zeros(450, dtype=bool)]
    assert recommended_threshold(confidence[5:], agrees[5:]).threshold == 0.99
    assert recommended_threshold(confidence, agrees).threshold is None  # 77 at delta / 5


def test_escalations_alone_say_nothing_above_the_threshold() -> None:
    high, none = np.full(1000, 0.9), np.empty(0)
    audits = Stratum(high, none, np.empty(0, dtype=bool))
    escalated = Stratum(np.full(300, 0.6), np.full(300, 0.6), np.ones(300, dtype=bool))
    assert certify([audits, escalated]).threshold is None


def test_two_streams_are_weighted_by_their_size() -> None:
    audits = Stratum(np.full(1200, 0.9), np.full(60, 0.9), np.ones(60, dtype=bool))
    good = Stratum(np.full(300, 0.6), np.full(300, 0.6), np.ones(300, dtype=bool))
    bad = Stratum(good.logged, good.confidence, np.arange(300) >= 60)
    assert certify([audits, good]).threshold == 0.6
    assert certify([audits, bad]).threshold == 0.9


def test_the_simulated_level_holds_where_the_naive_rule_fails() -> None:
    rows = [row for row in thresholds(30, seed=11, sizes=(100, 200)) if row["n"] <= 200]
    assert all(row["violation_rate"] <= 0.2 for row in rows if row["rule"] == "certified")
    assert sum(row["violation_rate"] >= 0.3 for row in rows if row["rule"] == "naive") == 6


CLUSTERS = (0.95, 0.9, 0.8)


def clustered(errors: tuple[float, ...], shares: tuple[float, ...], seeds: int, n: int = 400) -> tuple[float, float]:
    """Return the mean share of decisions that is certified, and how often more than 5 % of it is truly wrong."""
    covered, violated = 0.0, 0
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 39])
        at = rng.choice(3, n, p=shares)
        cases = [(CLUSTERS[one], bool(rng.random() >= errors[one])) for one in at]
        found = Certificate.of(cases)
        decided = [one for one in range(3) if found.decides(CLUSTERS[one])]
        share = sum(shares[one] for one in decided)
        covered += share
        violated += share > 0 and sum(shares[one] * errors[one] for one in decided) / share > 0.05
    return covered / seeds, violated / seeds


def test_bins_certify_a_judge_whose_confidences_are_in_the_wrong_order() -> None:
    """The note's table: with a threshold alone 0, .72 and .81; by the union .45, .61 and .74."""
    wrong_order, violated = clustered((0.15, 0.01, 0.12), (0.3, 0.5, 0.2), 50)
    assert (wrong_order >= 0.35, violated) == (True, 0)
    alike, violated = clustered((0.02, 0.02, 0.02), (0.5, 0.3, 0.2), 50)
    assert (alike >= 0.5, violated) == (True, 0)
    rising, violated = clustered((0.01, 0.04, 0.15), (0.5, 0.3, 0.2), 50)
    assert (rising >= 0.65, violated <= 0.04) == (True, True)


def test_over_fifty_seeds_certified_thresholds_violate_the_target_in_a_tenth_at_most() -> None:
    for shares in ((0.3, 0.5, 0.2), (0.5, 0.3, 0.2), (0.1, 0.1, 0.8)):
        assert clustered((0.06, 0.06, 0.06), shares, 50)[1] <= 0.10
        assert clustered((0.02, 0.051, 0.2), shares, 50)[1] <= 0.10


@pytest.mark.parametrize(("n", "least"), [(200, 0.76), (400, 0.94)])
def test_a_flat_judge_of_ninety_percent_is_shown_to_miss(n: int, least: float) -> None:
    found = []
    for seed in range(50):
        agrees = np.random.default_rng([seed, n]).random(n) >= 0.1
        found.append(Certificate.of([(0.9, bool(one)) for one in agrees]).status)
    assert found.count("missed") / 50 >= least
    assert "certified" not in found


def test_at_exactly_the_target_most_samples_are_undecided() -> None:
    found = []
    for seed in range(100):
        agrees = np.random.default_rng([seed, 5]).random(400) >= 0.05
        found.append(Certificate.of([(0.9, bool(one)) for one in agrees]).status)
    assert found.count("undecided") >= 70
    assert found.count("missed") <= 10


def test_what_is_missing_is_said_with_the_chance_that_it_suffices() -> None:
    none, some = Certificate.of([]), Certificate.of([(0.9, True)] * 44 + [(0.9, False)])
    assert (none.needed, round(none.chance, 2)) == (45, 0.4)
    assert (some.needed, round(some.chance, 2)) == (32, 0.51)
    assert Certificate.of([(0.9, True)] * 44).chance > 0.98


def test_a_missed_target_escalates_its_type_at_once_without_a_second_person(text_workspace: Workspace) -> None:
    put(text_workspace, 400, errors=40)
    put(text_workspace, 5, goal_type="memo")
    found = calibrate(text_workspace, now=NOW)
    assert (found.status, found.missed["summary"]) == ("missed", [0.9])
    assert threshold_for(text_workspace, "summary", "a", now=NOW) == Threshold(1.01, "missed")
    assert calibrate(text_workspace, now=NOW).missed == {}, "nothing is decided alone any more"
    assert threshold_for(text_workspace, "summary", "a", now=NOW) == Threshold(1.01, "missed")
    put(text_workspace, 1500)
    waiting = calibrate(text_workspace, by="user:amira", now=NOW).awaiting_approval
    assert "summary" in waiting
    apply_threshold(text_workspace, waiting["summary"], "user:bo")
    assert threshold_for(text_workspace, "summary", "a", now=NOW).value == 0.9


def test_few_audits_are_enough_to_be_shown_wrong(text_workspace: Workspace) -> None:
    put(text_workspace, 20, errors=10)
    assert calibrate(text_workspace, now=NOW).missed == {GLOBAL: [0.9], "summary": [0.9]}


def test_what_is_escalated_anyway_misses_nothing(text_workspace: Workspace) -> None:
    put(text_workspace, 60, confidence=0.95)
    put(text_workspace, 100, errors=50, confidence=0.5)
    assert calibrate(text_workspace, now=NOW).missed == {}


def test_a_bin_that_is_certified_by_itself_decides(text_workspace: Workspace) -> None:
    put(text_workspace, 150, errors=30, confidence=0.95)
    put(text_workspace, 200)
    found = calibrate(text_workspace, now=NOW)
    assert (found.status, found.recommended_threshold, found.bins) == ("certified", None, [0.9])
    summary = threshold_for(text_workspace, "summary", "a", now=NOW)
    assert [summary.decides(at) for at in (0.95, 0.9, 0.8)] == [False, True, False]


def test_a_bin_below_the_threshold_in_force_takes_a_second_person(cautious: Workspace) -> None:
    put(cautious, 150, errors=30, confidence=0.95)
    put(cautious, 200, confidence=0.7)
    found = calibrate(cautious, by="user:amira", now=NOW)
    assert set(found.awaiting_approval) == {GLOBAL, "summary"}
    assert not threshold_for(cautious, "summary", "a", now=NOW).decides(0.7)
    apply_threshold(cautious, found.awaiting_approval["summary"], "user:bo")
    assert threshold_for(cautious, "summary", "a", now=NOW).decides(0.7)


def test_types_that_differ_are_not_certified_as_one(text_workspace: Workspace) -> None:
    put(text_workspace, 400, goal_type="memo")
    put(text_workspace, 30, errors=6, goal_type="contract")
    found = calibrate(text_workspace, now=NOW)
    assert found.differing == ["contract"]
    assert (found.recommended_threshold, found.threshold_by_goal_type["memo"]) == (None, 0.9)
    assert set(found.missed) == {"contract"}
    assert any("contract" in warning for warning in found.warnings)
    assert threshold_for(text_workspace, "contract", "a", now=NOW).value == 1.01
    assert threshold_for(text_workspace, "new", "a", now=NOW).status == "default"


@pytest.mark.slow
def test_the_level_holds_over_a_thousand_runs() -> None:
    for row in thresholds(1000, seed=4):
        if row["rule"] == "certified":
            assert row["violation_rate"] <= 0.10, row


def test_too_little_keeps_the_old_threshold_and_says_how_many_are_missing(text_workspace: Workspace) -> None:
    put(text_workspace, 20)
    found = calibrate(text_workspace, now=NOW)
    assert (found.status, found.recommended_threshold, found.needed_audits) == ("undecided", None, 25)
    assert (found.previous, found.guarantee, found.threshold_by_goal_type) == (0.7, None, {"summary": 0.7})
    assert threshold_for(text_workspace, "summary", "a", now=NOW).status == "default"


def test_an_empty_log_is_undecided(text_workspace: Workspace) -> None:
    found = calibrate(text_workspace)
    assert (found.status, found.needed_audits, found.retry_success_rate) == ("undecided", 45, None)


def test_a_higher_threshold_is_in_force_at_once(text_workspace: Workspace) -> None:
    put(text_workspace, 45)
    found = calibrate(text_workspace, now=NOW)
    assert (found.status, found.recommended_threshold, found.awaiting_approval) == ("certified", 0.9, {})
    assert found.guarantee is not None
    assert (found.guarantee.n, found.guarantee.coverage) == (45, 1.0)
    assert threshold_for(text_workspace, "summary", "a", now=NOW).value == 0.9
    assert threshold_for(text_workspace, "never seen", now=NOW).value == 0.9


def test_a_lower_threshold_takes_a_second_person(cautious: Workspace) -> None:
    put(cautious, 60, confidence=0.7)
    found = calibrate(cautious, by="user:amira", now=NOW)
    assert (found.recommended_threshold, set(found.awaiting_approval)) == (0.7, {GLOBAL, "summary"})
    assert threshold_for(cautious, "summary", "a", now=NOW) == Threshold(0.8, "default")
    with pytest.raises(HiveError, match="second person"):
        apply_threshold(cautious, found.awaiting_approval["summary"], "user:Amira")
    apply_threshold(cautious, found.awaiting_approval["summary"], "user:bo")
    assert threshold_for(cautious, "summary", "a", now=NOW).value == 0.7
    with pytest.raises(HiveError, match="does not wait"):
        apply_threshold(cautious, found.awaiting_approval["summary"], "user:bo")


def test_a_threshold_that_was_overtaken_waits_no_more(cautious: Workspace) -> None:
    put(cautious, 60, confidence=0.7)
    first = calibrate(cautious, now=NOW).awaiting_approval
    second = calibrate(cautious, now=NOW).awaiting_approval
    assert set(awaiting(cautious)) == set(second.values())
    refuse_thresholds(cautious, [*first.values(), *second.values()])
    assert awaiting(cautious) == {}
    assert threshold_for(cautious, "summary", "a", now=NOW).status == "default"


def test_a_certificate_expires_with_time_and_with_the_judge(text_workspace: Workspace) -> None:
    put(text_workspace, 45)
    calibrate(text_workspace, now=NOW)
    late = NOW + dt.timedelta(days=91)
    assert threshold_for(text_workspace, "summary", "a", now=late).status == "expired"
    assert threshold_for(text_workspace, "summary", "b", now=NOW).status == "expired"
    assert threshold_for(text_workspace, "summary", "b", now=NOW).value == 0.9
    put(text_workspace, 3, judge_hash="b")
    found = calibrate(text_workspace, now=NOW)
    assert (found.status, found.needed_audits) == ("expired", 42)


def test_security_is_never_below_the_others(text_workspace: Workspace) -> None:
    put(text_workspace, 60, confidence=0.95)
    put(text_workspace, 60, confidence=0.85, goal_type="security")
    found = calibrate(text_workspace, now=NOW)
    assert found.recommended_threshold == 0.85
    assert found.threshold_by_goal_type == {"security": 0.85, "summary": 0.95}
    put(text_workspace, 60, errors=20, confidence=0.85)
    assert calibrate(text_workspace, now=NOW).threshold_by_goal_type["security"] >= 0.95


def test_labels_of_automatic_decisions_count_only_when_drawn_and_blind(text_workspace: Workspace) -> None:
    put(text_workspace, 100, audit=0)
    open_label = [{"by": "user:bo", "at": "2026-01-02", "blind": False, "action": "accept"}]
    put(text_workspace, 100, labels=open_label)
    assert calibrate(text_workspace, now=NOW).needed_audits == 45


def test_a_drift_alarm_escalates_everything_until_recalibrated(text_workspace: Workspace) -> None:
    put(text_workspace, 45)
    alarm(text_workspace, "summary")
    assert threshold_for(text_workspace, "summary", "a") == Threshold(1.01, "drift")
    found = calibrate(text_workspace, by="user:amira")
    assert set(found.awaiting_approval) == {"summary"}
    assert threshold_for(text_workspace, "summary", "a").value == 1.01
    apply_threshold(text_workspace, found.awaiting_approval["summary"], "user:bo")
    assert threshold_for(text_workspace, "summary", "a").value == 0.9


@pytest.mark.parametrize("target", [{"alpha": 0.3, "delta": 0.5}, {"alpha": 0.06}, {"delta": 0.11}])
def test_a_laxer_target_than_the_settings_takes_a_second_person(
    text_workspace: Workspace, target: dict[str, float]
) -> None:
    put(text_workspace, 100)
    found = calibrate(text_workspace, **target)  # type: ignore[arg-type]
    assert set(found.awaiting_approval) == {GLOBAL, "summary"}
    assert threshold_for(text_workspace, "summary", "a").status == "default"


def test_nobody_ends_an_alarm_alone_with_a_laxer_target(text_workspace: Workspace) -> None:
    put(text_workspace, 100)
    assert calibrate(text_workspace).status == "certified"
    put(text_workspace, 30, errors=30)
    for _ in range(30):
        drift.observe(text_workspace, "summary", False)
    found = calibrate(text_workspace, by="user:bob", alpha=0.3, delta=0.5)
    assert (found.recommended_threshold, set(found.awaiting_approval)) == (0.9, {GLOBAL, "summary"})
    assert threshold_for(text_workspace, "summary", "a").status == "drift"


@pytest.mark.parametrize("before", [0, 4], ids=["a new alarm", "more of the same"])
def test_what_speaks_for_drift_ends_the_thresholds_that_wait(cautious: Workspace, before: int) -> None:
    put(cautious, 60, confidence=0.7)
    for _ in range(before):
        drift.observe(cautious, "other", False)
    waiting = calibrate(cautious, by="user:bob").awaiting_approval
    drift.observe(cautious, "other", True)
    assert set(awaiting(cautious)) == set(waiting.values())
    for _ in range(5):
        drift.observe(cautious, "other", False)
    assert awaiting(cautious) == {}
    with pytest.raises(HiveError, match="does not wait"):
        apply_threshold(cautious, waiting["summary"], "user:dana")


def test_an_alarm_that_is_younger_than_the_calibration_refuses_it(cautious: Workspace) -> None:
    put(cautious, 60, confidence=0.7)
    number = calibrate(cautious, by="user:bob", now=NOW).awaiting_approval["summary"]
    with connected(cautious.records) as connection:
        connection.execute(
            "INSERT INTO drift (goal_type, e_value, alarmed_at) VALUES ('summary', 2500.0, '2026-02-01T00:00:01+00:00')"
        )
    assert number not in awaiting(cautious)
    with pytest.raises(HiveError, match="does not wait"):
        apply_threshold(cautious, number, "user:dana")
    assert threshold_for(cautious, "summary", "a", now=NOW).status == "drift"


@pytest.mark.parametrize("target", [{"alpha": 0.0}, {"alpha": 1.0}, {"delta": 0.0}, {"alpha": float("nan")}])
def test_a_target_that_no_number_of_audits_reaches_is_refused(
    text_workspace: Workspace, target: dict[str, float]
) -> None:
    with pytest.raises(HiveError, match="HIVE-409"):
        calibrate(text_workspace, **target)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="between 0 and 1"):
        minimum_n(0, **target)


def test_the_recorded_log_is_certified(text_workspace: Workspace) -> None:
    load_recorded(text_workspace)
    found = calibrate(text_workspace, now=NOW)
    assert isinstance(found, CalibrationMetrics)
    assert (found.status, found.recommended_threshold) == ("certified", 0.75)
    assert found.retry_success_rate is not None
    assert sum(row.n for row in found.accept_accuracy_by_confidence) > 100


def certified(place: Workspace, goal_type: str, threshold: float, expires_at: str) -> None:
    """A certificate of somebody's making, below the default of 0.7."""
    certificate = json.dumps({"by": "user:local", "judge_hashes": {goal_type: "a"}})
    row = ("2026-01-01T00:00:00+00:00", goal_type, "certified", threshold, "a", expires_at, certificate)
    with connected(place.records) as connection:
        connection.execute(
            "INSERT INTO calibrations (at, goal_type, status, threshold, judge_hash, expires_at, certificate)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            row,
        )


def test_an_expired_threshold_below_the_default_is_the_default(text_workspace: Workspace) -> None:
    certified(text_workspace, "summary", 0.55, "2026-01-31T00:00:00+00:00")
    assert threshold_for(text_workspace, "summary", now=NOW) == Threshold(0.7, "expired", "2026-01-31T00:00:00+00:00")
    certified(text_workspace, "summary", 0.55, "2027-01-31T00:00:00+00:00")
    assert threshold_for(text_workspace, "summary", now=NOW).value == 0.55


def test_what_other_types_show_takes_security_never_below_the_default(text_workspace: Workspace) -> None:
    certified(text_workspace, GLOBAL, 0.55, "2027-01-31T00:00:00+00:00")
    assert threshold_for(text_workspace, "summary", now=NOW).value == 0.55
    assert threshold_for(text_workspace, "security", now=NOW).value == 0.7


def test_security_follows_the_others_where_its_own_certificate_is_lower(text_workspace: Workspace) -> None:
    certified(text_workspace, GLOBAL, 0.9, "2027-01-31T00:00:00+00:00")
    certified(text_workspace, "security", 0.75, "2027-01-31T00:00:00+00:00")
    assert threshold_for(text_workspace, "security", now=NOW).value == 0.9


def test_a_type_with_fewer_than_forty_five_labels_is_certified_by_no_laxer_target(text_workspace: Workspace) -> None:
    put(text_workspace, 100)
    put(text_workspace, 44, goal_type="memo")
    put(text_workspace, 45, goal_type="letter")
    assert set(calibrate(text_workspace, alpha=0.3, delta=0.5).awaiting_approval) == {GLOBAL, "summary", "letter"}


def test_what_is_drawn_for_security_alone_says_nothing_of_all_types(text_workspace: Workspace) -> None:
    put(text_workspace, 60, audit=2, goal_type="security")
    found = calibrate(text_workspace, now=NOW)
    assert (found.status, found.recommended_threshold) == ("undecided", None)
    assert found.threshold_by_goal_type == {"security": 0.9}


def test_what_all_types_show_lowers_none_that_was_certified_by_itself(text_workspace: Workspace) -> None:
    put(text_workspace, 45, confidence=0.95)
    calibrate(text_workspace, now=NOW)
    put(text_workspace, 1, judge_hash="b")
    put(text_workspace, 60, confidence=0.85, goal_type="memo")
    put(text_workspace, 1, goal_type="new")
    found = calibrate(text_workspace, now=NOW)
    assert found.recommended_threshold == 0.85
    assert found.threshold_by_goal_type == {"memo": 0.85, "new": 0.85, "summary": 0.95}


def test_an_alarm_that_rises_during_a_calibration_is_not_ended_by_it(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(text_workspace, 45)

    def late(*arguments: Any, **fields: Any) -> Any:
        alarm(text_workspace, "summary")
        return certify(*arguments, **fields)

    monkeypatch.setattr("hive_agents.judging.calibration.certify", late)
    assert set(calibrate(text_workspace).awaiting_approval) == {"summary"}
    assert threshold_for(text_workspace, "summary", "a").status == "drift"


def test_a_lax_alpha_gives_no_type_a_threshold_of_its_own_on_fewer_audits(text_workspace: Workspace) -> None:
    put(text_workspace, 30, goal_type="small")
    put(text_workspace, 20, goal_type="small", confidence=0.6, errors=20)
    put(text_workspace, 60, goal_type="large", confidence=0.95)
    put(text_workspace, 60, goal_type="large", errors=20)
    found = calibrate(text_workspace, alpha=0.1)
    assert found.recommended_threshold == 0.95
    assert found.threshold_by_goal_type["small"] == 0.95, "only 30 of its 50 audits reach 0.9"
