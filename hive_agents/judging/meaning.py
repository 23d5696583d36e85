"""What a claim says otherwise than the clauses of its source that speak of the same: opposites, negation, duty, order,
extent, conditions, roles. A claim differs where *every* such clause contradicts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import permutations

from hive_agents.judging.amounts import NUMBER_WORDS, quantities
from hive_agents.judging.clauses import (
    Clause,
    Clauses,
    clauses,
    converses,
    is_thing,
    meaning,
    opposites,
    plain,
    same_side,
    source_of,
)
from hive_agents.judging.extent import (
    CONDITION,
    LIMITED,
    condition,
    extent,
    only,
    past,
    under_another,
)
from hive_agents.judging.pairs import amounts_differ, crossed, outside
from hive_agents.judging.passages import STOP, stem
from hive_agents.judging.polarity import UNDER, aside, denied, denied_more, negations
from hive_agents.judging.roles import contrast, following, roles_differ, turned_round

_CONFLICTS = frozenset(
    frozenset(pair.split())
    for pair in ("forbidden permitted", "forbidden required", "forbidden free", "required permitted", "required free")
)
_JOINED = re.compile(r"[;,] (?:and|but|while|whereas|although) |; ")
_MEANS = re.compile(r"\bby \w+ing [^,]*")
_POINTING = re.compile(r"\b(?:it|them|this|these)\b")
_BOUND = re.compile(
    r"\b(?:(atleast|(?:more|longer|later|larger|greater|higher) than|over|above|exceeds?)"
    r"|(?:atmost|(?:less|shorter|fewer|earlier|smaller) than|under|below)) (?:[€$£] ?)?$"
)
_EXCEPTED = re.compile(
    r"(?<=\()(?:excluding|except(?: for)?) ([^()]*)(?=\))"
    r"|\b(?:unless|except(?: for)?|without(?! having to| needing to)|excluding|other than) ([^,;]*)"
    r"|\b((?:\w+ ){1,3})excepted\b"
)
_LISTED = re.compile(r"\((?:excluding|except(?: for)?) [^()]*\)")
_UNLESS = re.compile(r"\b(?:unless|except|excepted|excluding|other than)\b")
_WITHIN = re.compile(r"\b(?:within|atmost|atleast|before|until|by)\b")
_FAR, _NEAR = re.compile(r"\b(?:atleast|more than) \S+ \w+ (?:between|apart|before|after)\b"), re.compile(r"\bwithin\b")
_MENDED = re.compile(r"\W*(?:fix|correct|resolve)(?:e?s|e?d)?\b")
_NEXT = re.compile(r"\b(?:then|next|finally|afterwards|once|subsequently|lastly)\b|\bafter (?:that|this|which)\b")
_STRENGTH = re.compile(r"\b(must|shall|should|may) (not )?(?:also |only |always |still )?(?:be )?(\w+)")
MORE = r"\b(?:more|above|over|(?:great|larg|bigg|high|long|tall|heavi|thick|fast|strong|old|warm|hott)er)\b"
LESS = r"\b(?:less|fewer|below|under|(?:small|low|short|light|thinn|slow|weak|young|cool|cold|cheap)er)\b"
_AMOUNT = re.compile(rf"[€$£~]?\d|(?:an? )?(?:{'|'.join(NUMBER_WORDS)})\b")
"""What something is more than that is no other thing, but an amount."""
_LETTERS = frozenset("bcdefghjklmnopqrstuvwxyz")


def differences(claim: str, sentences: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (kind, words) of what every clause that speaks of the same as the claim contradicts."""
    source = source_of(tuple(sentences))
    parts = clauses(plain(claim))
    whole = Clause(plain(claim), plain(claim))
    full = all(len(part.content) > 2 for part in parts) or all(part.duty for part in parts)
    for one in parts if len(parts) > 1 and full else _told_apart(whole, source):
        near = source.nearest(one)
        if ", not " in one.text and (stated := contrast(one.text)) and not any(contrast(each.text) for each in near):
            one = Clause(stated[0], one.sentence)  # "by the cook, not by the guests"
            near = source.nearest(one)
        told = _told_otherwise(one, near, source)
        acted = None if told else _told_otherwise(one, source.on_act(one, near), source)
        told = acted if acted and acted[0] in ("negation", "quantity") else told
        if told is None and (main := _main(one)) is not None:
            told = _told_otherwise(main, [each for each in source.nearest(main) if _tells(main, each, source)], source)
        if told is not None:
            yield told
        yield from _told_flatly(one, source)
        yield from _told_later(one, source)


