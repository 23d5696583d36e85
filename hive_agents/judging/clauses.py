"""Clauses of a text as a claim is compared with them, and the words that are opposites or mean the same."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise, permutations
from math import log

from hive_agents.judging.amounts import MONTHS, NUMBER_WORDS, UNITS, Quantity, quantities
from hive_agents.judging.german import as_english, is_german, words
from hive_agents.judging.passages import STOP, stem

ALIKE = 0.4
"""The least share of a claim's weight that a clause which speaks of the same has."""

CLOSE = 0.73
"""The least share of a claim's weight, with half of that of the clause's, in which one contradicts the other."""

WORDS = re.compile(r"\w+(?:['’][a-z]+)?")
_CLAUSE = re.compile(
    r";\s+|,\s+(?:but|while|whereas|otherwise|except|so(?=\s(?:the|it|they|this)\b))\s+"
    r"|,\s+and\s+(?=\w+(?: \w+)? (?:is|are|was|may|must|can)\b)"
)
_DOUBLE = re.compile(
    r"^([^,;.]{3,80}?)\b((?:must|may|can|shall|should)\b[^,;]{3,120}?),? (?:and|but) ((?:must|may|can|shall|should)\b)"
)
"""A sentence that tells two duties of one: it must be cleaned and must not be opened."""
NUMBER_STEMS = frozenset(map(stem, NUMBER_WORDS))
_EXAMPLE = re.compile(r"(?<=\w)\s\((?:for example|for instance|e\.g\.)[^()]{0,160}\)")
_LESS = re.compile(r"not (?:from|in|on|for|with|to|at|by|during|of)\b")
"""How a part begins that leaves out the verb of the one before it: guests may eat here, but not in the hall."""
_SUBJECT = re.compile(
    r"((?:the |an? )?(?!(?:it|they|there|this|you|we|if|when)\b)\w+(?: \w+)?)"
    r" (?:is|are|was|were|must|may|can|has|have) "
)
_PRONOUN = re.compile(r"^(?:it|they)\b")
_IDENTIFIER = re.compile(
    r"(?<![\w-])(?![\w-]*-(?:years?|days?|weeks?|months?|hours?|to|and|of|the|or|in|old)\b)[a-z]{2,}(?:-[a-z]{2,}){2,}\b"
)
"""A name of several words, which mean nothing by themselves: disallow-other-stacks."""
_CODED = re.compile(r"(?=.*\d)(?=.*[a-z])")
_MODAL = re.compile(r"\b(?:must|may|can|need|do|does|shall|should)(?: not)?\b")
_AUXILIARY = re.compile(r"\b(?:must|may|can|shall|should|is|are|was|were)\b")
_PREDICATE = re.compile(r"(?:acceptable|ok(?:ay)?)$")
_PARTICIPLE = re.compile(r"(?:not|\w+ed|kept|made|sold|sent|lost|held|paid|built|written|given|taken)\b")


@dataclass(frozen=True)
class Clause:
    """A clause with its sentence, both as `plain` returns them; a row of a table and a head have no sentence."""

    text: str
    sentence: str = ""

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(WORDS.findall(self.text))

    @cached_property
    def content(self) -> tuple[str, ...]:
        """The stems of its words that mean something by themselves, in order; one stem for all of one meaning."""
        return tuple(meaning(word) for word in self.words if word not in function_words() and not word.isdigit())

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(self.content)

    @cached_property
    def _duty(self) -> tuple[str | None, int]:
        said = ((name, pattern.search(self.text)) for name, pattern in _tables().duties)
        return next(((name, found.end()) for name, found in said if found), (None, 0))

    @property
    def duty(self) -> str | None:
        """What it says of an action: free, forbidden, required, permitted."""
        return self._duty[0]

    @cached_property
    def act(self) -> str | None:
        """The first word that means something after what states the duty; none where that is said of a thing: is ok."""
        before, after = self.text[: self._duty[1]], self.text[self._duty[1] :]
        return next(iter(Clause(after).content), None) if self.duty and not _PREDICATE.search(before) else None


