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

from hive_agents.readers import ImportFailure, convert_bytes

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
