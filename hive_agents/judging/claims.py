"""Claims held against passages without a model: what a sentence says that its passages don't, or say otherwise.

It compares codes, names, numbers with their units, dates, what stands in one row of a table, and by `meaning`
opposites, negation and duty, order, extent, conditions and roles.
It finds slips of a model that writes from passages; whether a paraphrase means the same is not its business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from hive_agents.judging.amounts import (
    CODE,
    MONTH,
    MONTHS,
    NUMBER_WORDS,
    ORDINALS,
    UNITS,
    VERSION,
    Quantity,
    clocks,
    dates_in,
    is_measure,
    quantities,
    rates,
    times_per,
    without_rates,
    without_times,
)
from hive_agents.judging.clauses import numbered_nouns, opposites
from hive_agents.judging.german import is_german
from hive_agents.judging.items import items_differ
from hive_agents.judging.meaning import differences
from hive_agents.judging.pairs import is_told
from hive_agents.judging.passages import (
    STOP,
    TOKEN,
    WORD,
    PassageText,
    alike,
    bare,
    is_of_country,
    led_sentences,
    mentions,
    normal,
    of_week,
    prose_of,
    read,
    spelled_out,
    stem,
    stems,
)
from hive_agents.judging.sections import defaults_differ, sections_differ
from hive_agents.judging.tables import comparisons_differ, rows_differ

MOST = 1_000
"""The characters of a claim that are read: its model may have been told to write anything."""


@dataclass(frozen=True, slots=True)
class Slip:
    """Something in a claim that its passages don't support.

    `kind`: token, number, unit, date, row, negation, order, quantity, condition, role.
    """

    kind: str
    text: str


def slips(claim: str, passages: Sequence[str]) -> list[Slip]:
    """Return what a claim says that the passages which it cites don't; empty where nothing was found.

    >>> passage = "The K-20 valve must be closed after 30 minutes. It may be reused."
    >>> slips("The K-20 must be closed after half an hour.", [passage])
    []
    >>> [slip.kind for slip in slips("The K-21 must not be closed after 30 hours.", [passage])]
    ['unit', 'token', 'negation']
    """
    claim = _TWICE.sub(r"\1", _US_DOLLARS.sub("USD", claim[:MOST]))
    source = read(_TWICE.sub(r"\1", "\n\n".join(passage[: 8 * MOST] for passage in passages)))
    if bare(claim) in map(bare, source.sentences):
        return []  # it is quoted
    found = [*_dates(claim, source), *_numbers(claim, source), *_tokens(claim, source)]
    for differ in (rows_differ, comparisons_differ, sections_differ, defaults_differ, items_differ):
        found += [Slip(*one) for one in differ(claim, source)]
    found += [*_keyed(claim, source), *_descriptions(claim, source), *_aligned(claim, source)]
    said = {slip.text for slip in found}
    sentences = [one for one in led_sentences(source.text) if not one.endswith("?")]  # a question tells nothing
    found += [slip for slip in (*_elsewhere(claim, source), *_quoted(claim, source)) if slip.text not in said]
    return list(dict.fromkeys([*found, *(Slip(*one) for one in differences(claim, sentences))]))


_US_DOLLARS = re.compile(r"\bUS(?:[ -]dollars?\b|\$)")
_TWICE = re.compile(rf"\b({'|'.join(NUMBER_WORDS)}) \(\d+\)", re.I)
"""A number in words and in digits: eleven (11) members."""
_SPAN = re.compile(rf"\b({MONTH})\s*(?:to|until|till|through|and|-|–)\s*({MONTH})\b", re.I)


def _dates(claim: str, source: PassageText) -> Iterator[Slip]:
    for date in dates_in(claim):
        if not any(date.within(other) for other in source.dates):
            yield Slip("date", date.text)
    times = clocks(source.text)
    for minutes, shown in clocks(claim).items():
        if minutes not in times and not (shown[-1].isalpha() and shown[-1] not in "mM" and minutes + 720 in times):
            yield Slip("date", shown)
    blank = without_times(claim)
    for word in re.findall(rf"\b(?:{MONTH})\b", blank, re.I):
        if word[0].isupper() and word.lower() not in ("mar", "jan", "sep", "may") and len(word) > 3:
            month = MONTHS[word.lower()]
            between = any(MONTHS[a.lower()] <= month <= MONTHS[b.lower()] for a, b in _SPAN.findall(source.text))
            told = word.casefold() in source.tokens or any(other.month == month for other in source.dates)
            if not told and not between:
                yield Slip("date", word)


def _numbers(claim: str, source: PassageText) -> Iterator[Slip]:
    for mine in dict.fromkeys(quantities(claim)):
        if mine.vague or any(mine.same(other) for other in source.amounts):
            continue
        alike = {one.unit for one in quantities(claim) if one.dimension} if mine.dimension is None else ()
        if any(replace(mine, unit=unit).same(other) for unit in alike for other in source.amounts):
            continue  # 50 cents instead of 25
        if 1 < mine.value < 6 and mine.dimension is None and mine.text.isalpha() and not _counts(mine, claim, source):
            continue  # two members, whose names the source lists
        bare = [other for other in source.amounts if other.value == mine.value]
        if "." in mine.text and re.search(rf"(?<![\w.]){re.escape(mine.text)}[a-z]\d", source.text):
            continue  # 9.0 of 9.0p1
        if is_told(mine, claim, source) or any(
            mine.text == count and abs(often - between) < 0.02 * between
            for count, between in times_per(claim)
            for often in rates(source.text)
        ):
            continue
        yield Slip("unit" if bare else "number", mine.text)


def _counts(one: Quantity, claim: str, source: PassageText) -> bool:
    """Return whether the source counts what a number of the claim does."""
    sort = _sort(one, claim)
    return sort in ("", "tim") or any(_sort(other, source.text) == sort for other in source.amounts if not other.vague)


def _tokens(claim: str, source: PassageText) -> Iterator[Slip]:
    """Return codes, versions and names of the claim that stand nowhere in the source."""
    text = without_times(claim)
    first = next(iter(TOKEN.finditer(text)), None)
    squeezed = "".join(sign for sign in source.text.casefold() if sign.isalnum())
    for found in TOKEN.finditer(text):
        token = found[0]
        plain = normal(token)
        digits = any(sign.isdigit() for sign in token)
        if digits and (is_measure(token) or not (any(map(str.isalpha, token)) or VERSION.fullmatch(token))):
            continue  # a number
        inner = any(sign.isupper() for sign in token[1:])
        inner = inner or _PATH.fullmatch(token) is not None
        name = token[0].isupper() and not is_german(claim) and (first is None or found.start() != first.start())
        if not (digits or inner or name) or plain in source.tokens | MONTHS.keys() | spelled_out(claim, source):
            continue
        is_known = (
            plain in NUMBER_WORDS | UNITS or f"°{plain}" in UNITS or plain in ORDINALS or is_of_country(plain, source)
        )
        if not digits and (is_known or of_week(plain.removesuffix("s")) & source.tokens):
            continue
        parts = [part for part in re.split(r"[-_./:]", plain) if part]
        if not digits and all(part in source.tokens or part.removesuffix("s") in source.tokens for part in parts):
            continue
        letters = "".join(sign for sign in plain if sign.isalnum())
        written = rf"(?<![^\W_]){letters.removesuffix('s')}(?:s|v?\d+)?(?![^\W_])"  # IP, of IPv4
        if not digits and re.search(written, source.text, re.I):
            continue
        if digits and (_joined(letters, source) or _version(plain, source)):
            continue
        if not digits and len(letters) > 3 and letters in squeezed:
            continue
        yield Slip("token", token)


_PATH = re.compile(r"[a-z]{3,}(?:[._][a-z]{3,})+|[a-z]+(?:/[a-z.]+){2,}")
"""An identifier, or a path, in small letters."""


def _version(normal: str, source: PassageText) -> bool:
    """Return whether a version stands in the source, with or without its v."""
    bare = re.escape(normal.removeprefix("v"))
    written = re.search(rf"(?<![\w.])v?{bare}(?!\w|\.\d)", source.text, re.I)
    return VERSION.fullmatch(normal) is not None and written is not None


def _joined(letters: str, source: PassageText) -> bool:
    """Return whether a code stands in the source with other separators: KX 67, KX-67."""
    pattern = r"[\s\-_./]?".join(re.escape(sign) for sign in letters)
    return re.search(rf"(?<![^\W_]){pattern}(?![^\W_]|[.]\d)", source.text, re.I) is not None


_CLAUSE = re.compile(
    r";\s+|,? (?:and|but|while) (?=[^.;]{0,500}\b(?:is|are|means|mean|takes|has|was)\b)|(?<=[.!?])\s+|\n+"
)


def _descriptions(claim: str, source: PassageText) -> Iterator[Slip]:
    """Return a code of the claim whose clause says something else, where another code's clause says this."""
    codes, quoted = _labels(claim), _CODED.findall(claim)
    if len(codes) != 1 and len(quoted) != 1:
        return
    clauses = [clause for part in _CLAUSE.split(source.text) if part and part.count("|") < 2 for clause in _each(part)]
    if len(quoted) == 1:
        words = stems(claim) - stems(quoted[0]) - {"mean", "use"}
        told = [
            (quoted[0] in found, len(words & stems(clause))) for clause in clauses if (found := _CODED.findall(clause))
        ]
        own, rival = (max((n for same, n in told if same is is_own), default=0) for is_own in (True, False))
        whole = own < rival == len(words) > 3  # another's clause has all that the claim says
        if any(same for same, _ in told) and (whole or (rival - own >= 2 and 2 * rival > len(words))):
            yield Slip("row", quoted[0])
    if len(codes) != 1:
        return
    words, shape = stems(claim) - stems(codes[0]) - {"mean"}, _shape(codes[0])
    mine = [len(words & stems(clause)) for clause in clauses if mentions(clause, codes[0])]
    others = [len(words & stems(clause)) for clause in clauses
              if not mentions(clause, codes[0]) and shape in map(_shape, _labels(clause))]  # fmt: skip
    if mine and others and max(others) - max(mine) >= 1 and max(others) >= (0.6 if max(mine) else 0.5) * len(words):
        yield Slip("row", codes[0])


