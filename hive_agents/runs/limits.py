"""Limits of a run's resources: from the settings, its agent's file and its trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from hive_agents.base.files import Amount, Count, Format

if TYPE_CHECKING:
    from hive_agents.workspace.settings import keys


class Limits(Format):
    """Limits of a run's resources; 0 means no limit.

    >>> Limits(steps=200, usd=1.0).within(Limits(steps=50, tokens=9))
    Limits(steps=50, tool_calls=0, tokens=9, usd=1.0, seconds=0.0)
    """

    steps: Count = 0
    tool_calls: Count = 0
    tokens: Count = 0
    usd: Amount = 0.0
    seconds: Amount = 0.0

    @classmethod
    def of(cls, runs: keys.Runs, *, tool_calls: int = 0, seconds: float = 0.0) -> Self:
        """Return the limits of the settings, unless overridden."""
        return cls(
            steps=runs.max_steps,
            tokens=runs.max_tokens,
            usd=runs.max_usd,
            tool_calls=tool_calls or runs.max_tool_calls,
            seconds=seconds or runs.max_seconds,
        )

    def within(self, other: Limits | None) -> Self:
        """Return the stricter of both limits for each measure."""
        if other is None:
            return self
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in type(self).model_fields}
        return type(self)(**{name: min(pair) if all(pair) else max(pair) for name, pair in pairs.items()})
