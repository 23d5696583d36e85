"""What a message means because of the turns before it: "the second one", "only tutorials", "and in 2024?"."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hive_agents.copilot.intents import Kind
from hive_agents.copilot.plan import DocumentFilter, RouterDecision
from hive_agents.copilot.reading import read
from hive_agents.copilot.synonyms import role_of
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.copilot.wording import words

_MOST_WORDS = 14
_ORDINALS = {
    word: n
    for n, word in enumerate("first second third fourth fifth sixth seventh eighth ninth tenth".split(), start=1)
}
_RESULT = r"(?:one|ones|document|doc|result|hit|file|page|article|link|item|entry|match|source|citation)"
_ORDINAL = rf"(?:{'|'.join(_ORDINALS)}|last|top|bottom|\d{{1,3}}(?:st|nd|rd|th))"
_ASKS = r"(?:and|or|open|show|read|see|me|the|what|how|about|same|for|please|now)"
_RANKED = re.compile(
    rf"\b(?P<word>{_ORDINAL})\s+{_RESULT}\b|^(?:{_ASKS}\s+){{1,5}}(?P<alone>{_ORDINAL})$|(?:#|\bno\.?\s?|\bnumber\s|\b{_RESULT}\s#?|\bopen\s#?|\bshow\s#?)(?P<number>\d{{1,3}})\b(?!\s+\w)",
    re.I,
)
_LEAD = re.compile(
    r"^(?:and|but|or|now|also|so|then|ok|okay|again|no|same(?:\sthing|\sagain)?(?=\s)|what\sabout|how\sabout|what\sof|what\sif"
    r"|(?:the\ssame|same)?\s?(?:but\s)?for|instead|rather|maybe|make\sit|show)\b[\s,:]*",
    re.I,
)
_CUE = re.compile(
    r"^(?:and|but|or|now|also|only|just|same|the\ssame|what\sabout|how\sabout|what\sof|instead|not|no|except|without|exclude"
    r"|excluding|rather|narrow|restrict|limit|filter|minus|ones)\b|\b(?:instead|as\swell)$|\bones$"
    r"|^(?:show|list|give|see|display)\s(?:me\s)?(?:only|just)\b|\b(?:of|among|from)\s(?:them|these|those)\b|^(?:any|which)\sof\b",
    re.I,
)
_DEPENDENT = re.compile(
    r"^(?:about|regarding|for|from|by|at|in|since|before|after|until|between|updated|changed|during)\b", re.I
)
"""A fragment that begins so has nothing to belong to but what was said before."""
_ALSO = re.compile(r"\b(?:also|too|as\swell|plus)\b", re.I)
_POINTS = frozenset("it its this that these those they them their there".split())
_MORE = re.compile(
    r"^(?:(?:tell|show|give)\sme\s)?(?:some\s)?more(?:\s(?:about\s(?:it|this|that)|details?|please))?$|^(?:go\son|continue|why|open\s(?:it|this|that)(?:\sone)?)$",
    re.I,
)


@dataclass(frozen=True)
class PastTurn:
    """A turn before; `doc_ids`: its results in rank order, those that the reader may still open."""

    text: str
    decision: RouterDecision
    doc_ids: tuple[str, ...] = ()


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
    """The message in the light of the last turn that searched; None when it stands for itself."""
    last = next((turn for turn in reversed(history) if turn.decision.strategy.retrieves), None)
    spoken = text.strip(" ?!.,")
    if last is None or spoken.count(" ") >= _MOST_WORDS:
        return None
    before = last.decision.search_value or ""
    kept = _still_known(last.decision.filters, vocabulary, reader)
    shown = [turn for turn in history if turn.doc_ids and turn.decision.route != "documents.doc_context"]
    listed = shown[-1].doc_ids if shown else last.doc_ids
    rank = _rank(spoken, len(listed))
    if rank is not None:
        rest = read(_RANKED.sub(" ", _LEAD.sub("", spoken)), vocabulary, reader=reader, today=today)
        search = " ".join(rest.content) or before
        if not 1 <= rank <= len(listed):
            return Resolved([], search, "asks for a result that isn't there", choices=len(listed))
        return Resolved([], search, f"asks about result {rank} of the turn before", doc_id=listed[rank - 1])
    if _MORE.match(spoken) and last.doc_ids:
        return Resolved([], before, "asks for more about the best result", doc_id=last.doc_ids[0])
    return _narrowed(spoken, kept, before, vocabulary, reader=reader, today=today)


def _narrowed(
    spoken: str,
    kept: list[DocumentFilter],
    before: str,
    vocabulary: Vocabulary,
    *,
    reader: str,
    today: datetime.date,
) -> Resolved | None:
    cued = bool(_CUE.search(spoken))
    if not cued and _DEPENDENT.match(spoken):
        cued = read(spoken, vocabulary, reader=reader, today=today).kind is Kind.FRAGMENT
    bare = spoken
    for _ in range(3):
        bare = _LEAD.sub("", bare, count=1) or bare
    reading = read(bare if cued else spoken, vocabulary, reader=reader, today=today, follow_up=cued)
    if reading.kind is Kind.DEFINITION:
        return None
    if cued and reading.filters and not reading.content:
        added = _same_dates(reading.filters, kept, spoken)
        return Resolved(_merged(kept, added, bool(_ALSO.search(spoken))), before, "narrows the turn before")
    pointing = any(word.lower in _POINTS for word in words(spoken)) and len(reading.content) <= 3
    if reading.content and (cued or pointing):
        if cued and len(reading.content) > 4:
            return None
        added = _merged(kept, reading.filters, False)
        search = f"{before} {' '.join(reading.content)}".strip()
        return Resolved(added, search, "goes on from the turn before")
    return None


def _rank(text: str, results: int) -> int | None:
    found = _RANKED.search(text.strip(" ?!.,"))
    if found is None:
        return None
    if found["number"]:
        return int(found["number"])
    word = (found["word"] or found["alone"]).lower()
    if word in ("last", "bottom"):
        return results
    return 1 if word == "top" else _ORDINALS.get(word) or int(re.sub(r"\D", "", word))


def _still_known(filters: Sequence[DocumentFilter], vocabulary: Vocabulary, reader: str) -> list[DocumentFilter]:
    """Without the values that the reader no longer sees anywhere."""
    kept = []
    for demand in filters:
        known = vocabulary.fields.get(demand.field)
        if known is None:
            continue
        own = role_of(demand.field) == "person" and demand.values == (reader,)
        if known.type in ("date", "number", "boolean") or own or all(str(v) in known.values for v in demand.values):
            kept.append(demand)
    return kept


def _same_dates(added: list[DocumentFilter], kept: list[DocumentFilter], spoken: str) -> list[DocumentFilter]:
    """ "and in 2024?" speaks of the date that was spoken of before."""
    bounds = ("gte", "gt", "lte", "lt")
    earlier = next((demand.field for demand in kept if demand.op in bounds), None)
    named = re.search(
        r"\b(?:updated|changed|modified|revised|effective|valid|issued|published|created)\b", spoken, re.I
    )
    if earlier is None or named:
        return added
    return [demand.model_copy(update={"field": earlier}) if demand.op in bounds else demand for demand in added]


def _merged(kept: list[DocumentFilter], added: list[DocumentFilter], also: bool) -> list[DocumentFilter]:
    """What is new replaces what was said of the same field; "also" adds to it."""
    fields = {demand.field for demand in added}
    merged = [demand for demand in kept if demand.field not in fields]
    for demand in added:
        earlier = [d for d in kept if d.field == demand.field and (d.op == "not_in") == (demand.op == "not_in")]
        joins = earlier and (demand.op == "not_in" or (also and demand.op in ("eq", "in")))
        if joins:
            values = list(dict.fromkeys([value for d in earlier for value in d.values] + list(demand.values)))
            merged.append(
                DocumentFilter(field=demand.field, op="in" if demand.op != "not_in" else "not_in", value=values)
            )
        else:
            merged.append(demand)
    return merged