def _each(clause: str) -> list[str]:
    """Return a clause in parts, each about one of the codes that it lists: E1 means dry, E2 that it is full."""
    starts = [found.start(1) for found in re.finditer(r"(?:,|\band|\bor) ([^\W_]*\d\w*)", clause) if _labels(found[1])]
    return [clause[a:b] for a, b in pairwise([0, *starts, len(clause)])]


def _labels(text: str) -> list[str]:
    """Return the codes of a text, and what is numbered: error 42."""
    found = [one[0] for one in CODE.finditer(text) if not is_measure(one[0])]
    return found + [one[0] for one in _NUMBERED.finditer(text) if one[1].casefold() not in STOP | MONTHS.keys()]


_NUMBERED = re.compile(r"\b([^\W\d_]{3,}) (\d+)(?:(?: to |, | and |, and | or |–|-)(\d+))?\b(?![.,:]?\d)")


def _numbered(text: str) -> dict[str, set[str]]:
    """Return the numbers that things go by: stages 1 to 3, pin 9."""
    found: dict[str, set[str]] = {}
    for word, first, last in _NUMBERED.findall(text):
        if word.casefold() not in STOP | _OPENING | MONTHS.keys():
            found.setdefault(stem(word.casefold()), set()).update({first, last or first})
    return found


