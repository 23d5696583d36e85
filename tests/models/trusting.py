"""A workspace with an endpoint, trusted in a home of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.workspace.trusted import trust


def workspace_with(root: Path, settings: str, monkeypatch: pytest.MonkeyPatch, *, trusted: bool = True) -> Workspace:
    """The workspace at `root`, made where there is none, with `settings` as its hive.toml."""
    monkeypatch.setenv("XDG_STATE_HOME", str(root.parent / f"{root.name}-home"))
    root.mkdir(parents=True, exist_ok=True)
    (root / "hive.toml").write_text(settings, encoding="utf-8")
    place = workspace_at(root)
    if trusted:
        trust(place)
    return place


def workspace_at(root: Path) -> Workspace:
    """The workspace at `root`, with nothing in it but what is there."""
    (root / "collections").mkdir(parents=True, exist_ok=True)
    return Workspace(root)


def endpoint_settings(url: str, name: str = "lab", *, models: str = "", endpoint: str = "", rest: str = "") -> str:
    """The text of a hive.toml with one endpoint."""
    return f'[models]\n{models}\n[models.endpoints.{name}]\nbase_url = "{url}"\n{endpoint}\n{rest}\n'
