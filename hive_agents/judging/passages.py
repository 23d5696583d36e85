"""A text that claims are held against, read once: its words, codes, amounts, dates, sentences and rows of tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hive_agents.judging.amounts import Date, Quantity, dates_in, quantities

TOKEN = re.compile(r"[^\W_]+(?:[-_./:+][^\W_]+)*\+*", re.U)
_BEGINS = re.compile(r"[|#>*•·▪◦‣–—-]|\d{1,2}[.)]\s")
_KEYED = re.compile(
    r"(?:(?:[*•·▪◦‣–—-]|[a-z][.)])\s+)?(?=[^\W_])((?:(?!\s[–—-]\s)[^|.:;]){2,60}?)\s*(:|\s[–—-])\s+(\S[^|]*)"
)
"""A line that says something of what it begins with: Lid: 3 kg."""
_LINK = re.compile(r"\[([^][]+)\]\([^()\s]+\)")
_SPLIT = re.compile(r"(?<=[.!?;])\s+(?=[A-Z0-9ÄÖÜ“\"'`])|\n+")
WORD = re.compile(r"[^\W\d_]+(?:['’][a-z]+)?")

STOP = frozenset(
    "a an the of in on at to for from by with and or is are was were be been being has have had do does did it its this"
    " that these those as than then so such also only just any each per if when while which who what there their they"
    " them he she we you your our i can may must should will would shall could not no never".split()
)


@dataclass(frozen=True, slots=True)
class PassageText:
    """A text, read once: its tokens, quantities, dates, sentences, and the rows of its tables with their heads."""

    text: str
    tokens: frozenset[str]
    amounts: tuple[Quantity, ...]
    dates: tuple[Date, ...]
    sentences: tuple[str, ...]
    rows: tuple[HeadedRow, ...]


@dataclass(frozen=True, slots=True)
class HeadedRow:
    """A row of a table: its cells with the heads of their columns."""

    cells: tuple[str, ...]
    heads: tuple[str, ...]

    def under(self, head: str) -> list[str]:
        return [cell for cell, of in zip(self.cells, self.heads, strict=False) if of == head and cell]


@lru_cache(maxsize=64)
def read(text: str) -> PassageText:
    text = "\n".join(_with_units(_unwrapped(_LINK.sub(r"\1", text)).splitlines()))
    rows = tuple(_table_rows(text))
    dates = tuple(dates_in(text))
    sentences = tuple(part for part in (part.strip() for part in _SPLIT.split(text)) if part)
    return PassageText(text, frozenset(normal(token) for token in TOKEN.findall(text)), quantities(text), dates,
                   sentences, rows)  # fmt: skip


def led_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, an item of a list led by the words that introduce the list.

    >>> list(led_sentences("Guests may not bring:\\n- dogs\\n- boats"))
    ['Guests may not bring:', 'Guests may not bring dogs', 'Guests may not bring boats']
    """
    leads: list[tuple[int, bool, str]] = []
    lines = text.splitlines()
    for place, line in enumerate(lines):
        depth, item = _depth(line), _ITEM.match(line)
        if line.strip():
            leads = [lead for lead in leads if depth > lead[0] or (depth == lead[0] and item and not lead[1])]
        said = [part.strip() for part in _SPLIT.split(line[item.end() :] if item else line) if part.strip()]
        under = leads[-1][2] if leads else ""
        if under and _TERM.fullmatch(under):
            said = [f"{under} {one}" for one in said]
        elif under and item and said and said[0].count(" ") < 20 and not _WHOLE.search(said[0]):
            said[0] = f"{under} {said[0]}"
        yield from said
        forbids = _FORBIDS.match(line) and any(map(_ITEM.match, lines[place + 1 : place + 2]))
        if said and ((lead := said[-1].strip("*_ ")).endswith(":") or forbids) and lead.count(" ") > 1:
            leads.append((depth, item is not None, lead.rstrip(":")))
        elif is_term(lines, place):
            leads.append((depth, True, line.strip()))


