from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from hive_agents import register_criterion
from hive_agents.goals.goals import Constraint, Goal, SuccessCriterion
from hive_agents.judging.evaluators import Abstention, FunctionEvaluator, ModelEvaluator
from hive_agents.judging.hybrid import Attempts, HybridJudge
from hive_agents.judging.rules import EvaluationRule
from hive_agents.judging.verdict import FailedStep, FeedbackContext, Judgment, JudgmentAction, Signal
from hive_agents.models import ModelError, Script, Usage
from hive_agents.models.scripted import ScriptedModel

ACCEPT, RETRY, REPLAN, ESCALATE = JudgmentAction
GOAL = Goal(id="g", name="G", goal_type="writing")


def says(action: JudgmentAction = ACCEPT, confidence: Any = 0.9, **fields: Any) -> Any:
    async def evaluate(goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment:
        return Judgment.model_construct(action=action, confidence=confidence, reasoning="so", **fields)

    return evaluate


def answers(value: Any) -> Any:
    async def evaluate(goal: Goal, result: Any, context: FeedbackContext | None) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return evaluate


async def never(goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment:
    raise AssertionError("nobody should ask")


def rule(id: str = "r", condition: str = "True", action: JudgmentAction = ACCEPT, **fields: Any) -> EvaluationRule:
    return EvaluationRule(id=id, condition=condition, action=action, **fields)


@pytest.mark.parametrize("action", [ACCEPT, RETRY, REPLAN])
async def test_at_the_threshold_a_verdict_stands(action: JudgmentAction) -> None:
    judgment = await HybridJudge(llm=says(action, 0.70)).evaluate(GOAL, {})
    assert (judgment.action, judgment.confidence, judgment.escalation_reason) == (action, 0.70, None)


@pytest.mark.parametrize("action", [ACCEPT, RETRY, REPLAN])
@pytest.mark.parametrize("confidence", [0.69, 0.6999999, 0.0])
async def test_below_the_threshold_a_person_decides(action: JudgmentAction, confidence: float) -> None:
    judgment = await HybridJudge(llm=says(action, confidence)).evaluate(GOAL, {})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "low_confidence")
    assert judgment.signals == [Signal(source="llm", action=action, confidence=confidence, detail="so")]
    assert judgment.reasoning.startswith(f"{confidence:.7g} is below 0.7.")


async def test_a_goal_type_has_its_own_threshold() -> None:
    judge = HybridJudge(llm=says(confidence=0.8), thresholds={"writing": 0.81, "all_to_people": 1.01})
    assert (await judge.evaluate(GOAL, {})).action is ESCALATE
    assert (await judge.evaluate(Goal(id="g", name="G"), {})).action is ACCEPT
    certain = HybridJudge(llm=says(confidence=1.0), thresholds={"writing": 1.01})
    assert (await certain.evaluate(GOAL, {})).action is ESCALATE


@pytest.mark.parametrize(
    ("fault", "outage"),
    [
        (ConnectionError("down"), True),
        (TimeoutError(), True),
        (ModelError("throttling", "later"), True),
        (ModelError("refusal", "no"), False),
        (RecursionError(), False),
        ("accept", False),
    ],
)
async def test_a_model_that_could_not_be_asked_is_told_from_one_that_answered_badly(fault: Any, outage: bool) -> None:
    judgment = await HybridJudge(llm=answers(fault)).evaluate(GOAL, {})
    assert (judgment.action, judgment.outage) == (ESCALATE, outage)
    assert "outage" not in judgment.model_dump()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ConnectionError("down"), "model_error"),
        (TimeoutError(), "model_error"),
        (RecursionError(), "model_error"),
        ("accept", "unparsable"),
        (None, "unparsable"),
        ([], "unparsable"),
        ({}, "unparsable"),
        ({"action": "accept", "reasoning": "x"}, "unparsable"),
        ({"action": "accept", "confidence": None, "reasoning": "x"}, "unparsable"),
        ({"action": "accept", "confidence": "0.99", "reasoning": "x"}, "unparsable"),
        ({"action": "accept", "confidence": True, "reasoning": "x"}, "unparsable"),
        ({"action": "accept", "confidence": 0.9}, "unparsable"),
        ({"action": "approve", "confidence": 0.9, "reasoning": "x"}, "unparsable"),
        ({"confidence": 0.9, "reasoning": "x"}, "unparsable"),
        ({"action": "accept", "confidence": 0.9, "reasoning": "x", "feedback": ["x"]}, "unparsable"),
        ({"action": "accept", "confidence": math.nan, "reasoning": "x"}, "confidence_out_of_range"),
        ({"action": "accept", "confidence": math.inf, "reasoning": "x"}, "confidence_out_of_range"),
        ({"action": "accept", "confidence": 1.0000001, "reasoning": "x"}, "confidence_out_of_range"),
        ({"action": "accept", "confidence": -0.1, "reasoning": "x"}, "confidence_out_of_range"),
        ({"action": "accept", "confidence": 95, "reasoning": "x"}, "confidence_out_of_range"),
    ],
)
async def test_no_fault_of_an_evaluator_accepts(answer: Any, reason: str) -> None:
    for judge in (HybridJudge(llm=answers(answer)), HybridJudge(llm=says(), panel=[answers(answer)])):
        judgment = await judge.evaluate(GOAL, {})
        assert (judgment.action, judgment.escalation_reason) == (ESCALATE, reason)


