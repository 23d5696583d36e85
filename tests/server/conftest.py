from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from hive_agents import Workspace
from tests.server.serving import sample, served


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return sample(tmp_path / "ws")


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    async with served(place, roles=("http",)) as client:
        yield client
