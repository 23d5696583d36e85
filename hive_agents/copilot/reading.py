"""Readings of a sentence: its filters, and the words that are left to search for."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from hive_agents.copilot.bounds import date_bounds, date_verbs
from hive_agents.copilot.columns import Found, conditions_in, number_bounds
from hive_agents.copilot.language import MOST_WORDS, word_list, word_table
from hive_agents.copilot.plan import DocumentFilter, FilterValue, Operator
from hive_agents.copilot.roles import FieldRole, cue_stems, holds
from hive_agents.copilot.sentence import (
    ABOUT,
    ADVERBS,
    ARTICLES,
    BE,
    CONNECTIVES,
    DOCUMENT,
    EMPTY,
    FUNCTION,
    HEADS,
    NEGATIONS,
    ORDER,
    PREPOSITIONS,
    QUESTION,
    Mention,
    Sentence,
    SentenceKind,
    asks_how_many,
    linking_verbs,
    lists_documents,
    search_words,
)
from hive_agents.copilot.vocabulary import Meaning, Vocabulary

_FIRST_PERSON, _ONLY = word_list("words", "first_person"), word_list("words", "only")
_RELATIVE, _HAVE, _EXCEPT = word_list("words", "relative"), word_list("words", "have"), word_list("words", "except")
_LINKS = ADVERBS | BE | NEGATIONS | ARTICLES | _RELATIVE | _HAVE
"""Words between documents and the value that describes them: "docs that are still valid"."""


@dataclass(frozen=True)
class Reading:
    """The kind of a sentence, its filters, and the words to search for.

    `search` is the text to search for, as typed; `content` are its content words in lower case; `lists` tells whether
    the sentence asks for documents without a topic ("list all documents", "what's new").
    """

    kind: SentenceKind
    filters: list[DocumentFilter]
    search: str
    content: list[str]
    lists: bool


def read(text: str, vocabulary: Vocabulary, *, reader: str, today: datetime.date, follow_up: bool = False) -> Reading:
    """Return the filters and the content of a sentence; in a `follow_up` a question is read as a fragment."""
    s = Sentence(text, vocabulary, today, follow_up)
    if len(s.words) == MOST_WORDS:
        return Reading(
            SentenceKind.QUESTION, [], text, [word.lower for word in s.words if word.lower not in EMPTY], False
        )
    columns = conditions_in(s)
    if columns is not None:
        return Reading(SentenceKind.LISTING, _merged(columns, s), "", [], True)
    used = {n for n in range(1, len(s.words)) if s.at(n) == "first" and s.at(n - 1) in ORDER}
    used |= date_verbs(s)
    filters: list[DocumentFilter] = []
    for demands, places in (*number_bounds(s), *_owners(s, reader)):
        filters += demands
        used |= places
    values = _Values(s, used)
    values.find()
    for bounds, places in date_bounds(s, used):
        filters += bounds
        used |= places
    values.find_alone()
    filters = _merged([*values.filters(), *filters], s)
    content = [s.at(n) for n in range(len(s.words)) if s.is_content(n, used)]
    search = search_words(s, used - values.searched, filtered=bool(filters))
    return Reading(s.kind, filters, search, content, lists_documents(s))


class _Values:
    """The values of a sentence that filter, from left to right.

    The places of their words are added to `used`, and to `searched` if they are searched for all the same: a question
    that names its document has few other words.
    """

    def __init__(self, sentence: Sentence, used: set[int]) -> None:
        self.s, self.used = sentence, used
        self.searched: set[int] = set()
        self.accepted: dict[Mention, tuple[Meaning, bool]] = {}

    def find(self) -> None:
        """Accept the values that the sentence's wording makes filters."""
        for mention in self._open():
            meaning = self._meaning(mention)
            if meaning is not None:
                self._accept(mention, meaning)

    def find_alone(self) -> None:
        """Accept values without other content: "drafts", "effective in the lab"; a tag alone is a topic, unless it is
        said of documents: "how many servers run Linux"."""
        s = self.s
        linking = set() if s.follow_up else linking_verbs(s, self.used)
        rest = [n for n in range(len(s.words)) if s.is_content(n, self.used | linking)]
        if not s.filters_by_description or not all(n in s.inside for n in rest):
            return
        said = s.kind is SentenceKind.LISTING and s.has_head()
        for mention in self._open():
            topic = mention.meanings[0].is_topic and not s.follow_up and not (said and not self._is_about(mention))
            if not mention.shy and not topic and s.is_only_named(mention):
                self._accept(mention, mention.meanings[0])
        self.used |= linking

    def filters(self) -> list[DocumentFilter]:
        demands: list[DocumentFilter] = []
        for mention, (meaning, excluded) in self.accepted.items():
            if isinstance(meaning.value, bool):
                demands.append(DocumentFilter(field=meaning.field, value=meaning.value != excluded))
            else:
                op: Operator = "not_in" if excluded else "in"
                demands.append(DocumentFilter(field=meaning.field, op=op, value=mention.values(meaning)))
        return demands

    def _open(self) -> list[Mention]:
        """Return the mentions that may still filter, without versions that are compared or the time of a change."""
        s = self.s
        return [
            mention
            for mention in s.mentions
            if self.used.isdisjoint(mention.places)
            and not (mention.meanings[0].role == "version" and s.tells_of_change(mention.first, mention.last))
        ]

    def _accept(self, mention: Mention, meaning: Meaning) -> None:
        s = self.s
        self.accepted[mention] = (meaning, self._is_excluded(mention))
        self.used.update(mention.places)
        before = s.back(mention.first, ARTICLES)
        if s.at(before) in PREPOSITIONS - {"about"}:
            self.used.update(range(before, mention.first))

    def _meaning(self, mention: Mention) -> Meaning | None:
        """Return the meaning by which a value filters; None where it is content."""
        s = self.s
        if s.kind is SentenceKind.DEFINITION or self._is_about(mention):
            return None
        meaning = self._named(mention)
        clear = not mention.shy or self._is_state_of_documents(mention)
        if meaning is None and clear and not s.words[mention.first].quoted:
            meaning = self._restricting(mention) or self._after_preposition(mention) or self._of_version(mention)
            if meaning is None and s.filters_by_description:
                meaning = self._describing(mention)
        return meaning

    def _is_about(self, mention: Mention) -> bool:
        """Return whether a value is what texts are about, as in "about the QA department": what is counted is counted
        by its fields, and in "are on VMware" nothing is about it."""
        s = self.s
        before = s.back(mention.first, ARTICLES)
        about = s.at(before) in ABOUT and s.at(before - 1) not in BE
        return about and not mention.noun and not asks_how_many(s.text)

    def _is_state_of_documents(self, mention: Mention) -> bool:
        """Return whether a function word is a status of documents: "open orders", "which orders are done"."""
        s, after = self.s, self._noun_after(mention)
        if mention.meanings[0].role != "status":
            return False
        head = s.inside[after].last if after in s.inside else after
        ordered = mention.first == 0 and not s.at(head).endswith("s")  # "open order 7" asks for one document
        attributive = s.is_head(after) and s.at(mention.first - 1) != "to" and not ordered
        predicative = s.at(s.back(mention.first, ADVERBS - BE, NEGATIONS)) in BE and s.has_head(mention.first)
        ends = s.ends_clause(mention.last) or s.at(mention.last + 1) in PREPOSITIONS - {"to"}
        return attributive or (predicative and ends)

    def _noun_after(self, mention: Mention) -> int:
        """Return the place after a value and those listed with it: "open and closed orders"."""
        s, after = self.s, mention.last + 1
        while s.at(after) in CONNECTIVES or (after in s.inside and not s.is_head(after)):
            after += 1
        return after

    def _named(self, mention: Mention) -> Meaning | None:
        """Return the meaning of a value beside its field's name: "in the QA department", "category: faqs".

        In a question about content only that of a number right after its field: "who wrote ticket 4711".
        """
        s, after = self.s, mention.last + 1
        before = s.back(mention.first, frozenset({"is", "of"}), NEGATIONS)
        if s.filters_by_description:  # "headquarters in Austin" of `headquarters_location`
            before = s.back(before + 1, frozenset({"in", "at"}))
        signed = before >= 0 and any(sign in s.words[before + 1].gap for sign in ":=")
        beside = [after] if s.ends_clause(before) else [after, before]
        led = s.at(s.back(mention.first, ARTICLES)) in PREPOSITIONS
        for meaning in mention.meanings:
            stems = cue_stems(meaning.field, meaning.role)
            asked = s.kind is not SentenceKind.QUESTION or (led and meaning.role in ("place", "team"))
            number = before == mention.first - 1 and s.at(mention.first).isdecimal() and meaning.role != "version"
            for place in [before] * (signed or number) + beside * asked:
                if s.stem(place) in stems and place not in s.inside:
                    self.used.add(place)
                    self.searched.update((place, *mention.places) if number and not asked else ())
                    return meaning
        return None

    def _restricting(self, mention: Mention) -> Meaning | None:
        """Return the meaning of a value that filters anywhere: "only drafts", "except the FAQs", "FAQ: how …"."""
        s, after = self.s, mention.last + 1
        complete = mention.noun or s.ends_clause(mention.last) or s.is_head(after)
        before = s.back(mention.first, ARTICLES, PREPOSITIONS, BE)
        for only, restricts in ((before, complete), (after, s.ends_clause(after))):
            if s.at(only) in _ONLY and restricts:
                self.used.add(only)
                return mention.meanings[0]
        if mention.noun and not mention.plain and mention.first == 0 and s.at(after) in QUESTION:
            return mention.meanings[0]
        previous = self._listed_before(mention)
        if previous is not None:
            field = self.accepted[previous][0].field
            return next((meaning for meaning in mention.meanings if meaning.field == field), None)
        excepted = self._excepting(mention) is not None
        return mention.meanings[0] if excepted or (s.filters_by_description and self._is_negated(mention)) else None

    def _after_preposition(self, mention: Mention) -> Meaning | None:
        """Return the meaning of a value after a preposition of its field: "at Carrow", "by Mei", "in the tutorials"."""
        s = self.s
        before = s.back(mention.first, ARTICLES, ADVERBS - {"in"})
        phrases = {s.at(before), f"{s.at(before - 1)} {s.at(before)}"}
        roles: tuple[FieldRole, ...] = ("place", "person", "audience", "language", "kind")
        if mention.plain and s.at(mention.last + 1) not in DOCUMENT:
            cues = cue_stems(mention.meanings[0].field, "kind")
            roles = roles if s.stem(mention.last + 1) in cues else roles[:-1]
        return mention.meaning(*(role for role in roles if phrases & word_list("fields.prepositions", role)))

    def _of_version(self, mention: Mention) -> Meaning | None:
        """Return the version that is asked about: "in v2.11", "Traefik 3.7"; none where two are compared."""
        s, meaning = self.s, mention.meaning("version")
        others = [one for one in s.mentions if one.meaning("version") not in (None, meaning)]
        before = None if meaning is None or others else s.version_lead(mention.first, mention.last)
        if before is None:
            return None
        self.used.update(range(before + 1, mention.first))
        product = s.inside.get(before)
        if product is not None and product not in self.accepted and not product.shy:
            self._accept(product, product.meanings[0])  # "Lamp 2.11" asks for no version of the hub
        return meaning

    def _describing(self, mention: Mention) -> Meaning | None:
        """Return the meaning of a value beside a word for documents: "effective SOPs", "docs from mei"."""
        s, meaning, after = self.s, mention.meanings[0], mention.last + 1
        if s.stands_for_documents(mention):
            return mention.meaning("kind") or meaning
        if s.at(after) == "'s" and any(s.is_head(n) for n in (after + 1, after + 2)):
            self.used.add(after)
            return mention.meaning("person") or meaning
        after = self._noun_after(mention)
        if meaning.role == "status":  # an adjective may stand away from its noun: "effective cleaning SOPs"
            for _ in range(3):
                plain = s.at(after) not in FUNCTION | {""} and not s.words[after].opens_clause
                after += plain and not s.is_head(after)
        return meaning if s.is_head(after) or self._follows_documents(mention) else None

    def _follows_documents(self, mention: Mention) -> bool:
        """Return whether a value is said of documents before it: "SOPs at Carrow", "which SOPs … are effective"."""
        s, opens = self.s, self.s.words[mention.first].opens_clause
        if mention.meanings[0].is_topic and s.at(mention.first - 1) not in _LINKS:  # "FAQ keys": no tag
            return False
        before = s.back(mention.first, _LINKS, PREPOSITIONS - {"about", "on", "to"})
        if not opens and (s.is_head(before) or s.inside.get(before) in self.accepted):
            return True
        between = {s.at(n) for n in range(before + 1, mention.first)}
        ends_list = s.kind is SentenceKind.LISTING and s.ends_clause(mention.last)
        if between & BE and s.has_head(before + 1) and (ends_list or between & _RELATIVE):
            return True
        return opens and s.ends_clause(mention.last) and (bool(self.accepted) or s.has_head())

    def _listed_before(self, mention: Mention) -> Mention | None:
        """Return the accepted value that this one is listed after: "not drafts or retired ones"."""
        s = self.s
        before = s.back(mention.first, CONNECTIVES, ARTICLES)
        parted = any(s.at(n) in CONNECTIVES for n in range(before + 1, mention.first))
        previous = s.inside.get(before)
        goes_on = parted or s.words[mention.first].gap.strip() in (",", "/", "+", "&")
        return previous if goes_on and previous in self.accepted else None

    def _is_excluded(self, mention: Mention) -> bool:
        previous = self._listed_before(mention)
        if previous is not None and self.accepted[previous][0].field == mention.meanings[0].field:
            return self.accepted[previous][1]
        excepting = self._excepting(mention)
        self.used.update(excepting or ())
        return excepting is not None or self._is_negated(mention)

    def _excepting(self, mention: Mention) -> range | None:
        """Return the places of "except" or "other than" before the value."""
        s = self.s
        last = s.back(mention.first, ARTICLES, PREPOSITIONS, HEADS)
        pair = f"{s.at(last - 1)} {s.at(last)}" in _EXCEPT
        return range(last - pair, last + 1) if pair or s.at(last) in _EXCEPT else None

    def _is_negated(self, mention: Mention) -> bool:
        over = (ARTICLES, ADVERBS - {"as"}, PREPOSITIONS - {"about"}, HEADS, BE)
        return self.s.at(self.s.back(mention.first, *over)) in NEGATIONS


