"""A goal type is one type, however it is written: rules, thresholds, drift and audits follow it."""

from __future__ import annotations

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.goals.goals import Goal
from hive_agents.judging.calibration import calibrate
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.hybrid import HybridJudge
from hive_agents.judging.learning.stages import RuleBook
from hive_agents.judging.rules import EvaluationRule
from hive_agents.judging.thresholds import threshold_for
from hive_agents.judging.verdict import JudgmentAction
from tests.judging.test_calibration import put
from tests.judging.test_decision_log import accepted
from tests.judging.test_drift import alarm
from tests.judging.test_hybrid import rule, says
from tests.judging.test_stages import MINER, proposal

ESCALATE = JudgmentAction.ESCALATE
FORMS = ["Security", " security ", "SECURITY\n", "ｓecurity"]


@pytest.mark.parametrize("form", FORMS)
async def test_rules_thresholds_and_holds_of_a_type_hold(form: str) -> None:
    goal = Goal(id="g", name="G", goal_type=form)
    for judge in (
        HybridJudge([rule(action=ESCALATE, goal_types=["security"])], says()),
        HybridJudge([rule(condition="goal['goal_type'] == 'security'", action=ESCALATE)], says()),
        HybridJudge(llm=says(), thresholds={"security": 0.95}),
        HybridJudge(llm=says(), holds={"security": "drift"}),
    ):
        assert (await judge.evaluate(goal, {})).action is ESCALATE
    plain = Goal(id="g", name="G", goal_type="security")
    for judge in (
        HybridJudge([rule(action=ESCALATE, goal_types=[form])], says()),
        HybridJudge(llm=says(), thresholds={form: 0.95, "security": 0.2}),
        HybridJudge(llm=says(), holds={form: "drift"}),
    ):
        assert (await judge.evaluate(plain, {})).action is ESCALATE


@pytest.mark.parametrize("form", FORMS)
def test_a_security_rule_is_one(form: str) -> None:
    assert rule(goal_types=[form]).tier == rule(metadata={"tier": form}).tier == 0
    assert rule(goal_types=["security"]).matches({}, {"goal_type": form})
    assert rule(goal_types=["security"]).applies_to(form)


def test_a_rule_for_a_type_without_a_name_is_refused() -> None:
    with pytest.raises(HiveError, match="HIVE-105"):
        EvaluationRule(id="r", condition="True", action="accept", goal_types=[" "])


@pytest.mark.parametrize("form", FORMS)
def test_what_is_logged_learned_and_watched_is_of_the_same_type(text_workspace: Workspace, form: str) -> None:
    log = DecisionLog(text_workspace)
    log.log(accepted(), form, None, {}, None, "a")
    assert [row.goal_type for row in log.rows(goal_type=form)] == ["security"]
    alarm(text_workspace, form)
    assert threshold_for(text_workspace, form).status == threshold_for(text_workspace, "security").status == "drift"
    assert RuleBook(text_workspace).propose(proposal(goal_type=form), MINER).approvers == 2


def test_a_threshold_is_learned_of_all_forms_of_a_type(text_workspace: Workspace) -> None:
    put(text_workspace, 25, goal_type="Summary")
    put(text_workspace, 25, goal_type="summary")
    assert calibrate(text_workspace).threshold_by_goal_type == {"summary": 0.9}
