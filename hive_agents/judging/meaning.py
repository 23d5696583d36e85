"""What a claim says otherwise than the clauses of its source that speak of the same: opposites, negation, duty, order,
extent, conditions, roles. A claim differs where *every* such clause contradicts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from hive_agents.judging.amounts import NUMBER_WORDS, UNITS, quantities
from hive_agents.judging.clauses import (
    WORDS,
    Clause,
    Clauses,
    clauses,
    function_words,
    is_thing,
    meaning,
    negative_words,
    opposites,
    plain,
    same_side,
    source_of,
)
from hive_agents.judging.pairs import amounts_differ, crossed
from hive_agents.judging.passages import STOP, stem

_CONFLICTS = frozenset(
    frozenset(pair.split())
    for pair in ("forbidden permitted", "forbidden required", "forbidden free", "required permitted", "required free")
)
_CONDITION = re.compile(r"\b(?:only )?(?:if|unless|except|provided(?: that)?)\b|\bonly (?:when|with|after|where)\b")
_POINTING = re.compile(r"\b(?:it|them|this|these)\b")
_PART = re.compile(r"[,;] |\b(?:and|but|while|whereas)\b")
_UNDER = re.compile(r"\b(?:if|when|where|unless|in case|once) [^,]*")
_UNIVERSAL = re.compile(
    r"\b(?:all|every|each|any(?! (?:two|three|four|\d))|always|both|whole|entire|everyone|everybody|whoever|anyone|per"
    r"|any time)\b"
)
_LIMITED = re.compile(
    r"\b(?:some|most|many|few|several|only|certain|neither|usually|often|sometimes|mostly|one|half|part)\b"
)
_SWEEPING = re.compile(r"\b(?:always|everyone|everybody|anyone|anybody|whenever|at any ?time|in (?:any|every) case)\b")
_PERSONS = ("everyone", "everybody", "anyone", "anybody")
_NARROWING = frozenset("over above under below that which who whose with without until from since".split())
_BOUND = re.compile(
    r"\b(?:(atleast|(?:more|longer|later|larger|greater) than|over|above|exceeds?)"
    r"|(?:atmost|(?:less|shorter|fewer|earlier|smaller) than|under|below)) (?:[€$£] ?)?$"
)
_EXCEPTED = re.compile(
    r"\b(?:unless|except(?: for)?|without|excluding|other than) ([^,;]*)|\b((?:\w+ ){1,3})excepted\b"
)
_UNLESS = re.compile(r"\b(?:unless|except|excepted|excluding|other than)\b")
_ONLY = re.compile(r"\b(?:only|except|just|atmost|alone|no other|not)\b")
MORE = r"\b(?:more|above|over|(?:great|larg|bigg|high|long|tall|heavi|thick|fast|strong|old|warm|hott)er)\b"
LESS = r"\b(?:less|fewer|below|under|(?:small|low|short|light|thinn|slow|weak|young|cool|cold|cheap)er)\b"
_PLACES = frozenset("the a an of by to with for from in on at into their its his her your".split())
_TURNED = {"in": "out", "out": "in", "on": "off", "off": "on", "up": "down", "down": "up"}
_LETTERS = frozenset("bcdefghjklmnopqrstuvwxyz")
_WHAT = frozenset("by to from with into for in on".split())


def differences(claim: str, sentences: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (kind, words) of what every clause that speaks of the same as the claim contradicts."""
    source = source_of(tuple(sentences))
    parts = clauses(plain(claim))
    whole = Clause(plain(claim), plain(claim))
    for one in parts if len(parts) > 1 and all(len(part.content) > 2 for part in parts) else [whole]:
        found: dict[str, tuple[str, str] | None] = {}
        for clause in source.nearest(one)[:12]:  # a text that repeats itself takes no longer
            contradicted = next(_contradictions(one, clause, source), None)
            after = source.after(clause)  # "spit it out; don't swallow it"
            if not contradicted and _POINTING.search(after.text) and after.stems and after.stems <= one.stems:
                contradicted = next(_contradictions(one, after, source), None)
            found[clause.sentence] = found.get(clause.sentence) or contradicted
        if found and all(found.values()):
            yield from [each for each in found.values() if each][:1]


