"""Members of a source's groups, synced apart from its documents: these name a group, `access/` says who is in it.

A change of members therefore needs no look at any document.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from hive_agents.access import AccessFile, is_name
from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write_text, load, read_bytes
from hive_agents.sources.contract import OpenedSource, SourceFailure
from hive_agents.sources.kinds import opened
from hive_agents.workspace import Workspace


def groups_file(workspace: Workspace, name: str) -> Path:
    return workspace.root / "access" / f"source-{name}.json"


def sync_groups(workspace: Workspace, name: str) -> dict[str, list[str]]:
    """Bring the members of a source's groups up to date, without a look at its documents; return them.

    Raises: as `opened`; HIVE-437 where the source can't tell them now: then they stay as they were.
    """
    lost = ""
    try:
        with opened(workspace, name) as source:
            try:
                return write_groups(source)
            except SourceFailure as failure:
                lost = source.place.safe(failure)
    except SourceFailure as failure:
        lost = str(failure)
    fix = "their members stay as they were; run it again later"
    raise HiveError.of("HIVE-437", f"the groups of the source {name} can't be read: {lost}", fix=fix, exit_code=3)


def write_groups(source: OpenedSource) -> dict[str, list[str]]:
    """Write the members of a source's groups into `access/`, as far as `subjects` maps them; return them.

    Raises: SourceFailure.
    """
    place, told = source.place, source.groups()
    if told is None or not place.settings.tenant:
        groups_file(place.workspace, place.name).unlink(missing_ok=True)
        return {}
    members = {
        f"{place.name}/{group}": sorted(_users(people, source.options.subjects))
        for group, people in sorted(told.items())
        if is_name(f"{place.name}/{group}")
    }
    entries = {group: {"tenant": place.settings.tenant, "members": users} for group, users in members.items()}
    path, text = groups_file(place.workspace, place.name), json.dumps({"groups": entries}, indent=1) + "\n"
    if not path.exists() or read_bytes(path).decode() != text:
        path.parent.mkdir(exist_ok=True)
        atomic_write_text(path, text)
    return members


def known_groups(workspace: Workspace, name: str) -> dict[str, list[str]]:
    """Return the readers of a document by each group of the source whose members were synced."""
    path = groups_file(workspace, name)
    if not path.exists():
        return {}
    known = load(AccessFile, read_bytes(path), workspace.relative(path)).groups
    return {f"group:{group.removeprefix(f'{name}/')}": [f"group:{group}"] for group in known}


def _users(people: Iterable[str], subjects: Mapping[str, list[str]]) -> set[str]:
    readers = {reader for each in people for reader in subjects.get(f"user:{each}", [])}
    return {reader.removeprefix("user:") for reader in readers if reader.startswith("user:")}
