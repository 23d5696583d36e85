from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest
from docutils.parsers.rst import directives, roles
from markdown_it import MarkdownIt

from hive_agents.readers.conversion import convert
from hive_agents.readers.rst import from_rst


def markdown(text: str) -> str:
    return from_rst(dedent(text)).markdown.strip()


def test_headings_keep_their_levels_and_the_first_is_the_title() -> None:
    imported = from_rst("====\n``A``\n====\n\nB\n=\n\nC\n-\n\nD\n=\n")
    assert imported.title == "A"
    assert imported.markdown == "# A\n\n## B\n\n### C\n\n## D\n"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (":class:`~a.b.C`", "`C`"),
        (":meth:`save`", "`save()`"),
        (":py:func:`!len`", "`len()`"),
        (":setting:`DEBUG=False <DEBUG>`", "`DEBUG=False`"),
        (":ttag:`{% load %} <load>`, :class:`the view <View>`", "`{% load %}`, the view"),
        (":ref:`the guide <guide-label>`", "the guide"),
        (":ref:`some-label`", "some label"),
        (":doc:`other words\n</a/b>`", "other words"),
        (":ticket:`123`, :rfc:`2324#section-2`", "#123, RFC 2324 section 2"),
        (":nobody:`knows`", "`knows`"),
        ("``__init__`` and \\*args", "`__init__` and \\*args"),
        ("|known|, |unknown|\n\n.. |known| replace:: word", "word, |unknown|"),
        (
            "`site <https://example.org/a>`_, https://example.org",
            "[site](https://example.org/a), <https://example.org>",
        ),
        ("two\\ :sup:`10`, x [1]_\n\n.. [1] note", "two^10, x [1]\n\n[1] note"),
        ("a ``b``\\s", "a `b`s"),
    ],
)
def test_the_text_of_a_role_survives_without_its_target(source: str, shown: str) -> None:
    assert markdown(source) == shown


def test_a_label_of_the_same_document_becomes_its_section_title() -> None:
    assert "See Second part." in markdown("See :ref:`there`.\n\n.. _there:\n\nSecond part\n===========\n\nx\n")


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (".. code-block:: python\n   :emphasize-lines: 1\n\n   x = 1", "```python\nx = 1\n```"),
        (".. versionadded:: 5.2", "*New in version 5.2.*"),
        (".. versionchanged:: 5.1\n\n   Words.", "*Changed in version 5.1:* Words."),
        (".. note:: Words.", "> **Note**\n>\n> Words."),
        (".. admonition:: Think\n\n   Words.", "> **Think**\n>\n> Words."),
        (".. seealso::\n\n   :doc:`Words </x>`", "> **See also**\n>\n> Words"),
        (".. class:: A(b=None)\n\n   .. method:: c()\n\n      Words.", "`class A(b=None)`\n\n`A.c()`\n\nWords."),
        (".. toctree::\n   :maxdepth: 1\n\n   Title <a/b>\n   c", "- Title\n- c"),
        (".. setting:: X\n\nWords.", "Words."),
        (".. module:: a.b\n   :synopsis: Does it.", "`a.b`: Does it."),
        (".. unheard-of:: An *argument*\n   :option: 1\n\n   Words.", "An *argument*\n\nWords."),
        ("term : kind\n   Words.\n\n   More.", "- **term (kind)**: Words.\n\n  More."),
        ("::\n\n    # no heading\n    ```", "````\n# no heading\n```\n````"),
        (">>> 1 + 1\n2", "```pycon\n>>> 1 + 1\n2\n```"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("  * a\n  * b", "- a\n- b"),
    ],
)
def test_each_construction_reads_well(source: str, shown: str) -> None:
    assert markdown(source) == shown


