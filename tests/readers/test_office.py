"""Office files that its programs open are read, however they are packed, or refused with the reason."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping

import docx
import openpyxl
import pptx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml

from hive_agents.readers import ImportFailure
from hive_agents.readers.conversion import convert_bytes

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
TYPES = r"\[Content_Types\]\.xml"


def word() -> bytes:
    document = docx.Document()
    document.add_heading("Pumps", 1)
    document.add_paragraph("Prime the pump first.")
    return saved(document)


def deck() -> bytes:
    slides = pptx.Presentation()
    slides.slides.add_slide(slides.slide_layouts[5]).shapes.title.text = "Prime the pump first."
    return saved(slides)


def book() -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active.append(["Prime the pump first."])
    return saved(workbook)


def saved(file: docx.document.Document | pptx.presentation.Presentation | openpyxl.Workbook) -> bytes:
    data = io.BytesIO()
    file.save(data)
    return data.getvalue()


def changed(data: bytes, contents: Mapping[str, tuple[str, str]], names: tuple[str, str] = ("$^", "")) -> bytes:
    """Return the package with parts changed by (pattern, replacement), and with other names for them."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            for part, (pattern, replacement) in contents.items():
                if re.fullmatch(part, name):
                    content = re.sub(pattern.encode(), replacement.encode(), content, flags=re.S)
            new.writestr(re.sub(*names, name), content)
    return out.getvalue()


NUMBERED = {f"_rels/.rels|{TYPES}": (r"word/document\.xml", "word/document22.xml")}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.docx", changed(word(), {"word/styles.xml": (r' w:type="\w+"', "")})),
        ("a.docx", changed(word(), {"word/styles.xml": (r' w:styleId="\w+"', "")})),
        ("a.docx", changed(word(), {"word/(?:styles|settings|theme/theme1).xml": (r".+", "<cut off")})),
        ("a.docx", changed(word(), {"docProps/.*": (r".+", "")})),
        ("a.docx", changed(word(), {}, ("/", r"\\"))),
        ("a.docx", changed(word(), NUMBERED, (r"(?<=document)(?=\.xml)", "22"))),
        ("a.docm", changed(word(), {TYPES: (r"openxmlformats-officedocument\.(?=w\w+\.document)", "ms-")})),
        ("a.pptx", changed(deck(), {"docProps/core.xml": (r".+", "<cut off")})),
        ("a.ppsx", changed(deck(), {TYPES: (r"presentation\.main", "slideshow.main")})),
        ("a.potx", changed(deck(), {TYPES: (r"presentation\.main", "template.main")})),
        ("a.xlsx", changed(book(), {"docProps/core.xml": (r".+", "")})),
        ("a.xlsx", changed(book(), {"xl/worksheets/sheet1.xml": (r'<c r="A1"', '<c r="A1" s="90"')})),
        ("a.xlsm", book()),
    ],
)
def test_a_file_that_office_opens_is_read(name: str, data: bytes) -> None:
    assert "Prime the pump first." in convert_bytes(name, data).markdown


def test_a_document_whose_parts_are_numbered_is_as_printed() -> None:
    checked = changed(word(), {"word/document.xml": (r"first\.", "first ☒.")})
    numbered = changed(checked, NUMBERED, (r"(?<=document)(?=\.xml)", "22"))
    assert convert_bytes("a.docx", numbered) == convert_bytes("a.docx", checked)


def test_a_document_without_a_body_says_so() -> None:
    with pytest.raises(ImportFailure, match=r"holds no text: word/document\.xml has no body"):
        convert_bytes("a.docx", changed(word(), {"word/document.xml": ("<w:body>.*</w:body>", "")}))


