"""What a claim takes from a table, held against the row and the head that it names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from hive_agents.judging.amounts import CODE, UNITS, VERSION, Quantity, is_measure, quantities
from hive_agents.judging.meaning import LESS, MORE
from hive_agents.judging.passages import STOP, HeadedRow, PassageText, alike, mentions, prose_of, stem, stems

_LETTERS = re.compile(r"[^\W_]+")
_CODED = re.compile(r"(?=\w*[^\W\d_])(?=\w*\d)\w+")
_OR = re.compile(r"\s?/\s?|\sor\s")
_PARTED = re.compile(r",\s|\b(?:and|but|while|whereas)\b")


def _names(claim: str, cell: str, head: str = "") -> bool:
    """Return whether all words of a cell are in the claim, be it without the cell's numbers and marks; of a number,
    with the head: leg 4."""
    if cell.isdigit():
        return mentions(claim, f"{head} {cell}")
    words = {stem(word.casefold()) for word in _LETTERS.findall(cell) if len(word) > 2 and not word.isdigit()}
    return bool(words) and words <= {stem(word.casefold()) for word in _LETTERS.findall(claim)}


def rows_differ(claim: str, source: PassageText) -> Iterator[tuple[str, str]]:
    """Yield values of the claim that stand in a table, and in no row, or under no head, that the claim names."""
    named = [
        row for row in source.rows if row.cells and any(mentions(claim, one) for one in (row.cells[0],
        *_OR.split(row.cells[0]), *(found[0] for found in CODE.finditer(row.cells[0]))))
    ]  # fmt: skip
    tokens = {*_TOKENS.findall(claim.casefold())}
    named = [row for row in source.rows if any(stems(one.cells[0]) < stems(row.cells[0]) for one in named)
             and {*_TOKENS.findall(row.cells[0].casefold())} <= tokens] or named  # fmt: skip
    named = named or [row for row in source.rows if row.cells and _names(claim, row.cells[0])]
    named = named or [row for row in source.rows if any(_CODED.fullmatch(cell) and mentions(claim, cell)
                                                        for cell in row.cells[1:])]  # fmt: skip
    cells = Counter(cell for row in source.rows for cell in row.cells)
    for column in range(1, min(20, max((len(row.cells) for row in source.rows), default=0))):
        named = named or [row for row in source.rows if column < len(row.cells) and len(cell := row.cells[column]) > 3
                          and _worded(cell) and cells[cell] == 1 and _names(claim, cell)]  # fmt: skip
    named = [row for row in named if _is_headed(claim, row)] or named or _likest(claim, source)
    yield from _rows_apart(claim, source)
    if not named:
        return
    told = [one for one in quantities(prose_of(source.text)) if one.text.casefold() not in ("once", "twice", "thrice")]
    if len(named) == 1:
        yield from _cell_differs(claim, named[0])
    for mine in quantities(claim):
        if mine.vague or any(mine.same(other) and mine.dimension == other.dimension for other in told):
            continue
        if any(mentions(row.cells[0], mine.text) for row in named):
            continue
        if not any(mine.same(other) for row in source.rows for cell in row.cells for other in quantities(cell)):
            continue
        places = [
            (row, head) for row in named for cell, head in zip(row.cells, row.heads, strict=False)
            if any(mine.same(other) for other in quantities(cell))
        ]  # fmt: skip
        if not places:
            given = [row for row in source.rows if any(map(mine.same, quantities(" ; ".join(row.cells))))]
            part = next((one for one in _PARTED.split(claim) if mine.text in one), claim)
            if part != claim and not any(_names(part, row.cells[0]) or mentions(part, row.cells[0]) for row in named):
                continue
            if _shared(claim, given) <= _shared(claim, named):
                yield "row", mine.text
            continue
        mentioned = stems(claim)
        asked = {head: stems(head) - _common(row) or stems(head) for row in named for head in row.heads[1:]}
        heads = {head for head, own in asked.items() if alike(own, mentioned)}
        rivals = [
            other for row in named for cell, head in zip(row.cells[1:], row.heads[1:], strict=False) if head in heads
            for other in quantities(cell)
            if other.dimension == mine.dimension or (other.dimension is None and mine.unit in head.casefold())
        ]  # fmt: skip
        if rivals and not any(head in heads for _, head in places):
            yield "row", mine.text
    for head in {head for row in named for head in row.heads[1:]}:
        own = {cell for row in named for cell in row.under(head)}
        others = {cell for row in source.rows for cell in row.under(head)} - own
        if not any(mentions(claim, cell) for cell in own):
            said = [cell for cell in sorted(others) if len(cell) > 2 and _worded(cell) and mentions(claim, cell)
                    and not _is_told(claim, cell, source)]  # fmt: skip
            yield from (("row", cell) for cell in said if not mentions(" ".join(named[0].heads), cell))
        answers = {cell.casefold() for given in own for cell in re.findall(r"^\W*(\w+)", given)}
        if answers in ({"yes"}, {"no"}) and len(named) == 1 and all(alike({one}, stems(claim)) for one in stems(head)):
            part = next((one for one in _PARTED.split(claim) if alike(stems(head), stems(one))), claim)
            denied = len(re.findall(r"(?i)\b(?:not|no|without|lacks?|neither)\b|n['’]t\b", part)) % 2 == 1
            if denied is ("yes" in answers):
                yield "negation", head


def _likest(claim: str, source: PassageText) -> list[HeadedRow]:
    """Return the one row whose first cell shares most words with the claim, as far as the claim names a column."""
    said = stems(_BOUNDS.sub("maximum", claim))
    shared = [len(said & stems(row.cells[0])) for row in source.rows]
    best = max(shared, default=0)
    rows = [row for row, count in zip(source.rows, shared, strict=True) if count == best]
    return rows if best and len(rows) == 1 and any(mentions(claim, head) for head in rows[0].heads[1:]) else []


_BOUNDS = re.compile(r"\b(?:at most|up to|at the most)\b")


def _common(row: HeadedRow) -> set[str]:
    """Return the words that several heads have: they don't tell which is meant."""
    counted = Counter(stem for head in row.heads[1:] for stem in stems(head))
    return {stem for stem, often in counted.items() if often > 1}


