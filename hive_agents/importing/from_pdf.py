"""PDF: the text layer, page by page; bookmarks say which of its lines are headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import pairwise

import pypdfium2

from hive_agents.importing.imported import Imported, ImportFailure
from hive_agents.importing.markdown import escape, plain_lines

_BULLET = re.compile(r"^[•●▪◦‣]\s*")
_SHORT = 0.7  # of the page's longest line: a shorter one ends its paragraph
_LINE_END_HYPHEN = re.compile("[\ufffe\x02]")
_HYPHENS_OF_ONE = re.compile("-\u00ad\u2010")
"""What Word on a Mac calls one hyphen; it calls a space a tab, a carriage return, a space and a hard space."""
_NUMBER = re.compile(r"(?i)^(?:(?:chapter|section|appendix)\s+)?(?:[\dA-Z]\.?)?(?:\d*\.)*\d*\s+")
_PAGE_NUMBER = re.compile(r"(?i)\b(?:\d+|[ivxl]+)\b|[/|]")
_LEADER = re.compile(r"\s*(?:\.\s?){5,}\s*(?:\d+|[ivxl]+)?$")
NO_TEXT = "no text layer (a scan?): `ocrmypdf FILE FILE` adds one (pip install ocrmypdf, with tesseract); then again"
_SECTION = re.compile(r"(?P<number>\d{1,2}(?:\.\d{1,2}){1,4})\.? +(?P<words>[^\W\d_a-z].{1,70}|/.{1,70})")
_LEAST_SECTIONS, _IN_ORDER = 3, 0.8
_MOST_HEADINGS = 5000
_NO_TITLE = re.compile(
    r"(?i)\W*|untitled.*|(?:document|presentation|slide)\W*\d*|microsoft \w+ - .*|powerpoint presentation"
    r"|\S*\.(?:pdf|ps|dvi|tex|docx?|odt|rtf|pptx?|xlsx?|indd|qxd|fm|xml|html?|md|rst|txt)"
)


def from_pdf(data: bytes) -> Imported:
    if b"%PDF-" not in data[:1024]:
        raise ImportFailure("not a PDF file, whatever its name says")
    try:
        with closing(pypdfium2.PdfDocument(data)) as document:
            pages = [_text(page) for page in document]
            headings = _headings(document)
            title = document.get_metadata_value("Title")
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise ImportFailure("encrypted: save a copy without a password, then import that") from None
        raise ImportFailure(f"a broken PDF: {error}; open it and print it to a new PDF") from error
    if not any(page.strip() for page in pages):
        raise ImportFailure(NO_TEXT)
    lines = _without_running_lines([[" ".join(line.split()) for line in page.split("\n")] for page in pages])
    if not headings:
        headings = _numbered(lines)
    blocks = [block for number, page in enumerate(lines) for block in _blocks(page, headings.get(number, {}))]
    return Imported("\n\n".join(blocks) + "\n", _title(title))


def _title(title: str) -> str | None:
    """Return the title that an author gave, None for what a program wrote there.

    >>> _title("Filesystem Hierarchy  Standard"), _title("fhs-3.0.pdf"), _title("Microsoft Word - Final.docx")
    ('Filesystem Hierarchy Standard', None, None)
    """
    title = " ".join(title.split())
    return None if _NO_TITLE.fullmatch(title) else title


def _text(page: pypdfium2.PdfPage) -> str:
    with closing(page), closing(page.get_textpage()) as text:
        plain = _LINE_END_HYPHEN.sub("-\n", str(text.get_text_range())).replace("\0", "")
        return _HYPHENS_OF_ONE.sub("-", plain)


def _headings(document: pypdfium2.PdfDocument) -> dict[int, dict[str, int]]:
    """Return the bookmarks of each page: what they say, and how deep they stand."""
    found: dict[int, dict[str, int]] = {}
    for number, bookmark in enumerate(document.get_toc()):
        target = bookmark.get_dest()
        if target is not None and number < _MOST_HEADINGS:
            found.setdefault(target.get_index(), {})[_key(bookmark.get_title())] = min(bookmark.level + 1, 6)
    return found


def _numbered(pages: list[list[str]]) -> dict[int, dict[str, int]]:
    """Return lines such as `3.8.1. Purpose` by page, with their depth: the sections of a document without bookmarks.

    None where they don't ascend: then they are rows of a table, or amounts.
    """
    found: dict[int, dict[str, int]] = {}
    numbers: list[list[int]] = []
    for page, lines in enumerate(pages):
        for line in lines:
            section = None if _LEADER.search(line) else _SECTION.fullmatch(line)
            if section and section["words"][-1] not in ".,;:!?" and _key(line):
                numbers.append([int(part) for part in section["number"].split(".")])
                found.setdefault(page, {})[_key(line)] = len(numbers[-1])
    ascending = sum(first < second for first, second in pairwise(numbers))
    return found if len(numbers) >= _LEAST_SECTIONS and ascending >= _IN_ORDER * (len(numbers) - 1) else {}


def _key(line: str) -> str:
    """Return what a heading and its bookmark have in common.

    >>> _key("4.1.2 The control  file"), _key("Chapter 4 Required files"), _key("A note")
    ('thecontrolfile', 'requiredfiles', 'anote')
    """
    numbered = _NUMBER.match(line)
    if numbered and (re.search(r"\d", numbered[0])):
        line = line[numbered.end() :]
    return re.sub(r"\W+", "", line).casefold()


def _without_running_lines(pages: list[list[str]]) -> list[list[str]]:
    """Return the pages without page numbers, and without a header or footer that most of them have."""
    pages = [[line for line in page if line] for page in pages]
    ends = Counter(key for page in pages for key in {_running(line) for line in (*page[:1], *page[-1:])})
    often = {key for key, number in ends.items() if not key or (number >= 4 and number * 2 > len(pages))}
    for page in pages:
        for place in (-1, 0):
            if page and _running(page[place]) in often:
                del page[place]
    return pages


def _running(line: str) -> str:
    return " ".join(_PAGE_NUMBER.sub("", line).split())


def _blocks(lines: list[str], headings: Mapping[str, int]) -> Iterator[str]:
    """Yield the page's headings and paragraphs, their lines put together again; a PDF knows lines only."""
    longest = max(map(len, lines), default=0)
    paragraph = ""
    for line in lines:
        level = headings.get(_key(line))
        leader = _LEADER.search(line)
        if _BULLET.match(line) or level or leader:
            yield from _ended(paragraph)
            paragraph = ""
        if level:
            yield f"{'#' * level} {escape(line)}"
            continue
        if leader:  # of a table of contents: the dots and the page are no text
            line = line[: leader.start()]
        if re.search(r"[^\W\d]-$", paragraph) and line[:1].islower():
            paragraph = paragraph[:-1] + line
        else:
            paragraph = f"{paragraph} {line}".strip()
        if leader or len(line) < longest * _SHORT:
            yield from _ended(paragraph)
            paragraph = ""
    yield from _ended(paragraph)


def _ended(paragraph: str) -> Iterator[str]:
    if not paragraph:
        return
    item = _BULLET.sub("", paragraph)
    yield f"- {escape(item)}" if item != paragraph else plain_lines(escape(paragraph))