def _contradictions(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    if not clause.sentence:
        return
    marks, others = ({one for one in each.words if one in _LETTERS} for each in (claim, clause))
    if marks and others and not marks & others:  # another revision, another class
        return
    opposed = _opposed(claim, clause)
    excepted = " ".join(part for found in _EXCEPTED.findall(clause.sentence) for part in found)
    spared = {one for one in Clause(excepted).stems if is_thing(one)}
    both = "without" in claim.words and "without" in clause.words
    if not both and not _UNLESS.search(claim.text) and claim.stems & spared:
        rule = Clause(_EXCEPTED.sub(" ", clause.sentence))  # what is excepted can't be as the rule says
        covered = source.weight((rule.stems & claim.stems) - spared) >= 0.4 * source.weight(claim.stems - spared)
        told = f"{excepted.strip()}, wh" in clause.sentence  # "except the last, which may"
        differs = told or bool(_opposed(claim, rule)) or _negations(claim, rule) % 2 == 1
        if spared <= claim.stems and covered and not differs:
            yield "condition", "except"
        return
    duties = {claim.duty, clause.duty} - {None}
    denied = _denied(claim, clause, opposed)
    if denied and not opposed and any(opposites(meaning(word)) & clause.stems - claim.stems for word in claim.words):
        denied = 0  # "lose none" and "keep"
    unclear = duties == set() and opposed and not denied and _negations(claim) % 2  # "part-time staff don't qualify"
    if len(duties) == 2 and frozenset(duties) in _CONFLICTS and not opposed:
        if not (act := _act(claim)) or act in clause.stems:
            yield "negation", f"{claim.duty}"
    elif len(opposed) < 2 and (len(opposed) + denied) % 2 and not unclear:
        yield "negation", " ".join(opposed) or "not"
    mine, theirs = _order(claim), _order(clause)
    if mine and theirs and mine[0] & theirs[1] - theirs[0] and mine[1] & theirs[0] - theirs[1]:
        yield "order", " ".join(sorted(mine[0] & theirs[1]))
    yield from amounts_differ(claim, clause, source)
    if not opposed and not denied and (bound := _bounds(claim, clause)):
        yield "negation", bound
    yield from _condition(claim, clause, source)
    yield from _extent(claim, clause)
    yield from _only(claim, clause)
    yield from crossed(claim, clause)
    yield from _turned_round(claim, clause)
    yield from _roles(claim, clause, source)


def _negations(*each: Clause) -> int:
    return sum(word in negative_words() for one in each for word in one.words)


def _act(clause: Clause) -> str | None:
    """Return the first word that means something after what states the clause's duty."""
    after = Clause(clause.text[clause.duty_ends :]).content
    return after[0] if after else None


def _denied(claim: Clause, clause: Clause, opposed: list[str]) -> int:
    """Return how many negations one of the two has more, of something that is in the other, too."""
    agreed = claim.duty is not None and claim.duty == clause.duty
    answered = {*opposed, *(other for one in opposed for other in opposites(one))}
    count = sum(
        word in negative_words() and stem(word) not in answered for one in (claim, clause) for word in one.words
    )
    if count % 2 == 0:
        if not count or any(_UNDER.search(one.text) or "without" in one.words for one in (claim, clause)):
            return 0
        mine, theirs = _polarities(claim), _polarities(clause)  # "fixed and not sliding"
        both = mine.keys() & theirs.keys()
        turned = sum(mine[one] is not theirs[one] for one in both)
        return int(turned > 1 and 2 * turned > len(both))
    for one, other in ((claim, clause), (clause, claim)):
        aside = {place for place in _aside(one) if not _aside(other)}
        for place, word in enumerate(one.words):
            if word in negative_words() and place not in aside:
                after = [meaning(each) for each in one.words[place + 1 :] if each not in STOP]
                if after and after[0] in answered:
                    return 1
                last = Clause(_PART.split(" ".join(one.words[:place]))[-1]).stems  # "fines are not"
                if not agreed and (after[0] in other.stems if after else last & other.stems):
                    return 1
    return 0


def _aside(clause: Clause) -> set[int]:
    """Return the places of the words that stand under a condition."""
    found = _UNDER.search(clause.text)
    before = len(WORDS.findall(clause.text[: found.start()])) if found else 0
    return set(range(before, before + len(WORDS.findall(found[0])))) if found else set()


def _polarities(clause: Clause) -> dict[str, bool]:
    """Return whether each stem stands in a part of the clause that is negated, in few words."""
    parts = [Clause(part) for part in _PART.split(clause.text)]
    short = [part for part in parts if _negations(part) % 2 == 0 or len(part.content) < 4]
    return {stem: _negations(part) % 2 == 1 for part in short for stem in part.content}


def _opposed(claim: Clause, clause: Clause) -> list[str]:
    """Return the claim's words that have an opposite in the clause, beside the same, where neither has the other's."""
    mine, theirs = _bases(claim), _bases(clause)
    found: dict[int, str] = {}
    for base in mine.keys() - theirs.keys():
        against = ({*opposites(base), *_prefixed(base)} & theirs.keys()) - mine.keys()
        if not against or same_side(base) & theirs.keys():
            continue
        short = min(len(claim.content), len(clause.content)) < 4
        if short or any(_around(claim, mine[base]) & _around(clause, theirs[other]) for other in against):
            found.setdefault(mine[base], base)
    ordered = _order(claim) is not None and _order(clause) is not None
    return [one for place, one in found.items() if place - 1 not in found  # "rises above" and "falls below" differ once
            and not (ordered and one in ("befor", "after"))]  # fmt: skip


def _prefixed(base: str) -> Iterator[str]:
    """Yield a stem with the prefixes that turn it round, or without the one that it has: paid and unpaid."""
    for prefix in ("un", "in", "dis", "non", "im"):
        if len(base) > 3:
            yield prefix + base
        if base.startswith(prefix) and len(base) > len(prefix) + 2:
            yield base.removeprefix(prefix)


def _bases(clause: Clause) -> dict[str, int]:
    """Return the stems of a clause's words, comparatives without their ending, with the place of each."""
    found: dict[str, int] = {}
    for place, word in enumerate(clause.words):
        if word in ("lasts", "lasted", "lasting"):
            continue
        for base in (
            stem(word),
            *(
                stem(re.sub(r"i$", "y", word.removesuffix(end)))
                for end in ("er", "est")
                if word.endswith(end) and len(word) > 5
            ),
        ):
            found.setdefault(base, place)
    return found


def _around(clause: Clause, place: int) -> set[str]:
    """Return the two words that mean something on each side."""
    before = [meaning(word) for word in clause.words[:place] if word not in STOP]
    after = [meaning(word) for word in clause.words[place + 1 :] if word not in STOP]
    return {*before[-2:], *after[:2]}


def _order(clause: Clause) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the words of what comes first and of what comes then, where a clause says so."""
    if found := re.search(r",? first,? (?:and )?then |, after which |, (?:and )?then (?=to\b)", clause.text):
        return Clause(clause.text[: found.start()]).stems, Clause(clause.text[found.end() :]).stems
    for word in ("before", "after"):
        first, said, then = clause.text.partition(f" {word} ")
        if said:
            pair = (Clause(first).stems, Clause(then).stems)
            return pair if word == "before" else pair[::-1]
        if clause.text.startswith(f"{word} ") and "," in clause.text:
            first, _, then = clause.text.removeprefix(f"{word} ").partition(",")
            pair = (Clause(then).stems, Clause(first).stems)
            return pair if word == "before" else pair[::-1]
    left, said, right = clause.text.partition(" than ")
    if said and (len(re.findall(MORE, left)) + len(re.findall(LESS, left))) == 1:
        pair = (Clause(left.rpartition(", ")[2] if "," in left else left).stems, Clause(right).stems)
        return pair if re.search(LESS, left) else pair[::-1]
    return None


def _bounds(claim: Clause, clause: Clause) -> str | None:
    """Return a bound of the claim whose amount the clause bounds from the other side."""
    for one in quantities(claim.text):
        mine = _BOUND.search(claim.text[: claim.text.find(one.text)])
        for other in quantities(clause.text) if mine and one.dimension else ():
            theirs = _BOUND.search(clause.text[: clause.text.find(other.text)])
            if mine and theirs and one.same(other) and other.dimension and (mine[1] is None) is not (theirs[1] is None):
                return mine[0].strip()
    return None


def _extent(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield the claim's "all" where the clause speaks of some."""
    limited = _LIMITED.search(clause.text) or _CONDITION.search(clause.sentence) or "whenever" in clause.words
    for found in re.finditer(_SWEEPING, claim.text):
        chosen = found[0] in _PERSONS and re.search(r"\b(?:who|for \w+s)\b", clause.text)
        if not _UNIVERSAL.search(clause.text) and (limited or chosen):
            yield "quantity", found[0]
    for found in re.finditer(r"\b(all|every|each|both)\b(?: of)?(?=((?: [^\W_]+(?:['’]s)?){0,6}))", claim.text):
        named = [word for word in WORDS.findall(found[2]) if word not in STOP][: 2 if found[1] == "all" else 1]
        nouns = {meaning(word) for word in named if is_thing(word)}
        limits = [_limit(clause, at) for at, word in enumerate(clause.words) if meaning(word) in nouns]
        if limits and all(limits):
            yield "quantity", found[1]


def _limit(clause: Clause, at: int) -> bool:
    """Return whether a word of a clause is counted, or one thing of its kind, and not all."""
    ahead = clause.words[max(0, at - 5) : at]
    if _UNIVERSAL.search(" ".join(ahead)):
        return False
    narrowed = at + 1 < len(clause.words) and clause.words[at + 1] in _NARROWING
    counted = narrowed or any(word in NUMBER_WORDS or word.isdigit() or _LIMITED.fullmatch(word) for word in ahead)
    return counted or re.search(r"\bexcept\b", clause.sentence) is not None or not clause.words[at].endswith("s")


def _condition(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield what the clause says under a condition, and the claim without any word of it."""
    conditions = list(_CONDITION.finditer(clause.sentence))
    boundless = re.search(r"\bany ?time\b|\balways\b", claim.text) is not None
    if (
        not conditions
        or _CONDITION.search(claim.sentence)
        or re.match(r"(?:for|with|without|in|during|at|on) ", claim.sentence)
    ):
        return
    if re.search(r"\b(?:when|before|after|may|can|might|until|some|sometimes)\b", claim.text) and not boundless:
        return
    main, under = clause.sentence, set[str]()
    for found in conditions:
        rest = re.split(r"[,;.]", clause.sentence[found.end() :])[0]
        main = main.replace(rest, " ")
        under |= Clause(rest).stems
    told = {one for one in claim.stems if one not in UNITS and one not in ("tim", "anytim", "alway")}
    shared = Clause(main).stems & told
    if under and not under & told and source.weight(shared) >= 0.65 * source.weight(told):
        yield "condition", conditions[0][0]


def _roles(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield a word of the claim in whose place the clause has another, or two that stand the other way round."""
    placed = {meaning(word) for one in (claim, clause) for before, word in pairwise(one.words) if before in _PLACES}

    def unlike(word: str, other: Clause) -> bool:
        return word in placed and is_thing(word) and not _known(word, other)

    mine, theirs = ("", *claim.content, ""), ("", *clause.content, "")
    for left, word, right in zip(mine, mine[1:], mine[2:], strict=False):
        if word in source.stems and unlike(word, clause) and (is_thing(left) or is_thing(right)):
            found = [other for before, other, after in zip(theirs, theirs[1:], theirs[2:], strict=False)
                     if (before, after) == (left, right) and unlike(other, claim)]  # fmt: skip
            yield from (("role", word) for _ in found)
    for kind, noun in pairwise(claim.content):
        if (
            unlike(kind, clause)
            and is_thing(noun)
            and any((kind, noun) in pairwise(each.content) for each in source.clauses)
        ):
            yield from (("role", kind) for one, of in pairwise(clause.content) if of == noun and unlike(one, claim))
    told = _complements(claim)
    for place, words in _complements(clause).items():
        other = told.get(place, frozenset())
        rest = claim.stems - other
        unknown = not any(_known(one, source) for one in other)
        apart = other and words and not words & claim.stems and not other & clause.stems
        if apart and (place[0] or unknown) and source.weight(rest & clause.stems) >= 0.6 * source.weight(rest):
            yield "role", " ".join(sorted(other))
    yield from _agents(claim, clause, source)
    yield from _turned(claim, clause)


def _turned_round(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield a particle of the claim beside a verb with which the clause has the opposite one: breathe out."""
    mine, theirs = (list(zip(("", *each), each, (*each[1:], ""), strict=False)) for each in (claim.words, clause.words))
    pairs = {(verb, particle) for verb, particle, _ in theirs}
    for verb, particle, after in mine:
        turned = _TURNED.get(particle, "")
        closer = (verb, turned, after) in theirs and (verb, particle, after) not in theirs
        if verb and turned and (closer or ((verb, turned) in pairs and (verb, particle) not in pairs)):
            yield "negation", f"{verb} {particle}"


def _only(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield where one says that it is so for one thing only, and the other speaks of another or of any."""
    for one, other in ((claim, clause), (clause, claim)):
        lone = re.search(r"\bonly (?:the |a |an )?([^\W\d_]+)(?= [^\W\d_]+)", one.text)
        if lone is None or lone[1] in function_words() | _PLACES | NUMBER_WORDS.keys() or _ONLY.search(other.sentence):
            continue
        if one is claim or meaning(lone[1]) not in other.stems:
            yield "quantity", "only"
    joined = Clause(clause.text.partition(" and ")[2]).stems
    if "only" in claim.words and joined and not joined & claim.stems and not _ONLY.search(clause.sentence):
        yield "quantity", "only"
    last = re.search(r"\b((?:\w+ ){1,5})only(?:$|[,.])", clause.text)
    stems = Clause(last[1]).stems if last else frozenset()
    parts = [len(Clause(part).stems & claim.stems) for part in re.split(r"[,;] ", clause.text) if "only" not in part]
    if stems and "only" not in claim.words and not stems & claim.stems and max(parts, default=0) < 2:
        yield "quantity", "only"


def _turned(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield who does something to whom, where the clause has it the other way round."""
    if ("by" in claim.words) != ("by" in clause.words):
        return
    for verb in claim.stems:
        if clause.content.count(verb) == claim.content.count(verb) == 1 and _acts(verb, claim) and _acts(verb, clause):
            (doers, done), (others, theirs) = _sides_of(verb, claim), _sides_of(verb, clause)
            a, b = (set(filter(is_thing, one)) for one in (doers & theirs - others, done & others - theirs))
            if a and b and not any(_led(one, each) for one in a | b for each in (claim, clause)):
                yield "role", " ".join(sorted(a | b))


def _sides_of(verb: str, clause: Clause) -> tuple[set[str], set[str]]:
    at = clause.content.index(verb)
    return set(clause.content[max(0, at - 2) : at]), set(clause.content[at + 1 : at + 3])


def _known(word: str, clause: Clause | Clauses) -> bool:
    """Return whether a clause has a word, or one that begins as it does: complain and complaint."""
    return any(one == word or (len(one) > 5 and len(word) > 5 and one[:6] == word[:6]) for one in clause.stems)


def _agents(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield who does it by the claim, where the clause says that another does: one passive, the other active."""
    for passive, active in ((claim, clause), (clause, claim)):
        if "by" in active.words:
            continue
        for (verb, word), agents in _complements(passive).items():
            if word != "by" or not verb or active.content.count(verb) != 1 or not agents or agents & active.stems:
                continue
            at = active.content.index(verb)
            subject = active.content[at - 1] if at else ""
            if (
                subject
                and subject not in passive.stems
                and (agents if passive is claim else {subject}) <= source.weights.keys()
            ):
                yield "role", subject if active is claim else " ".join(sorted(agents))


def _acts(stem: str, clause: Clause) -> bool:
    """Return whether a word is a verb here: accused, or replaces the."""
    pairs = zip(clause.words, (*clause.words[1:], ""), strict=True)
    return any(
        word.endswith("ed") or (word.endswith("s") and after in _PLACES)
        for word, after in pairs
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
        if word in _WHAT and not (place and clause.words[place - 1] in NUMBER_WORDS):
            after: list[str] = []
            for each in clause.words[place + 1 : place + 6]:
                if each in _WHAT or (each in function_words() and after):
                    break
                after += [meaning(each)] if each not in function_words() and is_thing(each) else []
            before = clause.words[place - 1] if place else ""
            for key in {(meaning(before) if before not in STOP else "", word), ("", word)}:
                found[key] = found.get(key, frozenset()) | frozenset(after)
    return found
