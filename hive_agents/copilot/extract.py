"""Answers that cite passages; without a model, sentences that are quoted verbatim where the evidence is strong.

A wrong answer with a citation is worse than a list of passages: when in doubt there is no answer. The thresholds were
chosen on one half of the questions in benchmarks/answers.jsonl; `python benchmarks/answers.py` measures the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from hive_agents.copilot.asking import (
    FieldWeights,
    answer_has_form,
    as_bounded,
    asks_plainly,
    content_terms,
    equal_weights,
    stemmed_words,
    tells,
    unnamed,
)
from hive_agents.copilot.demands import demands, is_cut
from hive_agents.copilot.language import LANGUAGES, answer_alternatives, answer_pattern, word_list
from hive_agents.copilot.outcome import AnswerSource
from hive_agents.copilot.prose import ProseSentence, read
from hive_agents.documents import DEFAULT_LANGUAGE, section_of, terms
from hive_agents.index import ChunkRow
from hive_agents.models import Usage

PASSAGES = 3
"""How many passages, the first, are searched for an answer."""
LONGEST = 250
"""The most characters of a sentence; a longer one matches by chance, and holds more than an answer."""
OWN, OWN_OF_PLAIN = 0.9, 0.55
"""The share of the question, by the weight of its words, that a sentence itself must contain; the second holds where
the question asks for a person, a time or a number, which the sentence then has to name."""
COVERED = 0.95
"""The share that it must contain together with its title, its headings and the sentence before that it refers to."""
DENSE = 0.2
"""The share of a sentence's words that the question must have, unless it asks for a person, a time or a number."""
RANK_DECAY = 0.9
"""The factor on scores for each rank: the search has compared more than words."""
BESIDE = 0.85
"""The share of the best score at which a sentence of another passage is quoted, too, if it has other figures."""
SAME_FORM, OTHER_FORM = 0.6, 0.5
"""The ratio of lengths from which two forms of a stem count as the same word, and what others count."""
BY_LINK = 0.5
"""What a word of the question counts that is only in a link's text, which is another page's title."""

Question = Mapping[str, str]
"""The question's content words by their terms."""

_NAME = re.compile(r"\b(?:[A-Z]+-\d+|\d+(?:\.\d+)+)(?![\w-])")
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?![\w]|[.,]\d)")
_IDENTIFIER = re.compile(r"[^\W_]\w*_\w+|(?<!\w)--?[a-z][\w-]+")

_OPEN, _CLOSE = r"[\[【［〔]", r"[\]】］〕]"
_NAMED = r"(?:(?:passages?|sources?|refs?|references?|documents?|docs?|excerpts?|no\.?|nr\.?)\s*)?[#^]?\s*"
_LIST = rf"\d+(?:\s*(?:[,;&/+‐‑–—-]|and|und)\s*{_NAMED}\d+)*"
# Some models write a dagger and a source inside the brackets; a link behind them is invented, so it is matched, too.
CITATION = re.compile(
    rf"{_OPEN}\s*{_NAMED}({_LIST})\s*(?:†[^\]】］〕\n]{{0,80}})?{_CLOSE}(?:\([^)\n]{{0,400}}\))?", re.I
)


@dataclass(frozen=True)
class Passage:
    """A chunk that passed the gate; `n` is the number that cites it."""

    n: int
    chunk_id: str
    doc_id: str
    title: str
    heading: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Answer:
    """An answer whose `text` cites as `[n]`; `cited` are those numbers, ascending. It is false without text."""

    text: str
    source: AnswerSource
    cited: tuple[int, ...] = ()
    removed_citations: int = 0
    removed_sentences: int = 0
    usage: Usage = field(default_factory=Usage)

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True)
class _Candidate:
    """A sentence that may answer; `score` is a share of the question, from 0 to 1.

    `before` is the previous sentence where it refers to that ("It is …"), else "". `in_force` is false where the
    document's metadata says that it isn't current, unless the question asks for such. `table` is the head of the table
    of which it is a row, else None.
    """

    passage: Passage
    place: int
    text: str
    score: float
    before: str
    in_force: bool
    table: str | None

    @property
    def figures(self) -> frozenset[str]:
        return frozenset(_FIGURE.findall(self.text))


def numbered(rows: Sequence[ChunkRow]) -> list[Passage]:
    """Return the results as passages, numbered from 1 as they are shown."""
    return [
        Passage(n, row.chunk_id, row.doc_id, row.title, row.heading, row.text, row.metadata)
        for n, row in enumerate(rows, start=1)
    ]


