from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents import Workspace


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """A workspace with nothing in it."""
    (tmp_path / "collections").mkdir()
    return Workspace(tmp_path)
