"""What a message means because of the turns before it: "the second one", "only tutorials", "and in 2024?"."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from hive_agents.copilot.language import language, pattern, word_list, words
from hive_agents.copilot.plan import DocumentFilter, PastTurn
from hive_agents.copilot.reading import read
from hive_agents.copilot.sentence import SentenceKind
from hive_agents.copilot.vocabulary import Vocabulary, role_of

_MOST_WORDS = 14
_BOUNDS = ("gte", "gt", "lte", "lt")


@dataclass(frozen=True)
class Resolved:
    """A message with what it left unsaid put in."""

    filters: list[DocumentFilter]
    search: str
    reason: str
    doc_id: str | None = None
    choices: int | None = None
    """How many results there are to choose from, where the one that was asked for isn't among them."""


def refers_to_result(text: str) -> bool:
    """Whether a message can only be understood with results before it.

    >>> refers_to_result("and the second one?"), refers_to_result("the last 30 days")
    (True, False)
    """
    return _rank(text, 1) is not None


def resolve(
    text: str, vocabulary: Vocabulary, *, reader: str, today: datetime.date, history: Sequence[PastTurn]
) -> Resolved | None:
    """Return the message in the light of the last turn that searched; None when it stands for itself."""
    last = next((turn for turn in reversed(history) if turn.decision.strategy.retrieves), None)
    message = text.strip(" ?!.,")
    if last is None or message.count(" ") >= _MOST_WORDS:
        return None
    searched = last.decision.search_value or ""
    lists = [turn.doc_ids for turn in history if turn.doc_ids and turn.decision.route != "documents.doc_context"]
    listed = lists[-1] if lists else last.doc_ids
    rank = _rank(message, len(listed))
    if rank is not None:
        rest = read(_ranked().sub(" ", _without_lead(message, 1)), vocabulary, reader=reader, today=today)
        search = " ".join(rest.content) or searched
        if not 1 <= rank <= len(listed):
            return Resolved([], search, "asks for a result that isn't there", choices=len(listed))
        return Resolved([], search, f"asks about result {rank} of the turn before", doc_id=listed[rank - 1])
    if pattern("follow_up", "more").match(message) and last.doc_ids:
        return Resolved([], searched, "asks for more about the best result", doc_id=last.doc_ids[0])
    kept = _still_known(last.decision.filters, vocabulary, reader)
    return _narrowed(message, kept, searched, vocabulary, reader=reader, today=today)


def _narrowed(
    message: str,
    kept: list[DocumentFilter],
    searched: str,
    vocabulary: Vocabulary,
    *,
    reader: str,
    today: datetime.date,
) -> Resolved | None:
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
        return Resolved(_merged(kept, added, also), searched, "narrows the turn before")
    points = any(word.lower in word_list("follow_up", "points") for word in words(message))
    if reading.content and len(reading.content) <= (4 if cued else 3 if points else 0):
        search = f"{searched} {' '.join(reading.content)}".strip()
        return Resolved(_merged(kept, reading.filters, False), search, "goes on from the turn before")
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
    found = _ranked().search(text.strip(" ?!.,"))
    if found is None:
        return None
    word = (found["number"] or found["word"] or found["alone"]).lower()
    if word in word_list("follow_up", "last"):
        return results
    ordinals = ["top", *language("en")["follow_up"]["ordinals"].split()]
    return max(1, ordinals.index(word)) if word in ordinals else int(re.sub(r"\D", "", word))


def _still_known(filters: Sequence[DocumentFilter], vocabulary: Vocabulary, reader: str) -> list[DocumentFilter]:
    """Return the filters without the values that the reader no longer sees anywhere."""
    kept = []
    for demand in filters:
        known = vocabulary.fields.get(demand.field)
        if known is None:
            continue
        of_reader = role_of(demand.field) == "person" and demand.values == (reader,)
        unlisted = known.type in ("date", "number", "boolean")
        if unlisted or of_reader or all(str(value) in known.values for value in demand.values):
            kept.append(demand)
    return kept


def _same_dates(added: list[DocumentFilter], kept: list[DocumentFilter], message: str) -> list[DocumentFilter]:
    """ "and in 2024?" speaks of the date that was spoken of before."""
    earlier = next((demand.field for demand in kept if demand.op in _BOUNDS), None)
    if earlier is None or pattern("follow_up", "dates").search(message):
        return added
    return [demand.model_copy(update={"field": earlier}) if demand.op in _BOUNDS else demand for demand in added]


def _merged(kept: list[DocumentFilter], added: list[DocumentFilter], also: bool) -> list[DocumentFilter]:
    """Return filters of which a new one replaces that on the same field; "also", and what is excluded, adds to it."""
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
