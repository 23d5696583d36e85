"""Sentences: their kind, the values of fields, dates and words for documents in them, and the words to search for."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from enum import Enum

from hive_agents.copilot.dates import date_spans
from hive_agents.copilot.forms import inflected, word_key
from hive_agents.copilot.language import Word, at, is_code, language, pattern, spoken, word_list, word_table, words
from hive_agents.copilot.nouns import is_everyday
from hive_agents.copilot.plan import FilterValue
from hive_agents.copilot.roles import FieldRole, parts
from hive_agents.copilot.vocabulary import LONGEST, Meaning, Vocabulary
from hive_agents.documents import terms

_WORDS = {
    name: word_list("words", name)
    for name in (
        *("question", "connectives", "negations", "adverbs", "be", "prepositions", "articles", "document", "vague"),
        *("listing", "order", "about", "polite", "grammar", "action", "pro_document", "relative"),
    )
}
QUESTION, CONNECTIVES, NEGATIONS = _WORDS["question"], _WORDS["connectives"], _WORDS["negations"]
ADVERBS, BE, PREPOSITIONS, ARTICLES = _WORDS["adverbs"], _WORDS["be"], _WORDS["prepositions"], _WORDS["articles"]
ABOUT, DOCUMENT, ORDER, VAGUE = _WORDS["about"], _WORDS["document"], _WORDS["order"], _WORDS["vague"]
HEADS = DOCUMENT | _WORDS["pro_document"]
"""Words that may stand for documents."""
FUNCTION = _WORDS["grammar"] | QUESTION | _WORDS["polite"] | PREPOSITIONS
EMPTY = FUNCTION | DOCUMENT | VAGUE | _WORDS["listing"] | ORDER | ABOUT | NEGATIONS | CONNECTIVES
"""Words that carry no content."""
EDGES = (EMPTY - _WORDS["action"]) | {"'s"}
"""Words that are stripped from both ends of a search, once the filters are cut out."""
_INSIDE_PHRASES = frozenset({"", "-", "&", "/", "'", "’", "_", ".", ",", "(", ")", "[", "]"})
_FURTHEST = 7
"""How many words from the beginning a word for documents may be behind "which"."""


class SentenceKind(Enum):
    """The kind of a sentence: values of fields filter listings and fragments; in questions they are content."""

    LISTING = "asks for documents"
    QUESTION = "asks about content"
    DEFINITION = "asks what a word means"
    FRAGMENT = "no verb of its own"


@dataclass(frozen=True)
class Mention:
    """Words `first` to `last` that name a value; `noun`: as a name of the documents themselves.

    `shy`: they are also function words or a number, and need a clear cue to filter. `plain`: they are an everyday word
    that names no kind of document ("data"), and filter only where documents are named.
    """

    first: int
    last: int
    meanings: tuple[Meaning, ...]
    noun: bool
    shy: bool
    plain: bool

    @property
    def places(self) -> range:
        return range(self.first, self.last + 1)

    def meaning(self, *roles: FieldRole) -> Meaning | None:
        """Return the first meaning whose field has one of these roles."""
        return next((meaning for meaning in self.meanings if meaning.role in roles), None)

    def values(self, meant: Meaning) -> list[FilterValue]:
        """Return the values of one of the meanings: of a version all that match ("1.12": 1.12.0 and 1.12.2), else those
        that differ in number or case alone, which a table may have side by side ("Maar" and "Maars")."""
        own = str(meant.value).lower()
        alike = [one.value for one in self.meanings if one.field == meant.field]
        return alike if meant.either else [one for one in alike if inflected(own, str(one).lower())]


class Sentence:
    """The words of a text with their mentions and dates; in a `follow_up` questions are read as fragments."""

    def __init__(self, text: str, vocabulary: Vocabulary, today: datetime.date, follow_up: bool = False) -> None:
        self.text, self.vocabulary, self.today, self.follow_up = text, vocabulary, today, follow_up
        self.words = _with_documents(words(text), vocabulary)
        self.dates = date_spans(self.words, today)
        dated = {place for span in self.dates if span.led for place in range(span.first, span.last + 1)}
        self.mentions = [self._as_named(one) for one in _mentions(self.words, vocabulary, dated)]
        self.mentions = [one for one in self.mentions if not self._names_next(one)]
        self.inside = {place: mention for mention in self.mentions for place in mention.places}
        self.kind = self._kind()

    def _names_next(self, mention: Mention) -> bool:
        """Return whether a word names the field of the value behind it: "replaces 12", where `replaced` is a status."""
        following = (one for other in self.mentions if other.first == mention.last + 1 for one in other.meanings)
        key = word_key([self.words[mention.last].lower])
        return mention.first == mention.last and any(word_key(parts(one.field)) == key for one in following)

    def _as_named(self, mention: Mention) -> Mention:
        """Return the value of several fields as one of the field that the sentence names: "waiting for payment"."""
        if len({str(meaning.value).lower() for meaning in mention.meanings}) > 1 or len(mention.meanings) == 1:
            return mention
        stems = {word_key([word.lower]) for n, word in enumerate(self.words) if n not in mention.places}

        before = self.at(self.back(mention.first, ARTICLES, frozenset({"in", "at"})))
        columns = language("en")["columns"]["directions"].items()
        directions: list[str] = next((names.split() for said, names in columns if before in said.split()), [])

        def told(meaning: Meaning) -> int:
            own = parts(meaning.field)
            led = not set(own).isdisjoint(directions)
            return len(stems.intersection(word_key([part]) for part in own)) + led

        return replace(mention, meanings=tuple(sorted(mention.meanings, key=told, reverse=True)))

    @property
    def filters_by_description(self) -> bool:
        return self.kind in (SentenceKind.LISTING, SentenceKind.FRAGMENT)

    def at(self, place: int) -> str:
        """Return the word at a place, empty outside the sentence."""
        return at(self.words, place)

    def stem(self, place: int) -> str:
        return "".join(terms(self.at(place)))

    def is_content(self, place: int, used: set[int]) -> bool:
        """Return whether a word has content and isn't `used` by a filter."""
        return place not in used and self.at(place) not in EMPTY | {"'s"}

    def is_head(self, place: int) -> bool:
        """Return whether the word names documents: "documents", "ones", or a value such as "tutorials"."""
        mention = self.inside.get(place)
        version = self.at(place) in word_list("words", "version") and self.at(place + 1) == "of"
        return self.at(place) in HEADS or version or (mention is not None and self.stands_for_documents(mention))

    def stands_for_documents(self, mention: Mention) -> bool:
        """Return whether a value names documents: "tutorials"; a plain one only in a listing: "list recipes on …".

        Behind a verb ("rotate logs") or a preposition ("from logs"), or before a noun ("network links") it is content.
        """
        if not mention.noun or not mention.plain:
            return mention.noun
        before, after = self.back(mention.first, ARTICLES, ADVERBS, CONNECTIVES), mention.last + 1
        described = before in self.inside and not self.inside[before].plain
        asked_for = self.at(before) in (_WORDS["listing"] | QUESTION | {"which"}) - _WORDS["action"]
        goes_on = self.ends_clause(mention.last) or self.at(after) in ABOUT | BE | _WORDS["relative"]
        goes_on = goes_on or any(span.first == after and span.led for span in self.dates) or self._is_owned(after)
        goes_on = goes_on or (asks_how_many(self.text) and self._has_owner(after))
        return (before < 0 or described or asked_for) and goes_on

    def _has_owner(self, place: int) -> bool:
        """Return whether it is said whose they are: "how many pumps has Oslo", "… does Oslo have", "… for Oslo"."""
        verb = bool({self.at(place), self.words[-1].lower} & word_list("words", "have"))
        return verb or (self.at(place) in PREPOSITIONS and place + 1 + (self.at(place + 1) in ARTICLES) in self.inside)

    def _is_owned(self, place: int) -> bool:
        """Return whether an owner follows: "assigned to raj"."""
        person = self.inside.get(place + 2)
        named = self.at(place + 2) in word_list("words", "first_person") or (person and person.meaning("person"))
        return self.at(place) in word_table("fields.owning") and self.at(place + 1) in ("by", "to") and bool(named)

    def is_only_named(self, mention: Mention) -> bool:
        """Return whether a value without other content beside it filters.

        Two plain ones of a field ("network security") and one behind a verb ("send data") are content.
        """
        field = mention.meanings[0].field
        others = [one for one in self.mentions if one is not mention and one.plain and one.meanings[0].field == field]
        acted = any(word.lower in _WORDS["action"] for word in self.words)
        return not mention.plain or (not acted and all(self._are_listed(one, mention) for one in others))

    def _are_listed(self, *mentions: Mention) -> bool:
        """Return whether only "and", "or" or a comma is between two values."""
        first, second = sorted(mentions, key=lambda mention: mention.first)
        between = {self.at(n) for n in range(first.last + 1, second.first)} - ARTICLES
        comma = not between and self.words[second.first].gap.strip() in (",", "/", "+", "&")
        return comma or (bool(between) and between <= CONNECTIVES)

    def has_head(self, before: int | None = None) -> bool:
        return any(self.is_head(place) for place in range(len(self.words) if before is None else before))

    def back(self, place: int, *over: frozenset[str]) -> int:
        """Return the place of the first word before `place` that is in none of these sets, -1 where there is none."""
        place -= 1
        while place >= 0 and any(self.at(place) in words for words in over):
            place -= 1
        return place

    def ends_clause(self, place: int) -> bool:
        return place + 1 >= len(self.words) or self.words[place + 1].opens_clause

    def version_lead(self, first: int, last: int) -> int | None:
        """Return the place of the word that introduces a version ("in v2.11", "Traefik 3.7"), -1 without one ("v3.7
        limits"); None where it may be a plain number, or the time of a change: "since v3.7".
        """
        named = word_list("fields.versions", "named")
        before = self.back(first, ARTICLES, named)
        if self.tells_of_change(first, last):
            return None
        is_named = self.at(first - 1) in named
        leads = word_list("fields.prepositions", "version") | word_list("fields.versions", "doing")
        led = self.at(before) in leads or before in self.inside
        written = is_named or before in self.inside or self.at(first).startswith("v")
        if not (written or (led and self.ends_clause(last))):
            return None
        return before if led or is_named or self.filters_by_description else None

    def tells_of_change(self, first: int, last: int) -> bool:
        """Return whether a version is the time of a change, or is compared: "since v3.7", "new in v3.7"."""
        before = self.back(first, ARTICLES, word_list("fields.versions", "named"))
        changes, came = (word_list("fields.versions", name) for name in ("changes", "came"))
        return self.at(before - 1) in came or bool({self.at(before), self.at(last + 1)} & changes)

    def _kind(self) -> SentenceKind:
        text = " ".join(word.lower for word in self.words)
        if pattern("messages", "definition").search(text):
            return SentenceKind.DEFINITION
        if pattern("messages", "listing").search(text) or self._asks_for_documents() or self._quotes_documents():
            return SentenceKind.LISTING
        if self.follow_up:
            return SentenceKind.FRAGMENT
        named = {n for n, mention in self.inside.items() if not mention.shy}
        opening = [n for n, word in enumerate(self.words) if (n == 0 or word.opens_clause) and n not in named]
        return SentenceKind.QUESTION if any(self.at(n) in QUESTION for n in opening) else SentenceKind.FRAGMENT

    def _asks_for_documents(self) -> bool:
        """Return whether documents are named before any content: "which effective SOPs …", "how many tutorials …"."""
        asks_for = word_list("words", "asks_for")
        begin = next((n for n in (2, 1) if " ".join(map(self.at, range(n))) in asks_for), _FURTHEST)
        for place in range(begin, _FURTHEST):
            if self.is_head(place):
                return self.at(1) != "many" or place in self.inside or self.at(place).startswith("doc")
            possessive = self.at(place) == "'s" and place - 1 in self.inside
            if self.at(place) in FUNCTION - ARTICLES - ADVERBS - CONNECTIVES and not possessive:
                break
        return False

    def _quotes_documents(self) -> bool:
        """Return whether documents are the subject: "what do the FAQs say about …", "does the handbook mention …"."""
        return any(mention.noun and self.at(mention.last + 1) in ABOUT - PREPOSITIONS for mention in self.mentions)


