from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.events import EventLog


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """A workspace with nothing in it."""
    (tmp_path / "collections").mkdir()
    return Workspace(tmp_path)


@pytest.fixture
def log(place: Workspace) -> Iterator[EventLog]:
    opened = EventLog(place)
    yield opened
    opened.close()
