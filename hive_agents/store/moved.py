"""The diagnostic for records that were moved to another database."""

from __future__ import annotations

from hive_agents.base import HiveError


def moved(target: str, file: str) -> HiveError:
    """Return HIVE-403 for a write to records that were moved to `target`."""
    fix = "let [storage] in hive.toml name that place, then `hive trust`; or go on here with `hive storage reopen`"
    return HiveError.of("HIVE-403", f"the records were moved to {target}", file=file, fix=fix)
