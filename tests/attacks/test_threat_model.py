"""THREAT_MODEL.md names tests that exist, and each test of an attack is promised somewhere or helps one that is."""

from __future__ import annotations

import ast
import re

import pytest

from tests.parsed import ROOT, nodes

pytestmark = pytest.mark.static

NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "THREAT_MODEL.md").read_text("utf-8"))))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_promise_names_a_test_that_exists(file: str, name: str) -> None:
    known = {node.name for node in nodes(ROOT / file) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in known


def test_every_file_of_attacks_is_named() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert files - {file for file, _ in NAMED} == {"tests/attacks/test_threat_model.py"}
