from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from hive_agents.base.errors import Busy, Diagnostic, HiveError, NotFound, WrongUsage, closest, has_errors
from hive_agents.base.resources import documentation, documented
from tests.parsed import modules, nodes

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"HIVE-\d{3}")


def raised_codes() -> set[str]:
    """Each code that stands in the code as a text of its own; errors.py only sorts codes."""
    found = set()
    for path in modules().values():
        if path.name == "errors.py":
            continue
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                found.add(node.value)
    return found


FOR_PROGRAMS = ("agents", "host.dispatcher", "supervision.queen", "store.database")
"""Their errors are read by models and by the code that catches them, with what was tried beside."""


def unmended() -> list[str]:
    """Return each error of a fixed code that is raised without a fix, by its module and line."""
    found = []
    for name, path in modules().items():
        if name.removeprefix("hive_agents.").startswith(FOR_PROGRAMS):
            continue
        for node in nodes(path):
            if not (isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute)):
                continue
            code, given = node.args[0], {keyword.arg for keyword in node.keywords}
            coded = isinstance(code, ast.Constant) and CODE.fullmatch(str(code.value))
            if node.func.attr == "of" and coded and not given & {"fix", None}:
                found.append(f"{name}:{node.lineno}")
    return found


@pytest.mark.static
def test_every_error_that_people_read_says_how_to_mend_it() -> None:
    assert unmended() == []


@pytest.mark.static
def test_every_code_is_documented_and_every_documented_code_exists() -> None:
    assert raised_codes() == set(documentation())


def test_documentation_is_in_order_and_each_entry_says_how_to_mend_it() -> None:
    entries = documentation()
    assert list(entries) == sorted(entries)
    for code, entry in entries.items():
        title, _, body = entry.partition("\n\n")
        assert re.fullmatch(r"\*\*\S.*\*\*", title), code
        lines = [line for line in body.splitlines() if line.strip()]
        assert 2 <= len(lines) <= 10, code
        assert "Mend it: " in body, code
        assert body.count("```") % 2 == 0, code


@pytest.mark.parametrize("code", ["HIVE-203", "hive-203", "203"])
def test_code_is_explained_however_it_is_written(code: str) -> None:
    name, entry = documented(code)
    assert name == "HIVE-203"
    assert entry.startswith("**distraction detection without hybrid**")


def test_unknown_code_is_wrong_usage() -> None:
    with pytest.raises(HiveError) as raised:
        documented("HIVE-999")
    assert (raised.value.exit_code, raised.value.diagnostics[0].code) == (2, "HIVE-409")


def test_json_has_all_keys_in_order() -> None:
    found = Diagnostic("HIVE-203", "what", "configs/v2.json", "retrieval.method", "how", 4)
    assert list(found.to_json().items()) == [
        ("code", "HIVE-203"),
        ("level", 2),
        ("severity", "error"),
        ("message", "what"),
        ("file", "configs/v2.json"),
        ("path", "retrieval.method"),
        ("line", 4),
        ("fix", "how"),
    ]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Diagnostic("HIVE-401", "no model", severity="warning"), "warning[HIVE-401]: no model"),
        (Diagnostic("HIVE-101", "bad", "a.json", "$", line=3), "error[HIVE-101]: bad\n  --> a.json: $ (line 3)"),
        (Diagnostic("HIVE-408", "none", fix="deploy"), "error[HIVE-408]: none\n  fix: deploy"),
    ],
)
def test_text_leaves_out_what_is_not_known(found: Diagnostic, text: str) -> None:
    assert str(found) == text


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("HIVE-101", 1),
        ("HIVE-203", 1),
        ("HIVE-301", 1),
        ("HIVE-401", 3),
        ("HIVE-402", 3),
        ("HIVE-403", 3),
        ("HIVE-407", 3),
        ("HIVE-408", 2),
        ("HIVE-409", 2),
        ("HIVE-410", 2),
    ],
)
def test_first_code_decides_the_exit_code(code: str, exit_code: int) -> None:
    first = Diagnostic(code, "x")
    assert HiveError([first, Diagnostic("HIVE-104", "y")]).exit_code == exit_code
    assert HiveError([first], exit_code=7).exit_code == 7


def test_error_shows_every_diagnostic() -> None:
    error = HiveError([Diagnostic("HIVE-101", "one"), Diagnostic("HIVE-103", "two")])
    assert str(error) == "error[HIVE-101]: one\nerror[HIVE-103]: two"


def test_warnings_are_no_errors() -> None:
    warning = Diagnostic("HIVE-404", "edited", severity="warning")
    assert not has_errors([warning])
    assert has_errors([warning, Diagnostic("HIVE-101", "bad")])
    assert not has_errors([])


def test_closest_word_is_proposed_only_where_it_is_close() -> None:
    assert closest("statu", ["status", "owner"]) == "status"
    assert closest("xyz", ["status", "owner"]) is None
    assert closest("xyz", []) is None


def test_the_first_code_decides_the_class_where_it_has_one() -> None:
    busy, plain = Diagnostic("HIVE-402", "the database is locked"), Diagnostic("HIVE-105", "top_k is 0")
    assert type(HiveError([busy, plain])) is Busy
    assert type(HiveError([plain, busy])) is HiveError
    with pytest.raises(Busy):
        raise HiveError([busy], exit_code=1)


def test_what_is_not_found_is_wrong_usage_and_not_every_wrong_usage_is_not_found() -> None:
    missing = NotFound.of("HIVE-409", "there is no run r1")
    assert (type(missing), missing.exit_code) == (NotFound, 2)
    assert isinstance(missing, WrongUsage)
    assert type(HiveError.of("HIVE-409", "the run is over")) is WrongUsage


def test_no_code_tells_failures_apart_by_their_codes() -> None:
    compared = re.compile(r"diagnostics\[0\]\.code (==|!=|in|not in) ")
    files = [*(ROOT / "hive_agents").rglob("*.py"), *(ROOT / "graphs").rglob("*.py")]
    assert [path.name for path in files if compared.search(path.read_text(encoding="utf-8"))] == []
