"""What pytest looks for examples in: files that hold some. The others are imported by whoever tests them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    found = yield
    if not found or b">>>" in file_path.read_bytes():
        return found
    return [one for one in found if isinstance(one, pytest.Module)]
