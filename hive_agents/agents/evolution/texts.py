"""An agent as one text: with the text of its prompts' files, its hash, and the difference of two agents."""

from __future__ import annotations

import json
from typing import Any

from hive_agents.agents.prompt_texts import file_of
from hive_agents.agents.spec import AgentSpec
from hive_agents.approvals import json_patch
from hive_agents.base import sha256
from hive_agents.base.files import Format
from hive_agents.models import prompts
from hive_agents.workspace import Workspace

_LATER = frozenset({"memory", "budget", "loop_repeats", "health", "input_schema", "output_schema"})
"""Fields that were added later: unset, they are no part of the hash, which stays what it was."""


def inlined(agent: AgentSpec, workspace: Workspace) -> AgentSpec:
    """Return the agent with the text of each prompt in place of its file's name.

    Raises: HIVE-107 and others for a prompt that can't be read.
    """

    def text(prompt: str) -> str:
        name = file_of(prompt, workspace)
        if name is None:
            return prompt
        content = prompts.template(name, workspace)
        # A newline keeps a text of one word from being read as a file's name.
        return content if len(content.split(maxsplit=1)) > 1 or content.endswith("\n") else content + "\n"

    nodes = [node.model_copy(update={"system_prompt": text(node.system_prompt)}) for node in agent.nodes]
    return agent.model_copy(update={"identity": text(agent.identity), "nodes": nodes})


def outlined(agent: AgentSpec, named: AgentSpec, workspace: Workspace) -> AgentSpec:
    """Return an inlined agent with the files' names of `named` where the files still hold these texts."""
    texts = inlined(named, workspace)
    pairs = zip(named.nodes, texts.nodes, strict=True)
    files = {node.id: (node.system_prompt, text.system_prompt) for node, text in pairs}
    nodes = []
    for node in agent.nodes:
        name, text = files.get(node.id, ("", None))
        nodes.append(node if text != node.system_prompt else node.model_copy(update={"system_prompt": name}))
    identity = named.identity if texts.identity == agent.identity else agent.identity
    return agent.model_copy(update={"identity": identity, "nodes": nodes})


def agent_text(agent: AgentSpec) -> str:
    """Return the JSON in which an inlined agent is stored."""
    return json.dumps(agent.to_json(), ensure_ascii=False, indent=2) + "\n"


def agent_hash(agent: AgentSpec) -> str:
    """Return the hash of an inlined agent without its version number, so that a rollback restores the hash."""
    value = agent.to_json()
    del value["version"]
    return _digest({name: content for name, content in value.items() if content is not None or name not in _LATER})


def format_hash(value: Format) -> str:
    """Return the hash of a file's content, such as a goal, whatever its layout."""
    return _digest(value.model_dump(mode="json"))


def difference(before: AgentSpec, after: AgentSpec) -> list[dict[str, Any]]:
    """Return the RFC 6902 operations between two inlined agents, without the version number."""
    old, new = before.to_json(), after.to_json()
    return _steps(old | {"version": 0}, new | {"version": 0}, "")


def _steps(old: Any, new: Any, path: str) -> list[dict[str, Any]]:
    """Return a patch as `json_patch` does, but descend into lists of equal length, node by node."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [step for n, pair in enumerate(zip(old, new, strict=True)) for step in _steps(*pair, f"{path}/{n}")]
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [step for name in old for step in _steps(old[name], new[name], f"{path}/{name}")]
    return json_patch(old, new, path)


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, ensure_ascii=False, sort_keys=True))
