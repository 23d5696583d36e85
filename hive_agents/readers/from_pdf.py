"""PDF to Markdown: the text layer by pages, with headings by bookmarks, else by numbers and fonts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import groupby, pairwise, takewhile

import pypdfium2

from hive_agents.readers.imported import Imported, ImportFailure
from hive_agents.readers.markdown import escape, plain_lines
from hive_agents.readers.pdf_forms import PrintedRoom
from hive_agents.readers.pdf_headings import depth, key, usual_size, with_bookmarks, with_headings, without_contents
from hive_agents.readers.pdf_lines import LEADER, PrintedLine, lines_of

_BULLET = re.compile(r"^[•●▪◦‣]\s*")
_HYPHENATED = re.compile(r"[^\W\d]-$")
_DIGIT = re.compile(r"\d")
_SHORT = 0.7  # of the page's longest line: a shorter one ends its paragraph
_PAGE_NUMBER = re.compile(r"(?i)\b(?:\d+|[ivxl]+)\b|[/|]")
NO_TEXT = "no text layer (a scan?): `ocrmypdf FILE FILE` adds one (pip install ocrmypdf, with tesseract); then again"
_MOST_HEADINGS = 5000
_TITLE_SIZE, _LONGEST_TITLE, _TITLE_LINES = 1.25, 150, 3
_OTHER_SIZE = 0.6
_RUNNING = "headers, footers and page numbers"
_NO_TITLE = re.compile(
    r"(?i)\W*|untitled.*|\W*(?:anonymous|unspecified|unknown|unnamed|no title)\W*|layout \d+"
    r"|(?:document|presentation|slide)\W*\d*|microsoft \w+ - .*|powerpoint presentation"
    r"|.*\.(?:pdf|ps|dvi|tex|docx?|odt|rtf|pptx?|xlsx?|indd|qxd|fm|xml|html?|md|rst|txt)"
)


def from_pdf(data: bytes) -> Imported:
    if b"%PDF-" not in data[:1024]:
        raise ImportFailure("not a PDF file, whatever its name says")
    try:
        with closing(pypdfium2.PdfDocument(data)) as document:
            document.init_forms()
            left_out: Counter[str] = Counter()
            room = PrintedRoom(len(data))
            room.take(room.PAGE * len(document))
            pages = [lines_of(page, left_out, room) for page in document]
            bookmarks = _bookmarks(document)
            metadata_title = document.get_metadata_value("Title")
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise ImportFailure("encrypted: save a copy without a password, then import that") from None
        raise ImportFailure(f"a broken PDF: {error}; open it and print it to a new PDF") from error
    if not any(pages):
        raise ImportFailure(NO_TEXT)
    title = _title(metadata_title) or _largest(pages[0])
    printed = sum(map(len, pages))
    pages = _without_running_lines(pages)
    running = printed - sum(map(len, pages))
    pages = without_contents(pages)
    left_out[_RUNNING] = running
    left_out["lines of contents"] = printed - running - sum(map(len, pages))
    pages = with_bookmarks(pages, bookmarks) if bookmarks else with_headings(pages)
    blocks = [block for page in _continued(pages) for block in _blocks(page, left_out)]
    return Imported("\n\n".join(blocks) + "\n", title, left_out=left_out)


def _continued(pages: list[list[PrintedLine]]) -> list[list[PrintedLine]]:
    """Return the pages with tables, and hyphenated words, that go on over the end of a page in one piece."""
    for before, after in pairwise(pages):
        if not before or not after:
            continue
        last, first = before[-1], after[0]
        rows, more = last.text.split("\n"), first.text.split("\n")
        if last.is_table and first.is_table and _goes_on(rows, more[0]):
            repeats = more[0] == rows[0] or not any(_columns(more[0]))
            following = more[2:] if repeats else [more[0], *more[2:]]
            after[0] = replace(last, text="\n".join([*rows, *following]))
            before.pop()
        elif _HYPHENATED.search(last.text) and first.text[:1].islower() and not (last.level or first.is_table):
            word, _, rest = first.text.partition(" ")
            before[-1] = replace(last, text=f"{last.text[:-1]}{word}")
            after[:1] = [replace(first, text=rest)] if rest else []
    return pages


def _goes_on(rows: list[str], following: str) -> bool:
    """Return whether a row of the next page belongs to a table: it has as many columns, and is no other head."""
    body, row = [_columns(each) for each in rows[2:]], _columns(following)
    if len(row) != len(_columns(rows[0])) or following == rows[0] or not body:
        return following == rows[0]
    numbers = [all(_DIGIT.search(each[at]) for each in body) for at in range(len(row))]
    return all(_DIGIT.search(cell) or not cell for cell, number in zip(row, numbers, strict=True) if number)


def _columns(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def _title(title: str) -> str | None:
    """Return the title in the metadata, None for one that a program made up.

    >>> _title("Filesystem Hierarchy  Standard"), _title("fhs-3.0.pdf"), _title("Microsoft Word - Final.docx")
    ('Filesystem Hierarchy Standard', None, None)
    """
    title = " ".join(title.split())
    return None if _NO_TITLE.fullmatch(title) else title


def _bookmarks(document: pypdfium2.PdfDocument) -> dict[int, dict[str, int]]:
    """Return the levels of each page's bookmarks by `key` of their texts, by page index."""
    levels: dict[int, dict[str, int]] = {}
    for number, bookmark in enumerate(document.get_toc()):
        target = bookmark.get_dest()
        if target is not None and number < _MOST_HEADINGS:
            levels.setdefault(target.get_index(), {})[key(bookmark.get_title())] = min(bookmark.level + 1, 6)
    return levels


