"""Who does what to whom: words of a claim in whose place a clause of its source has others, or that changed places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise, product

from hive_agents.judging.amounts import NUMBER_WORDS
from hive_agents.judging.clauses import Clause, Clauses, function_words, is_thing, meaning
from hive_agents.judging.passages import STOP
from hive_agents.judging.polarity import UNDER, negations

PLACES = frozenset("the a an of by to with for from in on at into their its his her your".split())
_ARTICLES = frozenset("the a an".split())
_INSIDE = {"in": "outside", "inside": "outside", "within": "outside", "outside": "in"}
_TURNED = {"in": "out", "out": "in", "on": "off", "off": "on", "up": "down", "down": "up"}
_WHAT = frozenset("by to from with into for in on of".split())
_BEFORE_VERB = frozenset("has have had need needs ought able likely going want wants".split())
_PASSIVE = re.compile(r"\b(?:is|are|was|were|be|been|being)\s+(?:\w+ )?\w+(?:ed|en)\b")
_NOT = re.compile(r"[, (](?:and )?not (.{3,60}?)(?:$|[,.;(])")
_NEGATED = re.compile(
    r"\b(?:do|does|did|is|are|be|was|were|has|have|had|may|can|must|will|need|shall|should|could|would|why|but|as)$"
)
_CAUSES = tuple((re.compile(pattern), turned) for pattern, turned in (
    (r"([^,;]{1,200}?),? (?:(?:is|are|was|were) )?(?:caused|triggered|produced|set off) by ([^,;]{1,200})", True),
    (r"([^,;]{1,200}?),? (?:because(?: of)?|due to|owing to|as a result of|result(?:s|ed)? from) ([^,;]{1,200})", True),
    (r"^\W*(?:because(?: of)?|due to|owing to|as a result of|since) ([^,;]{1,200}), ([^,;]{1,200})", False),
    (r"([^,;]{1,200}?),? (?:which )?(?:caus(?:es?|ed)|trigger(?:s|ed)|le(?:ads?|d) to|result(?:s|ed)? in) (?!by\b)"
     r"([^,;]{1,200})", False),
))  # fmt: skip
_POINTING = frozenset("it they he she this these those that which who there you we".split())


def roles_differ(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield a word of the claim in whose place the clause has another, or two that stand the other way round."""
    placed = {meaning(word) for one in (claim, clause) for before, word in pairwise(one.words) if before in PLACES}

    def unlike(word: str, other: Clause) -> bool:
        return word in placed and is_thing(word) and not _known(word, other)

    mine, theirs = ("", *claim.content, ""), ("", *clause.content, "")
    for left, word, right in zip(mine, mine[1:], mine[2:], strict=False):
        if word in source.stems and unlike(word, clause) and (is_thing(left) or is_thing(right)):
            found = [other for before, other, after in zip(theirs, theirs[1:], theirs[2:], strict=False)
                     if (before, after) == (left, right) and unlike(other, claim)]  # fmt: skip
            yield from (("role", word) for _ in found)
    adjacent = {(meaning(one), meaning(of)) for one, of in pairwise(clause.words)}
    compounds = adjacent.intersection(pairwise(clause.content))
    for kind, noun in pairwise(claim.content):
        beside = any((kind, noun) in pairwise(each.content) for each in source.clauses)
        if beside and unlike(kind, clause) and is_thing(noun):
            yield from (("role", kind) for one, of in compounds if of == noun and unlike(one, claim))
    told = _complements(claim)
    for place, words in _complements(clause).items():
        other = told.get(place, frozenset())
        rest = claim.stems - other
        unknown = not any(_known(one, source) for one in other)
        apart = other and words and not words & claim.stems and not other & clause.stems
        if place[1] == "of" and not (place[0] and unknown):
            continue
        if apart and (place[0] or unknown) and source.weight(rest & clause.stems) >= 0.6 * source.weight(rest):
            yield "role", " ".join(sorted(other))
    yield from _agents(claim, clause, source)
    yield from _caused(claim, clause)
    yield from _best(claim, clause)
    yield from _led_by(claim, clause, source)
    if (UNDER.search(claim.text) is None) is (UNDER.search(clause.text) is None):
        yield from _turned(claim, clause)
        yield from _swapped(claim, clause, source)
    yield from _contrasted(claim, clause)


def following(clause: Clause, place: int) -> list[str]:
    """Return the two words that mean something after a place."""
    return [meaning(word) for word in clause.words[place + 1 :] if word not in STOP][:2]