def _shared(claim: str, rows: list[HeadedRow]) -> int:
    """Return how many words of a claim the row has that has the most of them."""
    return max((len(stems(claim) & stems(" ".join(row.cells + row.heads))) for row in rows), default=0)


def _is_told(claim: str, cell: str, source: PassageText) -> bool:
    """Return whether a sentence outside of the tables that has a cell speaks of what the claim does."""
    words = stems(claim)
    told = (one for one in source.sentences if one.count("|") < 2 and mentions(one, cell))
    return any(len(words & stems(one)) > max(2, len(words) // 2) for one in told)


def _rows_apart(claim: str, source: PassageText) -> Iterator[tuple[str, str]]:
    """Yield the second of two codes that a claim tells of each other, and no row of a table has both."""
    codes = dict.fromkeys(found[0] for pattern in (CODE, VERSION) for found in pattern.finditer(claim))
    prose = prose_of(source.text)
    places = {code: {place for place, row in enumerate(source.rows) if any(mentions(cell, code) for cell in row.cells)}
              for code in codes if not is_measure(code) and not mentions(prose, code)}  # fmt: skip
    apart = len(places) == 2 and all(places.values()) and not set.intersection(*places.values())
    if apart and not _TOGETHER.search(claim):
        yield "row", list(places)[1]


_TOGETHER = re.compile(r"\b(?:and|or|n?either|both|than|as|but|while|whereas|from|before|after|unlike)\b")


def _is_headed(claim: str, row: HeadedRow) -> bool:
    """Return whether the claim names a row with the head of its first column: at a gain of 2."""
    head, cell = (re.escape(one.strip("*`_ ")) for one in (row.heads[0], row.cells[0]))
    return re.search(rf"\b{head}\W+(?:of |is )?{cell}(?![\w]|[.]\d)", claim, re.I) is not None


def _cell_differs(claim: str, row: HeadedRow) -> Iterator[tuple[str, str]]:
    """Yield an amount that a claim gives for a cell, whose row and head it names, and the cell has another."""
    tokens = [set(_TOKENS.findall(head.casefold())) - STOP for head in row.heads]
    said = set(_TOKENS.findall(claim.casefold()))
    unique = [own.difference(*(other for other in tokens if other is not own)) for own in tokens]
    asked = [place for place, own in enumerate(unique) if place and own & said]
    if len(asked) != 1 or asked[0] >= len(row.cells):
        return
    if not tokens[asked[0]] <= said and len(unique[asked[0]] & said) < 2:
        return
    about = f"{row.cells[0]} {row.heads[asked[0]]}"
    given = [one for one in quantities(row.cells[asked[0]]) if not one.vague]
    mine = [one for one in quantities(claim) if not one.vague and not mentions(about, one.text)]
    rivals = [one for one in mine if any(other.dimension in (one.dimension, None) for other in given)]
    scaled = {round(one.value * UNITS.get(one.unit, ("", 1.0))[1], 9) for one in rivals}  # a cell of 0.36, and 360 mA
    if rivals and not any(one.same(other) or other.value in scaled for one in rivals for other in given):
        yield "row", rivals[0].text


_TOKENS = re.compile(r"[^\W_]+%?")
_MEASURED = {word: measure for words, measure in (
    ("short long", "length duration time"), ("hott cool", "temperature"), ("high tall low", "height"),
    ("deep", "depth"), ("wide", "width"), ("heavi light", "weight"), ("old young", "age"), ("fast slow", "speed"),
    ("cheap", "price cost"),
) for word in words.split()}  # fmt: skip
"""What a comparison is of, by the word that compares without its ending."""


def comparisons_differ(claim: str, source: PassageText) -> Iterator[tuple[str, str]]:
    """Yield the head of a comparison of two rows of a table that their values don't bear out."""
    if best := re.search(r"\bthe (?:(\w+)est|most|least)\b", claim):
        falling = best[0] == "the least" or re.search(LESS, f"{best[1]}er") is not None
        spoken = stems(f"{claim} {_MEASURED.get(best[1], '')}")
        for head in {head for row in source.rows for head in row.heads[1:] if alike(stems(head), spoken)}:
            column = [(row, _amount(cell)) for row in source.rows for cell in row.under(head)]
            known = [(one.value, row) for row, one in column if one]
            named = [value for value, row in known if _names(claim, row.cells[0], row.heads[0])]
            if len(named) == 1 and named[0] != (min if falling else max)(value for value, _ in known):
                yield "row", head
    left, than, right = claim.partition(" than ")
    more = re.search(MORE, left) is not None
    if not than or more is (re.search(LESS, left) is not None):
        return
    measures = " ".join(_MEASURED.get(one, "") for one in re.findall(r"\b(\w+)er\b", left))
    for head in {
        head for row in source.rows for head in row.heads[1:] if alike(stems(head), stems(f"{claim} {measures}"))
    }:
        mine, theirs = ([_amount(cell) for row in source.rows if row.cells and _names(side, row.cells[0], row.heads[0])
                         for cell in row.under(head)] for side in (left, right))  # fmt: skip
        one, other = (found[0] if len(found) == 1 else None for found in (mine, theirs))
        if one and other and one.unit == other.unit and (one.value == other.value or more is (one.value < other.value)):
            yield "row", head


def _amount(cell: str) -> Quantity | None:
    """Return the first amount of a cell."""
    return next(iter(quantities(cell)), None)


def _worded(cell: str) -> bool:
    """Return whether a cell is no mere number: words, or a version."""
    amount = _amount(cell)
    return VERSION.fullmatch(cell) is not None or (
        any(map(str.isalpha, cell)) and (amount is None or (amount.dimension is None and not cell[0].isdigit()))
    )
