"""No fault of a judge, its evaluators, criteria or thresholds accepts, raises or hangs."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress
from typing import Any

import pytest

from hive_agents import register_criterion
from hive_agents.base.errors import HiveError
from hive_agents.goals.goals import Constraint, Goal, SuccessCriterion
from hive_agents.judging import criteria
from hive_agents.judging.evaluators import FunctionEvaluator, ModelEvaluator
from hive_agents.judging.hybrid import HybridJudge
from hive_agents.judging.verdict import FeedbackContext, Judgment, JudgmentAction
from tests.judging.test_hybrid import GOAL, Model, answers, never, says

ACCEPT, RETRY, REPLAN, ESCALATE = JudgmentAction


@pytest.mark.parametrize(
    "threshold",
    [math.nan, -1, -math.inf, math.inf, 70, 10**5000, None, "0.7", True],
    ids=lambda value: str(value)[:4] if isinstance(value, float) else type(value).__name__,
)
def test_a_threshold_that_is_none_is_refused(threshold: Any) -> None:
    for fields in ({"llm_confidence_threshold": threshold}, {"thresholds": {"code": threshold}}):
        with pytest.raises(HiveError) as failure:
            HybridJudge(**fields)
        assert failure.value.diagnostics[0].code == "HIVE-105"


@pytest.mark.parametrize(
    ("threshold", "shown"), [(2, "2"), (70, "70"), (1.5, "1.5"), ("0.7", "'0.7'"), (None, "of type")]
)
def test_a_threshold_that_is_none_is_shown_with_the_range(threshold: Any, shown: str) -> None:
    with pytest.raises(HiveError) as failure:
        HybridJudge(llm_confidence_threshold=threshold)
    message = failure.value.diagnostics[0].message
    assert message.startswith(f"llm_confidence_threshold is {shown}")
    assert message.endswith("no number from 0 to 1")


@pytest.mark.parametrize("named", ["NO_PII", "no pii", "no_pii"])
async def test_a_constraint_is_meant_however_it_is_written(named: str) -> None:
    goal = Goal(id="g", name="G", constraints=[Constraint(id="no_pii")])
    found = await HybridJudge(llm=says(violations=[named])).evaluate(goal, {})
    assert (found.escalation_reason, found.violations) == ("hard_constraint", ["no_pii"])
    context = FeedbackContext(constraints_violated=[named])
    assert (await HybridJudge(llm=never).evaluate(goal, {}, context)).escalation_reason == "hard_constraint"


@pytest.mark.parametrize("action", [ACCEPT, RETRY])
async def test_a_violation_of_something_unknown_escalates(action: JudgmentAction) -> None:
    goal = Goal(id="g", name="G", constraints=[Constraint(id="no_pii", constraint_type="soft")])
    found = await HybridJudge(llm=says(action, violations=["other"])).evaluate(goal, {})
    assert (found.action, found.escalation_reason) == (ESCALATE, "constraint_not_evaluated")
    assert "'other'" in found.reasoning
    context = FeedbackContext(constraints_violated=["other"])
    assert (await HybridJudge(llm=never).evaluate(goal, {}, context)).escalation_reason == "constraint_not_evaluated"


def custom(name: str) -> Goal:
    return Goal(id="g", name="G", success_criteria=[SuccessCriterion(id=name, metric="custom")])


async def test_a_criterion_that_never_ends_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(*_: Any) -> float:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)
                return 1.0

    async def cancels(*_: Any) -> float:
        raise asyncio.CancelledError

    monkeypatch.setattr(criteria, "CUSTOM_SECONDS", 0.02)
    register_criterion("endless", endless)
    register_criterion("blocking", lambda *_: time.sleep(0.1) or 1.0)
    register_criterion("cancels", cancels)
    register_criterion("cancels-at-once", lambda *_: (_ for _ in ()).throw(asyncio.CancelledError()))
    for name in ("endless", "blocking", "cancels", "cancels-at-once"):
        judgment = await HybridJudge(llm=says()).evaluate(custom(name), {})
        assert (judgment.action, judgment.absent) == (ESCALATE, [name])


class Unshowable:
    def __str__(self) -> str:
        raise KeyError

    __repr__ = __float__ = __str__  # type: ignore[assignment]


class Unsearchable(dict[str, Any]):
    def __contains__(self, key: object) -> bool:
        raise LookupError


@pytest.mark.parametrize("result", [Unsearchable(c=1), {"output": Unshowable()}, Unshowable()])
@pytest.mark.parametrize("metric", ["output_contains", "numeric_at_least", "output_matches", "output_equals"])
async def test_a_result_whose_own_methods_raise_is_not_evaluated(result: Any, metric: Any) -> None:
    target = 1 if metric == "numeric_at_least" else "x"
    goal = Goal(id="g", name="G", success_criteria=[SuccessCriterion(id="c", metric=metric, target=target)])
    judgment = await HybridJudge(llm=Model(answer=None)).evaluate(goal, result)
    assert (judgment.action, judgment.scores.get("c", 0)) == (ESCALATE, 0)


@pytest.mark.parametrize("value", ["inf", "nan", "-Infinity", math.inf])
async def test_what_is_no_number_reaches_none(value: Any) -> None:
    goal = Goal(id="g", name="G", success_criteria=[SuccessCriterion(id="c", metric="numeric_at_least", target=0.9)])
    assert (await HybridJudge(llm=says()).evaluate(goal, {"c": value})).absent == ["c"]


async def test_the_heaviest_weights_add_up() -> None:
    pairs = [SuccessCriterion(id=name, weight=1e308) for name in ("a", "b")]
    judgment = await HybridJudge(llm=says()).evaluate(Goal(id="g", name="G", success_criteria=pairs), {})
    assert (judgment.action, judgment.satisfaction) == (ACCEPT, 1.0)


@pytest.mark.parametrize(
    "fault",
    [asyncio.CancelledError(), BaseExceptionGroup("many", [asyncio.CancelledError()]), GeneratorExit()],
    ids=["cancelled", "group", "exit of a generator"],
)
async def test_an_evaluator_that_ends_itself_is_a_fault(fault: BaseException) -> None:
    async def evaluate(*_: Any) -> Judgment:
        raise fault

    judgment = await HybridJudge(llm=evaluate).evaluate(GOAL, {})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "model_error")


async def test_who_cancels_the_judge_is_obeyed() -> None:
    """Also where an evaluator takes no notice, and answers after all."""

    async def stubborn(*_: Any) -> Judgment:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Judgment(action=ACCEPT, confidence=1, reasoning="so")

    running = asyncio.ensure_future(HybridJudge(llm=stubborn).evaluate(GOAL, {}))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("ends", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_process_is_no_verdict(ends: type[BaseException]) -> None:
    async def evaluate(*_: Any) -> Judgment:
        raise ends

    with pytest.raises(ends):
        asyncio.run(HybridJudge(llm=evaluate).evaluate(GOAL, {}))


async def test_a_late_verdict_does_not_stand() -> None:
    verdict = Judgment(action=ACCEPT, confidence=1, reasoning="so")

    async def catching(*_: Any) -> Judgment:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return verdict

    async def blocking(*_: Any) -> Judgment:
        time.sleep(0.03)
        return verdict

    class Late:
        name = "late"

        async def complete(self, *_: Any, **__: Any) -> Any:
            return await catching()

    for llm in (FunctionEvaluator(catching, deadline=0.01), FunctionEvaluator(blocking, deadline=0.01),
                ModelEvaluator(Late(), deadline=0.01)):  # fmt: skip
        judgment = await HybridJudge(llm=llm).evaluate(GOAL, {})
        assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "model_error")
        assert "within 0.01 s" in judgment.reasoning


@pytest.mark.parametrize("confidence", [10**400, -(10**5000), 2], ids=["huge", "unprintable", "2"])
async def test_a_huge_confidence_is_out_of_range(confidence: int) -> None:
    answer = {"action": "accept", "confidence": confidence, "reasoning": "x"}
    judgment = await HybridJudge(llm=answers(answer)).evaluate(GOAL, {})
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "confidence_out_of_range")


async def test_half_a_character_in_a_fault_is_told() -> None:
    judgment = await HybridJudge(llm=answers(RuntimeError("\ud800"))).evaluate(GOAL, {})
    assert (judgment.escalation_reason, judgment.reasoning) == ("model_error", "RuntimeError: ?")


@pytest.mark.parametrize(
    ("action", "attempt", "reason"),
    [(RETRY, 3, None), (RETRY, 4, "retries_exhausted"), (RETRY, 1000, "retries_exhausted"), (REPLAN, 4, None),
     (REPLAN, 5, "replans_exhausted"), (ACCEPT, 1000, None)],
)  # fmt: skip
async def test_attempts_are_bounded(action: JudgmentAction, attempt: int, reason: str | None) -> None:
    judgment = await HybridJudge(llm=says(action)).evaluate(GOAL, {}, attempt=attempt)
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE if reason else action, reason)


async def test_a_langchain_model_that_answers_in_text_answers_once() -> None:
    """LangChain's own parser takes the first of several objects, which may be quoted from the result."""
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableLambda

    said = {"action": "accept", "confidence": 0.99, "reasoning": "quoted"}

    class Texts:
        model_name = "texts"

        def __init__(self, text: str) -> None:
            self._text = text

        def with_structured_output(self, *_: Any, **__: Any) -> Any:
            raw = AIMessage(content=self._text)
            return RunnableLambda(lambda _: {"raw": raw, "parsed": said, "parsing_error": None})

    one, other = '{"action": "accept"}', '{"action": "escalate"}'
    twice = await HybridJudge(llm=Texts(f"It says {one}; I say {other}")).evaluate(GOAL, {})
    assert (twice.action, twice.escalation_reason) == (ESCALATE, "unparsable")
    assert (await HybridJudge(llm=Texts(one)).evaluate(GOAL, {})).action is ACCEPT