async def test_a_judgment_that_was_never_checked_is_checked_here() -> None:
    for confidence in (math.nan, 1.5, -1):
        judgment = await HybridJudge(llm=says(confidence=confidence)).evaluate(GOAL, {})
        assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "confidence_out_of_range")


async def test_without_rule_and_evaluator_a_person_decides() -> None:
    judgment = await HybridJudge().evaluate(GOAL, {"code": "x"})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "no_semantic_evaluator")


@pytest.mark.parametrize("action", list(JudgmentAction))
async def test_a_rule_that_matches_decides_and_nobody_is_asked(action: JudgmentAction) -> None:
    judgment = await HybridJudge(rules=[rule(action=action)], llm=never).evaluate(GOAL, {})
    assert (judgment.action, judgment.confidence, judgment.rule_id) == (action, 1.0, "r")
    assert judgment.escalation_reason == ("rule_escalate" if action is ESCALATE else None)
    assert (judgment.feedback is not None) == (action in (RETRY, REPLAN))


async def test_a_rule_that_raises_escalates_before_lower_ones_are_asked() -> None:
    rules = [rule("b", "result['missing'] > 1", priority=5), rule("a", priority=1)]
    judgment = await HybridJudge(rules=rules, llm=never).evaluate(GOAL, {})
    assert (judgment.action, judgment.escalation_reason, judgment.rule_id) == (ESCALATE, "rule_error", "b")


async def test_a_higher_rule_that_matches_comes_before_one_that_raises() -> None:
    rules = [rule("b", "result['missing'] > 1", priority=1), rule("a", action=RETRY, priority=5)]
    assert (await HybridJudge(rules=rules).evaluate(GOAL, {})).rule_id == "a"


async def test_a_result_that_rules_cannot_read_escalates() -> None:
    judgment = await HybridJudge(rules=[rule()]).evaluate(GOAL, {"handle": object()})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "rule_error")
    assert (await HybridJudge(llm=says()).evaluate(GOAL, {"handle": object()})).action is ACCEPT


async def test_a_shadow_rule_is_tried_and_never_acts() -> None:
    rules = [
        rule("yes", mode="shadow"),
        rule("no", "False", mode="shadow"),
        rule("raises", "1 in attempt", mode="shadow"),
        rule("elsewhere", mode="shadow", goal_types=["x"]),
    ]
    judgment = await HybridJudge(rules=rules, llm=says(RETRY)).evaluate(GOAL, {})
    assert (judgment.action, judgment.rule_id) == (RETRY, None)
    assert judgment.tried == {"no": False, "raises": None, "yes": True}


