"""What a turn will do: one route, one strategy, decided before anything is retrieved."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from hive_agents.files import Format

Route = Literal["documents.search", "documents.doc_context", "general.help"]
Operator = Literal["eq", "in", "not_in", "gte", "gt", "lte", "lt"]
FilterValue = str | int | float | bool
POSITIVE: frozenset[str] = frozenset({"eq", "in"})


class SearchStrategy(StrEnum):
    """How a question is answered; a turn has exactly one.

    >>> SearchStrategy("ContentOnly").retrieves, SearchStrategy.NO_MATCH.retrieves
    (True, False)
    """

    METADATA_ONLY = "MetadataOnly"
    CONTENT_ONLY = "ContentOnly"
    HYBRID = "Hybrid"
    NO_MATCH = "NoMatch"
    NEEDS_CLARIFICATION = "NeedsClarification"

    @property
    def retrieves(self) -> bool:
        return self not in (SearchStrategy.NO_MATCH, SearchStrategy.NEEDS_CLARIFICATION)


def _strategy(value: object) -> object:
    known = {strategy.value.casefold(): strategy for strategy in SearchStrategy}
    return known.get(value.strip().casefold(), value) if isinstance(value, str) else value


class DocumentFilter(Format):
    """One demand on a field of a document; `in` and `not_in` take a list.

    >>> DocumentFilter(field="status", op="in", value=["draft", "effective"]).values
    ('draft', 'effective')
    """

    field: str
    op: Operator = "eq"
    value: FilterValue | list[FilterValue]

    @property
    def values(self) -> tuple[FilterValue, ...]:
        return tuple(self.value) if isinstance(self.value, list) else (self.value,)


class RouterDecision(Format):
    """What to do with one question.

    `search_value` is what is searched for, null where nothing is; `question` and `options` ask the reader back.
    """

    route: Route = "documents.search"
    rewritten_query: str
    strategy: Annotated[SearchStrategy, BeforeValidator(_strategy)]
    search_value: str | None = None
    filters: list[DocumentFilter] = []
    reason: str = ""
    question: str | None = None
    options: list[str] = []


class Plan(Format):
    """A planner's whole answer. Anything but exactly one step is no plan that a turn can follow.

    >>> Plan(steps=[RouterDecision(rewritten_query="hello", strategy="nomatch")]).steps[0].strategy
    <SearchStrategy.NO_MATCH: 'NoMatch'>
    """

    steps: Annotated[list[RouterDecision], Field(description="exactly one")]
