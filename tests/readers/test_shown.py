"""What a reader sees of a page, a document, a workbook or a form is in the Markdown, or counted as left out."""

from __future__ import annotations

import datetime as dt
import io
import re
import zipfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from reportlab.pdfgen.canvas import Canvas

from hive_agents.readers import Imported
from hive_agents.readers.conversion import convert_bytes

DOT = (
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360000000020001e5276de9"
    "0000000049454e44ae426082"
)
"""A picture of one pixel."""
NAMES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    ' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    ' xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"'
    ' xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
    ' xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
    ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)


def page(body: str, name: str = "a.html") -> str:
    return convert_bytes(name, f"<html><body><main>{body}</main></body></html>".encode()).markdown.strip()


def word(*paragraphs: str, settings: frozenset[str] = frozenset()) -> Imported:
    """Return what becomes of a DOCX with these paragraphs, given as the XML within <w:p>."""
    document = docx.Document()
    for paragraph in paragraphs:
        document.element.body.insert(-1, parse_xml(f"<w:p {NAMES}>{paragraph}</w:p>"))
    return saved(document, settings)


def saved(document: docx.document.Document, settings: frozenset[str] = frozenset()) -> Imported:
    data = io.BytesIO()
    document.save(data)
    return convert_bytes("a.docx", data.getvalue(), settings=settings)


def t(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("<form action='/save'><h1>Plan</h1><p>Words of it.</p></form>", "# Plan\n\nWords of it."),
        ("<aside class='admonition'><p>Mind the gap.</p></aside>", "Mind the gap."),
        ("<h2><button>Who pays?</button></h2><p>We do.</p>", "## Who pays?\n\nWe do."),
        ("<div class='faq-item'><button>Who pays?</button><p>We do.</p></div>", "Who pays?\n\nWe do."),
        ("<details><summary>More</summary><p>The rest.</p></details>", "More\n\nThe rest."),
        ("<fieldset><legend>Size</legend><p>Large</p></fieldset>", "Size\n\nLarge"),
        ("<p>Town: <input value='Bergen'></p>", "Town: Bergen"),
        ("<p>Note: <textarea>by hand</textarea></p>", "Note: by hand"),
        ("<p>Lang: <select><option>A<option selected>B</select></p>", "Lang: B"),
        ("<p><input type=radio> no <input type=radio checked> yes</p>", "[ ] no [x] yes"),
        ("<p>2<sup>n+1</sup>, a<sub>i-1</sub>, H<sub>2</sub>O</p>", "2^(n+1), a_(i-1), H2O"),
        ("<p>see<sup><a href='#f'>3</a></sup> it</p>", "see3 it"),
        ("<pre>a<br>b<br/>c</pre>", "```\na\nb\nc\n```"),
        ("<pre><div>a</div><div>b</div></pre>", "```\na\nb\n```"),
        ("<dl><dt>Term</dt><dd>What it is.</dd></dl>", "**Term**\n\nWhat it is."),
        ("<figure><p>Words.</p><figcaption>Figure 3: a pump</figcaption></figure>", "Words.\n\nFigure 3: a pump"),
        ("<p><ruby>東京<rt>とうきょう</rt></ruby>の支店</p>", "東京の支店 (とうきょう)"),
        ("<p>v = <math><mfrac><mi>s</mi><mi>t</mi></mfrac></math></p>", "v = s/t"),
        ("<p><svg><text>Valve 17</text><path d=''/></svg></p>", "Valve 17"),
        ("<blockquote><p>So it is.</p><footer>Ines Falk</footer></blockquote>", "> So it is.\n>\n> Ines Falk"),
    ],
)
def test_what_a_browser_shows_is_there(body: str, shown: str) -> None:
    assert page(body) == shown


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("<ul><li>one</li><li>two</li></ul>", "one; two"),
        ("<ol><li>one</li><li>two<ul><li>deep</li></ul></li></ol>", "one; two deep"),
        ("<pre>x = 1\ny = 2</pre>", "`x = 1 y = 2`"),
        ("<dl><dt>a</dt><dd>b</dd><dt>c</dt><dd>d</dd></dl>", "a: b; c: d"),
        ("<p>one</p><p>two</p>", "one two"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>", "a, b; c, d"),
    ],
)
def test_a_table_with_blocks_in_a_cell_stays_a_table(cell: str, shown: str) -> None:
    body = f"<table><tr><th>Key</th><th>Value</th></tr><tr><td>k</td><td>{cell}</td></tr></table>"
    assert page(body) == f"| Key | Value |\n| --- | --- |\n| k | {shown} |"