def test_a_table_is_a_pipe_table_with_spans_filled_by_empty_cells() -> None:
    broken = """
        +-------+-------+-----+
        | a     | b     | c   |
        +=======+=======+=====+
        | 1     | 2 | 3 | ``x`` |
        +-------+-------+-----+
    """
    grid = """
        +---+---+
        | a | b |
        +===+===+
        | 1 | 2 |
        |   +---+
        |   | 3 |
        +---+---+
    """
    assert markdown(grid) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n|  | 3 |"
    assert "``x``" in markdown(broken), "a table that cannot be parsed keeps its source"


def test_no_other_file_is_ever_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.txt").write_text("hidden words")
    (tmp_path / "docutils.conf").write_text("[general]\nfile_insertion_enabled: true\n")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.rst"
    path.write_text(
        dedent(
            f"""
            Start.

            .. include:: secret.txt
            .. literalinclude:: {tmp_path}/secret.txt
            .. raw:: html
               :file: secret.txt
            .. csv-table:: T
               :file: secret.txt
            .. figure:: secret.txt
               :figwidth: image

            End.
            """
        )
    )
    text = convert(path).markdown
    assert "hidden" not in text
    assert text.startswith("Start.")
    assert text.endswith("End.\n")


def test_malformed_markup_loses_no_words(capsys: pytest.CaptureFixture[str]) -> None:
    text = markdown("Title\n==\n\n*open and `broken_ \n\n.. image::\n\nlast words")
    assert all(words in text for words in ("open and", "broken", "last words"))
    assert capsys.readouterr().err == ""


def test_the_parser_is_left_as_it_was_found() -> None:
    before = (directives.directive, roles.role)
    markdown(".. unheard-of::\n\n   :nobody:`x`")
    assert (directives.directive, roles.role) == before


def test_threads_do_not_disturb_each_other() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(markdown, [":setting:`X`"] * 20)) == {"`X`"}


def test_plain_words_of_the_source_are_plain_words_in_markdown() -> None:
    source = "Use <b>, a*b*c, _meta, __all__, [x](y) and &amp; freely."
    [paragraph] = [token for token in MarkdownIt().parse(markdown(source)) if token.type == "inline"]
    assert "".join(child.content for child in paragraph.children or []) == source


PROPOSAL = """\
PEP: 9001
Title: Lamps that say when they are off
Author: Ada Lovelace <ada@example.org>,
        Bob Byte
Status: Superseded
Superseded-By: 9002
Created: 05-Jul-2001
Resolution:

Abstract
========

A lamp says it.
"""


def test_a_header_as_in_mail_is_front_matter_and_its_title_the_title() -> None:
    imported = from_rst(PROPOSAL)
    assert imported.title == "Lamps that say when they are off"
    assert imported.metadata == {
        "pep": "9001",
        "author": "Ada Lovelace <ada@example.org>, Bob Byte",
        "status": "Superseded",
        "superseded_by": "9002",
        "created": "05-Jul-2001",
    }
    assert "- **PEP**: 9001\n" in imported.markdown, "whoever searches for the number finds it"
    assert imported.markdown.endswith("# Abstract\n\nA lamp says it.\n")


@pytest.mark.parametrize("first", ["Note: mind the gap.\n", "Note: one\nTip: two\n", "Title: x\nand so on.\n"])
def test_a_paragraph_with_a_colon_is_no_header(first: str) -> None:
    imported = from_rst(f"{first}\nLamps\n=====\n\nText.\n")
    assert (imported.title, imported.metadata) == ("Lamps", {})
    assert imported.markdown.startswith(first.split("\n")[0])


@pytest.mark.parametrize("above", ["Lamps\n=====\n\n", ".. _label:\n\nLamps\n=====\n\n.. a comment\n\n", ""])
def test_fields_before_the_text_are_front_matter(above: str) -> None:
    imported = from_rst(
        f"{above}:Status: Final\n:Release: |release|\n:Abstract: One.\n\n  Two.\n\nText.\n\n:not: one\n"
    )
    assert imported.metadata == {"status": "Final"}
    assert "- **Abstract**: One." in imported.markdown
