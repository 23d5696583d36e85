"""The plan of a turn: one route, one strategy, and filters, decided before anything is retrieved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from hive_agents.base.files import AnyCase, Format

Route = Literal["documents.search", "documents.doc_context", "general.help"]
Operator = Literal["eq", "in", "not_in", "gte", "gt", "lte", "lt", "month", "has", "above", "below", "either"]
FilterValue = str | int | float | bool
OPERATOR_SIGNS = {"eq": "=", "in": "=", "not_in": "≠", "gte": "≥", "gt": ">", "lte": "≤", "lt": "<", "has": "~"}
OPERATOR_SIGNS |= {"above": ">", "below": "<", "month": "in month", "either": "="}
"""What an operator is shown as to readers."""
POSITIVE: frozenset[str] = frozenset({"eq", "in"})
BESIDE: frozenset[str] = frozenset({"above", "below"})
"""Operators whose value is the name of another field."""
BY_ROW = BESIDE | {"has", "month", "either"}
"""Operators that are met by what a row holds, and are no conditions of the index."""
_IN_WORDS = {"eq": "", "in": "", "not_in": "not ", "gte": "from ", "gt": "after ", "lte": "until ", "lt": "before "}
_IN_WORDS |= {"has": "with ", "above": "above ", "below": "below ", "month": "in month ", "either": ""}


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
    strategies = {strategy.value.casefold(): strategy for strategy in SearchStrategy}
    return strategies.get(value.strip().casefold(), value) if isinstance(value, str) else value


class DocumentFilter(Format):
    """One demand on a field of a document; `in` and `not_in` take a list, and so does `either`, which fields called the
    same in the other number meet, too; `month` the number of a month of any year, `has` a word or several of a text,
    `above` and `below` the name of a field of the same type that the document has, too.

    >>> DocumentFilter(field="status", op="in", value=["draft", "effective"]).values
    ('draft', 'effective')
    """

    field: str
    op: Annotated[Operator, AnyCase] = "eq"
    value: FilterValue | list[FilterValue]

    @property
    def values(self) -> tuple[FilterValue, ...]:
        return tuple(self.value) if isinstance(self.value, list) else (self.value,)


class RouterDecision(Format):
    """What to do with one question.

    `search_value` is what is searched for, null where nothing is; `question` and `options` ask the reader back.

    >>> decision = RouterDecision(rewritten_query="rotate an API key", strategy="contentonly")
    >>> decision.route, decision.strategy, decision.query
    ('documents.search', <SearchStrategy.CONTENT_ONLY: 'ContentOnly'>, 'rotate an API key')
    """

    route: Route = "documents.search"
    rewritten_query: str
    strategy: Annotated[SearchStrategy, BeforeValidator(_strategy)]
    search_value: str | None = None
    filters: list[DocumentFilter] = []
    reason: str = ""
    question: str | None = None
    options: list[str] = []

    @property
    def query(self) -> str:
        """The words that are searched for."""
        return self.search_value or self.rewritten_query

    @property
    def asked(self) -> str:
        """What an answer is about: the whole question, unless part of it became filters."""
        return self.query if self.filters else self.rewritten_query


class Plan(Format):
    """A planner's whole answer. Anything but exactly one step is no plan that a turn can follow.

    >>> Plan(steps=[RouterDecision(rewritten_query="hello", strategy="nomatch")]).steps[0].strategy
    <SearchStrategy.NO_MATCH: 'NoMatch'>
    """

    steps: Annotated[list[RouterDecision], Field(description="exactly one")]


class FieldTally(Format):
    """What is counted or computed of the documents that meet the filters, for each value of the field `by`, or for each
    pair of values of `by` and `beside`.

    Of the largest and the smallest, and of groups, `most` are told; None is one, and all groups. Of groups, those with
    the largest figure are told first, or with the smallest, where `first` says so. Of dates each `span` is a group.
    """

    of: Literal["count", "values", "sum", "average", "median", "max", "min"] = "count"
    field: str | None = None
    by: str | None = None
    beside: str | None = None
    most: int | None = None
    first: Literal["most", "fewest"] | None = None
    span: Literal["year", "month"] | None = None


@dataclass(frozen=True)
class Routed:
    """A decision, and for `documents.doc_context` the document that it is about.

    `tally` is a figure that is asked for over the listed documents.

    Such a turn is ContentOnly when there is something to look for in the document, else MetadataOnly: it is shown.
    """

    decision: RouterDecision
    doc_id: str | None = None
    tally: FieldTally | None = None


@dataclass(frozen=True)
class PastTurn:
    """An earlier turn; `doc_ids` are its results that the reader may still open, best first, `tally` its figure."""

    text: str
    decision: RouterDecision
    doc_ids: tuple[str, ...] = ()
    tally: FieldTally | None = None


def described(filters: Sequence[DocumentFilter]) -> str:
    """Return filters in words.

    >>> described([DocumentFilter(field="status", value="draft"), DocumentFilter(field="year", op="gte", value=2024)])
    'status draft, year from 2024'
    """
    return ", ".join(f"{f.field} {_IN_WORDS[f.op]}{' or '.join(map(str, f.values))}" for f in filters)
