"""The diagnostic for records that were moved to another database."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

from hive_agents.base import HiveError
from hive_agents.store.schema import SEALS

_LINES = "audit/log.jsonl"
MOVED = "audit.moved"
"""The file in `.hive` that names the new place of a log that was moved with the records."""


def moved(target: str, file: str) -> HiveError:
    """Return HIVE-403 for a write to records that were moved to `target`."""
    fix = "let [storage] in hive.toml name that place, then `hive trust`; or go on here with `hive storage reopen`"
    return HiveError.of("HIVE-403", f"the records were moved to {target}", file=file, fix=fix)


def still_here(target: str) -> HiveError:
    """Return HIVE-403 for an empty server, or one with a part of them, that the settings name before they are moved."""
    message = f"the records are still here (.hive/hive.db, audit/log.jsonl), and not yet in {target}"
    fix = "run `hive storage setup URL` with the url of [storage]: it moves and verifies them"
    return HiveError.of("HIVE-403", message, file="hive.toml", fix=fix)


def left_behind(root: Path, *, log: bool = True) -> bool:
    """Return whether a workspace has runs, talks, approvals or, with `log`, an audit log of its own that weren't moved
    away."""
    import sqlite3

    state = root / ".hive"
    if (state / MOVED).exists():
        return False
    lines = root / _LINES
    if log and lines.exists() and lines.stat().st_size:
        return True
    file = state / "hive.db"
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        if connection.execute(SEALS).fetchone() is None:
            tables = ("runs", "threads", "approvals", "feedback")
            return any(connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in tables)
    return False
