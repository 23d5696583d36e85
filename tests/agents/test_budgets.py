"""Budgets that hold: checked before a call, kept by agents and what starts them, and raised by people."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.guards.budget import Budget, BudgetSpent
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore
from hive_agents.host.firing import fire
from hive_agents.models import Chain, ChatResult, Usage
from hive_agents.runs import Limits, RunStore
from hive_agents.triggers.spec import WebhookTrigger
from tests.agents.conftest import node, write_json
from tests.agents.loops import Told, agent, events, given, goal, said, say, sets, start
from tests.agents.test_grants import approvals

NODE = node("collect", output_keys=["items"], tools=["page"])
CALLS = [[("page", {"n": n})] for n in range(6)]
ITEMS = [sets("items", [1])]


def registry() -> ToolRegistry:
    found = ToolRegistry()

    def page(n: int) -> str:
        """Read a page."""
        return f"page {n}"

    found.register(page, policy="allow")
    return found


def paging(place: Workspace, limits: Limits | None = None, **changes: Any) -> AgentRun:
    model = said(*CALLS[:4], ITEMS)
    return start(place, agent(NODE, **changes), model, tools=registry(), limits=limits)


def test_a_budget_asks_for_more_and_the_run_goes_on(staffed: Workspace) -> None:
    run = paging(staffed, Limits(tool_calls=2))
    waiting = run.go()
    assert waiting["status"] == "waiting"
    (request,) = [ApprovalStore(staffed).get(id) for id in waiting["approval_ids"]]
    assert (request.kind, request.context["budget"], request.context["args"]) == (
        "question",
        "tool_calls",
        {"limit": 4},
    )
    assert len(events(staffed, run, "budget.exhausted")) == 1
    assert approvals(staffed, "approve", request.id, "--as", "dana").code == 0
    assert run.go()["status"] == "done"


def test_what_is_asked_for_is_enough_to_go_on(staffed: Workspace) -> None:
    model = said(say(CALLS[0], tokens=9_000), ITEMS)
    run = start(staffed, agent(NODE), model, tools=registry(), limits=Limits(tokens=2_000))
    request = ApprovalStore(staffed).get(run.go()["approval_ids"][0])
    assert (request.context["used_up"], request.context["args"]) == (2_000, {"limit": 16_000})
    ApprovalStore(staffed).decide(request.id, "approve", by="dana")
    assert run.go()["status"] == "done"


def test_branches_that_run_out_at_once_ask_one_question(staffed: Workspace) -> None:
    names = ("left", "right")
    nodes = [node("begin", output_keys=["items"]), *(node(name, output_keys=[name]) for name in names)]
    ways = [{"source": "begin", "target": name, "on": "success"} for name in names]

    def answering(messages: Any, tools: Any) -> ChatResult:
        key = next(name for name in ("left", "right", "items") if f"sets {name}" in messages[0].content)
        return say([sets(key, 1)])

    prompts = {"begin": "sets items", "left": "sets left", "right": "sets right"}
    spec = agent(*(one | {"system_prompt": prompts[one["id"]]} for one in nodes), edges=ways, mode="isolated")
    run = start(staffed, spec, Told(answering), limits=Limits(steps=1))
    waiting = run.go()
    assert (waiting["status"], len(waiting["approval_ids"])) == ("waiting", 1)
    ApprovalStore(staffed).decide(waiting["approval_ids"][0], "edit", by="dana", patch={"limit": 20})
    ended = run.go()
    assert (ended["status"], ended["outputs"]) == ("done", {"items": 1, "left": 1, "right": 1})


def test_a_person_may_name_the_sum_and_it_holds_after_a_restart(staffed: Workspace) -> None:
    run = paging(staffed, Limits(steps=1))
    first = ApprovalStore(staffed).get(run.go()["approval_ids"][0])
    ApprovalStore(staffed).decide(first.id, "edit", by="dana", patch={"limit": 3})
    again = AgentRun.resume(staffed, run.run_id, agent=run.agent, tools=run.tools, models=run.models)
    second = ApprovalStore(staffed).get(again.go()["approval_ids"][0])
    assert (second.context["used_up"], RunStore(staffed).get(run.run_id).summary["steps"]) == (3, 3)
    ApprovalStore(staffed).decide(second.id, "reject", by="dana", reason="that is enough")
    ended = again.go()
    assert (ended["status"], ended["stopped_by"], ended["error"]["code"]) == ("failed", "steps", "HIVE-423")
    assert "that is enough" in ended["error"]["message"]


def test_where_nobody_can_be_asked_the_run_fails(place: Workspace) -> None:
    ended = paging(place, Limits(tool_calls=2)).go()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "tool_calls")


def test_a_sub_agents_want_of_more_is_asked_for_too(staffed: Workspace) -> None:
    delegate = ("delegate_to_sub_agent", {"agent": "helper", "task": "read"})
    helper = node("helper", output_keys=["found"])
    parent = node("collect", output_keys=["items"], sub_agents=["helper"])
    model = said([delegate], [sets("found", 1)], ITEMS)
    run = start(staffed, agent(parent, helper, edges=[]), model, limits=Limits(steps=1))
    waiting = run.go()
    assert waiting["status"] == "waiting"
    ApprovalStore(staffed).decide(waiting["approval_ids"][0], "edit", by="dana", patch={"limit": 9})
    assert run.go()["outputs"] == {"items": [1]}
    told = json.loads(given(model.prompts[-1][-1]))
    assert (told["status"], told["outputs"]) == ("completed", {"found": 1})


def test_an_agents_own_budget_is_in_its_file_and_the_stricter_one_holds(place: Workspace) -> None:
    assert paging(place, budget={"tool_calls": 2}).go()["stopped_by"] == "tool_calls"
    assert paging(place, Limits(steps=1), budget={"tool_calls": 2}).go()["stopped_by"] == "steps"


def test_a_sub_agent_that_uses_up_its_own_budget_fails_and_its_parent_goes_on(place: Workspace) -> None:
    spec = agent(node("look", output_keys=["found"]), id="helper", budget={"steps": 1}).to_json()
    write_json(place, "agents/helper.json", spec)
    delegate = ("delegate_to_sub_agent", {"agent": "helper", "task": "read"})
    model = said([delegate], "hm", ITEMS)
    run = start(place, agent(node("collect", output_keys=["items"], sub_agents=["helper"])), model)
    assert run.go()["status"] == "done"
    told = json.loads(given(model.prompts[-1][-1]))
    assert (told["status"], "budget of steps" in told["error"]) == ("failed", True)


def test_a_trigger_limits_the_runs_that_it_starts(place: Workspace) -> None:
    write_json(place, "agents/digest.json", agent(node("collect", output_keys=["items"])).to_json())
    trigger = WebhookTrigger(
        id="hook", type="webhook", agent="digest", secret_ref="env:X", run_as="service:hook",
        budget=Limits(tokens=500, steps=900),
    )  # fmt: skip
    services = {"service:hook": {"tenant": "acme", "groups": [], "roles": ["reader"]}}
    write_json(place, "access/principals.json", {"tenants": {"acme": {"admins": []}}, "principals": services})
    run_id = asyncio.run(fire(place, trigger, {}, key="k", scheduled="now"))
    assert RunStore(place).get(run_id).value["limits"] == Limits(tokens=500, steps=200).model_dump()


def test_a_call_that_would_not_fit_is_not_made(place: Workspace) -> None:
    model = said([*CALLS[0]], [*CALLS[1]], ITEMS)
    ended = start(place, agent(NODE | {"system_prompt": "word " * 2_000}), model, tools=registry(),
                  limits=Limits(tokens=1_000)).go()  # fmt: skip
    assert (ended["stopped_by"], model.prompts) == ("tokens", [])


def test_dollars_are_held_back_at_what_tokens_have_cost_so_far() -> None:
    budget = Budget(Limits(usd=1.0), BudgetSpent(tokens=1_000, usd=0.9))
    assert (budget.exhausted(tokens=100), budget.exhausted(tokens=200)) == (None, "usd")
    assert budget.exhausted(tokens=100, rate=0.002) == "usd", "another model is dearer"


def test_the_first_call_is_held_back_at_its_models_price(place: Workspace) -> None:
    model = said(ITEMS)
    priced = Chain([model], rate=lambda: 1e-6)
    run = AgentRun.start(place, agent(NODE | {"system_prompt": "word " * 2_000}), {}, models=lambda _: priced,
                         tools=registry(), limits=Limits(usd=0.001))  # fmt: skip
    assert (run.go()["stopped_by"], model.prompts) == ("usd", [])


def test_a_judge_is_not_asked_where_its_call_would_not_fit(place: Workspace) -> None:
    model = said(say(ITEMS, tokens=700), {"action": "accept"})
    ended = start(place, agent(NODE | {"success_criteria": "word " * 6_000}), model, tools=registry(),
                  limits=Limits(tokens=3_000)).go()  # fmt: skip
    assert (ended["stopped_by"], len(model.prompts)) == ("tokens", 1)


def test_the_judge_of_a_goal_is_not_asked_where_its_call_would_not_fit(place: Workspace) -> None:
    model = said(say([sets("items", "word " * 6_000)], tokens=700), {"action": "accept", "confidence": 0.9})
    criteria = [{"id": "good", "description": "It is good."}]
    ended = start(place, agent(NODE), model, tools=registry(), limits=Limits(tokens=3_000),
                  goal=goal(success_criteria=criteria)).go()  # fmt: skip
    assert (ended["stopped_by"], len(model.prompts)) == ("tokens", 1)


def test_calls_that_run_at_once_share_what_is_left(place: Workspace) -> None:
    from hive_agents.agents.effects import Done, Effects
    from hive_agents.agents.guards.budget import BudgetExhausted

    effects = Effects(place, "r1", Budget(Limits(tokens=100)))

    async def slow(_: bool) -> Done:
        await asyncio.sleep(0.2)
        return Done(True, Usage(input_tokens=60))

    async def both() -> list[Any]:
        calls = (effects.once(f"a#1/{n}", "model", "m", slow, tokens=60) for n in range(2))
        return await asyncio.gather(*calls, return_exceptions=True)

    found = asyncio.run(both())
    assert sorted(type(one).__name__ for one in found) == ["BudgetExhausted", "bool"]
    assert issubclass(BudgetExhausted, Exception)


def test_a_running_tool_is_cut_at_the_deadline(place: Workspace) -> None:
    tools = ToolRegistry()

    async def page(n: int) -> str:
        """Read a page, for ever."""
        await asyncio.Event().wait()
        return ""

    tools.register(page, policy="allow")
    ended = start(place, agent(NODE), said(*CALLS), tools=tools, limits=Limits(seconds=0.6)).go()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "seconds")


def test_tokens_that_nobody_counted_are_estimated_and_marked(place: Workspace) -> None:
    def uncounted(_: Any, __: Any) -> ChatResult:
        return say(ITEMS).model_copy(update={"usage": Usage(priced=False)})

    run = start(place, agent(NODE), Told(uncounted), tools=registry(), limits=Limits(tokens=10_000))
    assert run.go()["status"] == "done"
    assert RunStore(place).get(run.run_id).summary["tokens"] > 50
    from hive_agents.agents.effects import Effects

    assert Effects(place, run.run_id, Budget(Limits())).budget.spent.estimated == 1


def test_a_limit_that_was_raised_never_falls() -> None:
    budget = Budget(Limits(tokens=100))
    budget.raise_limit("tokens", 40)
    assert budget.limits.tokens == 100
    budget.raise_limit("tokens", 140)
    assert budget.limits.tokens == 140


def test_nobody_is_asked_for_money_of_which_no_sum_can_be_kept_to(staffed: Workspace) -> None:
    def unpriced(_: Any, __: Any) -> ChatResult:
        return say(CALLS[0]).model_copy(update={"usage": Usage(input_tokens=1, priced=False)})

    run = start(staffed, agent(NODE), Told(unpriced), tools=registry(), limits=Limits(usd=1.0))
    ended = run.go()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "usd")
    assert ApprovalStore(staffed).list() == []
