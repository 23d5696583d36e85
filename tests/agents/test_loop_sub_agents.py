"""Sub-agents: alone with their task, bounded, never nested, never hanging their parent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.guards.budget import Limits
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore
from hive_agents.models import ChatResult, Message, Tool, Usage
from tests.agents.conftest import agent_json, edge, node, write_json
from tests.agents.loops import Answer, Told, agent, events, say, sets, start

ITEMS = [sets("items", [1])]


def to(name: str, task: str = "check it", **inputs: Any) -> tuple[str, dict[str, Any]]:
    return "delegate_to_sub_agent", {"agent": name, "task": task, "inputs": inputs}


def test_a_delegated_agent_joins_its_branches_once(place: Workspace) -> None:
    ways = [("a", "b"), ("a", "c"), ("a", "e"), ("b", "d"), ("c", "d"), ("d", "g"), ("e", "g")]
    helper = agent_json(
        *(node(name, output_keys=[name]) for name in "abcdeg"), edges=[edge(*way) for way in ways], id="helper"
    )
    write_json(place, "agents/helper.json", helper)
    begun: list[str] = []

    def answer(messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        name = next(one for one in ("collect", *"abcdeg") if f"Do {one}." in messages[0].content)
        begun.append(name)
        if name == "collect":
            return say([to("helper")] if begun.count(name) == 1 else ITEMS)
        return say([sets(name, begun.count(name))])

    run = start(place, agent(node("collect", output_keys=["items"], sub_agents=["helper"])), Told(answer))
    assert run.go()["status"] == "done"
    assert delegated(run)["outputs"] == dict.fromkeys("abcdeg", 1)
    assert begun == ["collect", "a", "b", "c", "e", "d", "g", "collect"]


def spec(tools: Sequence[str] = (), lent: Sequence[str] | None = None, **changes: Any) -> Any:
    """The sub-agent lists `tools`, the node that delegates to it the same, or those that are `lent`."""
    own = list(tools if lent is None else lent)
    return agent(
        node("collect", input_keys=["topic"], output_keys=["items"], sub_agents=["checker"], tools=own),
        node("checker", input_keys=["claim"], output_keys=["verdict"], tools=list(tools), **changes),
        edges=[],
    )


def by_role(parent: list[Any], child: list[Any]) -> Told:
    """A model that answers the parent from one list, the sub-agent from another."""
    plans = {"Do collect.": parent, "Do checker.": child}

    def answer(messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        said = next(plan for focus, plan in plans.items() if focus in messages[0].content).pop(0)
        return said if isinstance(said, ChatResult) else say(said)

    return Told(answer)


def delegated(run: AgentRun) -> dict[str, Any]:
    """What the parent was told of its sub-agent."""
    from hive_agents.memory import ConversationStore

    store = ConversationStore(run.workspace)
    entries = store.messages(store.of_run(run.run_id)[0])
    found: dict[str, Any] = next(
        json.loads(entry.message.content)
        for entry in entries
        if entry.message.role == "tool" and "{" in entry.message.content
    )
    return found


def test_a_sub_agent_works_alone_and_gives_json(place: Workspace) -> None:
    model = by_role([[to("checker", claim="bees fly")], ITEMS], ["Let me see.", [sets("verdict", "holds")]])
    run = start(place, spec(), model, {"topic": "bees"})
    assert run.go()["outputs"] == {"items": [1]}
    assert delegated(run) == {
        "agent": "checker",
        "status": "completed",
        "outputs": {"verdict": "holds"},
        "error": None,
        "iterations": 2,
    }
    alone = model.prompts[1]
    assert [message.role for message in alone] == ["system", "user"]
    assert "bees fly" in alone[1].content
    assert "Missing outputs: verdict." in model.prompts[2][-1].content
    kinds = [str(one.type) for one in events(place, run) if str(one.type).startswith("subagent")]
    assert kinds == ["subagent.started", "subagent.completed"]


def test_the_words_get_sharper_and_the_last_iteration_ends_it(place: Workspace) -> None:
    model = by_role([[to("checker")], ITEMS], ["First I look.", "Then I think.", "At last I write."])
    run = start(place, spec(max_iterations=3), model, {"topic": "bees"})
    assert run.go()["status"] == "done"
    found = delegated(run)
    assert (found["status"], found["iterations"]) == ("failed", 3)
    assert "max_iterations of 3" in found["error"]
    told = [prompt[-1].content for prompt in model.prompts if "Do checker." in prompt[0].content]
    assert "Only 1 iteration is left" in told[-1]


def test_nested_delegation_is_refused(place: Workspace) -> None:
    model = by_role([[to("checker")], ITEMS], [[to("checker")], [sets("verdict", "holds")]])
    run = start(place, spec(), model, {"topic": "bees"})
    assert run.go()["status"] == "done"
    child = [prompt for prompt in model.prompts if "Do checker." in prompt[0].content]
    assert "delegates to nobody" in child[1][-1].content
    assert len(events(place, run, "subagent.started")) == 1


def test_a_sub_agent_sees_a_snapshot_and_changes_nothing_of_its_parents(place: Workspace) -> None:
    from hive_agents.memory import DataBuffer

    model = by_role([[to("checker")], ITEMS], [[sets("verdict", "holds")]])
    run = start(place, spec(), model, {"topic": "bees"})
    run.go()
    child = next(prompt for prompt in model.prompts if "Do checker." in prompt[0].content)
    assert "- topic: bees" in child[0].content
    assert DataBuffer(place, run_id=run.run_id).read_all() == {"topic": "bees", "items": [1]}


def test_several_work_at_once_and_never_more_than_four(place: Workspace) -> None:
    now: list[int] = [0, 0]
    registry, four = ToolRegistry(), asyncio.Event()

    async def slow() -> str:
        """Takes until four are at work, and a little longer."""
        now[0] += 1
        now[1] = max(now)
        if now[0] == 4:
            four.set()
        async with asyncio.timeout(60):
            await four.wait()
        await asyncio.sleep(0.02)
        now[0] -= 1
        return "done"

    registry.register(slow)
    child: list[Any] = [[("slow", {})]] * 6 + [[sets("verdict", "holds")]] * 6
    model = by_role([[to("checker", str(n)) for n in range(6)], ITEMS], child)
    assert start(place, spec(["slow"]), model, {"topic": "bees"}, tools=registry).go()["status"] == "done"
    assert now[1] == 4


def test_a_report_is_progress_and_may_end_the_task(place: Workspace) -> None:
    report = ("report_to_parent", {"message": "nothing to find", "data": {"n": 0}, "mark_complete": True})
    run = start(place, spec(), by_role([[to("checker")], ITEMS], [[report]]), {"topic": "bees"})
    assert run.go()["status"] == "done"
    assert (delegated(run)["status"], delegated(run)["outputs"]) == ("completed", {})
    (event,) = events(place, run, "subagent.reported")
    assert (event.payload["message"], event.payload["data"]) == ("nothing to find", {"n": 0})


def test_a_report_that_waits_asks_a_person_and_goes_on_with_the_reply(place: Workspace) -> None:
    report = ("report_to_parent", {"message": "Which of the two?", "wait_for_response": True})
    model = by_role([[to("checker")], ITEMS], [[report], [sets("verdict", "holds")]])
    run = start(place, spec(), model, {"topic": "bees"})
    (id,) = run.go()["approval_ids"]
    ApprovalStore(place).decide(id, "respond", by="dana", message="the second")
    assert run.go()["status"] == "done"
    child = [prompt for prompt in model.prompts if "Do checker." in prompt[0].content]
    assert child[1][-1].content == "the second"
    assert len(child) == 2
    assert len(events(place, run, "subagent.started")) == 1


def test_a_sub_agent_that_crashes_is_a_failure_result(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from hive_agents.agents import sub_agents

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(sub_agents, "_snapshot", broken)
    run = start(place, spec(), by_role([[to("checker")], ITEMS], []), {"topic": "bees"})
    assert run.go()["status"] == "done"
    assert delegated(run)["error"] == "ZeroDivisionError: oh"


def test_a_sub_agent_that_takes_too_long_is_cut(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from hive_agents.agents import sub_agents

    monkeypatch.setattr(sub_agents, "SECONDS", 0.01)
    registry = ToolRegistry()

    async def endless() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return ""

    registry.register(endless)
    model = by_role([[to("checker")], ITEMS], [[("endless", {})]])
    run = start(place, spec(["endless"]), model, {"topic": "bees"}, tools=registry)
    assert run.go()["status"] == "done"
    assert "cut after" in delegated(run)["error"]


def test_sub_agents_spend_their_parents_budget(place: Workspace) -> None:
    model = by_role([[to("checker")], ITEMS], ["Let me see.", [sets("verdict", "holds")]])
    ended = start(place, spec(), model, {"topic": "bees"}, limits=Limits(steps=2)).go()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "steps")


def test_a_sub_agent_for_which_the_run_has_no_room_ends_the_run_though_its_parent_would_have_some(
    place: Workspace,
) -> None:
    """The budget is the run's: a parent that is told of a failure could spend the rest on delegating again."""
    uncounted = {"usage": Usage(priced=False)}  # so that each call counts by its length
    turns = [say(calls).model_copy(update=uncounted) for calls in ([to("checker")], ITEMS, [sets("verdict", "holds")])]
    model = by_role(turns[:2], turns[2:])
    long = spec(system_prompt="Do checker. " + "word " * 15_000)
    ended = start(place, long, model, {"topic": "bees"}, limits=Limits(tokens=2_000)).go()
    assert (ended["status"], ended["stopped_by"], len(model.prompts)) == ("failed", "tokens", 1)


