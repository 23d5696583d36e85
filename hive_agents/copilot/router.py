"""The deterministic router: plans a turn by rules, from the message and the turns before it."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from hive_agents.copilot.asking import telling_words, unnamed
from hive_agents.copilot.figures import names_cells
from hive_agents.copilot.foreign import in_terms
from hive_agents.copilot.forms import is_version
from hive_agents.copilot.language import clean, language, pattern, spoken, word_list, word_table, words
from hive_agents.copilot.plan import BESIDE, DocumentFilter, PastTurn, Routed, RouterDecision, SearchStrategy, described
from hive_agents.copilot.reading import read
from hive_agents.copilot.roles import role_of
from hive_agents.copilot.sentence import NEGATIONS, SentenceKind, asks_how_many
from hive_agents.copilot.tallies import tally_in
from hive_agents.copilot.vocabulary import Vocabulary

_MOST_WORDS = 15
"""The most words of a greeting, or of a question about the copilot."""
_LONGEST_FOLLOW_UP = 14
_MOST_UNNAMED = 2
"""Content words beside an unresolved pronoun: a question with more of them can be searched for."""
_CLOSE = " ,.!?–-"
_BOUNDS = ("gte", "gt", "lte", "lt")


@dataclass(frozen=True)
class _FollowUp:
    """A message completed from the turn before."""

    filters: list[DocumentFilter]
    search: str
    reason: str
    doc_id: str | None = None
    choices: int | None = None
    """The number of results, where the one that was asked for isn't among them."""
    again: PastTurn | None = None
    """The turn whose list, count or figure is asked for again, over other documents."""


def route(
    text: str, vocabulary: Vocabulary, *, reader: str, today: datetime.date, history: Sequence[PastTurn] = ()
) -> Routed:
    """Return the plan for a message; never raises.

    `reader` is who "my" means; `history` is oldest first. A word becomes a filter only if it is a value in
    `vocabulary`, and only where the sentence is about documents: beside a word for documents, a field's name or a
    preposition of the field, after "only" or "not", or alone. In a question about content it is searched for.
    """
    asked = clean(text)
    core = without_politeness(asked)
    english = in_terms(core, vocabulary.knows)
    messages = (spoken(asked), spoken(core))
    if any(one.count(" ") < _MOST_WORDS and pattern("messages", "help").search(one) for one in messages):
        return _nothing(asked, "asks what the copilot can do", help_=True)
    emoji = any(unicodedata.category(sign) == "So" for sign in asked) and not any(sign.isalnum() for sign in asked)
    if emoji or _is_sum(core) or any(map(_is_small_talk, messages)):
        return _nothing(asked, "small talk: nothing to look for")
    if english != core:
        listed = route(english, vocabulary, reader=reader, today=today, history=history)
        if listed.decision.strategy is SearchStrategy.METADATA_ONLY:
            return replace(listed, decision=listed.decision.model_copy(update={"rewritten_query": asked}))
        # Its own words are searched for, in the documents' language: those of lists are in English by now.
        filters = listed.decision.filters if listed.decision.strategy is SearchStrategy.HYBRID else []
        return _search(asked, core.strip(_CLOSE), filters, "a question about content")
    resolved = _resolve(core, vocabulary, reader=reader, today=today, history=history)
    if resolved is not None:
        return _followed(asked, resolved)
    if _refers_to_result(core) and len(words(core)) <= 5:
        return _unclear(asked, vocabulary)
    vocabulary = vocabulary.within([word.lower for word in words(core)])
    titled = _titled(core, asked, vocabulary, reader=reader, today=today)
    if titled is not None:
        return titled
    counted = tally_in(core, vocabulary)
    if counted is not None:
        over = read(counted[1], vocabulary, reader=reader, today=today)
        said = {word.lower for word in words(counted[1])}
        denied = not said.isdisjoint(NEGATIONS) and not over.filters
        # "How many cities have more than one airport" compares groups, which no filter does.
        compared = not said.isdisjoint(word_table("fields.comparisons"))
        compared = compared and all(demand.op not in (*_BOUNDS, *BESIDE) for demand in over.filters)
        if not over.content and not denied and not compared:
            reason = f"asks for a figure over {described(over.filters) or 'all documents'}"
            return replace(_search(asked, None, over.filters, reason), tally=counted[0])
    reading = read(core, vocabulary, reader=reader, today=today)
    filters = reading.filters
    one = any(demand.op == "eq" and vocabulary.numbers(demand.field) for demand in filters)
    if one and names_cells(reading.content, vocabulary):
        return _search(asked, None, filters, f"asks for a field of {described(filters)}")
    searched = any(turn.decision.strategy.retrieves for turn in history)
    pronoun = None if filters or searched else unnamed(core)
    if reading.content and (pronoun is None or len(telling_words(core)) > _MOST_UNNAMED):
        reason = "content and " + described(filters) if filters else "a question about content"
        return _search(asked, reading.search or core, filters, reason)
    if filters or reading.lists:
        reason = f"only {described(filters)}" if filters else "asks for documents, newest first"
        return _search(asked, None, filters, reason)
    return _unclear(asked, vocabulary, pronoun)