def _largest(lines: list[PrintedLine]) -> str | None:
    """Return the title on a first page: its largest lines, if they are larger than most of it."""
    size = max((line.size for line in lines), default=0)
    runs = (list(run) for same, run in groupby(lines, lambda line: line.size == size) if same)
    first = next(runs, [])[:_TITLE_LINES]
    title = " ".join(line.text for line in takewhile(lambda line: line is first[0] or not depth(line.text), first))
    if size < usual_size([lines]) * _TITLE_SIZE or len(title) > _LONGEST_TITLE or not re.search(r"[^\W\d_]{2}", title):
        return None
    return title


def _without_running_lines(pages: list[list[PrintedLine]]) -> list[list[PrintedLine]]:
    """Return the pages without page numbers, and without headers and footers that most of them share."""
    ends = Counter(key for page in pages for key in {_running(line.text) for line in (*page[:1], *page[-1:])})
    often = {key for key, number in ends.items() if not key or (number >= 4 and number * 2 > len(pages))}
    for page in pages:
        for place in (-1, 0):
            if page and _running(page[place].text) in often:
                del page[place]
    return pages


def _running(line: str) -> str:
    return " ".join(_PAGE_NUMBER.sub("", line).split())


def _blocks(lines: list[PrintedLine], left_out: Counter[str]) -> Iterator[str]:
    """Yield the page's headings, tables and paragraphs, these joined from their lines; count dropped page numbers."""
    longest = max((len(line.text) for line in lines if not line.is_table), default=0)
    paragraph = ""
    size = 0.0
    for line in lines:
        text = line.text
        leader = LEADER.search(text)
        begins = _BULLET.match(text) or line.level or line.is_table or line.is_filled or leader
        if begins or abs(line.size - size) > _OTHER_SIZE:
            yield from _ended(paragraph)
            paragraph = ""
        size = line.size
        if line.level or line.is_table:
            yield f"{'#' * line.level} {escape(text)}" if line.level else text
            continue
        if leader:  # of a table of contents: drop the dots and the page
            text = text[: leader.start()]
            left_out[_RUNNING] += leader["page"] is not None
        if _HYPHENATED.search(paragraph[-2:]) and text[:1].islower():
            paragraph = paragraph[:-1] + text
        else:
            paragraph = f"{paragraph} {text}".strip()
        if leader or line.is_filled or len(text) < longest * _SHORT:
            yield from _ended(paragraph)
            paragraph = ""
    yield from _ended(paragraph)


def _ended(paragraph: str) -> Iterator[str]:
    if not paragraph:
        return
    item = _BULLET.sub("", paragraph)
    yield f"- {escape(item)}" if item != paragraph else plain_lines(escape(paragraph))
