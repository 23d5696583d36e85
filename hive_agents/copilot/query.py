"""A single search without a conversation, ranked, gated and rendered as in a turn."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hive_agents.access import Principal
from hive_agents.base import HiveError
from hive_agents.base.files import require_short
from hive_agents.copilot.notices import absence
from hive_agents.copilot.plan import DocumentFilter, RouterDecision, SearchStrategy
from hive_agents.copilot.reply import result_rows, rows_of
from hive_agents.copilot.session import Request, TurnSession
from hive_agents.copilot.steps import run_search
from hive_agents.index import StaleIndex
from hive_agents.ranking import SearchEngine
from hive_agents.workspace import Workspace

TRIES = 5


class SearchReply(NamedTuple):
    """Results as a reply shows them, and what has to be said beside them."""

    results: list[dict[str, Any]]
    notice: str | None


async def search(
    workspace: Workspace,
    reader: Principal,
    text: str,
    filters: Sequence[DocumentFilter] = (),
    *,
    engine: SearchEngine | None = None,
    unfold: bool = False,
) -> SearchReply:
    """Return the results of the active config for a text, with `unfold` more of each; nothing is planned or recorded.

    Raises: HIVE-409 for an empty text, HIVE-105 for one that is too long; HIVE-206 to 208 for filters, also on a hidden
    value; HIVE-402 where the index changes during every try.
    """
    for _ in range(TRIES):
        with suppress(StaleIndex):  # documents changed meanwhile
            return await _search_once(workspace, reader, text, filters, engine or SearchEngine(workspace), unfold)
    raise HiveError.of("HIVE-402", "the index keeps changing under the search", fix="search again in a moment")


async def _search_once(
    workspace: Workspace,
    reader: Principal,
    text: str,
    filters: Sequence[DocumentFilter],
    engine: SearchEngine,
    unfold: bool,
) -> SearchReply:
    require_short(text)
    if not text.strip():
        raise HiveError.of("HIVE-409", "there is nothing to search for", fix="give some words", exit_code=2)
    request = Request(text=text, pinned=list(filters))
    session = TurnSession(workspace, reader, uuid.uuid4().hex, request, engine=engine)
    strategy = SearchStrategy.HYBRID if filters else SearchStrategy.CONTENT_ONLY
    decision = RouterDecision(rewritten_query=text, strategy=strategy, search_value=text, filters=request.pinned)
    results = await run_search(session, decision)
    shown = result_rows(session.index, decision, results, rows_of(session.index, results), unfold=unfold)
    return SearchReply(shown, absence(session))