def _titled(core: str, asked: str, vocabulary: Vocabulary, *, reader: str, today: datetime.date) -> Routed | None:
    """Return the plan of a list by words of titles: "which tickets mention printer in the title"."""
    found = pattern("messages", "in_title").search(core)
    if found is None:
        return None
    rest = f"{core[: found.start()]} {core[found.end() :]}".strip(_CLOSE)
    over = read(rest, vocabulary, reader=reader, today=today)
    document = word_list("words", "document")
    if over.content or not any(word.lower in document or vocabulary.calls(word.lower) for word in words(rest)):
        return None
    named = next(filter(None, found.groups())).strip(" \"'“”‘’«»")
    demand = DocumentFilter(field="title", op="has", value=named)
    return _search(asked, None, [*over.filters, demand], f"only {described([*over.filters, demand])}")


def reread(texts: Sequence[str], vocabulary: Vocabulary, *, reader: str, today: datetime.date) -> list[PastTurn]:
    """Return past turns reconstructed from these questions, oldest first, without their results.

    >>> turns = reread(["API tokens", "and the lifetime?"], Vocabulary({}), reader="ada", today=datetime.date.min)
    >>> [(turn.decision.search_value, turn.doc_ids) for turn in turns]
    [('API tokens', ()), ('API tokens lifetime', ())]
    """
    turns: list[PastTurn] = []
    for text in texts:
        routed = route(text, vocabulary, reader=reader, today=today, history=turns)
        turns.append(PastTurn(text, routed.decision, tally=routed.tally))
    return turns


def without_politeness(text: str) -> str:
    """Return a message without greetings and polite phrases.

    >>> without_politeness("Hi, could you please tell me how pairing works?")
    'how pairing works?'
    """
    for _ in range(6):
        phrase = pattern("messages", "politeness").match(text)
        if phrase is None or not phrase.end() or not text[phrase.end() :].strip(" ?!.,"):
            break
        text = text[phrase.end() :]
    shorter = pattern("messages", "politeness_after").sub("", text.rstrip(_CLOSE))
    shorter = shorter.rstrip(_CLOSE) if shorter != text.rstrip(_CLOSE) else text
    return (shorter if any(sign.isalnum() for sign in shorter) else text).strip()


def _is_sum(text: str) -> bool:
    """Return whether a message is an arithmetic problem.

    >>> _is_sum("what is 2 + 2?"), _is_sum("2025-03")
    (True, False)
    """
    return len(text) < 60 and bool(pattern("messages", "sum").match(text)) and not re.match(r"\d{4}-\d\d", text)


def _is_small_talk(message: str) -> bool:
    """Return whether a message greets, thanks, or chats about anything but documents."""
    if message.count(" ") >= _MOST_WORDS:
        return False
    plain = re.sub(r" ('s|'re)\b", r"\1", message) + " "
    phrases, speaks = _small_talk()
    return bool((phrases.fullmatch(plain) and speaks.search(plain)) or pattern("messages", "chatter").search(message))