def _has_amount(amount: Quantity, part: str) -> bool:
    return any(amount.same(other) and other.dimension for other in quantities(part))


def _has_number(sort: str, number: str, part: str) -> bool:
    return number in _numbered(part).get(sort, ())


def _keyed(claim: str, source: PassageText) -> Iterator[Slip]:
    """Return amounts and numbered things of the claim that the source gives only for others of what it numbers."""
    mine, everywhere = _numbered(claim), _numbered(prose_of(source.text))
    wanted = [one for one in dict.fromkeys(quantities(claim)) if one.dimension and not one.vague]
    values = [(one.text, partial(_has_amount, one)) for one in wanted]
    values += [(f"{sort} {one}", partial(_has_number, sort, one)) for sort, numbers in mine.items() for one in numbers]
    values += [
        (one[0], partial(mentions, cell=one[0])) for one in [*CODE.finditer(claim)][:5] if not is_measure(one[0])
    ]
    for key, numbers in mine.items():
        if not numbers <= everywhere.get(key, set()):
            continue
        for text, within in values:
            rivals = [
                _numbered(part).get(key) or _numbered(sentence).get(key, set())
                for sentence in source.sentences for part in _PARTS.split(sentence) if within(part)
            ]  # fmt: skip
            if rivals and all(rival and not rival & numbers for rival in rivals) and not text.startswith(f"{key} "):
                yield Slip("row", text)