@dataclass(frozen=True)
class Clauses:
    """Clauses of the passages, and what each of their stems weighs: the more, the fewer clauses have it."""

    clauses: tuple[Clause, ...]
    weights: dict[str, float]

    def tells(self, amount: Quantity, claim: Clause) -> bool:
        """Return whether a clause that has a thing of the claim gives the amount."""
        return any(
            one.dimension is not None and amount.same(one)
            for each in self.clauses
            if any(map(is_thing, each.stems & claim.stems))
            for one in quantities(each.text)
        )

    @property
    def stems(self) -> Collection[str]:
        return self.weights.keys()

    def weight(self, stems: Collection[str]) -> float:
        return sum(self.weights.get(one, log(1 + len(self.clauses))) for one in stems)

    def is_close(self, claim: Clause, clause: Clause) -> bool:
        """Return whether a claim and a clause share enough for a difference between them to be one of the same."""
        return self._fit(claim, clause) >= CLOSE

    def _fit(self, claim: Clause, clause: Clause) -> float:
        """Return the share of a claim's weight that a clause has, and half of that of the clause's."""
        shared = claim.stems & clause.stems
        against = {one for one in claim.stems - shared if opposites(one) & clause.stems}
        common = self.weight(shared | against)
        spoken = shared.union(*map(opposites, against))
        parts = (Clause(one).stems for one in re.split(r"[,:(]\s?", clause.text))  # of a list, what it speaks of
        told = {word for part in parts if part & spoken for word in part}
        mine = common / (self.weight(claim.stems) or 1.0)
        whole, part = (common / (self.weight(stems) or 1.0) / 2 for stems in (clause.stems, told))
        return mine + max(whole, part - 0.1)

    def covers(self, claim: Clause, share: float) -> bool:
        """Return whether a sentence has that share of what a claim says."""
        least = share * self.weight(claim.stems)
        told = dict[str, set[str]]()
        for each in self.clauses:
            told.setdefault(each.sentence, set()).update(each.stems & claim.stems)
        return any(self.weight(stems) >= least for stems in told.values())

    def on_act(self, claim: Clause, near: Collection[Clause]) -> list[Clause]:
        """Return the clauses that speak most of a claim, of those that have what it says may, or must, be done; none
        where a clause near the claim has it."""
        act = claim.act
        if act is None or any(act in clause.stems for clause in near):
            return []
        own = [each for each in self.clauses if each.act == act]
        found = own or [each for each in self.clauses if act in each.stems and each.duty]
        scored = [(self.weight(each.stems & claim.stems), each) for each in found]
        best = max((score for score, _ in scored), default=0.0)
        return [each for score, each in scored if score >= max(best - 0.03, ALIKE * self.weight(claim.stems))]

    def after(self, clause: Clause) -> Clause:
        """Return the clause that follows, or an empty one."""
        return next((b for a, b in pairwise(self.clauses) if a is clause), Clause(""))

    def nearest(self, claim: Clause) -> list[Clause]:
        """Return the clauses that share most of the claim's weight; none where that is little."""
        total, found, most = self.weight(claim.stems), dict[Clause, None](), 0.0
        codes = {word for word in claim.stems & {*self.stems} if _CODED.match(word)}
        numbers = frozenset(word for word in claim.words if word.isdigit() and len(word) > 1)
        # An opposite shows what is spoken of nearly as well as the word itself, and so does a number that both have.
        for worth, counted in ((0.9, ()), (0.0, ()), (0.0, numbers))[: 2 + bool(numbers)] if total else ():
            scored = []
            for clause in self.clauses:
                shared = claim.stems & clause.stems
                against = {one for one in claim.stems - shared if opposites(one) & clause.stems}
                shared |= {word for word in counted if word in clause.words}
                scored.append(((self.weight(shared) + worth * self.weight(against)) / total, clause))
            best = max((score for score, _ in scored), default=0.0)
            if best >= 0.8 * most:
                found |= {clause: None for score, clause in scored if score >= max(ALIKE, best - 0.03)}
            most = best
        fit = {clause: self._fit(claim, clause) for clause in found}
        least = 0.75 * max(fit.values(), default=0.0)
        found = {one: None for one in found
                 if fit[one] >= (0.7 if numbers.intersection(one.words) else 1.0) * least}  # fmt: skip
        if codes:  # what is said of another code is said of something else
            found = {one: None for one in found if codes & one.stems} or found
        told = {clause.sentence for clause in found}
        found |= {
            each: None
            for each in self.clauses
            if each.sentence in told
            and negative_words() & {*each.words[:1]}
            and self.weight(each.stems & claim.stems) >= max(ALIKE * total, 0.9 * self.weight(each.stems))
        }
        return list(found)


@lru_cache(maxsize=64)
def source_of(sentences: tuple[str, ...]) -> Clauses:
    found: list[Clause] = []
    subject = ""
    for sentence in sentences:
        text = plain(sentence)
        text = _PRONOUN.sub(subject, text) if subject else text
        named = _SUBJECT.match(text)
        subject = named[1] if named else subject if _PRONOUN.match(text) else ""
        row = sentence.count("|") > 1 or sentence.startswith("#")
        found += [Clause(plain(sentence.replace("|", " ")))] if row else clauses(text)
    stems = {one for each in found for one in each.stems}
    weights = {one: log(1 + len(found) / sum(one in each.stems for each in found)) for one in stems}
    return Clauses(tuple(found), weights)


