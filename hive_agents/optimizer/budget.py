"""What a run may spend. Whatever runs out ends the search, never the run: the best so far goes on."""

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
    """Configs measured and seconds spent, over all processes that worked on the run.

    `overspent` says whether a limit of dollars is reached.
    """

    max_evaluations: int
    max_seconds: float
    evaluations: int = 0
    seconds_before: float = 0.0
    overspent: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self._started = time.monotonic()

    @property
    def left(self) -> int:
        """How many more configs may be measured."""
        return max(self.max_evaluations - self.evaluations, 0)

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self._started

    def spend(self) -> None:
        """Count one config. Raises: `SearchBudgetExhausted` before it is measured."""
        if self.evaluations >= self.max_evaluations:
            raise SearchBudgetExhausted("evaluations")
        self._require_time()
        self.evaluations += 1

    def require_means(self) -> None:
        """Raises: `SearchBudgetExhausted` where no time or no money is left to ask a reranker."""
        self._require_time()
        if self.overspent():
            raise SearchBudgetExhausted("max_usd")

    def _require_time(self) -> None:
        if self.seconds >= self.max_seconds:
            raise SearchBudgetExhausted("seconds")
