"""Answers without a model: whole sentences of passages, by their words, their place, and what they tell of."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hive_agents.copilot.answer import Answer, Passage, inert
from hive_agents.copilot.excerpts import content_terms, stemmed_words
from hive_agents.copilot.language import LANGUAGES, answer_alternatives, answer_pattern, word_list
from hive_agents.copilot.prose import ProseSentence, read
from hive_agents.retrieval import DEFAULT_LANGUAGE, terms

MAX_SENTENCES = 3
MAX_SENTENCE = 400
ENOUGH = 0.28
"""The share of a question's content words, rare ones counting more, that a sentence of the first passage must hold."""
BESIDE_SAME, BESIDE_OTHER = 0.7, 0.9
"""How near another sentence must come to the best one, in its passage and in another one."""
MIN_WORDS = 2
"""The question's words that a sentence must hold itself, where the question has as many."""
BY_HEADING, BY_PASSAGE = 0.5, 0.4
"""What a word of the question counts that stands only in the title or heading, or elsewhere in the passage."""
SAME_FORM, OTHER_FORM = 0.6, 0.5
"""How much of the longer form a word must share to count as the same, and what it counts otherwise."""
FRAGMENT, WRONG_KIND, UNHELPFUL = 0.8, 0.25, 0.4
RANK_DECAY = 0.7
"""The search has read more than words: a passage further down needs more of them."""

Question = Mapping[str, str]
"""The question's content words by their terms."""

_NAME = re.compile(r"\b(?:[A-Z]+-\d+|\d+(?:\.\d+)+)(?![\w-])")
_TELLS = {
    "who": ("person",),
    "how_long": ("span", "rhythm"),
    "when": ("span", "rhythm", "date"),
    "how_many": ("boundless", "counted"),
    "how_much": ("boundless",),
    "what": ("meaning",),
}
"""What a question asks for, the first counts, and what a sentence holds that tells it; figures tell how many."""


@dataclass(frozen=True)
class _Candidate:
    """A sentence with the question's words that it holds itself; `score` is a share of the question, from 0 to 1.

    `before` is the sentence that it goes on from, as "It is …" does; "" where it stands on its own.
    """

    passage: Passage
    place: int
    text: str
    words: frozenset[str]
    score: float
    before: str = ""


def extractive(query: str, passages: Sequence[Passage], language: str = DEFAULT_LANGUAGE) -> Answer | None:
    """Return one to three whole sentences in the order of the passages, each with its citation.

    None where no sentence scores `ENOUGH`: a wrong answer is worse than none. Another document is quoted beside the
    best sentence's only where it is nearly as good. The same input gives the same answer.

    >>> passages = [Passage(1, "k.md#0", "k.md", "Keys", "", "Keys never expire. A lost key is revoked at once.")]
    >>> extractive("what about a lost key", passages).text
    'A lost key is revoked at once. [1]'
    """
    found = _candidates(query, passages, language)
    if not found or found[0].score < ENOUGH:
        return None
    best = found[0]
    chosen = [best]
    for candidate in found[1:]:
        seen = frozenset().union(*(each.words for each in chosen))
        beside = BESIDE_SAME if candidate.passage == best.passage else BESIDE_OTHER
        # A second sentence has to tell of something that the first one doesn't.
        enough = candidate.score >= max(ENOUGH, best.score * beside) and candidate.words - seen
        if enough and len(chosen) < MAX_SENTENCES:
            chosen.append(candidate)
    lines = {(each.passage.n, each.place): each.text for each in chosen}
    for each in chosen:
        if each.before and len(lines) < MAX_SENTENCES:
            lines[each.passage.n, each.place - 1] = each.before
    text = " ".join(f"{lines[at]} [{at[0]}]" for at in sorted(lines))
    return Answer(text, "extractive", tuple(sorted({n for n, _ in lines})))


