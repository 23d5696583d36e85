from __future__ import annotations

from typing import Any

import pytest

from hive_agents import SubagentJudge, Workspace
from hive_agents.agents import AgentSpec
from hive_agents.agents.judges import register_judge
from hive_agents.agents.prompt_texts import filled, secrets_in
from hive_agents.agents.spec import agent_ids, load_agent
from hive_agents.agents.verify import check_agent, sound_agent
from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.base.resources import bundled
from tests.agents.conftest import agent_json, edge, node, write_json


def found(place: Workspace | None, value: dict[str, Any]) -> list[Diagnostic]:
    return check_agent(AgentSpec.model_validate(value), place)


def shown(place: Workspace | None, *nodes: dict[str, Any], **changes: Any) -> list[str]:
    return [f"{one.code} {one.path}" for one in found(place, agent_json(*nodes, **changes))]


def test_a_tool_that_a_sub_agent_will_not_have_is_a_warning(place: Workspace) -> None:
    nodes = node("a", sub_agents=["b"]), node("b", tools=["search_documents", "load_data"])
    (one,) = found(place, agent_json(*nodes, edges=[]))
    assert (one.code, one.severity, one.path) == ("HIVE-218", "warning", "nodes[0].sub_agents[0]")
    assert "search_documents" in one.message
    lent = node("a", sub_agents=["b"], tools=["search_documents"]), nodes[1]
    assert found(place, agent_json(*lent, edges=[])) == []


def test_a_sound_agent_has_no_findings(place: Workspace) -> None:
    write_json(place, "agents/digest.json", agent_json())
    assert sound_agent(place, "digest").id == "digest"


def test_every_fault_is_told_with_its_line(place: Workspace) -> None:
    write_json(place, "agents/digest.json", agent_json(entry="colect", goal="digets", pause_nodes=["nowhere"]))
    with pytest.raises(HiveError) as raised:
        sound_agent(place, "digest")
    told = raised.value.diagnostics
    assert [(one.code, one.path) for one in told] == [
        ("HIVE-107", "entry"),
        ("HIVE-107", "pause_nodes[0]"),
        ("HIVE-107", "goal"),
        ("HIVE-216", "nodes[0].input_keys[0]"),
    ]
    assert told[0].fix == 'did you mean "collect"?'
    assert all(one.line and one.file == "agents/digest.json" for one in told)


@pytest.mark.parametrize(
    ("nodes", "changes", "wanted"),
    [
        ([node("a"), node("a")], {"edges": []}, "HIVE-111 nodes[1].id"),
        ([node("a")], {"edges": [edge("a", "b")]}, "HIVE-107 edges[0].target"),
        ([node("a")], {"edges": [edge("b", "a")]}, "HIVE-107 edges[0].source"),
        ([node("a"), node("b")], {"edges": [edge("a", "b")] * 2}, "HIVE-111 edges[1]"),
        ([node("a", tools=["serch_documents"])], {}, "HIVE-107 nodes[0].tools[0]"),
        ([node("a", tools=["browser"])], {}, "HIVE-218 nodes[0].tools[0]"),
        ([node("a", sub_agents=["nobody"])], {}, "HIVE-107 nodes[0].sub_agents[0]"),
        ([node("a", sub_agents=["digest"])], {}, "HIVE-218 nodes[0].sub_agents[0]"),
        ([node("a", output_keys=["x"], nullable_output_keys=["y"])], {}, "HIVE-107 nodes[0].nullable_output_keys[0]"),
        ([node("a", judge="nobody")], {}, "HIVE-107 nodes[0].judge"),
        ([node("a"), node("b")], {"edges": []}, "HIVE-215 nodes[1].id"),
        ([node("a"), node("b", input_keys=["x"])], {}, "HIVE-216 nodes[1].input_keys[0]"),
        ([node("a")], {"tool_policy": [{"match": "web_serch", "decision": "allow"}]}, "HIVE-107 tool_policy[0].match"),
        ([node("a")], {"tool_policy": [{"match": "", "decision": "allow"}]}, "HIVE-105 tool_policy[0].match"),
        ([node("a")], {"tool_policy": [{"match": "web_[", "decision": "allow"}]}, "HIVE-105 tool_policy[0].match"),
        ([node("a", system_prompt="Use $topik.", input_keys=["topic"])], {}, "HIVE-106 nodes[0].system_prompt"),
        ([node("a", system_prompt="It costs 5$.")], {}, "HIVE-105 nodes[0].system_prompt"),
    ],
)  # fmt: skip
def test_what_leads_nowhere_is_named(
    place: Workspace, nodes: list[dict[str, Any]], changes: dict[str, Any], wanted: str
) -> None:
    assert shown(place, *nodes, **changes) == [wanted]


