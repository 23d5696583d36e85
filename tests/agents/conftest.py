"""An agent with two nodes, and the way to change one thing of it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from tests.conftest import make_workspace

GOAL = {"id": "digest", "name": "Digest"}


def node(id: str, **changes: Any) -> dict[str, Any]:
    return {"id": id, "system_prompt": f"Do {id}.", **changes}


def edge(source: str, target: str, **changes: Any) -> dict[str, Any]:
    return {"source": source, "target": target, "on": "success", **changes}


def agent_json(*nodes: dict[str, Any], edges: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    """Without nodes: collect makes items of a topic, write makes a text of the items."""
    made = list(nodes) or [
        node("collect", input_keys=["topic"], output_keys=["items"], tools=["search_documents"]),
        node("write", input_keys=["items"], output_keys=["text"]),
    ]
    ways = [edge(a["id"], b["id"]) for a, b in pairwise(made)] if edges is None else edges
    return {"id": "digest", "goal": "digest", "entry": made[0]["id"], "nodes": made, "edges": ways, **changes}


def write_json(workspace: Workspace, path: str, value: Any) -> Path:
    file = workspace.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    return file


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    workspace = make_workspace(tmp_path / "ws", embedding=False)
    write_json(workspace, "goals/digest.json", GOAL)
    return workspace


@pytest.fixture
def staffed(place: Workspace) -> Workspace:
    """With a person who may decide."""
    people = {"dana": {"tenant": "acme", "groups": [], "roles": ["reader", "approver"]}}
    write_json(place, "access/principals.json", {"tenants": {"acme": {"admins": []}}, "principals": people})
    return place
