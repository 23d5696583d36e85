from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.memory import ConversationStore, DataFiles
from hive_agents.store.database import connect


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "ws"
    (root / "collections").mkdir(parents=True)
    connect(Workspace(root).database).close()
    return root


@pytest.fixture
def bare(_made: Path, tmp_path: Path) -> Workspace:
    """The least that is a workspace, with an empty database: to make one anew takes longer than most tests."""
    return Workspace(shutil.copytree(_made, tmp_path / "ws"))


@pytest.fixture
def store(bare: Workspace) -> ConversationStore:
    return ConversationStore(bare, tenant="acme")


@pytest.fixture
def files(tmp_path: Path) -> DataFiles:
    return DataFiles(tmp_path / "r1")
