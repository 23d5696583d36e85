"""What approving a threshold or a rule does: once, also where a process died in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hive_agents import Judgment, Runtime, Workspace
from hive_agents.access import Principal
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.base.errors import HiveError
from hive_agents.host.decisions import decide, finish
from hive_agents.judging.calibration import calibrate
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.labels import enter
from hive_agents.judging.learning.stages import LearnedRule, RuleBook
from hive_agents.judging.requests import ask_for_rule, ask_for_thresholds
from hive_agents.judging.thresholds import Threshold, awaiting, threshold_for
from hive_agents.runs import AGENT_GRAPH, RunStore
from hive_agents.store import audit
from tests.judging.test_calibration import put
from tests.judging.test_drift import alarm
from tests.judging.test_stages import MINER, proposal


def asked(workspace: Workspace, by: str = "user:amira") -> str:
    return ask_for_thresholds(workspace, calibrate(workspace, by=by), by)


def value(workspace: Workspace) -> Threshold:
    return threshold_for(workspace, "summary")


@pytest.fixture
def lower(cautious: Workspace) -> Workspace:
    """A workspace in which a calibration would lower the threshold from 0.8 to 0.75."""
    put(cautious, 60, confidence=0.75)
    return cautious


def test_approving_a_threshold_puts_it_in_force_once(lower: Workspace) -> None:
    request = asked(lower)
    with pytest.raises(HiveError, match="four eyes"):
        decide(lower, request, "approve", by="amira")
    for _ in range(2):
        decide(lower, request, "approve", by="bo")
    assert (value(lower).value, value(lower).status) == (0.75, "certified")
    assert ApprovalStore(lower).get(request).outcome == {"thresholds": {"*": 0.75, "summary": 0.75}}
    assert [entry["by"] for entry in audit.entries(lower, "judge.threshold")] == ["user:bo", "user:bo"]


def test_rejecting_a_threshold_leaves_the_old_one(lower: Workspace) -> None:
    decide(lower, asked(lower), "reject", by="bo")
    assert (value(lower), awaiting(lower)) == (Threshold(0.8, "default"), {})


def test_a_threshold_that_was_calibrated_again_can_not_be_approved(lower: Workspace) -> None:
    first, second = asked(lower), asked(lower)
    assert ApprovalStore(lower).get(first).status == "superseded"
    calibrate(lower)
    with pytest.raises(HiveError, match="HIVE-416"):
        decide(lower, second, "approve", by="bo")
    assert value(lower).status == "default"


def test_a_request_that_a_drift_alarm_overtook_clears_no_alarm(lower: Workspace) -> None:
    request = asked(lower, "user:bob")
    put(lower, 4, labels=[])
    found = None
    for row in DecisionLog(lower).rows()[-4:]:
        found = enter(lower, row.id, "retry", "user:eve", blind=True)
    assert found is not None
    assert found.alarmed
    with pytest.raises(HiveError, match="HIVE-416"):
        decide(lower, request, "approve", by="dana")
    assert (value(lower), ApprovalStore(lower).get(request).status) == (Threshold(1.01, "drift"), "superseded")


def test_an_alarm_ends_when_a_second_person_agrees(lower: Workspace) -> None:
    alarm(lower, "summary")
    decide(lower, asked(lower, "user:bob"), "approve", by="dana")
    assert (value(lower).value, value(lower).status) == (0.75, "certified")


def test_a_process_that_died_after_the_decision_is_finished_by_the_next(lower: Workspace) -> None:
    store, request = ApprovalStore(lower), asked(lower)
    store.decide(request, "approve", by="bo")
    assert value(lower).status == "default"
    assert finish(lower) == []
    assert (value(lower).value, finish(lower)) == (0.75, [])
    assert store.get(request).outcome is not None


def test_a_process_that_died_after_the_effect_does_it_no_second_time(
    lower: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(lower)

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ApprovalStore, "record_outcome", die)
        with pytest.raises(KeyboardInterrupt):
            decide(lower, request, "approve", by="bo")
    assert finish(lower) == []
    assert len(list(audit.entries(lower, "judge.threshold"))) == 2
    assert ApprovalStore(lower).get(request).outcome == {"thresholds": {"*": 0.75, "summary": 0.75}}


def proposed(workspace: Workspace, goal_type: str = "code") -> LearnedRule:
    return RuleBook(workspace).propose(proposal(goal_type=goal_type), MINER)


def test_approving_a_rule_lets_it_into_the_shadow(text_workspace: Workspace) -> None:
    rule = proposed(text_workspace)
    request = ask_for_rule(text_workspace, rule)
    decide(text_workspace, request.id, "approve", by="bo")
    assert RuleBook(text_workspace).get(rule.id).stage == "shadow"
    assert ask_for_rule(text_workspace, rule).outcome == {"rule": rule.id, "stage": "shadow"}


def test_a_rule_whose_request_was_closed_unanswered_is_asked_for_again(text_workspace: Workspace) -> None:
    rule = proposed(text_workspace)
    first = ask_for_rule(text_workspace, rule).id
    assert ask_for_rule(text_workspace, rule).id == first
    ApprovalStore(text_workspace).supersede(first, "expired")
    again = ask_for_rule(text_workspace, rule)
    assert (again.id != first, again.status) == (True, "pending")


def test_a_security_rule_takes_two_people_and_rejecting_ends_it(text_workspace: Workspace) -> None:
    rule = proposed(text_workspace, "security")
    request = ask_for_rule(text_workspace, rule).id
    decide(text_workspace, request, "approve", by="bo")
    assert RuleBook(text_workspace).get(rule.id).stage == "proposed"
    decide(text_workspace, request, "approve", by="chen")
    found = RuleBook(text_workspace).get(rule.id)
    assert (found.stage, found.approved_by) == ("shadow", ("user:bo", "user:chen"))
    other = proposed(text_workspace)
    decide(text_workspace, ask_for_rule(text_workspace, other).id, "reject", by="bo", reason="too wide")
    ended = RuleBook(text_workspace).get(other.id)
    assert (ended.stage, ended.steps[-1]["reason"]) == ("retired", "too wide")


def test_a_rule_that_was_retired_meanwhile_can_not_be_approved(text_workspace: Workspace) -> None:
    rule = proposed(text_workspace)
    request = ask_for_rule(text_workspace, rule).id
    RuleBook(text_workspace).retire(rule.id, "user:dee")
    with pytest.raises(HiveError, match="is retired"):
        decide(text_workspace, request, "approve", by="bo")


@pytest.mark.parametrize("kind", ["rule", "threshold", "judgment"])
def test_requests_of_others_of_these_kinds_are_decided_without_an_effect(text_workspace: Workspace, kind: Any) -> None:
    store = ApprovalStore(text_workspace)
    request = store.file(Filing(kind=kind, title="?", requester="user:a", context={"rule_id": "by_hand"})).id
    assert decide(text_workspace, request, "approve", by="bo")[0].status == "approved"
    unknown = store.file(Filing(kind="judgment", title="?", requester="user:a", context={"decision_id": 99})).id
    found, _ = decide(text_workspace, unknown, "approve", by="bo")
    assert found.outcome == {"refused": "there is no decision 99"}
    assert finish(Workspace(Path(text_workspace.root))) == []


def test_one_request_for_a_question_is_enough(text_workspace: Workspace) -> None:
    dana = Principal("acme", "dana")
    row, _ = RunStore(text_workspace).insert(AGENT_GRAPH, {}, owner=dana)
    runtime = Runtime(text_workspace, tenant="acme", run_id=row.run_id)
    unsure = Judgment(action="escalate", confidence=0.4, reasoning="", escalation_reason="low_confidence")
    filed = [
        runtime.file_judgment(runtime.log_decision("answer", {"question": question}, unsure), title="check")
        for question in ("how long are buffers kept?", "how long  are buffers kept?", "where are buffers kept?")
    ]
    assert (filed[0] == filed[1], filed[0] == filed[2]) == (True, False)
    ApprovalStore(text_workspace).decide(filed[0], "approve", by="bo")
    again = runtime.log_decision("answer", {"question": "how long are buffers kept?"}, unsure)
    assert runtime.file_judgment(again) != filed[0]
