"""What is told where records were moved away, by whatever kept them."""

from __future__ import annotations

from hive_agents.errors import HiveError


def moved(target: str, file: str) -> HiveError:
    """Return what whoever writes to the old place is told."""
    fix = "let [storage] in hive.toml name that place, then `hive trust`; or go on here with `hive storage reopen`"
    return HiveError.of("HIVE-403", f"the records were moved to {target}", file=file, fix=fix)
