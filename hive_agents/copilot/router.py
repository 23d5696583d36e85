"""The deterministic router: what a turn will do, decided by rules alone, the same for the same words."""

from __future__ import annotations

import datetime
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from hive_agents.copilot.follow_up import PastTurn, Resolved, refers_to_result, resolve
from hive_agents.copilot.intents import asks_for_help, is_small_talk, is_sum, without_politeness
from hive_agents.copilot.plan import DocumentFilter, RouterDecision, SearchStrategy
from hive_agents.copilot.reading import Reading, read
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.copilot.wording import clean, words

__all__ = ["PastTurn", "Routed", "route"]

_OPERATORS = {"eq": "", "in": "", "not_in": "not ", "gte": "from ", "gt": "after ", "lte": "until ", "lt": "before "}


@dataclass(frozen=True)
class Routed:
    """A decision, and for `documents.doc_context` the document that was pointed at.

    Such a turn is ContentOnly when there is something to look for in the document, else MetadataOnly: it is shown.
    """

    decision: RouterDecision
    doc_id: str | None = None


def route(
    text: str, vocabulary: Vocabulary, *, reader: str, today: datetime.date, history: Sequence[PastTurn] = ()
) -> Routed:
    """Never raises, whatever the text. `reader` is who "my" means; `history` is oldest first.

    A word filters only as a value that `vocabulary` has, and only where the sentence speaks of documents: beside a word
    for documents, a field's name or a preposition that goes with the field, after "only" or "not", or alone. In a
    question about content it is a word like others.
    """
    asked = clean(text)
    spoken = " ".join(word.lower for word in words(asked))
    core = without_politeness(asked)
    plain = " ".join(word.lower for word in words(core))
    if asks_for_help(plain) or asks_for_help(spoken):
        return _nothing(asked, "asks what the copilot can do", help_=True)
    if _is_signs(asked) or is_sum(core) or is_small_talk(spoken) or is_small_talk(plain):
        return _nothing(asked, "small talk: nothing to look for")
    resolved = resolve(core, vocabulary, reader=reader, today=today, history=history)
    if resolved is not None:
        return _followed(asked, resolved)
    if refers_to_result(core) and len(words(core)) <= 5:
        return _unclear(asked, vocabulary)
    return _standing_alone(asked, core, read(core, vocabulary, reader=reader, today=today), vocabulary)


def _standing_alone(asked: str, core: str, reading: Reading, vocabulary: Vocabulary) -> Routed:
    filters, search = reading.filters, reading.search
    if reading.content and filters:
        return _search(asked, SearchStrategy.HYBRID, search, filters, "content and " + described(filters))
    if reading.content:
        return _search(asked, SearchStrategy.CONTENT_ONLY, search or core, [], "a question about content")
    if filters:
        return _search(asked, SearchStrategy.METADATA_ONLY, None, filters, "only " + described(filters))
    if reading.lists:
        return _search(asked, SearchStrategy.METADATA_ONLY, None, [], "asks for documents, newest first")
    return _unclear(asked, vocabulary)


def _followed(asked: str, resolved: Resolved) -> Routed:
    search, filters = resolved.search or None, resolved.filters
    if resolved.choices is not None:
        return Routed(
            RouterDecision(
                rewritten_query=asked,
                strategy=SearchStrategy.NEEDS_CLARIFICATION,
                reason=resolved.reason,
                question="There is no such result. Which one do you mean?",
                options=[f"result {rank}" for rank in range(1, min(resolved.choices, 4) + 1)],
            )
        )
    if resolved.doc_id is not None:
        strategy = SearchStrategy.CONTENT_ONLY if search else SearchStrategy.METADATA_ONLY
        decision = RouterDecision(
            route="documents.doc_context",
            rewritten_query=search or asked,
            strategy=strategy,
            search_value=search,
            reason=resolved.reason,
        )
        return Routed(decision, resolved.doc_id)
    if filters and search:
        strategy = SearchStrategy.HYBRID
    else:
        strategy = SearchStrategy.CONTENT_ONLY if search else SearchStrategy.METADATA_ONLY
    whole = f"{search or 'documents'} ({described(filters)})" if filters else search or asked
    return _search(whole, strategy, search, filters, resolved.reason)


def described(filters: Sequence[DocumentFilter]) -> str:
    """
    >>> described([DocumentFilter(field="status", value="draft"), DocumentFilter(field="year", op="gte", value=2024)])
    'status draft, year from 2024'
    """
    return ", ".join(f"{f.field} {_OPERATORS[f.op]}{' or '.join(map(str, f.values))}" for f in filters)


def _search(
    asked: str, strategy: SearchStrategy, search: str | None, filters: list[DocumentFilter], reason: str
) -> Routed:
    return Routed(
        RouterDecision(rewritten_query=asked, strategy=strategy, search_value=search, filters=filters, reason=reason)
    )


def _nothing(asked: str, reason: str, help_: bool = False) -> Routed:
    return Routed(
        RouterDecision(
            route="general.help" if help_ else "documents.search",
            rewritten_query=asked,
            strategy=SearchStrategy.NO_MATCH,
            reason=reason,
        )
    )


def _unclear(asked: str, vocabulary: Vocabulary) -> Routed:
    options = vocabulary.examples()
    offered = f" For example: {', '.join(options)}." if options else ""
    return Routed(
        RouterDecision(
            rewritten_query=asked,
            strategy=SearchStrategy.NEEDS_CLARIFICATION,
            reason="too little to look for",
            question=f"What are you looking for: which topic, or which kind of document?{offered}",
            options=options,
        )
    )


def _is_signs(text: str) -> bool:
    """Whether a message is emoji alone; punctuation isn't."""
    return (
        bool(text) and not any(sign.isalnum() for sign in text) and any(unicodedata.category(s) == "So" for s in text)
    )
