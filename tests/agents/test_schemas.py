"""Schemas of JSON agents: what doesn't fit is refused where it comes in, with its place."""

from __future__ import annotations

from typing import Any

import pytest

from hive_agents import AgentRun, HiveError, Workspace
from hive_agents.agents.verify import check_agent
from hive_agents.base import RefusedInput
from hive_agents.server.problems import status_of
from tests.agents.conftest import node
from tests.agents.loops import agent, said, sets, start

INPUT = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "integer"}, "default": []},
    },
    "required": ["order"],
}
OUTPUT = {"type": "object", "properties": {"amount": {"type": "number", "maximum": 100}}, "required": ["amount"]}


def desk(**changes: Any) -> Any:
    return agent(node("desk", input_keys=["order", "lines"], output_keys=["amount"], **changes), input_schema=INPUT)


def test_an_input_that_does_not_fit_is_refused_with_its_place(place: Workspace) -> None:
    for input, code, path in (
        ({"order": {"$ne": 1}}, "HIVE-105", "order"),
        ({"order": "A", "lines": [1, "x"]}, "HIVE-105", "lines[1]"),
        ({"lines": []}, "HIVE-106", "order"),
        ({"order": "A", "other": 1}, "HIVE-103", "other"),
    ):
        with pytest.raises(RefusedInput) as refused:
            start(place, desk(), said(), input)
        assert [(one.code, one.path) for one in refused.value.diagnostics] == [(code, path)]
        assert status_of(refused.value) == 422


def test_an_input_that_is_left_out_has_its_default(place: Workspace) -> None:
    run = start(place, desk(), said(), {"order": "A"})
    assert run.row.value["input"] == {"order": "A", "lines": []}


@pytest.mark.parametrize("of_node", [True, False])
async def test_outputs_that_do_not_fit_go_back_to_the_model(place: Workspace, of_node: bool) -> None:
    held = desk(output_schema=OUTPUT) if of_node else desk().model_copy(update={"output_schema": OUTPUT})
    model = said([sets("amount", "a lot")], [("set_output", {"amount": 500})], [sets("amount", 80)])
    result = await start(place, held, model, {"order": "A"}).work()
    assert result["outputs"] == {"amount": 80}
    assert "amount is 'a lot', not number" in model.prompts[1][-2].content
    assert "amount is 500, more than 100" in model.prompts[2][-2].content


async def test_a_delegation_with_inputs_that_do_not_fit_fails(place: Workspace) -> None:
    other = desk().model_copy(update={"id": "other"})
    path = place.root / "agents" / "other.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(other.model_copy(update={"entry": "desk"}).model_dump_json())
    lead = agent(node("lead", output_keys=["done"], sub_agents=["other"]))
    asked = ("delegate_to_sub_agent", {"agent": "other", "task": "look", "inputs": {"order": 5}})
    model = said([asked], [sets("done", True)])
    await start(place, lead, model).work()
    assert "order is 5, not string" in model.prompts[1][-1].content


def test_a_schema_that_can_not_be_used_is_a_fault(place: Workspace) -> None:
    faulty = desk(output_schema={"type": "object", "properties": {"amount": {"type": "numbr"}}})
    found = check_agent(faulty, place, tools=[])
    assert [(one.code, one.path) for one in found] == [("HIVE-105", "nodes[0].output_schema")]


def test_code_of_an_unknown_name_is_a_fault(place: Workspace) -> None:
    spec = agent({"id": "desk", "code": "dek"})
    with pytest.raises(HiveError, match='no flow "dek"'):
        AgentRun.start(place, spec, {})
