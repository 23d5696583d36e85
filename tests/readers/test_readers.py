"""What each kind of file becomes: nothing that a reader sees is lost, nothing that nobody sees gets in."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path, PurePosixPath
from textwrap import dedent

import pytest

from hive_agents.documents import Collection, parse_document
from hive_agents.readers import Imported, ImportFailure
from hive_agents.readers.conversion import convert_bytes
from hive_agents.sync.placing import document_text


def read(name: str, content: str | bytes) -> Imported:
    return convert_bytes(name, content if isinstance(content, bytes) else dedent(content).encode())


def test_plain_text_holds_no_markdown() -> None:
    text = read("a.txt", "# name: a comment\n1986. A good year\n- a\n* b\n\n> quoted, and <b> and __init__\n").markdown
    assert "\n#" not in f"\n{text}"
    assert "\n>" not in text
    assert "\\# name: a comment" in text
    assert "\\<b>" in text


def test_a_line_of_plain_text_is_a_heading_only_where_it_is_underlined_or_numbered() -> None:
    text = """\
        User's guide
        ============

        Some words in a paragraph
        that goes on.

        INTRODUCTION

        2.1 Installing it

        Words.

        Sub part
        --------
        Right below.
        """
    imported = read("a.txt", text)
    assert imported.title == "User's guide"
    assert imported.markdown == (
        "# User's guide\n\nSome words in a paragraph\nthat goes on.\n\nINTRODUCTION\n\n"
        "## 2.1 Installing it\n\nWords.\n\n"
        "## Sub part\n\nRight below.\n"
    )


def test_a_page_of_a_manual_has_its_sections() -> None:
    page = (
        "LS(1)                 User Commands                 LS(1)\n\nNAME\n       ls - list a direc\u2010\n"
        "       tory\n\nEXIT STATUS\n       0  if OK\n\n   Minor problems\n       1  a file is missing\n\nBUGS none\n"
    )
    shown = read("ls.txt", page).markdown
    assert [line for line in shown.splitlines() if line[:1] == "#"] == ["# NAME", "# EXIT STATUS", "## Minor problems"]
    assert "list a directory" in shown
    assert "BUGS none" in shown


def test_capitals_are_a_section_only_on_a_page_of_a_manual() -> None:
    assert "#" not in read("a.txt", "WARNING\n    the floor is wet\n\nNOTE\n    mind the step\n").markdown


def test_the_bar_beside_a_class_s_text_is_left_out() -> None:
    shown = read("box.txt", "class Box\n |  A box.\n |  \n |  open(self)\n |      Open it.\n\na | b\n").markdown
    assert "|  " not in shown
    assert "Open it." in shown
    assert "a | b" in shown.replace("\\", "")


def test_columns_and_code_of_plain_text_keep_their_lines() -> None:
    text = "Options:\n\n  -a        all of them\n  -v        more words\n\n    if (x) {\n        y();\n    }\n"
    shown = read("README", text).markdown
    assert "```\n  -a        all of them\n  -v        more words\n```" in shown
    assert "```\n    if (x) {\n        y();\n    }\n```" in shown


def test_what_stands_between_scissors_is_code_and_ends_no_section() -> None:
    cut = "---%<-----\n  service lmtp {\n\n    port = 24\n  }\n---%<-----\n"
    shown = read("a.txt", f"Use\n===\n\nOne\n---\nWrite:\n{cut}and\n\nTwo\n---\nwords\n").markdown
    assert "Write:\n\n```\nservice lmtp {\n\n  port = 24\n}\n```\n\nand\n\n## Two\n\nwords" in shown
    alone = read("a.txt", "one\n-- >8 --\ntwo\n").markdown
    assert "one" in alone
    assert "\ntwo" in alone


def test_a_name_in_capitals_behind_another_is_that_of_a_text() -> None:
    assert read("pigeonhole.NEWS.gz", gzip.compress(b"Words.\n")).markdown == "Words.\n"
    with pytest.raises(ImportFailure, match="not a supported kind"):
        read("package.install", "usr/bin")


def test_a_rule_alone_is_no_text() -> None:
    assert read("a.txt", "one\n\n-----------\n\ntwo\n").markdown == "one\n\ntwo\n"


def test_lists_of_plain_text_are_lists() -> None:
    shown = read("NEWS", "* one that\n  goes on\n* two\n  - inner\n\n1. first\n2. second\n").markdown
    assert shown == "- one that\n  goes on\n- two\n  - inner\n\n1. first\n2. second\n"


@pytest.mark.parametrize("name", ["changelog.gz", "changelog.Debian.gz", "notes.txt.gz"])
def test_packed_text_is_unpacked(name: str) -> None:
    assert read(name, gzip.compress(b"Words.\n")).markdown == "Words.\n"


def test_what_unpacks_to_too_much_is_refused() -> None:
    with pytest.raises(ImportFailure, match="unpacks to over"):
        read("a.txt.gz", gzip.compress(b"a" * 60_000_000, 1))


def test_text_with_few_signs_of_an_old_encoding_is_read() -> None:
    text = "A changelog of a hundred lines, all of them ASCII.\n" * 20 + "Thanks to Jürgen.\n"
    assert "Thanks to Jürgen." in read("changelog", text.encode("latin-1")).markdown


def test_overstrikes_and_colours_of_a_terminal_are_left_out() -> None:
    assert read("a.txt", b"N\x08NA\x08AM\x08ME\x08E \x1b[1mbold\x1b[0m\n").markdown == "NAME bold\n"


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ('+++\ntitle = "Keys"\nversion = 3.10\nday = 2024-01-05\n+++\n', {"version": "3.10"}),
        ('{\n "title": "Keys",\n "version": 3.10\n}\n\n', {"version": "3.10"}),
        ("---\ntitle: Keys\nversion: 3.10\ncode: 007\nland: NO\nat: 12:30\n---\n", {"code": "007", "land": "NO"}),
    ],
)
def test_front_matter_of_any_syntax_keeps_its_values_text(front: str, expected: dict[str, str]) -> None:
    imported = read("a.md", f"{front}Text.\n")
    assert imported.markdown == "Text.\n"
    assert imported.title == "Keys"
    assert imported.metadata.items() >= {"version": "3.10", **expected}.items()


def test_a_text_that_begins_with_a_brace_is_no_front_matter() -> None:
    assert read("a.md", '{"open": \n').markdown == '{"open": \n'


def test_templates_calls_stay_out_and_the_text_between_them_in() -> None:
    text = """\
        {{< note title="Careful" >}}
        Keep **this**.
        {{< /note >}}

        A {{% ref "x" %}}link, `{{< code >}}`. <!-- for editors -->

        ```
        {{< figure >}}
        ```
        """
    assert (
        read("a.md", text).markdown
        == "Careful\nKeep **this**.\n\nA link, `{{< code >}}`. \n\n```\n{{< figure >}}\n```\n"
    )


def test_admonitions_and_tabs_are_paragraphs_below_their_titles() -> None:
    text = """\
        # Pairing {#pairing}
        How to pair
        {: .subtitle }

        !!! warning

            The hub is *hot*.

            | button | does |
            |---|---|
            | red | stops |

        ??? example "By hand"
            === "Linux"
                ```yaml
                a:
                    b: 1
                !!! tip
                    stays
                ```
            === "macOS"
                Press it.

        1. First.

            !!! note ""
                In a list.

        A link[^1](https://example.org){:target="_blank"}
        --8<-- "includes/footer.md"
        Not !!! one.

        !!! info "Alone"

        After it.

        !!! neither
        Nor this {#if open}.

        Heading
        ===

            code {x}
        """
    assert (
        read("a.md", text).markdown
        == """\
# Pairing
How to pair


**Warning**

The hub is *hot*.

| button | does |
|---|---|
| red | stops |

**By hand**

**Linux**

```yaml
a:
    b: 1
!!! tip
    stays
```
**macOS**

Press it.

1. First.

    In a list.

A link[^1](https://example.org)
Not !!! one.

**Alone**

After it.

!!! neither
Nor this {#if open}.

Heading
===

    code {x}
"""
    )


def test_mdx_loses_its_code_and_no_words() -> None:
    text = """\
        ---
        title: Tabs
        ---
        import Tabs from '@theme/Tabs';
        export const x = {a: 1};

        # Install

        <Tabs groupId="os" default={{a: 1}}>
          <TabItem value="apt" label="Debian">

        Run `apt install <Pkg>`.

          </TabItem>
        </Tabs>

        ```jsx
        import React from 'react';
        <App />
        ```
        """
    imported = read("a.mdx", text)
    assert imported.metadata == {"title": "Tabs"}
    words = imported.markdown
    assert "theme" not in words
    assert "groupId" not in words
    assert "Debian" in words
    assert "Run `apt install <Pkg>`." in words
    assert "```jsx\nimport React from 'react';\n<App />\n```" in words


def test_a_notebook_is_its_text_its_code_and_what_was_printed() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Fit\n", "Words ![p](data:image/png;base64,AAAA)"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["long"]},
            ],
        },
    ]
    about = {"language_info": {"name": "python"}}
    shown = read("a.ipynb", json.dumps({"cells": cells, "metadata": about, "nbformat": 4})).markdown
    assert shown == (
        "# Fit\nWords (Image: p)\n\n```python\nprint(1)\n```\n\n"
        "```\n1\n```\n\n```\n<Figure>\n```\n\n```\nValueError: no\n```\n"
    )
    old = {"worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Old"}]}]}
    assert read("a.ipynb", json.dumps(old)).markdown == "## Old\n"


@pytest.mark.parametrize(
    ("sources", "title"),
    [
        (
            [("code", "# no heading"), ("markdown", "Some words\n\n# The **fit** of [a line](x.ipynb) #")],
            "The fit of a line",
        ),
        ([("markdown", "```\n# code\n```\n<a id='top'></a>\n## <b>Second</b> level")], "Second level"),
        ([("markdown", "Underlined\n==========\n")], "Underlined"),
        ([("markdown", "no heading"), ("code", "1")], None),
    ],
)
def test_a_notebook_is_called_by_its_first_heading(sources: list[tuple[str, str]], title: str | None) -> None:
    cells = [{"cell_type": kind, "source": text} for kind, text in sources]
    assert read("a.ipynb", json.dumps({"cells": cells})).title == title
    named = {"cells": cells, "metadata": {"title": "Its own"}}
    assert read("a.ipynb", json.dumps(named)).title == "Its own"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cells": 3}', '{"cells": [1]}', "not json"])
def test_what_is_no_notebook_says_so(content: str) -> None:
    with pytest.raises(ImportFailure):
        read("a.ipynb", content)


def test_asciidoc_keeps_its_structure() -> None:
    text = """\
        = The guide
        Dana <dana@example.org>
        :version: 3.10

        == Setting up

        Version {version}, see <<keys,the keys>> and https://example.org[the site].

        * one
        ** two

        [source,sh]
        ----
        # no heading <1>
        ----

        WARNING: Hot.

        [cols="1,1"]
        |===
        |Name |Value

        |a |1
        2+|both
        |===

        // nobody reads this
        include::other.adoc[]
        """
    imported = read("a.adoc", text)
    assert imported.title == "The guide"
    assert "## Setting up\n\nVersion 3.10, see the keys and [the site](https://example.org)." in imported.markdown
    assert "- one\n  - two" in imported.markdown
    assert "```sh\n# no heading\n```" in imported.markdown
    assert "> **Warning**: Hot." in imported.markdown
    assert "| Name | Value |\n| --- | --- |\n| a | 1 |\n| both |  |" in imported.markdown
    assert "nobody" not in imported.markdown


@pytest.mark.parametrize(
    ("byline", "metadata"),
    [
        ("Dana Team <dana@example.org>", {"author": "Dana Team"}),
        ("Dana Roe <d@example.org>; Lee O'Hara", {"author": "Dana Roe, Lee O'Hara"}),
        ("Dana Roe\nv1.2, 2024-05-01: first", {"author": "Dana Roe", "revnumber": "1.2", "revdate": "2024-05-01"}),
    ],
)
def test_authors_of_asciidoc_are_metadata(byline: str, metadata: dict[str, str]) -> None:
    imported = read("a.adoc", f"= Guide\n{byline}\n:icons: font\n\nTurn it.\n\n<<<\n\n'''\n\nLeave it.\n")
    assert imported.markdown == "# Guide\n\nTurn it.\n\nLeave it.\n"
    assert imported.metadata == metadata


@pytest.mark.parametrize("text", ["Turn it on, then wait.", "v2 of this guide is out", "Keys: see below"])
def test_a_sentence_below_a_title_of_asciidoc_is_text(text: str) -> None:
    assert read("a.adoc", f"= Guide\n{text}\n").markdown == f"# Guide\n\n{text}\n"


def test_code_of_asciidoc_has_the_signs_that_it_refers_to() -> None:
    text = "= Keys\n\nType `{REF:&lt;KEY&gt;}` &amp; wait.\n\n----\na &lt; b\n----\n"
    markdown = read("a.adoc", text).markdown
    assert "Type `{REF:<KEY>}` &amp; wait." in markdown
    assert "```\na &lt; b\n```" in markdown


@pytest.mark.parametrize("anchor", ["[[keys]]", "[[keys,The keys]]", "(((key, turning)))", "[#keys]"])
def test_an_anchor_before_a_heading_of_asciidoc_hides_nothing(anchor: str) -> None:
    text = f"= Guide\n\nText.\n\n{anchor}\n== Keys\n\n{anchor}\n.A title\nimage::a.png[Two keys]\n\n{anchor}\nTurn.\n"
    expected = "# Guide\n\nText.\n\n## Keys\n\n**A title**\n\n(Image: Two keys)\n\nTurn.\n"
    assert read("a.adoc", text).markdown == expected


def test_a_part_of_an_asciidoc_book_is_called_by_its_heading() -> None:
    imported = read("rebasing.asc", "[[rebasing]]\n=== Rebasing\n\nWords.\n\n==== Deeper\n\n===== Still\n")
    assert imported.title == "Rebasing"
    assert imported.markdown == "# Rebasing\n\nWords.\n\n## Deeper\n\n### Still\n"
    assert read("a.adoc", "Words.\n\n=== Later\n").markdown == "Words.\n\n### Later\n"
    assert read("a.adoc", "=== Deep\n\n== Up\n").markdown == "### Deep\n\n## Up\n"


@pytest.mark.parametrize("mark", ["|===", "|========"])
def test_a_cell_of_asciidoc_may_go_on_in_the_next_line(mark: str) -> None:
    text = f"{mark}\n|Name |Value\n\n|a\n|one\nand more\n{mark}\n"
    assert read("a.adoc", text).markdown == "| Name | Value |\n| --- | --- |\n| a | one and more |\n"


WESTERN = {
    "French": "Où étiez-vous l'été dernier ? Nous avons bientôt achevé la première partie du côté « français ». ",
    "German": "Größe und Maß der Straßenbahn müssen für die Prüfung natürlich überall gleich groß sein. ",
    "Spanish": "El año pasado la niña comió jamón; ¡qué corazón! ¿Dónde está el señor de la administración? ",
}
OTHERS = {
    "iso8859-2": "Zażółć gęślą jaźń: wszyscy użytkownicy mogą łatwo zmienić hasło w swoich ustawieniach. ",
    "cp1250": "Příliš žluťoučký kůň úpěl ďábelské ódy a uživatel může změnit heslo ve svém nastavení. ",
    "iso8859-9": "Kullanıcılar şifrelerini ayarlardan değiştirebilir, fakat bunun için yönetici izni gerekir. ",
    "koi8-r": "Пользователь может изменить пароль. ",
    "gbk": "这是中文文档。",
    "shift_jis": "日本語の文書です。",
}


@pytest.mark.parametrize("language", WESTERN)
def test_western_text_of_an_old_encoding_is_read(language: str) -> None:
    text = WESTERN[language] * 20
    assert WESTERN[language].strip() in read("a.txt", text.encode("windows-1252")).markdown.replace("\\", "")


@pytest.mark.parametrize("encoding", OTHERS)
def test_text_of_another_alphabet_is_refused_not_garbled(encoding: str) -> None:
    with pytest.raises(ImportFailure, match="save it as UTF-8"):
        read("a.txt", (OTHERS[encoding] * 20).encode(encoding))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Dear you,\n\nWelcome.\n\n## Acceptance\n\nI accept.\n", "Clef Offer Letter"),
        ("Goals.\n\n# Examples\n\nOne.\n\n# Scores\n\nTwo.\n", "Clef Offer Letter"),
        ("Goals.\n\n## Part\n\n# All of it\n", "All of it"),
        ("## The letter\n\nWelcome.\n\n# Acceptance\n", "The letter"),
        ("# One\n\n# Two\n", "One"),
        ("---\nstatus: final\n---\nDear you,\n\n## Acceptance\n", "Clef Offer Letter"),
        ("---\ntitle: Given\n---\nDear you,\n\n## Acceptance\n", "Given"),
    ],
)
def test_a_later_heading_names_no_markdown_but_its_only_one_of_the_first_level(text: str, title: str) -> None:
    for suffix in ("md", "mdx"):
        imported = read(f"a.{suffix}", text)
        made = document_text(imported, PurePosixPath(f"Clef Offer Letter.{suffix}"), {})
        document = parse_document("a.md", made.encode(), Collection(name="kb", fields={}))
        assert document.title == title
        assert document.body.strip() == text.rpartition("---\n")[2].strip()


def test_markdown_that_is_changed_keeps_its_own_heading_as_title() -> None:
    assert read("a.md", "# The keys {#keys}\n\nTurn{{< br >}} them.\n").title == "The keys"
    assert read("a.mdx", "import A from 'a'\n\n# The <B>keys</B>\n").title == "The keys"
    assert read("a.md", "---\ntitle: Locks\n---\n# Keys\n{{< br >}}\n").title == "Locks"


def test_a_reference_of_asciidoc_to_another_file_is_what_it_points_to() -> None:
    assert read("a.adoc", "See <<ch02-basics#git-tags>> and <<ch03#top,the top>>.\n").markdown == (
        "See git tags and the top.\n"
    )


def test_a_mailbox_is_its_mails_in_order() -> None:
    text = """\
        From dana@example.org Mon Jan  1 10:00:00 2024
        From: Dana <dana@example.org>
        Subject: Leave
        Date: Mon, 1 Jan 2024 10:00:00 +0000

        Take ten days.

        >From January on.
        From here it is a sentence.

        From mei@example.org Mon Jan  1 11:30:00 2024
        From: Mei <mei@example.org>
        Subject: =?utf-8?q?Re=3A_Urlaub?=

        No, eleven.

        From x@example.org Tue Jan  2 00:00:00 2024

        no headers
        """
    imported = read("list.mbox", text)
    assert imported.title is None
    assert imported.markdown.startswith("# Leave\n\n- From: Dana")
    assert "Take ten days.\n\nFrom January on.\nFrom here it is a sentence." in imported.markdown
    assert "# Re: Urlaub\n\n- From: Mei" in imported.markdown
    assert "# (not readable)\n\nMail 3: holds no mail" in imported.markdown
    with pytest.raises(ImportFailure, match="holds no mailbox"):
        read("list.mbox", "Subject: x\n\nwords\n")


def test_a_signature_beside_a_file_is_no_asciidoc() -> None:
    with pytest.raises(ImportFailure, match="a signature or a key"):
        read("a.tar.asc", "-----BEGIN PGP SIGNATURE-----\n\niQIz\n-----END PGP SIGNATURE-----\n")


def test_a_cell_over_rows_and_columns_shifts_no_row() -> None:
    page = """<table><tr><th>a</th><th>b</th><th>c</th></tr>
    <tr><td rowspan="2">x</td><td>1</td><td rowspan="3">z</td></tr><tr><td>2</td></tr>
    <tr><td colspan="2">w</td></tr></table>"""
    assert read("a.html", page).markdown == (
        "| a | b | c |\n| --- | --- | --- |\n| x | 1 | z |\n| x | 2 | z |\n| w |  | z |\n"
    )


def test_a_table_that_only_lays_out_code_is_none() -> None:
    page = "<table><tr><td class='linenos'><pre>1\n2</pre></td><td class='code'><pre>x\ny</pre></td></tr></table>"
    assert read("a.html", page).markdown == "```\nx\ny\n```\n"


def test_xhtml_is_read_by_its_own_suffix() -> None:
    assert read("a.xhtml", '<?xml version="1.0"?><html><body><p>Words.</p></body></html>').markdown == "Words.\n"


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("b.csv", ";"), ("c.tsv", "\t")])
def test_a_table_of_text_keeps_every_value_as_it_stands(name: str, separator: str) -> None:
    rows = [["code", "version", "note"], ["007", "3.10", "a | b"], ["010", "2.0", '"quoted"']]
    content = "\n".join(separator.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)
    shown = read(name, content).markdown
    assert shown.startswith("| code | version | note |\n| --- | --- | --- |\n| 007 | 3.10 | a \\| b |\n| 010 | 2.0 |")


def test_a_workbook_shows_its_sheets_as_tables() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    from datetime import date

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Prices"
    sheet.append(["Part", "Code", "Since", "Share"])
    sheet.append(["Rotor", 7, date(2024, 1, 5), 0.125])
    sheet.append([None, 42, None, None])
    sheet["B2"].number_format = "000"
    sheet["D2"].number_format = "0.0%"
    sheet.merge_cells("A2:A3")
    book.create_sheet("Secret").sheet_state = "hidden"
    book["Secret"].append(["hidden words"])
    data = io.BytesIO()
    book.save(data)
    assert read("a.xlsx", data.getvalue()).markdown == (
        "## Prices\n\n| Part | Code | Since | Share |\n| --- | --- | --- | --- |\n"
        "| Rotor | 007 | 2024-01-05 | 12.5% |\n| Rotor | 42 |  |  |\n"
    )


def test_a_mail_is_who_wrote_what_when() -> None:
    mail = (
        "From: Dana <dana@example.org>\nTo: qa@example.org\nSubject: =?utf-8?q?Pr=C3=BCfung?=\n"
        "Date: Fri, 05 Jan 2024 10:00:00 +0100\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n"
        "--x\nContent-Type: text/plain; charset=utf-8\n\n# of rotors: two\n"
        "--x\nContent-Type: application/pdf\nContent-Disposition: attachment; filename=plan.pdf\n\n%PDF\n--x--\n"
    )
    imported = read("a.eml", mail)
    assert (imported.title, imported.metadata) == (
        "Prüfung",
        {"from": "dana@example.org", "to": ["qa@example.org"], "date": "2024-01-05", "attachments": ["plan.pdf"]},
    )
    assert imported.markdown.startswith("# Prüfung\n\n- From: Dana \\<dana@example.org>\n- To: qa@example.org\n")
    assert "\n\n\\# of rotors: two\n\nAttached: plan.pdf\n" in imported.markdown


def test_a_book_is_its_chapters_in_order() -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("META-INF/container.xml", '<container><rootfile full-path="O/c.opf"/></container>')
        archive.writestr(
            "O/c.opf",
            "<package><metadata><dc:title>The book</dc:title></metadata><manifest>"
            '<item id="b" href="b%201.xhtml" media-type="application/xhtml+xml"/>'
            '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
            '<item id="n" href="n.xhtml" properties="nav" media-type="application/xhtml+xml"/></manifest>'
            '<spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/></spine></package>',
        )
        for name in ("a", "b 1", "n"):
            archive.writestr(f"O/{name}.xhtml", f"<html><body><h1>Chapter {name}</h1><p>Words.</p></body></html>")
    imported = read("a.epub", data.getvalue())
    assert imported.title == "The book"
    assert imported.markdown == "# Chapter a\n\nWords.\n\n# Chapter b 1\n\nWords.\n"


@pytest.mark.parametrize("content", [b"no archive", b"PK\x03\x04 broken"])
def test_a_broken_book_or_workbook_says_so(content: bytes) -> None:
    for name in ("a.epub", "a.xlsx"):
        with pytest.raises(ImportFailure, match="broken"):
            read(name, content)
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    with pytest.raises(ImportFailure):
        read("a.epub", empty.getvalue())


def test_a_whole_folder_of_odd_names_has_kinds(tmp_path: Path) -> None:
    from hive_agents.readers import kind_of

    assert {kind_of(name) for name in ("README.Debian", "copyright", "NEWS.gz", "TODO", "a.log")} == {"text"}
    assert {kind_of(name) for name in ("a.py", "b.png", "c.tar.gz", "d.so", "e.js.gz")} == {None}


def test_a_long_rule_inside_a_paragraph_is_short() -> None:
    stars = "*" * 70
    assert read("a.txt", f"{stars}\n* A notice in a box\n{stars}\n").markdown.count("*") < 10
    assert read("a.txt", f"Title\n{'=' * 5}\n\nx\n").title == "Title"


def test_a_page_of_a_manual_loses_its_steps_and_its_contents_and_no_words() -> None:
    steps = "<td><a href='a'><img alt='Prev'></a></td><th>The manual</th><td><a href='b'>Next</a></td>"
    steps = f"<table><tr>{steps}</tr></table>"
    listing = "<div class='toc'><p>Table of Contents</p><dl><dt>1.1. Overview</dt></dl></div>"
    words = " ".join(f"word{number}" for number in range(30))
    page = f"<html><body>{steps}<h1>Memory</h1>{listing}<p>{words}</p><div><br>{steps}</div></body></html>"
    assert read("a.html", page).markdown == f"# Memory\n\n{words}\n"


def test_a_page_that_is_a_table_of_contents_keeps_it() -> None:
    page = "<h1>Manual</h1><div class='toctree-wrapper'><ul><li>Memory</li><li>Threads</li></ul></div>"
    assert "Memory" in read("a.html", page).markdown


def test_html_without_its_optional_end_tags_keeps_its_structure() -> None:
    page = """<title>Old</title><body><p>First<p>Second<ul><li>one<ul><li>inner</ul><li>two</ul>
    <dl><dt>name<dd>what<dt>other<dd>more</dl><table><tr><th>a<th>b<tr><td>1<td>2</table>
    <a name=x><a href="https://e.org">link</a>"""
    assert read("a.html", page).markdown.split("\n\n") == [
        "First",
        "Second",
        "- one\n  - inner\n- two",
        "**name**",
        "what",
        "**other**",
        "more",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
        "[link](https://e.org)\n",
    ]
    deep = read("a.html", "<body>" + "".join(f"<p>paragraph {n}<li>item {n}" for n in range(3000)))
    assert "item 2999" in deep.markdown


def test_rules_around_a_page_are_no_text_of_it() -> None:
    assert read("a.html", "<hr><h1>Lamp</h1><p>On.<hr><p>Off.<hr><hr>").markdown == "# Lamp\n\nOn.\n\n---\n\nOff.\n"


def test_a_raised_number_is_an_exponent_or_a_note_and_joins_no_other_number() -> None:
    shown = read("a.html", "<p>at most 2<sup>64</sup> rows, x<sup>n</sup>, on the 11<sup>th</sup> of May").markdown
    assert shown == "at most 2^64 rows, x^n, on the 11th of May\n"


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<title>Key rotation - Site</title><h1>Key rotation</h1>", "Key rotation"),
        ("<title>Autoincrement</title><h1>1. Summary</h1><p>x", "Autoincrement"),
        ("<title>Autoincrement</title><h1>Summary</h1><h1>Background</h1>", "Autoincrement"),
        ("<h1>2. Only this</h1>", "2. Only this"),
        ("<p>nothing", None),
    ],
)
def test_a_page_is_called_by_its_heading_unless_that_is_a_chapter_s(page: str, title: str | None) -> None:
    assert read("a.html", page).title == title


def test_what_a_site_calls_a_menu_goes_where_it_is_links_and_stays_where_it_is_text() -> None:
    words = "The kitchen serves soup on each day of the week but Sunday, when it is closed to everybody. " * 3
    menu = '<div class="menu main-nav"><ul><li><a href=a>Home</a><li><a href=b>About us</a></ul></div>'
    shown = read("a.html", f'{menu}<div id="sidebar-page"><h1>Lunch</h1><p class="menu">{words}</div>').markdown
    assert "About us" not in shown
    assert shown.count("The kitchen serves soup") == 3
    assert "About us" in read("a.html", menu).markdown


def test_a_table_with_a_link_called_next_is_a_table() -> None:
    row = "<tr><td>Button</td><td>what it does when somebody presses it</td></tr>"
    page = f"<table>{row}<tr><td><a href='x'>Next</a></td><td>goes on to the page that follows</td></tr></table>"
    assert "goes on" in read("a.html", page).markdown


def test_links_to_the_pages_above_and_to_other_languages_are_no_text_of_a_page() -> None:
    words = " ".join(f"word{number}" for number in range(30))
    page = f"""<div id="page-header"><p>Server Version 2.4</p></div>
    <div class="up"><a href="index.html"><img alt="&lt;-"></a></div>
    <div id="path"><a href="https://e.org/">Project</a> &gt; <a href="/docs">Server</a> &gt; Version 2.4</div>
    <h1>Ports</h1><p>Available languages: <a href="de">de</a> | <a href="fr">fr</a></p>
    <h2>Overview <a href="#overview">&para;</a></h2><p>{words}, <a href="a">A</a> or <a href="b">B</a>.</p>
    <div class="top"><a href="#page-header"><img alt="top" src="up.gif"></a></div>"""
    assert read("a.html", page).markdown == f"# Ports\n\n## Overview\n\n{words}, A or B.\n"


def test_scripts_and_styles_in_markdown_are_for_browsers() -> None:
    text = """\
        # Lamps

        <style>
        table { margin: 0 }

        .lamp { color: `red` }
        </style>
        <script type="module">
        ready(function () {

          lamp("<b>");
        });
        </script>

        A lamp<script>track()</script> is red.

        ```html
        <script>shown()</script> &lt;
        ```

            <style>indented {}</style>
        """
    assert read("a.md", text).markdown == (
        "# Lamps\n\n\n\n\nA lamp is red.\n\n```html\n<script>shown()</script> &lt;\n```\n\n"
        "    <style>indented {}</style>\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Press <kbd>F2</kbd> for a <b class='x > y'>red</b> lamp.", "Press F2 for a red lamp."),
        ('## <a id="top"></a>Lamps <br/>and boxes', "## Lamps and boxes"),
        ("<div>\n\nA lamp.\n\n</div>", "\n\nA lamp.\n\n"),
        ("<p align=center>\n      <em>Red</em>\n      and green\n</p>", "\nRed\nand green\n"),
        ("<ul><li>one</li><li>two</li></ul>", "one two"),
        ("- a\n- b <img src='x.png'\n  alt='y'>\n", "- a\n- b \n"),
        ("Fill in <name> and Vec<T>, or `<b>&lt;`.", "Fill in <name> and Vec<T>, or `<b>&lt;`."),
        ("5 &lt; 6 &amp;&amp; a&nbsp;b &copy; &#42;x&#42; &nosuch; AT&T", r"5 \< 6 && a b © \*x\* &nosuch; AT&T"),
        ("&amp;lt; is an entity", r"\&lt; is an entity"),
        ("| a &#124; b |", r"| a \| b |"),
        ("See <https://example.org> and a < b > c", "See <https://example.org> and a < b > c"),
        ("| `a`<br>`b` | <b>`c`</b> |", "| `a` `b` | `c` |"),
        (
            "<Listing number='1' caption=\"Adding `x`\">\n\nA lamp.\n\n</Listing>\n",
            "Adding `x`\n\nA lamp.\n\n\n",
        ),
        ("A <video-box src='x'>film</video-box> and a > b.", "A film and a > b."),
        ("Use a <script> here.", "Use a here."),
        (
            "<div>\n<p>lamp {</p>\n<p><i># on</i></p>\n<p>- a</p>\n<p>3. b</p>\n<td>-</td>\n</div>\n\n# Boxes",
            "\nlamp {\n\\# on\n\\- a\n3\\. b\n\\-\n\n\n# Boxes",
        ),
        ("<details>\n\n# Boxes\n- <b>red</b>\n\n</details>", "\n\n# Boxes\n- red\n\n"),
        (
            "Run:\n\n<pre><code class='sh'>lamp <b>-v</b>\n\t[--to &lt;room&gt;]</code></pre>\n\nDone.",
            "Run:\n\n\n\n```\nlamp -v\n\t[--to <room>]\n```\n\n\n\nDone.",
        ),
    ],
)
def test_of_html_in_markdown_stays_what_a_browser_shows(text: str, shown: str) -> None:
    assert convert_bytes("a.md", text.encode()).markdown == shown


def test_html_in_a_table_s_cell_is_its_text() -> None:
    rows = (
        "question,answer\n"
        'May I?,"<p class=""x"">Yes, see <a href=\'x\'>the rules</a> &amp; ask.</p><p>Soon.</p>"\n'
        "5 < 6 &amp;,a <b> c\n"
    )
    lines = read("faq.csv", rows).markdown.splitlines()
    assert lines[2:] == ["| May I? | Yes, see the rules & ask. Soon. |", r"| 5 < 6 \&amp; | a \<b> c |"]
