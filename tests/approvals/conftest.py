from pathlib import Path

import pytest

from hive_agents import Workspace
from tests.conftest import make_workspace


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """Nothing but folders: approvals need no index."""
    return make_workspace(tmp_path / "ws", embedding=False, documents={})
