"""`configs/active.json`: a relative symlink, or `{"active": "v2.json"}` where symlinks can't be made."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hive_agents.errors import HiveError
from hive_agents.files import atomic_symlink, atomic_write_text, disk_errors, jsontext, read_bytes, remove
from hive_agents.workspace import Workspace

LINK = "active.json"


def active_target(workspace: Workspace) -> Path | None:
    """The file that active.json names, whether it exists or not; None without active.json.

    Raises: HIVE-114 where it leaves configs/, HIVE-107 where it is neither form.
    """
    link = workspace.configs / LINK
    if link.is_symlink():
        name = os.readlink(link)
    elif link.is_file():
        name = _pointer(link)
    else:
        return None
    if name == LINK:
        raise _unusable(f"{LINK} names itself")
    target = workspace.configs / name
    if Path(name).name != name or not is_inside(target, workspace.configs):
        raise HiveError.of(
            "HIVE-114",
            f"{LINK} leads to {name}, outside configs/",
            file=f"configs/{LINK}",
            path="$",
            fix="remove the link and run `hive deploy CONFIG`",
        )
    return target


def is_inside(file: Path, folder: Path) -> bool:
    """Whether `file`, wherever links lead, is directly in `folder`; so is a file that doesn't exist."""
    # Not Path.resolve, which raises where links lead in a circle; such a file just doesn't exist.
    there = file.is_symlink() or file.exists()
    return not there or os.path.dirname(os.path.realpath(file)) == os.path.realpath(folder)


def _pointer(link: Path) -> str:
    file = f"configs/{LINK}"
    value = jsontext.parse(jsontext.decode(read_bytes(link), file), file)
    name = value.get("active") if isinstance(value, dict) else None
    if not isinstance(name, str) or set(value) - {"$schema"} != {"active"}:
        raise _unusable(f'{LINK} is neither a link nor {{"active": "<file>"}}')
    return name


def _unusable(why: str) -> HiveError:
    fix = "remove it and run `hive deploy CONFIG`"
    return HiveError.of("HIVE-107", why, file=f"configs/{LINK}", path="active", fix=fix)


def point_active(workspace: Workspace, file: Path) -> None:
    """Make active.json name `file`, in one step."""
    path = workspace.configs / LINK
    with disk_errors(path):
        try:
            atomic_symlink(path, file.name)
        except (OSError, NotImplementedError):
            remove(path)
            atomic_write_text(path, json.dumps({"active": file.name}) + "\n")
