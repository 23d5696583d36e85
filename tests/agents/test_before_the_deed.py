"""Policies that look at arguments, and constraints that are asked before an effect, not after it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from hive_agents import Workspace
from hive_agents.agents import AgentSpec, Tool, ToolRegistry
from hive_agents.agents.call_bounds import CallBounds
from hive_agents.agents.run import AgentRun
from hive_agents.agents.tool import ToolContext
from hive_agents.agents.tools import Tools
from hive_agents.approvals import ApprovalStore, ToolPolicy, ToolRule
from hive_agents.base import schemas
from hive_agents.base.errors import HiveError
from hive_agents.goals.goals import Constraint
from tests.agents.conftest import node
from tests.agents.loops import Told, agent, asked, decide, goal, said, sets, start, words

DONE = [sets("decision", "refunded")]
ABOVE = {"match": "issue_refund", "when": "args['amount'] > 50", "decision": "ask"}
ALLOW = {"match": "*", "decision": "allow"}


class Desk:
    """A tool that pays, one that looks, and what was paid."""

    def __init__(self) -> None:
        self.paid: list[float] = []
        self.registry = ToolRegistry()
        self.registry.register(self.issue_refund, side_effect="external")
        self.registry.register(self.look_up)

    def issue_refund(self, amount: float) -> str:
        """Pay money back."""
        self.paid.append(amount)
        return f"paid {amount:g}"

    def look_up(self, amount: float) -> str:
        """Find payments of an amount."""
        return "none"


def refund(amount: Any) -> tuple[str, dict[str, Any]]:
    return "issue_refund", {"amount": amount}


def refunding(
    place: Workspace,
    desk: Desk,
    model: Told,
    *policy: dict[str, Any],
    entry_keys: Sequence[str] = (),
    **seams: Any,
) -> AgentRun:
    desk_node = node(
        "desk", input_keys=list(entry_keys), output_keys=["decision", "amount"], nullable_output_keys=["amount"]
    )
    spec = agent(desk_node | {"tools": ["issue_refund", "look_up"]}, tool_policy=list(policy) or [ALLOW])
    return start(place, spec, model, tools=desk.registry, **seams)


def bounded(check: str, **fields: Any) -> Any:
    return goal(constraints=[{"id": "small", "description": "at most 100", "check": check, **fields}])


def test_a_rule_decides_where_its_condition_holds_for_the_arguments() -> None:
    policy = ToolPolicy([ToolRule.model_validate(rule) for rule in (ABOVE, ALLOW)])
    assert policy.decide("issue_refund", {"amount": 51}) == "ask"
    assert policy.decide("issue_refund", {"amount": 50}) == "allow"
    assert policy.decide("other", {"amount": 51}) == "allow"


@pytest.mark.parametrize("arguments", [{}, {"amount": "lots"}, {"amount": None}])
def test_a_condition_that_cannot_be_told_never_allows(arguments: dict[str, Any]) -> None:
    small = ToolRule(match="issue_refund", when="args['amount'] <= 50", decision="allow")
    policy = ToolPolicy([small, ToolRule(match="*", decision="allow")])
    assert policy.decide("issue_refund", arguments) == "ask"
    denied = ToolPolicy([ToolRule(match="*", when="args['amount'] > 50", decision="deny")])
    assert denied.decide("issue_refund", arguments) == "deny"


@pytest.mark.parametrize("when", ["", "args[", "result['amount'] > 5", "__import__('os')", "[x for x in args]"])
def test_a_condition_outside_the_rules_language_is_refused_when_it_is_read(when: str) -> None:
    with pytest.raises(ValidationError):
        ToolRule(match="*", when=when, decision="ask")
    with pytest.raises((ValidationError, HiveError)):
        AgentSpec.model_validate(agent().to_json() | {"tool_policy": [{"match": "*", "when": when, "decision": "ask"}]})


def test_only_calls_beyond_the_condition_wait_for_a_person(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, said([refund(50), refund(51)], DONE), ABOVE, ALLOW)
    (request,) = asked(place, run.go())
    assert (request.context["args"], desk.paid) == ({"amount": 51}, [50])
    decide(place, request, "approve")
    assert run.go()["status"] == "done"
    assert desk.paid == [50, 51]


def test_a_tool_that_is_denied_for_some_arguments_is_offered_and_denied_for_these(place: Workspace) -> None:
    desk = Desk()
    small = {"match": "issue_refund", "when": "args['amount'] <= 50", "decision": "allow"}
    model = said([refund(20)], [refund(70)], DONE)
    run = refunding(place, desk, model, small, {"match": "*", "decision": "deny"})
    assert run.go()["status"] == "done"
    assert desk.paid == [20]
    assert any("the policy denies it" in one for one in words(run))


def test_an_edit_to_arguments_that_the_policy_denies_is_refused(place: Workspace) -> None:
    desk = Desk()
    never = {"match": "issue_refund", "when": "args['amount'] > 200", "decision": "deny"}
    run = refunding(place, desk, said([refund(60)], DONE), never, ABOVE, ALLOW)
    (request,) = asked(place, run.go())
    with pytest.raises(HiveError, match="denies"):
        decide(place, request, "edit", patch={"amount": 500})
    decide(place, request, "edit", patch={"amount": 40})
    assert run.go()["status"] == "done"
    assert desk.paid == [40]


@pytest.mark.parametrize(
    "check",
    [
        "result['amount'] <= 100",
        "result.get('amount', 0) <= 100",
        "args['amount'] <= 100",
        "tool != 'issue_refund' or args['amount'] <= 100",
    ],
)
def test_a_hard_constraint_that_speaks_of_the_call_is_asked_before_the_effect(place: Workspace, check: str) -> None:
    desk = Desk()
    done = [*DONE, sets("amount", 80)]
    run = refunding(place, desk, said([refund(500)], [refund(80)], done), goal=bounded(check))
    (request,) = asked(place, run.go())
    assert desk.paid == []
    assert request.risk == "high"
    assert [one["id"] for one in request.context["constraints"]] == ["small"]
    decide(place, request, "reject", reason="far too much")
    assert run.go()["status"] == "done"
    assert desk.paid == [80]


def test_a_person_may_let_a_call_pass_that_violates_a_constraint(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, said([refund(500)], DONE), goal=bounded("args['amount'] <= 100"))
    (request,) = asked(place, run.go())
    decide(place, request, "approve")
    assert run.go()["status"] == "done"
    assert desk.paid == [500]


@pytest.mark.parametrize(
    "check",
    [
        "result['amount'] <= 100",
        "args['amount'] <= result['most']",
        "tool != 'issue_refund' or args['amount'] <= 100",
        "'20' not in str(result['amount']) and result.get('most') == 100",
        "result.get('amount').upper() == 'SMALL'",  # can't be told of a number
    ],
)
def test_an_edit_that_violates_a_hard_constraint_is_refused_and_decides_nothing(place: Workspace, check: str) -> None:
    desk = Desk()
    ask = {"match": "issue_refund", "decision": "ask"}
    model = said([refund(60)], DONE)
    run = refunding(place, desk, model, ask, goal=bounded(check), entry_keys=["most"], input={"most": 100})
    (request,) = asked(place, run.go())
    with pytest.raises(HiveError, match="small"):
        decide(place, request, "edit", patch={"amount": 200})
    assert (ApprovalStore(place).get(request.id).status, desk.paid) == ("pending", [])


def test_an_edit_that_mends_what_a_call_would_violate_passes(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, said([refund(500)], DONE), goal=bounded("args['amount'] <= 100"))
    (request,) = asked(place, run.go())
    decide(place, request, "edit", patch={"amount": 99})
    assert run.go()["status"] == "done"
    assert desk.paid == [99]


def test_an_edit_is_held_to_the_outputs_that_the_call_was_made_with(place: Workspace) -> None:
    """An output that the same node set before the call counts, as it does for the call itself."""
    desk = Desk()
    ask = {"match": "issue_refund", "decision": "ask"}
    check = "args['amount'] <= 100 or result.get('decision') == 'generous'"
    run = refunding(place, desk, said([sets("decision", "generous"), refund(60)], DONE), ask, goal=bounded(check))
    (request,) = asked(place, run.go())
    decide(place, request, "edit", patch={"amount": 300})
    assert run.go()["status"] == "done"
    assert desk.paid == [300]


def test_a_sub_agents_edited_call_meets_the_hard_constraints_too(place: Workspace) -> None:
    desk = Desk()
    helper = node("helper", output_keys=["done"], tools=["issue_refund"], max_iterations=5)
    boss = node("desk", output_keys=["decision"], tools=["issue_refund"], sub_agents=["helper"])
    spec = agent(boss, helper, edges=[], tool_policy=[{"match": "issue_refund", "decision": "ask"}, ALLOW])
    told = [("delegate_to_sub_agent", {"agent": "helper", "task": "refund", "inputs": {"most": 100}})]
    model = said(told, [refund(60)], [sets("done", "yes")], DONE)
    run = start(place, spec, model, tools=desk.registry, goal=bounded("args['amount'] <= result['most']"))
    (request,) = asked(place, run.go())
    with pytest.raises(HiveError, match="small"):
        decide(place, request, "edit", patch={"amount": 101})
    decide(place, request, "edit", patch={"amount": 100})
    assert run.go()["status"] == "done"
    assert desk.paid == [100]


def test_a_call_let_through_for_its_run_is_not_asked_again_when_outputs_were_set_since(place: Workspace) -> None:
    desk = Desk()
    ask = {"match": "issue_refund", "decision": "ask"}
    model = said([refund(60)], [sets("amount", 1)], [refund(60)], DONE)
    check = "args['amount'] + result.get('amount', 0) <= 100"
    run = refunding(place, desk, model, ask, goal=bounded(check))
    (request,) = asked(place, run.go())
    decide(place, request, "approve", for_run=True)
    assert run.go()["status"] == "done"
    assert desk.paid == [60, 60]


def test_constraints_that_do_not_speak_of_a_call_ask_nobody(place: Workspace) -> None:
    desk = Desk()
    other = bounded("result.get('rating', 5) >= 3")
    assert refunding(place, desk, said([refund(500)], DONE), goal=other).go()["status"] == "done"
    needs_more = bounded("result['amount'] <= result['limit']")  # nobody has said the limit yet
    run = refunding(place, desk, said([refund(70)], DONE), goal=needs_more)
    assert run.go()["status"] == "waiting"  # for the goal's own judgement, which can't read the limit
    assert desk.paid == [500, 70]


def test_a_tool_that_only_reads_is_bound_by_no_constraint_on_results(place: Workspace) -> None:
    run = refunding(place, Desk(), said([("look_up", {"amount": 500})], DONE), goal=bounded("result['amount'] <= 100"))
    (request,) = asked(place, run.go())
    assert request.kind == "judgment"  # the result has no amount


def test_a_soft_constraint_stops_no_call(place: Workspace) -> None:
    desk = Desk()
    soft = bounded("result.get('amount', 0) <= 100", constraint_type="soft")
    assert refunding(place, desk, said([refund(500)], DONE), goal=soft).go()["status"] == "done"
    assert desk.paid == [500]
    with pytest.raises(ValidationError, match="hard"):
        Constraint(id="small", check="args['amount'] <= 100", constraint_type="soft")


def test_a_constraint_that_cannot_be_evaluated_on_a_call_asks(place: Workspace) -> None:
    desk = Desk()
    odd = bounded("result.get('amount').upper() == 'SMALL'")
    (request,) = asked(place, refunding(place, desk, said([refund(500)], DONE), goal=odd).go())
    assert (request.kind, desk.paid) == ("tool_call", [])


def test_a_file_that_the_policy_denies_for_what_it_is_called_is_not_written(place: Workspace) -> None:
    rule = {"match": "save_data", "when": "args['filename'] == 'adapt.md'", "decision": "deny"}
    spec = agent(node("desk", output_keys=["decision"]), tool_policy=[rule, ALLOW])
    calls = [("save_data", {"filename": name, "text": "x"}) for name in ("adapt.md", "notes.md")]
    run = start(place, spec, said(calls, DONE))
    assert run.go()["status"] == "done"
    assert any("save_data did not run: the policy denies it" in one for one in words(run))
    written = {path.name for path in (place.state / "runs").rglob("*.md")}
    assert written == {"notes.md"}


def test_a_check_of_an_argument_that_is_left_out_reads_its_default_or_asks(place: Workspace) -> None:
    """Leaving an argument out, or editing it away, lets no call pass a constraint that reads it."""
    for default, why in (({"default": 0.0}, "does not hold"), ({}, "can't be told")):
        properties = {"amount": {"type": "number"}, "fee": {"type": "number"} | default}
        tool = Tool("pay", "Pay.", {"properties": properties, "required": ["amount"]}, "external", print)
        limit = Constraint(id="small", check="args['amount'] <= 100 and args['fee'] <= 5")
        bounds = CallBounds.of([limit], tool, {})
        (found,) = bounds.violated("pay", {"amount": 10_000 if default else 10})
        assert why in found["why"]
    other = Tool("note", "Note.", {"properties": {"text": {"type": "string"}}}, "external", print)
    assert CallBounds.of([limit], other, {}).violated("note", {"text": "x"}) == []


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_no_argument(number: float) -> None:
    assert Desk().registry.check("issue_refund", {"amount": number}) == ["amount is no finite number"]
    for arguments in ({"amount": number}, {"amount": 1, "more": [{"n": number}]}):
        denied = {"match": "*", "when": "float(args['amount']) > 50 or args['more'] == 1", "decision": "deny"}
        for rule in (ABOVE, denied):
            assert ToolRule.model_validate(rule).of("issue_refund", arguments) == rule["decision"]
    said_so = {"amount": str(number)}
    assert ToolRule(match="*", when="float(args['amount']) > 50", decision="ask").of("pay", said_so) == "ask"
    assert schemas.faults({"amount": [number]}, {"properties": {"amount": {"items": {"maximum": 5}}}})


LARGE = {"match": "issue_refund", "when": "args.get('amount', 0) > 50", "decision": "ask"}


def test_what_is_left_out_is_decided_about_as_it_runs(place: Workspace) -> None:
    """A model that leaves out an argument gets its default, which neither a policy nor a person had seen."""
    desk = Desk()

    def issue_refund(order: str, amount: float = 900.0) -> str:
        """Pay money back."""
        return desk.issue_refund(amount)

    desk.registry = ToolRegistry()
    desk.registry.register(issue_refund, side_effect="external")
    desk.registry.register(desk.look_up)
    run = refunding(place, desk, said([("issue_refund", {"order": "A-1"})], DONE), LARGE, ALLOW)
    (request,) = asked(place, run.go())
    assert (request.context["args"], desk.paid) == ({"order": "A-1", "amount": 900.0}, [])
    decide(place, request, "approve")
    assert run.go()["status"] == "done"
    assert desk.paid == [900]


def test_no_edit_hides_an_argument_from_what_is_never_done() -> None:
    def pay(order: str, amount: float = 900.0) -> str:
        """Pay money back."""
        return "paid"

    registry = ToolRegistry()
    tool = registry.register(pay, side_effect="external")
    tools = Tools({"pay": tool}, never=[lambda call: call.args.get("amount", 0) > 500])
    found = asyncio.run(tools.call("pay", {"order": "A-1"}, ToolContext(workspace=None), approved=True))
    assert "denies" in found.content
