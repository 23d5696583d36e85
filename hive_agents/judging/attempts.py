"""How often a result may be sent back before a person has to look."""

from __future__ import annotations

from hive_agents.files import Count, Format
from hive_agents.judging.verdict import EscalationReason, Judgment, JudgmentAction

MAX_RETRIES = 3
MAX_REPLANS = 2


class Attempts(Format):
    """Retries of the present plan, and plans so far; part of a graph's state."""

    retries: Count = 0
    replans: Count = 0

    def after(self, judgment: Judgment) -> tuple[Judgment, Attempts]:
        """The judgment as it holds, and the count that goes with it; a new plan has all its retries.

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
    """The judgment as it holds for a plan's result of this number, from 1 on: no plan has more than its retries.

    >>> again = Judgment(action=JudgmentAction.RETRY, confidence=0.9, reasoning="incomplete")
    >>> [within_bounds(again, attempt).escalation_reason for attempt in (3, 4)]
    [None, 'retries_exhausted']
    """
    if judgment.action is JudgmentAction.RETRY:
        return Attempts(retries=max(0, attempt - 1)).after(judgment)[0]
    if judgment.action is JudgmentAction.REPLAN and attempt > MAX_RETRIES + 1:
        # Who counts so far counts over plans, and then they have been spent.
        return _exhausted(judgment, "replans_exhausted", f"{attempt - 1} attempts")
    return judgment


def _exhausted(judgment: Judgment, reason: EscalationReason, spent: str) -> Judgment:
    why = f"{spent} did not do it. {judgment.reasoning}"
    changes = {"action": JudgmentAction.ESCALATE, "escalation_reason": reason, "reasoning": why}
    return judgment.model_copy(update=changes)
