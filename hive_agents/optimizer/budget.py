"""What a run may spend. Whatever runs out ends the search, never the run: the best so far goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass


class SearchBudgetExhausted(Exception):
    """`name` is the budget that ran out: evaluations or seconds."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class SearchBudget:
    """Configs measured and seconds spent, over all processes that worked on the run."""

    max_evaluations: int
    max_seconds: float
    evaluations: int = 0
    seconds_before: float = 0.0

    def __post_init__(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self._started

    def spend(self) -> None:
        """Count one config. Raises: `SearchBudgetExhausted` before it is measured."""
        if self.evaluations >= self.max_evaluations:
            raise SearchBudgetExhausted("evaluations")
        if self.seconds >= self.max_seconds:
            raise SearchBudgetExhausted("seconds")
        self.evaluations += 1