def extractive(
    query: str, passages: Sequence[Passage], language: str = DEFAULT_LANGUAGE, *, weights: FieldWeights | None = None
) -> Answer | None:
    """Return a sentence that answers, with its citation, and the one before that it refers to; None when in doubt.

    `weights` are those of the question's words in the reader's documents; without them each counts the same. Where a
    sentence of another passage scores nearly as high and has other figures, both are quoted. Deterministic.

    >>> passages = [Passage(1, "k.md#0", "k.md", "Keys", "", "Keys are secret. A lost key is revoked after 2 days.")]
    >>> extractive("when is a lost key revoked", passages).text
    'A lost key is revoked after 2 days. [1]'
    """
    weights = equal_weights(query, language) if weights is None else weights
    if not weights or not all(weights.values()):
        return None  # no document has one of the words: the passages answer another question
    if unnamed(query) is not None or not answer_has_form(query):
        return None
    candidates = sorted(_candidates(query, passages, language, weights), key=lambda each: (-each.score, each.place))
    if not candidates:
        return None
    best = candidates[0]
    if best.table is not None and any(
        each.passage == best.passage and each.table == best.table and each.score >= BESIDE * best.score
        for each in candidates[1:]
    ):
        return None  # several rows match, and the question doesn't say which one is meant
    others = (
        each
        for each in candidates[1:]
        if each.passage != best.passage
        and each.score >= BESIDE * best.score
        and each.figures != best.figures
        and (each.in_force or not best.in_force)
    )
    lines: dict[tuple[int, int], str] = {}
    for each in (best, *([other] if (other := next(others, None)) is not None else [])):
        lines[each.passage.n, each.place] = each.text
        if each.before:
            lines[each.passage.n, each.place - 1] = each.before
    text = " ".join(f"{lines[at]} [{at[0]}]" for at in sorted(lines))
    return Answer(text, "extractive", tuple(sorted({n for n, _ in lines})))


def inert(text: str) -> str:
    """Return a document's text with its bracketed numbers in parentheses, so that they don't pass for citations.

    >>> inert("as shown [3] and 【4, 5】")
    'as shown (3) and (4, 5)'
    """
    return CITATION.sub(lambda citation: f"({citation[1]})", text)


def quotable(passage: Passage) -> list[str]:
    """Return the sentences that an extractive answer may take from a passage, exactly as it shows them."""
    return [sentence.text for sentence in _quotes(passage.text)]


@lru_cache(maxsize=1024)
def _quotes(text: str) -> tuple[ProseSentence, ...]:
    """Return a passage's sentences as an answer shows them."""
    return tuple(replace(each, text=inert(each.text)) for each in read(text))


def _candidates(
    question: str, passages: Sequence[Passage], language: str, weights: FieldWeights
) -> Iterator[_Candidate]:
    """Yield the sentences that contain what is asked for, and enough of the question's words."""
    forms = _forms(question, language)
    asked = {term: min(forms.get(term, {term})) for term in weights}
    total = sum(weights.values())
    names, numbers = _NAME.findall(question), set(_NUMBER.findall(question))
    identifiers = set(_IDENTIFIER.findall(question))
    plain = asks_plainly(question)
    own_share = OWN_OF_PLAIN if plain else OWN
    demanded = demands(question, language)

    def share(counts: Mapping[str, float]) -> float:
        return sum(weights[term] * count for term, count in counts.items()) / total

    stale = {passage.n for passage in passages if _is_stale(passage, asked, language)}
    ordered = sorted(passages, key=lambda passage: passage.n in stale)
    for rank, passage in enumerate(ordered[:PASSAGES]):
        if not all(name in f"{passage.title} {passage.heading} {passage.text}" for name in names):
            continue  # it is about another version or code
        quoted = _quotes(passage.text)
        status = " ".join(_not_current(passage.metadata))
        for place, sentence in enumerate(quoted):
            section = section_of(passage.heading, passage.text, sentence.line)
            if _aside(section.rsplit(" > ", 1)[-1]):
                continue
            if not _states(sentence) or tells(question, sentence.text) is False:
                continue
            if not as_bounded(question, sentence.text):
                continue
            if not numbers.issubset(_NUMBER.findall(f"{passage.title} {section} {sentence.above} {sentence.text}")):
                continue  # the 17 of 15.17 doesn't count as 17
            subjects = _IDENTIFIER.findall(sentence.above)
            if identifiers and subjects and identifiers.isdisjoint(subjects):
                continue  # it describes another parameter, and only mentions this one
            around = _shared(asked, f"{passage.title} {section} {status}", language)
            # A single word is a topic: only a text about it answers, or a sentence of the kind that is asked for.
            if len(asked) == 1 and not _tells_of_one(question, asked, sentence.text, about=bool(around)):
                continue
            if not demanded.met(sentence.text, sentence.above, f"{passage.title} {section}"):
                continue
            before = _before(quoted, place)
            if before is None:
                continue
            own = _shared_outside_links(sentence, asked, language)
            if not plain and len(own) < DENSE * len(content_terms(sentence.text, language)):
                continue
            if before and answer_pattern("stands_for", r"^(?:{})\b").match(sentence.text):
                own = {**_shared(asked, before, language), **own}
            beside = _shared(asked, f"{sentence.above} {before}", language)
            covered = {term: max(each.get(term, 0.0) for each in (own, around, beside)) for term in asked}
            if share(own) >= own_share and share(covered) >= COVERED:
                score = (share(own) + share(covered)) / 2 * RANK_DECAY**rank
                table = sentence.above if sentence.kind == "table" else None
                yield _Candidate(passage, place, sentence.text, score, before, passage.n not in stale, table)


