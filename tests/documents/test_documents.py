import datetime as dt
import os
from pathlib import Path

import pytest

from hive_agents.base.errors import HiveError
from hive_agents.documents.documents import (
    Collection,
    Document,
    document_files,
    iso_date,
    list_documents,
    parse_document,
)
from tests.conftest import COLLECTION

KB = Collection.model_validate(COLLECTION)


def parse(text: str, doc_id: str = "faqs/a.md") -> Document:
    return parse_document(doc_id, text.encode(), KB)


def refused(text: str) -> tuple[str, str | None, int | None, str]:
    with pytest.raises(HiveError) as caught:
        parse(text)
    found = caught.value.diagnostics[0]
    return found.code, found.file, found.line, found.message


def test_front_matter_becomes_typed_metadata() -> None:
    document = parse(
        "---\ntitle: Keys\nstatus: draft\neffective: 2025-03-01\nversion: 1.5\npublic: no\n"
        "labels: [auth, 3]\nunknown: [x]\n---\nBody.\n"
    )
    assert document.metadata == {
        "category": "faqs",
        "status": "draft",
        "labels": ["auth", "3"],
        "effective": "2025-03-01",
        "version": 1.5,
        "public": False,
    }
    assert document.front_matter["unknown"] == ["x"]
    assert document.front_matter["effective"] == "2025-03-01"
    assert (document.title, document.body, document.warnings) == ("Keys", "Body.\n", ())


def test_the_category_is_the_first_folder_where_front_matter_gives_none() -> None:
    assert parse("x", "guides/deep/a.md").metadata["category"] == "guides"
    assert parse("---\ncategory: faq\n---\nx", "guides/a.md").metadata["category"] == "faq"
    assert "category" not in parse("x", "a.md").metadata


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ("# One\n\n## Two\n", "One"),
        ("Intro.\n\n### Deep *title* ###\n", "Deep *title*"),
        ("Setext\n======\n", "Setext"),
        ("```\n# no heading\n```\n\n# Real\n", "Real"),
        ("~~~~\n~~~\n# no heading\n~~~~\n# Real\n", "Real"),
        ("    # indented code\n\n# Real\n", "Real"),
        ("#\n\n# Not empty\n", "Not empty"),
        ("- # in a list\n", ""),
        ("No heading.\n", ""),
    ],
)
def test_the_title_is_the_first_heading_where_front_matter_gives_none(body: str, title: str) -> None:
    assert parse(body).title == title
    assert parse(f"---\ntitle: Given\n---\n{body}").title == "Given"


def test_a_value_of_the_wrong_type_is_a_warning_and_the_field_is_missing() -> None:
    document = parse("---\nversion: two\npublic: 1\neffective: soon\nstatus: {a: b}\n---\nx")
    assert document.metadata == {"category": "faqs"}
    assert [(w.code, w.severity, w.path) for w in document.warnings] == [
        ("HIVE-104", "warning", "status"),
        ("HIVE-104", "warning", "effective"),
        ("HIVE-104", "warning", "version"),
        ("HIVE-104", "warning", "public"),
    ]


def test_keywords_that_yaml_reads_as_something_else_are_text_again() -> None:
    assert parse("---\nstatus: true\n---\n").metadata["status"] == "true"
    assert parse("---\nstatus: 2025-01-02\n---\n").metadata["status"] == "2025-01-02"
    assert parse("---\nlabels: [a, null, 2.0]\n---\n").metadata["labels"] == ["a", "2.0"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("---\ntitle: a: b\n---\nx", 2, "mapping values are not allowed"),
        ("---\ntitle: ok\nlabels: [a\n---\nx", 4, "expected"),
        ("---\ntitle: ok\neffective: 2025-02-30\n---\nx", 3, "day is out of range"),
        ("---\ntitle: ok\nstatus: \x07\n---\nx", 3, "not allowed"),
        ("---\n- a\n- b\n---\nx", 2, "key: value"),
        ("---\ntitle: never closed\n\nx", 1, "no closing ---"),
        ("---\na: &x [1]\nb: *x\n---\nx", 3, "aliases"),
        ("---\na: " + "[" * 500 + "]" * 500 + "\n---\nx", 2, "nested too deeply"),
        ("---\na: " + "x" * 70_000 + "\n---\nx", 1, "64000"),
        ('---\nview: [a]\nowner: x\n"view": [b]\n---\nx', 4, '"view" stands there twice'),
        ("---\na: 1\nb: [{c: 1,\n c: 2}]\n---\nx", 4, '"c" stands there twice'),
    ],
)
def test_front_matter_that_cannot_be_parsed_is_reported_with_file_and_line(text: str, line: int, words: str) -> None:
    code, file, found, message = refused(text)
    assert (code, file, found) == ("HIVE-108", "documents/faqs/a.md", line)
    assert words in message


