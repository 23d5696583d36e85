"""`make mutants`: each deliberate fault can still be made, and the tests that are to notice it are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutants import listed, missing

pytestmark = pytest.mark.static

ROOT = Path(__file__).parents[1]


def test_each_fault_has_its_place_in_the_code() -> None:
    assert [why for fault in listed() if (why := missing(fault))] == []


def test_each_fault_has_tests_that_are_there() -> None:
    assert [fault.title for fault in listed() if not all((ROOT / test).exists() for test in fault.tests)] == []
