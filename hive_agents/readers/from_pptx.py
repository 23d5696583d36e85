"""PPTX to Markdown: for each slide a heading, its text and tables, and the speaker's notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pptx

from hive_agents.readers.imported import Imported
from hive_agents.readers.markdown import escape, indent, plain_lines, table
from hive_agents.readers.office import checked_package

_NO_TITLE = {"", "PowerPoint Presentation"}  # defaults of programs


def from_pptx(data: bytes) -> Imported:
    deck = pptx.Presentation(checked_package(data, "pptx"))
    slides = [_slide(slide, number) for number, slide in enumerate(deck.slides, start=1)]
    title = str(deck.core_properties.title or "").strip()
    if title in _NO_TITLE and slides:
        title = slides[0][0]
    if not any(has_text for _, _, has_text in slides):
        return Imported("")
    return Imported("\n\n".join(text for _, text, _ in slides) + "\n", title or None)


def _slide(slide: Any, number: int) -> tuple[str, str, bool]:
    """Return (title, Markdown, whether it has text)."""
    heading = slide.shapes.title
    own_title = " ".join(heading.text_frame.text.split()) if heading is not None else ""
    shapes = [shape for shape in slide.shapes if heading is None or shape.shape_id != heading.shape_id]
    blocks = [block for block in _blocks(shapes) if block]
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and notes.text.strip():
        notes_text = "\n\n".join(plain_lines(escape(line.strip())) for line in notes.text.splitlines() if line.strip())
        blocks.append(indent(f"**Notes**\n\n{notes_text}", "> ", "> "))
    title = own_title or f"Slide {number}"
    return title, "\n\n".join([f"## {escape(title)}", *blocks]), bool(own_title or blocks)


def _blocks(shapes: Any) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _blocks(shape.shapes)
        elif getattr(shape, "has_table", False):
            yield table([[escape(cell.text) for cell in row.cells] for row in shape.table.rows])
        elif getattr(shape, "has_text_frame", False):
            yield _text(shape.text_frame.paragraphs, bulleted=shape.is_placeholder)


def _text(paragraphs: Any, *, bulleted: bool) -> str:
    """Return the paragraphs of a shape; several in a placeholder of the layout are bullet points."""
    lines = [(paragraph.level, " ".join(paragraph.text.split())) for paragraph in paragraphs if paragraph.text.strip()]
    if bulleted and len(lines) > 1:
        return "\n".join(f"{'  ' * level}- {escape(line)}" for level, line in lines)
    return "\n\n".join(plain_lines(escape(line)) for _, line in lines)
