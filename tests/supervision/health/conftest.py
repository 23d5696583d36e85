from __future__ import annotations

import pytest

from hive_agents import Workspace
from tests.supervision.health.colony import Colony


@pytest.fixture
def colony(text_workspace: Workspace) -> Colony:
    return Colony(text_workspace)
