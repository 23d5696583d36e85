"""A sub-agent reaches no further than the node that delegates: no tool, document, policy or budget beyond it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.agents import ToolRegistry
from hive_agents.agents.bundled import bundled_tools
from hive_agents.agents.guards.budget import Limits
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore
from hive_agents.models import Message, Tool
from tests.agents.conftest import agent_json, node, write_json
from tests.agents.loops import Answer, Told, agent, given, goal, sets, start
from tests.agents.test_loop_sub_agents import by_role, delegated, to
from tests.agents.test_withdrawn import BY_GRANT, BY_VIEW, DANA, KIM, OPEN, place as with_documents, seen

documents = with_documents
ALLOWED = [{"match": "*", "decision": "allow"}]
VERDICT, ITEMS = [sets("verdict", "holds")], [sets("items", [1])]


class Till:
    """Tools that are counted: `pay` has an effect, `look` has none."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.looked = 0
        self.registry = ToolRegistry()
        self.registry.register(self.pay, side_effect="external", policy="allow")
        self.registry.register(self.look, policy="allow")

    def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return "paid"

    def look(self, n: int = 0) -> str:
        """Look."""
        self.looked += 1
        return f"seen {n}"


def elsewhere(place: Workspace, *tools: str, **changes: Any) -> None:
    """A sub-agent with a file of its own, which allows itself everything."""
    own = node("checker", output_keys=["verdict"], tools=list(tools))
    write_json(place, "agents/checker.json", agent_json(own, id="checker", tool_policy=ALLOWED, **changes))


def parent(*tools: str, policy: Sequence[Any] = ALLOWED, own: bool = False, **changes: Any) -> Any:
    """An agent whose node delegates to `checker`: of another file, or a node of its own with the same tools."""
    nodes = [node("collect", output_keys=["items"], sub_agents=["checker"], tools=list(tools), **changes)]
    nodes += [node("checker", output_keys=["verdict"], tools=list(tools))] if own else []
    return agent(*nodes, edges=[], tool_policy=list(policy))


def child_prompts(model: Told) -> list[list[Message]]:
    return [prompt for prompt in model.prompts if "Do checker." in prompt[0].content]