async def test_a_learned_rule_that_acts_is_tried_too_also_where_another_decides() -> None:
    rules = [rule("first", priority=190), rule("learned_a", action=REPLAN), rule("learned_b", "False")]
    judgment = await HybridJudge(rules=rules).evaluate(GOAL, {})
    assert (judgment.rule_id, judgment.tried) == ("first", {"learned_a": True, "learned_b": False})


async def test_a_function_that_is_late_is_a_fault() -> None:
    async def endless(*_: Any) -> Judgment:
        await asyncio.Event().wait()
        raise AssertionError

    judgment = await HybridJudge(llm=FunctionEvaluator(endless, deadline=0.01)).evaluate(GOAL, {})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "model_error")
    assert "within 0.01 s" in judgment.reasoning


def test_a_fingerprint_tells_evaluators_apart() -> None:
    async def other(goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment:
        raise AssertionError

    marked = FunctionEvaluator(never)
    panel = HybridJudge(llm=never, panel=[other]).fingerprint
    found = {HybridJudge(llm=llm).fingerprint for llm in (None, never, other)} | {panel}
    assert len(found) == 4
    assert HybridJudge(llm=other, panel=[never]).fingerprint == panel
    assert marked.fingerprint == HybridJudge(llm=never).fingerprint


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two rules"):
        HybridJudge(rules=[rule(), rule()])


def hard(check: str | None = "'password' not in str(result.get('logs', ''))", **fields: Any) -> Constraint:
    return Constraint(id="no_passwords", check=check, **fields)


async def test_a_violated_hard_constraint_escalates_whatever_a_rule_says() -> None:
    goal = Goal(id="g", name="G", constraints=[hard()])
    judge = HybridJudge(rules=[rule()], llm=never)
    judgment = await judge.evaluate(goal, {"logs": ["password=1"]})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "hard_constraint")
    assert judgment.violations == ["no_passwords"]
    assert (await judge.evaluate(goal, {"logs": []})).action is ACCEPT


async def test_a_constraint_that_was_violated_before_counts() -> None:
    goal = Goal(id="g", name="G", constraints=[hard()])
    context = FeedbackContext(constraints_violated=["no_passwords"])
    assert (await HybridJudge(llm=never).evaluate(goal, {}, context)).escalation_reason == "hard_constraint"


async def test_a_soft_constraint_costs_its_penalty_and_is_reported() -> None:
    criteria = [SuccessCriterion(id="c", metric="llm_judge")]
    soft = hard(constraint_type="soft", penalty=0.25)
    goal = Goal(id="g", name="G", success_criteria=criteria, constraints=[soft])
    judgment = await HybridJudge(llm=says()).evaluate(goal, {"logs": "password"})
    assert (judgment.action, judgment.satisfaction, judgment.violations) == (ACCEPT, 0.75, ["no_passwords"])


async def test_a_check_that_raises_is_never_taken_for_well() -> None:
    goal = Goal(id="g", name="G", constraints=[hard("result['logs'] == ''")])
    judgment = await HybridJudge(rules=[rule()], llm=says()).evaluate(goal, {})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "constraint_not_evaluated")


async def test_a_constraint_without_check_needs_a_model() -> None:
    goal = Goal(id="g", name="G", constraints=[hard(None)])
    assert (await HybridJudge().evaluate(goal, {})).escalation_reason == "constraint_not_evaluated"
    by_rule = await HybridJudge(rules=[rule()], llm=never).evaluate(goal, {})
    assert (by_rule.action, by_rule.escalation_reason) == (ESCALATE, "constraint_not_evaluated")
    assert (await HybridJudge(llm=says()).evaluate(goal, {})).action is ACCEPT
    found = await HybridJudge(llm=says(violations=["no_passwords"])).evaluate(goal, {})
    assert (found.action, found.escalation_reason) == (ESCALATE, "hard_constraint")


async def test_what_any_member_of_a_panel_calls_violated_counts() -> None:
    goal = Goal(id="g", name="G", constraints=[hard(None)])
    finds = says(confidence=0.99, violations=["no_passwords"])
    for judge in (HybridJudge(llm=says(), panel=[finds]), HybridJudge(llm=finds, panel=[says()])):
        found = await judge.evaluate(goal, {})
        assert (found.action, found.escalation_reason) == (ESCALATE, "hard_constraint")
        assert found.violations == ["no_passwords"]


