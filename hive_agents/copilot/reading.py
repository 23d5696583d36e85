"""One sentence, read: the filters it asks for and what is left to search for."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from hive_agents.copilot import attributes
from hive_agents.copilot.demands import Demands
from hive_agents.copilot.intents import Kind
from hive_agents.copilot.plan import DocumentFilter, FilterValue
from hive_agents.copilot.utterance import Utterance
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.copilot.wording import CONNECTIVES, DOC_NOUNS, EDGES, EMPTY, MOST_WORDS, ORDER, VAGUE, words


@dataclass(frozen=True)
class Reading:
    """What a sentence says.

    `search`: what to search for, as typed; `content`: those of its words that mean something.
    `lists`: it asks for documents without saying which ("list all documents", "what's new").
    """

    kind: Kind
    filters: list[DocumentFilter]
    search: str
    content: list[str]
    lists: bool


def read(text: str, vocabulary: Vocabulary, *, reader: str, today: datetime.date, follow_up: bool = False) -> Reading:
    """The filters and the content of a sentence; a `follow_up` is a fragment, whatever it starts with."""
    spoken = words(text)
    if len(spoken) == MOST_WORDS:
        return Reading(Kind.QUESTION, [], text, [word.lower for word in spoken if word.lower not in EMPTY], False)
    s = Utterance(text, vocabulary, today, follow_up)
    attributes.reserve_date_cues(s)
    others = [*attributes.numbers(s), *attributes.owners(s, reader)]
    demands = Demands(s)
    demands.find()
    others += attributes.dates(s)
    demands.find_bare()
    filters = merged([*demands.filters(), *others], vocabulary)
    content = [s.at(n) for n in range(len(s.words)) if s.is_content(n)]
    return Reading(s.kind, filters, _search(s, bool(filters)), content, _lists(s))


def merged(filters: list[DocumentFilter], vocabulary: Vocabulary) -> list[DocumentFilter]:
    """One filter for all values of a field, in the vocabulary's order; what is excluded isn't wanted."""
    found: list[DocumentFilter] = []
    for name in vocabulary.fields:
        ours = [demand for demand in filters if demand.field == name]
        excluded: list[FilterValue] = list(dict.fromkeys(v for d in ours if d.op == "not_in" for v in d.values))
        values = dict.fromkeys(v for d in ours if d.op in ("eq", "in") for v in d.values)
        wanted: list[FilterValue] = [value for value in values if value not in excluded]
        if len(wanted) > 1:
            found.append(DocumentFilter(field=name, op="in", value=wanted))
        elif wanted:
            found.append(DocumentFilter(field=name, value=wanted[0]))
        if excluded:
            found.append(DocumentFilter(field=name, op="not_in", value=excluded))
        for demand in ours:
            if demand.op not in ("eq", "in", "not_in") and demand not in found:
                found.append(demand)
    return found


def _lists(s: Utterance) -> bool:
    spoken = {word.lower for word in s.words}
    every = bool(spoken & {"all", "every", "everything"}) and bool(spoken & DOC_NOUNS)
    newest = bool(spoken & ORDER) and s.kind is not Kind.QUESTION
    return every or (newest and (bool(spoken & (DOC_NOUNS | VAGUE)) or s.kind is Kind.LISTING))


def _search(s: Utterance, filtered: bool) -> str:
    """The words as typed, less those that became filters and, in a list, those that only ask for it."""
    if not filtered and not (s.kind is Kind.LISTING or (s.kind is Kind.FRAGMENT and s.has_head())):
        lead = next((word.start for word in s.words if word.lower not in CONNECTIVES), 0)
        return s.text[lead:].strip(" ?!.,;")
    kept = [n for n in range(len(s.words)) if n not in s.used]
    asks = s.kind in (Kind.QUESTION, Kind.DEFINITION)
    while kept and (s.at(kept[0]) in CONNECTIVES or (not asks and s.at(kept[0]) in EDGES | {"'s"})):
        kept.pop(0)
    while kept and s.at(kept[-1]) in EDGES | {"'s"} and s.words[kept[-1]].text != "A":
        kept.pop()
    pieces: list[str] = []
    for n, place in enumerate(kept):
        adjacent = n > 0 and kept[n - 1] == place - 1
        pieces.append((s.words[place].gap if adjacent else " " if n else "") + s.words[place].text)
    return "".join(pieces)
