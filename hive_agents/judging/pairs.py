"""Amounts and words that a claim puts together, and its source gives for different things."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, permutations

from hive_agents.judging.amounts import NUMBER_WORDS, ORDINALS, UNITS, Quantity, quantities, rates
from hive_agents.judging.clauses import NUMBER_STEMS, WORDS, Clause, Clauses, is_thing, meaning, opposites
from hive_agents.judging.passages import STOP, PassageText
from hive_agents.judging.polarity import negations

_SEGMENT = re.compile(r"[,;:]\s+(?:(?:and|but|while|whereas|or) )?|\s(?:and|but|while|whereas|or)\s")
_ASIDE = re.compile(r"\([^()]{1,80}\)")
_SOON = re.compile(r"\b(?:immediately|instantly|at once|right away|straight away|without delay)\b")
_LATER = re.compile(r"\b(?:wait|waits|waited|after)\b[^,;.]{0,40}")
_SPAN = re.compile(
    r"\b(first|last|next|same|previous|few|several) (?:few )?(?:business |working |calendar )?"
    r"(minute|hour|day|week|month|quarter|year)s?\b"
)
_ORDINAL = rf"{'|'.join(ORDINALS)}|\d+(?:st|nd|rd|th)"
_ONE_WORD = re.compile(r"\b(?!\w+ty-)[a-z]+-(?!(?:third|second|minute|hour|day|week|month|year)s?\b)(?=[a-z])")
_BOUNDLESS = re.compile(r"\bunlimited\b|\b(?:without|no) (?:any )?limits?\b|\bany (?:number|amount)\b")
_ADDED = re.compile(
    r"(?:(?:those|that|the ones?|once|twice|\w+ times?|\d[\d.,]*) )?(?:on|in|for|with|at|from|to|during)\b"
)
"""How a part begins that repeats nothing of the one before it: on the motor ten."""
_ALONG = "(?:in )?(diameter|length|width|height|depth|weight|long|wide|high|deep|thick|tall|across|apart|away)"
_CHANGE = re.compile(r"\b(by|to) ((?:an? )?(?:half|third|quarter|fifth|tenth|\d[\d.,]*))\b(?! (?:to|or)\b)")
"""By how much, and to how much, something changes."""
_PLURAL = re.compile(r"s$|^(?:people|children|men|women|feet|teeth|percent)$")
_PREPOSITION = re.compile(r"\b(by|to|from|with|into|for|in|on)\b")


def amounts_differ(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of the claim's amounts that the clause gives otherwise, or for something else."""
    instances = {one.text for one in set(quantities(claim.text)) if is_instance(one, claim.text, clause.sentence)}
    peers = Counter(one.dimension for one in set(quantities(claim.text)))
    told = {one.text for one in set(quantities(claim.text)) if (one.vague or peers[one.dimension] > 1)
            and source.tells(one, claim)}  # fmt: skip
    yield from (each for each in _amounts(claim, clause) if each[1] not in instances | told)
    yield from _paired(claim, clause)
    changed = {much: how for how, much in _CHANGE.findall(clause.text)}
    yield from (("row", how) for how, much in _CHANGE.findall(claim.text) if changed.get(much, how) != how)
    yield from _at_once(claim, clause)
    for one, mine in _anchors(claim.text):
        others = [theirs for other, theirs in _anchors(clause.sentence) if one.same(other)]
        apart = not {stem[:5] for stem in mine} & {stem[:5] for theirs in others for stem in theirs}
        if others and apart and mine <= set(source.stems):
            yield "row", " ".join(sorted(mine))


