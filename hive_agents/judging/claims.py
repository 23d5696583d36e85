"""Claims held against passages without a model: what a sentence says that its passages don't, or say otherwise.

It compares codes, names, numbers with their units, dates, negation and modality, and what stands in one row of a table.
It finds slips of a model that writes from passages; whether a paraphrase means the same is not its business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hive_agents.judging.amounts import (
    CODE,
    MONTH,
    MONTHS,
    NUMBER_WORDS,
    UNITS,
    VERSION,
    Date,
    Quantity,
    clocks,
    dates_in,
    is_measure,
    quantities,
    rates,
    without_times,
)

_TOKEN = re.compile(r"[^\W_]+(?:[-_./:+][^\W_]+)*\+*", re.U)
_NUMBER = re.compile(r"(?<![\w.,])[-+−]?\d+(?:[,  ]\d{3})*(?:\.\d+)?(?![\w]*[\d])")
MOST = 1_000
"""The characters of a claim that are read: its model may have been told to write anything."""
_WRAPPED = re.compile(r"(?<=[^\n|])\n(?=[^\n|#>*\-\s])")
_SPLIT = re.compile(r"(?<=[.!?;])\s+(?=[A-Z0-9ÄÖÜ“\"'(\[])|\n+")
_WORD = re.compile(r"[^\W\d_]+(?:['’][a-z]+)?")

_NEGATIVE = frozenset(
    "not no never without cannot none neither nor nobody nothing nicht"
    " kein keine keinen keiner nie niemals ohne".split()
)
_OPPOSITES = tuple(
    (frozenset(one.split()), frozenset(other.split()))
    for one, other in (
        ("must mandatory required requires compulsory shall obligatory muss",
         "may can optional optionally voluntary could kann darf"),
        ("allowed permitted allow allows permits", "forbidden prohibited banned forbids prohibits"),
        ("enabled enable enables", "disabled disable disables"),
        ("before", "after"), ("above over exceeds exceeding", "below under"), ("minimum least", "maximum most"),
        ("more higher greater larger", "less lower fewer smaller"), ("increase increases increased rises rise raises",
         "decrease decreases decreased reduces reduced falls lowers lowered"),
        ("always", "never rarely sometimes"), ("all every", "some few"), ("open opens", "closed closes"),
        ("accepts accepted", "rejects rejected refuses refused"), ("includes included", "excludes excluded"),
        ("internal", "external"), ("added adds introduced", "removed removes dropped"), ("starts begins", "ends"),
        ("clockwise", "anticlockwise counterclockwise"), ("succeeds", "fails"), ("supported", "unsupported"),
        ("encrypted", "unencrypted"), ("paid", "unpaid"), ("cold", "hot warm"), ("inside", "outside"),
        ("public", "private"), ("input", "output"), ("automatically automatic", "manually manual"),
    )
)  # fmt: skip
_STRONG = frozenset("must mandatory required requires compulsory shall obligatory".split())
_STOP = frozenset(
    "a an the of in on at to for from by with and or is are was were be been being has have had do does did it its this"
    " that these those as than then so such also only just any each per if when while which who what there their they"
    " them he she we you your our i can may must should will would shall could not no never".split()
)


@dataclass(frozen=True, slots=True)
class Slip:
    """Something in a claim that its passages don't support. `kind`: token, number, unit, date, negation, row."""

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
    claim, source = claim[:MOST], _read("\n\n".join(passage[: 8 * MOST] for passage in passages))
    found = [*_dates(claim, source), *_numbers(claim, source), *_tokens(claim, source)]
    found += [*_rows(claim, source), *_descriptions(claim, source), *_aligned(claim, source)]
    return list(dict.fromkeys([*found, *_polarity(claim, source)]))


