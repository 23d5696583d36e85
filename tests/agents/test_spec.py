from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from hive_agents import EdgeSpec, NodeSpec, Workspace
from hive_agents.agents import AgentSpec
from hive_agents.agents.deployed import find_sub_agent
from hive_agents.agents.spec import agent_ids, load_agent
from hive_agents.base.errors import HiveError
from hive_agents.base.resources import json_schema
from hive_agents.goals import CapabilityLevel
from tests.agents.conftest import agent_json, edge, node, write_json

EXAMPLE = """{"id":"digest","version":1,"mode":"continuous","goal":"weekly_digest","entry":"collect",
 "nodes":[{"id":"collect","system_prompt":"prompts/collect.md","input_keys":["topic"],"output_keys":["items"],
   "nullable_output_keys":[],"tools":["search_documents"],"sub_agents":[],"success_criteria":null,"max_iterations":50,
   "max_tool_calls":100,"requires_approval":false,"pause_before":false,"client_facing":false}],
 "edges":[{"source":"collect","target":"write","on":"success","condition":null,"priority":0}],
 "tool_policy":[{"match":"search_*","decision":"allow"}],"model":null,"capability":"can_handle"}"""


def codes(place: Workspace, value: Any) -> list[str]:
    write_json(place, "agents/digest.json", value)
    with pytest.raises(HiveError) as raised:
        load_agent(place, "digest")
    return [f"{found.code} {found.path}" for found in raised.value.diagnostics]


def test_the_format_is_the_documented_one_and_survives_a_round_trip(place: Workspace) -> None:
    write_json(place, "agents/digest.json", EXAMPLE)
    agent = load_agent(place, "digest")
    assert agent_ids(place) == ["digest"]
    written = agent.to_json()
    stated = json.loads(EXAMPLE)
    assert {key: written[key] for key in stated if key != "nodes"} == {k: v for k, v in stated.items() if k != "nodes"}
    assert stated["nodes"][0].items() <= written["nodes"][0].items()
    assert AgentSpec.model_validate(written) == agent


def test_defaults_are_those_of_the_documents() -> None:
    agent = AgentSpec.model_validate(agent_json())
    one = agent.nodes[0]
    assert (agent.version, agent.mode, agent.capability) == (1, "continuous", CapabilityLevel.CAN_HANDLE)
    assert (one.max_iterations, one.max_tool_calls, one.success_criteria, one.judge) == (50, 100, None, None)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"nodess": []}, "HIVE-103 nodess"),
        ({"mode": "forever"}, "HIVE-105 mode"),
        ({"version": 0}, "HIVE-105 version"),
        ({"capability": "sometimes"}, "HIVE-105 capability"),
        ({"nodes": []}, "HIVE-105 nodes"),
        ({"goal": None}, "HIVE-104 goal"),
        ({"nodes": [node("a", max_iterations=0)]}, "HIVE-105 nodes[0].max_iterations"),
        ({"nodes": [node("a", max_tool_calls=10_001)]}, "HIVE-105 nodes[0].max_tool_calls"),
        ({"nodes": [node("a", output_keys=["1st"])]}, "HIVE-105 nodes[0].output_keys[0]"),
        ({"nodes": [node("a", judge={"x": 1})]}, "HIVE-105 nodes[0].judge"),
        ({"nodes": [node("../a")]}, "HIVE-113 nodes[0].id"),
        ({"edges": [edge("a", "b", on="sometimes")]}, "HIVE-105 edges[0].on"),
        ({"edges": [edge("a", "b", on="condition")]}, "HIVE-105 edges[0]"),
        ({"edges": [edge("a", "b", condition="True")]}, "HIVE-105 edges[0]"),
        ({"edges": [edge("a", "b", on="condition", condition="open('x')")]}, "HIVE-105 edges[0].condition"),
        ({"tool_policy": [{"match": "*", "decision": "maybe"}]}, "HIVE-105 tool_policy[0].decision"),
        ({"id": "other"}, "HIVE-113 id"),
    ],
)
def test_level_1_names_the_place_of_a_fault(place: Workspace, changes: dict[str, Any], found: str) -> None:
    assert codes(place, agent_json(**changes)) == [found]


@pytest.mark.parametrize("name", ["digets", "../digest", "/etc/passwd", "digest.json"])
def test_only_an_agent_of_the_folder_is_loaded(place: Workspace, name: str) -> None:
    write_json(place, "agents/digest.json", agent_json())
    with pytest.raises(HiveError, match="HIVE-107"):
        load_agent(place, name)


def test_input_ignores_case() -> None:
    agent = AgentSpec.model_validate(agent_json(mode="Isolated", capability="BEST_FIT"))
    assert (agent.mode, agent.capability) == ("isolated", CapabilityLevel.BEST_FIT)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("always", "success", True),
        ("always", "failure", True),
        ("success", "failure", False),
        ("always", "replan", False),
        ("model", "model", False),
        ("condition", "condition", True),
        ("model", "success", True),
    ],
)
def test_edges_go_together_when_one_end_takes_both(one: str, other: str, together: bool) -> None:
    def made(on: str, priority: int = 0) -> EdgeSpec:
        condition = "True" if on == "condition" else None
        return EdgeSpec(source="a", target="b", on=on, condition=condition, priority=priority)

    assert made(one).together_with(made(other)) is together
    assert made(other).together_with(made(one)) is together
    assert not made(one).together_with(made(other, priority=1))


def test_a_sub_agent_is_a_node_of_the_agent_or_another_agent(place: Workspace) -> None:
    write_json(place, "agents/helper.json", {**agent_json(node("only")), "id": "helper"})
    agent = AgentSpec.model_validate(agent_json(node("a", sub_agents=["b", "helper"]), node("b"), edges=[]))
    inner = find_sub_agent(place, agent, "b")
    assert (inner.id, inner.entry, [one.id for one in inner.nodes], inner.edges) == ("b", "b", ["b"], [])
    assert inner.tool_policy == agent.tool_policy
    assert find_sub_agent(place, agent, "helper").nodes[0].id == "only"
    with pytest.raises(HiveError, match='did you mean "helper"'):
        find_sub_agent(place, agent, "helpr")


def test_a_judge_that_is_an_object_stays_in_python() -> None:
    agent = AgentSpec(id="a", goal="g", entry="n", nodes=[NodeSpec(id="n", system_prompt="x", judge=object())])
    with pytest.raises(TypeError, match="name a registered one"):
        agent.to_json()
    with pytest.raises(ValidationError):
        agent.nodes = []  # type: ignore[misc]


def test_the_schema_describes_the_file() -> None:
    schema = json_schema("agent")
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert {"id", "goal", "entry", "nodes"} == set(schema["required"])


def test_capability_levels_are_ordered() -> None:
    assert [level.value for level in sorted(CapabilityLevel, key=lambda level: level.rank)] == [
        "cannot_handle", "uncertain", "can_handle", "best_fit",
    ]  # fmt: skip
