"""The budget of a run. Running out ends the search, not the run, which goes on with the best config so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


class SearchBudgetExhausted(Exception):
    """`name` is the budget that ran out: evaluations, seconds or max_usd."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class SearchBudget:
    """Configs measured and seconds spent over all processes of a run; `overspent` is whether `max_usd` is reached."""

    max_evaluations: int
    max_seconds: float
    evaluations: int = 0
    seconds_before: float = 0.0
    overspent: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self._started

    def spend(self) -> None:
        """Count one config, before it is measured. Raises: `SearchBudgetExhausted`."""
        if self.evaluations >= self.max_evaluations:
            raise SearchBudgetExhausted("evaluations")
        self._require_time()
        self.evaluations += 1

    def require_means(self) -> None:
        """Raise `SearchBudgetExhausted` where no time or money is left to call a reranker."""
        self._require_time()
        if self.overspent():
            raise SearchBudgetExhausted("max_usd")

    def _require_time(self) -> None:
        if self.seconds >= self.max_seconds:
            raise SearchBudgetExhausted("seconds")