_PARTS = re.compile(r";\s+|,\s+(?:and|but|or|while)\s+")
_CODED = re.compile(r"`([^`\n]{1,60})`")
_QUOTED = re.compile(r"[\"“`]([^\"“”`]{1,60})[\"”`]")
_IDENTIFIER = re.compile(r"\b[^\W_]+(?:_[^\W_]+)+\b")
_NAME = re.compile(r"\b[A-Z][a-zà-ÿ]+ [A-Z][a-zà-ÿ]+\b")
_RELEASE = re.compile(r"(?<![\w.])v?\d+(?:\.\d+){2,}[a-z]*\d*(?![\w.]*\w)")


def _elsewhere(claim: str, source: PassageText) -> Iterator[Slip]:
    """Return amounts, years, versions and persons of the claim that the source gives for something else: where it
    speaks of what the claim does, another stands in the same place."""
    spoken = [(part, _content(part)) for sentence in source.sentences if sentence.count("|") < 2
              for part in _PARTS.split(sentence)]  # fmt: skip
    instances = {one.text for one in set(quantities(claim)) if is_told(one, claim, source)}
    for mine, in_part in _values(claim):
        if mine in instances:
            continue
        words = _content(_own_part(claim, mine)) - _content(mine)
        carriers, rivals = [0], [0]
        for part, content in spoken:
            shared, theirs = len(words & content), in_part(part)
            (carriers if True in theirs else rivals if theirs else []).append(shared)
        if max(rivals) - max(carriers) >= 2 and 2 * max(rivals) >= len(words):
            yield Slip("row", mine)


def _own_part(claim: str, value: str) -> str:
    """Return the part of a claim that has a value, where another part has another of the same sort: a name, a code."""
    for pattern in (_RELEASE, _NAME, _IDENTIFIER):
        if pattern.fullmatch(value) and len({*pattern.findall(claim)}) > 1:
            return next((part for part in _BESIDE.split(claim) if value in part), claim)
    return claim


_BESIDE = re.compile(r"[,;]\s+(?:and |but |while |whereas )?|\s(?:and|but|while|whereas)\s")


def _values(claim: str) -> Iterator[tuple[str, Callable[[str], list[bool]]]]:
    """Yield (text, a function of a part: whether each value of the same sort in it is this one)."""
    amounts = dict.fromkeys(one for one in quantities(claim) if not one.vague and _sort(one, claim))
    yield from ((one.text, partial(_amounts_in, one, claim)) for one in amounts)
    codes = [found[0] for found in CODE.finditer(claim) if not is_measure(found[0]) and "_" not in found[0]]
    shapes = [_shape(code) for code in codes]  # of two codes of one shape, one is often the other's peer
    yield from ((code, partial(_codes_in, code)) for code in codes if shapes.count(_shape(code)) == 1)
    for pattern in (_RELEASE, _IDENTIFIER) if is_german(claim) else (_RELEASE, _NAME, _IDENTIFIER):
        names = (found for found in pattern.findall(claim) if found.split()[0].casefold() not in STOP | _OPENING)
        yield from ((name, partial(_names_in, name.removeprefix("v"), pattern)) for name in names)


def _amounts_in(mine: Quantity, claim: str, part: str) -> list[bool]:
    said, sort = quantities(claim), _sort(mine, claim)
    counted = [one for one in quantities(part) if not one.vague or one.text.casefold() == "one"]
    return [mine.same(one) for one in counted if (mine.same(one) or not any(map(one.same, said)))
            and (_sort(one, part) == sort or (mine.same(one) and not _sort(one, part)))]  # fmt: skip


def _codes_in(code: str, part: str) -> list[bool]:
    return [normal(one[0]) == normal(code) for one in CODE.finditer(part) if _shape(one[0]) == _shape(code)]


def _names_in(name: str, pattern: re.Pattern[str], part: str) -> list[bool]:
    return [True] if name in part else [False] * len(pattern.findall(part))


def _sort(quantity: Quantity, text: str) -> str:
    """Return what a quantity is one of: its dimension, a year, or else what is counted; "" where that isn't said."""
    if quantity.dimension is not None:
        return quantity.dimension
    if re.fullmatch(r"(?:19|20)\d\d", quantity.text):
        return "year"
    counted = re.search(rf"(?<![\w.-]){re.escape(quantity.text)} ([^\W\d_]{{3,}})", text)
    return "" if counted is None or counted[1] in STOP or not counted[1].endswith("s") else stem(counted[1].casefold())


def _shape(code: str) -> str:
    return re.sub(r"\d+", "0", code.casefold())


