"""The prompt onion: identity, narrative and focus, then the lists of what the agent can read; rebuilt each turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hive_agents.base import fenced
from hive_agents.memory.data_files import DataFile
from hive_agents.memory.values import value_line
from hive_agents.models import prompts

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

_VALUE = 300
_LISTED = 50


@dataclass(frozen=True, slots=True)
class Phase:
    """A completed node, its status, and the keys that it wrote."""

    node: str
    status: str = "completed"
    outputs: tuple[str, ...] = ()


def narrative(path: Sequence[Phase], values: Mapping[str, Any]) -> str:
    """Return the history so far, a function of the path and the data buffer alone.

    A value is listed with the last phase that wrote it, in at most 300 characters.

    >>> path = [Phase("collect", outputs=("items",)), Phase("write", "failed")]
    >>> print("\\n".join(narrative(path, {"items": [1], "topic": "bees"}).splitlines()[2:-1]))
    Phases so far:
    1. collect: completed
       - items: [1]
    2. write: failed
    Other values:
       - topic: bees
    """
    last = {key: number for number, phase in enumerate(path) for key in phase.outputs}
    lines = ["Phases so far:"] if path else ["No phase is completed yet."]
    for number, phase in enumerate(path):
        lines.append(f"{number + 1}. {phase.node}: {phase.status}")
        lines += [_value(key, values[key]) for key in phase.outputs if last[key] == number and key in values]
    others = sorted(set(values) - set(last))
    if others:
        lines += ["Other values:", *(_value(key, values[key]) for key in others)]
    return fenced("\n".join(lines)) if values else "\n".join(lines)


def build_prompt(
    workspace: Workspace,
    *,
    identity: str,
    narrative: str,
    focus: str,
    memory: str = "",
    files: Iterable[DataFile] = (),
) -> str:
    """Return the system prompt of a turn, after the pattern in `prompts/agent_system.md`.

    `memory` is the text of adapt.md, inserted as data, since it may quote others. Of `files`, those that compaction
    wrote are listed as the conversation's history. Layers are inserted literally: a `$` in them stays one.

    Raises: HIVE-105, HIVE-106, HIVE-107 for a pattern that the workspace overrides and got wrong.
    """
    files = list(files)
    history = [file for file in files if is_history(file)]
    return prompts.load(
        "agent_system",
        workspace,
        identity=identity.strip(),
        narrative=narrative.strip(),
        focus=focus.strip(),
        memory=fenced(memory.strip()) if memory.strip() else "(empty)",
        files=_listed([file for file in files if not is_history(file)]),
        history=_listed(history),
    )


def is_history(file: DataFile) -> bool:
    return file.sealed and file.name.startswith("conversation_") and file.name.endswith(".md")


def _value(key: str, value: Any) -> str:
    return f"   - {value_line(key, 100)}: {value_line(value, _VALUE)}"


def _listed(files: Sequence[DataFile]) -> str:
    lines = [f"- {file.name} ({file.size:,} bytes)" for file in files[-_LISTED:]]
    if len(files) > _LISTED:
        lines.append(f"- and {len(files) - _LISTED:,} more: list_data_files() names all")
    return "\n".join(lines) or "(none)"
