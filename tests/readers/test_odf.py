"""Texts, sheets and slides of OpenDocument: what LibreOffice shows of them is there, or counted."""

from __future__ import annotations

import io
import zipfile

import pytest

from hive_agents.readers import Imported, ImportFailure
from hive_agents.readers.conversion import convert_bytes, rows_in

SPACES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        "office": "office", "text": "text", "table": "table", "draw": "drawing", "style": "style", "form": "form",
        "fo": "xsl-fo-compatible", "svg": "svg-compatible", "presentation": "presentation", "chart": "chart",
        "number": "datastyle",
    }.items()
)  # fmt: skip
SPACES += ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
BODIES = {"odt": "text", "ods": "spreadsheet", "odp": "presentation"}


def content(kind: str, body: str, styles: str = "") -> str:
    inner = f"<office:{BODIES[kind]}>{body}</office:{BODIES[kind]}>"
    return (
        f'<?xml version="1.0"?><office:document-content {SPACES}>'
        f"<office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body>{inner}</office:body></office:document-content>"
    )


def packed(kind: str, body: str, styles: str = "", **parts: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", content(kind, body, styles))
        for name, part in parts.items():
            archive.writestr(name.replace("__", "/") + ".xml", part)
    return out.getvalue()


def read(kind: str, body: str, styles: str = "", *, settings: frozenset[str] = frozenset(), **parts: str) -> Imported:
    return convert_bytes(f"a.{kind}", packed(kind, body, styles, **parts), settings=settings)


def text(body: str, styles: str = "", **parts: str) -> str:
    return read("odt", body, styles, **parts).markdown.strip()


def sheet(rows: str, how: str = "", styles: str = "") -> Imported:
    return read("ods", f'<table:table table:name="S" {how}>{rows}</table:table>', styles)


def cell(shown: str, how: str = "") -> str:
    return f"<table:table-cell {how}><text:p>{shown}</text:p></table:table-cell>"


def test_headings_paragraphs_and_tables_are_those_of_the_text() -> None:
    row = "<table:table-row><table:table-cell><text:p>{}</text:p></table:table-cell></table:table-row>"
    body = (
        '<text:h text:outline-level="2">Alarms</text:h><text:p>Call<text:s text:c="2"/>the<text:tab/>officer.</text:p>'
        f"<table:table>{row.format('Shelf')}{row.format('A')}</table:table>"
    )
    assert text(body) == "## Alarms\n\nCall the officer.\n\n| Shelf |\n| --- |\n| A |"


def test_list_items_and_headings_have_the_numbers_that_their_styles_print() -> None:
    level = '<text:list-level-style-number text:level="{}" style:num-format="{}" style:num-suffix="{}" {}/>'
    styles = (
        f'<text:list-style style:name="L">{level.format(1, "1", ".", "")}{level.format(2, "a", ")", "")}'
        "</text:list-style>"
    )
    item = "<text:list-item><text:p>{}</text:p>{}</text:list-item>"
    inner = f"<text:list>{item.format('in', '')}{item.format('on', '')}</text:list>"
    body = f'<text:list text:style-name="L">{item.format("one", inner)}{item.format("two", "")}</text:list>'
    shown = text(body, styles)
    assert [line.strip() for line in shown.splitlines() if line.strip()] == ["1. one", "- a) in", "- b) on", "2. two"]
    clause = '<text:list-item><text:h text:outline-level="1">Scope</text:h></text:list-item>'
    assert text(f'<text:list text:style-name="L">{clause}</text:list>', styles) == "# 1. Scope"


def test_notes_boxes_rubies_and_formulas_are_in_the_text() -> None:
    formula = (
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mfrac><mi>a</mi><mi>b</mi></mfrac>'
        '<annotation encoding="StarMath 5.0">{a} over {b}</annotation></semantics></math>'
    )
    body = (
        "<text:p>Stop<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>At once.</text:p>"
        "</text:note-body></text:note> now <draw:frame><draw:text-box><text:p>DANGER</text:p></draw:text-box>"
        '</draw:frame><draw:frame><draw:object xlink:href="./Object 1"/><draw:image/></draw:frame>'
        "<text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>kan</text:ruby-text></text:ruby></text:p>"
    )
    shown = text(body, **{"Object 1__content": formula})
    assert "Stop[1] now" in shown
    assert "DANGER" in shown
    assert "a/b" in shown
    assert "漢" in shown
    assert "(kan)" in shown
    assert shown.endswith("[1] At once.")


def test_what_is_hidden_deleted_or_noted_is_counted_and_comes_by_setting() -> None:
    body = (
        '<text:tracked-changes><text:changed-region text:id="c"><text:deletion><text:p>old words</text:p>'
        "</text:deletion></text:changed-region></text:tracked-changes>"
        '<text:p>New<text:change text:change-id="c"/> words<office:annotation><dc:creator>Di</dc:creator>'
        '<text:p>Really?</text:p></office:annotation> <text:span text:style-name="T">secret</text:span></text:p>'
        "<text:table-of-content><text:index-body><text:p>One 1</text:p><text:p>Two 2</text:p></text:index-body>"
        "</text:table-of-content><text:p><draw:frame><draw:image/></draw:frame></text:p>"
    )
    styles = (
        '<style:style style:name="T" style:family="text"><style:text-properties text:display="none"/></style:style>'
    )
    imported = read("odt", body, styles)
    assert imported.markdown == "New words\n"
    assert imported.left_out == {
        "deleted passages": 1, "comments": 1, "hidden passages": 1, "lines of contents": 2, "pictures without text": 1,
    }  # fmt: skip
    told = read("odt", body, styles, settings=frozenset({"comments", "deleted"}))
    assert "[deleted: old words]" in told.markdown
    assert "Comment by Di: Really?" in told.markdown


def test_boxes_of_a_form_are_ticked_or_open() -> None:
    forms = (
        '<office:forms><form:form><form:checkbox form:id="a" form:label="Paid" form:current-state="checked"/>'
        '<form:text form:id="b" form:current-value="Ada"/></form:form></office:forms>'
    )
    body = f'{forms}<text:p><draw:control draw:control="a"/> by <draw:control draw:control="b"/></text:p>'
    assert " ".join(text(body).split()) == "[x] Paid by Ada"


def test_cells_are_as_shown_and_dates_of_fields_in_iso_form() -> None:
    date = cell("05.01.24", 'office:value-type="date" office:date-value="2024-01-05"')
    rows = "".join(
        f"<table:table-row>{cell(name)}{cell(f'The {name} has to be oiled every week by somebody of us.')}{date}"
        "</table:table-row>"
        for name in ("pump", "rotor", "door")
    )
    head = f"<table:table-row>{cell('name')}{cell('text')}{cell('since')}</table:table-row>"
    table = f'<table:table table:name="S">{head}{rows}</table:table>'
    assert "| pump | The pump has to be oiled every week by somebody of us. | 05.01.24 |" in read("ods", table).markdown
    documents = rows_in("a.ods", packed("ods", table))
    assert documents is not None
    assert next(row.fields for row in documents)["since"] == "2024-01-05"


def test_merged_repeated_hidden_and_covered_cells_are_there_or_counted() -> None:
    tall = cell("A", "table:number-rows-spanned='2'")
    rows = (
        f"<table:table-row>{tall}{cell('1')}</table:table-row>"
        f"<table:table-row><table:covered-table-cell><text:p>under</text:p></table:covered-table-cell>{cell('2')}"
        "</table:table-row>"
        f'<table:table-row table:visibility="collapse">{cell("away")}</table:table-row>'
        f'<table:table-row table:number-rows-repeated="2">{cell("B")}{cell("3")}</table:table-row>'
        '<table:table-row table:number-rows-repeated="1048570"><table:table-cell/></table:table-row>'
    )
    imported = sheet(rows)
    assert imported.markdown == "## S\n\n| A | 1 |\n| --- | --- |\n| A | 2 |\n| B | 3 |\n| B | 3 |\n"
    assert imported.left_out == {"covered cells": 1, "hidden rows": 1}


def test_a_hidden_sheet_is_counted() -> None:
    how = '<style:table-properties table:display="false"/>'
    styles = f'<style:style style:name="ta" style:family="table">{how}</style:style>'
    row = "<table:table-row>{}</table:table-row>"
    body = (
        f'<table:table table:name="S">{row.format(cell("seen"))}</table:table>'
        f'<table:table table:name="H" table:style-name="ta">{row.format(cell("unseen"))}</table:table>'
    )
    imported = read("ods", body, styles)
    assert "unseen" not in imported.markdown
    assert imported.left_out == {"hidden sheets": 1}
    assert "unseen" in read("ods", body, styles, settings=frozenset({"hidden"})).markdown


def test_slides_have_titles_texts_and_notes() -> None:
    body = (
        '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Cleaning</text:p></draw:text-box>'
        "</draw:frame><draw:custom-shape><text:p>Rinse first</text:p></draw:custom-shape>"
        '<presentation:notes><draw:frame presentation:class="notes"><draw:text-box><text:p>Mention the pump.</text:p>'
        "</draw:text-box></draw:frame></presentation:notes></draw:page>"
    )
    assert read("odp", body).markdown == "## Cleaning\n\nRinse first\n\n> **Notes**\n>\n> Mention the pump.\n"


def test_a_flat_file_is_read_as_a_packed_one() -> None:
    assert convert_bytes("a.fodt", content("odt", "<text:p>Flat.</text:p>").encode()).markdown == "Flat.\n"


HOSTILE = {
    "entities": content("odt", "<text:p>&a;</text:p>").replace("?>", '?><!DOCTYPE x [<!ENTITY a "b">]>', 1).encode(),
    "another kind": packed("ods", "<table:table/>"),
    "no archive": b"PK but no archive",
    "broken": packed("odt", "<text:p>")[:200],
}


@pytest.mark.parametrize("how", sorted(HOSTILE))
def test_a_file_that_is_none_is_refused_with_the_reason(how: str) -> None:
    with pytest.raises(ImportFailure, match=r"\.odt|entities"):
        convert_bytes("a.odt", HOSTILE[how])


def test_a_password_is_said() -> None:
    data = packed("odt", "<text:p>x</text:p>", **{"META-INF__manifest": "<m><encryption-data/></m>"})
    with pytest.raises(ImportFailure, match="password"):
        convert_bytes("a.odt", data)


def test_styles_and_objects_within_themselves_end() -> None:
    styles = '<style:style style:name="P" style:family="paragraph" style:parent-style-name="P"/>'
    frame = '<text:p text:style-name="P">one<draw:frame><draw:object xlink:href="./O"/></draw:frame></text:p>'
    assert text(frame, styles, O__content=content("odt", frame)).count("one") == 2


def test_a_cell_that_is_repeated_a_billion_times_costs_no_memory() -> None:
    wide = cell("x", "table:number-columns-repeated='999999999'")
    rows = f'<table:table-row table:number-rows-repeated="999999999">{wide}</table:table-row>'
    with pytest.raises(ImportFailure, match="500,000 cells"):
        sheet(rows)
    imported = sheet(rows.replace('rows-repeated="999999999"', 'rows-repeated="1"', 1))
    assert imported.left_out == {"repeated cells": 999999999 - 1000}


def test_old_kinds_say_as_what_to_save_them() -> None:
    for name, kind in {"a.doc": "docx", "b.RTF": "docx", "c.xls": "xlsx", "d.xlsb": "xlsx", "e.ppt": "pptx"}.items():
        with pytest.raises(ImportFailure, match=rf"save it as \.{kind}.*not a supported kind of file"):
            convert_bytes(name, b"x")