def quotable(passage: Passage) -> list[str]:
    """Return the sentences that an extractive answer may take from a passage, exactly as it shows them."""
    return [sentence.text for sentence in _quotes(passage.text)]


@lru_cache(maxsize=1024)
def _quotes(text: str) -> tuple[ProseSentence, ...]:
    """Return a passage's sentences as an answer shows them: a document's own numbers in brackets cite nothing."""
    return tuple(ProseSentence(inert(each.text), each.above, each.linked, each.whole) for each in read(text))


def _candidates(question: str, passages: Sequence[Passage], language: str) -> list[_Candidate]:
    """Return the sentences that may answer, best first; a rare word of the question counts more than a common one."""
    forms = _forms(question, language)
    asked = {term: min(forms.get(term, {term})) for term in content_terms(question, language)}
    pool = [(passage, _quotes(passage.text)) for passage in passages]
    held = {sentence: _held(sentence, asked, language) for _, quoted in pool for sentence in quoted}
    n = sum(len(quoted) for _, quoted in pool)
    frequency = Counter(term for _, quoted in pool for sentence in quoted for term in held[sentence])
    weight = {term: math.log(1 + (n + 1) / (frequency[term] + 1)) for term in asked}
    total = sum(weight.values())
    standings = _standings(passages, asked, language)
    names = _NAME.findall(question)
    found: list[_Candidate] = []
    for passage, quoted in pool:
        if not all(name in f"{passage.title} {passage.heading} {passage.text}" for name in names):
            continue  # what tells of another version or code doesn't answer
        title = _shared(asked, f"{passage.title} {passage.heading}", language)
        inside = title.keys() | {term for sentence in quoted for term in held[sentence]}
        for place, sentence in enumerate(quoted):
            own = held[sentence]
            if len(sentence.text) > MAX_SENTENCE or len(own) < max(1, min(MIN_WORDS, len(asked))):
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
            found.append(_Candidate(passage, place, sentence.text, frozenset(own), score, before))
    return sorted(found, key=lambda each: (-each.score, each.passage.n, each.place))


@lru_cache(maxsize=4096)
def _forms(text: str, language: str) -> Mapping[str, frozenset[str]]:
    """Return the terms of a text, each with the words that it stands for there; not to be changed."""
    found: dict[str, set[str]] = {}
    for start, end, stems in stemmed_words(text, language):
        for term in stems:
            found.setdefault(term, set()).add(text[start:end].lower())
    return {term: frozenset(words) for term, words in found.items()}


def _held(sentence: ProseSentence, asked: Question, language: str) -> Mapping[str, float]:
    """Return the question's words in a sentence; one in a link's text alone is another page's title, and counts so."""
    held = _shared(asked, sentence.text, language)
    if not (held and sentence.linked):
        return held
    rest = sentence.text
    for link in sentence.linked:
        rest = rest.replace(link, " ")
    outside = _shared(asked, rest, language)
    return {term: outside.get(term, BY_HEADING * share) for term, share in held.items()}


def _shared(asked: Question, text: str, language: str) -> dict[str, float]:
    """Return the question's words in a text: 1 each, less for a form that shares little, as valid and validation."""
    found = _forms(text, language)
    return {term: max(_likeness(form, word) for form in found[term]) for term, word in asked.items() if term in found}


def _likeness(form: str, word: str) -> float:
    return 1.0 if min(len(form), len(word)) >= SAME_FORM * max(len(form), len(word)) else OTHER_FORM


def _fitness(question: str, sentence: ProseSentence) -> float:
    """Return 1 for a sentence that says something on its own; less for pieces, pointers, the wrong kind of thing."""
    fitness = 1.0 if sentence.whole else FRAGMENT
    if _points(sentence.text):
        fitness *= UNHELPFUL
    if _tells(question, sentence.text) is False:
        fitness *= WRONG_KIND
    return fitness


