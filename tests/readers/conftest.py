"""Real files of every kind, made in the test's own folder."""

from __future__ import annotations

from pathlib import Path

import docx
import pptx
import pytest
from reportlab.pdfgen.canvas import Canvas


@pytest.fixture
def handbook_docx(tmp_path: Path) -> Path:
    document = docx.Document()
    document.add_heading("Freezer handbook", level=0)
    document.add_heading("Alarms", level=1)
    document.add_paragraph("The alarm sounds at -70 °C.")
    document.add_paragraph("Check the door", style="List Bullet")
    document.add_paragraph("Call the duty officer", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for row, texts in zip(table.rows, [("Shelf", "Owner"), ("A | 1", "Dana")], strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    path = tmp_path / "Freezer Handbook.docx"
    document.save(str(path))
    return path


@pytest.fixture
def deck_pptx(tmp_path: Path) -> Path:
    deck = pptx.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Cleaning plan"
    body = first.placeholders[1].text_frame
    body.text = "Rinse"
    line = body.add_paragraph()
    line.text, line.level = "with water", 1
    first.notes_slide.notes_text_frame.text = "Mention the new pump."
    second = deck.slides.add_slide(deck.slide_layouts[6])
    table = second.shapes.add_table(2, 2, 0, 0, 100, 100).table
    for (row, column), text in {(0, 0): "Step", (0, 1): "Minutes", (1, 0): "Rinse", (1, 1): "5"}.items():
        table.cell(row, column).text = text
    path = tmp_path / "plan.pptx"
    deck.save(str(path))
    return path


@pytest.fixture
def report_pdf(tmp_path: Path) -> Path:
    path = tmp_path / "annual-report.pdf"
    canvas = Canvas(str(path))
    canvas.setTitle("Annual report")
    lines = [
        "# of rotors: two",
        "The centrifuge ran for a thousand hours this year, which is more than its main-",
        "tenance plan foresees, so that the rotor has to be replaced in spring by us.",
    ]
    for number, line in enumerate(lines):
        canvas.drawString(50, 800 - 14 * number, line)
    canvas.drawString(300, 20, "1")
    canvas.showPage()
    canvas.drawString(50, 800, "Second page.")
    canvas.save()
    return path
