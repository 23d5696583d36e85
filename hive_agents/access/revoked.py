"""The deny list: one `jti` a line in `.hive/revoked_tokens`, read at every check."""

from __future__ import annotations

from hive_agents.access.principal import is_name
from hive_agents.errors import HiveError
from hive_agents.files import atomic_write, locked, read_bytes
from hive_agents.workspace import Workspace

FILE = ".hive/revoked_tokens"


def revoke(workspace: Workspace, jti: str) -> bool:
    """End the token with this `jti`, on disk before this returns; whether it counted until now.

    Raises: HIVE-409 for what can't be a `jti`.
    """
    if not is_name(jti):
        fix = "name the id that `hive token` printed"
        raise HiveError.of("HIVE-409", "that is no token's id", fix=fix, exit_code=2)
    path = workspace.state / "revoked_tokens"
    with locked(workspace.state / "revoked_tokens.lock", "revoking a token"):
        lines = _lines(workspace)
        new = jti not in lines
        if new:
            atomic_write(path, "".join(f"{line}\n" for line in [*lines, jti]).encode(), mode=0o600)
    return new


def is_revoked(workspace: Workspace, jti: str) -> bool:
    """Raises: HIVE-417 where the list is there and can't be read: then no token counts."""
    return jti in _lines(workspace)


def _lines(workspace: Workspace) -> list[str]:
    try:
        text = read_bytes(workspace.state / "revoked_tokens").decode()
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        fix = "make it readable; until then no token is accepted"
        message = "the list of revoked tokens cannot be read"
        raise HiveError.of("HIVE-417", message, file=FILE, fix=fix, exit_code=3) from None
    return [line.strip() for line in text.splitlines() if line.strip()]
