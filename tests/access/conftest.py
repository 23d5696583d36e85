from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from tests.conftest import make_workspace

PRINCIPALS = {
    "tenants": {"acme": {"admins": ["user:root"]}, "globex": {"admins": []}},
    "principals": {
        "dana": {"tenant": "acme", "groups": ["qa"], "roles": ["reader", "approver"]},
        "guest": {"tenant": "acme"},
        "root": {"tenant": "acme"},
        "hana": {"tenant": "globex", "groups": ["qa"]},
    },
}
GRANTS = {"grants": [{"tenant": "acme", "match": "sops/**", "view": ["group:qa"]}]}
DOCUMENTS = {
    "open.md": "---\ntenant: [acme, globex]\nview: [tenant]\n---\nText.\n",
    "acme.md": "---\ntenant: acme\nview: tenant\n---\nText.\n",
    "qa.md": '---\ntenant: [acme]\nview: ["group:qa"]\n---\nText.\n',
    "sops/granted.md": "---\ntenant: [acme, globex]\n---\nText.\n",
    "nobody.md": "Text.\n",
    "malformed.md": "---\ntenant: acme\nview: [qa]\n---\nText.\n",
    "broken.md": "---\ntenant: [acme\n---\nText.\n",
}


def write_access(workspace: Workspace, name: str, value: Any) -> Path:
    path = workspace.root / "access" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """Two tenants, four principals, one grant, seven documents; never indexed."""
    workspace = make_workspace(tmp_path / "ws", embedding=False, documents=DOCUMENTS)
    write_access(workspace, "principals.json", PRINCIPALS)
    write_access(workspace, "grants.json", GRANTS)
    return workspace
