"""The seam for rerankers: a relevance for each (query, text), from whatever model there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    @property
    def model_id(self) -> str: ...

    def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        """A relevance for each text, higher is better, comparable over queries."""
