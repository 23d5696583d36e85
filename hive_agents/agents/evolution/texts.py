"""An agent as one text: its prompts' files read into it, its identity as a hash, and what differs between two."""

from __future__ import annotations

import json
from typing import Any

from hive_agents import prompts
from hive_agents.agents.prompt_texts import file_of
from hive_agents.agents.spec import AgentSpec
from hive_agents.approvals import json_patch
from hive_agents.files import Format
from hive_agents.text import sha256
from hive_agents.workspace import Workspace

_LATER = frozenset({"memory", "budget", "loop_repeats", "health"})
"""Fields that agents had none of when the first were deployed: unset, they are no part of the hash."""


def inlined(agent: AgentSpec, workspace: Workspace) -> AgentSpec:
    """Return the agent with the text of each prompt in place of its file's name: no file changes it any more.

    Raises: HIVE-107 and others for a prompt that can't be read.
    """

    def text(prompt: str) -> str:
        name = file_of(prompt, workspace)
        if name is None:
            return prompt
        found = prompts.template(name, workspace)
        # One word may be another file's name: here it is a text, and has to stay one.
        return found if len(found.split(maxsplit=1)) > 1 or found.endswith("\n") else found + "\n"

    nodes = [node.model_copy(update={"system_prompt": text(node.system_prompt)}) for node in agent.nodes]
    return agent.model_copy(update={"identity": text(agent.identity), "nodes": nodes})


def outlined(agent: AgentSpec, named: AgentSpec, workspace: Workspace) -> AgentSpec:
    """Return an inlined agent with the files' names that `named` has, where the files still hold these texts."""
    texts = inlined(named, workspace)
    files = {node.id: (node.system_prompt, text.system_prompt) for node, text in _pairs(named, texts)}
    nodes = []
    for node in agent.nodes:
        name, text = files.get(node.id, ("", None))
        nodes.append(node if text != node.system_prompt else node.model_copy(update={"system_prompt": name}))
    identity = named.identity if texts.identity == agent.identity else agent.identity
    return agent.model_copy(update={"identity": identity, "nodes": nodes})


def agent_text(agent: AgentSpec) -> str:
    """Return the JSON by which an inlined agent is stored."""
    return json.dumps(agent.to_json(), ensure_ascii=False, indent=2) + "\n"


def agent_hash(agent: AgentSpec) -> str:
    """Return the identity of an inlined agent; its number is no part of it, so a rollback serves what served before."""
    value = agent.to_json()
    del value["version"]
    return _digest({name: held for name, held in value.items() if held is not None or name not in _LATER})


def format_hash(value: Format) -> str:
    """Return the identity of what a file says, such as a goal, however it is laid out."""
    return _digest(value.model_dump(mode="json"))


def difference(before: AgentSpec, after: AgentSpec) -> list[dict[str, Any]]:
    """RFC 6902 operations between two inlined agents, without the number of the version."""
    old, new = before.to_json(), after.to_json()
    return _steps(old | {"version": 0}, new | {"version": 0}, "")


def _steps(old: Any, new: Any, path: str) -> list[dict[str, Any]]:
    """As `json_patch`, and into lists of one length: a word in a prompt doesn't replace all nodes."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [step for n, pair in enumerate(zip(old, new, strict=True)) for step in _steps(*pair, f"{path}/{n}")]
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [step for name in old for step in _steps(old[name], new[name], f"{path}/{name}")]
    return json_patch(old, new, path)


def _pairs(one: AgentSpec, other: AgentSpec) -> Any:
    return zip(one.nodes, other.nodes, strict=True)


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return sha256(text)