@cache
def _small_talk() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a whole message of small talk, and of one phrase of it that isn't a filler."""
    phrases, fillers = (language("en")["messages"][name] for name in ("small_talk", "small_talk_between"))
    return re.compile(rf"(?:(?:{phrases}|{fillers})\s)+", re.X), re.compile(rf"(?:^|\s)(?:{phrases})\s", re.X)


def _followed(asked: str, resolved: _FollowUp) -> Routed:
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
        decision = _search(search or asked, search, [], resolved.reason).decision
        return Routed(decision.model_copy(update={"route": "documents.doc_context"}), resolved.doc_id)
    again, listed = resolved.again, search or "documents"
    if again is not None and asks_how_many(without_politeness(again.decision.rewritten_query)):
        listed = f"how many {listed}"
    whole = f"{listed} ({described(filters)})" if filters else search or asked
    return replace(_search(whole, search, filters, resolved.reason), tally=None if again is None else again.tally)


def _search(asked: str, search: str | None, filters: list[DocumentFilter], reason: str) -> Routed:
    """Return the plan of a search for `search` within `filters`; without words, of a list."""
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


def _unclear(asked: str, vocabulary: Vocabulary, pronoun: str | None = None) -> Routed:
    """Return a question back to the reader, about the `pronoun` that nothing explains where there is one."""
    options = vocabulary.examples()
    offered = f" For example: {', '.join(options)}." if options else ""
    question = "What are you looking for: which topic, or which kind of document?"
    if pronoun is not None:
        question = f'What do you mean by "{pronoun}"? Ask again with its name, or the kind of document.'
    return Routed(
        RouterDecision(
            rewritten_query=asked,
            strategy=SearchStrategy.NEEDS_CLARIFICATION,
            reason="too little to look for" if pronoun is None else "about something that wasn't named",
            question=question + offered,
            options=options,
        )
    )


def _refers_to_result(text: str) -> bool:
    """Return whether a message refers to a result by its rank.

    >>> _refers_to_result("and the second one?"), _refers_to_result("the last 30 days")
    (True, False)
    """
    return _rank(text, 1) is not None


def _resolve(
    text: str, vocabulary: Vocabulary, *, reader: str, today: datetime.date, history: Sequence[PastTurn]
) -> _FollowUp | None:
    """Return the message completed from the last turn that searched; None when it needs no completion."""
    last = next((turn for turn in reversed(history) if turn.decision.strategy.retrieves), None)
    message = text.strip(" ?!.,")
    if last is None or message.count(" ") >= _LONGEST_FOLLOW_UP:
        return None
    searched = last.decision.search_value or ""
    lists = [turn.doc_ids for turn in history if turn.doc_ids and turn.decision.route != "documents.doc_context"]
    listed = lists[-1] if lists else last.doc_ids
    rank = _rank(message, len(listed))
    if rank is not None:
        rest = read(_ranked().sub(" ", _without_lead(message, 1)), vocabulary, reader=reader, today=today)
        search = " ".join(rest.content) or searched
        if not 1 <= rank <= len(listed):
            return _FollowUp([], search, "asks for a result that isn't there", choices=len(listed))
        return _FollowUp([], search, f"asks about result {rank} of the turn before", doc_id=listed[rank - 1])
    if pattern("follow_up", "more").match(message) and last.doc_ids:
        return _FollowUp([], searched, "asks for more about the best result", doc_id=last.doc_ids[0])
    return _narrowed(message, last, vocabulary, reader=reader, today=today)


def _narrowed(
    message: str, last: PastTurn, vocabulary: Vocabulary, *, reader: str, today: datetime.date
) -> _FollowUp | None:
    kept, searched = _still_known(last.decision.filters, vocabulary, reader), last.decision.search_value or ""
    cued = bool(pattern("follow_up", "cue").search(message))
    if not cued and pattern("follow_up", "dependent").match(message):
        cued = read(message, vocabulary, reader=reader, today=today).kind is SentenceKind.FRAGMENT
    bare = _without_lead(message, 3) if cued else message
    reading = read(bare, vocabulary, reader=reader, today=today, follow_up=cued)
    if reading.kind is SentenceKind.DEFINITION:
        return None
    if cued and reading.filters and not reading.content:
        added = _same_dates(reading.filters, kept, message)
        also = bool(pattern("follow_up", "also").search(message))
        filters, again = _merged(kept, added, also), None if searched else last
        return _FollowUp(filters, searched, "narrows the turn before", again=again)
    points = any(word.lower in word_list("follow_up", "points") for word in words(message))
    if reading.content and len(reading.content) <= (4 if cued else 3 if points else 0):
        search = f"{searched} {' '.join(reading.content)}".strip()
        if any(map(is_version, reading.content)):  # an unknown version replaces the one before
            kept = [demand for demand in kept if role_of(demand.field) != "version"]
        return _FollowUp(_merged(kept, reading.filters, False), search, "goes on from the turn before")
    return None


