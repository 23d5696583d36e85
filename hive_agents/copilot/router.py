"""The deterministic router: what a turn will do, decided by rules alone, the same for the same words."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Sequence
from functools import cache

from hive_agents.copilot.follow_up import Resolved, refers_to_result, resolve
from hive_agents.copilot.language import clean, language, pattern, spoken, words
from hive_agents.copilot.plan import DocumentFilter, PastTurn, Routed, RouterDecision, SearchStrategy, described
from hive_agents.copilot.reading import read
from hive_agents.copilot.vocabulary import Vocabulary

_MOST_WORDS = 15
"""Words of a greeting, or of a question about the copilot."""
_CLOSE = " ,.!?–-"


def route(
    text: str, vocabulary: Vocabulary, *, reader: str, today: datetime.date, history: Sequence[PastTurn] = ()
) -> Routed:
    """Return what to do with a message; never raises, whatever the text.

    `reader` is who "my" means; `history` is oldest first. A word filters only as a value that `vocabulary` has, and
    only where the sentence speaks of documents: beside a word for documents, a field's name or a preposition that goes
    with the field, after "only" or "not", or alone. In a question about content it is a word like others.
    """
    asked = clean(text)
    core = without_politeness(asked)
    messages = (spoken(asked), spoken(core))
    if any(map(_asks_for_help, messages)):
        return _nothing(asked, "asks what the copilot can do", help_=True)
    if _is_emoji(asked) or _is_sum(core) or any(map(_is_small_talk, messages)):
        return _nothing(asked, "small talk: nothing to look for")
    resolved = resolve(core, vocabulary, reader=reader, today=today, history=history)
    if resolved is not None:
        return _followed(asked, resolved)
    if refers_to_result(core) and len(words(core)) <= 5:
        return _unclear(asked, vocabulary)
    reading = read(core, vocabulary, reader=reader, today=today)
    filters = reading.filters
    if reading.content:
        reason = "content and " + described(filters) if filters else "a question about content"
        return _search(asked, reading.search or core, filters, reason)
    if filters or reading.lists:
        reason = f"only {described(filters)}" if filters else "asks for documents, newest first"
        return _search(asked, None, filters, reason)
    return _unclear(asked, vocabulary)


def without_politeness(text: str) -> str:
    """Return a message without what is said to be polite.

    >>> without_politeness("Hi, could you please tell me how pairing works?")
    'how pairing works?'
    """
    for _ in range(6):
        found = pattern("messages", "politeness").match(text)
        if found is None or not found.end() or not text[found.end() :].strip(" ?!.,"):
            break
        text = text[found.end() :]
    shorter = pattern("messages", "politeness_after").sub("", text.rstrip(_CLOSE))
    shorter = shorter.rstrip(_CLOSE) if shorter != text.rstrip(_CLOSE) else text
    return (shorter if any(sign.isalnum() for sign in shorter) else text).strip()


def _is_sum(text: str) -> bool:
    """
    >>> _is_sum("what is 2 + 2?"), _is_sum("2025-03")
    (True, False)
    """
    return len(text) < 60 and bool(pattern("messages", "sum").match(text)) and not re.match(r"\d{4}-\d\d", text)


def _is_small_talk(message: str) -> bool:
    """Whether a message greets, thanks, or chats about anything but documents."""
    if message.count(" ") >= _MOST_WORDS:
        return False
    plain = re.sub(r" ('s|'re)\b", r"\1", message) + " "
    phrases, speaks = _small_talk()
    return bool((phrases.fullmatch(plain) and speaks.search(plain)) or pattern("messages", "chatter").search(message))


@cache
def _small_talk() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of nothing but small talk, and of one phrase of it that isn't a mere filler."""
    phrases, fillers = (language("en")["messages"][name] for name in ("small_talk", "small_talk_between"))
    return re.compile(rf"(?:(?:{phrases}|{fillers})\s)+", re.X), re.compile(rf"(?:^|\s)(?:{phrases})\s", re.X)


def _asks_for_help(message: str) -> bool:
    """Whether the copilot itself is meant: what it can do, how it is used."""
    return message.count(" ") < _MOST_WORDS and bool(pattern("messages", "help").search(message))


def _is_emoji(text: str) -> bool:
    """Whether a message is emoji alone; punctuation isn't."""
    return not any(sign.isalnum() for sign in text) and any(unicodedata.category(sign) == "So" for sign in text)


def _followed(asked: str, resolved: Resolved) -> Routed:
    search, filters = resolved.search or None, resolved.filters
    if resolved.choices is not None:
        decision = RouterDecision(
            rewritten_query=asked,
            strategy=SearchStrategy.NEEDS_CLARIFICATION,
            reason=resolved.reason,
            question="There is no such result. Which one do you mean?",
            options=[f"result {rank}" for rank in range(1, min(resolved.choices, 4) + 1)],
        )
        return Routed(decision)
    if resolved.doc_id is not None:
        found = _search(search or asked, search, [], resolved.reason).decision
        return Routed(found.model_copy(update={"route": "documents.doc_context"}), resolved.doc_id)
    whole = f"{search or 'documents'} ({described(filters)})" if filters else search or asked
    return _search(whole, search, filters, resolved.reason)


def _search(asked: str, search: str | None, filters: list[DocumentFilter], reason: str) -> Routed:
    """Return the search for these words within these filters."""
    strategy = SearchStrategy.METADATA_ONLY
    if search is not None:
        strategy = SearchStrategy.HYBRID if filters else SearchStrategy.CONTENT_ONLY
    decision = RouterDecision(
        rewritten_query=asked, strategy=strategy, search_value=search, filters=filters, reason=reason
    )
    return Routed(decision)


def _nothing(asked: str, reason: str, help_: bool = False) -> Routed:
    decision = RouterDecision(rewritten_query=asked, strategy=SearchStrategy.NO_MATCH, reason=reason)
    return Routed(decision.model_copy(update={"route": "general.help"}) if help_ else decision)


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
