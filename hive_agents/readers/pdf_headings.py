"""Headings and tables of contents among the lines of a PDF."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from hive_agents.readers.pdf_lines import LEADER, PrintedLine

_NUMBER = re.compile(r"(?i)^(?:(?:chapter|section|appendix)\s+)?(?:[\dA-Z]\.?)?(?:\d*\.)*\d*\s+")
_SECTION = re.compile(r"(?P<number>\d{1,2}(?:\.\d{1,2}){1,4})\.? +(?P<words>[^\W\d_a-z].{1,70}|/.{1,70})")
_LEAST_SECTIONS, _IN_ORDER = 3, 0.8
_NUMBERED = re.compile(
    r"(?i:(?:chapter|part|appendix|kapitel|teil|anhang|chapitre|annexe)\s+\w{1,4}\b[.:]?"
    r"|(?P<number>\d{1,2}(?:\.\d{1,2}){0,4}|[A-Z](?:\.\d{1,2}){1,4}|[A-Z](?=\.\s))\.?)\s+(?:[^\W\d_]|/)"
)
_A_WORD = re.compile(r"[^\W\d_]{2}")
_LARGER, _LARGER_AND_BOLD, _SAME = 1.1, 1.05, 0.3
_DEEPEST = 6
_LONGEST, _MOST_WORDS, _MOST_LINES = 120, 18, 3
_MOST_SHARE = 0.5
_CONTENTS = re.compile(
    r"(?i)(?:\d\.? )?(?:table of )?contents|inhalt(?:sverzeichnis|sübersicht)?|table des matières|sommaire"
    r"|índice|sommario|indice"
)
_ENTRY = re.compile(r".*\S\s+(?P<page>\d{1,4}|[ivxl]{1,6})\s*")
_LEAST_ENTRIES = 3
_BEFORE = 50  # pages of front matter, which may be numbered separately
PrintedPages = list[list[PrintedLine]]


def key(line: str) -> str:
    """Return the key by which headings and bookmarks are compared: lower case, without numbers and spaces.

    >>> key("4.1.2 The control  file"), key("Chapter 4 Required files"), key("A note")
    ('thecontrolfile', 'requiredfiles', 'anote')
    """
    numbered = _NUMBER.match(line)
    if numbered and re.search(r"\d", numbered[0]):
        line = line[numbered.end() :]
    return re.sub(r"\W+", "", line).casefold()


def depth(line: str) -> int:
    """Return the level of a numbered heading, 0 for a line without a number.

    >>> [depth(line) for line in ("1 Safety", "2.1. Doors", "A.1 Keys", "Chapter 3. Lamps", "A note", "12 %")]
    [1, 2, 2, 1, 0, 0]
    """
    numbered = _NUMBERED.match(line)
    if numbered is None:
        return 0
    return numbered["number"].count(".") + 1 if numbered["number"] else 1


def usual_size(pages: Iterable[Sequence[PrintedLine]]) -> float:
    """Return the font size of most of the text, 0.0 without text."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page:
            sizes[line.size] += 0 if line.is_table else len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def without_contents(pages: PrintedPages) -> PrintedPages:
    """Return the pages without tables of contents: their headings, and the entries below, which end with a page."""
    lines = [line for page in pages for line in page]
    dropped: set[int] = set()
    for at, line in enumerate(lines):
        if at not in dropped and _CONTENTS.fullmatch(line.text):
            dropped.update(range(at, _end_of_contents(lines, at, len(pages) + _BEFORE)))
    numbers = iter(range(len(lines)))
    return [[line for line in page if next(numbers) not in dropped] for page in pages]


def _end_of_contents(lines: Sequence[PrintedLine], heading: int, last: int) -> int:
    """Return the index after the entries below a heading; that of the heading if there are too few."""
    entries = reached = 0
    end = at = heading
    while at + 1 < len(lines) and at - end < _MOST_LINES:  # a long entry takes several lines
        at += 1
        pages = _pages_named(lines[at])
        if _CONTENTS.fullmatch(lines[at].text):
            end = at  # the header of the next page
        elif pages and reached <= pages[0] <= last:
            entries, end, reached = entries + len(pages), at, pages[-1]
    return end + 1 if entries >= _LEAST_ENTRIES else heading


def _pages_named(line: PrintedLine) -> list[int]:
    """Return the page numbers of an entry, or of the rows of a table; Roman and missing ones are 0, [] for no entry."""
    if line.is_table:
        rows = [row for row in line.text.split("\n") if not row.startswith("| ---")]
        entries = [_ENTRY.fullmatch(row.removesuffix(" |").replace("|", " ")) for row in rows]
    else:
        entries = [LEADER.search(line.text) or _ENTRY.fullmatch(line.text)]
    return (
        [int(entry["page"]) if (entry["page"] or "").isdecimal() else 0 for entry in entries if entry]
        if all(entries)
        else []
    )