def test_a_table_inside_a_layout_keeps_its_rows() -> None:
    inner = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    assert page(f"<table><tr><td><h1>T</h1>{inner}</td></tr></table>").endswith("| a | b |\n| --- | --- |\n| 1 | 2 |")


def test_what_only_leads_elsewhere_is_left_out_and_counted() -> None:
    text = (
        "<html><body><nav><a href='/'>Home</a></nav><main><h1>T</h1><p>Words.</p><button>Copy</button>"
        "<aside><a href='a'>one</a> <a href='b'>two</a></aside><img src='x.png'><img src='y.png' alt=''>"
        "<form class='searchbox'><input name='q'><label>Find it</label></form></main>"
        "<footer>Imprint</footer></body></html>"
    )
    imported = convert_bytes("a.html", text.encode())
    assert imported.markdown == "# T\n\nWords.\n"
    assert imported.left_out == {
        "parts of navigation": 2,
        "footers of pages": 1,
        "forms for searching and signing in": 1,
        "buttons": 1,
        "pictures without text": 1,
    }


FIELD = '<w:r><w:fldChar w:fldCharType="{}">{}</w:fldChar></w:r>'
CHECK_BOX = "<w:r><w:instrText> FORMCHECKBOX </w:instrText></w:r>"
BOX = '<w:ffData><w:checkBox><w:default w:val="0"/><w:checked w:val="{}"/></w:checkBox></w:ffData>'


@pytest.mark.parametrize(
    ("paragraph", "shown"),
    [
        (f'{t("At ")}<w:fldSimple w:instr=" REF x ">{t("4.2")}</w:fldSimple>{t(".")}', "At 4.2."),
        (FIELD.format("begin", BOX.format(1)) + CHECK_BOX + FIELD.format("end", "") + t(" yes"), "[x] yes"),
        (f"{t('☐ no ☒ yes')}", "[ ] no [x] yes"),
        ('<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>' + t(" yes"), "[x] yes"),
        (
            '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList><w:result w:val="1"/><w:listEntry w:val="red"/>'
            f'<w:listEntry w:val="green"/></w:ddList></w:ffData></w:fldChar></w:r>{FIELD.format("end", "")}',
            "green",
        ),
        (
            f"{t('Dose ')}<m:oMath><m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>n+1</m:t></m:r></m:sup>"
            "</m:sSup></m:oMath>",
            "Dose x^(n+1)",
        ),
        ("<m:oMath><m:rad><m:deg/><m:e><m:r><m:t>2</m:t></m:r></m:e></m:rad></m:oMath>", "√2"),
        ("<w:r><w:t>one</w:t><w:cr/><w:t>two</w:t></w:r>", "one\\\ntwo"),
        (
            "<w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing><wp:inline><a:graphic><a:graphicData>"
            f"<wps:wsp><wps:txbx><w:txbxContent><w:p>{t('Mind it.')}</w:p></w:txbxContent></wps:txbx></wps:wsp>"
            "</a:graphicData></a:graphic></wp:inline></w:drawing></mc:Choice><mc:Fallback><w:pict><w:p>"
            f"{t('Mind it.')}</w:p></w:pict></mc:Fallback></mc:AlternateContent></w:r>{t('Go on.')}",
            "Mind it.\n\nGo on.",
        ),
    ],
)
def test_what_word_prints_is_there(paragraph: str, shown: str) -> None:
    assert word(paragraph).markdown.strip() == shown


