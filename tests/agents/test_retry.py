"""`failed` isn't final: a run goes on from its last good step, and does nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry, retry
from hive_agents.agents.run import AgentRun
from hive_agents.base.errors import HiveError
from hive_agents.models import ModelError
from hive_agents.runs import Limits, RunStore
from tests.agents.conftest import make_workspace, node, write_json
from tests.agents.loops import Told, agent, said, say, sets, start
from tests.sample import hive

DOWN = ModelError("authentication", "the key was taken away", outage=True)
PAY, ITEMS, TEXT = [("pay", {"amount": 5})], [sets("items", [1])], [sets("text", "done")]
SPEC = agent(
    node("collect", output_keys=["items"], tools=["pay"]), node("write", input_keys=["items"], output_keys=["text"])
)


@pytest.fixture
def place(tmp_path: Any) -> Workspace:
    workspace = make_workspace(tmp_path / "ws", embedding=False)
    write_json(workspace, "goals/digest.json", {"id": "digest", "name": "Digest"})
    return workspace


class Till:
    def __init__(self) -> None:
        self.paid: list[int] = []
        self.registry = ToolRegistry()
        self.registry.register(self.pay, side_effect="external", policy="allow")

    def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return "paid"


def again(run: AgentRun, *answers: Any, node: str | None = None) -> tuple[dict[str, Any], list[Any]]:
    """What becomes of a failed run that is tried again, and what its model was told."""
    asyncio.run(retry(run.workspace, run.run_id, "user:dana", node=node))
    model = said(*answers)
    from hive_agents.models import Chain

    resumed = AgentRun.resume(run.workspace, run.run_id, tools=run.tools, models=lambda role: Chain([model]))
    return resumed.go(), model.prompts


def test_after_an_outage_a_run_goes_on_in_the_middle_of_its_node(place: Workspace) -> None:
    till = Till()
    run = start(place, SPEC, said(PAY, DOWN), tools=till.registry)
    assert run.go()["stopped_by"] == "unavailable"
    ended, prompts = again(run, ITEMS, TEXT)
    assert (ended["status"], ended["outputs"], till.paid) == ("done", {"items": [1], "text": "done"}, [5])
    assert len(prompts) == 2
    assert any("paid" in message.content for message in prompts[0])


def test_a_later_node_that_failed_leaves_the_earlier_ones_done(place: Workspace) -> None:
    till = Till()
    run = start(place, SPEC, said(PAY, ITEMS, DOWN), tools=till.registry)
    assert run.go()["status"] == "failed"
    ended, prompts = again(run, TEXT)
    assert (ended["status"], till.paid, len(prompts)) == ("done", [5], 1)


def test_a_run_may_fail_and_be_tried_again_more_than_once(place: Workspace) -> None:
    run = start(place, SPEC, said(ITEMS, DOWN), tools=Till().registry)
    assert run.go()["status"] == "failed"
    assert again(run, DOWN)[0]["status"] == "failed"
    assert again(run, TEXT)[0]["status"] == "done"


def test_after_a_loop_the_node_begins_once_more_and_is_told_what_it_did(place: Workspace) -> None:
    till = Till()
    run = start(place, SPEC, said(PAY, PAY, PAY), tools=till.registry)
    assert run.go()["stopped_by"] == "doom_loop"
    ended, prompts = again(run, ITEMS, TEXT)
    assert (ended["status"], till.paid) == ("done", [5, 5, 5])
    assert "pay (3)" in prompts[0][-1].content


def test_a_named_node_begins_once_more_and_those_after_it_follow(place: Workspace) -> None:
    till = Till()
    run = start(place, SPEC, said(PAY, ITEMS, DOWN), tools=till.registry)
    assert run.go()["status"] == "failed"
    ended, _ = again(run, [sets("items", [2])], TEXT, node="collect")
    assert (ended["status"], ended["outputs"]["items"], till.paid) == ("done", [2], [5])


def test_a_budget_that_was_used_up_may_be_used_once_more(place: Workspace) -> None:
    run = start(place, SPEC, said(PAY, ITEMS), tools=Till().registry, limits=Limits(steps=1))
    assert run.go()["stopped_by"] == "steps"
    assert again(run, ITEMS)[0]["stopped_by"] == "steps"
    assert again(run, TEXT)[0]["status"] == "done"


def test_a_budget_that_one_call_outran_by_far_leaves_room_when_it_is_raised(place: Workspace) -> None:
    run = start(place, SPEC, said(say(PAY, tokens=9_000)), tools=Till().registry, limits=Limits(tokens=2_000))
    assert run.go()["stopped_by"] == "tokens"
    assert again(run, ITEMS, TEXT)[0]["status"] == "done"


def test_what_joins_branches_waits_for_the_one_that_failed_and_sees_all_of_them(place: Workspace) -> None:
    names = ("begin", "left", "longer", "right", "both")
    ways = [("begin", "left"), ("begin", "right"), ("left", "longer"), ("longer", "both"), ("right", "both")]
    nodes = [node(name, output_keys=[name], system_prompt=f"sets {name}") for name in names]
    nodes[-1] |= {"input_keys": ["longer", "right"]}
    edges = [{"source": source, "target": target, "on": "success"} for source, target in ways]
    down, asked = {"right"}, []

    def answering(messages: Any, tools: Any) -> Any:
        (name,) = [one for one in names if f"sets {one}" in messages[0].content]
        asked.append(name)
        return DOWN if name in down else say([sets(name, name)])

    run = start(place, agent(*nodes, edges=edges, mode="isolated"), Told(answering))
    ended = run.go()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "unavailable")
    assert sorted(asked) == ["begin", "left", "longer", "right"]
    down.clear()
    asyncio.run(retry(place, run.run_id, "user:dana"))
    assert run.go()["outputs"] == {name: name for name in names}
    assert asked[4:] == ["right", "both"]


@pytest.mark.parametrize("named", [None, "left", "begin"])
def test_all_branches_that_failed_begin_once_more(place: Workspace, named: str | None) -> None:
    names = ("begin", "left", "right", "both")
    ways = [("begin", "left"), ("begin", "right"), ("left", "both"), ("right", "both")]
    nodes = [node(name, output_keys=[name], system_prompt=f"sets {name}", max_iterations=1) for name in names]
    edges = [{"source": source, "target": target, "on": "success"} for source, target in ways]
    lazy, asked, told = {"left", "right"}, [], {}

    def answering(messages: Any, tools: Any) -> Any:
        (name,) = [one for one in names if f"sets {one}" in messages[0].content]
        asked.append(name)
        told[name] = messages[-1].content
        return say("later") if name in lazy else say([sets(name, name)])

    run = start(place, agent(*nodes, edges=edges, mode="isolated"), Told(answering))
    ended = run.go()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "max_iterations")
    lazy.clear()
    asyncio.run(retry(place, run.run_id, "user:dana", node=named))
    assert run.go()["outputs"] == {name: name for name in names}
    assert sorted(asked[3:]) == sorted(names if named == "begin" else names[1:])
    if named is None:
        assert "left begins once more" in told["left"]
        assert "right begins once more" in told["right"]


def test_only_failed_runs_are_tried_again(place: Workspace) -> None:
    run = start(place, SPEC, said(ITEMS, TEXT), tools=Till().registry)
    assert run.go()["status"] == "done"
    with pytest.raises(HiveError, match="is done") as caught:
        asyncio.run(retry(place, run.run_id, "user:dana"))
    assert caught.value.exit_code == 2


def test_the_command_queues_a_run_and_names_nodes_that_it_came_to(place: Workspace) -> None:
    run = start(place, SPEC, said(ITEMS, DOWN), tools=Till().registry)
    run.go()
    ran = hive("runs", "retry", run.run_id, "--from", "nowhere", "-w", place.root, "--json")
    assert (ran.code, "collect, write" in ran.json["diagnostics"][0]["fix"]) == (2, True)
    ran = hive("runs", "retry", run.run_id, "-w", place.root, "--json")
    assert (ran.code, ran.json["runs"][0]["status"]) == (0, "queued")
    assert RunStore(place).get(run.run_id).status == "queued"
