"""How deep, how large and how packed input may be: just within each limit, and just beyond it."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

import numpy as np
import pytest

from hive_agents.base.files import guarded
from hive_agents.base.files.guarded import Exceeded, load_arrays, require_archive, require_bounded


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return value


def test_a_value_may_be_as_deep_as_the_limit_and_no_deeper() -> None:
    assert require_bounded(nested(5), depth=5, size=100) == 5
    with pytest.raises(Exceeded, match="more than 5 levels"):
        require_bounded(nested(6), depth=5, size=100)


@pytest.mark.parametrize("value", ["abcde", {"ab": "cd"}, [1, 2, 3, 4, 5], {"a": [1, 2, 3]}])
def test_a_value_may_be_as_large_as_the_limit_and_no_larger(value: Any) -> None:
    size = require_bounded(value, size=1_000)
    assert require_bounded(value, size=size) == size
    with pytest.raises(Exceeded, match="more than"):
        require_bounded(value, size=size - 1)


def archived(**members: bytes) -> io.BytesIO:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return written


@pytest.mark.parametrize(("limit", "within"), [("MAX_UNPACKED", 1_000), ("MAX_MARKUP", 600)])
def test_an_archive_may_unpack_to_as_much_as_the_limit_and_no_more(
    monkeypatch: pytest.MonkeyPatch, limit: str, within: int
) -> None:
    archive = zipfile.ZipFile(archived(**{"a.xml": b"a" * 600, "b.png": b"b" * 400}))
    monkeypatch.setattr(guarded, limit, within)
    require_archive(archive)
    monkeypatch.setattr(guarded, limit, within - 1)
    with pytest.raises(Exceeded):
        require_archive(archive)


def test_an_archive_that_unpacks_to_many_times_its_size_is_refused_once_it_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = zipfile.ZipFile(archived(a=bytes(100_000)))
    require_archive(archive)
    monkeypatch.setattr(guarded, "_SMALL", 100_000)
    require_archive(archive)
    monkeypatch.setattr(guarded, "_SMALL", 99_999)
    with pytest.raises(Exceeded, match="times its size"):
        require_archive(archive)


def test_an_array_that_says_it_is_packed_larger_than_its_file_is_refused() -> None:
    written = io.BytesIO()
    np.savez(written, a=np.arange(10))
    data = bytearray(written.getvalue())
    assert load_arrays(io.BytesIO(bytes(data)), "a")["a"].tolist() == list(range(10))
    entry = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, entry + 20, 1_000_000)
    with pytest.raises(Exceeded, match="unpacks to too much"):
        load_arrays(io.BytesIO(bytes(data)), "a")
