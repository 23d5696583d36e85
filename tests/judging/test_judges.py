"""`Runtime`: judges wired with what the workspace has learned, decisions logged, people's verdicts fed back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import EvaluationRule, Goal, Judgment, JudgmentAction, Runtime, Workspace
from hive_agents.access import Principal, Standing
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.host.decisions import decide
from hive_agents.judging.calibration import calibrate
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.evaluators import ModelEvaluator
from hive_agents.judging.learning.mining import mine
from hive_agents.judging.learning.stages import RuleBook
from hive_agents.judging.requests import ask_for_thresholds
from hive_agents.models import Script
from hive_agents.models.scripted import ScriptedModel
from hive_agents.runs import CHAT_GRAPH, RunStore
from tests.judging.test_calibration import put
from tests.judging.test_drift import alarm
from tests.judging.test_stages import MINER, agree, proposal

ACCEPT, RETRY, REPLAN, ESCALATE = JudgmentAction
GOAL = Goal(id="g", name="G", goal_type="code")
EVAL, PLAIN = {"code": "eval(x)"}, {"code": "x"}


def says(action: JudgmentAction = ACCEPT, confidence: float = 0.9) -> Any:
    async def evaluate(*_: Any) -> Judgment:
        return Judgment(action=action, confidence=confidence, reasoning="so")

    return evaluate


def in_shadow(workspace: Workspace) -> str:
    book = RuleBook(workspace)
    return book.approve(book.propose(proposal(), MINER).id, "user:a").id


def row(workspace: Workspace, number: int | None) -> Any:
    assert number is not None
    return DecisionLog(workspace).get(number)


async def test_a_judgement_is_logged_with_all_that_led_to_it(text_workspace: Workspace) -> None:
    runtime = Runtime(text_workspace, tenant="acme", run_id="r1")
    judgment = await runtime.evaluate(GOAL, PLAIN, llm=says())
    found = row(text_workspace, judgment.decision_id)
    assert (judgment.action, found.action, found.confidence, found.source) == (ACCEPT, "accept", 0.9, "llm")
    assert (found.tenant, found.run_id, found.goal_id, found.goal_type) == ("acme", "r1", "g", "code")
    assert (found.result, found.judge_hash) == (PLAIN, runtime.judge(llm=says()).fingerprint)
    assert found.judgment["options"] == ["accept", "retry", "replan", "escalate"]
    assert found.judgment["signals"][0]["action"] == "accept"
    assert runtime.log_decision(GOAL, PLAIN, judgment) == judgment.decision_id


def test_it_works_without_a_loop_and_without_a_goal_type(text_workspace: Workspace, tmp_path: Path) -> None:
    runtime = Runtime(str(text_workspace.root))
    judgment = Judgment(action=RETRY, confidence=0.8, reasoning="incomplete")
    number = runtime.log_decision(Goal(id="g", name="G"), PLAIN, judgment, options=["accept", "retry"], judge="j1")
    runtime.record_human(number, "retry", "user:amira", comment="yes")
    runtime.record_outcome(number, "succeeded")
    found = row(text_workspace, number)
    assert (found.goal_type, found.judge_hash, found.outcome) == ("untyped", "j1", "succeeded")
    assert [(label.action, label.by, label.blind, label.comment) for label in found.labels] == [
        ("retry", "user:amira", False, "yes")
    ]
    for late in (
        lambda: runtime.record_human(judgment.decision_id, "retry", "user:amira"),
        lambda: runtime.record_outcome(judgment.decision_id, "failed"),
        lambda: runtime.file_judgment(judgment.decision_id),
    ):
        with pytest.raises(HiveError, match="never logged"):
            late()
    with pytest.raises(HiveError, match="HIVE-410"):
        Runtime(tmp_path)


def test_escalations_of_a_run_that_nobody_named_are_mined_one_by_one(text_workspace: Workspace) -> None:
    runtime = Runtime(text_workspace)
    for _ in range(12):
        doubtful = Judgment(action=ESCALATE, confidence=0.3, reasoning="?", escalation_reason="low_confidence")
        number = runtime.log_decision("code", EVAL, doubtful)
        for person in ("user:a", "user:b"):
            runtime.record_human(number, "retry", person)
    proposed = mine(DecisionLog(text_workspace).rows())
    assert [(found.human_action, found.support) for found in proposed] == [("retry", 12)]


def test_a_verdict_without_signals_is_the_evaluators(text_workspace: Workspace) -> None:
    runtime = Runtime(text_workspace)
    number = runtime.log_decision("code", PLAIN, Judgment(action=RETRY, confidence=0.9, reasoning="incomplete"))
    runtime.record_outcome(number, "succeeded")
    assert row(text_workspace, number).proposal == ("retry", 0.9)
    found = calibrate(text_workspace).retry_success_rate
    assert found is not None
    assert (found.n, found.k, found.rate) == (1, 1, 1.0)


async def test_the_rules_of_the_workspace_judge_too(text_workspace: Workspace) -> None:
    folder = text_workspace.root / "rules"
    folder.mkdir()
    rule = {"id": "tests_fail", "condition": "result.get('tests') == 'failed'", "action": "retry"}
    (folder / "tests_fail.json").write_text(json.dumps(rule))
    runtime = Runtime(text_workspace)
    assert (await runtime.evaluate(GOAL, {"tests": "failed"}, llm=says())).rule_id == "tests_fail"
    with pytest.raises(HiveError, match="HIVE-111"):
        runtime.judge(GOAL, rules=[EvaluationRule(**rule)])


async def test_a_rule_file_that_breaks_after_the_work_began_asks_a_person(text_workspace: Workspace) -> None:
    folder = text_workspace.root / "rules"
    folder.mkdir()
    (folder / "broken.json").write_text('{"id": "broken", "condition": "result["')
    runtime = Runtime(text_workspace)
    judgment = await runtime.evaluate(GOAL, {"tests": "passed"}, llm=says())
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "rule_error")
    assert row(text_workspace, judgment.decision_id).escalation_reason == "rule_error"
    with pytest.raises(HiveError, match=r"rules/broken\.json"):
        runtime.judge(GOAL)


async def test_a_learned_rule_watches_then_acts_and_is_told_what_people_said(text_workspace: Workspace) -> None:
    rule, book = in_shadow(text_workspace), RuleBook(text_workspace)
    runtime = Runtime(text_workspace, run_id="r1")
    judgment = await runtime.evaluate(GOAL, EVAL, llm=says(confidence=0.2))
    assert (judgment.action, judgment.rule_id, judgment.tried) == (ESCALATE, None, {rule: True})
    await runtime.evaluate(GOAL, PLAIN, llm=says(confidence=0.2))
    assert judgment.decision_id is not None
    for person in ("user:a", "user:b"):
        runtime.record_human(judgment.decision_id, "retry", person)
    evidence = book.get(rule).evidence
    assert (evidence.checks, evidence.matches, evidence.n, evidence.k) == (2, 1, 1, 1)
    agree(text_workspace, rule, 34)
    for _ in range(2):
        agree(text_workspace, rule, 35)
    assert book.get(rule).stage == "100"
    judgment = await runtime.evaluate(GOAL, EVAL, llm=says())
    assert (judgment.action, judgment.rule_id, judgment.tried) == (RETRY, rule, {rule: True})
    assert row(text_workspace, judgment.decision_id).source == "rule"


async def test_who_complains_unasked_says_nothing_of_a_rule_that_acts(text_workspace: Workspace) -> None:
    """Only blind audits show how often automatic decisions are right."""
    rule, book = in_shadow(text_workspace), RuleBook(text_workspace)
    judgment = await Runtime(text_workspace).evaluate(GOAL, EVAL, llm=says())
    assert judgment.decision_id is not None
    Runtime(text_workspace).record_human(judgment.decision_id, "accept", "user:a")
    assert book.get(rule).evidence.n == 0


async def test_a_calibrated_threshold_holds_for_the_judge_that_it_was_learned_of(text_workspace: Workspace) -> None:
    runtime, sure = Runtime(text_workspace), says(confidence=0.9)
    put(text_workspace, 45, confidence=0.95, goal_type="code", judge_hash=runtime.judge(llm=sure).fingerprint)
    assert runtime.judge("code", llm=sure).threshold("code") == 0.7
    calibrate(text_workspace)
    assert runtime.judge("code", llm=sure).threshold("code") == 0.95
    assert (await runtime.evaluate(GOAL, PLAIN, llm=sure)).escalation_reason == "low_confidence"


async def test_a_certificate_of_another_judge_has_expired(cautious: Workspace) -> None:
    """A lower threshold that a person let in holds no more once model, prompt or rubric change."""
    script = cautious.root / "judge.jsonl"
    script.write_text("")
    judge = ModelEvaluator(ScriptedModel(Script(script, "judge")), workspace=cautious)
    put(cautious, 60, confidence=0.75, goal_type="code", judge_hash=judge.fingerprint)
    request = ask_for_thresholds(cautious, calibrate(cautious, by="user:amira"), "user:amira")
    decide(cautious, request, "approve", by="user:bo")
    assert Runtime(cautious).judge("code", llm=judge).threshold("code") == 0.75
    (cautious.root / "prompts").mkdir()
    (cautious.root / "prompts" / "judge.md").write_text("$goal $result $context $fence")
    assert Runtime(cautious).judge("code", llm=judge).threshold("code") == 0.8


async def test_a_drift_alarm_sends_its_type_to_a_person_and_no_other(text_workspace: Workspace) -> None:
    runtime = Runtime(text_workspace)
    alarm(text_workspace, "code")
    judgment = await runtime.evaluate(GOAL, PLAIN, llm=says(confidence=1.0))
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "drift")
    other = Goal(id="h", name="H", goal_type="summary")
    assert (await runtime.evaluate(other, PLAIN, llm=says())).action is ACCEPT
    assert (await runtime.evaluate(Goal(id="u", name="U"), PLAIN, llm=says())).action is ACCEPT


async def test_four_wrong_audits_hold_everything_of_the_type(text_workspace: Workspace) -> None:
    with (text_workspace.root / "hive.toml").open("a") as settings:
        settings.write("[judge]\naudit_rate = 1.0\n")
    runtime = Runtime(Workspace(text_workspace.root))
    for _ in range(4):
        judgment = await runtime.evaluate(GOAL, PLAIN, llm=says())
        assert judgment.decision_id is not None
        runtime.record_human(judgment.decision_id, "retry", "user:a", blind=True)
    assert (await runtime.evaluate(GOAL, PLAIN, llm=says())).escalation_reason == "drift"
    (ticket,) = ApprovalStore(text_workspace).list("pending")
    assert (ticket.kind, ticket.context["goal_type"]) == ("ticket", "code")


async def test_the_workspaces_own_model_judges_and_is_counted(text_workspace: Workspace) -> None:
    answer = {"structured": {"action": "accept", "confidence": 0.9, "reasoning": "ok"}}
    lines = [{**answer, "usage": {"input_tokens": 10, "output_tokens": 5}}] * 2
    (text_workspace.root / "judge.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with (text_workspace.root / "hive.toml").open("w") as settings:
        settings.write('[models]\nembedding = "none"\njudge = ["scripted:judge.jsonl"]\n')
    runtime = Runtime(Workspace(text_workspace.root))
    judgments = await asyncio.gather(*(runtime.evaluate(GOAL, PLAIN) for _ in range(2)))
    assert [judgment.action for judgment in judgments] == [ACCEPT, ACCEPT]
    found = row(text_workspace, judgments[1].decision_id)
    assert (found.llm_calls, found.input_tokens, found.output_tokens) == (1, 10, 5)
    assert (await runtime.evaluate(GOAL, PLAIN)).escalation_reason == "model_error"


@pytest.mark.parametrize("script", [None, "{", '{"unknown": 1}'])
async def test_a_model_that_cannot_be_opened_escalates(text_workspace: Workspace, script: str | None) -> None:
    if script is not None:
        (text_workspace.root / "judge.jsonl").write_text(script)
    (text_workspace.root / "hive.toml").write_text('[models]\nembedding = "none"\njudge = ["scripted:judge.jsonl"]\n')
    runtime = Runtime(Workspace(text_workspace.root))
    judgment = await runtime.evaluate(GOAL, PLAIN)
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "model_error")
    assert row(text_workspace, judgment.decision_id).proposal is None
    rule = EvaluationRule(id="r", condition="True", action="retry")
    assert (await runtime.evaluate(GOAL, PLAIN, rules=[rule])).rule_id == "r"
    with pytest.raises(HiveError):
        runtime.judge(GOAL)


class Unshowable:
    def __str__(self) -> str:
        raise KeyError

    __repr__ = __str__


def ring() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["again"] = found
    return found


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ({"text": "a\ud800"}, {"text": "a?"}),
        (ring(), {"unreadable": "{'again': {...}}"}),
        ({(1, 2): "x"}, {"unreadable": "{(1, 2): 'x'}"}),
        ({"x": Unshowable()}, {"unreadable": "dict"}),
        ({(1, 2): "x" * 100_000}, None),
    ],
    ids=["half a character", "ring", "tuple as key", "unshowable", "long"],
)
async def test_a_result_that_is_no_json_is_logged_as_it_shows_itself(
    text_workspace: Workspace, result: Any, kept: Any
) -> None:
    runtime = Runtime(text_workspace)
    judgment = await runtime.evaluate(GOAL, result, llm=says(REPLAN))
    found = row(text_workspace, judgment.decision_id)
    assert found.result == kept or (kept is None and len(found.result["unreadable"]) == 65_536)
    assert judgment.decision_id is not None
    assert runtime.file_judgment(judgment.decision_id)


async def test_a_goal_type_is_one_however_it_is_written(text_workspace: Workspace) -> None:
    runtime = Runtime(text_workspace)
    alarm(text_workspace, "code")
    loud = Goal(id="g", name="G", goal_type=" CODE")
    assert (await runtime.evaluate(loud, PLAIN, llm=says())).escalation_reason == "drift"
    assert runtime.judge("Code", llm=says()).threshold("CODE") == 1.01
    number = runtime.log_decision("Code ", PLAIN, Judgment(action=RETRY, confidence=1, reasoning="x"))
    assert row(text_workspace, number).goal_type == "code"


async def test_with_nothing_to_judge_by_a_person_decides(text_workspace: Workspace) -> None:
    judgment = await Runtime(text_workspace).evaluate(GOAL, PLAIN)
    assert judgment.escalation_reason == "no_semantic_evaluator"


@pytest.mark.parametrize(
    ("verb", "proposed", "label"),
    [
        ("approve", RETRY, "accept"),
        ("reject", ACCEPT, "retry"),
        ("reject", REPLAN, "replan"),
        ("respond", RETRY, "retry"),
    ],
)
async def test_a_persons_answer_becomes_a_label(
    text_workspace: Workspace, verb: Any, proposed: JudgmentAction, label: str
) -> None:
    runtime = Runtime(text_workspace)
    judgment = await runtime.evaluate(GOAL, PLAIN, llm=says(proposed, 0.3))
    assert judgment.decision_id is not None
    request = runtime.file_judgment(judgment.decision_id)
    assert runtime.file_judgment(judgment.decision_id) == request
    for _ in range(2):
        decide(text_workspace, request, verb, by="dana", message="mend it" if verb == "respond" else None)
    (found,) = row(text_workspace, judgment.decision_id).labels
    assert (found.action, found.by, found.blind) == (label, "user:dana", False)
    assert ApprovalStore(text_workspace).get(request).outcome == {"decision_id": judgment.decision_id, "label": label}


async def test_who_made_the_token_of_the_judged_run_is_behind_the_request_too(text_workspace: Workspace) -> None:
    made = Principal("acme", "dana", makers=("user:lee", "owner:ann"))
    begun = {"reader": Standing.of(text_workspace, made).model_dump(mode="json")}
    run, _ = RunStore(text_workspace).insert(CHAT_GRAPH, begun, owner=made)
    runtime = Runtime(text_workspace, tenant="acme", run_id=run.run_id)
    judgment = await runtime.evaluate(GOAL, PLAIN, llm=says(RETRY, 0.3))
    request = ApprovalStore(text_workspace).get(runtime.file_judgment(judgment.decision_id))
    assert (request.on_behalf_of, request.makers) == ("user:dana", ["user:lee"])
