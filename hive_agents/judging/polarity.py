"""What is negated: how many negations a claim has more than a clause, of something that both speak of."""

from __future__ import annotations

import re
from itertools import pairwise

from hive_agents.judging.clauses import WORDS, Clause, Clauses, function_words, meaning, negative_words, opposites
from hive_agents.judging.passages import STOP, stem

UNDER = re.compile(
    r"\b(?:if|when|where|unless|in case|once|while) [^,]*"
    r"|\b(?:that|who) (?:\w+ )?not\b[^,]*?(?= (?:is|are|must|may|can|will)\b)"
)
_PART = re.compile(r"[,;] (?!such as |like |including )|\b(?:and|but|while|whereas)\b")
_UNTIL = re.compile(
    r"\b(?:not|no|never|nobody|nothing|none|neither)\b.{1,120}?\b(?:unless|until) ([^,;]+)"
    r"|\b(?:unless|until) ([^,;]{1,120}),.{1,120}?\b(?:not|no|never|nobody|nothing|none|neither)\b"
)
_AUXILIARY = frozenset("is are was were may can must shall will should has have".split())
_VERBS = re.compile(rf"\b(?:{'|'.join(sorted(_AUXILIARY))})\b")
_PRONOUNS = frozenset("nothing nobody none".split())
_LEADS = frozenset("for to in on from with at".split())
_EMPTY = frozenset(map(meaning, "take make get give do provide offer perform".split()))
"""Verbs that mean something by what follows them: take away."""


def denied_more(claim: Clause, clause: Clause, opposed: list[str], source: Clauses) -> int:
    """Return how many negations one of the two has more, of something that is in the other, too."""
    agreed = claim.duty is not None and claim.duty == clause.duty
    answered = {*opposed, *(other for one in opposed for other in opposites(one))}
    elapsed = any(re.search(r"\b(?:day|week|month|year|time)s? since\b", one.text) for one in (claim, clause))
    allowed = _allowed(claim, clause) or _allowed(clause, claim)
    count = allowed + sum(
        stem(one.words[place]) not in answered and not (one.words[place] == "without" and elapsed)
        for one in (claim, clause)
        for place in _negative(one)
    )
    if count % 2 == 0:
        if not count or any(UNDER.search(one.text) or "without" in one.words for one in (claim, clause)):
            return 0
        mine, theirs = _polarities(claim), _polarities(clause)  # "fixed and not sliding"
        both = mine.keys() & theirs.keys()
        turned = sum(mine[one] is not theirs[one] for one in both)
        return int(turned > 1 and 2 * turned > len(both))
    for one, other in ((claim, clause), (clause, claim)):
        under = set() if aside(other) else aside(one)
        for place in _negative(one):
            if place not in under:
                after = _after(one, place)
                if after and after[0] in answered:
                    return 1
                said = Clause(" ".join(one.words[max(0, place - 4) : max(0, place - 1)])).stems
                instead = (
                    one is not claim
                    and place
                    and one.words[place] == "not"
                    and one.words[place - 1] not in function_words() | _AUXILIARY
                )
                if instead and said and not said & claim.stems:
                    continue  # "packed in straw, not paper", and what is in paper
                if not agreed and one is not claim and _each_denied(one, place) & other.stems:
                    return 1
                last = Clause(_PART.split(" ".join(one.words[:place]))[-1]).stems  # "fines are not"
                if after and (after[0] in denied(other) or f"un{after[0]}" in other.stems):
                    continue
                elsewhere = one is claim and any(each in source.stems for each in set(after[1:2]) - other.stems)
                if not agreed and not elsewhere and (after[0] in other.stems if after else last & other.stems):
                    return 1
    return 0


def denied(clause: Clause, most: int = 2) -> frozenset[str]:
    """Return the words that mean something after each negation, two of each unless told."""
    return frozenset(stem for place in _negative(clause) for stem in _after(clause, place)[:most])


def negations(*each: Clause) -> int:
    return sum(len(_negative(one)) for one in each)


def _negative(clause: Clause) -> list[int]:
    """Return the places of the words that deny; neither and nor deny together, as do not, and not either."""
    words = clause.words
    found = [place for place, word in enumerate(words) if word in negative_words()]
    again = [place for place in found[1:] if "either" in words[place:]]
    return [
        place for place in found if place not in again and not (words[place] == "nor" and "neither" in words[:place])
    ]


def _allowed(one: Clause, other: Clause) -> bool:
    """Return whether what one denies until, or unless, something is so by the other, which tells the same of that."""
    said = None if _negative(other) else _UNTIL.search(one.text)
    when = Clause(said[1] or said[2]).stems if said else frozenset[str]()
    return bool(when) and 2 * len(when & Clause(other.sentence or other.text).stems) >= len(when)


def aside(clause: Clause) -> set[int]:
    """Return the places of the words that stand under a condition."""
    found = UNDER.search(clause.text)
    before = len(WORDS.findall(clause.text[: found.start()])) if found else 0
    return set(range(before, before + len(WORDS.findall(found[0])))) if found else set()


def _after(clause: Clause, place: int) -> list[str]:
    """Return the meanings of the words after a place that say something by themselves."""
    words = clause.words
    if words[place] in _PRONOUNS and place and words[place + 1 : place + 2] and words[place + 1] in _LEADS:
        return []  # "pays nothing for"
    after = [meaning(each) for each in words[place + 1 :] if each not in STOP]
    return [each for each in after if each not in _EMPTY]


def _each_denied(clause: Clause, place: int) -> set[str]:
    """Return what else is denied where several things are: no running, jumping or shouting is allowed."""
    end = next((at for at, word in enumerate(clause.words) if at > place and word in _AUXILIARY), place)
    listed = clause.words[place + 1 : end]
    if clause.words[place + 2 : place + 3] in (("or",), ("nor",)):  # "don't run or jump here"
        listed = clause.words[place + 1 : place + 4]
    return {meaning(word) for word in listed if word not in STOP} if {"or", "nor"} & {*listed} else set()


def _polarities(clause: Clause) -> dict[str, bool]:
    """Return whether each stem stands in a part of the clause that is negated, in few words."""
    listed = any(_each_denied(clause, place) for place in _negative(clause))
    said = [clause.text] if listed else _PART.split(clause.text)
    # "the lid can be washed, the tank can not": of what both parts tell, neither is all that is said
    parts = [Clause(_VERBS.split(part)[0] if after.endswith(" not") else part) for part, after in pairwise([*said, ""])]
    short = [part for part in parts if negations(part) % 2 == 0 or len(part.content) < 4]
    return {stem: negations(part) % 2 == 1 for part in short for stem in part.content}
