from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from pathlib import Path

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from reportlab.pdfgen.canvas import Canvas

from hive_agents.readers import ImportFailure
from hive_agents.readers.conversion import convert


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_markdown_stays_as_it_is(tmp_path: Path) -> None:
    body = "# Keys\n\n*  odd   spacing*\n"
    assert convert(write(tmp_path, "a.md", body)).markdown == body


def test_front_matter_of_markdown_is_taken_from_the_body(tmp_path: Path) -> None:
    imported = convert(write(tmp_path, "a.markdown", "---\ntitle: Keys\nowner: dana\n---\nText.\n"))
    assert (imported.title, imported.metadata, imported.markdown) == (
        "Keys",
        {"title": "Keys", "owner": "dana"},
        "Text.\n",
    )


def test_plain_text_in_utf_16_is_read_by_its_mark(tmp_path: Path) -> None:
    assert convert(write(tmp_path, "a.txt", "Über\r\nuns".encode("utf-16"))).markdown == "Über\nuns\n"


def test_html_gives_its_main_part_without_scripts_and_navigation(tmp_path: Path) -> None:
    page = """<html><head><title>Site</title><style>p {}</style></head><body><nav>Home</nav>
    <main><h1>Rotate a key</h1><p>Use <code>POST /keys</code> &amp; wait for a <b>200</b>.</p>
    <script>track()</script><ul><li>one<ul><li>two</li></ul></li></ul>
    <div class="highlight-python"><pre>x = 1\n# no heading</pre></div>
    <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
    <p>5 &lt;b&gt; 6, <a href="https://example.org/x">more</a>, <a href="../y.html">near</a></p></main>
    <footer>Imprint</footer></body></html>"""
    imported = convert(write(tmp_path, "a.html", page))
    assert imported.title == "Rotate a key"
    assert imported.markdown == (
        "# Rotate a key\n\nUse `POST /keys` & wait for a **200**.\n\n- one\n  - two\n\n"
        "```python\nx = 1\n# no heading\n```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n"
        "5 \\<b> 6, [more](https://example.org/x), near\n"
    )


def test_html_tables_have_one_head_and_rows_of_one_width(tmp_path: Path) -> None:
    page = """<table><caption>Limits</caption><thead><tr><th colspan="2">Plan</th></tr></thead>
    <tbody><tr><td><p>free</p></td><td>1 | 2<br>3</td></tr>
    <tr><td></td><td>x</td></tr></tbody></table>"""
    assert convert(write(tmp_path, "a.html", page)).markdown == (
        "Limits\n\n| Plan |  |\n| --- | --- |\n| free | 1 \\| 2 3 |\n| | x |\n"
    )


def test_html_is_read_in_the_encoding_that_it_declares(tmp_path: Path) -> None:
    page = '<html><head><meta charset="iso-8859-1"></head><body><p>Prüfung</p></body></html>'
    assert convert(write(tmp_path, "a.htm", page.encode("latin-1"))).markdown == "Prüfung\n"


def test_docx_keeps_headings_lists_and_tables(handbook_docx: Path) -> None:
    imported = convert(handbook_docx)
    assert imported.title == "Freezer handbook"
    assert imported.markdown.startswith(
        "# Freezer handbook\n\n# Alarms\n\nThe alarm sounds at -70 °C.\n\n- Check the door\n"
    )
    assert "| Shelf | Owner |\n| --- | --- |\n| A \\| 1 | Dana |" in imported.markdown


def test_the_table_of_contents_of_a_docx_is_no_text_of_it(handbook_docx: Path) -> None:
    document = docx.Document(str(handbook_docx))
    for name, shown in (("TOC Heading", "Contents"), ("toc 1", "Alarms\t4"), ("table of figures", "Figure 1\t7")):
        if name not in [style.name for style in document.styles]:
            document.styles.add_style(name, WD_STYLE_TYPE.PARAGRAPH)
        document.add_paragraph(shown, style=name)
    document.save(str(handbook_docx))
    markdown = convert(handbook_docx).markdown
    assert "The alarm sounds" in markdown
    assert not any(word in markdown for word in ("Contents", "Figure", "4"))


def test_the_lines_that_a_pdf_repeats_and_its_contents_are_counted(report_pdf: Path) -> None:
    assert convert(report_pdf).left_out == {"headers, footers and page numbers": 1}


def test_pptx_has_a_heading_for_each_slide(deck_pptx: Path) -> None:
    imported = convert(deck_pptx)
    assert imported.title == "Cleaning plan"
    assert imported.markdown == (
        "## Cleaning plan\n\n- Rinse\n  - with water\n\n> **Notes**\n>\n> Mention the new pump.\n\n"
        "## Slide 2\n\n| Step | Minutes |\n| --- | --- |\n| Rinse | 5 |\n"
    )