_FORBIDS = re.compile(r"\W*(?:do not|don['’]t|never) [^.:]*$", re.I)
_WHOLE = re.compile(r"\b(?:is|are|was|were|has|have|must|may|can|shall|should|will)\b")
"""What a sentence has, and an item that a list's introduction goes on in hasn't."""
_TERM = re.compile(r"(?!\W*[A-Z]{4})(?:[^\W\d]|--?\w)[\w.-]*(?:,? [\w.<>=-]+){0,3}(?:,?\.\.\.)?")


def is_term(lines: Sequence[str], place: int) -> bool:
    """Return whether a line has nothing but a term that the deeper lines below it explain."""
    below = place + 1 < len(lines) and _depth(lines[place + 1]) > _depth(lines[place])
    return below and _TERM.fullmatch(lines[place].strip()) is not None


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


_ITEM = re.compile(r"\s*(?:[-*+•·▪◦‣–—]|\d{1,2}[.)])\s+(?:\(?[a-z]{1,4}[.)]\s+)?(?!\|)")


def _unwrapped(text: str) -> str:
    """Return a text in which a line and those it goes on in are one; a head stands by itself."""
    lines: list[str] = []
    is_open = in_item = False
    whole = text.split("\n")
    keyed = {place for places in _keyed_runs(whole) for place in places}
    for place, line in enumerate(whole):
        bare = line.strip()
        begins = _BEGINS.match(bare) or place in keyed or (place and _is_full(whole, place))
        level = place and _depth(line) == _depth(whole[place - 1])
        if is_open and bare and not begins and (in_item or level or not line[:1].isspace()):
            lines[-1] += f" {bare}"
        else:
            lines.append(line)
            in_item = _BEGINS.match(bare) is not None and not bare.startswith(("|", "#", ">"))
        is_open = bool(bare) and not bare.startswith("#") and not bare.endswith("|")
    return "\n".join(lines)


def normal(token: str) -> str:
    token = token.casefold().replace("’", "'").rstrip(".:/")
    return token[:-2] if token.endswith("'s") else token


def bare(sentence: str) -> str:
    """Return a sentence without what begins or ends it: the mark of a list, a full stop."""
    return " ".join(sentence.casefold().split()).strip(" .*•·–—-")


def stems(text: str) -> set[str]:
    words = (word.casefold() for word in WORD.findall(text))
    kept = (word for word in words if word not in STOP)
    return {stem(word) for word in kept}


