"""How well each sentence of the passages answers: by its words, its place, and the kind of thing it tells of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from hive_agents.copilot.asked_for import asks_meaning, defines, names, tells
from hive_agents.copilot.citations import inert
from hive_agents.copilot.query_words import content_terms, forms
from hive_agents.copilot.sentences import Sentence, read
from hive_agents.copilot.turns_of_phrase import aside, leans, not_current, points
from hive_agents.retrieval.analysis import terms

if TYPE_CHECKING:
    from hive_agents.copilot.answers import Passage

MAX_SENTENCE = 400
MIN_WORDS = 2
"""The asked words that a sentence must hold itself, where the question has as many."""
BY_HEADING, BY_PASSAGE = 0.5, 0.4
"""What an asked word counts that stands only in the title or heading, or elsewhere in the passage."""
OTHER_FORM = 0.5
FRAGMENT, WRONG_KIND, UNHELPFUL = 0.8, 0.25, 0.4
RANK_DECAY = 0.7
"""The search has read more than words: a passage further down needs more of them."""
_SAME_FORM = 0.6

Asked = Mapping[str, str]
"""The question's content words by their terms."""


@dataclass(frozen=True)
class Scored:
    """A sentence with the asked words that it holds itself; `score` is a share of the question, from 0 to 1.

    `before` is the sentence that it goes on from, as "It is …" does; "" where it stands on its own.
    """

    passage: Passage
    place: int
    text: str
    own: frozenset[str]
    score: float
    before: str = ""


def scored(question: str, passages: Sequence[Passage], language: str) -> list[Scored]:
    """The sentences that may answer, best first; a rare word of the question counts more than a common one."""
    words = forms(question, language)
    asked = {term: min(words.get(term, {term})) for term in content_terms(question, language)}
    pool = [(passage, quotes(passage.text)) for passage in passages]
    held = {sentence: _held(sentence, asked, language) for _, quoted in pool for sentence in quoted}
    n = sum(len(quoted) for _, quoted in pool)
    frequency = Counter(term for _, quoted in pool for sentence in quoted for term in held[sentence])
    weight = {term: math.log(1 + (n + 1) / (frequency[term] + 1)) for term in asked}
    total = sum(weight.values())
    standings = _standings(passages, asked, language)
    min_words = max(1, min(MIN_WORDS, len(asked)))
    found: list[Scored] = []
    named = names(question)
    for passage, quoted in pool:
        if not all(name in f"{passage.title} {passage.heading} {passage.text}" for name in named):
            continue
        title = _shared(asked, f"{passage.title} {passage.heading}", language)
        inside = title.keys() | {term for sentence in quoted for term in held[sentence]}
        for place, sentence in enumerate(quoted):
            own = held[sentence]
            if len(sentence.text) > MAX_SENTENCE or len(own) < min_words:
                continue
            # One word is a topic: only a text that is about it answers, or a sentence of the kind that was asked for.
            if len(asked) == 1 and not _tells_of_one(question, asked, sentence.text, about=bool(title)):
                continue
            above = title | _shared(asked, sentence.above, language)
            share = sum(
                weight[term] * max(own.get(term, 0.0), BY_HEADING * above.get(term, 0.0), BY_PASSAGE * (term in inside))
                for term in asked
            )
            score = share / total * standings[passage.n] * _fitness(question, sentence)
            before = _before(quoted, place)
            found.append(Scored(passage, place, sentence.text, frozenset(own), score, before))
    return sorted(found, key=lambda each: (-each.score, each.passage.n, each.place))


@lru_cache(maxsize=1024)
def quotes(text: str) -> tuple[Sentence, ...]:
    """A passage's sentences as an answer shows them: a document's own numbers in brackets cite nothing."""
    return tuple(Sentence(inert(each.text), each.above, each.linked, each.whole) for each in read(text))


def _tells_of_one(question: str, asked: Asked, sentence: str, *, about: bool) -> bool:
    if asks_meaning(question):
        return any(defines(word, sentence) for word in asked.values())
    return about or bool(tells(question, sentence))


def _held(sentence: Sentence, asked: Asked, language: str) -> Mapping[str, float]:
    """The asked words in a sentence; what is only a link's text is another page's title, and counts as one."""
    held = _shared(asked, sentence.text, language)
    if not (held and sentence.linked):
        return held
    rest = sentence.text
    for link in sentence.linked:
        rest = rest.replace(link, " ")
    outside = _shared(asked, rest, language)
    return {term: outside.get(term, BY_HEADING * share) for term, share in held.items()}


def _shared(asked: Asked, text: str, language: str) -> dict[str, float]:
    """The asked words in a text: 1 each, less for a form that shares little but the stem, as valid and validation."""
    found = forms(text, language)
    return {term: max(_likeness(form, word) for form in found[term]) for term, word in asked.items() if term in found}


def _likeness(form: str, word: str) -> float:
    return 1.0 if min(len(form), len(word)) >= _SAME_FORM * max(len(form), len(word)) else OTHER_FORM


def _fitness(question: str, sentence: Sentence) -> float:
    """1 for a sentence that says something on its own; less for pieces, for pointers, for the wrong kind of thing."""
    fitness = 1.0 if sentence.whole else FRAGMENT
    if points(sentence.text):
        fitness *= UNHELPFUL
    if tells(question, sentence.text) is False:
        fitness *= WRONG_KIND
    return fitness


def _standings(passages: Sequence[Passage], asked: Asked, language: str) -> dict[int, float]:
    """How far each passage's word is taken, by its number: by its rank, its section, and whether it is in force.

    A document that isn't in force ranks behind all that are, unless the question asks for such.
    """

    def dead(passage: Passage) -> bool:
        status = not_current(passage.metadata)
        return bool(status) and asked.keys().isdisjoint(terms(" ".join(status), language))

    standings = {}
    for rank, passage in enumerate(sorted(passages, key=dead)):
        about_itself = aside(passage.heading.rsplit(" > ", 1)[-1])
        standings[passage.n] = RANK_DECAY**rank * (UNHELPFUL if about_itself else 1)
    return standings


def _before(quoted: Sequence[Sentence], place: int) -> str:
    """The sentence that this one leans on, where it stands just before it and is one to show."""
    if place == 0 or not leans(quoted[place].text):
        return ""
    before = quoted[place - 1]
    usable = before.whole and before.above == quoted[place].above and not points(before.text)
    return before.text if usable and len(before.text) <= MAX_SENTENCE else ""
