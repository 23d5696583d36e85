from __future__ import annotations

import json

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.judging.calibration import calibrate
from hive_agents.judging.certify import Stratum, certify
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.sequential import AGREE, DISAGREE, Evidence
from hive_agents.judging.stats import judge_stats
from tests.judging.recorded import FILE, load_recorded
from tests.sample import hive


def test_nothing_logged_gives_null_rates(text_workspace: Workspace) -> None:
    value = judge_stats(text_workspace)
    overall = value["overall"]
    assert (overall["n"], overall["escalation_rate"], overall["rule_match_rate"]) == (0, None, None)
    assert overall["agreement"] == {"n": 0, "k": 0, "rate": None, "lower95": None}
    assert (value["by_goal_type"], value["over_time"], value["weights"]) == ({}, [], {})


def test_the_recorded_log_adds_up(text_workspace: Workspace) -> None:
    load_recorded(text_workspace)
    lines = [json.loads(line) for line in FILE.read_text().splitlines()]
    value = judge_stats(text_workspace)
    overall = value["overall"]
    assert set(value) == {"window", "overall", "by_goal_type", "over_time", "thresholds", "warnings", "weights"}
    assert overall["n"] == len(lines) == 900
    escalated = sum(line["judgment"]["action"] == "escalate" for line in lines)
    assert overall["escalation_rate"] == escalated / 900
    assert overall["rule_match_rate"] == sum("rule_id" in line["judgment"] for line in lines) / 900
    assert overall["llm_calls"] == sum(row["n"] for row in overall["confidence_histogram"])
    assert sum(row["n"] for row in value["by_goal_type"].values()) == 900
    assert sum(row["n"] for row in value["over_time"]) == 900
    assert overall["agreement"]["lower95"] < overall["agreement"]["rate"]
    json.dumps(value)


def test_a_window_narrows_everything(text_workspace: Workspace) -> None:
    load_recorded(text_workspace)
    value = judge_stats(text_workspace, since="2026-01-10", until="2026-01-12")
    assert [day["day"] for day in value["over_time"]] == ["2026-01-10", "2026-01-11"]
    assert value["window"] == {"from": "2026-01-10", "to": "2026-01-12"}
    assert (
        judge_stats(text_workspace, since="2026-01-10T01:00+01:00", until="2026-01-12")["overall"] == value["overall"]
    )


def test_what_is_no_time_is_refused(text_workspace: Workspace) -> None:
    for bound in ("--since", "--until"):
        ran = hive("judge", "stats", bound, "garbage", "-w", text_workspace.root, "--json")
        assert (ran.code, ran.codes) == (2, {"HIVE-409"})


def test_an_error_level_is_shared_by_the_strata_that_it_is_promised_for() -> None:
    """Each of two strata has half of it: what suffices for one alone suffices for neither."""

    def strata(n: int, count: int) -> list[Stratum]:
        values = np.full(n, 0.9)
        return [Stratum(values, values, np.ones(n, dtype=bool)) for _ in range(count)]

    assert certify(strata(45, 1), alpha=0.05, delta=0.10).threshold == 0.9
    assert certify(strata(45, 2), alpha=0.05, delta=0.10).threshold is None
    assert certify(strata(58, 2), alpha=0.05, delta=0.10).threshold is None
    assert certify(strata(59, 2), alpha=0.05, delta=0.10).threshold == 0.9


def test_one_disagreement_is_one_disagreement() -> None:
    clean = rule = Evidence()
    for number in range(40):
        clean, rule = clean.observed(True), rule.observed(number != 20)
    assert (clean.passes("escalate"), rule.passes("escalate")) == (True, False)
    assert (rule.n, rule.k) == (40, 39)
    assert rule.llr == pytest.approx(39 * AGREE + DISAGREE)
    assert sum(rule.drift) > sum(clean.drift)


def test_labels_that_are_no_evidence_are_counted_and_explained(text_workspace: Workspace) -> None:
    """Where most labels don't count, whoever gave them hears why, from the measures and from the calibration."""
    signal = {"source": "llm", "action": "accept", "confidence": 0.9}
    accepted = {"action": "accept", "confidence": 0.9, "signals": [signal]}
    unsure = {"action": "escalate", "confidence": 0.4, "escalation_reason": "low_confidence", "signals": [signal]}
    matched = {"action": "escalate", "confidence": 1.0, "escalation_reason": "rule_escalate", "rule_id": "r"}
    panel = {"action": "escalate", "confidence": 0.9, "escalation_reason": "panel_disagreement", "signals": [signal]}
    lines = [
        *[(accepted, {"audit": 0}, False)] * 5,
        (accepted, {"audit": 1}, False),
        *[(accepted, {"audit": 1}, True)] * 3,
        (unsure, {}, False),
        *[(matched, {}, False)] * 2,
        (panel, {}, False),
    ]
    base = {"at": "2026-01-01T00:00:00+00:00", "goal_type": "claims", "judge_hash": "a", "result": {}}
    log = DecisionLog(text_workspace)
    for judgment, more, blind in lines:
        label = {"action": "accept", "by": "user:amira", "at": "2026-01-02", "blind": blind}
        log.load([json.dumps({**base, **more, "judgment": judgment, "labels": [label]})])
    told = [
        "5 labels were no audits: of what the judge decided alone only decisions count that were drawn at random, which"
        " `hive judge audit` lists",
        "1 label of drawn decisions wasn't blind: `hive judge audit ID --action …` enters those that are",
    ]
    value = judge_stats(text_workspace)
    assert value["overall"]["agreement"]["n"] == 3
    assert value["warnings"] == told
    fixed = "3 labels of what no confidence decided: a rule, a constraint, a fault"
    assert calibrate(text_workspace).warnings == [*told, fixed]
    log.load([json.dumps({**base, "judge_hash": "b", "audit": 1, "judgment": accepted})])
    past = "11 labels of decisions under another model, prompt or rubric"
    assert past in calibrate(text_workspace).warnings
    shown = hive("judge", "stats", "-w", text_workspace.root)
    assert "5 labels were no audits" in shown.out.replace("\n", " ")


def test_where_every_label_counts_nothing_is_said(text_workspace: Workspace) -> None:
    load_recorded(text_workspace)
    assert judge_stats(text_workspace)["warnings"] == []