def _with_documents(sentence: list[Word], vocabulary: Vocabulary) -> list[Word]:
    """Return the words with "documents" for what all documents are called, and in the plural where one that is also a
    verb names documents: "the newest blog post", but neither "post a comment" nor "a POST request"."""
    before, after = ARTICLES | ORDER | DOCUMENT, ABOUT | BE | PREPOSITIONS | _WORDS["relative"] | {""}
    result: list[Word] = []
    for n, word in enumerate(sentence):
        named = word.text in word_list("words", "document_or_verb") and at(sentence, n - 1) in before
        ends = n + 1 == len(sentence) or sentence[n + 1].opens_clause or at(sentence, n + 1) in after
        lower = f"{word.lower}s" if named and ends else word.lower
        one = at(sentence, n + 1).isdecimal() and not word.lower.endswith("s")  # "rule 12"
        is_noun = vocabulary.calls(word.lower) and not one
        if is_noun and n and word_key([at(sentence, n - 1), word.lower]) == vocabulary.noun:  # "spare parts"
            result[-1] = replace(result[-1], lower="documents")
        result.append(replace(word, lower="documents" if is_noun else lower))
    return result


def _mentions(sentence: list[Word], vocabulary: Vocabulary, dated: set[int]) -> list[Mention]:
    """Return the values that a sentence names, the longest phrase at each place, none across a date."""
    shouted = sum(word.text.isupper() for word in sentence) * 2 > len(sentence) > 2
    mentions: list[Mention] = []
    place = 0
    while place < len(sentence):
        mention = _longest(sentence, place, vocabulary, dated, shouted)
        mentions += [mention] if mention else []
        place = mention.last + 1 if mention else place + 1
    return mentions