def stem(word: str) -> str:
    if word.endswith(("ies", "ied", "ily")) and len(word) > 4:
        word = word[:-3] + "y"
    for ending in ("ingly", "edly", "ings", "ing", "ed", "es", "s", "ly", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and (ending != "s" or not word.endswith("ous")):
            found = word[: -len(ending)]
            doubled = ending in ("ing", "ed") and len(found) > 3 and found[-1] == found[-2] and found[-1] in "bdgmnprt"
            return found[:-1] if doubled else found
    return word


def alike(stems: Collection[str], others: Collection[str]) -> bool:
    """Return whether a word is among the others, or begins as one of them does: weight and weighs."""
    return any(stem == other or (len(stem) > 4 and len(other) > 4 and stem[:5] == other[:5])
               for stem in stems for other in others)  # fmt: skip


def _is_full(lines: Sequence[str], place: int) -> bool:
    """Return whether a line begins something new, as its first word had room on the line before: a head, an address."""
    before, first = lines[place - 1].rstrip(), lines[place].split()[:1]
    width = max(map(len, lines[max(0, place - 3) : place + 3]))
    return bool(first) and first[0][0].isupper() and len(before) + len(first[0]) + 1 < 0.6 * width


def _keyed_runs(lines: Sequence[str]) -> Iterator[list[int]]:
    """Yield the places of three lines or more, with one between them at most, that say something of what they begin
    with."""
    run: list[int] = []
    sign = ""
    for place, line in enumerate([*lines, "", ""]):
        found = _KEYED.fullmatch(line.strip())
        if found and (not run or found[2].strip() == sign):
            sign = found[2].strip()
            run.append(place)
        elif found or (run and place > run[-1] + 1):
            if len(run) >= 3:
                yield run
            run, sign = ([place], found[2].strip()) if found else ([], "")


def prose_of(text: str) -> str:
    """Return a text without its tables and the lines that are read as their rows."""
    lines = text.splitlines()
    rows = {place for places in _keyed_runs(lines) for place in places}
    return "\n".join(line for place, line in enumerate(lines) if line.count("|") < 2 and place not in rows)


def _table_rows(text: str) -> Iterator[HeadedRow]:
    heads: tuple[str, ...] = ()
    lines = text.splitlines()
    for line in lines:
        parts = [_KEYED.fullmatch(part.rpartition(": ")[2].strip(" .")) for part in re.split(r"[,;]\s+", line)]
        pairs = [part for part in parts if part]
        if len(pairs) > 2 and len({part[2] for part in pairs}) == 1:
            yield from (HeadedRow((part[1], part[3]), ("", ":")) for part in pairs)
    for run in _keyed_runs(lines):
        for found in (_KEYED.fullmatch(lines[place].strip()) for place in run):
            if found:
                yield HeadedRow((found[1], found[3]), ("", ":"))
    for line in lines:
        bar = line.strip()
        if bar.count("|") >= 2 or (bar.count("|") and heads):
            cells = tuple(cell.strip() for cell in bar.strip("|").split("|"))
            if all(re.fullmatch(r":?-{2,}:?", cell) for cell in cells):
                continue
            if not heads:
                heads = cells
            else:
                yield HeadedRow(cells, heads)
        else:
            heads = ()


def _with_units(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a text, a number of a table with the unit of its column: 530 of Weight in Grams."""
    units: list[str] = []
    for line in lines:
        cells = line.split("|") if line.count("|") > 1 else []
        if cells and not units:
            found = [_IN_UNIT.search(cell.strip()) for cell in cells]
            units = [(one[1] or one[2]) if one else "" for one in found]
            units = [one if one and quantities(f"1 {one}")[0].dimension else "" for one in units]
        elif cells:
            given = [*units, *[""] * len(cells)]
            yield "|".join(f"{cell.rstrip()} {unit} " if unit and re.fullmatch(r"\s*[\d.,]+\s*", cell) else cell
                           for cell, unit in zip(cells, given, strict=False))  # fmt: skip
            continue
        else:
            units = []
        yield line


_IN_UNIT = re.compile(r"\bin ([^\W\d_]+)$|\(([^()\d]{1,12})\)$")


def is_of_country(adjective: str, source: PassageText) -> bool:
    """Return whether it says of what country something is, and the source names that: Angolan, Norwegian."""
    stem = _OF_COUNTRY.sub("", adjective)
    return 3 < len(stem) < len(adjective) and any(
        each.startswith(stem[: max(4, len(stem) - 2)]) for each in source.tokens
    )


_OF_COUNTRY = re.compile(r"(?<=\w{3})(?:ians?|ans?|ns?|ese|ish|ic|i|er)$")


def of_week(day: str) -> frozenset[str]:
    """Return the words for the days of which one is a part: weekend."""
    return next((names for days, names in _DAYS if day in days), frozenset())


_DAYS = (
    (frozenset({"saturday", "sunday"}), frozenset({"weekend", "weekends"})),
    (frozenset({"monday", "tuesday", "wednesday", "thursday", "friday"}), frozenset({"weekday", "weekdays"})),
)


def spelled_out(claim: str, source: PassageText) -> set[str]:
    """Return the words that a claim adds to an abbreviation of its source: network address translation (NAT)."""
    found = [(claim[: short.start()], short[1].upper()) for short in _SHORT.finditer(claim)]
    named = [re.sub(r"^(?:The|A|An|In|On|At) ", "", run[0]) for run in _NAMED.finditer(claim)]
    runs = [run for run in named if "".join(word[0] for word in run.split()).casefold() in source.tokens]
    return {normal(word) for words, short in found if normal(short) in source.tokens
            for word in WORD.findall(words[-100:])[-5:] if word[0].upper() in short} | {
            normal(word) for run in runs for word in run.split()}  # fmt: skip


_NAMED = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+){1,4}\b")
_SHORT = re.compile(r"\(([A-Z][A-Za-z]{1,7})\)")


def mentions(text: str, cell: str) -> bool:
    cell = cell.strip("*`_ ")
    return bool(cell) and re.search(rf"(?<![^\W_]){re.escape(cell)}(?![^\W_]|[.]\d)", text, re.I) is not None