def _owners(s: Sentence, reader: str) -> list[Found]:
    """Return filters on persons: "my documents", "owned by mei", "everything lucia owns", "what did alice write"."""
    people, owning = s.vocabulary.in_role("person"), word_table("fields.owning")
    owners: list[Found] = []
    for place in range(len(s.words)) if people and s.filters_by_description else ():
        mention = s.inside.get(place)
        meaning = mention.meaning("person") if mention else None
        told: list[FilterValue] = mention.values(meaning) if mention and meaning else []
        persons: list[FilterValue] = [reader] if s.at(place) in _FIRST_PERSON else told
        verb = _owning_verb(s, place)
        if s.at(place) == "my":
            owned = _names_documents(s, place + 1)
        elif s.at(place) == "mine":
            owned = s.has_head() or len(s.words) <= 4
        else:
            owned = verb is not None and (s.has_head() or "what" in (s.at(0), s.at(place - 1)))
        if not persons or not owned:
            continue
        names = owning.get(s.at(place if verb is None else verb), "").split()
        field = next((field for name in names for field in people if holds(field, name)), people[0])
        ends = {*(mention.places if mention and meaning else [place]), place if verb is None else verb}
        negated = s.at(s.back(min(ends), ADVERBS, BE)) in NEGATIONS
        demand = DocumentFilter(field=field, op="not_in" if negated else "in", value=persons)
        owners.append(([demand], set(range(min(ends), max(ends) + 1))))
    return owners


