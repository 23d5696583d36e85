"""Agents that act are evaluated: their tools are stubs, their calls are expected, and what a case costs is bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import AgentSpec, ToolRegistry, evaluate_agent
from hive_agents.agents.evaluation import CaseRuns
from hive_agents.agents.evolution.texts import format_hash
from hive_agents.agents.rehearsal import Stage
from hive_agents.goals.goals import Goal
from hive_agents.models import Chain
from tests.agents.conftest import make_workspace, node, write_json
from tests.agents.loops import agent, said, sets
from tests.sample import hive

CASE = {"id": "small", "input": {}, "expect": {"decision": "refunded"}}
STUBS = {"look_up": {"returns": {"paid": 20}}, "issue_refund": [{"when": "args['amount'] <= 50", "returns": "ok"}]}
POLICY = [
    {"match": "issue_refund", "when": "args['amount'] > 50", "decision": "ask"},
    {"match": "*", "decision": "allow"},
]
LOOK, DONE = [("look_up", {"ticket": "T1"})], [sets("decision", "refunded")]


def refund(amount: int) -> list[tuple[str, dict[str, Any]]]:
    return [("issue_refund", {"amount": amount})]


class Desk:
    def __init__(self) -> None:
        self.paid: list[int] = []
        self.registry = ToolRegistry()
        self.registry.register(self.issue_refund, side_effect="external")
        self.registry.register(self.look_up)

    def issue_refund(self, amount: int) -> str:
        """Pay money back."""
        self.paid.append(amount)
        return "ok"

    def look_up(self, ticket: str) -> str:
        """Find a payment."""
        raise AssertionError("the case has a stub of it")


@pytest.fixture
def place(tmp_path: Any) -> Workspace:
    workspace = make_workspace(tmp_path / "ws", embedding=False)
    desk = node("desk", output_keys=["decision"], tools=["look_up", "issue_refund"])
    write_json(workspace, "agents/digest.json", agent(desk, tool_policy=POLICY).to_json())
    return workspace


def tried(place: Workspace, *turns: Any, repeats: int = 1, **case: Any) -> CaseRuns:
    """How a case goes, with these turns of the model in each of its runs."""
    desk = Desk()
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Digest", "eval_cases": [CASE | case]})
    runs = [iter([said(*turns)] if not isinstance(turns[0], tuple) else [said(*one) for one in turns])]

    def models(_: AgentSpec) -> Any:
        model = next(runs[0])
        return lambda role: Chain([model])

    (found,) = evaluate_agent(Stage(place, desk.registry, models=models), "digest", repeats=repeats)
    assert desk.paid == []
    return found


def test_stubs_stand_in_for_tools_with_effects(place: Workspace) -> None:
    found = tried(place, LOOK, refund(20), DONE, tools=STUBS)
    assert (found.passed, found.to_json()["why"]) == (1, None)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ({}, "has effects"),
        ({"tools": {"look_up": {"returns": 1}, "issue_refund": {"when": "args['amount'] > 50"}}}, "has effects"),
        ({"calls": {"order": ["issue_refund", "look_up"]}}, "look_up in that order"),
        ({"calls": {"order": [{"tool": "issue_refund", "when": "args['amount'] == 21"}]}}, "args['amount'] == 21"),
        ({"calls": {"never": [{"tool": "issue_refund", "when": "args['amount'] > 10"}]}}, "it called issue_refund"),
        ({"calls": {"asks": ["issue_refund"]}}, "asked nobody"),
        ({"at_most": {"steps": 2}}, "steps"),
        ({"expect": {"decision": "refused"}}, "not as expected"),
    ],
)
def test_a_case_says_what_it_failed_of(place: Workspace, case: dict[str, Any], why: str) -> None:
    stubs = {"look_up": STUBS["look_up"]} if case == {} else STUBS
    found = tried(place, LOOK, refund(20), DONE, **({"tools": stubs} | case))
    assert (found.passed, why in str(found.to_json()["why"])) == (0, True)


@pytest.mark.parametrize(
    "calls",
    [
        {"order": ["look_up", {"tool": "issue_refund", "when": "args['amount'] == 20"}]},
        {"never": [{"tool": "issue_refund", "when": "args['amount'] > 50"}]},
    ],
)
def test_calls_that_are_as_expected_pass(place: Workspace, calls: dict[str, Any]) -> None:
    assert tried(place, LOOK, refund(20), DONE, tools=STUBS, calls=calls).passed == 1


def test_an_error_of_a_stub_reaches_the_model(place: Workspace) -> None:
    stubs = STUBS | {"look_up": {"error": "no such ticket"}}
    assert tried(place, LOOK, DONE, tools=stubs, calls={"never": ["issue_refund"]}).passed == 1


def test_a_person_of_the_case_answers_what_asks(place: Workspace) -> None:
    stubs = {"issue_refund": {"returns": "ok"}}
    above = {"tools": stubs, "calls": {"asks": ["issue_refund"]}}
    assert tried(place, refund(70), DONE, **above, person="approve").passed == 1
    assert tried(place, refund(70), DONE, **above, person="reject").passed == 1
    assert "asked a person" in str(tried(place, refund(70), DONE, **above).to_json()["why"])


def test_a_case_that_passes_sometimes_is_flaky(place: Workspace) -> None:
    found = tried(place, (DONE,), ([sets("decision", "unsure")],), (DONE,), repeats=3)
    assert (found.passed, found.flaky, len(found.runs)) == (2, True, 3)


def test_a_goal_without_stubs_keeps_its_hash() -> None:
    goal = Goal.model_validate({"id": "g", "name": "G", "eval_cases": [{"id": "a", "expect": {"x": 1}}]})
    assert goal.model_dump(mode="json")["eval_cases"] == [{"id": "a", "input": None, "expect": {"x": 1}}]
    assert format_hash(goal) == format_hash(Goal.model_validate_json(json.dumps(goal.model_dump(mode="json"))))


def test_the_command_prints_a_table_and_fails_with_a_case(place: Workspace) -> None:
    spec = agent(node("desk", output_keys=["decision"]), model="scripted:script.jsonl").to_json()
    write_json(place, "agents/digest.json", spec)
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Digest", "eval_cases": [CASE]})
    line = {"tool_calls": [{"name": "set_output", "args": {"key": "decision", "value": "refunded"}}]}
    (place.root / "script.jsonl").write_text(json.dumps(line) + "\n")
    ran = hive("agents", "eval", "digest", "--repeats", "2", "-w", place.root, "--json")
    assert (ran.code, ran.json["passed"], ran.json["of"], ran.json["flaky"]) == (0, 1, 1, [])
    assert ran.json["cases"][0]["runs"] == 2
    write_json(place, "goals/digest.json", {"id": "digest", "name": "D", "eval_cases": [CASE | {"expect": {"a": 1}}]})
    ran = hive("agents", "eval", "digest", "-w", place.root)
    assert (ran.code, "a is missing" in ran.out, "0 of 1 case passed" in ran.out) == (1, True, True)


def test_an_agent_is_drawn(place: Workspace) -> None:
    ran = hive("agents", "graph", "digest", "-w", place.root, "--json")
    assert (ran.code, ran.json["mermaid"].splitlines()[0]) == (0, "flowchart TD")
    assert 'desk["desk<br/>uses look_up, issue_refund<br/>makes decision"]' in ran.json["mermaid"]
