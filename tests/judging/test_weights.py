from __future__ import annotations

import json
import random

import numpy as np
import pytest

from hive_agents import HiveError, Runtime, Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.judging import judge_stats
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.weights import auc, calibration_error, fit_logistic, learn


def put(workspace: Workspace, n: int, goal_type: str, right: dict[str, float], seed: int = 1) -> None:
    """Decisions on which each source is right with its own probability."""
    rng = random.Random(seed)
    lines = []
    for _ in range(n):
        good = rng.random() < 0.5
        signals = [
            {"source": source, "action": "accept" if good == (rng.random() < share) else "retry", "confidence": 0.8}
            for source, share in right.items()
        ]
        label = {"action": "accept" if good else "retry", "by": "user:bo", "at": "2026-01-01", "blind": True}
        judgment = {"action": "escalate", "confidence": 0.5, "signals": signals}
        entry = {"at": "2026-01-01", "goal_type": goal_type, "judge_hash": "a", "judgment": judgment, "labels": [label]}
        lines.append(json.dumps(entry))
    DecisionLog(workspace).load(lines)


def test_the_source_that_knows_more_weighs_more_and_the_stack_is_kept(text_workspace: Workspace) -> None:
    put(text_workspace, 600, "summary", {"rule": 0.75, "llm": 0.85, "evidence": 0.5})
    found = learn(DecisionLog(text_workspace).rows())["*"]
    assert found.kept
    assert found.weights["llm"] > found.weights["rule"] > abs(found.weights["evidence"])
    assert found.brier is not None
    assert found.best_single is not None
    assert found.brier < found.best_single
    assert found.shown()["human"] == "overrides"


def test_too_few_labels_weigh_equally(text_workspace: Workspace) -> None:
    put(text_workspace, 29, "summary", {"rule": 0.9, "llm": 0.6})
    found = learn(DecisionLog(text_workspace).rows())["*"]
    assert (set(found.weights.values()), found.kept, found.brier) == ({1.0}, False, None)


def test_a_small_type_has_the_weights_of_all(text_workspace: Workspace) -> None:
    put(text_workspace, 500, "summary", {"rule": 0.75, "llm": 0.85})
    put(text_workspace, 20, "security", {"rule": 0.95, "llm": 0.5}, seed=2)
    found = learn(DecisionLog(text_workspace).rows())
    assert found["security"].weights == found["*"].weights


def test_a_large_type_goes_its_own_way_within_bounds(text_workspace: Workspace) -> None:
    for seed in range(20):
        put(text_workspace, 25, "summary", {"rule": 0.7, "llm": 0.85}, seed=seed)
        put(text_workspace, 25, "security", {"rule": 0.85, "llm": 0.7}, seed=100 + seed)
    found = learn(DecisionLog(text_workspace).rows())
    assert found["security"].weights["rule"] > found["*"].weights["rule"] > found["summary"].weights["rule"]


def test_the_fit_finds_the_coefficients_it_was_made_from() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(20_000, 2))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-(0.5 + x @ np.array([1.0, -2.0]))))).astype(float)
    assert fit_logistic(x, y) == pytest.approx([0.5, 1.0, -2.0], abs=0.08)


def test_measures_of_probabilities() -> None:
    p, y = np.array([0.9, 0.8, 0.3, 0.3]), np.array([1.0, 1.0, 0.0, 1.0])
    assert auc(p, y) == pytest.approx(2.5 / 3)
    assert auc(p, np.ones(4)) is None
    assert calibration_error(p, y) == pytest.approx(0.25 * 0.1 + 0.25 * 0.2 + 0.5 * 0.2)


def test_weights_that_are_set_are_seen_and_order_what_a_person_is_shown(text_workspace: Workspace) -> None:
    with (text_workspace.root / "hive.toml").open("a") as settings:
        settings.write('[judge.weights]\nSecurity = {rule = 1, evidence = 3}\n')
    place = Workspace(text_workspace.root)
    put(place, 40, "summary", {"rule": 0.75, "llm": 0.85})
    put(place, 1, "security", {"rule": 1.0, "llm": 1.0, "evidence": 1.0})
    shown = judge_stats(place)["weights"]
    assert shown["security"] == {"rule": 0.25, "llm": 0.0, "evidence": 0.75, "human": "overrides", "set": True}
    assert "set" not in shown["summary"]
    request = ApprovalStore(place).get(Runtime(place).file_judgment(41))
    assert [signal["source"] for signal in request.signals] == ["evidence", "rule", "llm"]
    with (place.root / "hive.toml").open("a") as settings:
        settings.write('summary = {human = 1}\n')
    with pytest.raises(HiveError, match=r"judge\.weights\.summary"):
        judge_stats(Workspace(place.root))
