"""Changes of `access/*.json`: the text of a file with another entry of a person or a group, or another grant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from hive_agents.access.rules import FOLDER, AccessRules, Grant, GroupEntry, PrincipalEntry
from hive_agents.base import HiveError, NotFound
from hive_agents.base.files import guarded, jsontext
from hive_agents.store import FileChange

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

NEW = f"{FOLDER}/people.json"
"""The file of the first entry."""


def access_change(
    workspace: Workspace, kind: Literal["principals", "groups"], name: str, entry: PrincipalEntry | GroupEntry | None
) -> FileChange:
    """Return the change that gives a person or a group this entry; None takes theirs away.

    Raises: HIVE-409 for one without an entry, the faults of the files, those that the entry would make included.
    """
    values = _values(workspace)
    holding = [file for file, value in values.items() if name in value.get(kind, {})]
    if entry is None and not holding:
        raise NotFound.of("HIVE-409", f'{FOLDER}/*.json names no "{name}"', file=FOLDER, fix="look it up in the list")
    file, value = _alike(values, holding, kind)
    before = value.get(kind, {}).get(name)
    if kind == "groups" and before and entry is not None and before["tenant"] != entry.tenant:
        raise NotFound.of(
            "HIVE-409", f'there is no group "{name}" of this tenant', file=file, fix="look it up in the list"
        )
    entries = {one: given for one, given in value.get(kind, {}).items() if one != name or entry is not None}
    if entry is not None:
        entries[name] = {key: given for key, given in entry.model_dump(mode="json").items() if given or key == "roles"}
    return _changed(workspace, file, {**value, kind: entries})


def grant_change(workspace: Workspace, grant: Grant) -> FileChange:
    """Return the change that makes this the only grant of its tenant for what it matches, or none if nobody views.

    Raises: HIVE-409 where several files have such a grant, the faults of the files.
    """
    values = _values(workspace)

    def same(one: dict[str, Any]) -> bool:
        return (one["tenant"], one["match"]) == (grant.tenant, grant.match)

    holding = [file for file, value in values.items() if any(map(same, value.get("grants", [])))]
    if len(holding) > 1:
        fix = "keep it in one of them"
        raise HiveError.of("HIVE-409", f"{' and '.join(holding)} have a grant for {grant.match}", file=FOLDER, fix=fix)
    file, value = _alike(values, holding, "grants")
    kept = [one for one in value.get("grants", []) if not same(one)]
    if grant.view:
        kept.append(grant.model_dump(mode="json"))
    return _changed(workspace, file, {**value, "grants": kept})


def _values(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """Return what each file says. Raises: the faults of the files."""
    faults = AccessRules.load(workspace).faults
    if faults:
        raise HiveError(faults, exit_code=1)
    return {file: jsontext.parse(text, file) for file, text in _texts(workspace).items()}


def _alike(values: dict[str, dict[str, Any]], holding: list[str], kind: str) -> tuple[str, dict[str, Any]]:
    """Return the file that an entry of this kind goes to, with what it says now."""
    alike = [file for file, value in values.items() if kind in value or "principals" in value]
    file = next(iter([*holding, *alike]), NEW)
    return file, values.get(file, {})


def _changed(workspace: Workspace, file: str, value: dict[str, Any]) -> FileChange:
    after = _laid_out(value)
    faults = AccessRules.changed(workspace, file, after).faults
    if faults:
        raise HiveError(faults, exit_code=1)
    return FileChange(file, _texts(workspace).get(file, ""), after)


def _texts(workspace: Workspace) -> dict[str, str]:
    try:
        found = guarded.read_folder(workspace.root / FOLDER, ".json")
    except FileNotFoundError:
        return {}
    # Each of them was read without a fault.
    return {f"{FOLDER}/{name}": jsontext.decode(data, name) for name, data in found if isinstance(data, bytes)}


def _laid_out(value: dict[str, Any]) -> str:
    """Return JSON with a line for each entry, as people write these files.

    >>> print(_laid_out({"principals": {"dana": {"tenant": "acme"}}, "grants": []}), end="")
    {
      "principals": {
        "dana": {"tenant": "acme"}
      },
      "grants": []
    }
    """
    return "{\n" + ",\n".join(f"  {_line(name)}: {_entries(part)}" for name, part in value.items()) + "\n}\n"


def _entries(part: Any) -> str:
    if isinstance(part, dict) and part:
        return "{\n" + ",\n".join(f"    {_line(name)}: {_line(one)}" for name, one in part.items()) + "\n  }"
    if isinstance(part, list) and part:
        return "[\n" + ",\n".join(f"    {_line(one)}" for one in part) + "\n  ]"
    return _line(part)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