CRITERIA = [
    SuccessCriterion(id="functional", metric="llm_judge", weight=0.4),
    SuccessCriterion(id="secure", metric="output_contains", target="bcrypt", weight=0.3),
    SuccessCriterion(id="nobody-registered-this", metric="custom", weight=0.3),
]
WEIGHED = Goal(id="g", name="G", success_criteria=CRITERIA)


async def test_satisfaction_is_over_what_could_be_evaluated() -> None:
    judgment = await HybridJudge(llm=says()).evaluate(WEIGHED, {"code": "bcrypt.hash(x)"})
    assert (judgment.action, judgment.satisfaction) == (ACCEPT, 1.0)
    assert (judgment.scores, judgment.absent) == ({"functional": 1, "secure": 1}, ["nobody-registered-this"])
    again = await HybridJudge(llm=says(RETRY)).evaluate(WEIGHED, {"code": "bcrypt"})
    assert again.satisfaction == pytest.approx(0.3 / 0.7)
    assert again.feedback == "so"


async def test_an_accept_with_a_criterion_at_zero_becomes_a_retry_that_names_it() -> None:
    judgment = await HybridJudge(llm=says()).evaluate(WEIGHED, {"code": "md5"})
    assert (judgment.action, judgment.escalation_reason) == (RETRY, None)
    assert "secure" in str(judgment.feedback)
    assert judgment.signals[0].action is ACCEPT
    assert (await HybridJudge(rules=[rule()]).evaluate(WEIGHED, {"code": "md5"})).action is ACCEPT


async def test_doubt_comes_before_a_criterion_at_zero() -> None:
    judgment = await HybridJudge(llm=says(confidence=0.5)).evaluate(WEIGHED, {"code": "md5"})
    assert judgment.escalation_reason == "low_confidence"


async def test_with_every_criterion_absent_a_person_decides() -> None:
    goal = Goal(id="g", name="G", success_criteria=CRITERIA[2:])
    judgment = await HybridJudge(llm=says()).evaluate(goal, {})
    assert (judgment.action, judgment.absent) == (ESCALATE, ["nobody-registered-this"])


async def test_a_goal_can_require_a_call_that_succeeded() -> None:
    called = SuccessCriterion(id="refunded", metric="call_succeeded", target="issue_refund")
    goal = Goal(id="g", name="G", success_criteria=[called])
    judge = HybridJudge(llm=says())
    contexts = [FeedbackContext(succeeded_calls=calls) for calls in (["issue_refund"], ["look_up"], [])]
    found = [await judge.evaluate(goal, {}, context) for context in contexts]
    assert [judgment.action for judgment in found] == [ACCEPT, RETRY, RETRY]
    assert found[1].feedback == "Not met: refunded."
    unknown = await judge.evaluate(goal, {})
    assert (unknown.escalation_reason, unknown.absent) == ("constraint_not_evaluated", ["refunded"])


