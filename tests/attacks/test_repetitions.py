"""Files that say in a few bytes that a part of them is shown thousands of times: rows, columns, spans, references."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable

import docx
import openpyxl
import pptx
import pytest
from pptx.util import Inches

from hive_agents.readers import ImportFailure, conversion, from_pdf
from hive_agents.readers.conversion import convert_bytes

SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "table", "draw")
)
LONG = "words " * 20_000
MOST = 8_000_000
"""Characters of any of these documents: they are written in 300,000 at most, and as much is repeated as may be."""


def zipped(files: dict[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def changed(package: bytes, **changes: tuple[str, str]) -> bytes:
    """Return a package with the first text of each pair replaced in the part that ends with its name."""
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        files: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    for part, (before, after) in changes.items():
        name = next(name for name in files if name.endswith(f"/{part}.xml"))
        text = files[name]
        assert isinstance(text, bytes)
        assert before.encode() in text
        files[name] = text.replace(before.encode(), after.encode())
    return zipped(files)


def odf(kind: str, body: str, **objects: str) -> bytes:
    def content(kind: str, body: str) -> str:
        within = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
        return (
            f'<office:document-content {SPACES} xmlns:xlink="http://www.w3.org/1999/xlink">{within}'
            "</office:document-content>"
        )

    parts = {f"{name}/content.xml": content("text", text) for name, text in objects.items()}
    return zipped({"content.xml": content(kind, body), **parts})


def cells_in_cells(depth: int, inner: str = "<text:p>lamp</text:p>") -> str:
    for _ in range(depth):
        cell = f'<table:table-cell table:number-columns-repeated="64">{inner}</table:table-cell>'
        inner = f'<table:table><table:table-row table:number-rows-repeated="64">{cell}</table:table-row></table:table>'
    return inner


def spans_in_odt() -> str:
    cell = (
        '<table:table-cell table:number-columns-spanned="1000" table:number-rows-spanned="1000">'
        "<text:p>lamp</text:p></table:table-cell>"
    )
    return f"<table:table>{'<table:table-row>' + cell * 50 + '</table:table-row>'}" + (
        "<table:table-row/>" * 1000 + "</table:table>"
    )


def objects_of_two() -> bytes:
    def drawn(name: str) -> str:
        return f'<text:p><draw:frame><draw:object xlink:href="./{name}"/></draw:frame></text:p>'

    chain = {f"o{n}": f"<text:p>lamp</text:p>{drawn(f'o{n + 1}') * 2}" for n in range(30)}
    return odf("text", drawn("o0"), **chain, o30="<text:p>end</text:p>")


def object_many_times() -> bytes:
    drawn = '<text:p><draw:frame><draw:object xlink:href="./o"/></draw:frame></text:p>'
    return odf("text", drawn * 2000, o=f"<text:p>{LONG}</text:p>")


def sheet(rows: str, columns: str = "") -> bytes:
    return odf("spreadsheet", f'<table:table table:name="a">{columns}{rows}</table:table>')


def row(cells: str, more: str = "") -> str:
    return f"<table:table-row{more}>{cells}</table:table-row>"


def cell(text: str = "lamp", more: str = "") -> str:
    return f"<table:table-cell{more}><text:p>{text}</text:p></table:table-cell>"


def word(paragraphs: Iterable[str] = ("The lamp.",)) -> bytes:
    document, out = docx.Document(), io.BytesIO()
    for text in paragraphs:
        document.add_paragraph(text)
    document.save(out)
    return out.getvalue()


def long_label() -> bytes:
    document, out = docx.Document(), io.BytesIO()
    for _ in range(2000):
        document.add_paragraph("a", style="List Number")
    document.save(out)
    with zipfile.ZipFile(out) as archive:
        numbering = archive.read("word/numbering.xml").decode()
    before = 'w:lvlText w:val="%1."'
    assert before in numbering
    return changed(out.getvalue(), numbering=(before, f'w:lvlText w:val="{LONG}%1."'))


def bound_controls() -> bytes:
    space = "http://schemas.openxmlformats.org/officeDocument/2006/customXml"
    control = (
        '<w:p><w:sdt><w:sdtPr><w:dataBinding w:xpath="/a" w:storeItemID="{1}"/></w:sdtPr>'
        "<w:sdtContent><w:r><w:t>x</w:t></w:r></w:sdtContent></w:sdt></w:p>"
    )
    with zipfile.ZipFile(io.BytesIO(changed(word(), document=("<w:body>", f"<w:body>{control * 2000}")))) as archive:
        files: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    return zipped(
        files
        | {
            "customXml/item9.xml": f"<a>{LONG}</a>",
            "customXml/itemProps9.xml": f'<ds:datastoreItem xmlns:ds="{space}" ds:itemID="{{1}}"/>',
        }
    )


def long_strings() -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    for _ in range(3000):
        book.active.append(["one", "two"])
    book.save(out)
    one, schemas = ' t="inlineStr"><is><t>one</t></is>', "http://schemas.openxmlformats.org"
    link = f'<Relationship Id="rId99" Type="{schemas}/officeDocument/2006/relationships/sharedStrings" Target="s.xml"/>'
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    with zipfile.ZipFile(io.BytesIO(changed(out.getvalue(), sheet1=(one, ' t="s"><v>0</v>')))) as archive:
        files: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    links, types = (files[name] for name in ("xl/_rels/workbook.xml.rels", "[Content_Types].xml"))
    assert isinstance(links, bytes)
    assert isinstance(types, bytes)
    files["xl/_rels/workbook.xml.rels"] = links.replace(b"</Relationships>", f"{link}</Relationships>".encode())
    part = f'<Override PartName="/xl/s.xml" ContentType="{kind}"/></Types>'
    files["[Content_Types].xml"] = types.replace(b"</Types>", part.encode())
    files["xl/s.xml"] = f'<sst xmlns="{schemas}/spreadsheetml/2006/main"><si><t>{LONG[:30_000]}</t></si></sst>'
    return zipped(files)


def long_format() -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    for _ in range(3000):
        book.active.append([1, "lamp"])
        book.active.cell(book.active.max_row, 1).number_format = '"here"0'
    book.save(out)
    return changed(out.getvalue(), styles=("here", LONG))


def merged_areas() -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    for _ in range(2000):
        book.active.append(["lamp"])
    book.save(out)
    areas = "".join(f'<mergeCell ref="A1:A{1_000_000 + n}"/>' for n in range(4000))
    return changed(out.getvalue(), sheet1=("</sheetData>", f"</sheetData><mergeCells>{areas}</mergeCells>"))


def hidden_columns() -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    for _ in range(500):
        book.active.append(["lamp"] * 100)
    book.save(out)
    columns = "".join(f'<col min="{n + 200}" max="16384" hidden="1"/>' for n in range(15_000))
    return changed(out.getvalue(), sheet1=("<sheetData>", f"<cols>{columns}</cols><sheetData>"))


def one_slide_often() -> bytes:
    deck, out = pptx.Presentation(), io.BytesIO()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    slide.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = LONG
    deck.save(out)
    with zipfile.ZipFile(out) as archive:
        listed = archive.read("ppt/presentation.xml").decode()
    id = listed[listed.index("<p:sldId ") : listed.index("</p:sldIdLst>")]
    more = "".join(id.replace("256", str(300 + n)) for n in range(2000))
    return changed(out.getvalue(), presentation=(id, id + more))


def chapter_often() -> bytes:
    container = '<container><rootfiles><rootfile full-path="a.opf"/></rootfiles></container>'
    spine = '<itemref idref="c"/>' * 5000
    item = '<item id="c" href="c.xhtml" media-type="application/xhtml+xml"/>'
    package = f"<package><manifest>{item}</manifest><spine>{spine}</spine></package>"
    chapter = f"<html><body><p>{LONG}</p></body></html>"
    return zipped({"META-INF/container.xml": container, "a.opf": package, "c.xhtml": chapter})


def pdf(*objects: str, streams: Iterable[str] = ()) -> bytes:
    """A PDF of these objects, the first of which is its catalog, and of streams, whose dictionaries end them."""
    bodies = [*objects, *(f"<</Length {len(one)}>>stream\n{one}\nendstream" for one in streams)]
    out, places = "%PDF-1.7\n", []
    for number, body in enumerate(bodies, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"trailer\n<</Size {len(bodies) + 1}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF"
    return f"{out}xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}{end}".encode()


FONT = "/Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>"
WORDS = "BT /F 12 Tf 50 700 Td (lamp words here) Tj ET\n"


def pages(kids: str, *between: str, annotations: str = "") -> bytes:
    """Pages within pages, `between` the first and the one page, which is the last object but its words."""
    last = len(between) + 3
    page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {last + 1} 0 R/Resources<<{FONT}>>{annotations}>>"
    first = f"<</Type/Pages/Kids[{kids}]/Count {kids.count('R') * 10 ** len(between)}>>"
    return pdf("<</Type/Catalog/Pages 2 0 R>>", first, *between, page, streams=[WORDS])


def pages_of_ten() -> bytes:
    between = [f"<</Type/Pages/Kids[{f'{n + 4} 0 R ' * 10}]/Count {10 ** (5 - n)}>>" for n in range(5)]
    return pages("3 0 R " * 10, *between)


def forms_in_forms(often: int, *, levels: int, last: str) -> bytes:
    head = f"<</Type/XObject/Subtype/Form/BBox[0 0 600 800]/Resources<<{FONT}/XObject<</X %d 0 R>>>>/Length %d>>stream"
    texts = [*["/X Do\n" * often] * levels, last]
    forms = [f"{head % (n, len(text))}\n{text}\nendstream" for n, text in enumerate(texts, start=5)]
    content = f"/Contents {levels + 5} 0 R/Resources<</XObject<</X 4 0 R>>>>"
    page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]{content}>>"
    kids = "<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return pdf("<</Type/Catalog/Pages 2 0 R>>", kids, page, *forms, streams=["/X Do\n"])


def note_often() -> bytes:
    note = f"<</Type/Annot/Subtype/FreeText/Rect[0 0 9 9]/Contents({LONG})>>"
    return pages("4 0 R", note, annotations=f"/Annots[{'3 0 R ' * 5000}]")


FILES = {
    "a page often.pdf": lambda: pages("3 0 R " * 50_000),
    "pages of ten.pdf": pages_of_ten,
    "forms of fifty.pdf": lambda: forms_in_forms(50, levels=3, last=WORDS),
    "a note often.pdf": note_often,
    "cells in cells.odt": lambda: odf("text", cells_in_cells(5)),
    "spans.odt": lambda: odf("text", spans_in_odt()),
    "objects of two.odt": objects_of_two,
    "an object often.odt": object_many_times,
    "wide.ods": lambda: sheet(row(cell(more=' table:number-columns-repeated="1000"') * 100) * 200),
    "long.ods": lambda: sheet(row(cell(), ' table:number-rows-repeated="2"') * 20_000),
    "diagonal.ods": lambda: sheet(
        "".join(row(f'<table:table-cell table:number-columns-repeated="{n + 1}"/>{cell()}') for n in range(4000))
    ),
    "spans.ods": lambda: sheet(row(cell(more=' table:number-rows-spanned="900000"') * 4000) + row(cell()) * 2000),
    "hidden columns.ods": lambda: sheet(
        row(cell() * 2),
        "<table:table-column/>"
        + '<table:table-column table:visibility="collapse" table:number-columns-repeated="20000"/>' * 5000,
    ),
    "spans.html": lambda: f"<table><tr>{'<td rowspan=200 colspan=200>lamp' * 200}{'<tr><td>a' * 200}</table>".encode(),
    "a long span.html": lambda: f"<table><tr><td rowspan=200>{LONG}<td>b{'<tr><td>a' * 200}</table>".encode(),
    "a wide head.html": lambda: f"<table><tr>{'<th>a' * 4000}{'<tr><td>b' * 4000}</table>".encode(),
    "a wide head.csv": lambda: (",".join(["a"] * 4000) + "\n" + "b\n" * 4000).encode(),
    "spans.adoc": lambda: ("= Lamp\n\n|===\n" + "50+|a\n" * 20_000 + "|===\n").encode(),
    "attributes.adoc": lambda: f"= Lamp\n:long: {LONG}\n\n{'{long}' * 3000}\n".encode(),
    "a long label.docx": long_label,
    "bound controls.docx": bound_controls,
    "long strings.xlsx": long_strings,
    "a long format.xlsx": long_format,
    "merged.xlsx": merged_areas,
    "hidden columns.xlsx": hidden_columns,
    "a slide often.pptx": one_slide_often,
    "a chapter often.epub": chapter_often,
}


@pytest.mark.parametrize("name", FILES)
def test_what_a_file_says_once_costs_its_reader_no_more_than_what_is_written(name: str) -> None:
    """651 bytes of cells within cells took their reader all of its time; so did others of these, or the memory."""
    told = ""
    try:
        told = convert_bytes(name, FILES[name]()).markdown
    except ImportFailure as failure:
        told = str(failure)
    assert len(told) < MOST
    assert not any(why in told[:100] for why in ("takes longer", "takes more than", "broke down"))


def fields_in_fields() -> bytes:
    """2 kB that are gone through 33 million times before anything of the file is shown."""
    fields = [f"<</T(f{n})/Kids[{f'{n + 5} 0 R ' * 2}]>>" for n in range(25)]
    field = "<</Type/Annot/Subtype/Widget/FT/Tx/T(x)/V(lamp)/Rect[0 0 9 9]>>"
    page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]>>"
    catalog = "<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[4 0 R]>>>>"
    return pdf(catalog, "<</Type/Pages/Kids[3 0 R]/Count 1>>", page, *fields, field)


@pytest.mark.parametrize(
    "file",
    [
        fields_in_fields(),
        pytest.param(forms_in_forms(100, levels=4, last="q Q\n"), marks=pytest.mark.slow),
        pytest.param(forms_in_forms(2, levels=28, last="q Q\n"), marks=pytest.mark.slow),
        pytest.param(forms_in_forms(100, levels=3, last=WORDS * 4), marks=pytest.mark.slow),
    ],
    ids=["fields", "forms of a hundred", "forms of two", "forms with words"],
)
def test_a_small_pdf_has_ten_seconds_of_computing(file: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert conversion._work(file, "pdf") == 10
    monkeypatch.setattr(conversion, "_LEAST_SECONDS", 1)
    with pytest.raises(ImportFailure, match="longer than 1 s of computing"):
        convert_bytes("a.pdf", file)


def test_each_line_of_a_pdf_is_looked_at_and_not_all_that_stands_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """60,000 words, each a line of its own, took their reader all of its time."""
    looked_at = []

    class Noted:
        def search(self, text: str) -> None:
            looked_at.append(len(text))

    monkeypatch.setattr(from_pdf, "_HYPHENATED", Noted())
    words = "".join(f"1 0 0 1 {n * 37 % 590} {n * 91 % 790} Tm (lamp) Tj\n" for n in range(600))
    page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<<{FONT}>>>>"
    kids = "<</Type/Pages/Kids[3 0 R]/Count 1>>"
    file = pdf("<</Type/Catalog/Pages 2 0 R>>", kids, page, streams=[f"BT /F 4 Tf\n{words}ET"])
    assert from_pdf.from_pdf(file).markdown.count("lamp") == 600
    assert sum(looked_at) < 600 * len("lamp ")


def test_what_people_repeat_is_still_repeated() -> None:
    table = "<table><tr><th>part<th>price<tr><td rowspan=3>lamp<td>1<tr><td>2<tr><td>3</table>"
    assert convert_bytes("a.html", table.encode()).markdown.count("lamp") == 3
    assert (
        convert_bytes("a.ods", sheet(row(cell()) + row(cell(), ' table:number-rows-repeated="3"'))).markdown.count(
            "lamp"
        )
        == 4
    )
    assert convert_bytes("a.adoc", b":who: dana\n\nAsk {who}, or {who}.\n").markdown.count("dana") == 2
