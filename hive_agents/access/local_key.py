"""The workspace's own key: random, in `.hive/local.key`, its owner's alone."""

from __future__ import annotations

import os
import secrets

from hive_agents.errors import HiveError
from hive_agents.files import atomic_write, locked, read_bytes
from hive_agents.workspace import Workspace

FILE = ".hive/local.key"
BYTES = 32


def local_key(workspace: Workspace) -> bytes:
    """The key, made on first use; of processes that start together one makes it, and all get the same.

    Raises: HIVE-417 for another user than the owner of `.hive/`, and for a damaged file.
    """
    _require_owner(workspace)
    path = workspace.state / "local.key"
    if not path.exists():
        with locked(workspace.state / "local.key.lock", "making the local key"):
            if not path.exists():
                atomic_write(path, secrets.token_hex(BYTES).encode() + b"\n", mode=0o600)
    try:
        key = bytes.fromhex(read_bytes(path).decode("ascii"))
    except (OSError, ValueError):
        key = b""
    if len(key) != BYTES:
        fix = "delete the file: a new key is made, and tokens of the old one end"
        raise HiveError.of("HIVE-417", "the local key cannot be read", file=FILE, fix=fix, exit_code=3)
    return key


def _require_owner(workspace: Workspace) -> None:
    if os.geteuid() not in (0, workspace.state.stat().st_uid):
        fix = "use a token: set HIVE_TOKEN to what `hive token` printed for the owner"
        message = "only the workspace's owner signs with the local key"
        raise HiveError.of("HIVE-417", message, file=FILE, fix=fix, exit_code=2)