def _contrasted(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield what the claim says instead of what, where the clause has it the other way round."""
    mine, theirs = contrast(claim.text), contrast(clause.text)
    if theirs and "than" not in claim.words:
        is_, not_ = (Clause(part).stems for part in mine or (claim.text, ""))
        (was, was_not), so = (Clause(part).stems for part in theirs), Clause(theirs[0]).content[-2:]
        instead = (
            not_ & was - was_not
            if mine
            else "not" not in claim.words and was_not <= is_ and 0 < len({*so} & is_) < len({*so})
        )
        if instead and is_ & was_not - was:
            yield "role", " ".join(sorted(is_ & was_not))


def contrast(text: str) -> tuple[str, str] | None:
    """Return what is so and what isn't.

    >>> contrast("The pump stands left, not right."), contrast("It is not left.")
    (('The pump stands left', 'right'), None)
    """
    found = _NOT.search(text)
    before = text[: found.start()].rstrip(", (") if found else ""
    return (before, found[1]) if found and before and ";" not in before and not _NEGATED.search(before) else None


def _swapped(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield two things that stand in each other's place, where all else is in the same order."""
    if ("by" in claim.words) != ("by" in clause.words) or "than" in (*claim.words, *clause.words):
        return
    if (_PASSIVE.search(claim.text) is None) is not (_PASSIVE.search(clause.text) is None):
        return
    placed = {meaning(word) for one in (claim, clause) for before, word in pairwise(one.words) if before in PLACES}
    mine, theirs = ([one for one in each.content if claim.content.count(one) == 1 == clause.content.count(one)]
                    for each in (claim, clause))  # fmt: skip
    blocks = _exchanged(mine, theirs)
    if len(mine) < 4 or blocks is None or _WHAT & {*claim.words} != _WHAT & {*clause.words}:
        return
    one, other = (block[-1] for block in blocks)
    covered = source.weight(set(mine)) >= 0.8 * source.weight(claim.stems)
    joined = all(re.search(r"\b(?:and|or)\b", _between(one, other, each)) for each in (claim, clause))
    before = {_doer(each, _at(each, stem)) for each in (claim, clause) for stem in (one, other)}
    after = {(*following(each, _at(each, stem))[:1],) for each, stem in ((claim, one), (claim, other), (clause, one))}
    nouns = all(placed & {*block} for block in blocks) or (len(before) == 1 and "" not in before) or len(after) == 1
    if nouns and covered and not joined:
        yield "role", f"{one} {other}"


def _exchanged(mine: list[str], theirs: list[str]) -> tuple[list[str], list[str]] | None:
    """Return two runs of at most two words in each other's place, with something between them, where all else is alike.

    >>> _exchanged("the old mill sold the land to town".split(), "town sold the land to the old mill".split())
    >>> _exchanged("mill sold land to town".split(), "town sold land to mill".split())
    (['mill'], ['town'])
    """
    start = next(
        (place for place, (one, other) in enumerate(zip(mine, theirs, strict=True)) if one != other), len(mine)
    )
    mine, theirs = mine[start:], theirs[start:]
    for a, b in product((1, 2), repeat=2):
        for then in range(a + 1, len(mine) - b + 1):
            turned = mine[then : then + b] + mine[a:then] + mine[:a] + mine[then + b :]
            if turned == theirs:
                return mine[:a], mine[then : then + b]
    return None


def _doer(clause: Clause, place: int) -> str:
    return clause.words[place - 1] if place else ""


def _at(clause: Clause, stem: str) -> int:
    return next(at for at, word in enumerate(clause.words) if meaning(word) == stem)


def _between(one: str, other: str, clause: Clause) -> str:
    a, b = sorted((_at(clause, one), _at(clause, other)))
    return " ".join(clause.words[a:b])


def turned_round(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield a particle of the claim beside a verb with which the clause has the opposite one: breathe out."""
    mine, theirs = (list(zip(("", *each), each, (*each[1:], ""), strict=False)) for each in (claim.words, clause.words))
    pairs = {(verb, particle) for verb, particle, _ in theirs}
    for verb, particle, after in mine:
        turned = _TURNED.get(particle, "")
        closer = (verb, turned, after) in theirs and (verb, particle, after) not in theirs
        if verb and turned and (closer or ((verb, turned) in pairs and (verb, particle) not in pairs)):
            yield "negation", f"{verb} {particle}"
    led = {(word, *following(clause, place)[:1]) for place, word in enumerate(clause.words)}
    for place, word in enumerate(claim.words):
        what = following(claim, place)[:1]
        if (_INSIDE.get(word, ""), *what) in led and (word, *what) not in led and not negations(claim, clause) % 2:
            yield "negation", " ".join((word, *what))


def _turned(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield who does something to whom, where the clause has it the other way round."""
    if ("by" in claim.words) != ("by" in clause.words):
        return
    for verb in claim.stems:
        once = clause.content.count(verb) == claim.content.count(verb) == 1
        if once and _acts(verb, claim) and _acts(verb, clause) and _form(verb, claim) == _form(verb, clause):
            (doers, done), (others, theirs) = _sides_of(verb, claim), _sides_of(verb, clause)
            a, b = (set(filter(is_thing, one)) for one in (doers & theirs - others, done & others - theirs))
            if a and b and not any(_led(one, each) for one in a | b for each in (claim, clause)):
                yield "role", " ".join(sorted(a | b))


def _form(verb: str, clause: Clause) -> str:
    return clause.words[_at(clause, verb)][-1]


def _sides_of(verb: str, clause: Clause) -> tuple[set[str], set[str]]:
    at = clause.content.index(verb)
    return set(clause.content[max(0, at - 2) : at]), set(clause.content[at + 1 : at + 3])


def _caused(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield what is the cause by the claim, and by the clause's sentence the effect."""
    for cause, effect in _causes(claim.text):
        told = [(cause & one | effect & other, cause & other - one and effect & one - other)
                for one, other in _causes(clause.sentence)]  # fmt: skip
        if any(turned for _, turned in told) and not any(same for same, turned in told if not turned):
            yield "role", " ".join(sorted(cause))


def _causes(text: str) -> list[tuple[frozenset[str], frozenset[str]]]:
    """Return the words of each cause that a text tells of, with those of its effect.

    >>> _causes("the flood was caused by rain") == _causes("rain led to the flood")
    True
    """
    found = []
    for pattern, turned in _CAUSES:
        for parts in pattern.findall(text):
            cause, effect = (frozenset(filter(is_thing, Clause(part).stems)) for part in parts[:: -1 if turned else 1])
            found += [(cause, effect)] if cause and effect else []
    return found


def _best(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield a superlative of the claim where the clause gives another to the same: the oldest desert."""
    mine, theirs = ({meaning(word): following(each, place)[:1] for place, word in enumerate(each.words)
                     if word.endswith("est") and len(word) > 5} for each in (claim, clause))  # fmt: skip
    for word, of in mine.items():
        if of and word not in clause.stems and of in theirs.values():
            yield "role", word


def _led_by(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield what the claim begins with, where the clause says the same without it, and the source begins with it to
    tell something else: basalt traps gas."""
    word = next(iter(claim.content), "")
    leads = word in map(meaning, claim.words[: 1 + (claim.words[0] in _ARTICLES)])
    told = claim.stems - {word}
    theirs = next(iter(clause.content), "")
    ordered = any(each.words[1:2] and each.words[1] in PLACES for each in (claim, clause))  # turn on the light
    ordered = ordered or "only" in clause.words[:2]
    leads = leads and not claim.words[0].endswith("ing")  # using it is no thing
    if not leads or ordered or not is_thing(word) or _known(word, clause) or clause.words[0] in _POINTING:
        return
    if len(told & clause.stems) < 2 or (theirs in told and (theirs not in claim.content[1:2] or _acts(theirs, claim))):
        return
    shared = source.weight(told & clause.stems) / source.weight(told)
    own = [source.weight(told & each.stems) / source.weight(told) for each in source.clauses
           if word in each.stems and each.sentence]  # fmt: skip
    begins = any(word in each.content[:1] for each in source.clauses)
    if own and shared >= (0.75 if begins else 0.9) and max(own) < (0.5 if begins else 0.35):
        yield "role", word


def _known(word: str, clause: Clause | Clauses) -> bool:
    """Return whether a clause has a word, or one that begins as it does: complain and complaint."""
    return any(one == word or (len(one) > 5 and len(word) > 5 and one[:6] == word[:6]) for one in clause.stems)


def _agents(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield who does it by the claim, where the clause says that another does: one passive, the other active."""
    for passive, active in ((claim, clause), (clause, claim)):
        if "by" in active.words:
            continue
        for (verb, word), agents in _complements(passive).items():
            if (
                word != "by"
                or not verb
                or active.content.count(verb) != 1
                or not agents - _NOBODY
                or agents & active.stems
            ):
                continue
            at = active.content.index(verb)
            subject = active.content[at - 1] if at else ""
            known = (agents if passive is claim else {subject}) <= source.weights.keys()
            if subject and subject not in passive.stems and known:
                yield "role", subject if active is claim else " ".join(sorted(agents))


_NOBODY = frozenset(map(meaning, "default hand means mail post phone way law".split()))
"""What stands after "by" and does nothing."""


def _acts(stem: str, clause: Clause) -> bool:
    """Return whether a word is a verb here: accused, or replaces the."""
    return any(
        (word.endswith("ed") and before not in ("the", "a", "an"))
        or (word.endswith("s") and after and (after in PLACES or after not in function_words()))
        for before, word, after in zip(("", *clause.words), clause.words, (*clause.words[1:], ""), strict=False)
        if meaning(word) == stem
    )


def _led(stem: str, clause: Clause) -> bool:
    """Return whether a preposition leads to a word."""
    pairs = zip(clause.words, clause.words[1:], strict=False)
    return any(before in _WHAT | {"per", "of", "at"} and meaning(word) == stem for before, word in pairs)


def _complements(clause: Clause) -> dict[tuple[str, str], frozenset[str]]:
    """Return the words after each preposition, by (the word before it, the preposition)."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    for place, word in enumerate(clause.words):
        if word in _WHAT and not (place and clause.words[place - 1] in _BEFORE_VERB | NUMBER_WORDS.keys()):
            after: list[str] = []
            for each in clause.words[place + 1 : place + 6]:
                if each in _WHAT or (each in function_words() and after):
                    break
                after += [meaning(each)] if each not in function_words() and is_thing(each) else []
            before = clause.words[place - 1] if place else ""
            if word == "by":  # opened at noon by the clerk
                before = next((one for one in clause.words[:place][::-1] if one.endswith("ed")), before)
            for key in {(meaning(before) if before not in STOP else "", word), ("", word)}:
                found[key] = found.get(key, frozenset()) | frozenset(after)
    return found
