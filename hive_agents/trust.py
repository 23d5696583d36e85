"""Whether a workspace is its owner's: until then, what could act in it isn't loaded."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from hive_agents.workspace import Workspace


def is_trusted(workspace: Workspace) -> bool:
    """Whether the owner said on this machine that what can act in `workspace` may act, as it stands now."""
    try:
        recorded: dict[str, str] = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return recorded.get(str(workspace.root)) == _digest(workspace)


def trust(workspace: Workspace) -> None:
    """Record that the owner trusts `workspace` as it stands."""
    file = _file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        recorded = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        recorded = {}
    file.write_text(json.dumps({**recorded, str(workspace.root): _digest(workspace)}), encoding="utf-8")
    file.chmod(0o600)


def _file() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "hive" / "trust.json"


def _digest(workspace: Workspace) -> str:
    """A hash of what can act: tools, servers and endpoints of the settings, and the files of tools."""
    settings = workspace.settings
    acting = {
        "tools": settings.tools.model_dump(),
        "servers": settings.mcp.model_dump(),
        "endpoints": {name: one.model_dump() for name, one in settings.models.endpoints.items()},
        "files": {
            workspace.relative(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for pattern in settings.tools.python
            if pattern.endswith(".py")
            for path in sorted(workspace.root.glob(pattern))
        },
    }
    return hashlib.sha256(json.dumps(acting, sort_keys=True).encode()).hexdigest()