def test_a_sub_agent_has_no_tool_that_its_parents_policy_denies(place: Workspace) -> None:
    registry = ToolRegistry()

    def drop() -> str:
        """Drop all."""
        raise AssertionError

    registry.register(drop)
    denied = spec(["drop"]).model_copy(update={"tool_policy": []})
    denied = type(denied).model_validate(denied.to_json() | {"tool_policy": [{"match": "drop", "decision": "deny"}]})
    model = by_role([[to("checker")], ITEMS], [[("drop", {})], [sets("verdict", "holds")]])
    run = start(place, denied, model, {"topic": "bees"}, tools=registry)
    assert run.go()["status"] == "done"
    child = [prompt for prompt in model.prompts if "Do checker." in prompt[0].content]
    assert "the policy denies it" in child[1][-1].content


@pytest.mark.parametrize("elsewhere", [False, True], ids=["a node of the agent", "an agent of its own"])
def test_a_sub_agent_has_no_tool_that_the_node_lacks_which_delegates(place: Workspace, elsewhere: bool) -> None:
    """Whatever its own file lists: it is neither offered nor carried out, though every policy allows it."""
    called: list[str] = []
    registry = ToolRegistry()

    def drop() -> str:
        """Drop all."""
        called.append("drop")
        return "dropped"

    def look() -> str:
        """Look."""
        called.append("look")
        return "seen"

    for tool in (drop, look):
        registry.register(tool, policy="allow")
    found = spec(["drop", "look"], lent=["look"])
    if elsewhere:
        allowed = [{"match": "*", "decision": "allow"}]
        own = node("checker", output_keys=["verdict"], tools=["drop", "look"])
        write_json(place, "agents/checker.json", agent_json(own, id="checker", tool_policy=allowed))
        parent = node("collect", input_keys=["topic"], output_keys=["items"], sub_agents=["checker"], tools=["look"])
        found = agent(parent, edges=[])
    offered: list[set[str]] = []
    model = by_role([[to("checker")], ITEMS], [[("drop", {}), ("look", {})], [sets("verdict", "holds")]])
    answering = model.answering

    def answer(messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        offered.append({tool.name for tool in tools})
        return answering(messages, tools)

    model.answering = answer
    assert start(place, found, model, {"topic": "bees"}, tools=registry).go()["status"] == "done"
    assert called == ["look"]
    assert all("drop" not in names for names in offered)
    assert any("look" in names for names in offered)


def test_a_tool_for_sub_agents_alone_needs_no_listing_by_the_node_that_delegates(place: Workspace) -> None:
    registry = ToolRegistry()

    def browse() -> str:
        """Browse."""
        return "browsed"

    registry.register(browse, sub_agents_only=True, policy="allow")
    model = by_role([[to("checker")], ITEMS], [[("browse", {})], [sets("verdict", "holds")]])
    run = start(place, spec(["browse"], lent=[]), model, {"topic": "bees"}, tools=registry)
    assert run.go()["status"] == "done"
    child = [prompt for prompt in model.prompts if "Do checker." in prompt[0].content]
    assert "\nbrowsed\n" in child[1][-1].content


def test_a_sub_agents_own_policy_allows_no_more_than_that_of_its_parent(place: Workspace) -> None:
    registry, called = ToolRegistry(), list[int]()

    def look(n: int) -> str:
        """Look at a page."""
        called.append(n)
        return "seen"

    registry.register(look, policy="allow")
    allowed = [{"match": "*", "decision": "allow"}]
    own = node("checker", output_keys=["verdict"], tools=["look"])
    write_json(place, "agents/checker.json", agent_json(own, id="checker", tool_policy=allowed))
    parent = node("collect", input_keys=["topic"], output_keys=["items"], sub_agents=["checker"], tools=["look"])
    small = {"match": "look", "when": "args['n'] > 5", "decision": "deny"}
    found = agent(parent, edges=[], tool_policy=[small, *allowed])
    model = by_role([[to("checker")], ITEMS], [[("look", {"n": 9}), ("look", {"n": 1})], [sets("verdict", "holds")]])
    assert start(place, found, model, {"topic": "bees"}, tools=registry).go()["status"] == "done"
    assert called == [1]


async def test_a_sub_agent_asks_the_model_of_its_own_file(place: Workspace) -> None:
    def script(file: str, *turns: tuple[str, dict[str, Any]]) -> str:
        lines = [json.dumps({"tool_calls": [{"name": name, "args": args}]}) for name, args in turns]
        (place.root / file).write_text("\n".join(lines), encoding="utf-8")
        return f"scripted:{file}"

    helper = agent_json(node("find", output_keys=["found"]), id="helper")
    model = script("helper.jsonl", ("set_output", {"key": "found", "value": "by its own"}))
    write_json(place, "agents/helper.json", helper | {"model": model})
    script("main.jsonl", to("helper"), ("set_output", {"key": "items", "value": [1]}))
    (place.root / "hive.toml").write_text('[models]\nembedding = "none"\nchat = ["scripted:main.jsonl"]\n')
    main = agent(node("collect", output_keys=["items"], sub_agents=["helper"]))
    run = AgentRun.start(Workspace(place.root), main, {})
    result = await run.work()
    assert result["outputs"] == {"items": [1]}
    (told,) = events(place, run, "subagent.completed")
    assert told.payload["status"] == "completed"
