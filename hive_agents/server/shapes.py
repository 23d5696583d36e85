"""Response bodies that several parts share, and paging."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from pydantic import Field

from hive_agents.access import Principal
from hive_agents.base import Diagnostic, HiveError, NotFound, one_line
from hive_agents.base.files import NAME_PATTERN, FewEntries, Reference, ShortName
from hive_agents.copilot import DocumentFilter
from hive_agents.runs import AGENT_GRAPH, CHAT_GRAPH, RunRow
from hive_agents.server.api import Query, Value

OPENAI = "/v1/"
"""The prefix of the paths of OpenAI's protocol."""
ABOUT = 120
"""Characters of what a run is about."""
T = TypeVar("T")
Limit = Annotated[int, Field(ge=1, le=500)]
SentValue = ShortName | int | float | bool
ConfigRef = Annotated[str, Field(pattern=NAME_PATTERN, description="The name of a config, or `active`.")]


def is_named(search: str, *names: str) -> bool:
    """Return whether one of the names holds what is searched for; a doc_id has "-" where its file has blanks and marks.

    >>> is_named("Offer Letter.md", "hr/offer-letter.md"), is_named("(!)", "hr/offer-letter.md")
    (True, False)
    """
    held, wanted = "\n".join(names).casefold(), search.casefold()
    words = re.sub(r"[\W_]+", " ", wanted).strip()
    return wanted in held or bool(words and words in re.sub(r"[\W_]+", " ", held))


class SentFilter(DocumentFilter):
    """A filter that a client sends."""

    field: ShortName
    value: SentValue | Annotated[list[SentValue], FewEntries]


FilterWords = Annotated[list[ShortName], FewEntries]
"""Filters in the syntax of the command line."""
Pinned = Annotated[list[SentFilter], FewEntries]


class PageQuery(Query):
    """`cursor` is the `next_cursor` of the page before."""

    limit: Limit = 50
    cursor: Reference | None = None


class DiagnosticShape(Value):
    """A diagnostic: what is wrong, where, and how to fix it."""

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
        """Return a problem; its `detail` is the first diagnostic's message by default."""
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
    """A problem as clients of OpenAI's protocol read it; `code` is the problem's."""

    message: str
    type: str
    code: str | None
    param: str | None


class OpenAiProblem(Problem):
    """A problem below `/v1/`: `error` repeats it in OpenAI's format."""

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
    about: str = Field(
        "", description="what it does, in a line: its inputs, its question, or the configs before and after"
    )

    @classmethod
    def of(cls, row: RunRow, reader: Principal) -> RunSummary:
        """Return a run's summary; `max_usd` is an agent's budget, 0 without a limit, None for other graphs.

        What a question is about is told to who asked it.
        """
        limits: dict[str, Any] = {}
        about = ""
        with suppress(HiveError):  # a damaged input doesn't hide the row
            limits = row.value.get("limits") or {}
            about = _about(row, (row.tenant, row.user) == (reader.tenant, reader.user))
        return cls(agent=row.agent, max_usd=limits.get("usd"), about=about, **row.summary)


def _about(row: RunRow, own: bool) -> str:
    """Raises: HIVE-407 where the run's input or result is damaged."""
    if row.graph == AGENT_GRAPH:
        values = row.value.get("input") or {}
        texts = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values.values()
        )
        return one_line(" · ".join(texts), ABOUT)
    if row.graph == CHAT_GRAPH:
        return one_line((row.value.get("request") or {}).get("text", ""), ABOUT) if own else ""
    found, names = row.result or {}, []
    for side in ("baseline", "best"):
        names += [config["config"] for config in [found.get(side)] if config]
    return " → ".join(dict.fromkeys(names))


class Acknowledged(Value):
    """The operation succeeded."""

    ok: bool = True


def stale_cursor() -> NotFound:
    """Return the error for a cursor of no item."""
    return NotFound.of("HIVE-409", "the cursor leads nowhere any more", fix="begin with the first page")


def paged(items: Sequence[T], page: PageQuery, name: Callable[[T], str]) -> tuple[list[T], str | None]:
    """Return the page after the cursor, and the cursor of the next one; a cursor is the `name` of the last item before.

    Raises: HIVE-409 for a cursor of no item.
    """
    start = 0
    if page.cursor is not None:
        places = [place for place, item in enumerate(items) if name(item) == page.cursor]
        if not places:
            raise stale_cursor()
        start = places[0] + 1
    shown = list(items[start : start + page.limit])
    more = start + page.limit < len(items)
    return shown, name(shown[-1]) if more and shown else None
