from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.judging import audits
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.verdict import Judgment, JudgmentAction, Signal
from hive_agents.store import connected
from tests.judging.recorded import load_recorded


def accepted(confidence: float = 0.9) -> Judgment:
    signal = Signal(source="llm", action=JudgmentAction.ACCEPT, confidence=confidence)
    return Judgment(action=JudgmentAction.ACCEPT, confidence=confidence, reasoning="complete", signals=[signal])


def unsure() -> Judgment:
    signal = Signal(source="llm", action=JudgmentAction.ACCEPT, confidence=0.4)
    return Judgment(
        action=JudgmentAction.ESCALATE,
        confidence=0.4,
        reasoning="unsure",
        escalation_reason="low_confidence",
        signals=[signal],
    )


def logged(log: DecisionLog, judgment: Judgment, goal_type: str = "summary", **more: Any) -> int:
    return log.log(judgment, goal_type, "g1", {"text": "…"}, "r1", "judge-a", **more)


def test_a_decision_comes_back_as_it_was_logged(text_workspace: Workspace) -> None:
    log = DecisionLog(text_workspace)
    usage = SimpleNamespace(input_tokens=10, output_tokens=5, usd=0.01)
    number = logged(log, accepted(), usage=usage)
    (row,) = log.rows()
    assert (row.id, row.action, row.confidence, row.source, row.llm_calls) == (number, "accept", 0.9, "llm", 1)
    assert (row.input_tokens, row.output_tokens, row.usd) == (10, 5, 0.01)
    assert (row.proposal, row.result, row.labels) == (("accept", 0.9), {"text": "…"}, ())


def test_an_escalation_keeps_what_the_evaluator_had_proposed(text_workspace: Workspace) -> None:
    log = DecisionLog(text_workspace)
    logged(log, unsure())
    (row,) = log.rows()
    assert (row.automatic, row.proposal, row.escalation_reason) == (False, ("accept", 0.4), "low_confidence")


def test_a_rule_decides_without_a_proposal(text_workspace: Workspace) -> None:
    log = DecisionLog(text_workspace)
    logged(log, Judgment(action=JudgmentAction.RETRY, confidence=1.0, reasoning="rule", rule_id="tests_pass"))
    (row,) = log.rows()
    assert (row.source, row.rule_id, row.llm_calls, row.proposal) == ("rule", "tests_pass", 0, None)


def test_the_majority_of_reviewers_decides_and_a_tie_is_nothing(text_workspace: Workspace) -> None:
    log = DecisionLog(text_workspace)
    number = logged(log, unsure())
    for person, action in (("a", "retry"), ("b", "accept")):
        log.label(number, action, person)
    assert log.get(number).human_action() is None
    log.label(number, "retry", "c")
    assert log.get(number).human_action() == "retry"
    assert log.get(number).human_action(blind=True) is None


def test_a_person_labels_once(text_workspace: Workspace) -> None:
    log = DecisionLog(text_workspace)
    number = logged(log, unsure())
    log.label(number, "retry", "a")
    with pytest.raises(HiveError, match="before"):
        log.label(number, "accept", "a")
    assert [label.action for label in log.get(number).labels] == ["retry"]


def test_unknown_decisions_actions_and_outcomes_are_refused(text_workspace: Workspace) -> None:
    log = DecisionLog(text_workspace)
    number = logged(log, accepted())
    for call in (
        lambda: log.label(99, "accept", "a"),
        lambda: log.label(number, "maybe", "a"),
        lambda: log.outcome(99, "failed"),
        lambda: log.outcome(number, "fine"),
    ):
        with pytest.raises(HiveError, match="HIVE-409"):
            call()
    log.outcome(number, "failed")
    assert log.get(number).outcome == "failed"


def test_about_one_automatic_decision_in_twenty_is_drawn_and_two_for_security(text_workspace: Workspace) -> None:
    log = DecisionLog(text_workspace)
    n = 8_000
    shares = {kind: sum(log._drawn(number, kind) > 0 for number in range(n)) / n for kind in ("summary", "security")}
    assert shares["summary"] == pytest.approx(0.05, abs=0.01)
    assert shares["security"] == pytest.approx(0.10, abs=0.014)


def test_the_draw_is_secret_to_a_workspace_and_lasts(tmp_path: Path) -> None:
    from tests.conftest import make_workspace

    first, second = (make_workspace(tmp_path / name, embedding=False) for name in ("a", "b"))
    draws = [[DecisionLog(place)._drawn(i, "summary") for i in range(500)] for place in (first, second, first)]
    assert draws[0] == draws[2] != draws[1]
    assert (first.state / "judge-audit.salt").stat().st_mode & 0o777 == 0o600


def test_an_escalation_is_never_drawn(text_workspace: Workspace) -> None:
    log = DecisionLog(text_workspace)
    for _ in range(40):
        logged(log, unsure(), goal_type="security")
    assert not any(row.audit for row in log.rows())


def test_an_auditor_sees_the_work_and_nothing_of_the_verdict(text_workspace: Workspace) -> None:
    load_recorded(text_workspace)
    log = DecisionLog(text_workspace)
    fresh = next(row for row in log.rows() if row.automatic and not row.audit)
    with pytest.raises(HiveError, match="HIVE-409"):
        audits.answer(text_workspace, fresh.id, "accept", "user:dee")
    item = audits.queue(text_workspace, by="user:dee")[0]
    assert set(item.to_json()) == {"id", "at", "tenant", "goal_type", "goal_id", "run_id", "result"}
    done = audits.answer(text_workspace, item.id, "accept", "user:dee")
    assert done.agrees == (log.get(item.id).action == "accept")
    assert log.get(item.id).labels[-1].blind
    assert item.id not in {left.id for left in audits.queue(text_workspace, by="user:dee")}


def test_a_huge_result_is_cut(text_workspace: Workspace) -> None:
    log = DecisionLog(text_workspace)
    log.log(accepted(), "summary", None, {"text": "x" * 1_000_000}, None, "judge-a")
    assert len(log.rows()[0].result["cut"]) == 65_536


def test_rows_can_be_narrowed(text_workspace: Workspace) -> None:
    assert load_recorded(text_workspace) == 900
    log = DecisionLog(text_workspace)
    rows = log.rows(goal_type="security", since="2026-01-10", until="2026-01-12")
    assert rows
    assert {row.goal_type for row in rows} == {"security"}
    assert {row.at[:10] for row in rows} == {"2026-01-10", "2026-01-11"}


def test_old_decisions_go_and_what_proves_something_stays(text_workspace: Workspace) -> None:
    with (text_workspace.root / "hive.toml").open("a", encoding="utf-8") as file:
        file.write("[judge]\naudit_rate = 0.0\n")
    log = DecisionLog(Workspace(text_workspace.root))
    gone, labelled, followed, drawn = (logged(log, accepted()) for _ in range(4))
    asked = logged(log, unsure())
    log.label(labelled, "accept", by="dana")
    log.outcome(followed, "succeeded")
    with connected(text_workspace.records) as connection:
        connection.execute("UPDATE judge_decisions SET audit = 1 WHERE id = ?", (drawn,))
    now = dt.datetime.now(dt.UTC)
    assert log.prune(now - dt.timedelta(days=1)) == 0
    assert log.prune(now + dt.timedelta(days=1)) == 1
    assert [row.id for row in log.rows()] == [labelled, followed, drawn, asked]
    assert gone not in {row.id for row in log.rows()}