def test_loops_and_nodes_without_a_way_out_are_fine(place: Workspace) -> None:
    assert not shown(place, node("a"), node("b"), edges=[edge("a", "b"), edge("b", "a", on="replan")])


def test_an_input_may_come_from_the_entry_a_loop_or_an_earlier_node_only(place: Workspace) -> None:
    looped = [node("a", input_keys=["t"], output_keys=["x"]), node("b", input_keys=["t", "x", "z"], output_keys=["y"])]
    last = node("c", input_keys=["y"], output_keys=["z"])
    back = [edge("a", "b"), edge("b", "c"), edge("c", "b", on="replan")]
    assert not shown(place, *looped, last, edges=back)
    assert shown(place, *looped, last, edges=back[:2]) == ["HIVE-216 nodes[1].input_keys[2]"]


def both(**ways: Any) -> list[dict[str, Any]]:
    return [edge("a", "b", **ways.get("b", {})), edge("a", "c", **ways.get("c", {}))]


WRITERS = [node("a"), node("b", output_keys=["x"]), node("c", output_keys=["x"])]


@pytest.mark.parametrize(
    ("edges", "refused"),
    [
        (both(), True),
        (both(b={"on": "always"}), True),
        (both(b={"on": "condition", "condition": "True"}, c={"on": "condition", "condition": "False"}), True),
        (both(b={"on": "condition", "condition": "True", "priority": 1}), False),
        (both(b={"on": "failure"}), False),
        (both(b={"on": "model"}, c={"on": "model"}), False),
    ],
)
def test_two_branches_never_write_one_key(place: Workspace, edges: list[dict[str, Any]], refused: bool) -> None:
    assert shown(place, *WRITERS, edges=edges) == (["HIVE-217 edges[1]"] if refused else [])


def test_branches_are_followed_until_they_meet(place: Workspace) -> None:
    apart = [node("a"), node("b"), node("c"), node("d", output_keys=["x"]), node("e", output_keys=["x"])]
    ways = [*both(), edge("b", "d"), edge("c", "e")]
    assert shown(place, *apart, edges=ways) == ["HIVE-217 edges[1]"]
    met = [node("a"), node("b", output_keys=["x"]), node("c", output_keys=["y"]), node("d", output_keys=["x"])]
    assert not shown(place, *met, edges=[*both(), edge("b", "d"), edge("c", "d")])


def test_delegation_is_one_level_deep(place: Workspace) -> None:
    nested = [node("a", sub_agents=["b"]), node("b", sub_agents=["c"]), node("c")]
    assert shown(place, *nested, edges=[]) == ["HIVE-218 nodes[1].sub_agents"]
    write_json(
        place, "agents/deep.json", {**agent_json(node("x", sub_agents=["y"]), node("y"), edges=[]), "id": "deep"}
    )
    assert shown(place, node("a", sub_agents=["deep"])) == ["HIVE-218 nodes[0].sub_agents[0]"]
    both_ways = [node("a", sub_agents=["b"]), node("b")]
    assert shown(place, *both_ways, edges=[edge("a", "b")]) == ["HIVE-218 nodes[1].id"]


def test_a_sub_agent_may_browse_and_gets_its_inputs_from_who_delegates(place: Workspace) -> None:
    reader = node("reader", input_keys=["page"], output_keys=["said"], tools=["browser"])
    assert not shown(place, node("a", sub_agents=["reader"]), reader, edges=[])


def test_a_registered_judge_is_known(place: Workspace) -> None:
    register_judge("strict", SubagentJudge([]))
    assert not shown(place, node("a", judge="strict"))