def test_clauses_keep_the_numbers_that_word_prints() -> None:
    document = docx.Document()
    numbering = document.part.numbering_part.element
    levels = "".join(
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for depth, (form, text) in enumerate([("decimal", "§ %1"), ("decimal", "%1.%2"), ("lowerLetter", "(%3)")])
    )
    numbering.insert(0, parse_xml(f'<w:abstractNum {NAMES} w:abstractNumId="77">{levels}</w:abstractNum>'))
    numbering.append(parse_xml(f'<w:num {NAMES} w:numId="77"><w:abstractNumId w:val="77"/></w:num>'))
    for depth, text in [(0, "Rent"), (1, "It is due."), (1, "It rises."), (2, "in May"), (2, "in June"), (0, "Keys")]:
        properties = f'<w:pPr><w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="77"/></w:numPr></w:pPr>'
        document.element.body.insert(-1, parse_xml(f"<w:p {NAMES}>{properties}{t(text)}</w:p>"))
    assert saved(document).markdown.split("\n\n") == [
        "§ 1 Rent", "1.1 It is due.", "1.2 It rises.", "(a) in May", "(b) in June", "§ 2 Keys\n",
    ]  # fmt: skip


def test_a_header_is_there_once_and_a_page_number_is_not() -> None:
    document = docx.Document()
    document.add_paragraph("Words.")
    document.sections[0].header.paragraphs[0].text = "Contract HX-7"
    document.sections[0].footer.paragraphs[0].text = "Page 1 of 3"
    assert saved(document).markdown == "Words.\n\nContract HX-7\n"


def test_comments_and_deleted_words_are_counted_or_brought_along() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("It costs ten.")
    document.add_comment(paragraph.runs, text="Is it?", author="Mei")
    paragraph._p.append(parse_xml(f"<w:del {NAMES}><w:r><w:delText>Or nine.</w:delText></w:r></w:del>"))
    imported = saved(document)
    assert (imported.markdown, imported.left_out) == ("It costs ten.\n", {"comments": 1, "deleted passages": 1})
    imported = saved(document, frozenset({"comments", "deleted"}))
    assert imported.markdown == "It costs ten. [Comment by Mei: Is it?] [deleted: Or nine.]\n"
    assert imported.left_out == {}


def workbook(fill: Callable[[openpyxl.Workbook], None], settings: frozenset[str] = frozenset()) -> Imported:
    book, data = openpyxl.Workbook(), io.BytesIO()
    fill(book)
    book.save(data)
    return convert_bytes("a.xlsx", data.getvalue(), settings=settings)


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        (dt.timedelta(hours=30, minutes=5), "[h]:mm", "30:05"),
        (dt.time(7, 5), "h:mm AM/PM", "7:05 AM"),
        (1234.5, "#,##0.00 [$€-407]", "1,234.50 €"),
        (-1234.5, '"$"#,##0.00;("$"#,##0.00)', "($1,234.50)"),
        (1250000, '0.0,,"M"', "1.3M"),
        (dt.date(2024, 3, 5), "mmm yyyy", "Mar 2024"),
        (dt.date(2024, 3, 5), "dd.mm.yyyy", "05.03.2024"),
        (0, '0;-0;"none"', "none"),
        (0.5, "0%", "50%"),
        (42, '0" pcs"', "42 pcs"),
        (12, "General", "12"),
        (3.25, "0.##", "3.25"),
        (99999999999, "yyyy-mm-dd", "99999999999"),
    ],
)
def test_a_cell_is_as_a_spreadsheet_shows_it(value: object, form: str, shown: str) -> None:
    def fill(book: openpyxl.Workbook) -> None:
        book.active.append(["Name", "Value"])
        book.active.append(["a", value])
        book.active["B2"].number_format = form

    assert f"| a | {shown} |" in workbook(fill).markdown


