from __future__ import annotations

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.judging import audits
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.drift import states
from hive_agents.judging.labels import enter
from tests.judging.test_calibration import put


def test_one_decision_is_one_observation_of_the_judge(text_workspace: Workspace) -> None:
    put(text_workspace, 1, labels=[])
    assert enter(text_workspace, 1, "retry", "user:a").e_value == 0.0  # not blind: no evidence
    first = enter(text_workspace, 1, "retry", "user:b", blind=True)
    assert first.e_value > 4
    assert enter(text_workspace, 1, "retry", "user:c", blind=True) == states(text_workspace)["summary"] == first


def test_an_automatic_decision_that_was_not_drawn_is_no_evidence(text_workspace: Workspace) -> None:
    put(text_workspace, 1, labels=[], audit=0)
    assert enter(text_workspace, 1, "retry", "user:a", blind=True).e_value == 0.0
    assert DecisionLog(text_workspace).get(1).human_action() == "retry"


def test_a_persons_second_label_in_a_recorded_log_is_none(text_workspace: Workspace) -> None:
    label = {"at": "2026-01-02", "blind": True}
    names = [("retry", "user:amira"), ("accept", "user:bo"), ("retry", "user:Amira"), ("retry", "USER:AMIRA")]
    put(text_workspace, 1, labels=[{**label, "action": action, "by": by} for action, by in names])
    row = DecisionLog(text_workspace).get(1)
    assert (len(row.labels), row.human_action()) == (2, None)


def test_whoever_made_a_token_is_behind_the_label_that_was_given_by_it(text_workspace: Workspace) -> None:
    """Two that agree are two people; the owner's signature is no link between them."""
    put(text_workspace, 2, labels=[])
    audits.answer(text_workspace, 1, "accept", "user:amira", makers=["user:lee", "owner:ann"])
    for by, makers in [("user:bo", ["user:lee"]), ("user:lee", []), ("user:bo", ["user:amira"])]:
        with pytest.raises(HiveError, match="labelled decision 1 before"):
            audits.answer(text_workspace, 1, "accept", by, makers=makers)
    audits.answer(text_workspace, 1, "accept", "user:bo", makers=["owner:ann"])
    assert [label.makers for label in DecisionLog(text_workspace).get(1).labels] == [("user:lee",), ()]


def test_a_person_is_one_person_however_they_are_named(text_workspace: Workspace) -> None:
    put(text_workspace, 1, labels=[])
    enter(text_workspace, 1, "RETRY", "amira")
    with pytest.raises(HiveError, match="labelled decision 1 before"):
        enter(text_workspace, 1, "accept", "user:amira")
    with pytest.raises(HiveError, match="labelled decision 1 before"):
        enter(text_workspace, 1, "accept", "Amira", blind=True)
    assert [item.id for item in audits.queue(text_workspace, by="user:AMIRA")] == []
    with pytest.raises(HiveError, match="no person"):
        enter(text_workspace, 1, "accept", "service:judge")
