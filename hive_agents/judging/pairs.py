"""Amounts and words that a claim puts together, and its source gives for different things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations

from hive_agents.judging.amounts import Quantity, quantities
from hive_agents.judging.clauses import WORDS, Clause, is_thing, meaning
from hive_agents.judging.passages import STOP

_SEGMENT = re.compile(r"[,;:]\s+(?:(?:and|but|while|whereas|or) )?|\s(?:and|but|while|whereas|or)\s")
_ORDINAL = r"first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:st|nd|rd|th)"
_ONE_WORD = re.compile(r"\b(?!\w+ty-)[a-z]+-(?!(?:second|minute|hour|day|week|month|year)s?\b)(?=[a-z])")
_BOUNDLESS = re.compile(r"\bunlimited\b|\bany (?:number|amount)\b")
_PLURAL = re.compile(r"s$|^(?:people|children|men|women|feet|teeth|percent)$")
_PREPOSITION = re.compile(r"\b(by|to|from|with|into|for|in|on)\b")


def amounts_differ(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of the claim's amounts that the clause gives otherwise, or for something else."""
    yield from _amounts(claim, clause)
    yield from _paired(claim, clause)


def _amounts(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield an amount of the claim where the clause, or its sentence for the same noun, has another of the same."""
    mine, beside = _ONE_WORD.sub("", claim.text), _ONE_WORD.sub("", clause.sentence)
    theirs = [(_counted(one, clause.text), one) for one in quantities(clause.text)]
    around = [(_owner(one, beside), one) for one in quantities(beside)]

    def alone(one: Quantity) -> bool:
        return one.dimension is not None and sum(other.dimension == one.dimension for other in quantities(mine)) == 1

    for one in quantities(mine):
        what = _counted(one, claim.text)
        if any(what & of for of, _ in theirs) and not any(one.same(other) for _, other in around):
            yield ("unit" if one.dimension else "number"), one.text
        own = [other for of, other in around if alone(one) and other.dimension == one.dimension and of & claim.stems]
        if own and not any(one.same(other) for other in own):
            yield "row", one.text
    for order, noun in re.findall(rf"\b({_ORDINAL}) (\w+)", claim.text):
        if re.search(rf"\b(?:{_ORDINAL}) {noun}", clause.text) and not re.search(rf"\b{order}\b", clause.sentence):
            yield "number", order
    if _BOUNDLESS.search(claim.text) and theirs:
        yield "quantity", "any"


def _owner(quantity: Quantity, text: str) -> set[str]:
    """Return the noun that an amount directly follows: a break of ten minutes."""
    found = re.search(rf"([^\W\d_]+)(?: of| is| lasts|:) (?:about |only )?{re.escape(quantity.text)}\b", text)
    return {meaning(found[1])} if found and found[1] not in STOP else set()


def _counted(quantity: Quantity, text: str) -> set[str]:
    """Return what a quantity is of: its dimension, else the words that follow."""
    if quantity.dimension is not None:
        return {quantity.dimension}
    after = text.partition(quantity.text)[2]
    return {
        meaning(word)
        for word in WORDS.findall(after)[:3]
        if word not in STOP and is_thing(word) and (quantity.value == 1 or _PLURAL.search(word))
    }


def _paired(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield an amount that the sentence gives for another of two things: adults pay 14 euros, students 8."""
    segments: list[tuple[tuple[str, ...], list[Quantity], str | None]] = []
    dimension: str | None = None
    for part in _SEGMENT.split(clause.sentence):
        amounts = list(quantities(part))
        segments.append((Clause(part).content, amounts, dimension))
        dimension = next((one.dimension for one in amounts if one.dimension), dimension)
    for mine in quantities(claim.text):
        given: dict[bool, list[tuple[str, ...]]] = {True: [], False: []}
        for words, amounts, carried in segments:
            alike = [one for one in amounts if (one.dimension or carried) == mine.dimension]
            if alike and words:
                given[any(mine.same(one) for one in alike)].append(words)
        alone = sum(one.dimension == mine.dimension and not one.vague for one in quantities(claim.text)) == 1
        if not (mine.dimension and alone and not mine.vague and given[True] and given[False]):
            continue
        carrier, rival = ({one for words in given[key] for one in words} for key in (True, False))
        first = any(words[0] in claim.stems for words in given[False]) and not any(
            words[0] in claim.stems for words in given[True]
        )
        if first or (
            claim.stems & {one for one in rival - carrier if is_thing(one)}
            and not claim.stems & {one for one in carrier - rival if is_thing(one)}
        ):
            yield "row", mine.text
    for amount, what in _amounts_of(claim.text):
        others = [(one, words) for one, words in _amounts_of(clause.sentence) if one.dimension == amount.dimension]
        same = {word for one, words in others if one.same(amount) for word in words}
        if same and (what - same) & {word for one, words in others if not one.same(amount) for word in words}:
            yield "row", amount.text


def _amounts_of(text: str) -> list[tuple[Quantity, frozenset[str]]]:
    """Return the amounts that a text gives of something, each with its words: 600 g of flour."""
    found = []
    for one in quantities(text):
        after = re.search(rf"(?<![\w.,]){re.escape(one.text)}\s?\S{{0,12}} of ((?:\w+ ?){{1,3}})", text)
        if one.dimension and after:
            found.append((one, Clause(re.split(r"\b(?:with|and|in|to|or)\b", after[1])[0]).stems))
    return found


def crossed(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield what the claim puts together of two parts that are built alike: in German in the morning, in English in
    the afternoon."""
    parts = [_phrases(part) for part in _SEGMENT.split(clause.sentence)]
    for one, other in permutations(parts, 2):
        if [word for word, _ in one] == [word for word, _ in other]:
            slots = [(a, b) for (_, a), (_, b) in zip(one, other, strict=True)]
            slots = slots if all(slots[0]) else slots[1:]  # "talks are in German in the morning and in English …"
            said = [(bool(a & claim.stems - b), bool(b & claim.stems - a)) for a, b in slots]
            if all(a and b for a, b in slots) and (True, False) in said and (False, True) in said:
                yield "row", " ".join(sorted(claim.stems & {word for slot in slots for side in slot for word in side}))


def _phrases(text: str) -> list[tuple[str, frozenset[str]]]:
    """Return the prepositions of a text, each with the words that follow it."""
    parts = _PREPOSITION.split(text)
    return [(word, frozenset(Clause(after).content[0 if word else -1 :]))
            for word, after in zip(["", *parts[1::2]], parts[::2], strict=True)]  # fmt: skip
