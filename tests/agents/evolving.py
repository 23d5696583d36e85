"""An agent whose prompt says what it knows, a model that knows no more, and a goal with a case for each topic."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from hive_agents import Workspace
from hive_agents.agents import AgentSpec, ToolRegistry, deployment as agent_deploy
from hive_agents.agents.deployed import record, serving_agent
from hive_agents.agents.deployment import AgentDeployment
from hive_agents.agents.evolution.proposals import propose
from hive_agents.agents.evolution.texts import format_hash
from hive_agents.agents.spec import load_agent
from hive_agents.goals.goals import load_goal
from hive_agents.host import decisions
from hive_agents.models import Chain, ChatResult, Message, Tool
from hive_agents.workspace.settings import Role
from tests.agents.conftest import agent_json, node, write_json
from tests.agents.loops import Told, say, sets

ALL = ["ants", "bees", "lice"]
SETTINGS = '[models]\nembedding = "none"\n[gate]\nalpha = 0.125\n'
"""With which three of three cases prove a gain."""

ALLOWED = [{"match": "*", "decision": "allow"}]


def knows(*topics: str) -> str:
    """A prompt."""
    return f"Topic: $topic. You know: {' '.join(topics)}."


def agent_file(*topics: str, **changes: Any) -> dict[str, Any]:
    answer = node("answer", system_prompt=knows(*topics), input_keys=["topic"], output_keys=["text"], max_iterations=4)
    return agent_json(answer | changes.pop("node", {}), tool_policy=ALLOWED, **changes)


def goal_file(**changes: Any) -> dict[str, Any]:
    cases = [{"id": topic, "input": {"topic": topic}, "expect": {"text": f"on {topic}"}} for topic in ALL]
    return {"id": "digest", "name": "Digest", "eval_cases": cases} | changes


def teaches(*topics: str) -> list[dict[str, Any]]:
    """A patch."""
    return [{"op": "replace", "path": "/nodes/0/system_prompt", "value": knows(*topics)}]


def answering(messages: Sequence[Message], _: Sequence[Tool]) -> ChatResult:
    """What the prompt knows of its topic; a prompt that says "order" orders first, "ask" asks, "long" costs more."""
    prompt = messages[0].content
    known = re.search(r"Topic: (\[input topic\])\. You know: ([\w ]*)\.", prompt)
    topic = re.search(r"^\[input topic\]: (\w+)$", prompt, re.M)
    assert known is not None
    assert topic is not None
    if messages[-1].role != "tool":
        if "order" in known[2]:
            return say([("order", {"what": topic[1]})])
        if "ask" in known[2]:
            return say([("ask_user", {"question": "Which?"})])
    said = f"on {topic[1]}" if topic[1] in known[2].split() else "I don't know"
    return say([sets("text", said)], tokens=1_000 if "long" in known[2] else 100)


def models(_: AgentSpec) -> Callable[[Role], Chain]:
    return lambda role: Chain([Told(answering)])


def deploy(place: Workspace, version: int | None = None, *, by: str = "user:dana", **seams: Any) -> AgentDeployment:
    seams = {"tools": ToolRegistry(), "models": models} | seams
    return agent_deploy.deploy(place, "digest", version=version, by=by, **seams)


def prepared(place: Workspace, *topics: str, **changes: Any) -> Workspace:
    write_json(place, "hive.toml", SETTINGS)
    write_json(place, "goals/digest.json", goal_file())
    write_json(place, "agents/digest.json", agent_file(*topics, **changes))
    return place


def served(place: Workspace, *topics: str) -> Workspace:
    """Version 1 serves as if its cases had passed: to rehearse them takes its time."""
    prepared(place, *topics)
    told = {"goal_hash": format_hash(load_goal(place, "digest"))}
    record(place, load_agent(place, "digest"), decision="first", via="deploy", by="user:dana", evaluation=told)
    return place


def proposed(place: Workspace, *topics: str, by: str = "user:dana", reason: str = "knows more") -> int:
    return propose(place, "digest", teaches(*topics), by=by, reason=reason, tools=ToolRegistry()).version


def approve(place: Workspace, request: str | None, by: str = "kim") -> str:
    assert request is not None
    return decisions.decide(place, request, "approve", by=by)[0].status


def prompt(place: Workspace) -> str:
    return serving_agent(place, "digest")[0].nodes[0].system_prompt
