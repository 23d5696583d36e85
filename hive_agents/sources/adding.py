"""`hive sources add`: a source is looked at, written into hive.toml and trusted."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write_text, load_value, read_bytes
from hive_agents.sources.kinds import options_of, with_readers
from hive_agents.workspace import Workspace, trust
from hive_agents.workspace.settings import FILE, Settings


def add_source(workspace: Workspace, name: str, values: Mapping[str, Any]) -> None:
    """Append `[sources.NAME]` to hive.toml, once it is sound, and trust it; empty values are left out.

    Raises: HIVE-409 for a name that is taken, every fault of level 1, HIVE-403.
    """
    path = workspace.root / FILE
    try:
        before = read_bytes(path).decode()
    except FileNotFoundError:
        before = ""
    if name in tomllib.loads(before).get("sources", {}):
        raise HiveError.of("HIVE-409", f"there is a source {name} already", file=FILE, fix="edit it in hive.toml")
    lines = [f"[sources.{name}]"]
    lines += [f"{key} = {_toml(value)}" for key, value in values.items() if value not in ("", [], {})]
    text = f"{before.rstrip()}\n\n" if before.strip() else ""
    text += "\n".join(lines) + "\n"
    try:
        data = tomllib.loads(text)
    except ValueError:
        fix = "use letters, digits, - and _"
        raise HiveError.of("HIVE-113", f"{name!r} can't be a source's name", fix=fix, exit_code=2) from None
    options_of(name, with_readers(name, load_value(Settings, data, FILE).sources[name]))
    atomic_write_text(path, text)
    trust(Workspace(workspace.root), [f"sources.{name}"])


def _toml(value: Any) -> str:
    """Return a value of JSON as TOML.

    >>> _toml({"pattern": "**/*.md", "depth": 2})
    '{"pattern" = "**/*.md", "depth" = 2}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