def _amounts(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield an amount of the claim where the clause, or its sentence for the same noun, has another of the same."""
    mine, beside = _ONE_WORD.sub("", claim.text), _ONE_WORD.sub("", clause.sentence)
    theirs = [(_counted(one, clause.text), one) for one in quantities(clause.text)]
    around = [(_owner(one, beside), one) for one in quantities(beside)]

    of_a_sort, often = Counter(one.dimension for one in quantities(mine)), rates(clause.sentence)
    for one in dict.fromkeys(quantities(mine)):
        alone = one.dimension is not None and of_a_sort[one.dimension] == 1
        what = _counted(one, claim.text)
        told = any(one.same(other) for _, other in around) or (one.vague and not alone) or often & rates(one.text)
        if not told and any(what & of for of, _ in theirs):
            yield ("unit" if one.dimension else "number"), one.text
        own = [other for of, other in around if alone and other.dimension == one.dimension and of & claim.stems]
        if own and not any(one.same(other) for other in (*own, *(other for of, other in around if not of))):
            yield "row", one.text
    spans = {span for _, span in _SPAN.findall(clause.sentence)}
    for order, span in _SPAN.findall(claim.text):
        others = {one for first, one in _SPAN.findall(clause.text) if first == order}
        if others and span not in spans:
            yield "unit", f"{order} {span}"
    for order, noun in re.findall(rf"\b({_ORDINAL}) (\w+)", claim.text):
        ordinals = map(_nth, re.findall(rf"\b({_ORDINAL})\b", clause.sentence))
        if re.search(rf"\b(?:{_ORDINAL}) {noun}", clause.text) and _nth(order) not in ordinals:
            yield "number", order
    if _BOUNDLESS.search(claim.text) and theirs and not _BOUNDLESS.search(clause.sentence):
        yield "quantity", "any"


def _nth(ordinal: str) -> int:
    """Return the number of an ordinal: of fourth, and of 4th."""
    return ORDINALS.index(ordinal) + 1 if ordinal in ORDINALS else int(ordinal[:-2])


def _at_once(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield where one says that it is so at once, and the other after a while."""
    for one, other in ((claim, clause), (clause, claim)):
        soon, later = _SOON.search(one.text), _LATER.search(other.text)
        if one is claim and soon and _SOON.search(other.sentence):  # "trips are deleted at once and bills after a year"
            parts = [part for part in _SEGMENT.split(other.sentence) if _SOON.search(part) or _LATER.search(part)]
            own, theirs = ({stem for part in parts if bool(_SOON.search(part)) is so for stem in Clause(part).stems
                            if is_thing(stem)} for so in (True, False))  # fmt: skip
            if claim.stems & theirs - own and not claim.stems & own - theirs - Clause(soon[0]).stems:
                yield "row", soon[0]
        both = _SOON.search(other.sentence) or _LATER.search(one.sentence)
        if soon and later and not both and any(each.dimension == "time" for each in quantities(later[0])):
            yield "row", soon[0] if one is claim else later[0]


def _anchors(text: str) -> list[tuple[Quantity, frozenset[str]]]:
    """Return the amounts of a text with what each is counted from: 30 days after the purchase."""
    found = []
    for one in quantities(text):
        after = re.search(rf"{re.escape(one.text)}\s?\S{{1,12}} (?:of|after|before|from) ((?:[a-z]+ ?){{1,5}})", text)
        things = frozenset(filter(is_thing, Clause(after[1]).stems)) if after else frozenset()
        if one.dimension and things:
            found.append((one, things))
    return found


def _owner(quantity: Quantity, text: str) -> set[str]:
    """Return the noun that an amount directly follows: a break of ten minutes."""
    found = re.search(rf"([^\W\d_]+)(?: of| is| lasts|:) (?:about |only )?{re.escape(quantity.text)}\b", text)
    return {meaning(found[1])} if found and found[1] not in STOP else set()


def _counted(quantity: Quantity, text: str) -> set[str]:
    """Return what a quantity is of: its dimension, else the words that follow."""
    if quantity.dimension is not None:
        return {quantity.dimension}
    after = text.partition(quantity.text)[2]
    if quantity.text in ("once", "twice", "thrice") or re.match(r" times\b(?! (?:as|more|the)\b)", after):
        return {"times"}
    return {
        meaning(word)
        for word in WORDS.findall(after)[:3]
        if word not in STOP
        and (is_thing(word) or word.removesuffix("s") in UNITS)
        and (quantity.value == 1 or _PLURAL.search(word))
    }


def _paired(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield an amount that the sentence gives for another of two things: adults pay 14 euros, students 8."""
    for mine in quantities(claim.text):
        often = _is_period(mine, claim.text)
        peers = [one for one in quantities(claim.text) if one.dimension == mine.dimension
                 and _is_period(one, claim.text) == often and not _idle(one, often)]  # fmt: skip
        if _idle(mine, often) or len(peers) > 1:
            continue
        given = _given(mine, often, clause.sentence)
        carriers, rivals = ([pieces for pieces, same in given if same is key] for key in (True, False))
        if not carriers or not rivals or _tells_both(claim, mine, rivals):
            continue
        carrier, rival = ({one for pieces in parts for one in Clause(" ".join(pieces)).content}
                          for parts in (carriers, rivals))  # fmt: skip
        own, theirs = ({one for one in side if is_thing(one) or (opposites(one) and one not in NUMBER_STEMS)}
                       for side in (carrier - rival, rival - carrier))  # fmt: skip
        denies = [negations(Clause(part[-1])) % 2 for part in (*carriers, *rivals)]
        if len({*denies}) > 1 and negations(claim) % 2 == denies[0]:
            continue  # "once if it runs, twice if it doesn't"
        heads, instead = ({one for pieces in parts for piece in pieces for one in Clause(piece).content[:1]}
                          for parts in (carriers, rivals))  # fmt: skip
        later = given.index((rivals[0], False)) > given.index((carriers[-1], True))
        added = later and (_ADDED.match(rivals[0][0]) or (theirs <= claim.stems and not own <= claim.stems))
        replaced = instead & claim.stems and not heads & claim.stems
        if theirs & claim.stems and ((own and not own & claim.stems) or added or replaced):
            yield "row", mine.text
    for amount, what in _amounts_of(claim.text):
        others = [(one, words) for one, words in _amounts_of(clause.sentence) if one.dimension == amount.dimension]
        same = {word for one, words in others if one.same(amount) for word in words}
        if same and (what - same) & {word for one, words in others if not one.same(amount) for word in words}:
            yield "row", amount.text


def _tells_both(claim: Clause, mine: Quantity, rivals: list[tuple[str, ...]]) -> bool:
    """Return whether a claim also gives an amount of the parts that give another: it tells of both."""
    others = [one for one in quantities(claim.text) if not one.same(mine)
              and (not one.vague or re.search(rf"\b(?:for|of) {re.escape(one.text)}", claim.text))]  # fmt: skip
    given = [quantities(pieces[-1]) for pieces in rivals]
    alike = [[one for one in each if one.dimension == mine.dimension] or each for each in given]
    return any(one.same(theirs) for one in others for each in alike for theirs in each)


def _is_period(quantity: Quantity, text: str) -> bool:
    """Return whether an amount says how often: every three months, a week."""
    often = re.search(rf"\b(?:every|each|per) {re.escape(quantity.text)}\b", text) is not None
    lasts = re.search(rf"\b(?:for|of) {re.escape(quantity.text)}\b", text)
    return often or (not lasts and re.match(r"(?:every|each|per|an?) ", quantity.text) is not None)


def _idle(quantity: Quantity, often: bool) -> bool:
    return quantity.text == "zero" or (quantity.vague and not often and quantity.text not in ("once", "twice"))


def _given(mine: Quantity, often: bool, sentence: str) -> list[tuple[tuple[str, ...], bool]]:
    """Return the parts of a sentence, in pieces, that give an amount of the same sort, and whether it is the same."""
    found: list[tuple[tuple[str, ...], bool]] = []
    led: tuple[str, ...] = ()
    carried: str | None = None
    for part in _SEGMENT.split(_ASIDE.sub(lambda found: found[0].replace(",", " /"), sentence)):
        amounts = [one for one in quantities(part) if _is_period(one, part) == often and not _idle(one, often)]
        alike = [one for one in amounts if mine.dimension in (one.dimension, one.dimension or carried)]
        carried = next((one.dimension for one in amounts if one.dimension), carried)
        led = (*led, part)
        if alike:
            found.append((led, any(mine.same(one) for one in alike)))
            led = ()
    return found


def _amounts_of(text: str) -> list[tuple[Quantity, frozenset[str]]]:
    """Return the amounts that a text gives of something, each with its words: 600 g of flour."""
    found = []
    for one in quantities(text):
        after = re.search(rf"(?<![\w.,]){re.escape(one.text)}\s?\S{{0,12}} (?:of ((?:\w+ ?){{1,3}})|{_ALONG})", text)
        if one.dimension and after:
            found.append((one, Clause(re.split(r"\b(?:with|and|in|to|or)\b", after[1] or after[2])[0]).stems))
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
            short = all(0 < len(one) < 3 for slot in slots for one in slot)
            if short and (True, False) in said and (False, True) in said:
                yield "row", " ".join(sorted(claim.stems & {word for slot in slots for side in slot for word in side}))


def _phrases(text: str) -> list[tuple[str, frozenset[str]]]:
    """Return the prepositions of a text, each with the words that follow it."""
    parts = _PREPOSITION.split(text)
    return [(word, frozenset(Clause(after).content[0 if word else -2 :]))
            for word, after in zip(["", *parts[1::2]], parts[::2], strict=True)]  # fmt: skip


def outside(claim: Clause, clause: Clause) -> str | None:
    """Return a bound of the claim that leaves out all but an end of a range in the clause: at most 3 g, of 3 to 5 g."""
    for low, high in _RANGE.findall(clause.text):
        sorts = {one.dimension for one in quantities(clause.text) if one.text == high}
        for one in quantities(claim.text):
            sign = {low: "atmost", high: "atleast"}.get(one.text)
            if sign and one.dimension in sorts and re.search(rf"\b{sign} {re.escape(one.text)}\b", claim.text):
                return f"{sign} {one.text}"
    return None


_RANGE = re.compile(r"(?<![\w.,-])(\d+(?:\.\d+)?)(?: ?[-–] ?| to )(\d+(?:\.\d+)?)\b")
_YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
_DAILY = re.compile(r"\b(?:total|in all|daily|(?:a|per|each) day|am Tag|täglich|insgesamt)\b")
_TOTAL = re.compile(r"\b(?:total|altogether|together|in all|combined|sum|insgesamt|zusammen)\b")
_REPEATED = re.compile(rf"\b(twice|thrice|(?:{'|'.join(NUMBER_WORDS)})(?= (?:times|equal|tablets|doses)\b))", re.I)
_BOUND = re.compile(
    r"\b(?:more|longer|over|above|exceed\w*|larger|later|at ?least|from|less|fewer|under|below|shorter|within|at ?most"
    r"|up to|until|between|unter|über|ab|bis|mindestens|höchstens|mehr|weniger)(?: than| als| zu)? (?:[€$£]\s?)?$"
)
_AGED = re.compile(r"\b\d{1,2} (?:and|or) (?:under|over|younger|older|above|below)\b|\bage[sd]? .{0,12}\d", re.I)


@lru_cache(maxsize=200)  # a claim is held against one sentence after the other
def _told_as(amount: str, text: str) -> tuple[bool, bool, bool]:
    """Return whether a text tells an amount as a difference, as that of one thing, and as an age."""
    number = re.escape(amount)
    differs = re.search(rf"\b{number}\b \w* ?(?:more|less|fewer|\w{{3,}}er) than\b", text, re.I)
    number_of = rf"(?:(?:[^\W\d_]+ ){{1,2}}of )?[€$£]?{number}\b(?! (?:per|an?|each)\b)"  # a price is no instance
    one = re.search(rf"\b(?:at|such as|an?) (?!(?:min|max)im){number_of}", text, re.I)
    aged = re.search(rf"\b{number}(?:jährig|[ -]years?[ -]old)", text, re.I)
    return differs is not None, one is not None or aged is not None, aged is not None


def is_instance(quantity: Quantity, text: str, source: str) -> bool:
    """Return whether an amount is of one thing that a bound in the source is about, a 60 MB file, of over 50 MB; or
    what two of its amounts differ by."""
    is_difference, is_one, is_age = _told_as(quantity.text, text)
    if _follows(quantity, text, source) or _same_bound(quantity, text, source):
        return True
    if is_difference:
        pairs = combinations(quantities(source)[:60], 2)
        return any(abs(abs(a.value - b.value) - quantity.value) < 0.001 for a, b in pairs)
    if not is_one:
        return False
    counted = re.search(rf"\ban? ([^\W\d_]{{3,}}) of {re.escape(quantity.text)}\b", text, re.I)  # a group of twelve
    named = counted is not None and re.search(rf"\b{counted[1]}", source, re.I) is not None
    others = [one for one in quantities(source) if one.dimension == quantity.dimension and (one.dimension or named)]
    if counted is not None and not named:
        return False
    bounded = any(_BOUND.search(source[: source.find(other.text)]) for other in others)
    return bounded or (is_age and _AGED.search(source) is not None)


def _follows(quantity: Quantity, text: str, source: str) -> bool:
    """Return whether an amount is a ratio, a difference of years, a multiple or a sum of amounts in the source."""
    if re.search(rf"\b{re.escape(quantity.text)} (?:times )?as \w+ ", text):  # twice as long
        ratios = combinations([one.value for one in quantities(source)][:20], 2)
        return any(
            max(pair) == quantity.value * min(pair) or min(pair) == quantity.value * max(pair) for pair in ratios
        )
    parts = [one.value for one in quantities(source) if one.dimension == quantity.dimension and not one.vague][:9]
    found: list[float] = []
    if quantity.unit in ("year", "jahr"):
        found += [abs(a - b) for a, b in combinations([int(one) for one in _YEAR.findall(source)[:9]], 2)]
    if _DAILY.search(text):
        found += [one * NUMBER_WORDS[times.casefold()] for one in parts for times in _REPEATED.findall(source)]
    found += map(sum, combinations(parts, 2) if _TOTAL.search(text) else _added(quantity, source))
    return any(abs(one - quantity.value) < 0.001 for one in found)


def _added(quantity: Quantity, source: str) -> Iterator[list[float]]:
    """Yield amounts that a source gives together: one spoonful of 5 ml and one of 2.5, two 5 ml spoonfuls."""
    alike = [one for one in quantities(source) if quantity.dimension and one.dimension == quantity.dimension][:9]
    for one, other in combinations(alike, 2):
        if re.search(
            rf"{re.escape(one.text)}[^,;:.]*(?:\.\d[^,;:.]*)?\b(?:and|plus)\b (?:an? |one )?{re.escape(other.text)}",
            source,
        ):
            yield [one.value, other.value]
    for one in alike:
        if times := re.search(rf"\b({'|'.join(NUMBER_WORDS)}) {re.escape(one.text)}", source, re.I):
            yield [one.value * NUMBER_WORDS[times[1].casefold()]]


def _same_bound(quantity: Quantity, text: str, source: str) -> bool:
    """Return whether a number bounds what the source bounds by the next one: three or more, and more than two."""
    number = re.escape(quantity.text)
    least = re.search(rf"\bat ?least {number}\b|\b{number} or more\b", text, re.I) is not None
    if quantity.dimension or not (least or re.search(rf"\bmore than {number}\b", text, re.I)):
        return False
    beside = r"\bmore than %s\b" if least else r"\bat ?least %s\b|\b%s or more\b"
    others = [one for one in quantities(source) if one.value == quantity.value + (-1 if least else 1)]
    return any(re.search(beside.replace("%s", re.escape(one.text)), source, re.I) for one in others)


def is_told(one: Quantity, claim: str, source: PassageText) -> bool:
    """Return whether an amount that the source doesn't have follows from what it has; 360 mA, from a cell of 0.36."""
    value = one.value * UNITS[one.unit][1] if one.dimension else None
    bare = (cell for row in source.rows for cell in row.cells if re.fullmatch(r"\d+(?:\.\d+)?", cell))
    if value is not None and any(abs(float(cell) - value) < 1e-9 for cell in bare):
        return True
    texts = (*source.sentences, source.text) if " than" in claim else source.sentences  # 15 kg more than another row
    return any(is_instance(one, claim, text) for text in texts)
