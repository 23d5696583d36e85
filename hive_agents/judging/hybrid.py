"""The judge: hard constraints and rules, then an evaluator, then a person. No fault ever accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hive_agents.goals import Constraint, Goal
from hive_agents.judging.criteria import score_criteria
from hive_agents.judging.decisions import UNTYPED
from hive_agents.judging.evaluators import Evaluator, EvaluatorFault, evaluator, fingerprint_of, signals_of
from hive_agents.judging.expressions import parse
from hive_agents.judging.operations import ExpressionError
from hive_agents.judging.rules import Decided, EvaluationRule, decide, in_order, names_of, tried
from hive_agents.judging.verdict import EscalationReason, FeedbackContext, Judgment, JudgmentAction, Signal

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

THRESHOLD = 0.7
Hold = Literal["drift", "budget"]
ACCEPT, RETRY, REPLAN, ESCALATE = JudgmentAction


class JudgeProtocol(Protocol):
    """Whatever can judge a result."""

    async def evaluate(self, goal: Goal, result: Any, context: FeedbackContext | None = None) -> Judgment: ...


class HybridJudge:
    """Rules decide at once; else an evaluator does, when it is sure enough; else a person.

    - `llm`: a LangChain chat model, one of ours, or an async function (goal, result, context) -> Judgment.
    - `panel`: further such evaluators; when they don't all choose the same action a person decides.
    - `thresholds`: goal type → confidence from which a verdict stands, before `llm_confidence_threshold`.
    - `holds`: goal type → why its verdicts go to a person for now; with `budget` the evaluator isn't asked at all.
      The key None holds every type. Goals without a type are of the type `untyped`.

    >>> rule = EvaluationRule(id="unsafe", condition="'eval(' in result.get('code', '')", action="escalate")
    >>> judge = HybridJudge(rules=[rule])
    >>> judgment = asyncio.run(judge.evaluate(Goal(id="g", name="G"), {"code": "eval(x)"}))
    >>> judgment.action, judgment.confidence, judgment.rule_id
    (<JudgmentAction.ESCALATE: 'escalate'>, 1.0, 'unsafe')
    """

    def __init__(
        self,
        rules: Iterable[EvaluationRule] = (),
        llm: Any = None,
        llm_confidence_threshold: float = THRESHOLD,
        *,
        panel: Sequence[Any] = (),
        thresholds: Mapping[str, float] | None = None,
        holds: Mapping[str | None, Hold] | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        self._rules: list[EvaluationRule] = []
        self.add_rules(rules)
        self._evaluators: list[Evaluator] = [
            evaluator(found, workspace) for found in (llm, *panel) if found is not None
        ]
        self._threshold, self._thresholds = llm_confidence_threshold, dict(thresholds or {})
        self._holds = dict(holds or {})

    @property
    def rules(self) -> tuple[EvaluationRule, ...]:
        """In the order in which they are asked."""
        return tuple(self._rules)

    def add_rules(self, rules: Iterable[EvaluationRule]) -> None:
        """Raises: ValueError for an id that is there already."""
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

    def threshold(self, goal_type: str | None) -> float:
        return self._thresholds.get(goal_type or UNTYPED, self._threshold)

    async def evaluate(
        self, goal: Goal, result: Any, context: FeedbackContext | None = None, *, attempt: int = 1
    ) -> Judgment:
        case = _Case(goal, result)
        case.scores = await score_criteria(goal, result)
        checks = [constraint for constraint in goal.constraints if constraint.check is not None]
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

    async def _by_evaluators(self, case: _Case, context: FeedbackContext | None) -> Judgment:
        if not self._evaluators:
            if case.unchecked:
                return case.escalate("constraint_not_evaluated", f"No model judges {_ids(case.unchecked)}.")
            return case.escalate("no_semantic_evaluator", "No rule matched, and there is no evaluator.")
        hold = self._holds.get(case.goal.goal_type or UNTYPED) or self._holds.get(None)
        if hold == "budget":
            return case.escalate("budget", "The budget for evaluators is spent.")
        asked = [each(case.goal, case.result, context) for each in self._evaluators]
        found = await asyncio.gather(*asked, return_exceptions=True)
        verdicts = [one for one in found if isinstance(one, Judgment)]
        case.signals += [signal for verdict in verdicts for signal in signals_of(verdict)]
        for fault in found:
            if isinstance(fault, EvaluatorFault):
                return case.escalate(fault.reason, fault.detail)
            if isinstance(fault, Exception):
                return case.escalate("model_error", f"{type(fault).__name__}: {fault}")
            if isinstance(fault, BaseException):
                raise fault
        if len({verdict.action for verdict in verdicts}) > 1:
            actions = ", ".join(verdict.action for verdict in verdicts)
            lowest = min(verdict.confidence for verdict in verdicts)
            return case.escalate("panel_disagreement", f"The panel says {actions}.", lowest)
        weakest = min(verdicts, key=lambda verdict: verdict.confidence)
        violations = [name for verdict in verdicts for name in verdict.violations]
        return case.by_verdict(weakest, violations, self.threshold(case.goal.goal_type), hold)


class _Case:
    """One result on its way to a judgment: what is known of it so far."""

    def __init__(self, goal: Goal, result: Any) -> None:
        self.goal, self.result = goal, result
        self.scores: dict[str, float] = {}
        self.signals: list[Signal] = []
        self.tried: dict[str, bool | None] = {}
        self.violated: list[Constraint] = []
        self.unchecked = [constraint for constraint in goal.constraints if constraint.check is None]

    def check_constraints(self, names: dict[str, Any], context: FeedbackContext | None) -> Judgment | None:
        reported = context.constraints_violated if context is not None else []
        faults = []
        for constraint in self.goal.constraints:
            try:
                well = constraint.check is None or bool(parse(constraint.check).evaluate_plain(names))
            except ExpressionError as error:
                faults.append(f"{constraint.id}: {error}")
                well = True
            if not well or constraint.id in reported:
                self.violated.append(constraint)
        hard = _hard(self.violated)
        if hard:
            return self.escalate("hard_constraint", f"Violated: {_ids(hard)}.", 1.0)
        if faults:
            return self.escalate("constraint_not_evaluated", f"Not evaluated: {'; '.join(faults)}.")
        return None

    def by_rule(self, decided: Decided) -> Judgment:
        rule = decided.rule
        if decided.error is not None:
            why = f'The rule "{rule.id}" raised: {decided.error}.'
            return self.escalate("rule_error", why, rule_id=rule.id)
        why = rule.description or f"The rule {rule.id} matches."
        self.signals.append(Signal(source="rule", action=rule.action, confidence=1.0, detail=why))
        if rule.action is ESCALATE:
            return self.escalate("rule_escalate", why, 1.0, rule_id=rule.id)
        if rule.action is ACCEPT and _hard(self.unchecked):
            why = f'The rule "{rule.id}" accepts, but nobody judged {_ids(_hard(self.unchecked))}.'
            return self.escalate("constraint_not_evaluated", why, rule_id=rule.id)
        return self._judgment(rule.action, 1.0, why, why if rule.action in (RETRY, REPLAN) else None, rule_id=rule.id)

    def by_verdict(self, verdict: Judgment, violations: list[str], threshold: float, hold: Hold | None) -> Judgment:
        """What becomes of the evaluator's verdict; with a panel, of the least sure one."""
        broken = [each for each in self.goal.constraints if each.id in violations and each not in self.violated]
        self.violated += broken
        if verdict.action is not ESCALATE:
            judged = [each.id for each in self.goal.success_criteria if each.metric == "llm_judge"]
            self.scores |= dict.fromkeys(judged, float(verdict.action is ACCEPT))
        sure, why = verdict.confidence, verdict.reasoning
        if _hard(broken):
            return self.escalate("hard_constraint", f"Violated: {_ids(_hard(broken))}. {why}", sure)
        if verdict.action is ESCALATE:
            return self.escalate(verdict.escalation_reason or "low_confidence", why, sure, feedback=verdict.feedback)
        if hold is not None:
            return self.escalate(hold, f"Verdicts of this goal type go to a person for now. {why}", sure)
        if sure < threshold:
            return self.escalate("low_confidence", f"{sure:.2f} is below {threshold:.2f}. {why}", sure)
        if self.goal.success_criteria and not self.scores:
            return self.escalate("constraint_not_evaluated", f"Not one criterion could be evaluated. {why}", sure)
        zero = [each.id for each in self.goal.success_criteria if each.metric != "llm_judge"
                and self.scores.get(each.id) == 0]  # fmt: skip
        if verdict.action is ACCEPT and zero:
            feedback = f"Not met: {', '.join(zero)}."
            return self._judgment(RETRY, sure, f"{feedback} {why}", feedback)
        feedback_needed = verdict.action in (RETRY, REPLAN)
        return self._judgment(verdict.action, sure, why, verdict.feedback or (why if feedback_needed else None))

    def escalate(
        self,
        reason: EscalationReason,
        why: str,
        confidence: float = 0.0,
        *,
        rule_id: str | None = None,
        feedback: str | None = None,
    ) -> Judgment:
        return self._judgment(ESCALATE, confidence, why, feedback, rule_id=rule_id, reason=reason)

    def _judgment(
        self,
        action: JudgmentAction,
        confidence: float,
        why: str,
        feedback: str | None,
        *,
        rule_id: str | None = None,
        reason: EscalationReason | None = None,
    ) -> Judgment:
        return Judgment(
            action=action,
            confidence=confidence,
            reasoning=why,
            feedback=feedback,
            rule_id=rule_id,
            escalation_reason=reason,
            signals=self.signals,
            satisfaction=self._satisfaction(),
            scores=self.scores,
            absent=[each.id for each in self.goal.success_criteria if each.id not in self.scores],
            violations=[constraint.id for constraint in self.violated],
            tried=self.tried,
        )

    def _satisfaction(self) -> float | None:
        scored = [each for each in self.goal.success_criteria if each.id in self.scores]
        if not scored:
            return None
        total = sum(each.weight for each in scored)
        share = sum(each.weight * self.scores[each.id] for each in scored) / total
        penalty = sum(constraint.penalty for constraint in self.violated if constraint.constraint_type == "soft")
        return min(max(share - penalty, 0.0), 1.0)


def _hard(constraints: list[Constraint]) -> list[Constraint]:
    return [constraint for constraint in constraints if constraint.constraint_type == "hard"]


def _ids(constraints: list[Constraint]) -> str:
    return ", ".join(constraint.id for constraint in constraints)
