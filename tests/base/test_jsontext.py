from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.base.files.jsontext import MAX_DEPTH, decode, line_of, parse, show_path


def refused(text: str) -> Diagnostic:
    with pytest.raises(HiveError) as raised:
        parse(text, "f.json")
    (found,) = raised.value.diagnostics
    assert found.file == "f.json"
    assert found.path == "$"
    assert found.fix
    return found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("\n\n", 3),
        ('{"a": 1,}', 1),
        ('{\n "a": 1\n "b": 2\n}', 3),
        ("{'a': 1}", 1),
        ('{"a": "http://x}', 1),
        ('{"a": "tab\there"}', 1),
        ("[1] [2]", 1),
        ('{"s": "NaN",\n "n": [\n NaN]}', 3),
        ("[1,\n -Infinity]", 2),
        ('{"s": "1e999",\n "n": 1e999}', 2),
        ("[\n" + "9" * 5000 + "]", 2),
        ('["fine \\ud83d\\ude00 \\\\ud800",\n "half \\ud83d"]', 2),
        ('{\n"\\udc00": 1}', 2),
        ('{"a": 1,\n "b": "a",\n "a": 2}', 3),
        ('{"o": {"a": 1},\n "a": 1,\n "x": 1,\n "a": 2}', 4),
        ('[{"a": 1},\n {"b": 1, "b": 1}]', 2),
    ],
)
def test_invalid_json_names_its_line(text: str, line: int) -> None:
    found = refused(text)
    assert (found.code, found.line) == ("HIVE-101", line)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("// first\n{}", 1),
        ("{}\n# last", 2),
        ('{"a": 1, // why\n "b": 2}', 1),
        ('{"a": 1\n /* why */, "b": 2}', 2),
        ('{"a": # none\n 1}', 1),
        ('{\n "a": 1,\n // "b": 2\n}', 3),
    ],
)
def test_comment_is_told_from_other_faults(text: str, line: int) -> None:
    found = refused(text)
    assert (found.code, found.message, found.line) == ("HIVE-102", "JSON has no comments", line)


def test_slashes_in_text_are_no_comment() -> None:
    assert parse('{"url": "https://x/#y", "glob": "/* */"}', "f") == {"url": "https://x/#y", "glob": "/* */"}


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 980, 990, 1000, 100_000])
def test_deep_nesting_is_refused_at_every_depth(depth: int) -> None:
    assert "deeply" in refused("[" * depth + "]" * depth).message
    assert "deeply" in refused('{"a":' * depth + "1" + "}" * depth).message


def test_nesting_that_people_write_is_read() -> None:
    assert parse("[" * 50 + "]" * 50, "f") is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=100)
@given(json_values, st.booleans())
def test_whatever_json_writes_is_read_back(value: Any, plain: bool) -> None:
    assert parse(json.dumps(value, ensure_ascii=plain), "f") == value


TEXT = """{
  "name": "c",
  "list": [
    {"id": 1},
    {"id": 2, "inner": {
      "deep": true}}
  ],
\t"tabbed": "é 😀 \\u00e9"
}"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ([], 1),
        (["name"], 2),
        (["list"], 3),
        (["list", 0], 4),
        (["list", 1, "id"], 5),
        (["list", 1, "inner", "deep"], 6),
        (["list", 1, "inner", "gone"], 5),
        (["list", 9], 3),
        (["gone", "below"], 1),
        (["tabbed"], 8),
    ],
)
def test_line_is_that_of_the_value_or_of_what_should_hold_it(path: list[str | int], line: int) -> None:
    assert line_of(TEXT, path) == line


def test_line_of_what_is_no_json_is_unknown() -> None:
    assert line_of("{'", ["a"]) is None
    assert line_of("", []) is None


def test_lines_are_right_in_a_long_file() -> None:
    text = json.dumps({"queries": [{"id": f"q{n}", "query": "x" * 50} for n in range(3000)]}, indent=1)
    lines = [line_of(text, ["queries", n, "id"]) for n in range(0, 3000, 10)]
    assert lines == [4 + 4 * n for n in range(0, 3000, 10)]


@pytest.mark.parametrize(("data", "line"), [(b"a\nb\xff", 2), (b"\xfe\xff\x00{", 1), (b"\xef\xbb\xbf{}", 1)])
def test_bytes_that_are_no_plain_utf8_are_refused(data: bytes, line: int) -> None:
    with pytest.raises(HiveError) as raised:
        decode(data, "f.json")
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, found.path, found.line) == ("HIVE-112", "f.json", "$", line)
    assert found.fix


def test_path_is_shown_as_people_write_it() -> None:
    assert show_path(["a", 0, "b", 1]) == "a[0].b[1]"
    assert show_path([]) == "$"
