"""Budgets of a run: counted, kept as plain JSON, and asked before every call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from hive_agents.files import Amount, Count, Format, load_value
from hive_agents.llm import Usage

if TYPE_CHECKING:
    from hive_agents.settings import Runs

Measure = Literal["steps", "tool_calls", "tokens", "usd", "seconds"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
WARN_AT = 0.8


class Limits(Format):
    """What a run may use up; 0 means no limit."""

    steps: Count = 0
    tool_calls: Count = 0
    tokens: Count = 0
    usd: Amount = 0.0
    seconds: Amount = 0.0

    @classmethod
    def of(cls, runs: Runs, *, tool_calls: int = 0, seconds: float = 0.0) -> Self:
        """The limits that the settings set for a run."""
        return cls(
            steps=runs.max_steps, tokens=runs.max_tokens, usd=runs.max_usd, tool_calls=tool_calls, seconds=seconds
        )


class BudgetSpent(Format):
    """What a run has used up; `unpriced` counts model calls whose price isn't known."""

    steps: Count = 0
    tool_calls: Count = 0
    tokens: Count = 0
    usd: Amount = 0.0
    seconds: Amount = 0.0
    unpriced: Count = 0


class BudgetExhausted(Exception):
    """A budget is used up. A run that ends so has not succeeded; `measure` is the budget's name."""

    def __init__(self, measure: Measure, message: str) -> None:
        super().__init__(message)
        self.measure: Measure = measure


class Budget:
    """The limits of one run and what it has spent.

    >>> budget = Budget(Limits(tool_calls=2))
    >>> budget.spend(tool_calls=1)
    >>> budget.exhausted(tool_calls=1), budget.exhausted(tool_calls=2)
    (None, 'tool_calls')
    """

    def __init__(self, limits: Limits, spent: BudgetSpent | None = None) -> None:
        self.limits = limits
        self.spent = spent or BudgetSpent()

    def spend(
        self,
        *,
        steps: int = 0,
        tool_calls: int = 0,
        seconds: float = 0.0,
        usage: Usage | None = None,
    ) -> None:
        """Count what was used, also past a limit: it happened. Raises: ValueError for an amount below 0."""
        usage = usage or Usage()
        if min(steps, tool_calls, seconds) < 0 or seconds != seconds:
            raise ValueError("nothing that was spent comes back")
        before = self.spent
        self.spent = BudgetSpent(
            steps=before.steps + steps,
            tool_calls=before.tool_calls + tool_calls,
            tokens=before.tokens + usage.input_tokens + usage.output_tokens,
            usd=before.usd + usage.usd,
            seconds=before.seconds + seconds,
            unpriced=before.unpriced + (not usage.priced),
        )

    def exhausted(self, *, steps: int = 0, tool_calls: int = 0) -> Measure | None:
        """The first budget that leaves no room for so much more; None where all do.

        Tokens, dollars and seconds leave room as long as some are left. Where dollars are limited and a call's price
        isn't known, they are exhausted: they can't be kept to.
        """
        wanted = {"steps": steps, "tool_calls": tool_calls}
        for measure in MEASURES:
            limit, spent = getattr(self.limits, measure), getattr(self.spent, measure)
            if not limit:
                continue
            if measure in wanted:
                full = spent + wanted[measure] > limit
            else:
                full = spent >= limit or (measure == "usd" and self.spent.unpriced > 0)
            if full:
                return measure
        return None

    def require(self, *, steps: int = 0, tool_calls: int = 0) -> None:
        """Raises: BudgetExhausted that names the budget; call it before every step, model call and tool call."""
        measure = self.exhausted(steps=steps, tool_calls=tool_calls)
        if measure is not None:
            limit, spent = getattr(self.limits, measure), getattr(self.spent, measure)
            why = f"{spent:g} of {limit:g} used"
            if measure == "usd" and self.spent.unpriced and spent < limit:
                why = "the price of a model call isn't known"
            raise BudgetExhausted(measure, f"the budget of {measure} is used up: {why}")

    def nearly(self) -> list[Measure]:
        """The budgets of which 80 % or more are spent."""
        return [
            measure
            for measure in MEASURES
            if getattr(self.limits, measure) and getattr(self.spent, measure) >= WARN_AT * getattr(self.limits, measure)
        ]

    def to_json(self) -> dict[str, Any]:
        return {"limits": self.limits.model_dump(), "spent": self.spent.model_dump()}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """What `to_json` gave. Raises: HiveError for anything else: a damaged budget is no unlimited one."""
        stored = load_value(_Stored, value, "budget")
        return cls(stored.limits, stored.spent)


class _Stored(Format):
    limits: Limits
    spent: BudgetSpent