def test_text_that_is_not_utf8_is_reported_with_its_line() -> None:
    with pytest.raises(HiveError) as caught:
        parse_document("a.md", b"one\ntwo \xff\n", KB)
    found = caught.value.diagnostics[0]
    assert (found.code, found.file, found.line) == ("HIVE-112", "documents/a.md", 2)


def test_a_byte_order_mark_and_windows_line_ends_do_not_hide_front_matter() -> None:
    document = parse_document("a.md", b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\nBody\r\n", KB)
    assert (document.title, document.body) == ("T", "Body\r\n")


@pytest.mark.parametrize("text", ["---\n\nA thematic break.\n", "----\ntitle: x\n", " ---\ntitle: x\n---\n"])
def test_a_thematic_break_is_no_front_matter(text: str) -> None:
    assert parse(text).body == text


def test_empty_front_matter_and_an_empty_file_are_documents() -> None:
    assert parse("---\n---\n").body == ""
    assert parse("").title == ""


def test_dates_become_text_that_sorts() -> None:
    assert iso_date(dt.date(2025, 3, 1)) == iso_date(" 2025-03-01 ") == "2025-03-01"
    assert iso_date("2025-03-01T08:00") == "2025-03-01T08:00:00"
    assert iso_date("2025-03-01") < iso_date(dt.datetime(2025, 3, 1, 8)) < iso_date("2025-03-02")  # noqa: DTZ001
    with pytest.raises(ValueError, match="7"):
        iso_date(7)


def test_documents_are_the_markdown_files_and_no_links(tmp_path: Path) -> None:
    root, outside = tmp_path / "documents", tmp_path / "secret.md"
    outside.write_text("secret")
    (root / "b" / "folder.md").mkdir(parents=True)
    (root / ".hidden").mkdir()
    for name in ("a.md", "b/z.md", "b/folder.md/c.md", ".hidden/x.md", ".x.md", "notes.txt", "Ünïcode #1.md"):
        (root / name).write_text("x")
    (root / "inside.md").symlink_to("a.md")
    (root / "leaves.md").symlink_to(outside)
    (root / "nowhere.md").symlink_to("missing.md")
    (root / "loop.md").symlink_to("loop.md")
    (root / "linked").symlink_to(tmp_path)
    os.mkfifo(root / "pipe.md")
    found = [doc_id for doc_id, _ in document_files(root)]
    assert found == ["a.md", "b/folder.md/c.md", "b/z.md", "Ünïcode #1.md"]
    assert list_documents(root).links == ["inside.md", "leaves.md", "linked", "loop.md", "nowhere.md"]
    assert list(document_files(tmp_path / "missing")) == []


def test_values_keep_the_text_that_a_number_or_a_boolean_would_lose() -> None:
    document = parse("---\nversion: 1.50\nstatus: NO\nlabels: [3.10, 007, 2024-01-05, 1e3]\n---\nBody.\n")
    assert document.metadata["status"] == "NO"
    assert document.metadata["labels"] == ["3.10", "007", "2024-01-05", "1e3"]
    assert document.metadata["version"] == 1.5  # a field of type number
    assert document.warnings == ()


def test_blank_values_are_no_values() -> None:
    document = parse('---\nstatus: " "\nlabels: ["", auth, "  ", null]\n---\nBody.\n')
    assert "status" not in document.metadata
    assert document.metadata["labels"] == ["auth"]


@pytest.mark.parametrize("value", ["nan", "NaN", ".nan", "inf", "-Infinity", "many"])
def test_what_is_no_finite_number_is_no_value_of_a_number_field(value: str) -> None:
    document = parse(f"---\nversion: {value}\n---\nBody.\n")
    assert "version" not in document.metadata
    assert [warning.code for warning in document.warnings] == ["HIVE-104"]
