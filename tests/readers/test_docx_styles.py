"""Headings of a DOCX by what its styles say."""

from __future__ import annotations

import io
from typing import Any

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn

from hive_agents.readers import Imported
from hive_agents.readers.conversion import convert_bytes


class Manuscript:
    """A document whose paragraphs have styles of a publisher's own."""

    def __init__(self) -> None:
        self.document = docx.Document()

    def style(self, name: str, based_on: str | None = None, outline: int | None = None) -> None:
        style: Any = self.document.styles.add_style(name, WD_STYLE_TYPE.PARAGRAPH)
        style.base_style = self.document.styles[based_on] if based_on else None
        if outline is not None:
            level = OxmlElement("w:outlineLvl")
            level.set(qn("w:val"), str(outline))
            style.element.get_or_add_pPr().append(level)

    def imported(self, *paragraphs: tuple[str, str]) -> Imported:
        for name, text in paragraphs:
            if name not in [style.name for style in self.document.styles]:
                self.style(name)
            self.document.add_paragraph(text, style=name)
        data = io.BytesIO()
        self.document.save(data)
        return convert_bytes("a.docx", data.getvalue())


def test_styles_with_an_outline_level_are_headings_and_so_are_those_based_on_them() -> None:
    manuscript = Manuscript()
    manuscript.style("Clause", outline=1)
    manuscript.style("Clause of the annex", based_on="Clause")
    manuscript.style("Our chapter", based_on="Heading 1")
    manuscript.style("Margin", based_on="Heading 1", outline=9)
    shown = manuscript.imported(
        ("Our chapter", "Doors"),
        ("Clause", "Locks"),
        ("Normal", "Turn it twice."),
        ("Clause of the annex", "Keys"),
        ("Margin", "Aside."),
    )
    assert shown.markdown == "# Doors\n\n## Locks\n\nTurn it twice.\n\n## Keys\n\nAside.\n"


@pytest.mark.parametrize("names", [("HeadA", "HeadB"), ("Head 1", "Head 2"), ("A-Head", "B-Head"), ("H1", "H2")])
def test_styles_that_are_called_so_are_headings_where_no_level_says_it(names: tuple[str, str]) -> None:
    shown = Manuscript().imported(
        ("ChapterNumber", "5"),
        ("ChapterTitle", "Doors"),
        (names[0], "Locks"),
        ("Body", "Turn it twice."),
        (names[1], "Keys"),
    )
    assert shown.title == "Doors"
    assert shown.markdown == "5\n\n# Doors\n\n## Locks\n\nTurn it twice.\n\n### Keys\n"
    assert Manuscript().imported((names[0], "Locks"), (names[1], "Keys")).markdown == "# Locks\n\n## Keys\n"


def test_a_name_says_nothing_where_levels_do() -> None:
    shown = Manuscript().imported(("Heading 1", "Doors"), ("HeadA", "of the house"), ("Body", "Turn it twice."))
    assert shown.markdown == "# Doors\n\nof the house\n\nTurn it twice.\n"


def test_styles_that_only_sound_like_it_are_text() -> None:
    names = ["TableHead", "RunInHead", "BoxTitle", "Header", "Head Waiter", "it's \\ odd"]
    shown = Manuscript().imported(*[(name, f"Words {number}") for number, name in enumerate(names)])
    assert "#" not in shown.markdown
    assert shown.markdown.count("Words") == len(names)


def test_lines_of_a_style_for_code_are_code() -> None:
    shown = Manuscript().imported(("CodeWide", "open(door)"), ("CodeWide", "  turn(key)"), ("CodeLabel", "door.py"))
    assert shown.markdown == "```\nopen(door)\n  turn(key)\n```\n\ndoor.py\n"