def _content(text: str) -> set[str]:
    """Return the stems of a text's words, without units, and its codes."""
    codes = {token for token in map(normal, TOKEN.findall(text)) if any(map(str.isdigit, token))}
    return {stem for stem in stems(text) if stem not in UNITS} | codes


def _quoted(claim: str, source: PassageText) -> Iterator[Slip]:
    """Return what the claim quotes and the source doesn't have, whatever the spaces."""
    text = " ".join(source.text.casefold().split())
    for found in _QUOTED.findall(claim):
        if " ".join(found.casefold().split()).strip(" .,") not in text:
            yield Slip("token", found)


_OPENING = frozenset(
    "after before above below under over during until between up down once all every both some most many other others"
    " more less yes here there since because although though however therefore thus otherwise instead about without"
    " within outside according finally first second then now today usually generally note please use see anything"
    " something nothing everything anyone someone everyone anybody somebody everybody nobody whoever whatever"
    " nor neither unless except whether who what where how why does did".split()
)
"""Words that begin a sentence and are no names."""


def _aligned(claim: str, source: PassageText) -> Iterator[Slip]:
    """Return rates, numbered things and first names that differ from those of the sentences that speak of the same."""
    near = _near(claim, source)
    often, theirs = rates(claim), [rates(sentence) for sentence in _near(without_rates(claim), source)]
    if often and theirs and all(other and not often & other for other in theirs):
        yield Slip("unit", "how often")
    for word, number in re.findall(r"\b([^\W\d_][\w.]{0,60}) (\d+(?:\.\d+)*)\b(?! ?[%°])", claim):
        if word.casefold() in STOP or word.casefold() in MONTHS or normal(word) not in source.tokens or len(word) < 3:
            continue
        numbers = set(re.findall(rf"\b{re.escape(word)} (\d+(?:\.\d+)*)\b", source.text, re.I))
        beside = rf"\b{re.escape(word)}\b.*(?<![\d.]){re.escape(number)}(?![\d.]*\d)"
        heads = [(row, head) for row in source.rows for head in row.heads if stems(head) == stems(word)]
        if any(number in row.under(head) for row, head in heads):
            continue
        if any(re.search(beside, sentence, re.I) for sentence in source.sentences):
            continue
        spans = re.findall(rf"\b{re.escape(word)}s? (\d+) ?(?:to|-|–) ?(\d+)\b", source.text, re.I)
        if any(float(a) <= float(number) <= float(b) for a, b in spans if number.isdigit()):
            continue
        if numbers and number not in numbers and (word[0].isupper() or word.casefold() in numbered_nouns()):
            yield Slip("token", f"{word} {number}")
    first = None if is_german(claim) else WORD.match(claim)  # a German noun begins as a name does
    opening = re.sub(r"[’'](?:ll|ve|re|d|m|s)$", "", first[0].casefold().replace("’", "'")) if first is not None else ""
    usual = opening in STOP | _OPENING | numbered_nouns() | NUMBER_WORDS.keys() or opposites(stem(opening))
    begins = near and first is not None and first[0][0].isupper() and "n't" not in opening
    if first is not None and begins and not usual and not _GOES_ON.match(claim, first.end()):
        known = {stem(word.casefold()) for word in WORD.findall(source.text)}
        dropped = all(_proper(sentence) - _proper(f"x {claim}") for sentence in near)
        if dropped and not alike({stem(first[0].casefold())}, known):
            yield Slip("token", first[0])


_GOES_ON = re.compile(
    r" (?:the|an?|your|his|her|their|its|this|that|these|those|to|out|it|them|you|of|for|with|from|at|on|in)\b"
)
"""What follows a first word that is a verb, and no name: talk to, leaving out."""


def _proper(sentence: str) -> set[str]:
    """Return the capitalised words of a sentence but its first."""
    words = WORD.findall(sentence)
    return {word for word in words[1:] if word[0].isupper() and len(word) > 2 and word.casefold() not in MONTHS}


def _near(claim: str, source: PassageText) -> list[str]:
    """Return the sentences that share the most words with the claim; none where the most is few."""
    mine = stems(claim)
    scored = [(len(mine & stems(sentence)) / len(mine), sentence) for sentence in source.sentences] if mine else []
    best = max((score for score, _ in scored), default=0.0)
    return [sentence for score, sentence in scored if score >= best - 0.05] if best >= 0.4 else []