@pytest.mark.parametrize(
    ("criterion", "result", "score"),
    [
        ({"metric": "output_contains", "target": "b"}, "abc", 1),
        ({"metric": "output_contains", "target": "b"}, {"output": "a", "other": "b"}, 0),
        ({"metric": "output_contains", "target": 2}, [1, 2], 1),
        ({"metric": "output_contains", "target": True}, [1], 0),
        ({"metric": "output_equals", "target": {"a": [1]}}, {"a": [1]}, 1),
        ({"metric": "output_equals", "target": 1}, {"output": True}, 0),
        ({"metric": "output_equals", "target": 1}, 1.0, 1),
        ({"metric": "output_equals", "target": {"a": [1, {"b": 2.0}]}}, {"a": (1.0, {"b": 2})}, 1),
        ({"metric": "output_equals", "target": {"a": [1]}}, {"a": [True]}, 0),
        ({"metric": "output_equals", "target": {"a": 1}}, {"a": 1, "b": None}, 0),
        ({"metric": "output_contains", "target": {"n": 1}}, [{"n": 1.0}], 1),
        ({"metric": "output_matches", "target": r"^v\d+$"}, ["x", "v12"], 1),
        ({"metric": "output_matches", "target": r"^v\d+$"}, "v", 0),
        ({"metric": "output_matches", "target": r"^(a+)+$"}, "a" * 40 + "b", 0),
        ({"metric": "numeric_at_least", "target": 0.9}, {"c": 0.9}, 1),
        ({"metric": "numeric_at_least", "target": 0.9}, {"output": "0.89"}, 0),
        ({"metric": "numeric_at_least", "target": 0.9}, {"output": "many"}, None),
        ({"metric": "numeric_at_least", "target": 0.9}, {"output": True}, None),
        ({"metric": "numeric_at_least", "target": 0.9}, math.nan, None),
        ({"metric": "numeric_at_most", "target": {"field": "ms", "value": 5}}, {"ms": 5}, 1),
        ({"metric": "numeric_at_most", "target": {"field": "ms", "value": 5}}, {}, None),
        ({"metric": "numeric_at_most", "target": {"field": "ms", "value": 5}}, {"output": {"ms": 6}}, 0),
        ({"metric": "numeric_at_most", "target": 5}, {"output": {"c": 5}}, 1),
        ({"metric": "numeric_at_most", "target": 5}, {"output": {"c": 9}, "c": 5}, 1),
        ({"metric": "custom", "target": "half"}, {}, 0.5),
        ({"metric": "custom", "target": "later"}, {}, 1),
        ({"metric": "custom", "target": "raises"}, {}, None),
        ({"metric": "custom", "target": "too-much"}, {}, None),
        ({"metric": "custom"}, {}, 0.25),
        ({"metric": "custom", "target": "nobody-registered-this"}, {}, 0.25),
        ({"metric": "custom", "target": {"within": [1, 2]}}, {}, 0.25),
    ],
)
async def test_each_metric_has_its_score_or_none(criterion: dict[str, Any], result: Any, score: float | None) -> None:
    async def later(goal: Goal, result: Any) -> bool:
        return True

    for name, function in (("half", lambda goal, result: 0.5), ("later", later), ("raises", lambda goal, result: 1 / 0),
                           ("too-much", lambda goal, result: 2), ("c", lambda goal, result: 0.25)):  # fmt: skip
        register_criterion(name, function)
    goal = Goal(id="g", name="G", success_criteria=[SuccessCriterion(id="c", **criterion)])
    judgment = await HybridJudge().evaluate(goal, result)
    assert judgment.scores == ({} if score is None else {"c": score})


async def test_a_panel_that_disagrees_goes_to_a_person() -> None:
    judgment = await HybridJudge(llm=says(), panel=[says(RETRY)]).evaluate(GOAL, {})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "panel_disagreement")
    assert [signal.action for signal in judgment.signals] == [ACCEPT, RETRY]
    doubtful = await HybridJudge(llm=says(), panel=[says(confidence=0.5)]).evaluate(GOAL, {})
    assert doubtful.escalation_reason == "low_confidence"
    assert (await HybridJudge(llm=says(), panel=[says()]).evaluate(GOAL, {})).action is ACCEPT


async def test_a_held_goal_type_goes_to_a_person_with_the_verdict_kept() -> None:
    judgment = await HybridJudge(llm=says(), holds={"writing": "drift"}).evaluate(GOAL, {})
    assert (judgment.escalation_reason, judgment.signals[0].action) == ("drift", ACCEPT)
    spent = await HybridJudge(llm=never, holds={None: "budget"}).evaluate(GOAL, {})
    assert spent.escalation_reason == "budget"


async def test_an_evaluator_that_wants_a_person_gets_one() -> None:
    judgment = await HybridJudge(llm=says(ESCALATE, 1.0)).evaluate(GOAL, {})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "low_confidence")


