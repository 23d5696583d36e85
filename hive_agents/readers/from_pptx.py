"""PPTX to Markdown: for each slide a heading, its text and tables, and the speaker's notes."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Set
from typing import Any

import pptx
from pptx.enum.shapes import PP_PLACEHOLDER

from hive_agents.readers.imported import Imported
from hive_agents.readers.markdown import escape, indent, plain_lines, table
from hive_agents.readers.office import checked_package

_FURNITURE = {
    PP_PLACEHOLDER.SLIDE_NUMBER,
    PP_PLACEHOLDER.SLIDE_IMAGE,
    PP_PLACEHOLDER.HEADER,
    PP_PLACEHOLDER.FOOTER,
    PP_PLACEHOLDER.DATE,
}
_NO_TITLE = {"", "PowerPoint Presentation"}  # defaults of programs


def from_pptx(data: bytes, settings: Set[str]) -> Imported:
    deck = pptx.Presentation(checked_package(data, "pptx"))
    left_out: Counter[str] = Counter()
    slides = []
    seen: set[str] = set()
    for number, slide in enumerate(deck.slides, start=1):
        if slide.part.partname in seen:  # a list may name one without end
            continue
        seen.add(slide.part.partname)
        if slide.element.get("show") in ("0", "false") and "hidden" not in settings:
            left_out["hidden slides"] += 1
            continue
        slides.append(_slide(slide, number, left_out))
    title = str(deck.core_properties.title or "").strip()
    if title in _NO_TITLE and slides:
        title = slides[0][0]
    behind = list(_behind(deck))
    if not behind and not any(has_text for _, _, has_text in slides):
        return Imported("", left_out=left_out)
    texts = [*(text for _, text, _ in slides), *behind]
    return Imported("\n\n".join(texts) + "\n", title or None, left_out=left_out)


def _behind(deck: Any) -> Iterator[str]:
    """Yield what the layouts and masters of the slides say on each slide, once, beside their empty places."""
    layouts = {slide.slide_layout.part.partname: slide.slide_layout for slide in deck.slides}.values()
    masters = {layout.slide_master.part.partname: layout.slide_master for layout in layouts}.values()
    own = [shape for each in (*masters, *layouts) for shape in each.shapes if not shape.is_placeholder]
    said = (block for block in _blocks(own, Counter()) if block and not block.startswith("(Image:"))
    yield from dict.fromkeys(said)


def _slide(slide: Any, number: int, left_out: Counter[str]) -> tuple[str, str, bool]:
    """Return (title, Markdown, whether it has text)."""
    heading = slide.shapes.title
    own_title = " ".join(heading.text_frame.text.split()) if heading is not None else ""
    shapes = [shape for shape in slide.shapes if heading is None or shape.shape_id != heading.shape_id]
    blocks = [block for block in _blocks(shapes, left_out) if block]
    if slide.has_notes_slide:
        notes = slide.notes_slide.shapes
        own = [shape for shape in notes if not shape.is_placeholder or shape.placeholder_format.type not in _FURNITURE]
        left_out["headers and footers of notes"] += sum(map(_is_margin, notes))
        notes_text = "\n\n".join(block for block in _blocks(own, left_out) if block)
        blocks += [indent(f"**Notes**\n\n{notes_text}", "> ", "> ")] if notes_text.strip() else []
    left_out["comments"] += sum("comment" in relation.reltype for relation in slide.part.rels.values())
    title = own_title or f"Slide {number}"
    return title, "\n\n".join([f"## {escape(title)}", *blocks]), bool(own_title or blocks)


def _is_margin(shape: Any) -> bool:
    """Return whether a shape of a page of notes is a header or footer with a text."""
    margin = shape.is_placeholder and shape.placeholder_format.type in (PP_PLACEHOLDER.HEADER, PP_PLACEHOLDER.FOOTER)
    return bool(margin and shape.has_text_frame and shape.text_frame.text.strip())


def _blocks(shapes: Any, left_out: Counter[str]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _blocks(shape.shapes, left_out)
        elif getattr(shape, "has_table", False):
            yield table([[escape(cell.text) for cell in row.cells] for row in shape.table.rows])
        elif getattr(shape, "has_chart", False):
            yield _chart(shape.chart, left_out)
        elif getattr(shape, "has_text_frame", False):
            yield _text(shape.text_frame.paragraphs, bulleted=shape.is_placeholder)
        else:
            yield from _picture(shape, left_out)


def _chart(chart: Any, left_out: Counter[str]) -> str:
    """Return the numbers that a chart draws as a table."""
    title = chart.chart_title.text_frame.text if chart.has_title and chart.chart_title.has_text_frame else ""
    try:
        plot = chart.plots[0]
        names = [escape(str(category)) for category in plot.categories]
        series = [[escape(line.name), *("" if n is None else f"{n:g}" for n in line.values)] for line in plot.series]
    except (IndexError, AttributeError, ValueError, TypeError):  # of a kind without categories
        left_out["charts"] += 1
        return escape(title)
    drawn = table([["", *(line[0] for line in series)], *zip(names, *(line[1:] for line in series), strict=False)])
    return "\n\n".join(filter(None, [escape(title), drawn]))


def _picture(shape: Any, left_out: Counter[str]) -> Iterator[str]:
    words = next((part.get("descr") for part in shape.element.iter() if part.get("descr")), "")
    diagram = [part for part in shape.element.iter() if str(part.tag).endswith("}relIds")]
    names = (value for part in diagram for key, value in part.attrib.items() if key.endswith("}dm"))
    for name in dict.fromkeys(names):
        data = shape.part.related_part(name).blob
        for paragraph in re.findall(rb"<a:p>.*?</a:p>", data, re.S):
            text = b"".join(re.findall(rb"<a:t[^>]*>([^<]*)</a:t>", paragraph)).decode("utf-8", "replace")
            yield f"- {escape(html.unescape(text).strip())}" if text.strip() else ""
    if any(str(part.tag).endswith("}oleObj") for part in shape.element.iter()):
        left_out["embedded objects"] += 1
    elif words:
        yield f"(Image: {escape(' '.join(words.split()))})"
    elif not diagram and str(shape.element.tag).endswith("}pic"):  # its image may be elsewhere
        left_out["pictures without text"] += 1


def _text(paragraphs: Any, *, bulleted: bool) -> str:
    """Return the paragraphs of a shape; several in a placeholder of the layout are bullet points."""
    lines = [(paragraph.level, " ".join(paragraph.text.split())) for paragraph in paragraphs if paragraph.text.strip()]
    if bulleted and len(lines) > 1:
        return "\n".join(f"{'  ' * level}- {escape(line)}" for level, line in lines)
    return "\n\n".join(plain_lines(escape(line)) for _, line in lines)
