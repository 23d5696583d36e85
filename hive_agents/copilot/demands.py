"""Requirements on a sentence that answers a question, beyond having its words.

Most sentences with a question's words don't answer it: they count something else, give the place of another thing, or
use the words in another sense. The answers to each kind of question have a form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from hive_agents.copilot.asking import PlacedWord, asked_terms, content_terms, is_small, placed_words, stems_of, tells
from hive_agents.copilot.language import answer_pattern

NEAR = 4
"""The most words between two that are side by side in the question."""
BESIDE = 2
"""The most content words of a main clause beside a condition that the question doesn't have."""
COUNTED = 4
"""The most words from a number to the noun that it counts."""
DONE = 4
"""The most words from "is" to a participle."""
BOUNDLESS = 30
"""The most characters from "unlimited" to the noun that it is said of."""
SAME_NAME = 3
"""Letters that identify the name of a value: max. is a maximum."""

_LITERAL = re.compile(r"(?<![\w.])\w+(?:(?:[./]|::)\w+)+|[^\W_]+_\w+")
_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_CLAUSES = re.compile(r"[,;:]\s|\s[–—-]\s")
_ENDS = re.compile(r"[.!?…。！？][\"'”’)\]]*$")
_DIGITS = re.compile(r"\d+")
_CAPITALS = re.compile(r"\b[A-Z]{3,}\b")


