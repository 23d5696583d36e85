"""Tokens, sign-in links and sessions that were ended before their time: a list of their ids on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_agents.access.principal import is_name
from hive_agents.errors import HiveError
from hive_agents.files import atomic_write, locked, read_bytes

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hive_agents.workspace import Workspace

FILE = ".hive/revoked_tokens"


def revoke(workspace: Workspace, jti: str, *, expires: int | None = None) -> bool:
    """End the token with this `jti`, on disk before this returns; whether it counted until now.

    `expires`, seconds since 1970, is when it would have ended by itself: later its line may go. Without it the line
    stays, for whoever holds only the id can't say how long the token would have lived.

    Raises: HIVE-409 for what can't be a `jti`.
    """
    if not is_name(jti):
        fix = "name the id that `hive token` printed"
        raise HiveError.of("HIVE-409", "that is no token's id", fix=fix, exit_code=2)
    with _changing(workspace):
        ended = _read(workspace)
        new = jti not in ended
        if new:
            _write(workspace, ended | {jti: expires})
    return new


def is_revoked(workspace: Workspace, jti: str) -> bool:
    """Raises: HIVE-417 where the list is there and can't be read: then no token counts."""
    return jti in _read(workspace)


def forget_expired(workspace: Workspace, before: float) -> int:
    """Drop what would have ended by itself before then, in seconds since 1970; how many lines went.

    Raises: HIVE-417 where the list can't be read.
    """
    if not _path(workspace).exists():
        return 0
    with _changing(workspace):
        ended = _read(workspace)
        kept = {jti: expires for jti, expires in ended.items() if expires is None or expires >= before}
        if len(kept) < len(ended):
            _write(workspace, kept)
    return len(ended) - len(kept)


def _changing(workspace: Workspace) -> AbstractContextManager[None]:
    return locked(workspace.state / "revoked_tokens.lock", "revoking a token")


def _path(workspace: Workspace) -> Path:
    return workspace.state / "revoked_tokens"


def _read(workspace: Workspace) -> dict[str, int | None]:
    """The ids, each with its expiry where it is known: a line is `ID` or `ID,SECONDS`, and no id has a comma."""
    try:
        text = read_bytes(_path(workspace)).decode()
        lines = [line.strip().partition(",") for line in text.splitlines() if line.strip()]
        return {jti: int(expires) if comma else None for jti, comma, expires in lines}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        fix = "make it readable; until then no token is accepted"
        message = "the list of revoked tokens cannot be read"
        raise HiveError.of("HIVE-417", message, file=FILE, fix=fix, exit_code=3) from None


def _write(workspace: Workspace, ended: dict[str, int | None]) -> None:
    lines = [jti if expires is None else f"{jti},{expires}" for jti, expires in ended.items()]
    atomic_write(_path(workspace), "".join(f"{line}\n" for line in lines).encode(), mode=0o600)
