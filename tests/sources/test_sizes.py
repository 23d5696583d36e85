"""Sizes that a server gives: a number of bytes, or the source fails by saying so."""

from __future__ import annotations

import pytest

from hive_agents.sources.contract import SourceFailure
from hive_agents.sources.from_webdav import _number


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.5", "1e3", " 1", "1_000", "٣", "none", "9" * 19])
def test_what_is_no_size_fails_the_source(text: str) -> None:
    with pytest.raises(SourceFailure, match="a size that is none"):
        _number(text)


def test_a_size_is_a_number_of_bytes() -> None:
    assert [_number(text) for text in ("0", "007", "9" * 18)] == [0, 7, 10**18 - 1]