def clauses(sentence: str) -> list[Clause]:
    """Return the clauses of a sentence; one that ends in "need not" is given what the one before it ends in."""
    if len(said := re.split(r":\s+(?=(?:a|an|the)\b)", sentence)) > 1:  # what it is stands under no condition
        return [clause for each in said for clause in clauses(each)]
    if (found := re.match(r"\W*(?:while|whereas|although|though) ([^,]{9,}), (.*)", sentence)) is not None:
        return [Clause(part.strip(" ."), sentence) for part in found.groups()]
    parts = [part.strip(" .") for part in _CLAUSE.split(_DOUBLE.sub(r"\1\2; \1\3", sentence)) if part.strip(" .")]
    for place in range(1, len(parts)):
        last = list(_MODAL.finditer(parts[place]))
        verb = _MODAL.search(parts[place - 1])
        if last and verb and last[-1].end() == len(parts[place]):
            parts[place] += parts[place - 1][verb.end() :]
        elif (be := _AUXILIARY.search(parts[place - 1])) and _PARTICIPLE.match(parts[place]):
            left_out = re.match(r" \w+", parts[place - 1][be.end() :]) if _LESS.match(parts[place]) else None
            whole = parts[place].replace("not", f"not{left_out[0]}", 1) if left_out else parts[place]
            parts[place] = f"{parts[place - 1][: be.end()]} {whole}"
    return [Clause(_EXAMPLE.sub("", part), sentence) for part in parts]


def plain(text: str) -> str:
    """Return a text in lower case, with bounds and the like written in one way."""
    text = re.sub(r"([\"“'`](?:[\w.-]+ )?)(no|not|none|never)[\"”'`]", r"\1\2_", text)
    text = re.sub(r"(?<=\d )May\b|\bMay(?= \d)", "Mai", text)  # which permits nothing
    text = as_english(text.lower()) if is_german(text) else text.casefold()
    text = re.sub(r"(?<!\w)[*_]{1,3}(?=\w)|(?<=\w)[*_]{1,3}(?!\w)", "", text) if "*" in text else text
    text = re.sub(r"n[’']t\b", " not", text).replace("ca not", "can not").replace("wo not", "will not")
    text = _IDENTIFIER.sub(lambda found: found[0].replace("-", "_"), text.replace("cannot", "can not"))
    text = " ".join(text.split())
    for pattern, becomes in _tables().plain:
        text = pattern.sub(becomes, text)
    return " ".join(text.split())


@dataclass(frozen=True)
class _Tables:
    opposites: dict[str, frozenset[str]]
    alike: dict[str, frozenset[str]]
    same: dict[str, str]
    converses: frozenset[frozenset[str]]
    function: frozenset[str]
    negative: frozenset[str]
    numbered: frozenset[str]
    duties: tuple[tuple[str, re.Pattern[str]], ...]
    plain: tuple[tuple[re.Pattern[str], str], ...]


@cache
def _tables() -> _Tables:
    table = words()
    against: dict[str, set[str]] = {}
    alike: dict[str, set[str]] = {}
    forms, same = ({stem(word): stem(line.split()[0])
                    for line in table[name].split("\n") if line for word in line.split()}
                   for name in ("forms", "same"))  # fmt: skip
    for line in filter(None, table["opposites"].split("\n")):
        sides = [{one for word in side.split() for one in (stem(word), forms.get(stem(word), stem(word)))}
                 for side in line.split("|")]  # fmt: skip
        for side, opposed in permutations(sides, 2):
            for word in side:
                against.setdefault(word, set()).update(opposed)
                alike.setdefault(word, set()).update(side - {word})
    return _Tables(
        {word: frozenset(others) for word, others in against.items()},
        {word: frozenset(others) for word, others in alike.items()},
        forms | same,
        frozenset(frozenset(map(stem, line.split())) for line in table["converse"].split("\n") if line),
        STOP | frozenset(table["function"].split()),
        frozenset(table["negative"].split()),
        frozenset(table["numbered"].split()),
        tuple((name, re.compile(pattern, re.X)) for name, pattern in table["duties"].items()),
        tuple((re.compile(one["pattern"], re.X), one["becomes"]) for one in table["plain"]),
    )


def opposites(stem: str) -> frozenset[str]:
    return _tables().opposites.get(stem, frozenset())


def same_side(stem: str) -> frozenset[str]:
    """Return the words that have the same opposites."""
    return _tables().alike.get(stem, frozenset())


def converses() -> frozenset[frozenset[str]]:
    """Return the pairs of verbs of which one tells what the other does from the other's side: buy and sell."""
    return _tables().converses


def function_words() -> frozenset[str]:
    return _tables().function


def negative_words() -> frozenset[str]:
    return _tables().negative


def numbered_nouns() -> frozenset[str]:
    return _tables().numbered


def meaning(word: str) -> str:
    """Return the stem of a word, or the one that stands for all of its meaning."""
    found = stem(word)
    return _tables().same.get(found, found)


def is_thing(word: str) -> bool:
    """Return whether a word, or a stem, names something, and neither counts nor compares."""
    counts = word[:1].isdigit() or any(word in each for each in (NUMBER_WORDS, NUMBER_STEMS, MONTHS, UNITS))
    return bool(word) and not counts and stem(word) not in UNITS and not opposites(stem(word))