def _told_apart(claim: Clause, source: Clauses) -> list[Clause]:
    """Return the parts of a claim that joins what several sentences tell, where one tells nearly all of each."""
    for found in _JOINED.finditer(claim.text):
        parts = [Clause(part, claim.sentence) for part in (claim.text[: found.start()], claim.text[found.end() :])]
        if all(len(part.content) > 2 and source.covers(part, 0.7) for part in parts):
            return [parts[0], *_told_apart(parts[1], source)]
    return [claim]


def _told_otherwise(claim: Clause, near: Sequence[Clause], source: Clauses) -> tuple[str, str] | None:
    """Return what each sentence of the clauses near a claim contradicts, if any."""
    found: dict[str, tuple[str, str] | None] = {}
    for clause in near[:12]:  # a text that repeats itself takes no longer
        contradicted = next(_contradictions(claim, clause, source), None)
        after = source.after(clause)  # "spit it out; don't swallow it"
        if not contradicted and _POINTING.search(after.text) and after.stems and after.stems <= claim.stems:
            contradicted = next(_contradictions(claim, after, source), None)
        found[clause.sentence] = found.get(clause.sentence) or contradicted
    disputed = found and all(found.values()) and not _supported(claim, source)
    return next(each for each in found.values() if each) if disputed else None


def _main(claim: Clause) -> Clause | None:
    """Return what a claim says without the condition under which, or by what means, it says so."""
    under = UNDER.search(claim.text) or _MEANS.search(claim.text)
    main = claim.text.replace(under[0], " ").strip(" ,") if under and not under[0].startswith("unless") else ""
    return Clause(main, claim.sentence) if len(Clause(main).content) > 1 else None


def _tells(claim: Clause, clause: Clause, source: Clauses) -> bool:
    """Return whether a clause speaks of nearly all that a claim does, and under no condition."""
    covered = source.weight(claim.stems & clause.stems) >= 0.8 * source.weight(claim.stems)
    return covered and not UNDER.search(clause.sentence) and not CONDITION.search(clause.sentence)


def _supported(claim: Clause, source: Clauses) -> bool:
    """Return whether a clause, though it may not be among the nearest, denies the same of what the claim speaks of."""
    forbids = claim.duty == "forbidden"
    return any(
        (denied(claim, 1) & denied(clause) or (forbids and clause.duty == "forbidden"))
        and source.weight(claim.stems & clause.stems) >= (0.5 if forbids else 0.25) * source.weight(claim.stems)
        and next(_contradictions(claim, clause, source), None) is None
        for clause in (source.clauses if denied(claim) else ())
    )