def test_hidden_rows_and_formulas_without_a_value_are_counted() -> None:
    def fill(book: openpyxl.Workbook) -> None:
        for row in (["Name", "Price", "Margin"], ["Bolt", 2, 1], ["Nut", 3, 1], ["Sum", "=B2+B3", None]):
            book.active.append(row)
        book.active.row_dimensions[3].hidden = True
        book.active.column_dimensions["C"].hidden = True

    imported = workbook(fill)
    assert "Nut" not in imported.markdown
    assert "Margin" not in imported.markdown
    assert imported.left_out == {"formulas without a value": 1, "hidden rows": 1, "hidden columns": 1}
    imported = workbook(fill, frozenset({"hidden"}))
    assert "| Nut | 3 | 1 |" in imported.markdown
    assert imported.left_out == {"formulas without a value": 1}


def test_a_deck_shows_its_charts_notes_and_tables_and_counts_hidden_slides() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Sales"
    numbers = CategoryChartData()
    numbers.categories = ["May", "June"]
    numbers.add_series("North", (3, 4))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 100, 100, numbers)
    slide.notes_slide.notes_text_frame.text = "Say it loud."
    deck.slides.add_slide(deck.slide_layouts[5]).element.set("show", "0")
    data = io.BytesIO()
    deck.save(data)
    imported = convert_bytes("a.pptx", data.getvalue())
    assert "|  | North |\n| --- | --- |\n| May | 3 |\n| June | 4 |" in imported.markdown
    assert "> Say it loud." in imported.markdown
    assert imported.left_out == {"hidden slides": 1}


def test_a_filled_pdf_form_has_its_values_beside_their_labels(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "form.pdf"))
    form = canvas.acroForm
    canvas.drawString(50, 800, "Name:")
    form.textfield(name="n", value="Berta Quill", x=120, y=795, width=150, height=18)
    canvas.drawString(320, 800, "Town:")
    form.textfield(name="t", value="Bergen", x=370, y=795, width=150, height=18)
    form.checkbox(name="a", checked=True, x=50, y=760, size=14)
    canvas.drawString(70, 763, "I agree")
    form.checkbox(name="b", checked=False, x=50, y=740, size=14)
    canvas.drawString(70, 743, "Send me mail")
    form.choice(name="c", value="green", options=["red", "green"], x=50, y=700, width=90, height=18)
    canvas.save()
    shown = convert_bytes("form.pdf", (tmp_path / "form.pdf").read_bytes()).markdown
    assert "Name: Berta Quill" in shown
    assert "Town: Bergen" in shown
    assert "[x] I agree" in shown
    assert "[ ] Send me mail" in shown
    assert "green" in shown


def test_a_table_over_two_pages_of_a_pdf_is_one_table(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "t.pdf"))
    for first in (0, 20):
        for number in range(20):
            canvas.drawString(50, 800 - 14 * number, f"Part-{first + number}" if first + number else "Name")
            canvas.drawString(300, 800 - 14 * number, f"{first + number}.5" if first + number else "Price")
        canvas.showPage()
    canvas.save()
    shown = convert_bytes("t.pdf", (tmp_path / "t.pdf").read_bytes()).markdown
    assert shown.count("| --- |") == 1
    assert "| Part-39 | 39.5 |" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("---\nSome words before.\nMore: of them.\n---\n\nText.\n", "Some words before."),
        ("---\n\nJust prose between rules.\n\n---\n\nText.\n", "Just prose between rules."),
        ("---\ndate: 2024-02-30\n---\n\nText.\n", "Text."),
    ],
)
def test_front_matter_that_is_none_is_text_and_a_date_that_is_none_a_value(text: str, shown: str) -> None:
    imported = convert_bytes("a.md", text.encode())
    assert shown in imported.markdown
    assert "Text." in imported.markdown


def test_who_may_view_a_document_is_never_taken_for_prose() -> None:
    with pytest.raises(Exception, match="front matter"):
        convert_bytes("a.md", b"---\nSome words: [\nview: [group:qa]\nmore words\n---\nText.\n")


def test_xml_that_is_broken_says_so() -> None:
    document, data = docx.Document(), io.BytesIO()
    document.save(data)
    out = io.BytesIO()
    with zipfile.ZipFile(data) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, b"<w:document" if name == "word/document.xml" else old.read(name))
    with pytest.raises(Exception, match=r"a broken \.docx file"):
        convert_bytes("a.docx", out.getvalue())


