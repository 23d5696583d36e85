"""What the tests of pages ask people about: an agent of the sample that wants to call a tool, and its run."""

from __future__ import annotations

import json
from typing import Any

from hive_agents import Workspace
from tests.agents.conftest import agent_json, node, write_json

NOTE = {"filename": "note.txt", "text": "Dear customer, tea is served."}


def noting_agent(
    place: Workspace,
    arguments: dict[str, Any] | None = None,
    words: str = "I will note it.",
    *,
    searches: str | None = None,
    **changes: Any,
) -> None:
    """An agent `writer` that asks before it saves a note, and then tells that it did; it may search before."""
    script = [
        *([{"tool_calls": [{"name": "search_documents", "args": {"query": searches}}]}] if searches else []),
        {"content": words, "tool_calls": [{"name": "save_data", "args": arguments or NOTE}]},
        {"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "noted"}}]},
    ]
    write_json(place, "script.jsonl", "\n".join(map(json.dumps, script)))
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Digest", "description": "d"})
    policy = [{"match": "save_data", "decision": "ask"}, {"match": "*", "decision": "allow"}]
    writer = node("write", output_keys=["text"], tools=["save_data", "search_documents"])
    made = agent_json(writer, id="writer", model="scripted:script.jsonl", tool_policy=policy, **changes)
    write_json(place, "agents/writer.json", made)