def _told_flatly(claim: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield the duty of the claim where a whole sentence says the opposite of what the claim begins with."""
    if CONDITION.search(claim.text) or UNDER.search(claim.text):
        return
    for clause in source.clauses if claim.duty and len(claim.content) > 1 else ():
        alone = clause.text == clause.sentence.strip(" .") and clause.text[-1] != ":" and not UNDER.search(clause.text)
        same = clause.stems <= claim.stems and clause.content[:1] == claim.content[:1]
        if alone and same and {claim.duty, clause.duty} == {"forbidden", "permitted"}:
            yield "negation", str(claim.duty)


def _told_later(claim: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield what comes first by the claim, and by two clauses of the source, one after the other, then."""
    order = _order(claim)
    if order is None or not order[0] or not order[1] or re.search(r"\bthan\b", claim.text):
        return
    places = []
    for side, other in (order, order[::-1]):
        own = side - other
        scored = [source.weight(own & each.stems) for each in source.clauses]
        best = max(scored, default=0.0)
        if best < 0.6 * source.weight(own) or scored.count(best) > 1:
            return
        places.append(scored.index(best))
    first, then = places
    if then < first and _NEXT.search(source.clauses[first].text) and not _order(source.clauses[first]):
        yield "order", " ".join(sorted(order[0]))


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
    rule = Clause(_EXCEPTED.sub(" ", clause.sentence))  # what is excepted can't be as the rule says
    if not both and not _UNLESS.search(claim.text) and claim.stems & spared - rule.stems:
        covered = source.weight((rule.stems & claim.stems) - spared) >= 0.4 * source.weight(claim.stems - spared)
        told = f"{excepted.strip()}, wh" in clause.sentence  # "except the last, which may"
        differs = told or bool(_opposed(claim, rule)) or negations(claim, rule) % 2 == 1
        listed = _LISTED.search(clause.sentence) is not None
        if (spared <= claim.stems or {"even", "all", "every"} & {*claim.words} or listed) and covered and not differs:
            yield "condition", "except"
        return
    if source.is_close(claim, clause):
        yield from _turned(claim, clause, source, opposed, both)
    yield from amounts_differ(claim, clause, source)
    if claim.words[0] != "not":
        yield from condition(claim, clause, source)
    yield from extent(claim, clause)
    yield from only(claim, clause)
    yield from past(claim, clause, source)
    yield from under_another(claim, clause, source)
    yield from crossed(claim, clause)


def _turned(
    claim: Clause, clause: Clause, source: Clauses, opposed: list[str], both: bool
) -> Iterator[tuple[str, str]]:
    """Yield where the claim has it the other way round: what is done, has to be done, comes first, or who does it."""
    duties = {claim.duty, clause.duty} - {None}
    named, others = ({*re.findall(r"\b\d+\b", one.text)} for one in (claim, clause))
    if not named & others and any(word.endswith("est") for word in claim.words) and named:
        opposed = []  # leg 2 is the shortest, and the first the longest
    more = denied_more(claim, clause, opposed, source)
    if more and not opposed and any(opposites(one) & clause.stems - claim.stems for one in claim.stems - clause.stems):
        more = 0  # "lose none" and "keep"
    if opposed and not negations(clause) and negations(claim) and set(opposed) <= _bases_of(aside(claim), claim):
        return  # "can't while it is off" and "needs it on"
    more = 0 if _MENDED.match(clause.text) else more  # "fixes the early end", and "doesn't end early any more"
    partial = all(LIMITED.search(one.text) for one in (claim, clause)) and not opposed  # "most don't" and "some do"
    more = 0 if partial else more
    bound, within = _bounds(claim, clause) or outside(claim, clause), _bounds(_over(claim), _over(clause))
    if more and not opposed and (within or _apart(claim, clause, source)):
        more = 0  # "less than 48 hours before, you don't" and "at least 48 hours in advance"
    cool = claim.duty == "required" and clause.duty == "forbidden" and not negations(claim)  # and "not while hot"
    other_case = cool or _ends(claim, clause) or (not duties and negations(claim) % 2)  # "part-timers don't qualify"
    unclear = opposed and not more and other_case
    if len(duties) == 2 and frozenset(duties) in _CONFLICTS and not opposed:
        act, told = claim.act, clause.act
        same = not act or act == told or (act in clause.stems and (duties != {"required", "permitted"} or not told))
        if same and not _is_free(claim, clause, source, both):
            kind = "quantity" if claim.duty == "permitted" and "only" in clause.words[:2] else "negation"
            yield kind, str(claim.duty)
    elif not unclear and (bool(opposed) + more) % 2 and len(opposed) < 2:
        yield "negation", " ".join(opposed) or "not"
    if (strength := _strengths(claim)) and (other := _strengths(clause)):
        yield from (("negation", said) for act, said in strength.items() if other.get(act, said) != said)
    supposed = UNDER.match(claim.text) is not None and not UNDER.search(clause.text)  # "if you do it before"
    mine, theirs = None if supposed else _order(claim), _order(clause)
    if theirs and mine is None and re.search(r"(?<=\w )(?<!the )first\b(?! if| when)", claim.text):
        before, later = ({*filter(is_thing, claim.stems & one - other)} for one, other in (theirs, theirs[::-1]))
        if later and before == {*claim.content[:1]}:
            yield "order", "first"
    compared = ("than" in claim.words) is ("than" in clause.words)
    if compared and mine and theirs and mine[0] & theirs[1] - theirs[0] and mine[1] & theirs[0] - theirs[1]:
        yield "order", " ".join(sorted(mine[0] & theirs[1]))
    yield from _exchanged(claim, clause)
    yield from _compared(claim, clause)
    if bound and not opposed and negations(claim) % 2 == negations(clause) % 2:
        yield "negation", bound
    yield from turned_round(claim, clause)
    yield from roles_differ(claim, clause, source)


def _ends(claim: Clause, clause: Clause) -> bool:
    """Return whether one tells for how long it is so, and the other what is done after that: kept for 30 days."""
    return any(
        one.same(other)
        and re.search(rf"\b(?:for|until) {re.escape(one.text)}\b", lasting.text)
        and re.search(rf"\bafter {re.escape(other.text)}\b", later.text)
        for lasting, later in ((claim, clause), (clause, claim))
        for one in quantities(lasting.text)[:9]
        for other in quantities(later.text)[:9]
    )


def _apart(claim: Clause, clause: Clause, source: Clauses) -> bool:
    """Return whether the claim tells something else of the case in which what the clause tells is not so."""
    said, other = UNDER.search(claim.text), UNDER.search(clause.text)
    if not said or not other or negations(Clause(said[0])) % 2 == negations(Clause(other[0])) % 2:
        return False
    mine, theirs = (Clause(one.text.replace(found[0], " ")).stems for one, found in ((claim, said), (clause, other)))
    return source.weight(mine & theirs) < 0.6 * source.weight(mine)


def _is_free(claim: Clause, clause: Clause, source: Clauses, both: bool) -> bool:
    """Return whether the duties of the two may differ, and both be right."""
    after = source.after(clause)
    duties = (claim.duty, clause.duty)
    return (
        (_FAR.search(claim.text) is not None and _NEAR.search(clause.text) is not None)
        or bool("exception" in after.words and after.stems & claim.stems - clause.stems)
        or bool(duties == ("required", "permitted") and _WITHIN.search(clause.text) and _WITHIN.search(claim.text))
        or (clause.duty == "required" and "without" in claim.words)
        or (claim.duty == "forbidden" and "only" in clause.words[:2] and not {*clause.content[:1]} & claim.stems)
        or (duties == ("forbidden", "permitted") and negations(clause) > both)
        or (duties == ("permitted", "forbidden") and negations(claim) > both)
    )


def _strengths(clause: Clause) -> dict[str, str]:
    """Return what a clause says by must, should or may, each with which of the three."""
    found = _STRENGTH.findall(clause.text)
    return {meaning(act): "must" if said == "shall" or (said == "may" and denied) else said
            for said, denied, act in found}  # fmt: skip


def _bases_of(places: set[int], clause: Clause) -> set[str]:
    return {base for base, place in _bases(clause).items() if place in places}


def _opposed(claim: Clause, clause: Clause) -> list[str]:
    """Return the claim's words that have an opposite in the clause, beside the same, where neither has the other's."""
    mine, theirs = _bases(claim), _bases(clause)
    found, loose = dict[int, str](), dict[int, str]()
    numbers = not any(one.isdigit() for one in (*claim.words, *clause.words))
    for base in mine.keys() - theirs.keys():
        against = ({*opposites(base), *_prefixed(base)} & theirs.keys()) - mine.keys()
        if not against or same_side(base) & theirs.keys():
            continue
        converse = {other for other in against if frozenset((base, other)) in converses()}
        if converse == against and _doer(claim, mine[base]) != _doer(clause, theirs[next(iter(converse))]):
            continue  # who is sent it receives it
        against = {other for other in against if not _of_another(claim, mine[base], clause, theirs[other])}
        short = min(len(claim.content), len(clause.content)) < 4
        if short or any(_around(claim, mine[base]) & _around(clause, theirs[other]) for other in against):
            found.setdefault(mine[base], base)
        elif against and numbers and len(claim.stems & clause.stems) >= 0.6 * len(claim.stems) > 2:
            loose.setdefault(mine[base], base)
    found = found or loose
    for base in mine.keys() - theirs.keys():  # "when it is deleted, its parts are kept"
        for other in opposites(base) & mine.keys() & theirs.keys():
            beside, own = _around(claim, mine[base]), _around(claim, mine[other])
            told = [_around(clause, at) for at, word in enumerate(clause.words) if meaning(word) == other]
            if any(len({*filter(is_thing, beside & each)}) > max(1, len(own & each)) for each in told):
                found.setdefault(mine[base], base)
    said, other_way = _order(claim), _order(clause)
    ordered = said is not None and other_way is not None
    alike = (
        said
        and other_way
        and "than" in claim.words
        and all(a & b - c for a, b, c in zip(said, other_way, other_way[::-1], strict=True))
    )  # "rye is less than barley" and "barley is more than rye"
    return [one for place, one in found.items() if place - 1 not in found  # "rises above" and "falls below" differ once
            and not (ordered and one in ("befor", "after"))
            and not (alike and re.search(f"{MORE}|{LESS}", claim.words[place]))]  # fmt: skip


def _compared(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield what is more by the claim, and by the clause what something else is more than."""
    left, than, right = clause.text.partition(" than ")
    compares = than and not _AMOUNT.match(right)
    found = re.findall(r"\b(?:more|less|fewer|\w{3,}er)\b", left) if compares and "than" not in claim.words else []
    more, less = ({*filter(is_thing, Clause(part).stems)} for part in (left, right))
    mine = {*filter(is_thing, claim.stems)} - {*map(meaning, found)}
    if {*found} & {*claim.words} and mine & less - more and more - mine and mine <= more | less:
        yield "order", found[0]


def _exchanged(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield a word of the claim that stands before what its opposite does in the clause, where both have both."""
    mine, theirs = _bases(claim), _bases(clause)
    for base in mine.keys() & theirs.keys():
        for other in opposites(base) & mine.keys() & theirs.keys():
            told, said = following(claim, mine[base]), following(clause, theirs[base])
            if told and said and told != said and told == following(clause, theirs[other]):
                yield "negation", base


def _prefixed(base: str) -> Iterator[str]:
    """Yield a stem with the prefixes that turn it round, or without the one that it has: paid and unpaid."""
    for prefix in ("un", "in", "dis", "non", "im"):
        if len(base) > 3:
            yield prefix + base
        if base.startswith(prefix) and len(base) > len(prefix) + 2:
            yield base.removeprefix(prefix)
    for prefix, turned in _AGAINST:
        if base.startswith(prefix) and len(base) > len(prefix) + 3:
            yield turned + base.removeprefix(prefix)


_AGAINST = [pair for both in ("auf ab", "zu ab", "an ab", "ein aus", "an aus", "über unter", "up down", "over under")
            for pair in permutations(both.split())]  # fmt: skip
"""Prefixes of which one turns the other round: aufrunden and abrunden, overload and underload."""


def _bases(clause: Clause) -> dict[str, int]:
    """Return the stems of a clause's words, comparatives without their ending, with the place of each."""
    found: dict[str, int] = {}
    for place, word in enumerate(clause.words):
        if word in ("lasts", "lasted", "lasting"):
            continue
        shorter = (word.removesuffix(end) for end in ("er", "est") if word.endswith(end) and len(word) > 5)
        for base in (stem(word), *(stem(re.sub(r"i$", "y", one)) for one in shorter)):
            found.setdefault(base, place)
    return found


def _doer(clause: Clause, place: int) -> str:
    """Return the word that means something before a place, if any."""
    return next((meaning(word) for word in reversed(clause.words[:place]) if word not in STOP), "")


def _of_another(claim: Clause, place: int, clause: Clause, other: int) -> bool:
    """Return whether a word is said of one thing, and its opposite of another, where both tell of the two."""
    (mine, beside), (theirs, near) = ((_doer(one, at), {*map(meaning, one.words[max(0, at - 3) : at])})
                                      for one, at in ((claim, place), (clause, other)))  # fmt: skip
    told = mine in clause.stems - near and theirs in claim.stems - beside
    return told and is_thing(mine) and is_thing(theirs)


def _around(clause: Clause, place: int) -> set[str]:
    """Return the two words that mean something on each side."""
    before = [meaning(word) for word in clause.words[:place] if word not in STOP]
    after = [meaning(word) for word in clause.words[place + 1 :] if word not in STOP]
    return {*before[-2:], *after[:2]}


def _order(clause: Clause) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the words of what comes first and of what comes then, where a clause says so."""
    if found := re.search(r",? first,? (?:and )?then |, after which |, (?:and )?then (?=to\b)| and then ", clause.text):
        return Clause(clause.text[: found.start()]).stems, Clause(clause.text[found.end() :]).stems
    for word in () if re.match(r"(?:before|after) [^,]*$", clause.text) else ("before", "after"):
        first, said, then = clause.text.partition(f" {word} ")
        if said:
            pair = (Clause(first).stems, Clause(then).stems)
            return pair if word == "before" else pair[::-1]
        if clause.text.startswith(f"{word} ") and "," in clause.text:
            first, _, then = clause.text.removeprefix(f"{word} ").partition(",")
            pair = (Clause(then).stems, Clause(first).stems)
            return pair if word == "before" else pair[::-1]
    left, said, right = clause.text.partition(" than ")
    if said and not _AMOUNT.match(right) and (len(re.findall(MORE, left)) + len(re.findall(LESS, left))) == 1:
        pair = (Clause(left.rpartition(", ")[2] if "," in left else left).stems, Clause(right).stems)
        return pair if re.search(LESS, left) else pair[::-1]
    return None


def _over(clause: Clause) -> Clause:
    """Return a clause in which what is after a while is over it, and what is within it under it."""
    return Clause(clause.text.replace(" after ", " over ").replace(" within ", " under "))


def _bounds(claim: Clause, clause: Clause) -> str | None:
    """Return a bound of the claim whose amount the clause bounds from the other side."""
    for one in quantities(claim.text):
        mine = _BOUND.search(claim.text[: claim.text.find(one.text)])
        for other in quantities(clause.text) if mine and one.dimension else ():
            theirs = _BOUND.search(clause.text[: clause.text.find(other.text)])
            if mine and theirs and one.same(other) and other.dimension and (mine[1] is None) is not (theirs[1] is None):
                return mine[0].strip()
    return None