def _longest(
    sentence: list[Word], place: int, vocabulary: Vocabulary, dated: set[int], shouted: bool
) -> Mention | None:
    end = place
    while end < min(len(sentence), place + LONGEST) and end not in dated:
        if end > place and sentence[end].gap.strip() not in _INSIDE_PHRASES:
            break
        end += 1
    for last in range(end - 1, place - 1, -1):
        phrase = sentence[place : last + 1]
        meanings = vocabulary.meanings([word.lower for word in phrase])
        if not meanings and len(phrase) > 1:  # "military museums" of a folder of museums
            meanings = vocabulary.meanings([word.text.lower() for word in phrase])
        if last == place and at(sentence, place - 1) in word_list("fields", "before_persons"):
            whole = any(str(meaning.value).lower() == phrase[0].lower for meaning in meanings)
            meanings = meanings if whole else vocabulary.persons(phrase[0].lower) or meanings
        if meanings:
            word, value = phrase[0], str(meanings[0].value).lower()
            small = last == place and (len(word.lower) == 1 or word.lower.isdigit())
            # "how to" is made of function words, "how-to" is a kind of document.
            small = small or (
                all(one.lower in EMPTY for one in phrase) and not any(one.gap == "-" for one in phrase[1:])
            )
            name = word.text.isupper() and len(word.text) > 1 and not shouted
            if small and not name and is_code(str(meanings[0].value)):
                continue  # "no other country" isn't in NO
            several = word.lower.endswith("s") and not value.endswith("s")  # "mails" of `mail/`
            plural = several and meanings[0].role in ("status", "kind")
            everyday = last == place and meanings[0].role == "kind" and word.text.islower() and is_everyday(word.lower)
            return Mention(place, last, meanings, meanings[0].noun or plural, small and not name, everyday)
    return None