@pytest.mark.parametrize(
    "around", ["<div>", "<ul><li>", "<b>", "<blockquote>", "<table><tr><td>", "<span>", "<details>"], ids=str
)
def test_what_is_nested_without_end_keeps_its_words(around: str) -> None:
    """Browsers end it somewhere, too; what is beyond stands beside what it was in."""
    made = convert_bytes("a.html", f"<p>before</p>{f'{around}within ' * 600}deepest".encode())
    words = made.markdown.replace("*", " ").replace(">", " ").split()
    assert (words.count("within"), words.count("before"), words[-1]) == (600, 1, "deepest")
    assert made.left_out["levels of nesting"] >= 400


def strict(data: bytes) -> bytes:
    """Return an Office file as programs save it in the strict variant."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as rewritten:
        for name in archive.namelist():
            names = re.sub(rb"http://schemas\.openxmlformats\.org/(\w+)/2006/", rb"http://purl.oclc.org/ooxml/\1/",
                           archive.read(name))  # fmt: skip
            rewritten.writestr(name, archive.read(name) if name == "[Content_Types].xml" else names)
    return out.getvalue()


def of_each_office() -> dict[str, bytes]:
    document, book, deck = docx.Document(), openpyxl.Workbook(), pptx.Presentation()
    document.add_heading("Torque", 1)
    document.add_paragraph("Tighten the rotor to 12 Nm.")
    book.active.append(["Torque", "of the rotor"])
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = "Torque of the rotor"
    made = {"docx": io.BytesIO(), "xlsx": io.BytesIO(), "pptx": io.BytesIO()}
    for office, kind in ((document, "docx"), (book, "xlsx"), (deck, "pptx")):
        office.save(made[kind])
    return {kind: data.getvalue() for kind, data in made.items()}


def test_the_strict_variant_of_office_files_reads_as_the_usual_one() -> None:
    for kind, data in of_each_office().items():
        assert b"purl.oclc.org" in zipfile.ZipFile(io.BytesIO(strict(data))).read("_rels/.rels")
        usual = convert_bytes(f"a.{kind}", data)
        assert convert_bytes(f"a.{kind}", strict(data)) == usual
        assert "otor" in usual.markdown


def test_a_slide_with_a_linked_picture_is_read(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "The rotor"
    picture = slide.shapes.add_picture(io.BytesIO(bytes.fromhex(DOT)), 0, 0)
    picture._element.nvPicPr.cNvPr.set("descr", "")
    blip = next(part for part in picture._element.iter() if part.tag.endswith("}blip"))
    (name,) = [name for name in blip.attrib if name.endswith("}embed")]
    blip.set(name.replace("embed", "link"), blip.attrib.pop(name))
    data = io.BytesIO()
    deck.save(data)
    imported = convert_bytes("a.pptx", data.getvalue())
    assert ("The rotor" in imported.markdown, imported.left_out) == (True, {"pictures without text": 1})


def test_accents_that_a_pdf_prints_over_letters_are_one_sign_with_them() -> None:
    data = io.BytesIO()
    canvas = Canvas(data)
    canvas.setFont("Helvetica", 12)
    # As TeX does: the accent, then as much back as lets the letter stand below it.
    line = r"(k) -111 (\250) 444 (onnen und l\264eau, it\264s, ) -111 (\264) 444 (ecole)"
    canvas._code.append(f"BT /F1 12 Tf 72 700 Td [{line}] TJ ET")
    canvas.save()
    assert convert_bytes("a.pdf", data.getvalue()).markdown == "können und l´eau, it´s, école\n"


def drawn(*texts: tuple[float, str], font: str = "Helvetica", page: str = "") -> str:
    """Return the Markdown of a PDF with texts on one line, each begun at a place of its own, and more on its page."""
    data = io.BytesIO()
    canvas = Canvas(data)
    canvas.setFont(font, 12)
    (name,) = canvas._code[-1].split()[1:2]
    canvas._code += [f"BT {name} 12 Tf {left} 700 Td ({text}) Tj ET" for left, text in texts]
    canvas._code.append(page.replace("FONT", f"{name} 12 Tf"))
    canvas.save()
    return convert_bytes("a.pdf", data.getvalue()).markdown


def test_accents_that_a_pdf_prints_after_their_lines_are_put_over_their_letters() -> None:
    assert drawn((72, "fur die Prufung"), (76.5, r"\250"), (121.8, r"\250")) == "für die Prüfung\n"
    # The place where an accent was is no space in a word.
    assert drawn((72, "fur die Pru"), (121.8, r"\250"), (127.4, "fung")) == "fur die Prüfung\n"
    assert drawn((72, "fur die Pru"), (121.8, r"\250"), (131, "fung")) == "fur die Prü fung\n"
    assert drawn((72, "fur"), (90, r"\250")) == "fur ¨\n"  # over nothing


def test_letters_in_columns_of_a_pdf_are_no_word() -> None:
    assert drawn(page="BT FONT 20 Tc 72 700 Td (ABCD) Tj 160 0 Td (EFGH) Tj ET").split() == list("ABCDEFGH")


def test_ligatures_of_older_fonts_of_tex_are_their_letters() -> None:
    assert drawn((72, r"a di\016cult \014le, di\013erent in\015ow")) == "a difficult file, different inflow\n"


def test_a_narrow_digit_ends_no_word() -> None:
    page = "BT FONT 72 680 Td (some) Tj 40 0 Td (words) Tj ET"  # here a distance is the space
    assert drawn((72, "Notes for X11R7.11"), font="Times-Roman", page=page) == "Notes for X11R7.11 some words\n"


def test_words_of_a_pdf_that_lead_up_stay_whole() -> None:
    up = "BT FONT 0 1 -1 0 200 72 Tm (a billable hill) Tj ET BT FONT 72 40 Td (some) Tj 40 0 Td (words) Tj ET"
    assert drawn(page=up).split() == "a billable hill some words".split()


def test_what_stands_around_the_body_of_a_page_is_in_it_as_in_a_browser() -> None:
    markup = b"Notice<html><head>{% if x %}<title>T</title></head><body><p>one</p></body></html><p>after</p> end"
    shown = convert_bytes("a.html", markup).markdown
    assert re.findall(r"\w+", shown) == ["Notice", "if", "x", "one", "after", "end"]


def test_options_that_are_not_chosen_are_counted() -> None:
    imported = convert_bytes(
        "a.html", b"<p>Plan</p><select><option>Small<option selected>Large</select><select multiple><option>X</select>"
    )
    assert imported.markdown.split() == ["Plan", "Large"]
    assert imported.left_out == {"options that aren't chosen": 2}


def test_a_button_within_a_button_costs_no_page() -> None:
    imported = convert_bytes("a.html", b"<button>Go <span role=button>on</span></button><p>Text.</p>")
    assert imported.markdown == "Text.\n"


def test_calls_of_templates_and_snippets_in_markdown_are_counted() -> None:
    text = '# A\n\n{% include "x.html" %}\n\nSee {{< ref "b" >}}. <!-- no -->\n\n--8<-- "c.md"\n'
    assert convert_bytes("a.md", text.encode()).left_out == {"calls of templates": 2, "snippets of other files": 1}


def test_what_the_master_of_slides_says_is_there_once_and_an_embedded_object_is_counted() -> None:
    deck = pptx.Presentation()
    for _ in range(2):
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        slide.shapes.add_textbox(0, 0, 100, 100).text_frame.text = "Rinse"
    slide.shapes.add_ole_object(io.BytesIO(b"PK"), "Excel.Sheet.12", 0, 0, 100, 100)
    master = deck.slide_masters[0].shapes._spTree
    box = deepcopy(slide.shapes[0]._element)
    master.append(box)
    next(part for part in box.iter() if part.tag.endswith("}t")).text = "Confidential"
    data = io.BytesIO()
    deck.save(data)
    imported = convert_bytes("a.pptx", data.getvalue())
    assert imported.markdown.count("Confidential") == 1
    assert imported.left_out == {"embedded objects": 1}
