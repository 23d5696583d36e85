"""What Office prints by itself: texts of bound content controls, numbers of lists, margins of notes."""

from __future__ import annotations

import io
import zipfile

import docx
import pptx
import pytest
from docx.oxml import parse_xml
from pptx.oxml import parse_xml as parse_slide

from hive_agents.readers.conversion import convert_bytes
from tests.readers.test_shown import NAMES, saved, t


def numbered(form: str, start: str, *texts: str) -> str:
    document = docx.Document()
    numbering = document.part.numbering_part.element
    level = f'<w:lvl w:ilvl="0">{start}<w:numFmt w:val="{form}"/><w:lvlText w:val="%1"/></w:lvl>'
    numbering.insert(0, parse_xml(f'<w:abstractNum {NAMES} w:abstractNumId="77">{level}</w:abstractNum>'))
    numbering.append(parse_xml(f'<w:num {NAMES} w:numId="77"><w:abstractNumId w:val="77"/></w:num>'))
    for text in texts:
        properties = '<w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="77"/></w:numPr></w:pPr>'
        document.element.body.insert(-1, parse_xml(f"<w:p {NAMES}>{properties}{t(text)}</w:p>"))
    return saved(document).markdown.strip()


def test_a_list_that_says_no_start_begins_with_zero() -> None:
    assert numbered("decimal", "", "Rent", "Keys") == "0 Rent\n\n1 Keys"


def test_ordinal_numbers_are_printed_as_such() -> None:
    assert numbered("ordinal", '<w:start w:val="11"/>', "Rent", "Keys") == "11th Rent\n\n12th Keys"
    assert numbered("ordinal", '<w:start w:val="21"/>', "Rent", "Keys", "Pets") == "21st Rent\n\n22nd Keys\n\n23rd Pets"


STORE = '<s:rent xmlns:s="urn:x"><s:town>Bergen</s:town><s:town>Oslo</s:town><s:date day="May 3"/></s:rent>'
ITEM = (
    '<ds:datastoreItem xmlns:ds="http://schemas.openxmlformats.org/officeDocument/2006/customXml" ds:itemID="{AB-1}"/>'
)


def bound(path: str, kind: str = "<w:text/>", store: str = STORE) -> str:
    """Return what becomes of a content control that holds `old` and is bound to a path of a stored part."""
    binding = f'<w:dataBinding w:prefixMappings="xmlns:n=\'urn:x\'" w:xpath="{path}" w:storeItemID="{{ab-1}}"/>'
    control = f"<w:sdt><w:sdtPr>{binding}{kind}</w:sdtPr><w:sdtContent>{t('o')}{t('ld')}</w:sdtContent></w:sdt>"
    document, data = docx.Document(), io.BytesIO()
    document.element.body.insert(-1, parse_xml(f"<w:p {NAMES}>{t('Town: ')}{control}</w:p>"))
    document.save(data)
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr("customXml/item7.xml", store)
        archive.writestr("customXml/itemProps7.xml", ITEM)
    return convert_bytes("a.docx", data.getvalue()).markdown.strip()


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/n:rent[1]/n:town[2]", "Oslo"),
        ("/n:rent[1]/n:town", "Bergen"),
        ("/n:rent/n:date/@day", "May 3"),
        ("/n:rent/n:other", "old"),
        ("/n:rent/m:town", "old"),
        ("/n:rent/n:town[", "old"),
        ("", "old"),
    ],
)
def test_a_content_control_shows_the_text_that_it_is_bound_to(path: str, shown: str) -> None:
    assert bound(path) == f"Town: {shown}"


def test_a_content_control_that_shows_its_value_in_another_form_is_as_it_stands() -> None:
    assert bound("/n:rent/n:town", "<w:date/>") == "Town: old"
    assert bound("/n:rent/n:town", store="<broken") == "Town: old"


def test_a_header_of_notes_is_counted() -> None:
    deck, data = pptx.Presentation(), io.BytesIO()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Rent"
    notes = slide.notes_slide
    notes.notes_text_frame.text = "It rises."
    for number, text in enumerate(["Confidential", ""]):
        notes.shapes._spTree.append(
            parse_slide(
                '<p:sp xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
                ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><p:nvSpPr>'
                f'<p:cNvPr id="9{number}" name="F"/><p:cNvSpPr/><p:nvPr><p:ph type="ftr"/></p:nvPr></p:nvSpPr><p:spPr/>'
                f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
            )
        )
    deck.save(data)
    imported = convert_bytes("a.pptx", data.getvalue())
    assert "It rises." in imported.markdown
    assert "Confidential" not in imported.markdown
    assert imported.left_out == {"headers and footers of notes": 1}