def with_bookmarks(pages: PrintedPages, bookmarks: Mapping[int, Mapping[str, int]]) -> PrintedPages:
    """Return the pages with the lines of their bookmarks as headings."""
    return [
        [replace(line, level=0 if line.is_table else bookmarks.get(number, {}).get(key(line.text), 0)) for line in page]
        for number, page in enumerate(pages)
    ]


def with_headings(pages: PrintedPages) -> PrintedPages:
    """Return the pages with lines in a larger font, and numbered lines in a bold one, as headings.

    If none of these is numbered, lines such as `3.8.1. Purpose` are headings, provided that they ascend.
    """
    usual = usual_size(pages)
    bold = sum(len(line.text) * (1 if line.bold else -1) for page in pages for line in page if line.size == usual) > 0
    printed = [list(_printed(page, usual, bold)) for page in pages]
    headings = [line for page in printed for line in page if line.level]
    if len(headings) > _MOST_SHARE * sum(map(len, printed)):
        return _numbered(pages)
    depths = {line: depth(line.text) for line in headings}
    sizes = _sizes(depths)
    for page in printed:
        page[:] = [replace(line, level=depths[line] or sizes[line.size]) if line.level else line for line in page]
    return printed if any(depths.values()) else _numbered(printed)


def _printed(page: Sequence[PrintedLine], usual: float, usually_bold: bool) -> Iterator[PrintedLine]:
    """Yield the page's lines; headings, joined if they take several lines, have a level."""

    def kind(line: PrintedLine) -> tuple[float, bool] | None:
        larger = line.size >= usual * (_LARGER_AND_BOLD if line.bold and not usually_bold else _LARGER)
        bolder = line.bold and not usually_bold and line.size >= usual - _SAME and depth(line.text) > 0
        return (line.size, line.bold) if (larger or bolder) and not line.is_table and not line.typewriter else None

    for shape, run in groupby(page, kind):
        lines = list(run)
        if shape is None:
            yield from lines
            continue
        headings: list[list[PrintedLine]] = []
        for line in lines:
            if not headings or depth(line.text):
                headings.append([])
            headings[-1].append(line)
        for parts in headings:
            text = " ".join(part.text for part in parts)
            if len(parts) <= _MOST_LINES and _reads_like_a_heading(text):
                yield replace(parts[0], text=text, level=1)
            else:
                yield from parts


def _reads_like_a_heading(text: str) -> bool:
    return (
        len(text) <= _LONGEST
        and len(text.split()) <= _MOST_WORDS
        and text[-1] not in ".,;"
        and _A_WORD.search(text) is not None
        and LEADER.search(text) is None
    )


def _sizes(depths: Mapping[PrintedLine, int]) -> dict[float, int]:
    """Return the level of headings of each size: that of numbered ones of that size, else by order of size."""
    sizes = sorted({line.size for line in depths}, reverse=True)
    if not any(depths.values()):
        return {size: min(place, _DEEPEST) for place, size in enumerate(sizes, start=1)}
    least = {depth: min(line.size for line in depths if depths[line] == depth) for depth in {*depths.values()} - {0}}
    deepest = min(max(least) + 1, _DEEPEST)
    return {size: min((d for d, one in least.items() if size >= one - _SAME), default=deepest) for size in sizes}


def _numbered(pages: PrintedPages) -> PrintedPages:
    """Return the pages with lines such as `3.8.1. Purpose` as headings of the level of their number.

    Unchanged if these don't ascend: then they are rows of a table, or amounts.
    """
    sections: dict[tuple[int, int], list[int]] = {}
    for number, page in enumerate(pages):
        for place, line in enumerate(page):
            section = None if line.is_table or LEADER.search(line.text) else _SECTION.fullmatch(line.text)
            if section and section["words"][-1] not in ".,;:!?" and key(line.text):
                sections[number, place] = [int(part) for part in section["number"].split(".")]
    ascending = sum(first < second for first, second in pairwise(sections.values()))
    if len(sections) < _LEAST_SECTIONS or ascending < _IN_ORDER * (len(sections) - 1):
        return pages
    return [
        [
            replace(line, level=len(sections[number, place])) if (number, place) in sections else line
            for place, line in enumerate(page)
        ]
        for number, page in enumerate(pages)
    ]