def test_pdf_lines_become_paragraphs_and_no_heading_is_invented(report_pdf: Path) -> None:
    imported = convert(report_pdf)
    assert imported.title == "Annual report"
    assert imported.markdown == (
        "\\# of rotors: two\n\nThe centrifuge ran for a thousand hours this year, which is more than its maintenance "
        "plan foresees, so that the rotor has to be replaced in spring by us.\n\nSecond page.\n"
    )


def test_xhtml_is_html(tmp_path: Path) -> None:
    page = '<?xml version="1.0" encoding="utf-8"?><html><body><p>a|b</p></body></html>'
    assert convert(write(tmp_path, "a.html", page)).markdown == "a|b\n"


@pytest.mark.parametrize("kind", ["docx", "pptx", "pdf", "html", "rst", "markdown", "text"])
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    fixtures = {"docx": "handbook_docx", "pptx": "deck_pptx", "pdf": "report_pdf"}
    text = "---\na: 1\n---\n<p>x\n\n.. note::\n\n   `a <b>`_ |c|\n\n=== ===\n1   2\n=== ===\n</p>"
    whole = request.getfixturevalue(fixtures[kind]).read_bytes() if kind in fixtures else text.encode()
    chance = random.Random(0)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with contextlib.suppress(ImportFailure):
            convert(write(tmp_path, "damaged", bytes(damaged[: chance.randint(1, len(damaged))])), kind)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "the file is empty"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff", "binary data"),
        ("a.txt", "Müller".encode("latin-1"), "not valid UTF-8 (line 1); save it as UTF-8"),
        ("a.md", b"---\ntitle: [\n---\n", "not valid YAML"),
        ("a.md", b"---\ntitle: x\n\nText", "no closing ---"),
        ("a.md", b"---\n- x\n---\nText", "its front matter is not a list of `key: value` lines"),
        (
            "a.md",
            b"---\nview: [a]\nview: [b]\n---\nText",
            'the key "view" stands there twice (line 3); keep one of them',
        ),
        ("a.md", b"---\na: &x [1]\nb: *x\n---\nText", "its front matter can't use YAML aliases (line 3)"),
        ("a.md", b"| |  |\n| --- | --- |\n| |  |\n", "no text in it"),
        ("a.html", b"just words", "holds no HTML"),
        ("a.html", b"<html><body><nav>x</nav></body></html>", "no text in it"),
        ("a.pdf", b"hello", "not a PDF"),
        ("a.pdf", b"%PDF-1.7\nbroken", "broken PDF"),
        ("a.docx", b"PK\x03\x04 broken", "broken .docx"),
        ("a.pptx", b"hello", "broken .pptx"),
        ("a.docx", bytes.fromhex("d0cf11e0a1b11ae1") + b"old", "password"),
        ("a.xyz", b"hello", ".xyz: not a supported kind of file"),
        ("ls.1", b".TH LS 1", ".1 (a source of `man`: import what `man` prints): not a supported kind of file"),
        ("libc.so.1", b"hello", ".1: not a supported kind of file"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(ImportFailure) as raised:
        convert(write(tmp_path, name, content))
    assert message in str(raised.value)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ImportFailure, match="no such file"):
        convert(tmp_path / "gone.md")


def test_an_encrypted_pdf_asks_for_a_copy_without_a_password(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "secret.pdf"), encrypt="secret")
    canvas.drawString(50, 800, "Nobody reads this.")
    canvas.save()
    with pytest.raises(ImportFailure, match="encrypted: save a copy without a password"):
        convert(tmp_path / "secret.pdf")


def pdf_of(path: Path, pages: list[list[str]], bookmarks: list[tuple[int, str, int]] = []) -> Path:  # noqa: B006
    """Write a PDF of lines; a bookmark is (page, text, level)."""
    canvas = Canvas(str(path))
    for number, lines in enumerate(pages):
        for page, text, level in bookmarks:
            if page == number:
                canvas.bookmarkPage(text)
                canvas.addOutlineEntry(text, text, level)
        for place, line in enumerate(lines):
            canvas.drawString(50, 800 - 14 * place, line)
        canvas.showPage()
    canvas.save()
    return path


def test_the_bookmarks_of_a_pdf_are_its_headings(tmp_path: Path) -> None:
    pages = [["Chapter 1 Cleaning", "1.1 The vessel", "Rinse it twice."], ["2 Storage", "Keep it cold."]]
    bookmarks = [(0, "Cleaning", 0), (0, "The vessel", 1), (1, "Storage", 0)]
    imported = convert(pdf_of(tmp_path / "a.pdf", pages, bookmarks))
    assert imported.markdown == (
        "# Chapter 1 Cleaning\n\n## 1.1 The vessel\n\nRinse it twice.\n\n# 2 Storage\n\nKeep it cold.\n"
    )


