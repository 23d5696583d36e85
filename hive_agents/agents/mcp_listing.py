"""What an MCP server says of its tools: bounded, without secrets, and pinned as it was when it was trusted.

The owner of a workspace trusts a server as it is known: a tool that says something else later, or that came later, does
nothing until `hive trust` is run again. What was said is kept beside the record of trust, outside of the workspace.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hive_agents.base import sha256
from hive_agents.base.files import Exceeded, atomic_write, guarded, read_bytes
from hive_agents.workspace import Workspace, trusted

MOST_TOOLS, MOST_PAGES = 256, 50
MOST_LISTED = 2_000_000
"""Characters of all tools of a server."""
MOST_TEXT, MOST_SCHEMA = 10_000, 100_000
"""Characters of a name, title or description, and of each schema of a tool."""
MOST_PARAMETERS, MOST_DEPTH = 200, 30


@dataclass(frozen=True)
class ListedTool:
    """A tool as its server describes it; `hints` is what it says of its effects, which nothing relies on."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    hints: dict[str, Any]

    @classmethod
    def of(cls, told: Any) -> ListedTool:
        """Return a tool of the SDK. Raises: Exceeded for one that is larger than a tool may be."""
        hints = told.annotations.model_dump(by_alias=True, exclude_none=True) if told.annotations is not None else {}
        listed = cls(told.name, told.title or "", told.description or "", told.input_schema, told.output_schema, hints)
        for text in (listed.name, listed.title, listed.description):
            if len(text) > MOST_TEXT:
                raise Exceeded(f"its description has more than {MOST_TEXT:,} characters")
        for value in (listed.input_schema, listed.output_schema, hints):
            guarded.require_bounded(value, depth=MOST_DEPTH, size=MOST_SCHEMA)
        properties = listed.input_schema.get("properties")
        if isinstance(properties, Mapping) and len(properties) > MOST_PARAMETERS:
            raise Exceeded(f"it has more than {MOST_PARAMETERS} parameters")
        return listed

    @classmethod
    def parsed(cls, text: str) -> ListedTool:
        """Return the tool of a pinned text."""
        return cls(**json.loads(text))

    @property
    def text(self) -> str:
        """What is pinned: all that a model, or a decision about a call, may rest on."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)

    def without(self, redact: Callable[[str], str]) -> ListedTool:
        """Return the tool with each text of it as `redact` returns it."""
        if redact(self.text) == self.text:
            return self
        return ListedTool(**{key: _each(value, redact) for key, value in asdict(self).items()})


@dataclass(frozen=True)
class Announced:
    """A tool of a server beside what is pinned of it; of a `changed` one `text` is the difference."""

    name: str
    status: trusted.TrustStatus
    text: str


def pins(workspace: Workspace, server: str, settings: str) -> dict[str, str] | None:
    """Return the pinned text of each tool of a server; None for one that wasn't reached since these settings were
    trusted. A damaged record pins nothing, so that no tool is as it was trusted."""
    try:
        record = json.loads(read_bytes(trusted.pins_file(workspace, server)))
        if record["settings"] != sha256(settings):
            return None
        return {name: ListedTool.parsed(text).text for name, text in record["tools"].items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def pin(workspace: Workspace, server: str, settings: str, tools: Iterable[ListedTool]) -> None:
    """Record the tools of a server as trusted. Raises: HIVE-403."""
    record = {"settings": sha256(settings), "tools": {tool.name: tool.text for tool in tools}}
    atomic_write(trusted.pins_file(workspace, server), json.dumps(record, indent=1).encode(), mode=0o600)


def compared(pinned: Mapping[str, str], tools: Iterable[ListedTool]) -> list[Announced]:
    """Return the tools of a server by name, with those that were pinned and are gone."""
    now = {tool.name: tool.text for tool in tools}
    found = []
    for name in sorted(now.keys() | pinned.keys()):
        before, after = pinned.get(name), now.get(name)
        if after is None:
            found.append(Announced(name, "gone", ""))
        elif before is None:
            found.append(Announced(name, "new", _shown(after)))
        elif before == after:
            found.append(Announced(name, "trusted", _shown(after)))
        else:
            lines = difflib.unified_diff(_shown(before).splitlines(), _shown(after).splitlines(), lineterm="", n=1)
            found.append(Announced(name, "changed", "\n".join(list(lines)[2:])))
    return found


def _shown(text: str) -> str:
    return json.dumps(json.loads(text), indent=1, ensure_ascii=False)


def _each(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key) if isinstance(key, str) else key: _each(each, change) for key, each in value.items()}
    return [_each(each, change) for each in value] if isinstance(value, list) else value
