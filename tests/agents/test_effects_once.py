"""An effect outside happens once: by a key where the tool takes one, else a person is asked after a crash."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import Effects, ToolContext, ToolRegistry
from hive_agents.agents.run import AgentRun
from hive_agents.agents.tool import make_tool
from hive_agents.approvals import ApprovalStore
from tests.agents.conftest import node
from tests.agents.loops import agent, said, sets, start, words

SPEC = agent(node("collect", output_keys=["items"], tools=["pay"]))
TURNS = ([("pay", {"amount": 5})], [sets("items", [1])])


class Till:
    """A tool with an effect, and what it did."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.registry = ToolRegistry()
        self.registry.register(self.pay, side_effect="external")

    def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return "paid"


def dies(run: AgentRun, till: Till) -> None:
    """Work on the run until its process dies after the next payment, before that is recorded."""
    record, before = Effects._end, len(till.paid)

    def dying(self: Effects, *done: Any) -> None:
        if len(till.paid) > before:
            raise RuntimeError("killed")
        record(self, *done)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Effects, "_end", dying)
        with pytest.raises(RuntimeError, match="killed"):
            run.go()


def died(place: Workspace, till: Till) -> AgentRun:
    run = start(place, SPEC, said(*TURNS), tools=till.registry)
    dies(run, till)
    return run


def test_a_call_that_broke_off_is_asked_about_and_not_made_again(place: Workspace) -> None:
    till = Till()
    run = died(place, till)
    waiting = run.go()
    (request,) = [ApprovalStore(place).get(id) for id in waiting["approval_ids"]]
    assert (waiting["status"], till.paid, request.risk) == ("waiting", [5], "high")
    assert (request.context["tool"], request.context["args"]) == ("pay", {"amount": 5})
    assert request.title.startswith("call pay again?"), "what approving does"
    assert ApprovalStore(place).batch(run.run_id) == [], "nobody approves it among others"
    ApprovalStore(place).decide(request.id, "respond", by="dana", message="receipt 12")
    assert run.go()["status"] == "done"
    assert till.paid == [5]
    assert any("receipt 12" in one for one in words(run))


@pytest.mark.parametrize(("verb", "paid"), [("approve", [5, 5]), ("reject", [5])])
def test_a_person_says_whether_it_is_called_again(place: Workspace, verb: Any, paid: list[int]) -> None:
    till = Till()
    run = died(place, till)
    ApprovalStore(place).decide(run.go()["approval_ids"][0], verb, by="dana")
    assert run.go()["status"] == "done"
    assert till.paid == paid


def test_another_death_is_another_question(place: Workspace) -> None:
    till = Till()
    run = died(place, till)
    first = run.go()["approval_ids"]
    ApprovalStore(place).decide(first[0], "approve", by="dana")
    dies(run, till)
    second = run.go()
    assert (second["status"], till.paid) == ("waiting", [5, 5])
    assert second["approval_ids"] != first


@pytest.mark.parametrize("parameter", [{"idempotency_key": {"type": "string"}}, {"ref": {"x-idempotency": True}}])
def test_a_tool_that_takes_a_key_gets_it_and_the_model_never_sees_it(
    parameter: dict[str, Any], place: Workspace
) -> None:
    class Remote:
        name, description = "pay", "Pay."
        inputSchema = {
            "type": "object",
            "properties": {"amount": {"type": "integer"}, **parameter},
            "required": ["amount", *parameter],
        }
        input_schema = inputSchema  # each by its version of the protocol

    got: list[dict[str, Any]] = []
    tool = make_tool(Remote(), side_effect="external", call=lambda name, arguments: got.append(arguments) or "ok")
    assert tool.keyed
    assert list(tool.for_model().parameters["properties"]) == ["amount"]
    asyncio.run(tool.action({"amount": 5}, ToolContext(place, idempotency_key="r1/k"), {}))
    assert got == [{"amount": 5, next(iter(parameter)): "r1/k"}]


def test_a_function_that_is_told_of_its_call_is_trusted_with_the_key(place: Workspace) -> None:
    def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        return context.idempotency_key

    def plain(amount: int) -> str:
        """Pay."""
        return "paid"

    assert [make_tool(one, side_effect="external").keyed for one in (pay, plain)] == [True, False]


@pytest.mark.parametrize("kind", ["takes a key", "writes here"])
def test_what_happens_once_anyway_is_made_again_without_asking(place: Workspace, kind: str) -> None:
    till, keys = Till(), list[str]()
    till.registry = ToolRegistry()

    def pay(amount: int, idempotency_key: str) -> str:
        """Pay once for each key."""
        keys.append(idempotency_key)
        till.paid.append(amount)
        return "paid"

    if kind == "takes a key":
        till.registry.register(pay, side_effect="external")
    else:
        till.registry.register(till.pay, side_effect="write")
    run = died(place, till)
    assert run.go()["status"] == "done"
    assert ApprovalStore(place).list() == []
    assert till.paid == [5, 5]
    assert len(set(keys)) <= 1, "under the key of the first time"


def test_each_call_has_a_key_of_its_own(place: Workspace) -> None:
    registry, keys = ToolRegistry(), list[str]()

    def pay(amount: int, idempotency_key: str) -> str:
        """Pay once for each key."""
        keys.append(idempotency_key)
        return "paid"

    registry.register(pay, side_effect="external")
    both = [("pay", {"amount": 5}), ("pay", {"amount": 5})]
    for _ in range(2):
        assert start(place, SPEC, said(both, both, [sets("items", [1])]), tools=registry).go()["status"] == "done"
    assert len(keys) == len(set(keys)) == 8