def test_numbered_sections_are_the_headings_of_a_pdf_without_bookmarks(tmp_path: Path) -> None:
    pages = [
        ["3.1. Purpose", "The folder holds what the host needs, and nothing that another one has."],
        [
            "3.2 Options",
            "1.5 Litres are enough.",
            "3.2.1 /etc : of this host",
            "Each program has its own file below it.",
        ],
        ["4.1 Storage", "Keep it cold."],
    ]
    assert convert(pdf_of(tmp_path / "a.pdf", pages)).markdown == (
        "## 3.1. Purpose\n\nThe folder holds what the host needs, and nothing that another one has.\n\n"
        "## 3.2 Options\n\n1.5 Litres are enough.\n\n### 3.2.1 /etc : of this host\n\n"
        "Each program has its own file below it.\n\n## 4.1 Storage\n\nKeep it cold.\n"
    )


def test_numbers_that_do_not_ascend_are_no_sections_of_a_pdf(tmp_path: Path) -> None:
    pages = [["9.5 Mean", "1.2 Least", "7.4 Most", "2.1 Other"]]
    assert "#" not in convert(pdf_of(tmp_path / "a.pdf", pages)).markdown


def test_the_header_of_each_page_and_the_dots_of_a_table_of_contents_are_no_text_of_a_pdf(tmp_path: Path) -> None:
    pages = [["Contents", "1.1 The vessel " + ". " * 30 + "2"]] + [
        [f"Handbook {number} / 9", f"Sentence number {number} of the handbook.", "What comes last."]
        for number in (10, 11, 12, 13, 14)
    ]
    markdown = convert(pdf_of(tmp_path / "a.pdf", pages)).markdown
    assert markdown.startswith("Contents\n\n1.1 The vessel\n\nSentence number 10 of the handbook.")
    assert "Handbook" not in markdown


def test_words_that_only_stand_apart_in_a_pdf_are_words(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"))
    place = 50.0
    for word in ("where", "your", "package", "goes"):
        canvas.drawString(place, 800, word)
        place += canvas.stringWidth(word) + 0.25 * 12
    canvas.save()
    assert convert(tmp_path / "a.pdf").markdown == "where your package goes\n"


def test_a_space_that_a_pdf_calls_four_signs_ends_no_line(tmp_path: Path) -> None:
    shown = b"BT /F 12 Tf 50 700 Td (one all~day session) Tj 0 -14 Td (of the class) Tj ET"
    names = b"1 begincodespacerange <00> <ff> endcodespacerange "
    names += b"2 beginbfchar <20> <0009000d002000a0> <7e> <002d00ad2010> endbfchar"
    font = b"/Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 5 0 R"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R"
        b" /Resources << /Font << /F 6 0 R >> >> >>",
        b"<< /Length %d >> stream\n%s\nendstream" % (len(shown), shown),
        b"<< /Length %d >> stream\n%s\nendstream" % (len(names), names),
        b"<< %s >>" % font,
    ]
    body = b"".join(b"%d 0 obj %s endobj\n" % (number, one) for number, one in enumerate(objects, start=1))
    written = write(tmp_path, "a.pdf", b"%PDF-1.4\n" + body + b"trailer << /Root 1 0 R >>\n%%EOF")
    assert convert(written).markdown == "one all-day session of the class\n"


def test_a_pdf_without_a_text_layer_asks_for_ocr(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "scan.pdf"))
    canvas.rect(10, 10, 50, 50)
    canvas.save()
    with pytest.raises(ImportFailure, match="no text layer"):
        convert(tmp_path / "scan.pdf")


def test_a_zip_archive_that_is_no_docx_is_refused(tmp_path: Path, handbook_docx: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ImportFailure, match=r"no \.docx file"):
        convert(tmp_path / "a.docx")


def test_a_missing_extra_names_the_command_that_installs_it(report_pdf: Path, tmp_path: Path) -> None:
    """In a process of its own, where the library can't be found."""
    (tmp_path / "pypdfium2.py").write_text("raise ModuleNotFoundError('No module', name='pypdfium2')")
    program = (
        f"import sys, pathlib; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from hive_agents.readers import ImportFailure\nfrom hive_agents.readers.conversion import convert\n"
        "try: convert(pathlib.Path(sys.argv[1]))\n"
        "except ImportFailure as failure: print(failure)"
    )
    run = subprocess.run([sys.executable, "-c", program, str(report_pdf)], capture_output=True, text=True, check=True)
    assert "pip install 'hive-agents[import]'" in run.stdout


def test_nothing_heavy_is_loaded_before_a_file_needs_it() -> None:
    program = (
        "import sys, hive_agents.readers\n"
        "print(sorted({'bs4', 'docutils', 'mammoth', 'markdownify', 'pptx', 'pypdfium2'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