def _states(sentence: ProseSentence) -> bool:
    """Return whether a sentence is a complete statement: no code or log, no reference, announcement or question."""
    cut = sentence.kind == "prose" and is_cut(sentence.text)
    return sentence.is_written and not cut and len(sentence.text) <= LONGEST and not _points(sentence.text)


@lru_cache(maxsize=4096)
def _forms(text: str, language: str) -> Mapping[str, frozenset[str]]:
    """Return the terms of a text, each with its words in lower case."""
    forms: dict[str, set[str]] = {}
    for start, end, stems in stemmed_words(text, language):
        for term in stems:
            forms.setdefault(term, set()).add(text[start:end].lower())
    return {term: frozenset(words) for term, words in forms.items()}


def _shared_outside_links(sentence: ProseSentence, asked: Question, language: str) -> Mapping[str, float]:
    """Return the share that each of the question's words in a sentence counts, reduced for those only in links."""
    shares = _shared(asked, sentence.text, language)
    if not (shares and sentence.linked):
        return shares
    rest = sentence.text
    for link in sentence.linked:
        rest = rest.replace(link, " ")
    outside = _shared(asked, rest, language)
    return {term: outside.get(term, BY_LINK * share) for term, share in shares.items()}


def _shared(asked: Question, text: str, language: str) -> dict[str, float]:
    """Return the question's words in a text: 1 each, less for forms of unlike length, as valid and validation."""
    forms = _forms(text, language)
    return {term: max(_likeness(form, word) for form in forms[term]) for term, word in asked.items() if term in forms}


def _likeness(form: str, word: str) -> float:
    return 1.0 if min(len(form), len(word)) >= SAME_FORM * max(len(form), len(word)) else OTHER_FORM


def _is_stale(passage: Passage, asked: Question, language: str) -> bool:
    """Return whether the passage's document isn't current, and the question doesn't ask for such documents."""
    status = _not_current(passage.metadata)
    return bool(status) and asked.keys().isdisjoint(terms(" ".join(status), language))


def _before(quoted: Sequence[ProseSentence], place: int) -> str | None:
    """Return the previous sentence where this one refers to it, else ""; None where it can't be quoted."""
    if not answer_pattern("leans", r"^(?:[^:]{{1,40}}:\ )?(?:{})\b").match(quoted[place].text):
        return ""
    if place == 0:
        return None
    before = quoted[place - 1]
    usable = before.whole and before.is_written and before.above == quoted[place].above and not _points(before.text)
    return before.text if usable and len(before.text) <= LONGEST else None


def _tells_of_one(question: str, asked: Question, sentence: str, *, about: bool) -> bool:
    if answer_pattern("asks.what").search(question):
        return any(_defines(word, sentence) for word in asked.values())
    return about or bool(tells(question, sentence))


def _defines(word: str, sentence: str) -> bool:
    """Return whether the sentence defines the word, and doesn't just contain it beside another "is".

    >>> _defines("hub", "A hub is a box."), _defines("hub", "You lose the hub once your cable is old.")
    (True, False)
    """
    return re.search(answer_alternatives("defines").format(re.escape(word)), sentence, re.I | re.X) is not None


def _points(sentence: str) -> bool:
    """Return whether a sentence refers elsewhere, announces what follows, asks, or answers yes or no.

    >>> _points("The limits are listed in Plans."), _points("The limit is 20.")
    (True, False)
    """
    return bool(answer_pattern("points", "[?:？：]$|{}").search(sentence))


def _aside(heading: str) -> bool:
    """Return whether a section describes the document and not its subject.

    >>> _aside("7. Related documents"), _aside("Revision history"), _aside("Scope of a token")
    (True, True, False)
    """
    return bool(answer_pattern("aside", r"^[\W\d]*(?:{})\W*$").match(heading))


def _not_current(metadata: Mapping[str, Any]) -> list[str]:
    """Return the values, of any field, that mean that a document is not, or not yet, current.

    >>> _not_current({"status": "Retired", "owner": "dana"})
    ['retired']
    """
    values = frozenset().union(*(word_list("answers", "not_current", code) for code in LANGUAGES.values()))
    return [value.lower() for value in metadata.values() if isinstance(value, str) and value.lower() in values]
