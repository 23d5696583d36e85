from __future__ import annotations

import pytest

from hive_agents import Workspace


@pytest.fixture
def cautious(text_workspace: Workspace) -> Workspace:
    """A workspace whose threshold is 0.8 until something is certified, so that lower ones have to be asked for."""
    with (text_workspace.root / "hive.toml").open("a") as settings:
        settings.write("[judge]\nllm_confidence_threshold = 0.8\n")
    return Workspace(text_workspace.root)
