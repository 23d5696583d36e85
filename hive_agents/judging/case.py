"""The evaluation of one result: its scores, signals and violations, and the judgment that follows from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

from hive_agents.goals import Constraint, Goal
from hive_agents.goals.expressions import ExpressionError
from hive_agents.judging.decisions import decides, storable
from hive_agents.judging.rules import Decided
from hive_agents.judging.verdict import EscalationReason, FeedbackContext, Judgment, JudgmentAction, Signal

HoldReason = Literal["drift", "budget"]
ACCEPT, RETRY, REPLAN, ESCALATE = JudgmentAction


class Case:
    """The state of one result's evaluation."""

    def __init__(self, goal: Goal, result: Any) -> None:
        self.goal, self.result = goal, result
        self.scores: dict[str, float] = {}
        self.signals: list[Signal] = []
        self.tried: dict[str, bool | None] = {}
        self.violated: list[Constraint] = []
        self.unchecked = [constraint for constraint in goal.constraints if constraint.check is None]

    def check_constraints(self, names: dict[str, Any], context: FeedbackContext | None) -> Judgment | None:
        reported, unknown = self._constraints(context.constraints_violated if context is not None else [])
        faults = []
        for constraint in self.goal.constraints:
            condition = None if constraint.of_calls else constraint.condition  # calls were asked about before each
            try:
                well = condition is None or bool(condition.evaluate_plain(names))
            except ExpressionError as error:
                faults.append(f"{constraint.id}: {error}")
                well = True
            if not well or constraint in reported:
                self.violated.append(constraint)
        hard = _hard(self.violated)
        if hard:
            return self.escalate("hard_constraint", f"Violated: {ids_of(hard)}.", 1.0)
        if faults:
            return self.escalate("constraint_not_evaluated", f"Not evaluated: {'; '.join(faults)}.")
        if unknown:
            return self.escalate("constraint_not_evaluated", f"Violated, and not known here: {', '.join(unknown)}.")
        return None

    def _constraints(self, named: Sequence[str]) -> tuple[list[Constraint], list[str]]:
        """Return the goal's constraints of these names, in any spelling, and the names that match none."""
        keys = {_key(name): name for name in named}
        meant = [constraint for constraint in self.goal.constraints if _key(constraint.id) in keys]
        known = {_key(constraint.id) for constraint in meant}
        return meant, [repr(name[:40]) for key, name in keys.items() if key not in known]

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
            why = f'The rule "{rule.id}" accepts, but nobody judged {ids_of(_hard(self.unchecked))}.'
            return self.escalate("constraint_not_evaluated", why, rule_id=rule.id)
        return self._judgment(rule.action, 1.0, why, why if rule.action in (RETRY, REPLAN) else None, rule_id=rule.id)

    def by_verdict(
        self,
        verdict: Judgment,
        violations: list[str],
        threshold: float,
        bins: Collection[float],
        hold: HoldReason | None,
    ) -> Judgment:
        """Return the judgment that follows from the evaluator's verdict; of a panel, from the least confident one."""
        named, unknown = self._constraints(violations)
        broken = [each for each in named if each not in self.violated]
        self.violated += broken
        if verdict.action is not ESCALATE:
            judged = [each.id for each in self.goal.success_criteria if each.metric == "llm_judge"]
            self.scores |= dict.fromkeys(judged, float(verdict.action is ACCEPT))
        sure, why = verdict.confidence, verdict.reasoning
        if _hard(broken):
            return self.escalate("hard_constraint", f"Violated: {ids_of(_hard(broken))}. {why}", sure)
        if unknown:
            missing = f"The verdict names violations of no known constraint: {', '.join(unknown)}."
            return self.escalate("constraint_not_evaluated", f"{missing} {why}", sure)
        if verdict.action is ESCALATE:
            return self.escalate(verdict.escalation_reason or "low_confidence", why, sure, feedback=verdict.feedback)
        if hold is not None:
            return self.escalate(hold, f"Verdicts of this goal type go to a person for now. {why}", sure)
        if not decides(sure, threshold, bins):
            return self.escalate("low_confidence", f"{sure:.12g} is below {threshold:.12g}. {why}", sure)
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
            reasoning=storable(why),
            feedback=None if feedback is None else storable(feedback),
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
        most = max(each.weight for each in scored)  # as shares of it, weights can't add up to infinity
        total = sum(each.weight / most for each in scored)
        share = sum(each.weight / most * self.scores[each.id] for each in scored) / total
        penalty = sum(constraint.penalty for constraint in self.violated if constraint.constraint_type == "soft")
        return min(max(share - penalty, 0.0), 1.0)


def _key(name: str) -> str:
    """Return an id's normal form, as models vary the spelling: NO_PII and "no pii" are no_pii."""
    return "".join(letter for letter in name.casefold() if letter.isalnum()) or name


def _hard(constraints: list[Constraint]) -> list[Constraint]:
    return [constraint for constraint in constraints if constraint.constraint_type == "hard"]


def ids_of(constraints: list[Constraint]) -> str:
    return ", ".join(constraint.id for constraint in constraints)