def _owning_verb(s: Sentence, place: int) -> int | None:
    """Return the place of the verb, or "by", that makes the person at `place` an owner."""
    owning, following = word_table("fields.owning"), place + 1
    while s.at(following) in ADVERBS | _HAVE | {"am", "is"}:
        following += 1
    if s.at(following) in owning:
        return following
    if s.at(place - 1) in ("by", "to") and s.at(place - 2) in owning:
        return place - 2
    return place - 1 if s.at(place - 1) == "by" else None


def _names_documents(s: Sentence, place: int) -> bool:
    for n in range(place, min(place + 4, len(s.words))):
        if s.is_head(n) or s.at(n) in FUNCTION - ADVERBS:
            return s.is_head(n)
    return False


def _merged(filters: list[DocumentFilter], s: Sentence) -> list[DocumentFilter]:
    """Return the filters with one `in` and one `not_in` a field, in the vocabulary's order; exclusion wins.

    By "both Ada and Mei" is what has both, where a document may have several values.
    """
    vocabulary, merged = s.vocabulary, list[DocumentFilter]()
    both = vocabulary.several if any(word.lower == "both" for word in s.words) else frozenset[str]()
    for name in vocabulary.fields:
        of_field = [demand for demand in filters if demand.field == name]
        excluded = _values_of(of_field, "not_in")
        wanted = [value for value in _values_of(of_field, "in") if value not in excluded]
        for values in [[value] for value in wanted] if name in both else [wanted] if wanted else []:
            merged += demands_on(vocabulary, name, values)
        merged += demands_on(vocabulary, name, excluded, excluded=True) if excluded else []
        rest = [demand for demand in of_field if demand.op not in ("in", "not_in")]
        merged += [demand for n, demand in enumerate(rest) if demand not in rest[:n]]
    return merged


def demands_on(
    vocabulary: Vocabulary, name: str, values: list[FilterValue], *, excluded: bool = False
) -> list[DocumentFilter]:
    """Return the filters of documents that have one of these values in a field or one called alike, or none of them."""
    if excluded:
        return [DocumentFilter(field=one, op="not_in", value=values) for one in vocabulary.joined.get(name, [name])]
    op: Operator = "either" if name in vocabulary.joined else "in" if len(values) > 1 else "eq"
    return [DocumentFilter(field=name, op=op, value=values[0] if op == "eq" else values)]


def _values_of(filters: list[DocumentFilter], op: Operator) -> list[FilterValue]:
    return list(dict.fromkeys(value for demand in filters if demand.op == op for value in demand.values))
