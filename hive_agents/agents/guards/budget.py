"""Budgets of a run, checked before every call and kept as plain JSON."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

from hive_agents.base.files import Amount, Count, Format, load_value
from hive_agents.models import Usage
from hive_agents.runs import Limits as Limits

Measure = Literal["steps", "tool_calls", "tokens", "usd", "seconds"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
WARN_AT = 0.8


class BudgetSpent(Format):
    """What a run has used up; `unpriced` counts model calls whose price isn't known, `estimated` those whose server
    counted no tokens."""

    steps: Count = 0
    tool_calls: Count = 0
    tokens: Count = 0
    usd: Amount = 0.0
    seconds: Amount = 0.0
    unpriced: Count = 0
    estimated: Count = 0


class BudgetExhausted(Exception):
    """A budget is used up. A run that ends so has not succeeded; `measure` is the budget's name.

    `scope` is the key of the delegation whose budget it is, None for the run's; `needed` is the limit that would have
    been high enough.
    """

    def __init__(self, measure: Measure, message: str, scope: str | None = None, *, needed: float = 0.0) -> None:
        super().__init__(message)
        self.measure: Measure = measure
        self.scope = scope
        self.needed = needed


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
        """Count what was used, also beyond a limit. Raises: ValueError for an amount below 0."""
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
            estimated=before.estimated + usage.estimated,
        )

    def left(self, measure: Measure) -> float | None:
        """Return what is left of a measure; None without a limit."""
        limit = getattr(self.limits, measure)
        return max(0.0, limit - getattr(self.spent, measure)) if limit else None

    def raise_limit(self, measure: Measure, limit: float) -> None:
        """Raise a limit to the given one; a lower one changes nothing."""
        if limit > getattr(self.limits, measure):
            value = self.limits.model_dump() | {measure: type(getattr(self.limits, measure))(limit)}
            self.limits = Limits.model_validate(value)

    def doubled(self, measure: Measure, needed: float = 0.0) -> float:
        """Return the limit of a measure, doubled until it exceeds what is spent and reaches what is needed.

        >>> Budget(Limits(tokens=50), BudgetSpent(tokens=120)).doubled("tokens", 300)
        400
        """
        limit: float = getattr(self.limits, measure)
        while True:
            limit *= 2
            if limit > getattr(self.spent, measure) and limit >= needed:
                return limit

    def exhausted(self, *, steps: int = 0, tool_calls: int = 0, tokens: int = 0, rate: float = 0.0) -> Measure | None:
        """Return the first budget that has no room for so much more; None where all have.

        Seconds have room as long as some are left, tokens and dollars where `tokens` more fit; a token counts with the
        dollars that one has cost so far, and with `rate` at least. A limit of dollars is exhausted once the price of a
        call isn't known.

        >>> Budget(Limits(usd=0.01)).exhausted(tokens=20_000, rate=1e-6)
        'usd'
        """
        amounts = self._wanted(steps, tool_calls, tokens, rate)
        for measure in MEASURES:
            limit, spent = getattr(self.limits, measure), getattr(self.spent, measure)
            if not limit:
                continue
            full = spent + amounts.get(measure, 0) > limit
            if measure not in ("steps", "tool_calls"):
                full = full or spent >= limit or (measure == "usd" and self.spent.unpriced > 0)
            if full:
                return measure
        return None

    def require(self, *, steps: int = 0, tool_calls: int = 0, tokens: int = 0, rate: float = 0.0) -> None:
        """Raise BudgetExhausted with the budget's name; to be called before every step, model call and tool call."""
        measure = self.exhausted(steps=steps, tool_calls=tool_calls, tokens=tokens, rate=rate)
        if measure is not None:
            limit, spent = getattr(self.limits, measure), getattr(self.spent, measure)
            why = f"{spent:g} of {limit:g} used"
            if spent < limit and tokens and measure in ("tokens", "usd"):
                why += f", and the next call needs about {tokens:g} tokens"
            if measure == "usd" and self.spent.unpriced and spent < limit:
                why = "the price of a model call isn't known"
            needed = spent + self._wanted(steps, tool_calls, tokens, rate).get(measure, 0)
            raise BudgetExhausted(measure, f"the budget of {measure} is used up: {why}", needed=needed)

    def _wanted(self, steps: int, tool_calls: int, tokens: int, rate: float) -> dict[Measure, float]:
        if self.spent.tokens:
            rate = max(rate, self.spent.usd / self.spent.tokens)
        return {"steps": steps, "tool_calls": tool_calls, "tokens": tokens, "usd": tokens * rate}

    def nearly(self) -> list[Measure]:
        """Return the budgets of which 80 % or more are spent."""
        return [
            measure
            for measure in MEASURES
            if getattr(self.limits, measure) and getattr(self.spent, measure) >= WARN_AT * getattr(self.limits, measure)
        ]

    def to_json(self) -> dict[str, Any]:
        return {"limits": self.limits.model_dump(), "spent": self.spent.model_dump()}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the budget that `to_json` stored. Raises: HiveError for any other text: no budget is no limit."""
        stored = load_value(_Stored, value, "budget")
        return cls(stored.limits, stored.spent)


class _Stored(Format):
    limits: Limits
    spent: BudgetSpent