@dataclass(frozen=True, slots=True)
class _Source:
    """A text, read once: its tokens, quantities, dates, sentences, and the rows of its tables with their heads."""

    text: str
    tokens: frozenset[str]
    amounts: tuple[Quantity, ...]
    dates: tuple[Date, ...]
    sentences: tuple[str, ...]
    rows: tuple[_Row, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table: its cells with the heads of their columns."""

    cells: tuple[str, ...]
    heads: tuple[str, ...]


@lru_cache(maxsize=64)
def _read(text: str) -> _Source:
    text = _WRAPPED.sub(" ", text)
    rows = tuple(_table_rows(text))
    dates = tuple(dates_in(text))
    sentences = tuple(part for part in (part.strip() for part in _SPLIT.split(text)) if part)
    return _Source(text, frozenset(_normal(token) for token in _TOKEN.findall(text)), tuple(quantities(text)), dates,
                   sentences, rows)  # fmt: skip


def _normal(token: str) -> str:
    token = token.casefold().replace("’", "'").rstrip(".:/")
    return token[:-2] if token.endswith("'s") else token


def _dates(claim: str, source: _Source) -> Iterator[Slip]:
    for date in dates_in(claim):
        if not any(date.within(other) for other in source.dates):
            yield Slip("date", date.text)
    times = clocks(source.text)
    for minutes, shown in clocks(claim).items():
        if minutes not in times:
            yield Slip("date", shown)
    blank = without_times(claim)
    for word in re.findall(rf"\b(?:{MONTH})\b", blank, re.I):
        if word[0].isupper() and word.lower() not in ("mar", "jan", "sep", "may") and len(word) > 3:
            month = MONTHS[word.lower()]
            if not any(other.month == month for other in source.dates) and word.casefold() not in source.tokens:
                yield Slip("date", word)


def _numbers(claim: str, source: _Source) -> Iterator[Slip]:
    for mine in quantities(claim):
        if mine.vague or any(mine.same(other) for other in source.amounts):
            continue
        bare = [other for other in source.amounts if other.value == mine.value]
        if mine.text.casefold() in source.tokens and not bare:
            continue
        if bare and mine.dimension is not None and any(other.dimension is None for other in bare):
            continue
        yield Slip("unit" if bare else "number", mine.text)


def _tokens(claim: str, source: _Source) -> Iterator[Slip]:
    """Return codes, versions and names of the claim that stand nowhere in the source."""
    text = without_times(claim)
    first = next(iter(_TOKEN.finditer(text)), None)
    squeezed = "".join(sign for sign in source.text.casefold() if sign.isalnum())
    for found in _TOKEN.finditer(text):
        token = found[0]
        normal = _normal(token)
        digits = any(sign.isdigit() for sign in token)
        if digits and not any(sign.isalpha() for sign in token) and not VERSION.fullmatch(token):
            continue  # a number
        if digits and is_measure(token):
            continue
        inner = any(sign.isupper() for sign in token[1:])
        name = token[0].isupper() and (first is None or found.start() != first.start())
        if not (digits or inner or name) or normal in source.tokens or normal in MONTHS:
            continue
        if not digits and normal in NUMBER_WORDS | UNITS:
            continue
        parts = [part for part in re.split(r"[-_./:]", normal) if part]
        if not digits and all(part in source.tokens or part.removesuffix("s") in source.tokens for part in parts):
            continue
        letters = "".join(sign for sign in normal if sign.isalnum())
        if not digits and (f"{letters}s" in source.tokens or letters.removesuffix("s") in source.tokens):
            continue
        if digits and (_joined(letters, source) or _version(normal, source)):
            continue
        if not digits and len(letters) > 3 and letters in squeezed:
            continue
        yield Slip("token", token)


def _version(normal: str, source: _Source) -> bool:
    """Return whether a version stands in the source, with or without its v."""
    bare = re.escape(normal.removeprefix("v"))
    written = re.search(rf"(?<![\w.])v?{bare}(?!\w|\.\d)", source.text, re.I)
    return VERSION.fullmatch(normal) is not None and written is not None


def _joined(letters: str, source: _Source) -> bool:
    """Return whether a code stands in the source with other separators: KX 67, KX-67."""
    pattern = r"[\s\-_./]?".join(re.escape(sign) for sign in letters)
    return re.search(rf"(?<![^\W_]){pattern}(?![^\W_]|[.]\d)", source.text, re.I) is not None


def _stems(text: str) -> set[str]:
    words = (word.casefold() for word in _WORD.findall(text))
    kept = (word for word in words if word not in _STOP)
    return {_stem(word) for word in kept}


def _stem(word: str) -> str:
    for ending in ("ingly", "edly", "ings", "ing", "ies", "ied", "ed", "es", "s", "ly", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _negations(text: str) -> int:
    lowered = re.sub(r"n[’']t\b", " not", text.casefold())
    words = re.findall(r"[^\W\d_]+", lowered)
    count = sum(word in _NEGATIVE for word in words)
    count -= len(re.findall(r"\bno (?:later|more|longer|less|fewer|earlier) than\b|\bnot only\b|\bno\.? ?\d", lowered))
    return max(0, count)


def _polarity(claim: str, source: _Source) -> Iterator[Slip]:
    """Return how the claim's negation or modality differs from the sentences that speak of the same."""
    near = _near(claim, source)
    words = set(re.findall(r"[^\W\d_]+", claim.casefold()))
    negative = _negations(claim) % 2
    different = []
    for sentence in near:
        theirs = set(re.findall(r"[^\W\d_]+", sentence.casefold()))
        opposed = next((one & words for one, other in _sides() if one & words and other & theirs - words
                        and not one & theirs), None)  # fmt: skip
        flips = int(opposed is not None) + int(negative != _negations(sentence) % 2)
        if (opposed is not None and flips % 2 == 1) or (opposed is None and flips):
            different.append(" ".join(sorted(opposed or ())) or "not")
    if near and len(different) == len(near):
        yield Slip("negation", different[0])


def _sides() -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    for one, other in _OPPOSITES:
        yield one, other
        if one is not other:
            yield other, one


def _table_rows(text: str) -> Iterator[_Row]:
    heads: tuple[str, ...] = ()
    for line in text.splitlines():
        bar = line.strip()
        if bar.count("|") >= 2 or (bar.count("|") and heads):
            cells = tuple(cell.strip() for cell in bar.strip("|").split("|"))
            if all(re.fullmatch(r":?-{2,}:?", cell) for cell in cells):
                continue
            if not heads:
                heads = cells
            else:
                yield _Row(cells, heads)
        else:
            heads = ()


def _mentions(text: str, cell: str) -> bool:
    cell = cell.strip("*`_ ")
    return bool(cell) and re.search(rf"(?<![^\W_]){re.escape(cell)}(?![^\W_]|[.]\d)", text, re.I) is not None


def _rows(claim: str, source: _Source) -> Iterator[Slip]:
    """Return values of the claim that stand in a table, and in no row, or under no head, that the claim names."""
    named = [row for row in source.rows if row.cells and _mentions(claim, row.cells[0])]
    if not named:
        yield from _pairs(claim, source)
        return
    prose = _prose(source.text)
    for mine in quantities(claim):
        if mine.vague or any(mine.same(other) for other in quantities(prose)):
            continue
        if any(_mentions(row.cells[0], mine.text) for row in named):
            continue
        if not any(mine.same(other) for row in source.rows for cell in row.cells for other in _in_cell(cell)):
            continue
        places = [
            (row, head) for row in named for cell, head in zip(row.cells, row.heads, strict=False)
            if any(mine.same(other) for other in _in_cell(cell))
        ]  # fmt: skip
        if not places:
            yield Slip("row", mine.text)
            continue
        mentioned = _stems(claim)
        heads = {head for row in named for head in row.heads[1:] if _alike(_stems(head), mentioned)}
        rivals = [
            other for row in named for cell, head in zip(row.cells[1:], row.heads[1:], strict=False) if head in heads
            for other in _in_cell(cell)
            if other.dimension == mine.dimension or (other.dimension is None and mine.unit in head.casefold())
        ]  # fmt: skip
        if rivals and not any(head in heads for _, head in places):
            yield Slip("row", mine.text)
    words = {cell for row in source.rows for cell in row.cells[1:] if any(map(str.isalpha, cell)) and len(cell) > 2}
    for cell in sorted(words):
        if _mentions(claim, cell) and not _mentions(prose, cell) and not any(map(str.isdigit, cell)):
            rows = [row for row in named if any(_mentions(other, cell) for other in row.cells)]
            if not rows and not any(_mentions(" ".join(row.heads), cell) for row in named):
                yield Slip("row", cell)


def _alike(stems: set[str], others: set[str]) -> bool:
    """Return whether a word is among the others, or begins as one of them does: weight and weighs."""
    return any(stem == other or (len(stem) > 4 and len(other) > 4 and stem[:5] == other[:5])
               for stem in stems for other in others)  # fmt: skip


def _in_cell(cell: str) -> Iterable[Quantity]:
    return quantities(cell)


def _prose(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.count("|") < 2)


def _pairs(claim: str, source: _Source) -> Iterator[Slip]:
    """Return a measure of the claim that the source gives for another code, and not for the claim's."""
    codes = [found[0] for found in CODE.finditer(claim) if not is_measure(found[0])]
    if len(codes) != 1:
        return
    mine = [sentence for sentence in source.sentences if _mentions(sentence, codes[0])]
    for quantity in quantities(claim):
        if quantity.vague or quantity.dimension is None or not mine:
            continue
        if any(quantity.same(other) for sentence in mine for other in quantities(sentence)):
            continue
        others = [sentence for sentence in source.sentences if sentence not in mine
                  and any(quantity.same(other) for other in quantities(sentence))]  # fmt: skip
        of_another = others and all(CODE.search(sentence) for sentence in others)
        own = any(other.dimension == quantity.dimension for sentence in mine for other in quantities(sentence))
        if of_another and own:
            yield Slip("row", quantity.text)


_CLAUSE = re.compile(r";\s+|,? (?:and|but|while) (?=[^.;]*\b(?:is|are|means|mean|takes|has|was)\b)|(?<=[.!?])\s+|\n+")


def _descriptions(claim: str, source: _Source) -> Iterator[Slip]:
    """Return a code of the claim whose clause says something else, where another code's clause says this."""
    codes = _labels(claim)
    if len(codes) != 1:
        return
    clauses = [clause for clause in _CLAUSE.split(source.text) if clause and clause.count("|") < 2]
    words = _stems(claim) - _stems(codes[0])
    mine = [len(words & _stems(clause)) for clause in clauses if _mentions(clause, codes[0])]
    others = [len(words & _stems(clause)) for clause in clauses
              if not _mentions(clause, codes[0]) and _labels(clause)]  # fmt: skip
    if mine and others and max(others) - max(mine) >= 1 and max(others) >= 0.6 * len(words):
        yield Slip("row", codes[0])


def _labels(text: str) -> list[str]:
    """Return the codes of a text, and what is numbered: error 42."""
    found = [one[0] for one in CODE.finditer(text) if not is_measure(one[0])]
    return found + [one[0] for one in re.finditer(r"\b(?:error|alarm|code|step|level|rule) \d+\b", text, re.I)]


_OPENING = frozenset(
    "after before above below under over during until between up down once all every both some most many other others"
    " more less yes here there since because although though however therefore thus otherwise instead about without"
    " within according finally first second then now today usually generally note please use see".split()
)
"""Words that begin a sentence and are no names."""
def _aligned(claim: str, source: _Source) -> Iterator[Slip]:
    """Return rates, numbered things and first names that differ from those of the sentences that speak of the same."""
    near = _near(claim, source)
    often, theirs = rates(claim), [rates(sentence) for sentence in near]
    if often and theirs and all(other and not often & other for other in theirs):
        yield Slip("unit", "how often")
    for word, number in re.findall(r"\b([^\W\d_][\w.]*) (\d+(?:\.\d+)*)\b(?! ?[%°])", claim):
        if word.casefold() in _STOP or _normal(word) not in source.tokens or len(word) < 3:
            continue
        numbers = set(re.findall(rf"\b{re.escape(word)} (\d+(?:\.\d+)*)\b", source.text, re.I))
        if numbers and number not in numbers and (word[0].isupper() or word.casefold() in ("error", "alarm", "step")):
            yield Slip("token", f"{word} {number}")
    first = _WORD.match(claim)
    if first is not None and first[0][0].isupper() and first[0].casefold() not in _STOP | _OPENING and near:
        known = {_stem(word.casefold()) for word in _WORD.findall(source.text)}
        dropped = all(_proper(sentence) - _proper(f"x {claim}") for sentence in near)
        if dropped and _stem(first[0].casefold()) not in known:
            yield Slip("token", first[0])


def _proper(sentence: str) -> set[str]:
    """Return the capitalised words of a sentence but its first."""
    words = _WORD.findall(sentence)
    return {word for word in words[1:] if word[0].isupper() and len(word) > 2 and word.casefold() not in MONTHS}


def _near(claim: str, source: _Source) -> list[str]:
    """Return the sentences that share the most words with the claim; none where the most is few."""
    mine = _stems(claim)
    scored = [(len(mine & _stems(sentence)) / len(mine), sentence) for sentence in source.sentences] if mine else []
    best = max((score for score, _ in scored), default=0.0)
    return [sentence for score, sentence in scored if score >= best - 0.05] if best >= 0.4 else []
