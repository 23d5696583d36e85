"""THREAT_MODEL.md names tests that exist, and each test of an attack is promised somewhere or helps one that is."""

from __future__ import annotations

import ast
import re

import pytest

from tests.parsed import ROOT, nodes

pytestmark = pytest.mark.static

TEXT = (ROOT / "THREAT_MODEL.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_promise_names_a_test_that_exists(file: str, name: str) -> None:
    known = {node.name for node in nodes(ROOT / file) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in known


def test_every_file_of_attacks_is_named() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert files - {file for file, _ in NAMED} == {"tests/attacks/test_threat_model.py"}


def test_whatever_got_through_and_each_kind_of_it_has_a_test() -> None:
    rows = dict(re.findall(r"^\| (\d+)\. .+ \| ([a-f]) \| `tests/.+` \|$", TEXT, re.M))
    assert list(rows) == [str(number) for number in range(1, 23)]
    assert set(re.findall(r"^\| ([a-f]) \| `tests/.+` \|$", TEXT, re.M)) == set(rows.values()) == set("abcdef")