def _standings(passages: Sequence[Passage], asked: Question, language: str) -> dict[int, float]:
    """Return how far each passage's word is taken, by its number: by its rank and its section.

    A document that isn't in force ranks behind all that are, unless the question asks for such.
    """

    def dead(passage: Passage) -> bool:
        status = _not_current(passage.metadata)
        return bool(status) and asked.keys().isdisjoint(terms(" ".join(status), language))

    standings = {}
    for rank, passage in enumerate(sorted(passages, key=dead)):
        about_itself = _aside(passage.heading.rsplit(" > ", 1)[-1])
        standings[passage.n] = RANK_DECAY**rank * (UNHELPFUL if about_itself else 1)
    return standings


def _before(quoted: Sequence[ProseSentence], place: int) -> str:
    """Return the sentence that this one leans on, where it stands just before it and is one to show."""
    if place == 0 or not answer_pattern("leans", r"^(?:{})\b").match(quoted[place].text):
        return ""
    before = quoted[place - 1]
    usable = before.whole and before.above == quoted[place].above and not _points(before.text)
    return before.text if usable and len(before.text) <= MAX_SENTENCE else ""


def _tells_of_one(question: str, asked: Question, sentence: str, *, about: bool) -> bool:
    if answer_pattern("asks.what").search(question):
        return any(_defines(word, sentence) for word in asked.values())
    return about or bool(_tells(question, sentence))


def _tells(question: str, sentence: str) -> bool | None:
    """Whether the sentence holds what a who, when, how long or how many asks for; None where it asks for no such.

    >>> _tells("How long is a link valid?", "A link works for 24 hours."), _tells("Who signs?", "It is signed in ink.")
    (True, False)
    """
    tells = _asked_for(question)
    return None if tells is None else bool(tells.search(sentence))


@lru_cache(maxsize=256)
def _asked_for(question: str) -> re.Pattern[str] | None:
    kind = next((kind for kind in _TELLS if answer_pattern(f"asks.{kind}").search(question)), None)
    if kind is None:
        return None
    tells = [answer_alternatives(f"tells.{name}") for name in _TELLS[kind]]
    if kind in ("how_many", "how_much"):
        # The digits of "F-101" are a name, and those of "step 2" a place.
        numbered = [word for code in LANGUAGES.values() for word in word_list("answers", "numbered", code)]
        tells.append("".join(rf"(?<!\b{word}\ )" for word in numbered) + r"(?<![\w-])[~≤≥<>±€$£−-]?\d")
    return re.compile("|".join(tells), re.I | re.X)


def _defines(word: str, sentence: str) -> bool:
    """Whether the sentence is about the word, and doesn't just hold it beside some other "is".

    >>> _defines("hub", "A hub is a box."), _defines("hub", "You lose the hub once your cable is old.")
    (True, False)
    """
    return re.search(answer_alternatives("defines").format(re.escape(word)), sentence, re.I | re.X) is not None


def _points(sentence: str) -> bool:
    """Whether it sends the reader elsewhere, announces what follows, asks, or says yes or no to another question.

    >>> _points("The limits are listed in Plans."), _points("The limit is 20.")
    (True, False)
    """
    return bool(answer_pattern("points", "[?:？：]$|{}").search(sentence))


def _aside(heading: str) -> bool:
    """Whether a section is about its document and not about its subject.

    >>> _aside("7. Related documents"), _aside("Revision history"), _aside("Scope of a token")
    (True, True, False)
    """
    return bool(answer_pattern("aside", r"^[\W\d]*(?:{})\W*$").match(heading))


def _not_current(metadata: Mapping[str, Any]) -> list[str]:
    """Return the values that say that a document is not, or not yet, in force, whatever their field is called.

    >>> _not_current({"status": "Retired", "owner": "dana"})
    ['retired']
    """
    values = frozenset().union(*(word_list("answers", "not_current", code) for code in LANGUAGES.values()))
    return [value.lower() for value in metadata.values() if isinstance(value, str) and value.lower() in values]