@pytest.mark.parametrize(
    "prompt", ["prompts/colect.md", "collect.md", "prompts/sub/collect.md", "./prompts/collect", "prompts\\collect.md"]
)
def test_a_prompt_that_is_not_there_is_named(place: Workspace, prompt: str) -> None:
    """What looks like a file is never sent as a text."""
    write_json(place, "prompts/collect.md", "Collect.")
    (told,) = found(place, agent_json(node("a", system_prompt=prompt)))
    assert (told.code, told.path, told.fix) == (
        "HIVE-107",
        "nodes[0].system_prompt",
        'did you mean "prompts/collect.md"?',
    )
    assert shown(place, node("a"), identity=prompt) == ["HIVE-107 identity"]


@pytest.mark.parametrize("prompt", ["prompts/../secret.md", "../secret.md", "/etc/passwd", "~/x.md", "C:\\x.md"])
def test_a_prompt_outside_of_the_prompts_is_refused(place: Workspace, prompt: str) -> None:
    write_json(place, "secret.md", "$undeclared")
    assert shown(place, node("a", system_prompt=prompt)) == ["HIVE-114 nodes[0].system_prompt"]


@pytest.mark.parametrize("prompt", ["Collect.", "Read/write the file.", "$agent/$today", "..", ""])
def test_a_text_is_no_file(place: Workspace, prompt: str) -> None:
    assert not shown(place, node("a", system_prompt=prompt))


def test_faults_of_a_prompt_file_are_told_there(place: Workspace) -> None:
    write_json(place, "prompts/a.md", "Goal: $goal\n\nThe API key is sk-abcdefghijklmnop1234\n$nobody\n")
    told = found(place, agent_json(node("a", system_prompt="prompts/a.md")))
    assert {(one.code, one.file) for one in told} == {("HIVE-220", "prompts/a.md"), ("HIVE-106", "prompts/a.md")}
    assert {one.line for one in told if one.code == "HIVE-220"} == {3}
    assert "abcdefgh" not in str(told)


@pytest.mark.parametrize(
    "text",
    [
        "Use credential:github to log in.",
        "token: env:GITHUB_TOKEN",
        "password = hunter2000",
        'The "api key" is "abcd1234efgh".',
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefghij",
        "-----BEGIN RSA PRIVATE KEY-----",
        "postgres://app:hunter2@db/main",
        "Authorization: Bearer abcdef0123456789",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJkYW5hIn0.abc",
    ],
)
def test_secrets_stay_out_of_prompts(text: str) -> None:
    for changes in ({"system_prompt": text}, {"success_criteria": text}):
        assert {one.code for one in found(None, agent_json(node("a", **changes)))} == {"HIVE-220"}
    assert {one.code for one in found(None, agent_json(identity=text))} == {"HIVE-220"}


@pytest.mark.parametrize(
    "text",
    [
        "Never ask for a password or an API key.",
        "The token is valid for a day.",
        "See https://example.org/a?b=c and the secret: none.",
        "Rotate the api key: see $goal",
    ],
)
def test_talking_about_secrets_is_allowed(text: str) -> None:
    assert not found(None, agent_json(node("a", system_prompt=text)))


def test_a_long_prompt_is_looked_through_in_no_time() -> None:
    """Linear: the texts that make careless patterns take the square of their length."""
    for part in ("a.", "token=", "eyJ-", "-----BEGIN ", "x://a:", "sk-", "password is "):
        secrets_in(part * 20_000)


@pytest.mark.parametrize(
    ("prompt", "code"),
    [("$nobody", "HIVE-106"), ("5$", "HIVE-105"), ("prompts/missing.md", "HIVE-107"), ("prompts/p.md", "HIVE-106")],
)
def test_a_prompt_is_filled_in_completely_or_not_at_all(place: Workspace, prompt: str, code: str) -> None:
    write_json(place, "prompts/p.md", "About $topic.")
    assert filled("prompts/p.md", place, topic="$x", more="y") == "About $x."
    with pytest.raises(HiveError, match=code):
        filled(prompt, place)


def test_tools_of_a_registry_are_known_when_they_are_named(place: Workspace) -> None:
    agent = AgentSpec.model_validate(agent_json(node("a", tools=["mine", "load_data"])))
    assert not check_agent(agent, place, tools=["mine"])
    assert [one.code for one in check_agent(agent, place)] == ["HIVE-107"]


def test_the_shipped_agents_are_sound() -> None:
    sample = Workspace(bundled("workspace"))
    assert agent_ids(sample) == ["curator", "optimizer"]
    for id in agent_ids(sample):
        assert sound_agent(sample, id) == load_agent(sample, id)