def linking_verbs(s: Sentence, used: set[int]) -> set[int]:
    """Return the places of verbs that only link documents with a value: "servers that run Linux", "issued by Acme",
    "how many tickets did Tech-03 handle"."""
    linking, have = set(), word_list("words", "have")
    telling = word_list("columns", "outcomes") | word_list("columns", "without")
    for place in range(1, len(s.words)):
        opens = s.words[place].opens_clause or s.at(place - 1) in ARTICLES - QUESTION  # "has the code NO"
        if place in s.inside or not s.is_content(place, used) or opens or s.at(place) in telling:
            continue
        before = s.back(place, ADVERBS, BE, NEGATIONS, ARTICLES, _WORDS["relative"], have)
        after = place + 1
        while s.at(after) in (PREPOSITIONS - ABOUT) | {"as"} or s.at(after) in ARTICLES:
            after += 1
        asks_who = before < 0 and s.at(0) == "who"
        said = s.is_head(before) or asks_who or (before in s.inside and after > place + 1)
        between = said and (after in s.inside or after in used) and not _names_other(s, place, after)
        done = any(word.lower in ("do", "does", "did") for word in s.words)
        ends = place + 1 == len(s.words) and s.at(0) == "how" and done and (place - 1 in s.inside or place - 1 in used)
        linking |= {place} if between or ends else set()
    return linking


