from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.base.files import frontmatter


def read(text: str) -> dict[str, Any]:
    block, _ = frontmatter.split(text, "documents/a.md")
    return frontmatter.values(block, "documents/a.md")


def refused(text: str) -> Diagnostic:
    with pytest.raises(HiveError) as raised:
        read(text)
    (found,) = raised.value.diagnostics
    assert (found.code, found.file) == ("HIVE-108", "documents/a.md")
    assert found.fix
    return found


@pytest.mark.parametrize(
    ("text", "block", "body"),
    [
        ("---\na: 1\n---\nBody\n", "a: 1\n", "Body\n"),
        ("---\r\na: 1\r\n...  \r\n\r\nBody\r\n", "a: 1\r\n", "\r\nBody\r\n"),
        ("--- \na: 1\n---", "a: 1\n", ""),
        ("---\n---\nBody\n---\nmore\n", "", "Body\n---\nmore\n"),
        ("---\na: |\n  ---\n  x\n---\nBody", "a: |\n  ---\n  x\n", "Body"),
    ],
)
def test_front_matter_is_what_stands_between_two_fences(text: str, block: str, body: str) -> None:
    assert frontmatter.split(text, "a.md") == (block, body)


@pytest.mark.parametrize(
    "text", ["", "---", "----\na: 1\n---\n", " ---\na: 1\n---\n", "...\na: 1\n...\n", "---\n\nx\n"]
)
def test_a_text_without_front_matter_is_all_body(text: str) -> None:
    assert frontmatter.split(text, "a.md") == ("", text)


def test_front_matter_without_an_end_is_refused() -> None:
    found = refused("---\na: 1\n\nBody\n")
    assert (found.message, found.line) == ("the front matter has no closing ---", 1)


def test_values_are_as_yaml_has_them_and_parsed_ones_as_json_has_them() -> None:
    block = "since: 2025-03-01\nlabels: !!set {a}\nn: 1.5\nnan: .nan\n"
    assert frontmatter.values(block, "a.md")["since"] == dt.date(2025, 3, 1)
    assert frontmatter.parse(block, "a.md") == {"since": "2025-03-01", "labels": ["a"], "n": 1.5, "nan": "nan"}
    assert frontmatter.parse("", "a.md") == {}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: b: c", 2, "front matter: mapping values are not allowed here"),
        ("a: 1\nb: &x 1\nc: *x", 4, "front matter can't use YAML aliases"),
        ("a: 1\nb: {c: 1,\n c: 2}", 4, 'front matter: the key "c" stands there twice'),
        ("a: 1\n'a': 2", 3, 'front matter: the key "a" stands there twice'),
        ("a: 1\nb: 2025-02-30", 3, "front matter: day is out of range for month"),
        ("? a\nb: ~\n2025-02-30: x", 4, "front matter: day is out of range for month"),
        ("a:\nb: [1, {c: 2025-02-30}]", 3, "front matter: day is out of range for month"),
        ("a: 1\n1: 2", 2, "front matter is not a list of `key: value` lines"),
        ("a: !!python/name:os.system x", 2, "front matter: could not determine a constructor for the tag"),
    ],
)
def test_front_matter_that_cannot_be_read_names_the_line_of_the_file(text: str, line: int, message: str) -> None:
    found = refused(f"---\n{text}\n---\nBody")
    assert found.line == line
    assert found.message.startswith(message)


def test_a_document_is_read_as_it_was_rendered() -> None:
    shared = ["a", "b"]
    values = {"title": "Ü: x", "since": dt.date(2025, 3, 1), "one": shared, "two": shared}
    text = frontmatter.render(values, "\nBody\n")
    assert text == "---\ntitle: 'Ü: x'\nsince: 2025-03-01\none:\n- a\n- b\ntwo:\n- a\n- b\n---\n\nBody\n"
    block, body = frontmatter.split(text, "a.md")
    assert (frontmatter.values(block, "a.md"), body) == (values, "\nBody\n")


def test_a_body_that_looks_like_front_matter_stays_body() -> None:
    for body in ("---\na: 1\n---\n", "Text\n", ""):
        assert frontmatter.split(frontmatter.render({}, body), "a.md") == ("", body)