def test_no_tool_beyond_the_nodes(place: Workspace) -> None:
    """Neither offered nor carried out, though its own file lists and allows it."""
    till, offered = Till(), list[set[str]]()
    elsewhere(place, "pay", "look")
    model = by_role([[to("checker")], ITEMS], [[("pay", {"amount": 1}), ("look", {})], VERDICT])
    answering = model.answering

    def answer(messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        offered.append({tool.name for tool in tools})
        return answering(messages, tools)

    model.answering = answer
    assert start(place, parent("look"), model, tools=till.registry).go()["status"] == "done"
    assert (till.paid, till.looked) == ([], 1)
    assert not any("pay" in names for names in offered)


@pytest.mark.parametrize(("who", "sees"), [(DANA, {1, 2, 3}), (KIM, {3})])
def test_no_document_beyond_those_of_whom_the_run_works_for(
    documents: Workspace, who: Principal, sees: set[int]
) -> None:
    assert {one.number for one in (BY_VIEW, BY_GRANT, OPEN)} == {1, 2, 3}
    elsewhere(documents, "search_documents")
    tools = bundled_tools(documents, only=["search_documents"])
    search = [("search_documents", {"query": "rotor"})]
    model = by_role([[to("checker")], ITEMS], [search, VERDICT])
    run = start(documents, parent("search_documents"), model, tools=tools, principal=who, goal=goal())
    assert run.go()["status"] == "done"
    assert seen(child_prompts(model)[1]) == sees


def test_no_file_of_its_parents(place: Workspace) -> None:
    elsewhere(place, "look")
    saves = [("save_data", {"filename": "plan.md", "text": "the secret plan"})]
    loads = [("list_data_files", {}), ("load_data", {"filename": "plan.md"})]
    model = by_role([saves, [to("checker")], ITEMS], [loads, VERDICT])
    assert start(place, parent("look"), model, tools=Till().registry).go()["status"] == "done"
    assert "secret plan" not in json.dumps([one.model_dump() for one in child_prompts(model)[1]])


@pytest.mark.parametrize("own", [True, False], ids=["a node of the agent", "an agent of its own"])
def test_no_policy_beyond_the_parents(place: Workspace, own: bool) -> None:
    """What asks or is denied for the parent asks or is denied for it, by the arguments, too."""
    till = Till()
    elsewhere(place, "pay", "look")
    policy = [
        {"match": "pay", "when": "args['amount'] > 900", "decision": "deny"},
        {"match": "pay", "when": "args['amount'] > 50", "decision": "ask"},
        *ALLOWED,
    ]
    calls = [("pay", {"amount": 20}), ("pay", {"amount": 70}), ("pay", {"amount": 1_000})]
    model = by_role([[to("checker")], ITEMS], [calls, VERDICT])
    run = start(place, parent("pay", "look", policy=policy, own=own), model, tools=till.registry)
    (id,) = run.go()["approval_ids"]
    assert till.paid == [20]
    assert ApprovalStore(place).get(id).context["args"] == {"amount": 70}
    ApprovalStore(place).decide(id, "reject", by="dana")
    assert run.go()["status"] == "done"
    assert till.paid == [20]


def test_no_constraint_of_the_goal_is_passed_by(place: Workspace) -> None:
    till = Till()
    elsewhere(place, "pay")
    small = goal(constraints=[{"id": "small", "check": "tool != 'pay' or args['amount'] <= 100"}])
    model = by_role([[to("checker")], ITEMS], [[("pay", {"amount": 500})], VERDICT])
    run = start(place, parent("pay"), model, tools=till.registry, goal=small)
    (id,) = run.go()["approval_ids"]
    assert (till.paid, ApprovalStore(place).get(id).risk) == ([], "high")


def looks(count: int) -> list[list[tuple[str, dict[str, Any]]]]:
    return [[("look", {"n": n})] for n in range(count)]


@pytest.mark.parametrize("own", [True, False], ids=["a node of the agent", "an agent of its own"])
def test_all_its_sub_agents_together_make_no_more_calls_than_the_node_may(place: Workspace, own: bool) -> None:
    """The first makes two of three, the second only one more; the node itself goes on."""
    till = Till()
    elsewhere(place, "look", budget={"tool_calls": 50})
    twice = [[to("checker")], [to("checker", "again")], ITEMS]
    model = by_role(twice, [*looks(2), VERDICT, *looks(5)])
    run = start(place, parent("look", own=own, max_tool_calls=3), model, tools=till.registry)
    assert run.go()["status"] == "done"
    assert till.looked == 3
    told = [given(one) for one in model.prompts[-1] if one.role == "tool" and "{" in one.content]
    assert [json.loads(text)["status"] for text in told] == ["completed", "failed"]
    assert "3 of 3 used" in told[1]


def test_what_sub_agents_called_before_a_restart_counts(place: Workspace) -> None:
    till = Till()
    elsewhere(place, "look", "pay")
    policy = [{"match": "pay", "decision": "ask"}, *ALLOWED]
    model = by_role([[to("checker")], ITEMS], [*looks(2), [("pay", {"amount": 1})], *looks(2), VERDICT])
    run = start(place, parent("look", "pay", policy=policy, max_tool_calls=3), model, tools=till.registry)
    (id,) = run.go()["approval_ids"]
    ApprovalStore(place).decide(id, "approve", by="dana")
    later = AgentRun.resume(place, run.run_id, tools=till.registry, models=run.models)
    assert later.go()["status"] == "done"
    assert (till.looked, till.paid) == (2, [1])
    assert "3 of 3 used" in delegated(later)["error"]


def test_no_budget_beyond_the_runs(place: Workspace) -> None:
    """Its own file may say what it likes."""
    till = Till()
    elsewhere(place, "look", budget={"tool_calls": 50, "steps": 500})
    model = by_role([[to("checker")], ITEMS], looks(5))
    ended = start(place, parent("look"), model, tools=till.registry, limits=Limits(tool_calls=2)).go()
    assert (ended["status"], ended["stopped_by"], till.looked) == ("failed", "tool_calls", 2)


def test_a_budget_of_its_own_holds_below_that(place: Workspace, tmp_path: Path) -> None:
    till = Till()
    elsewhere(place, "look", budget={"tool_calls": 1})
    model = by_role([[to("checker")], ITEMS], looks(5))
    run = start(place, parent("look"), model, tools=till.registry)
    assert run.go()["status"] == "done"
    assert (till.looked, delegated(run)["status"]) == (1, "failed")
