"""A sentence with what its places mean: values, dates, words for documents, and what it does as a whole."""

from __future__ import annotations

import datetime

from hive_agents.copilot.dates import date_spans
from hive_agents.copilot.intents import Kind, is_definition, is_listing
from hive_agents.copilot.mentions import Mention, mentions
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.copilot.wording import (
    ABOUT,
    ADVERBS,
    ARTICLES,
    CONNECTIVES,
    DOC_NOUNS,
    EMPTY,
    FUNCTION,
    ORDER,
    PREPOSITIONS,
    QUESTION,
    Word,
    words,
)
from hive_agents.retrieval.analysis import terms

HEADS = DOC_NOUNS | frozenset("one ones everything anything things stuff something those them".split())
_VERSIONS = frozenset("version versions revision revisions".split())


class Utterance:
    """The words of a text and what stands where; `used` are the places that became filters."""

    def __init__(self, text: str, vocabulary: Vocabulary, today: datetime.date, follow_up: bool) -> None:
        self.text, self.vocabulary, self.follow_up = text, vocabulary, follow_up
        self.words: list[Word] = words(text)
        self.dates = date_spans(self.words, today)
        dated = frozenset(place for span in self.dates if span.led for place in range(span.first, span.last + 1))
        self.mentions = mentions(self.words, vocabulary, dated)
        self.inside: dict[int, Mention] = {place: m for m in self.mentions for place in range(m.first, m.last + 1)}
        self.kind = self._kind()
        newest_first = (n for n in range(1, len(self.words)) if self.at(n) == "first" and self.at(n - 1) in ORDER)
        self.used: set[int] = set(newest_first)

    def at(self, place: int) -> str:
        """The word at a place, empty outside the sentence."""
        return self.words[place].lower if 0 <= place < len(self.words) else ""

    def stem(self, place: int) -> str:
        return "".join(terms(self.at(place)))

    def is_head(self, place: int) -> bool:
        """Whether documents are named here: "documents", "ones", or a value such as "tutorials"."""
        mention = self.inside.get(place)
        if mention is not None and mention.noun:
            return True
        return self.at(place) in HEADS or self.is_version(place)

    def is_version(self, place: int) -> bool:
        return self.at(place) in _VERSIONS and self.at(place + 1) == "of"

    def has_head(self, before: int | None = None) -> bool:
        return any(self.is_head(n) for n in range(len(self.words) if before is None else before))

    def back(self, place: int, *over: frozenset[str]) -> int:
        """The place of the first word before `place` that is in none of these sets, -1 where there is none."""
        skipped = frozenset().union(*over)
        place -= 1
        while place >= 0 and self.at(place) in skipped:
            place -= 1
        return place

    def ends_clause(self, place: int) -> bool:
        return place + 1 >= len(self.words) or self.words[place + 1].opens_clause

    def parted(self, first: int, last: int) -> bool:
        """Whether a comma or another sign stands between two places."""
        return any(self.words[n].opens_clause for n in range(first + 1, last + 1))

    def is_content(self, place: int) -> bool:
        word = self.at(place)
        return place not in self.used and word not in EMPTY and word != "'s"

    @property
    def filters_by_description(self) -> bool:
        return self.kind in (Kind.LISTING, Kind.FRAGMENT)

    def _kind(self) -> Kind:
        spoken = " ".join(word.lower for word in self.words)
        if is_definition(spoken) or self._asks_what_a_value_is():
            return Kind.DEFINITION
        if is_listing(spoken) or self._asks_which() or self._asks_where() or self._quotes_a_kind():
            return Kind.LISTING
        if self.follow_up:
            return Kind.FRAGMENT
        plain = [(n, word) for n, word in enumerate(self.words) if n not in self.inside]
        asks = any((n == 0 or word.opens_clause) and word.lower in QUESTION | {"what"} for n, word in plain)
        return Kind.QUESTION if asks or any(word.lower in ("how", "why") for _, word in plain) else Kind.FRAGMENT

    def _asks_what_a_value_is(self) -> bool:
        """ "what is an SOP", "what's a draft"."""
        if self.at(0) not in ("what", "whats") or self.at(1) not in ("is", "are", "'s", "a", "an"):
            return False
        rest = [n for n in range(1, len(self.words)) if self.at(n) not in ("is", "are", "'s", "a", "an")]
        article = any(self.at(n) in ("a", "an") for n in range(1, len(self.words)))
        return article and bool(rest) and all(n in self.inside for n in rest)

    def _asks_which(self) -> bool:
        """ "which effective SOPs …", "what are the drafts", "how many tutorials …": documents before any content."""
        if self.at(0) == "what" and self.at(1) == "are" and self.at(2) in ARTICLES:
            head = next((n for n in range(3, len(self.words)) if n not in self.inside or self.is_head(n)), 0)
            return self.is_head(head)
        counts = self.at(0) == "how" and self.at(1) == "many"
        if self.at(0) not in ("which", "what") and not counts:
            return False
        for n in range(2 if counts else 1, min(6, len(self.words))):
            if self.is_head(n):
                return not counts or n in self.inside or self.at(n).startswith("doc")
            if self.at(n) in FUNCTION - ARTICLES - ADVERBS - CONNECTIVES:
                return False
        return False

    def _asks_where(self) -> bool:
        return (
            self.at(0) == "where"
            and self.at(1) in ("is", "are", "'s")
            and any(self.is_head(n) for n in range(2, min(7, len(self.words))))
        )

    def _quotes_a_kind(self) -> bool:
        """ "what do the FAQs say about …", "does the handbook mention …"."""
        says = ABOUT - PREPOSITIONS - {"re"}
        return any(mention.noun and self.at(mention.last + 1) in says for mention in self.mentions)