def _without_lead(message: str, times: int) -> str:
    for _ in range(times):
        message = pattern("follow_up", "lead").sub("", message, count=1) or message
    return message


@cache
def _ranked() -> re.Pattern[str]:
    """Return the pattern of "the second one", "and the third", "#2", "open 1"."""
    words = language("en")["follow_up"]
    result = rf"(?:{words['result']})"
    ordinal = rf"(?:{'|'.join([*words['ordinals'].split(), *words['last'].split(), 'top'])}|\d{{1,3}}(?:st|nd|rd|th))"
    return re.compile(
        rf"\b(?P<word>{ordinal})\s+{result}\b|^(?:(?:{words['pointing_verbs']})\s+){{1,5}}(?P<alone>{ordinal})$"
        rf"|(?:#|\bno\.?\s?|\bnumber\s|\b{result}\s#?|\bopen\s#?|\bshow\s#?)(?P<number>\d{{1,3}})\b(?!\s+\w)",
        re.I,
    )


def _rank(text: str, results: int) -> int | None:
    """Return the rank that a message refers to, of that many results; None where it refers to none."""
    match = _ranked().search(text.strip(" ?!.,"))
    if match is None:
        return None
    word = (match["number"] or match["word"] or match["alone"]).lower()
    if word in word_list("follow_up", "last"):
        return results
    ordinals = ["top", *language("en")["follow_up"]["ordinals"].split()]
    return max(1, ordinals.index(word)) if word in ordinals else int(re.sub(r"\D", "", word))


def _still_known(filters: Sequence[DocumentFilter], vocabulary: Vocabulary, reader: str) -> list[DocumentFilter]:
    """Return the filters whose values are still known, and those on the reader, dates, numbers and booleans."""
    kept = []
    for demand in filters:
        first = next((one for one, alike in vocabulary.joined.items() if demand.field in alike), demand.field)
        field = vocabulary.fields.get(first)
        if field is None:
            continue
        of_reader = role_of(demand.field) == "person" and demand.values == (reader,)
        unlisted = field.type in ("date", "number", "boolean")
        if unlisted or of_reader or all(str(value) in field.values for value in demand.values):
            kept.append(demand)
    return kept


def _same_dates(added: list[DocumentFilter], kept: list[DocumentFilter], message: str) -> list[DocumentFilter]:
    """Return new bounds on dates, moved to the date field of the turn before unless the message names another."""
    earlier = next((demand.field for demand in kept if demand.op in _BOUNDS), None)
    if earlier is None or pattern("follow_up", "dates").search(message):
        return added
    return [demand.model_copy(update={"field": earlier}) if demand.op in _BOUNDS else demand for demand in added]


def _merged(kept: list[DocumentFilter], added: list[DocumentFilter], also: bool) -> list[DocumentFilter]:
    """Return the filters `kept` with those `added` in place of others on the same field; "also" and "not" combine."""
    fields = {demand.field for demand in added}
    merged = [demand for demand in kept if demand.field not in fields]
    for demand in added:
        excludes = demand.op == "not_in"
        earlier = [one for one in kept if one.field == demand.field and (one.op == "not_in") == excludes]
        if earlier and (excludes or (also and demand.op in ("eq", "in"))):
            values = list(dict.fromkeys(value for one in (*earlier, demand) for value in one.values))
            demand = DocumentFilter(field=demand.field, op="not_in" if excludes else "in", value=values)
        merged.append(demand)
    return merged