def test_what_a_drawing_a_diagram_and_a_chart_of_word_say_is_there() -> None:
    document = docx.Document()
    document.add_paragraph("Before.")
    chart = "http://schemas.openxmlformats.org/drawingml/2006/chart"
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/main"
    related = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    numbers = "".join(
        f"<c:ser><c:tx><c:v>{name}</c:v></c:tx><c:cat><c:pt idx='0'><c:v>May</c:v></c:pt><c:pt idx='1'><c:v>June</c:v>"
        f"</c:pt></c:cat><c:val><c:pt idx='0'><c:v>{first}</c:v></c:pt><c:pt idx='9999999'><c:v>5</c:v></c:pt>"
        "</c:val></c:ser>"
        for name, first in (("North", "4.4000000000000004"), ("South", "3"))
    )
    title = "<c:title><a:p><a:r><a:t>Rain</a:t></a:r></a:p></c:title>"
    parts = {
        "/word/charts/chart1.xml": f"<c:chartSpace xmlns:c='{chart}' xmlns:a='{drawing}'>"
        f"<c:chart>{title}<c:plotArea>{numbers}</c:plotArea></c:chart></c:chartSpace>",
        "/word/diagrams/data1.xml": f"<d xmlns:a='{drawing}'><a:p><a:r><a:t>Ask</a:t></a:r></a:p>"
        "<a:p><a:r><a:t>Ad</a:t></a:r><a:r><a:t>apt</a:t></a:r></a:p><a:p/></d>",
    }
    ids = [
        document.part.relate_to(Part(PackURI(name), "application/xml", text.encode()), "drawn")
        for name, text in parts.items()
    ]
    for inside in (
        f"<c:chart xmlns:c='{chart}' xmlns:r='{related}' r:id='{ids[0]}'/>",
        f"<d:relIds xmlns:d='diagram' xmlns:r='{related}' r:dm='{ids[1]}'/>",
        "<a:p><a:r><a:t>Arrow up</a:t></a:r></a:p>",
        f"<c:chart xmlns:c='c' xmlns:r='{related}' r:id='nowhere'/>",
    ):
        run = f"<w:r><w:drawing>{inside}</w:drawing></w:r>"
        document.element.body.insert(-1, parse_xml(f"<w:p xmlns:w='{WORD}' xmlns:a='{drawing}'>{run}</w:p>"))
    imported = convert_bytes("a.docx", saved(document))
    assert imported.markdown == (
        "Before.\n\nRain\n\n| | North | South |\n| --- | --- | --- |\n| May | 4.4 | 3 |\n| June |  |  |\n"
        "| | 5 | 5 |\n\nAsk\n\nAdapt\n\nArrow up\n"
    )
    assert imported.left_out == {"charts": 1}


def test_a_chart_of_very_many_numbers_is_counted_beside_its_title() -> None:
    document = docx.Document()
    chart = "http://schemas.openxmlformats.org/drawingml/2006/chart"
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/main"
    related = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    series = "".join(f"<c:ser><c:val><c:pt idx='{n * 10**5}'><c:v>1</c:v></c:pt></c:val></c:ser>" for n in range(200))
    title = "<c:title><a:p><a:r><a:t>Rain</a:t></a:r></a:p></c:title>"
    text = f"<c:chartSpace xmlns:c='{chart}' xmlns:a='{drawing}'><c:chart>{title}{series}</c:chart></c:chartSpace>"
    id = document.part.relate_to(Part(PackURI("/word/charts/chart1.xml"), "application/xml", text.encode()), "drawn")
    run = f"<w:r><w:drawing><c:chart xmlns:c='{chart}' xmlns:r='{related}' r:id='{id}'/></w:drawing></w:r>"
    document.element.body.insert(-1, parse_xml(f"<w:p xmlns:w='{WORD}'>{run}</w:p>"))
    imported = convert_bytes("a.docx", saved(document))
    assert (imported.markdown, imported.left_out) == ("Rain\n", {"charts": 1})


@pytest.mark.parametrize("name", ["toc 2", "TOC Heading", "table of figures"])
def test_lines_of_contents_are_counted_whatever_the_language_calls_their_style(name: str) -> None:
    document = docx.Document()
    document.styles.add_style("Verzeichnis", WD_STYLE_TYPE.PARAGRAPH).element.set(f"{{{WORD}}}styleId", "21")
    document.styles["Verzeichnis"].element.find(f"{{{WORD}}}name").set(f"{{{WORD}}}val", name)
    document.add_paragraph("It rains.")
    line = "<w:pPr><w:pStyle w:val='21'/></w:pPr><w:r><w:t>Rain 7</w:t></w:r>"
    document.element.body.insert(-1, parse_xml(f"<w:p xmlns:w='{WORD}'>{line}</w:p>"))
    imported = convert_bytes("a.docx", saved(document))
    assert (imported.markdown, imported.left_out) == ("It rains.\n", {"lines of contents": 1})


def test_a_deck_whose_slides_are_all_hidden_says_what_it_left_out() -> None:
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[5]).element.set("show", "0")
    with pytest.raises(ImportFailure, match=r"no text in it; left out: hidden slides \(1\)"):
        convert_bytes("a.pptx", saved(deck))
