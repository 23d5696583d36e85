"""What the print of a PDF says: headings, tables, a table of contents, its title."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

from hive_agents.readers import Imported
from hive_agents.readers.conversion import convert_bytes

STYLES = getSampleStyleSheet()
STYLES.add(ParagraphStyle("Bold", parent=STYLES["Normal"], fontName="Helvetica-Bold"))
TEXT = "The pump is mounted on a flat floor, and nobody opens it while the lamp beside it is still red. " * 3


def made(*parts: Any, title: str = "Pump") -> Imported:
    """Return what a document becomes; a text is a paragraph, with its style before a bar."""
    data = io.BytesIO()
    flow = []
    for part in parts:
        if isinstance(part, str):
            style, _, text = part.rpartition("|")
            part = Paragraph(text, STYLES[style or "Normal"])
        flow.append(part)
    SimpleDocTemplate(data, title=title).build(flow)
    return convert_bytes("a.pdf", data.getvalue())


def drawn(draw: Callable[[Canvas], None]) -> str:
    data = io.BytesIO()
    canvas = Canvas(data)
    draw(canvas)
    canvas.save()
    return convert_bytes("a.pdf", data.getvalue()).markdown


def headings(imported: Imported) -> list[str]:
    return [line for line in imported.markdown.splitlines() if line.startswith("#")]


def test_lines_in_a_larger_font_are_headings_as_deep_as_their_numbers() -> None:
    imported = made(
        "Title|The pump",
        "Heading1|1 Safety",
        TEXT,
        "Heading2|1.1 Gloves",
        TEXT,
        "Heading1|2 Use",
        "Short.",
        "Heading2|Hints",
        TEXT,
    )
    assert headings(imported) == ["# The pump", "# 1 Safety", "## 1.1 Gloves", "# 2 Use", "## Hints"]
    assert "\n\n# 2 Use\n\nShort.\n\n## Hints\n\nThe pump" in imported.markdown


def test_headings_without_numbers_are_as_deep_as_their_font_is_small() -> None:
    imported = made("Title|The pump", TEXT, "Heading2|Gloves", TEXT, "Heading3|Of rubber", TEXT)
    assert headings(imported) == ["# The pump", "## Gloves", "### Of rubber"]


def test_a_bold_line_is_a_heading_only_with_a_number() -> None:
    imported = made("Bold|1. Safety", TEXT, "Bold|Mind the step", TEXT, "Bold|2. Use", TEXT)
    assert headings(imported) == ["# 1. Safety", "# 2. Use"]
    assert "Mind the step" in imported.markdown


def test_a_heading_over_two_lines_is_one_and_a_text_in_a_large_font_is_none() -> None:
    long = "How the pump is opened, cleaned with water, and closed again by two persons who wear gloves"
    imported = made(f"Heading1|{long}", TEXT, f"Heading2|{TEXT}", TEXT)
    assert headings(imported) == [f"# {long}"]


@pytest.mark.parametrize("title", ["(anonymous)", "untitled", "pump manual v2.docx", ""])
def test_a_pdf_without_a_title_of_its_own_is_called_by_its_largest_line(title: str) -> None:
    assert made("Title|The pump", "Heading1|1 Safety", TEXT, title=title).title == "The pump"
    assert made(TEXT, title=title).title is None
    assert made("Title|The pump", TEXT, title="Pumps").title == "Pumps"


def test_a_drawn_table_is_a_table() -> None:
    words = Paragraph("as much as runs through it in a minute, measured when it is warm", STYLES["Normal"])
    rows = [["Data", "", "Unit"], ["Flow", words, "l/min"], ["Head", "12", "m"], ["", "14", "m"]]
    grid = [
        ("GRID", (0, 0), (-1, -1), 1, "black"),
        ("SPAN", (0, 0), (1, 0)),
        ("SPAN", (0, 2), (0, 3)),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
    ]
    shown = made(TEXT, Table(rows, colWidths=[60, 120, 60], style=grid), "After it.").markdown
    assert shown.split("\n\n")[1:] == [
        "| Data |  | Unit |\n| --- | --- | --- |\n"
        "| Flow | as much as runs through it in a minute, measured when it is warm | l/min |\n"
        "| Head | 12 | m |\n| Head | 14 | m |",
        "After it.\n",
    ]


def test_words_that_are_apart_by_the_spacing_of_signs_are_not_one() -> None:
    def draw(canvas: Canvas) -> None:
        text = canvas.beginText(72, 700)
        text.setFont("Times-Roman", 10)
        start = canvas.stringWidth("The lamps say when the", "Times-Roman", 10)
        placed = f"{start} 0 Td 2.5 Tc (ya) Tj 11.94 0 Td 0 Tc (re red) Tj 34 0 Td (by hand) Tj"
        text._code.append(f"(The lamps say when the) Tj {placed}")  # as groff sets it
        text._code.append("/F1 1 Tf 10 0 0 10 72 690 Tm (Its sca) Tj 3 0 Td (led let) Tj 2.5 0 Td (ters) Tj")
        text.setTextOrigin(72, 680)
        text.setCharSpace(3)
        text.textOut("SPREAD LETTERS")
        canvas.drawText(text)

    shown = "The lamps say when they are red by hand Its scaled letters SPREAD LETTERS"
    assert drawn(draw).split() == shown.split()


def test_page_numbers_of_contents_that_nothing_announces_are_counted() -> None:
    imported = made(TEXT, "Gloves" + " ." * 20 + " 7", "Lamps" + " ." * 20, TEXT)
    assert "Gloves\n" in imported.markdown
    assert imported.left_out["headers, footers and page numbers"] == 1


def test_values_that_stand_below_each_other_are_a_table() -> None:
    rows = [["Item", "Each year"], ["Oil", "120 EUR"], ["A filter", "35 EUR"]]
    assert (
        "| Item | Each year |\n| --- | --- |\n| Oil | 120 EUR |\n| A filter | 35 EUR |\n"
        in made(TEXT, Table(rows)).markdown
    )


def test_a_frame_around_a_text_and_a_list_of_items_are_no_tables() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.rect(40, 600, 400, 100)
        canvas.line(40, 640, 440, 640)
        for number, words in enumerate(["Open the lid.", "Fill in the oil.", "Close the lid."]):
            canvas.drawString(50, 680 - 14 * number, f"{number + 1}.")
            canvas.drawString(90, 680 - 14 * number, words)

    shown = drawn(draw)
    assert "|" not in shown
    assert "Fill in the oil." in shown


@pytest.mark.parametrize("dots", [" . . . . . . . . . ", " ........ ", " "])
def test_a_table_of_contents_is_no_text_of_a_pdf(dots: str) -> None:
    def draw(canvas: Canvas) -> None:
        lines = [
            "Table of Contents",
            f"1 Safety{dots}3",
            f"2 Use{dots}4",
            f"2.1 Hints{dots}4",
            "Each pump has one lamp since 1999.",
        ]
        for number, line in enumerate(lines):
            canvas.drawString(50, 800 - 14 * number, line)

    assert drawn(draw) == "Each pump has one lamp since 1999.\n"


def test_what_ends_with_a_number_below_the_contents_stays() -> None:
    entries = [
        f"{number} Part {dots}"
        for number, dots in ((1, ". . . . . . . 3"), (2, ". . . . . . . 5"), (3, ". . . . . . . 9"))
    ]
    shown = made("Heading1|Contents", *entries, PageBreak(), "Heading1|Chapter 1", TEXT).markdown
    assert shown.startswith("# Chapter 1\n\nThe pump")


def test_what_a_cell_goes_on_with_in_the_next_line_belongs_to_it() -> None:
    def draw(canvas: Canvas) -> None:
        rows = [("-a", "Show all of them,"), ("", "also hidden ones."), ("-b", "Show none."), ("-c", "Show a few.")]
        for number, (left, right) in enumerate(rows):
            canvas.drawString(50, 800 - 14 * number, left)
            canvas.drawString(120, 800 - 14 * number, right)
        canvas.drawString(50, 700, "After it.")

    assert drawn(draw) == (
        "| -a | Show all of them, also hidden ones. |\n| --- | --- |\n| -b | Show none. |\n| -c | Show a few. |\n\n"
        "After it.\n"
    )


def test_a_slightly_larger_line_is_a_heading_where_it_is_bold() -> None:
    STYLES.add(ParagraphStyle("Larger", parent=STYLES["Normal"], fontSize=10.7), "larger")
    STYLES.add(ParagraphStyle("LargerBold", parent=STYLES["Larger"], fontName="Helvetica-Bold"), "larger-bold")
    imported = made("LargerBold|NAME", TEXT, "Larger|Mind the step", TEXT, "LargerBold|OPTIONS", TEXT)
    assert headings(imported) == ["# NAME", "# OPTIONS"]


def test_squared_paper_is_no_table() -> None:
    def draw(canvas: Canvas) -> None:
        for place in range(0, 600, 5):
            canvas.line(0, place, 600, place)
            canvas.line(place, 0, place, 600)
        canvas.drawString(100, 300, "Draw here.")

    assert drawn(draw) == "Draw here.\n"


def test_a_formula_is_counted_since_its_signs_are_there_and_its_layout_is_not() -> None:
    data = io.BytesIO()
    canvas = Canvas(data)
    for font, height, text in [
        ("Helvetica", 700, "The flow of the pump is the product of the two."),
        ("Helvetica-Oblique", 670, "Q = vA"),
        ("Helvetica-Oblique", 655, "n"),
        ("Helvetica", 630, "Here A is the section, and below it stands another one."),
        ("Helvetica-Oblique", 600, "v = 2n"),
        ("Helvetica-Oblique", 570, "words of some italic line are prose"),
    ]:
        canvas.setFont(font, 11)
        canvas.drawString(72, height, text)
    canvas.save()
    imported = convert_bytes("a.pdf", data.getvalue().replace(b"/Helvetica-Oblique", b"/AAAAAA+CMMI10abcd"))
    assert imported.left_out == {"layouts of formulas": 2}
    assert "Q = vA" in imported.markdown
    assert not convert_bytes("a.pdf", data.getvalue()).left_out


def test_options_of_a_list_that_are_not_chosen_are_counted() -> None:
    data = io.BytesIO()
    canvas = Canvas(data)
    canvas.drawString(72, 700, "Size")
    canvas.acroForm.listbox(name="size", options=["Small", "Middle", "Large"], value="Middle", x=110, y=690, height=40)
    canvas.save()
    imported = convert_bytes("a.pdf", data.getvalue())
    assert imported.markdown.strip() == "Size Middle"
    assert imported.left_out == {"options that aren't chosen": 2}
