"""The judge: hard constraints and rules, then an evaluator, then a person. No fault ever accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

from hive_agents.base import HiveError
from hive_agents.base.files import Count, Format
from hive_agents.goals import Goal, goal_type_of
from hive_agents.goals.expressions import ExpressionError
from hive_agents.judging.case import Case, HoldReason, ids_of
from hive_agents.judging.criteria import score_criteria
from hive_agents.judging.deadline import must_end
from hive_agents.judging.decisions import ESCALATE_ALL, THEN, THRESHOLD_REASONS, UNTYPED, decides, storable
from hive_agents.judging.evaluators import (
    Abstention,
    Evaluator,
    EvaluatorFault,
    error_text,
    evaluator,
    fingerprint_of,
    signals_of,
)
from hive_agents.judging.rules import EvaluationRule, decide, in_order, names_of, tried
from hive_agents.judging.verdict import EscalationReason, FeedbackContext, Judgment, JudgmentAction

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

MAX_RETRIES = 3
MAX_REPLANS = 2


class Attempts(Format):
    """Retries of the present plan, and new plans so far; part of a graph's state."""

    retries: Count = 0
    replans: Count = 0

    def after(self, judgment: Judgment) -> tuple[Judgment, Attempts]:
        """Return the judgment within the limits, and the count after it; a new plan starts without retries.

        >>> again = Judgment(action=JudgmentAction.RETRY, confidence=0.9, reasoning="incomplete")
        >>> Attempts(retries=2).after(again)[1]
        Attempts(retries=3, replans=0)
        >>> Attempts(retries=3).after(again)[0].escalation_reason
        'retries_exhausted'
        """
        if judgment.action is JudgmentAction.RETRY:
            if self.retries >= MAX_RETRIES:
                return _exhausted(judgment, "retries_exhausted", f"{MAX_RETRIES} retries"), self
            return judgment, Attempts(retries=self.retries + 1, replans=self.replans)
        if judgment.action is JudgmentAction.REPLAN:
            if self.replans >= MAX_REPLANS:
                return _exhausted(judgment, "replans_exhausted", f"{MAX_REPLANS} new plans"), self
            return judgment, Attempts(replans=self.replans + 1)
        return judgment, self


def within_bounds(judgment: Judgment, attempt: int) -> Judgment:
    """Return the judgment within the limits, for a plan's result of this number, from 1 on.

    >>> again = Judgment(action=JudgmentAction.RETRY, confidence=0.9, reasoning="incomplete")
    >>> [within_bounds(again, attempt).escalation_reason for attempt in (3, 4)]
    [None, 'retries_exhausted']
    """
    if judgment.action is JudgmentAction.RETRY:
        return Attempts(retries=max(0, attempt - 1)).after(judgment)[0]
    if judgment.action is JudgmentAction.REPLAN and attempt > MAX_RETRIES + 1:
        # A number this high counts across plans, so the new plans have been spent, too.
        return _exhausted(judgment, "replans_exhausted", f"{attempt - 1} attempts")
    return judgment


def _exhausted(judgment: Judgment, reason: EscalationReason, spent: str) -> Judgment:
    why = f"{spent} did not do it. {judgment.reasoning}"
    changes = {"action": JudgmentAction.ESCALATE, "escalation_reason": reason, "reasoning": why}
    return judgment.model_copy(update=changes)


THRESHOLD = 0.7
ESCALATE = JudgmentAction.ESCALATE