@dataclass(frozen=True)
class Demands:
    """The requirements of one question.

    `asked` are its content terms, `literals` patterns of what has to appear verbatim, `pairs` adjacent terms, `bare`
    terms right after an article, `counted` those of the noun that it counts, `units` those of its units of time, and
    `verbs` those of its verbs that are function words elsewhere.
    """

    question: str
    language: str
    asked: tuple[str, ...]
    literals: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    bare: frozenset[str]
    counted: frozenset[str]
    units: frozenset[str]
    verbs: frozenset[str]

    def met(self, sentence: str, above: str, around: str) -> bool:
        """Return whether a sentence can be the answer; `above` is its lead-in, `around` its title and section."""
        placed = placed_words(sentence, self.language)
        whole = f"{around} {above} {sentence}".lower()
        return (
            all(re.search(literal, whole) for literal in self.literals)
            and all(self._beside(pair, placed, above, around) for pair in self.pairs)
            and not (len(self.asked) == 1 and self._asks("which"))
            and (self._asks("how_to") or self._asks("of_reader") or not answer_pattern("tells.order").match(sentence))
            and self._as_allowed(sentence, f"{around} {above}")
            and not self._is_narrower(sentence, placed)
            and not self._is_one_case(sentence)
            and not answer_pattern("tells.headless").search(sentence)
            and (not self._asks("how_often") or answer_pattern("tells.rhythm").search(sentence) is not None)
            and (not self.units or not self.units.isdisjoint(stems_of(placed)))
            and self._tells_together(sentence)
            and self._in_its_sense(sentence)
            and self._denies_as_asked(sentence)
            and (not self.counted or self._counts(sentence, placed))
            and (not any(map(self._asks, ("who", "when"))) or self.verbs <= stems_of(placed))
            and (not self._asks("who") or self._names(sentence, placed))
            and (not self._asks("when") or (self._dates(sentence) and self._happens(placed)))
            and (not self._asks("amount") or self._measures(sentence))
            and (not self._asks("what") or self._defines(sentence))
        )

    def _asks(self, kind: str) -> bool:
        return answer_pattern(f"asks.{kind}").search(self.question) is not None

    def _beside(self, pair: tuple[str, str], placed: Sequence[PlacedWord], above: str, around: str) -> bool:
        """Return whether two adjacent words of the question are near each other in the sentence, its lead-in or names.

        Also where one of them is in none of these: the share of the question's words decides then.
        """
        left, right = pair
        seen: set[str] = set()
        for words in (placed, placed_words(above, self.language), placed_words(around, self.language)):
            lefts = [n for n, word in enumerate(words) if left in word.stems]
            rights = [n for n, word in enumerate(words) if right in word.stems]
            if any(abs(one - other) <= NEAR for one in lefts for other in rights):
                return True
            seen |= {left} if lefts else set()
            seen |= {right} if rights else set()
        return len(seen) < 2

    def _in_its_sense(self, sentence: str) -> bool:
        """Return whether no word of the question is in capitals in the sentence: DELETE requests are another sense."""
        shouted = {word.lower() for word in _CAPITALS.findall(sentence)} - set(_CAPITALS.findall(self.question))
        plain = {word.lower() for word in re.findall(r"\b[a-z]{3,}\b", self.question)}
        return not shouted & plain

    def _as_allowed(self, sentence: str, names: str) -> bool:
        """Return whether a sentence states a permission or a bound where the question asks what is possible."""
        if not self._asks("can") or self._asks("how_to"):
            return True
        allows = answer_pattern("tells.permission").search(sentence) or answer_pattern("tells.boundless").search(
            sentence
        )
        return bool(allows or answer_pattern("tells.bounded").search(f"{names} {sentence}"))

    def _is_narrower(self, sentence: str, placed: Sequence[PlacedWord]) -> bool:
        """Return whether a sentence is about a kind of the subject: "a frozen sample", "for samples of soil, …"."""
        lead = answer_pattern("tells.lead", r"^(?:{})\b[^,]*,").match(sentence)
        if lead is not None and not set(content_terms(lead[0], self.language)) <= set(self.asked):
            return True
        return any(self._has_other_everywhere(term, placed) for term in self.bare)

    def _has_other_everywhere(self, term: str, placed: Sequence[PlacedWord]) -> bool:
        """Return whether each occurrence of a term is narrowed down by a word that the question doesn't have."""
        article = answer_pattern("tells.article", r"(?:{})")
        places = [n for n, word in enumerate(placed) if term in word.stems]
        return bool(places) and all(self._has_other(placed[max(0, n - 3) : n], article) for n in places)

    def _is_one_case(self, sentence: str) -> bool:
        """Return whether a sentence begins with a condition that the question doesn't name."""
        asks_for_condition = any(map(self._asks, ("when", "how_to", "condition")))
        return not asks_for_condition and answer_pattern("tells.condition").search(sentence) is not None

    def _tells_together(self, sentence: str) -> bool:
        """Return whether a time is in one clause with a word of the question, where a time is asked for."""
        if not any(map(self._asks, ("when", "how_long"))):
            return True
        clauses = _CLAUSES.split(sentence)
        return any(
            tells(self.question, clause) and not stems_of(placed_words(clause, self.language)).isdisjoint(self.asked)
            for clause in clauses
        )

    def _has_other(self, before: Sequence[PlacedWord], article: re.Pattern[str]) -> bool:
        """Return whether a content word that the question doesn't have is between an article and the next word."""
        places = [n for n, word in enumerate(before) if article.fullmatch(word.text)]
        between = before[places[-1] + 1 :] if places else ()
        return any(word.stems.isdisjoint(self.asked) and not is_small(word.text) for word in between)

    def _names(self, sentence: str, placed: Sequence[PlacedWord]) -> bool:
        """Return whether it names a person other than by the question's verb: "the owner owns" names nobody."""
        if len(self.asked) == 1:
            return False
        asked = placed_words(self.question, self.language)
        verb = next((n for n, word in enumerate(placed) for each in asked[1:2] if word.stems & each.stems), None)
        if verb is not None and not answer_pattern("tells.agent").search(sentence):
            others = set(self.asked) - placed[verb].stems
            rest = placed[verb + 1 :]
            again = any(answer_pattern("tells.again", r"(?:{})").fullmatch(word.text) for word in rest)
            if others and not again and others.isdisjoint(stems_of(rest)):
                return False  # the question asks who does it to the subject, and here the subject does it
        persons = answer_pattern("tells.person").finditer(sentence)
        repeated = {word.start for word in placed if word.stems & (self.verbs | set(self.asked))}
        return not self.verbs or any(person.start() not in repeated for person in persons)

    def _denies_as_asked(self, sentence: str) -> bool:
        """Return whether a sentence denies something only where the question does."""
        kind = "tells.warning" if self._asks("how_to") else "tells.negation"
        denies = answer_pattern(kind).search(sentence) is not None
        return not denies or self._asks("denial")

    def _counts(self, sentence: str, placed: Sequence[PlacedWord]) -> bool:
        """Return whether a number counts the question's noun, without a word between that narrows it down."""
        if answer_pattern("tells.example").search(sentence):
            return False
        asked = stems_of(placed_words(self.question, self.language))

        def passes(words: Sequence[PlacedWord]) -> bool:
            return all(
                not asked.isdisjoint(word.stems)
                or is_small(word.text)
                or answer_pattern("tells.neutral", r"(?:{})").fullmatch(word.text)
                for word in words
            )

        heads = [n for n, word in enumerate(placed) if self._is_counted(word, sentence)]
        boundless = answer_pattern("tells.boundless").search(sentence)
        if boundless is not None:
            return any(abs(boundless.start() - placed[head].start) <= BOUNDLESS for head in heads)
        numbers = [n for n, word in enumerate(placed) if _is_number(word, sentence)]
        for head in heads:
            for number in numbers:
                low, high = sorted((head, number))
                between = sentence[placed[low].end : placed[high].start]
                if high - low > COUNTED or re.search(r"[.!?;][\s\"']", between):
                    continue
                if number < head and passes(placed[low + 1 : high]):
                    return True
                if head < number and passes(placed[low + 1 : high]) and _ends_phrase(sentence, placed, number):
                    return True
        return False

    def _is_counted(self, word: PlacedWord, sentence: str) -> bool:
        """Return whether a word is the counted noun, in the plural as in the question: not "theme" for "themes"."""
        if self.counted.isdisjoint(word.stems):
            return False
        asked = [each for each in placed_words(self.question, self.language) if not each.stems.isdisjoint(self.counted)]
        if sentence[: word.start].endswith("-"):
            return True  # "8-bit" answers how many bits
        return word.text.endswith("s") or not all(each.text.endswith("s") for each in asked)

    def _dates(self, sentence: str) -> bool:
        """Return whether the question's words are in the main clause, and the condition or time is beside it."""
        marker = answer_pattern("tells.clause", r"\b(?:{})\b")
        asked = set(self.asked) & stems_of(placed_words(sentence, self.language))
        condition = marker.search(sentence)
        if condition is None:
            return True
        if condition.start() > 0:
            return self._is_nearly_all(sentence[: condition.start()], asked)
        clause, comma, main = sentence.partition(",")
        stems = stems_of(placed_words(clause, self.language))
        return bool(comma) and asked.isdisjoint(stems) and self._is_nearly_all(main, asked)

    def _happens(self, placed: Sequence[PlacedWord]) -> bool:
        """Return whether the question's participle is used as a verb: "has paid leave" doesn't say what is paid."""
        done = answer_pattern("asks.done", r"(?:{})\W*$").search(self.question)
        be = answer_pattern("tells.be", r"(?:{})")
        return done is None or any(
            word.text.lower() == done[0].strip(" ?!.").lower()
            and any(be.fullmatch(each.text) for each in placed[max(0, n - DONE) : n])
            for n, word in enumerate(placed)
        )

    def _is_nearly_all(self, clause: str, asked: set[str]) -> bool:
        """Return whether a clause has these words and few others, which the condition might be about."""
        content = set(content_terms(clause, self.language))
        return asked <= content and len(content - set(self.asked)) <= BESIDE

    def _measures(self, sentence: str) -> bool:
        """Return whether the word of a one-word question is followed by its measure; others need no such order."""
        if answer_pattern("tells.example").search(sentence):
            return False
        if len(self.asked) > 1:
            return True
        placed = placed_words(sentence, self.language)
        measured = answer_pattern("tells.measured", r"\W*(?:{})\W(?:\W*\w+){{0,3}}?\W*\d")
        return any(self.asked[0] in word.stems and measured.match(sentence[word.end :]) for word in placed)

    def _defines(self, sentence: str) -> bool:
        """Return whether a sentence defines the subject itself, and not a part of it or something named after it.

        Where an attribute is asked for, its value has to be in the clause that names it or in a later one.
        """
        attribute = answer_pattern("asks.attribute").search(self.question)
        if attribute is not None:
            clauses = _CLAUSES.split(sentence)
            name = attribute[0][:SAME_NAME].lower()
            named = next((n for n, clause in enumerate(clauses) if name in clause.lower()), 0)
            return any(answer_pattern("tells.value").search(clause) for clause in clauses[named:])
        is_ = answer_pattern("tells.meaning").search(sentence)
        if is_ is None:
            return False
        subject = set(content_terms(sentence[: is_.start()], self.language))
        if subject == set(self.asked):
            return not answer_pattern("tells.remark", r"\W*(?:{})\b").match(sentence[is_.end() :])
        return set(content_terms(sentence[is_.end() :], self.language)) == set(self.asked)