def _names_other(s: Sentence, verb: int, value: int) -> bool:
    """Return whether a verb names another field than that of the value behind it: "border Germany" of `borders`."""
    names = s.vocabulary.of_type("keyword", "text")
    told = {name for name in names if s.vocabulary.named_field([s.at(verb)], [name])}
    return bool(told) and value in s.inside and told.isdisjoint(one.field for one in s.inside[value].meanings)


def lists_documents(s: Sentence) -> bool:
    """Return whether documents are asked for without a topic: "list all documents", "how many are there"."""
    distinct = {word.lower for word in s.words}
    if distinct & DOCUMENT and (distinct & {"all", "every", "everything"} or asks_how_many(s.text)):
        return True
    called = any(word.lower == "documents" != word.text.lower() for word in s.words)
    if called and s.kind in (SentenceKind.LISTING, SentenceKind.FRAGMENT):
        return True  # "tickets" of a folder of tickets
    newest = bool(distinct & ORDER) and s.kind is not SentenceKind.QUESTION
    return newest and (bool(distinct & (DOCUMENT | VAGUE)) or s.kind is SentenceKind.LISTING)


def asks_how_many(text: str) -> bool:
    """Return whether a text asks for a number of documents.

    >>> asks_how_many("how many pages are there?"), asks_how_many("how long is it?")
    (True, False)
    """
    return bool(pattern("messages", "counting").search(spoken(text)))


def search_words(s: Sentence, used: set[int], *, filtered: bool) -> str:
    """Return the words to search for, as typed: without those `used` by filters and those that only ask for a list."""
    about = None if filtered else _topic_of_document(s)
    if about is not None:
        return s.text[s.words[about].start :].strip(" ?!.,;")
    if not filtered and not (s.kind is SentenceKind.LISTING or (s.kind is SentenceKind.FRAGMENT and s.has_head())):
        lead = next((word.start for word in s.words if word.lower not in CONNECTIVES), 0)
        return s.text[lead:].strip(" ?!.,;")
    kept = [n for n in range(len(s.words)) if n not in used]
    edges = EDGES if s.filters_by_description else CONNECTIVES
    # A word of `is_file` or db-0 is none of the sentence's own.
    joined = {n for n in range(1, len(s.words)) if s.words[n].gap and not s.words[n].gap.strip("._-/:@")}
    while kept and s.at(kept[0]) in edges and kept[0] + 1 not in joined:
        kept.pop(0)
    while kept and s.at(kept[-1]) in EDGES and s.words[kept[-1]].text != "A" and kept[-1] not in joined:
        kept.pop()
    pieces: list[str] = []
    for n, place in enumerate(kept):
        adjacent = n > 0 and kept[n - 1] == place - 1
        pieces.append((s.words[place].gap if adjacent else " " if n else "") + s.words[place].text)
    return "".join(pieces)


def _topic_of_document(s: Sentence) -> int | None:
    """Return where the topic begins in a question about a document: "who wrote the post about …"; else None.

    The words before it are answered by fields, and are in no text.
    """
    head = next((n for n in range(len(s.words)) if s.at(n) in DOCUMENT), None)
    if head is None or s.kind is not SentenceKind.QUESTION or s.at(head + 1) not in ABOUT or s.ends_clause(head + 1):
        return None
    tables = map(word_table, ("fields.owning", "fields.roles", "fields.date_cues"))
    opens = s.at(0) in QUESTION - word_list("words", "manner")
    plain = (QUESTION | BE | ARTICLES | PREPOSITIONS).union(*tables)
    return head + 2 if opens and {s.at(n) for n in range(head)} <= plain else None