class HybridJudge:
    """Rules decide at once; else an evaluator does, when it is sure enough; else a person.

    - `llm`: a LangChain chat model, one of ours, or an async function (goal, result, context) -> Judgment.
    - `panel`: further such evaluators; when they don't all choose the same action a person decides.
    - `thresholds`: goal type → confidence from which a verdict stands, before `llm_confidence_threshold`; 1.01 sends
      every verdict to a person.
    - `bins`: goal type → confidences at which a verdict stands although they are below the threshold.
    - `stronger`: another judge, of whose evaluators and thresholds the verdict is where these aren't sure enough; it
      accepts nothing that one of the panel was sure to refuse.
    - `holds`: goal type → why its verdicts go to a person for now; with `budget` the evaluator isn't asked at all.
      The key None holds every type. Goals without a type are of the type `untyped`.

    >>> rule = EvaluationRule(id="unsafe", condition="'eval(' in result.get('code', '')", action="escalate")
    >>> judge = HybridJudge(rules=[rule])
    >>> judgment = asyncio.run(judge.evaluate(Goal(id="g", name="G"), {"code": "eval(x)"}))
    >>> judgment.action, judgment.confidence, judgment.rule_id
    (<JudgmentAction.ESCALATE: 'escalate'>, 1.0, 'unsafe')

    Raises: HIVE-105 for a threshold that is no number from 0 to 1.01; ValueError for two rules of one id.
    """

    def __init__(
        self,
        rules: Iterable[EvaluationRule] = (),
        llm: Any = None,
        llm_confidence_threshold: float = THRESHOLD,
        *,
        panel: Sequence[Any] = (),
        thresholds: Mapping[str, float] | None = None,
        bins: Mapping[str, Collection[float]] | None = None,
        holds: Mapping[str | None, HoldReason] | None = None,
        stronger: HybridJudge | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        self._rules: list[EvaluationRule] = []
        self.add_rules(rules)
        self._stronger = stronger
        self._evaluators: list[Evaluator] = [
            evaluator(source, workspace) for source in (llm, *panel) if source is not None
        ]
        self._threshold = _sound(llm_confidence_threshold, "llm_confidence_threshold")
        self._thresholds: dict[str, float] = {}
        for name, value in (thresholds or {}).items():
            # Of two spellings of a type, such as Code and code, the higher threshold holds.
            lowest = self._thresholds.get(_type(name), 0.0)
            self._thresholds[_type(name)] = max(lowest, _sound(value, f"thresholds.{name}"))
        self._bins = {_type(name): frozenset(values) for name, values in (bins or {}).items()}
        self._holds = {None if name is None else _type(name): hold for name, hold in (holds or {}).items()}

    @property
    def rules(self) -> tuple[EvaluationRule, ...]:
        """The rules in the order of evaluation."""
        return tuple(self._rules)

    def add_rules(self, rules: Iterable[EvaluationRule]) -> None:
        """Add rules. Raises: ValueError for an id that is there already."""
        added = in_order([*self._rules, *rules])
        ids = [rule.id for rule in added]
        twice = next((name for name in ids if ids.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f'two rules are called "{twice}"')
        self._rules = added

    @property
    def fingerprint(self) -> str:
        """Changes with the evaluators: what was learned of this judge holds for one of these only.

        >>> HybridJudge().fingerprint
        'none'
        """
        return fingerprint_of(self._evaluators)

    def logged_as(self, judgment: Judgment) -> str:
        """Return what the log keeps of who judged: this judge's fingerprint, and a stronger one's that was asked."""
        again = self._stronger if judgment.asked_again else None
        return self.fingerprint if again is None else f"{self.fingerprint}{THEN}{again.fingerprint}"

    def threshold(self, goal_type: str | None) -> float:
        return self._thresholds.get(_type(goal_type), self._threshold)

    async def evaluate(
        self, goal: Goal, result: Any, context: FeedbackContext | None = None, *, attempt: int = 1
    ) -> Judgment:
        """Return the judgment on one result. Faults of evaluators, criteria, rules and of the judge itself escalate.

        `attempt` counts the results of the present plan from 1 on; beyond the retries of a plan a person decides.
        """
        try:
            return within_bounds(await self._judged(Case(goal, result), context, attempt), attempt)
        except Exception as error:
            # No cause is known; an unexpected error must never become a verdict.
            why = storable(f"The judge failed: {error_text(error)}")
            return Judgment(action=ESCALATE, confidence=0.0, reasoning=why, escalation_reason="model_error")

    async def _judged(self, case: Case, context: FeedbackContext | None, attempt: int) -> Judgment:
        goal, result = case.goal, case.result
        case.scores = await score_criteria(goal, result, context.succeeded_calls if context is not None else None)
        checks = [each for each in goal.constraints if each.check is not None and not each.of_calls]
        names: dict[str, Any] = {"goal": {"goal_type": goal.goal_type}}
        if self._rules or checks:
            try:
                names = names_of(result, goal, attempt)
            except ExpressionError as error:
                reason: EscalationReason = "constraint_not_evaluated" if checks else "rule_error"
                return case.escalate(reason, f"Conditions can't read this: {error}.")
        stopped = case.check_constraints(names, context)
        if stopped is not None:
            return stopped
        case.tried = tried(self._rules, names)
        decided = decide([rule for rule in self._rules if rule.mode == "active"], names)
        if decided is not None:
            return case.by_rule(decided)
        return await self._by_evaluators(case, context)

    async def _by_evaluators(self, case: Case, context: FeedbackContext | None) -> Judgment:
        if not self._evaluators:
            if case.unchecked:
                return case.escalate("constraint_not_evaluated", f"No model judges {ids_of(case.unchecked)}.")
            return case.escalate("no_semantic_evaluator", "No rule matched, and there is no evaluator.")
        hold = self._holds.get(_type(case.goal.goal_type)) or self._holds.get(None)
        if hold == "budget":
            return case.escalate("budget", "The budget for evaluators is spent.")
        calls = [each(case.goal, case.result, context) for each in self._evaluators]
        answers = [
            each for each in await asyncio.gather(*calls, return_exceptions=True) if not isinstance(each, Abstention)
        ]
        verdicts = [each for each in answers if isinstance(each, Judgment)]
        case.signals += [signal for verdict in verdicts for signal in signals_of(verdict)]
        for fault in answers:
            if isinstance(fault, EvaluatorFault):
                return case.escalate(fault.reason, fault.detail).model_copy(update={"outage": fault.outage})
            if isinstance(fault, BaseException):
                if must_end(fault):
                    raise fault
                return case.escalate("model_error", error_text(fault))
        if not verdicts:
            return case.escalate("no_semantic_evaluator", "No evaluator has anything to say of this.")
        if len({verdict.action for verdict in verdicts}) > 1:
            actions = ", ".join(verdict.action for verdict in verdicts)
            lowest = min(verdict.confidence for verdict in verdicts)
            return case.escalate("panel_disagreement", f"The panel says {actions}.", lowest)
        weakest = min(verdicts, key=lambda verdict: verdict.confidence)
        violations = [name for verdict in verdicts for name in verdict.violations]
        goal_type = case.goal.goal_type
        bins = self._bins.get(_type(goal_type), frozenset())
        found = case.by_verdict(weakest, violations, self.threshold(goal_type), bins, hold)
        if self._stronger is None or found.escalation_reason not in THRESHOLD_REASONS:
            return found
        again = await self._stronger._by_evaluators(case, context)
        # It stands in for the one that wasn't sure: what the others are sure of is still said.
        others, least = [each for each in verdicts if each is not weakest], self.threshold(goal_type)
        sure = sorted({each.action for each in others if decides(each.confidence, least, bins)})
        if again.action is JudgmentAction.ACCEPT and set(sure) - {again.action}:
            again = case.escalate("panel_disagreement", f"The panel says {', '.join(sure)}.", weakest.confidence)
        return again.model_copy(update={"asked_again": True})


def _sound(threshold: Any, where: str) -> float:
    number = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if not number or not 0 <= threshold <= ESCALATE_ALL:
        fix = f"use a number from 0 to 1, or {ESCALATE_ALL} to send every verdict to a person"
        short = isinstance(threshold, float | str) or (type(threshold) is int and abs(threshold) < 10**9)
        shown = repr(threshold) if short else f"of type {type(threshold).__name__}"
        raise HiveError.of("HIVE-105", f"{where} is {shown}, and no number from 0 to 1", path=where, fix=fix)
    return float(threshold)


def _type(goal_type: str | None) -> str:
    return goal_type_of(goal_type or "") or UNTYPED