def is_cut(sentence: str) -> bool:
    """Return whether a sentence has no end, as one before a list.

    >>> is_cut("The fee is due"), is_cut("The fee is due (see no. 2).")
    (True, False)
    """
    return _ENDS.search(sentence) is None


@lru_cache(maxsize=256)
def demands(question: str, language: str) -> Demands:
    """Return the requirements of a question."""
    asked = tuple(asked_terms(question, language))
    words = placed_words(question, language)
    pairs = {
        (one, other)
        for left, right in pairwise(words[2:] if answer_pattern("asks.which").match(question) else words)
        if question[left.end : right.start] in (" ", "-")
        for one in left.stems.intersection(asked)
        for other in right.stems.intersection(asked)
        if one != other
    }
    verbs = {
        stem for word in words if answer_pattern("asks.verb", r"(?:{})").fullmatch(word.text) for stem in word.stems
    }
    bare = {
        stem
        for left, right in pairwise(words)
        if answer_pattern("tells.article", r"(?:{})").fullmatch(left.text) and question[left.end : right.start] == " "
        for stem in right.stems.intersection(asked)
    }
    units = answer_pattern("asks.unit").finditer(question)
    literals = {re.escape(literal) for literal in _LITERAL.findall(question.lower())}
    compounds = (compound.removesuffix("s").split("-") for compound in _COMPOUND.findall(question.lower()))
    literals |= {r"[-\s]?".join(map(re.escape, parts)) for parts in compounds}
    return Demands(
        question=question,
        language=language,
        asked=asked,
        literals=frozenset(literals),
        pairs=frozenset(pairs),
        bare=frozenset(bare),
        counted=_counted(question, language),
        units=frozenset(stem for unit in units for word in placed_words(unit[0], language)[-1:] for stem in word.stems),
        verbs=frozenset(verbs),
    )