def test_retries_and_new_plans_run_out() -> None:
    attempts, seen = Attempts(), []
    for action in [RETRY] * 4 + [REPLAN] * 3:
        judgment, attempts = attempts.after(Judgment(action=action, confidence=1, reasoning="again"))
        seen.append(judgment.escalation_reason or judgment.action)
    assert seen == [RETRY, RETRY, RETRY, "retries_exhausted", REPLAN, REPLAN, "replans_exhausted"]


class Model(BaseChatModel):
    """A LangChain model with one answer, by tool call as providers give structured output."""

    answer: dict[str, Any] | None
    asked: list[str] = []

    @property
    def _llm_type(self) -> str:
        return "fixed"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        self.asked.append(messages[-1].content)
        calls = [] if self.answer is None else [{"name": "judgment", "args": self.answer, "id": "1"}]
        message = AIMessage(content="", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


async def test_a_langchain_model_is_asked_with_goal_and_result() -> None:
    model = Model(answer={"action": "ACCEPT", "confidence": 0.9, "reasoning": "fine", "rule_id": "forged"})
    context = FeedbackContext(failed_steps=[FailedStep(step_id="draft", attempts=2, errors=["too long"])])
    judgment = await HybridJudge(llm=model).evaluate(WEIGHED, {"code": "bcrypt $goal"}, context)
    assert (judgment.action, judgment.reasoning, judgment.rule_id) == (ACCEPT, "fine", None)
    assert all(word in model.asked[0] for word in ("nobody-registered-this", "bcrypt $goal", "too long"))


VERDICT = '{"action": "accept", "confidence": 0.9, "reasoning": "fine"}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [(VERDICT, None), (f"I say:\n```json\n{VERDICT}\n```", None), (f"{VERDICT} or {VERDICT}", "unparsable"),
     ("yes", "unparsable")],
)  # fmt: skip
async def test_a_langchain_model_without_tools_is_asked_in_words(text: str, reason: str | None) -> None:
    judgment = await HybridJudge(llm=FakeListChatModel(responses=[text])).evaluate(GOAL, {})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE if reason else ACCEPT, reason)


async def test_a_langchain_model_that_calls_no_tool_may_answer_in_words() -> None:
    class Talkative(Model):
        def _generate(self, *_: Any, **__: Any) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content=VERDICT))])

    assert (await HybridJudge(llm=Talkative(answer=None)).evaluate(GOAL, {})).action is ACCEPT


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(None, "unparsable"), ({}, "unparsable"), ({"action": "accept", "confidence": 7, "reasoning": "x"},
                                                "confidence_out_of_range")],
)  # fmt: skip
async def test_a_langchain_model_that_answers_wrongly_escalates(answer: Any, reason: str) -> None:
    judgment = await HybridJudge(llm=Model(answer=answer)).evaluate(GOAL, {})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, reason)


async def test_a_model_of_ours_is_asked_in_the_same_way(tmp_path: Path) -> None:
    lines = [
        {"structured": {"action": "accept", "confidence": 0.7, "reasoning": "fine"}, "when": {"contains": "bcrypt"}},
        {"error": "garbage"},
        {"error": "server"},
    ]
    (tmp_path / "script.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    spent: list[Usage] = []
    model = ScriptedModel(Script(tmp_path / "script.jsonl"))
    judge = HybridJudge(llm=ModelEvaluator(model, on_usage=spent.append))
    seen = [await judge.evaluate(WEIGHED, {"code": "bcrypt"}) for _ in range(4)]
    assert [each.escalation_reason for each in seen] == [None, "unparsable", "model_error", "model_error"]
    assert len(spent) == 4


async def test_an_evaluator_that_abstains_leaves_the_verdict_to_the_others() -> None:
    async def silent(goal: Goal, result: Any, context: Any) -> Judgment:
        raise Abstention

    found = await HybridJudge(llm=says(RETRY), panel=[silent]).evaluate(GOAL, {})
    assert (found.action, found.escalation_reason) == (RETRY, None)
    alone = await HybridJudge(llm=silent).evaluate(GOAL, {})
    assert (alone.action, alone.escalation_reason) == (ESCALATE, "no_semantic_evaluator")
