"""Which of the values that a sentence names are demands on the documents, and which are words like others."""

from __future__ import annotations

from hive_agents.copilot.intents import Kind
from hive_agents.copilot.mentions import Mention
from hive_agents.copilot.plan import DocumentFilter
from hive_agents.copilot.synonyms import CUE_PREPOSITIONS
from hive_agents.copilot.utterance import HEADS, Utterance
from hive_agents.copilot.vocabulary import Meaning, cue_stems
from hive_agents.copilot.wording import (
    ABOUT,
    ADVERBS,
    ARTICLES,
    BE,
    CONNECTIVES,
    EMPTY,
    FUNCTION,
    NEGATIONS,
    PREPOSITIONS,
    QUESTION,
)

FIRST_PERSON = frozenset(("i", "me", "mine", "my"))
_EXCEPT = frozenset("except excluding exclude without besides minus".split())
_ONLY = frozenset("only just solely exclusively".split())
_RELATIVE = frozenset(("that", "which", "who"))
_HAVE = frozenset(("have", "has"))
_ROUNDS = 4
"""A value can depend on its neighbour's being accepted: "effective" on "and retired SOPs"."""


class Demands:
    """The values of a sentence that filter; finding them uses up their words and the words that led there."""

    def __init__(self, sentence: Utterance) -> None:
        self._s = sentence
        self._accepted: dict[Mention, tuple[Meaning, bool]] = {}
        self._excepted: set[Mention] = set()

    def find(self) -> None:
        """The values that the sentence's wording makes demands."""
        for _ in range(_ROUNDS):
            before = len(self._s.used)
            for mention in self._open():
                self._judge(mention)
            if len(self._s.used) == before:
                break

    def find_bare(self) -> None:
        """Nothing but values: "drafts", "effective in the lab"; a tag alone is a topic to search for."""
        s = self._s
        rest = [n for n in range(len(s.words)) if s.is_content(n)]
        if s.filters_by_description and rest and all(n in s.inside and not s.inside[n].shy for n in rest):
            for mention in self._open():
                topic = s.at(s.back(mention.first, ARTICLES)) in ABOUT or (_is_topic(mention) and not s.follow_up)
                if not mention.shy and not topic:
                    self._accept(mention, mention.meanings[0])

    def filters(self) -> list[DocumentFilter]:
        demanded: list[DocumentFilter] = []
        for meaning, negated in self._accepted.values():
            if isinstance(meaning.value, bool):
                demanded.append(DocumentFilter(field=meaning.field, value=meaning.value != negated))
            elif negated:
                demanded.append(DocumentFilter(field=meaning.field, op="not_in", value=[meaning.value]))
            else:
                demanded.append(DocumentFilter(field=meaning.field, value=meaning.value))
        return demanded

    def _open(self) -> list[Mention]:
        return [m for m in self._s.mentions if not self._s.used.intersection(range(m.first, m.last + 1))]

    def _judge(self, mention: Mention) -> None:
        s = self._s
        if s.at(s.back(mention.first, ARTICLES)) in ABOUT and not mention.noun:
            return  # what is written about isn't what is demanded: "about the QA department"
        meaning = self._named(mention)
        if meaning is None and not mention.shy and not s.words[mention.first].quoted:
            meaning = self._restricting(mention) or self._after_preposition(mention)
            if meaning is None and s.filters_by_description:
                meaning = self._describing(mention)
        if meaning is not None:
            self._accept(mention, meaning)

    def _accept(self, mention: Mention, meaning: Meaning) -> None:
        s = self._s
        excepted = self._is_excepted(mention)
        described = s.inside.get(s.back(mention.first, ADVERBS))
        if mention.noun and described in self._excepted and described is not None and not described.noun:
            # "except retired SOPs" can't be said with one demand a field: the narrower word decides.
            s.used.update(range(mention.first, mention.last + 1))
            return
        self._accepted[mention] = (meaning, excepted or self._is_negated(mention))
        if excepted:
            self._excepted.add(mention)
        s.used.update(range(mention.first, mention.last + 1))
        lead = s.back(mention.first, ARTICLES, ADVERBS, BE, NEGATIONS, _EXCEPT, _ONLY, PREPOSITIONS - {"about"})
        if s.at(lead) in _RELATIVE and s.at(lead + 1) in BE | ADVERBS | NEGATIONS:
            lead -= 1
        for place in range(lead + 1, mention.first):  # "vessel A", not "a vessel"
            if place not in s.inside and s.at(place) not in FIRST_PERSON and (place == 0 or s.words[place].text != "A"):
                s.used.add(place)

    def _named(self, mention: Mention) -> Meaning | None:
        """The field is named beside the value: "status draft", "in the QA department", "category: faqs"."""
        s = self._s
        if s.kind is Kind.DEFINITION:
            return None
        for meaning in mention.meanings:
            named = cue_stems(meaning)
            if meaning.value is True or s.stem(mention.first) in named:
                continue
            before = s.back(mention.first, frozenset({"is", "of"}), NEGATIONS)
            if before >= 0 and s.stem(before) in named and any(sign in s.words[before + 1].gap for sign in ":="):
                s.used.add(before)
                return meaning
            if s.kind is Kind.QUESTION and meaning.role not in ("place", "team"):
                continue
            for place in (mention.last + 1, before):
                left, right = sorted((place, mention.first))
                if s.stem(place) in named and place not in s.inside and not s.parted(left, right):
                    s.used.add(place)
                    return meaning
        return None

    def _restricting(self, mention: Mention) -> Meaning | None:
        """ "only drafts", "except the FAQs": said of the documents, in any sentence but a definition."""
        s, after = self._s, mention.last + 1
        if s.kind is Kind.DEFINITION:
            return None
        complete = s.ends_clause(mention.last) or mention.noun or s.at(after) in PREPOSITIONS | CONNECTIVES | _ONLY
        before = s.back(mention.first, ARTICLES, PREPOSITIONS, BE - {"be"})
        if s.at(before) in _ONLY and (complete or s.is_head(after)):
            return mention.meaning()
        if s.at(after) in _ONLY and s.ends_clause(after):
            s.used.add(after)
            return mention.meaning()
        if mention.noun and mention.first == 0 and s.at(after) in QUESTION | {"what"}:  # "FAQ: how do I …"
            return mention.meaning()
        if self._is_excepted(mention) or (s.kind is not Kind.QUESTION and self._is_negated(mention)):
            return mention.meaning()
        return self._continued(mention)

    def _continued(self, mention: Mention) -> Meaning | None:
        """A list goes on: "not drafts or retired ones", "germany and france"."""
        previous = self._listed_before(mention)
        if previous is None:
            return None
        same = next((m for m in mention.meanings if m.field == self._accepted[previous][0].field), None)
        if same is not None:
            self._s.used.update(range(previous.last + 1, mention.first))
        return same

    def _listed_before(self, mention: Mention) -> Mention | None:
        s = self._s
        before = s.back(mention.first, CONNECTIVES, ARTICLES)
        parted = any(s.at(n) in CONNECTIVES for n in range(before + 1, mention.first))
        parted = parted or s.words[mention.first].gap.strip() in (",", "/", "+", "&")
        previous = s.inside.get(before) if parted else None
        return previous if previous in self._accepted else None

    def _after_preposition(self, mention: Mention) -> Meaning | None:
        """ "at Carrow", "by Mei", "in the tutorials": a preposition that goes with the field."""
        s, after = self._s, mention.last + 1
        if s.kind is Kind.DEFINITION and not mention.noun:
            return None
        before = s.back(mention.first, ARTICLES, ADVERBS - {"in", "as"})
        while before in s.inside and s.inside[before] in self._accepted:
            before = s.back(s.inside[before].first, ARTICLES)
        roles = [role for role, prepositions in CUE_PREPOSITIONS.items() if s.at(before) in prepositions]
        meaning = mention.meaning(*roles) if roles else None
        if meaning is None and s.at(before) == "to" and s.at(before - 1) == "according":
            meaning = mention.meaning("kind")
            s.used.update({before - 1} if meaning else ())
        if meaning is None or s.ends_clause(mention.last) or s.at(after) in EMPTY or after in s.inside:
            return meaning
        # More words follow: "in the Carrow office manual" may name something else, and so does "in production mode".
        genitive = s.at(after) == "'s" or s.kind is not Kind.QUESTION
        return meaning if meaning.role in ("person", "kind") and genitive else None

    def _describing(self, mention: Mention) -> Meaning | None:
        """Beside the word for documents: "effective SOPs", "SOPs in force", "docs from mei", "mei's docs"."""
        s, meaning = self._s, mention.meanings[0]
        if mention.noun:
            return mention.meaning("kind") or meaning
        after = mention.last + 1
        if s.at(after) == "'s" and any(s.is_head(n) for n in (after + 1, after + 2)):
            s.used.add(after)
            return mention.meaning("person") or meaning
        while s.at(after) in CONNECTIVES or (after in s.inside and not s.is_head(after)):
            after += 1
        if meaning.role == "status":  # an adjective may stand away from its noun: "effective cleaning SOPs"
            for _ in range(3):
                plain = s.at(after) not in FUNCTION | {""} and not s.words[after].opens_clause
                after += plain and not s.is_head(after)
        apart = (n for n in range(mention.last + 1, min(after + 1, len(s.words))) if s.words[n].opens_clause)
        if s.is_head(after) and all(s.words[n].gap.strip() == "," for n in apart):
            s.used.update({after, after + 1} if s.is_version(after) else ())
            return meaning
        return meaning if self._follows_documents(mention) else None

    def _follows_documents(self, mention: Mention) -> bool:
        """ "SOPs at Carrow", "docs that are still valid", "which SOPs for vessels are effective"."""
        s = self._s
        before = s.back(mention.first, ADVERBS, BE, NEGATIONS, ARTICLES, _RELATIVE, _HAVE)
        between = [s.at(n) for n in range(before + 1, mention.first)]
        opens = s.words[mention.first].opens_clause
        chained = s.inside.get(before) in self._accepted
        if not between and _is_topic(mention):  # "FAQ keys": a topic rather than a tag
            return False
        if before >= 0 and (s.is_head(before) or chained) and not opens:
            return True
        linked = any(word in BE - {"be", "been"} for word in between)
        if s.has_head(before + 1):
            relative = any(word in _RELATIVE for word in between) and any(word in BE | _HAVE for word in between)
            if relative or (linked and s.kind is Kind.LISTING and s.ends_clause(mention.last)):
                return True
        preposition = s.back(mention.first, ARTICLES)
        if s.at(preposition) in PREPOSITIONS - {"about", "on", "to"} and s.is_head(
            s.back(preposition, BE, ADVERBS, NEGATIONS)
        ):
            return True
        return opens and s.ends_clause(mention.last) and (bool(self._accepted) or s.has_head())

    def _is_negated(self, mention: Mention) -> bool:
        s = self._s
        previous = self._listed_before(mention)
        if previous is not None and previous not in self._excepted:
            return self._accepted[previous][1] and self._accepted[previous][0].field == mention.meanings[0].field
        place = s.back(mention.first, ARTICLES, ADVERBS - {"as"}, PREPOSITIONS - {"about"}, HEADS, BE)
        return s.at(place) in NEGATIONS

    def _is_excepted(self, mention: Mention) -> bool:
        s = self._s
        previous = self._listed_before(mention)
        if previous in self._excepted:
            return True
        place = s.back(mention.first, ARTICLES, PREPOSITIONS, HEADS - {"everything", "anything"})
        word, earlier = s.at(place), s.at(place - 1)
        pair = (
            (word == "than" and earlier in ("other", "rather"))
            or (word == "longer" and earlier == "no")
            or (word in NEGATIONS and earlier in ("but", "and"))
            or (word == "but" and earlier in ("all", "everything", "anything"))
        )
        single = word in _EXCEPT or (word in ("apart", "aside") and s.at(place + 1) == "from")
        if pair or single:
            s.used.update({place, place - 1} if pair and word != "but" else {place})
        return pair or single


def _is_topic(mention: Mention) -> bool:
    """Whether the field may well say what a text is about; such words are searched for unless they clearly filter."""
    return mention.meanings[0].role in ("topic", "other")
