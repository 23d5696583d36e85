"""The shapes of what is answered that several parts share, and paging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from pydantic import Field

from hive_agents.errors import Diagnostic, HiveError, NotFound
from hive_agents.files import NAME_PATTERN
from hive_agents.runs import RunRow
from hive_agents.server.api import Query, Value

OPENAI = "/v1/"
"""Below it a server speaks OpenAI's shape."""
T = TypeVar("T")
Limit = Annotated[int, Field(ge=1, le=500)]
ConfigRef = Annotated[str, Field(pattern=NAME_PATTERN, description="The name of a config, or `active`.")]


class PageQuery(Query):
    """`cursor` is the `next_cursor` of the page before."""

    limit: Limit = 50
    cursor: str | None = None


class DiagnosticShape(Value):
    """A diagnostic: what is wrong, where, and how to mend it."""

    code: str
    level: int
    severity: str
    message: str
    file: str | None
    path: str | None
    line: int | None
    fix: str | None


class Problem(Value):
    """application/problem+json (RFC 9457); `code` is that of the first diagnostic."""

    type: str
    title: str
    status: int
    detail: str | None
    code: str | None
    diagnostics: list[DiagnosticShape]

    @classmethod
    def of(cls, status: int, diagnostics: Sequence[Diagnostic] = (), detail: str | None = None) -> Problem:
        """`detail` is the first diagnostic's message, unless something else is said."""
        first = diagnostics[0] if diagnostics else None
        return cls(
            type="about:blank",
            title=HTTPStatus(status).phrase,
            status=status,
            detail=detail or (first.message if first else HTTPStatus(status).description),
            code=first.code if first else None,
            diagnostics=[DiagnosticShape(**one.to_json()) for one in diagnostics],
        )


class OpenAiError(Value):
    """A problem as clients of OpenAI's shape read it; `code` is the problem's."""

    message: str
    type: str
    code: str | None
    param: str | None


class OpenAiProblem(Problem):
    """What is told below `OPENAI`: `error` is the same, where these clients look for it."""

    error: OpenAiError


class RunSummary(Value):
    run_id: str
    thread_id: str
    graph: str
    agent: str | None
    status: str
    tenant: str
    started_at: str
    ended_at: str | None
    node: str | None
    steps: int
    tokens: int
    usd: float
    max_usd: float | None
    stopped_by: str | None
    error: dict[str, Any] | None

    @classmethod
    def of(cls, row: RunRow) -> RunSummary:
        """`max_usd` is what an agent's run may spend, 0 without a limit; null for what has no limit of its own."""
        limits: dict[str, Any] = {}
        with suppress(HiveError):  # a damaged input doesn't hide the row
            limits = row.value.get("limits") or {}
        return cls(agent=row.agent, max_usd=limits.get("usd"), **row.summary)


class Acknowledged(Value):
    """It was done."""

    ok: bool = True


def paged(items: Sequence[T], page: PageQuery, name: Callable[[T], str]) -> tuple[list[T], str | None]:
    """Return the items behind the cursor, and the cursor of the page after; both name an item.

    Raises: HIVE-409 for a cursor of no item.
    """
    start = 0
    if page.cursor is not None:
        places = [place for place, item in enumerate(items) if name(item) == page.cursor]
        if not places:
            raise NotFound.of("HIVE-409", "the cursor leads nowhere any more", fix="begin with the first page")
        start = places[0] + 1
    shown = list(items[start : start + page.limit])
    more = start + page.limit < len(items)
    return shown, name(shown[-1]) if more and shown else None