def _counted(question: str, language: str) -> frozenset[str]:
    """Return the stems of what a question counts: the noun behind "how many"."""
    how_many = answer_pattern("asks.how_many").search(question)
    if how_many is None or answer_pattern("asks.how_long").search(question):
        return frozenset()
    run: list[PlacedWord] = []
    for word in placed_words(question[how_many.end() :], language):
        if is_small(word.text):
            break
        run.append(word)
    capitals = [word for word in run if word.text[0].isupper()]
    plural = [word for word in run if word.text.endswith("s")]
    german = how_many[0].lower().startswith("wie")
    heads = (capitals or run[:1]) if german else (plural or run)[-1:]
    return frozenset(stem for word in heads for stem in word.stems)


def _is_number(word: PlacedWord, sentence: str) -> bool:
    if answer_pattern("tells.number", r"(?:{})").fullmatch(word.text):
        return True
    before = sentence[: word.start]
    named = re.search(r"[\w.]-$|\w\.$|\($", before) or answer_pattern("asks.names", r"\b(?:{})\s$").search(before)
    return bool(_DIGITS.fullmatch(word.text)) and not named


def _ends_phrase(sentence: str, placed: Sequence[PlacedWord], number: int) -> bool:
    """Return whether a number counts nothing after it: a sign, a function word or nothing follows."""
    if number + 1 == len(placed):
        return True
    gap = sentence[placed[number].end : placed[number + 1].start]
    return gap.strip() != "" or is_small(placed[number + 1].text)
