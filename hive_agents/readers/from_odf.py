"""Texts, sheets and slides of OpenDocument to Markdown."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Set
from dataclasses import replace
from html import escape as as_markup
from operator import itemgetter
from xml.etree.ElementTree import Element

from hive_agents.readers.docx_shown import says_more
from hive_agents.readers.from_html import from_markup
from hive_agents.readers.imported import Imported, ImportFailure, TableRow
from hive_agents.readers.odf import OdfFile, children, number_of, plain
from hive_agents.readers.odf_shown import Shown, rows_of
from hive_agents.readers.rows import book_as_markdown, require_document, rows_of_book

_VALUES = ("office:string-value", "office:date-value", "office:time-value", "office:boolean-value", "office:value")
_WIDEST, _LONGEST = 1000, 20_000
"""Columns and rows up to which a repeated cell with a value is repeated here, too."""
_HIDDEN = frozenset({"collapse", "filter"})


def from_odt(data: bytes, settings: Set[str]) -> Imported:
    file = OdfFile(data, "odt")
    shown = Shown(file, settings)
    parts = shown.blocks(file.body) + shown.notes()
    parts += "".join(f"<p>{as_markup(text)}</p>" for text in _margins(file))
    return _imported(parts, file, shown)


def from_odp(data: bytes, settings: Set[str]) -> Imported:
    file = OdfFile(data, "odp")
    shown = Shown(file, settings)
    slides = []
    for number, page in enumerate(children(file.body, "draw:page"), start=1):
        style = page.get("draw:style-name")
        if file.property("drawing-page", style, "presentation:visibility") == "hidden" and "hidden" not in settings:
            shown.left_out["hidden slides"] += 1
            continue
        slides.append(_slide(page, number, shown))
    if not any(has_text for _, has_text in slides):
        return Imported("", left_out=shown.left_out)
    return _imported("".join(text for text, _ in slides), file, shown)


def _slide(page: Element, number: int, shown: Shown) -> tuple[str, bool]:
    """Return the slide as HTML, and whether it has text."""
    titles = [each for each in page if each.get("presentation:class") == "title"]
    own = " ".join(" ".join(plain(part) for each in titles for part in each.iter("text:p")).split())
    notes = children(page, "presentation:notes")
    blocks = shown.blocks(each for each in page if each not in titles and each not in notes)
    said = "".join(
        shown.blocks([each]) for each in (part for note in notes for part in note)
        if each.get("presentation:class", "notes") == "notes"
    )  # fmt: skip
    blocks += f"<blockquote><p><strong>Notes</strong></p>{said}</blockquote>" if said.strip() else ""
    return f"<h2>{as_markup(own or f'Slide {number}')}</h2>{blocks}", bool(own or blocks)


def _imported(markup: str, file: OdfFile, shown: Shown) -> Imported:
    try:
        imported = from_markup(f"<body>{markup}</body>")
    except ImportFailure:
        return Imported("", left_out=shown.left_out)
    return replace(imported, title=imported.title or file.title, left_out=shown.left_out)


def _margins(file: OdfFile) -> Iterator[str]:
    """Yield what headers and footers say beyond page numbers, once."""
    said = {""}
    for style in file.styles.iter("style:master-page") if file.styles is not None else ():
        for part in style:
            if not str(part.tag).startswith(("style:header", "style:footer")) or part.get("style:display") == "false":
                continue
            for paragraph in part.iter("text:p"):
                text = " ".join(plain(paragraph).split())
                if says_more(text) and text not in said:
                    said.add(text)
                    yield text


def from_ods(data: bytes, settings: Set[str]) -> Imported:
    book = _Sheets(data, settings)
    markdown = book_as_markdown(book.sheets())
    blocks = filter(None, [markdown, *book.boxes()])
    return Imported("\n\n".join(blocks) + "\n", book.file.title, left_out=book.left_out)


def ods_rows(data: bytes, settings: Set[str]) -> list[TableRow] | None:
    """Return the rows of a workbook whose sheets all have texts, None for any other."""
    book = _Sheets(data, settings, dates_as_shown=False)
    return rows_of_book(list(book.sheets()), book.left_out)


class _Sheets:
    """The sheets of a workbook; dates are as shown, or in ISO form."""

    def __init__(self, data: bytes, settings: Set[str], *, dates_as_shown: bool = True) -> None:
        self.file = OdfFile(data, "ods")
        self._hidden, self._as_shown = "hidden" in settings, dates_as_shown
        self._drawn = Shown(self.file, settings)
        self.left_out = self._drawn.left_out

    def sheets(self) -> Iterator[tuple[str, list[list[str]]]]:
        """Yield the name and the rows of each visible sheet that isn't empty, without empty rows and columns."""
        for table in children(self.file.body, "table:table"):
            shown = self.file.property("table", table.get("table:style-name"), "table:display") != "false"
            if not (shown or self._hidden):
                self.left_out["hidden sheets"] += 1
                continue
            rows = self._rows(table)
            filled = sorted({at for row in rows for at, text in row.items() if text})
            require_document(len(rows) * len(filled))
            texts = [[row.get(at, "") for at in filled] for row in rows if any(row.values())]
            if texts:
                yield table.get("table:name", ""), texts

    def boxes(self) -> Iterator[str]:
        """Yield what is drawn on the sheets: text boxes, charts, and words of pictures."""
        for table in children(self.file.body, "table:table"):
            drawings = list(table.iter("table:shapes")) + [
                drawing for cell in table.iter("table:table-cell") for drawing in cell
                if str(drawing.tag).startswith("draw:")
            ]  # fmt: skip
            markup = "".join(self._drawn.blocks([each]) for each in drawings)
            yield from_markup(f"<body>{markup}</body>").markdown.strip() if markup.strip() else ""

    def _rows(self, table: Element) -> list[dict[int, str]]:
        """Return the texts of each row by column; a merged cell's text is in each of its rows that has a text."""
        away, met = self._hidden_columns(table), set[int]()
        rows: list[dict[int, str]] = []
        merged: dict[int, tuple[int, str]] = {}
        cells = 0
        for number, row in enumerate(rows_of(table)):
            texts, spans = self._cells(row)
            if row.get("table:visibility") in _HIDDEN and not self._hidden:
                self.left_out["hidden rows"] += bool(texts)
                continue
            if texts:
                merged = {at: (last, text) for at, (last, text) in merged.items() if last >= number}
                texts = {at: text for at, (_, text) in merged.items()} | texts
                cells += len(merged)
            merged.update({at: (number + more, texts[at]) for at, more in spans.items() if texts.get(at)})
            hidden = {at for at in texts if at < away[bisect_right(away, at, key=itemgetter(0)) - 1][1]}
            met |= hidden
            for at in hidden:
                del texts[at]
            repeated = number_of(row, "table:number-rows-repeated") if texts else 1
            self.left_out["repeated rows"] += max(repeated - _LONGEST, 0)
            repeated = min(repeated, _LONGEST)
            rows += [texts] * repeated
            cells += len(texts) * repeated
            require_document(cells)
        self.left_out["hidden columns"] += len(met)
        return rows

    def _cells(self, row: Element) -> tuple[dict[int, str], dict[int, int]]:
        """Return the text of each cell of a row that has one, and over how many further rows a cell goes."""
        texts: dict[int, str] = {}
        spans: dict[int, int] = {}
        at = 0
        for cell in row:
            repeated = number_of(cell, "table:number-columns-repeated")
            text = self._text(cell)
            if text and cell.tag != "table:table-cell":
                self.left_out["covered cells"] += 1
            elif text:
                self.left_out["repeated cells"] += max(repeated - _WIDEST, 0)
                texts.update(dict.fromkeys(range(at, at + min(repeated, _WIDEST)), text))
                require_document(len(texts))
                more = number_of(cell, "table:number-rows-spanned") - 1
                if more > 0:
                    spans[at] = more
            at += repeated
        return texts, spans

    def _text(self, cell: Element) -> str:
        self.left_out["comments"] += sum(each.tag == "office:annotation" for each in cell)
        date = cell.get("office:date-value")
        if date and not self._as_shown:
            return date.removesuffix("T00:00:00")
        text = "\n".join(plain(each) for each in cell if each.tag in ("text:p", "text:h", "text:list")).strip()
        value = text or next((cell.attrib[name] for name in _VALUES if name in cell.attrib), "")
        self.left_out["formulas without a value"] += not value and "table:formula" in cell.attrib
        return value

    def _hidden_columns(self, table: Element) -> list[tuple[int, int]]:
        """Return (first, end) of each run of columns that aren't shown, in order."""
        away = [(-1, 0)]
        at = 0
        for column in table.iter("table:table-column"):
            repeated = number_of(column, "table:number-columns-repeated")
            if column.get("table:visibility") in _HIDDEN and not self._hidden:
                away.append((at, at + repeated))
            at += repeated
        return away
