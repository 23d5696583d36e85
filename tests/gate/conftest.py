from pathlib import Path

import pytest

from hive_agents import Workspace
from tests.topics import make_topics


@pytest.fixture
def topics(tmp_path: Path) -> Workspace:
    return make_topics(tmp_path / "ws")
