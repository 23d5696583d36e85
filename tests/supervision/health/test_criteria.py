from __future__ import annotations

import json

import pytest

from hive_agents import Workspace
from hive_agents.agents.deployed import deployed_text, record
from hive_agents.agents.evolution.texts import inlined
from hive_agents.agents.spec import load_agent
from hive_agents.base.errors import HiveError
from hive_agents.supervision.health import align, stale_criteria
from hive_agents.supervision.health.criteria import criteria_of, derive, stale
from tests.agents.conftest import agent_json, node, write_json

GOAL = {
    "id": "digest",
    "name": "Digest",
    "description": "A digest of the week",
    "success_criteria": [{"id": "complete", "description": "every topic is there"}],
    "constraints": [
        {"id": "no_names", "description": "no names of people"},
        {"id": "short", "description": "short", "constraint_type": "soft"},
    ],
}


@pytest.fixture
def place(text_workspace: Workspace) -> Workspace:
    write_json(text_workspace, "goals/digest.json", GOAL)
    nodes = [node("collect", system_prompt="prompts/collect.md", success_criteria="all found"), node("write")]
    write_json(text_workspace, "agents/digest.json", agent_json(*nodes))
    write_json(text_workspace, "prompts/collect.md", "Collect $topic.")
    principles = (
        "# Queen\n\n## Principles\n- People decide\n  what is irreversible.\n- Tell the truth.\n\n## Tools\n- none\n"
    )
    write_json(text_workspace, "prompts/queen.md", principles)
    return text_workspace


def test_criteria_derive_from_goal_prompts_and_principles(place: Workspace) -> None:
    found = align(place, "digest")
    assert found.goal.description == "A digest of the week"
    assert [one.id for one in found.success_criteria] == ["complete"]
    assert [one.id for one in found.hard_constraints] == ["no_names"]
    assert [(one.node, one.prompt) for one in found.phases] == [("collect", "Collect $topic."), ("write", "Do write.")]
    assert found.principles == ["People decide what is irreversible.", "Tell the truth."]
    file = place.root / "agents" / "criteria" / "digest.json"
    assert json.loads(file.read_text("utf-8"))["sources"].keys() == {
        "agents/digest.json",
        "goals/digest.json",
        "prompts/collect.md",
        "prompts/queen.md",
    }
    assert criteria_of(place, "digest") == found


@pytest.mark.parametrize(
    "source", ["agents/digest.json", "goals/digest.json", "prompts/collect.md", "prompts/queen.md"]
)
def test_a_source_that_changed_makes_them_stale(place: Workspace, source: str) -> None:
    assert stale(place, "digest") is None, "what was never aligned is derived when it is needed"
    align(place, "digest")
    assert stale_criteria(place) == []
    path = place.root / source
    path.write_text(path.read_text("utf-8").replace("Tell the truth", "Be kind") + "\n", encoding="utf-8")
    (found,) = stale_criteria(place)
    assert (found.code, found.severity, found.fix) == ("HIVE-424", "warning", "hive agents align digest")
    assert source in found.message
    align(place, "digest")
    assert stale(place, "digest") is None


def test_what_the_queen_is_told_elsewhere_leaves_them_alone(place: Workspace) -> None:
    align(place, "digest")
    path = place.root / "prompts" / "queen.md"
    path.write_text(path.read_text("utf-8") + "- another tool\n", encoding="utf-8")
    assert stale(place, "digest") is None


def test_a_deployed_agent_is_measured_by_what_serves(place: Workspace) -> None:
    agent = inlined(load_agent(place, "digest"), place)
    record(place, agent, decision="first", via="deploy", by="user:dana", evaluation={})
    before = align(place, "digest", deployed_text)
    assert before == derive(place, "digest", deployed_text)
    write_json(place, "prompts/collect.md", "Collect less.")
    write_json(place, "agents/digest.json", agent_json(node("lazy")))
    assert (criteria_of(place, "digest"), stale_criteria(place, deployed_text)) == (before, [])
    (place.root / "agents" / "digest.json").unlink()
    assert [one.prompt for one in derive(place, "digest", deployed_text).phases] == ["Collect $topic.", "Do write."]


def test_criteria_that_cannot_be_compared_say_why(place: Workspace) -> None:
    align(place, "digest")
    (place.root / "goals" / "digest.json").unlink()
    found = stale(place, "digest")
    assert found is not None
    assert 'no goal "digest"' in found.message


@pytest.mark.parametrize("agent", ["digst", "../digest"])
def test_an_unknown_agent_is_wrong_usage(place: Workspace, agent: str) -> None:
    with pytest.raises(HiveError) as caught:
        align(place, agent)
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-107", 2)
