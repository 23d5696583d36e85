"""Agents in code as people write them: task groups, models of their own, graphs of messages, and mistakes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel, ValidationError

from hive_agents import Agent, AgentRun, Goal, HiveError, NodeSpec, Trial, Workspace, effect, flow, tool
from hive_agents.agents import AgentSpec


class Verdict(BaseModel):
    trusted: bool


class Tree(BaseModel):
    name: str
    branches: list[Tree] = []


class Noted(BaseModel):
    note: str


@effect
async def pay(order: str) -> str:
    return f"paid {order}"


@effect(ask=False)
async def note(text: str) -> str:
    return text


@tool
async def past(order: str) -> int:
    return len(order)


async def test_tasks_of_a_group_wait_together_and_their_effects_happen_once() -> None:
    @flow
    async def both(order: str) -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in (pay("A"), note(order), pay("B"))]
        return [task.result() for task in tasks]

    trial = Trial(both).stub(pay, returns="R").stub(note, returns="N")
    waits = await trial.run("A-1")
    assert waits.asks == [pay.call("A"), pay.call("B")]
    done = await trial.approve(by="dana")
    assert done.output == ["R", "N", "R"]
    assert (done.count(pay), done.count(note)) == (2, 1)


async def test_a_step_beside_one_that_waits_is_recorded_before_its_group_is_unwound() -> None:
    looked = []

    @tool
    async def slow(order: str) -> str:
        await asyncio.sleep(0.05)
        looked.append(order)
        return order

    @flow
    async def both(order: str) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(pay(order))
            found = group.create_task(slow(order))
        return found.result()

    trial = Trial(both).stub(pay, returns="R")
    assert (await trial.run("A-1")).status == "waiting"
    assert looked == ["A-1"]
    assert (await trial.approve(by="dana")).output == "A-1"
    assert looked == ["A-1"]


async def test_the_first_error_of_a_group_is_the_runs() -> None:
    @flow
    async def both(order: str) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(note(order))
        return order

    failed = await Trial(both).stub(note, raises=ValueError("closed")).run("A-1")
    assert failed.error == "HIVE-422: note did not run or failed: ValueError: closed"


async def test_an_error_of_code_says_where_it_was_raised() -> None:
    @flow
    async def broken(order: str) -> str:
        return {"a": order}["b"]

    failed = await Trial(broken).run("A-1")
    line = broken.function.__code__.co_firstlineno + 2
    assert failed.error == f"HIVE-422: KeyError: 'b' ({Path(__file__).name}, line {line})"
    with pytest.raises(HiveError, match="mend the flow or its stubs"):
        _ = failed.output


async def test_an_output_of_another_type_is_named() -> None:
    @flow
    async def wrong(order: str) -> Verdict:
        return order  # type: ignore[return-value]

    failed = await Trial(wrong).run("A-1")
    assert failed.error is not None
    assert failed.error.startswith("HIVE-422: wrong returned what it isn't annotated with: $: Input should be")


def test_two_agents_of_one_name_have_no_common_stub() -> None:
    first, second = (Agent(str, Verdict, prompt=text) for text in ("one", "two"))

    @flow
    async def both(order: str) -> bool:
        return (await first(order)).trusted and (await second(order)).trusted

    with pytest.raises(HiveError, match='called "verdict"'):
        Trial(both, {first: Verdict(trusted=True), second: Verdict(trusted=False)})


def test_what_is_no_tool_is_refused_when_the_agent_is_made() -> None:
    for other in (len, Agent(str, Verdict, prompt="?")):
        with pytest.raises(HiveError, match=r"is no tool[\s\S]*mark a function with @tool"):
            Agent(str, Verdict, prompt="?", tools=[other])  # type: ignore[list-item]


def test_what_is_no_code_is_refused_when_the_node_is_made() -> None:
    for code, why in ((StateGraph(MessagesState), "compile the graph first"), (object(), "it is a function")):
        with pytest.raises(ValidationError, match=why):
            NodeSpec(id="sum", system_prompt="", code=code)


async def test_a_model_that_contains_itself_is_an_input_and_an_output(place: Workspace) -> None:
    @flow
    async def grown(tree: Tree) -> Tree:
        return Tree(name=tree.name, branches=[tree, Tree(name="new")])

    result = await AgentRun.start(place, grown, Tree(name="oak")).work()
    assert grown.output(result["outputs"]) == Tree(name="oak", branches=[Tree(name="oak"), Tree(name="new")])


async def test_a_note_does_not_replace_a_field_of_the_input() -> None:
    asked = Agent(Noted, Verdict, prompt="?", name="asked")

    @flow
    async def both(given: Noted) -> Verdict:
        return await asked(given, note="mine")

    failed = await Trial(both, {asked: Verdict(trusted=True)}).run(Noted(note="yours"))
    assert failed.error == "HIVE-409: the input of asked has a note of its own"


def test_what_is_no_agent_is_refused_before_it_is_started(place: Workspace) -> None:
    async def plain(order: str) -> str:
        return order

    with pytest.raises(HiveError, match=r"plain is no agent[\s\S]*mark an async function"):
        AgentRun.start(place, plain, "A-1")  # type: ignore[arg-type]


def script(place: Workspace, file: str, *turns: dict[str, Any]) -> str:
    calls = [{"tool_calls": [{"name": name, "args": args} for name, args in turn.items()]} for turn in turns]
    (place.root / f"{file}.jsonl").write_text("\n".join(map(json.dumps, calls)), encoding="utf-8")
    return f"scripted:{file}.jsonl"


async def test_an_agent_of_a_flow_asks_its_own_model(place: Workspace) -> None:
    yes, no = (script(place, f"says_{word}", {"set_output": {"trusted": word}}) for word in (True, False))
    cheap, dear = (Agent(str, Verdict, prompt="?", name=name, model=model) for name, model in (("c", yes), ("d", no)))

    @flow
    async def both(order: str) -> list[bool]:
        return [(await cheap(order)).trusted, (await dear(order)).trusted]

    result = await AgentRun.start(place, both, "A-1").work()
    assert result["outputs"] == {"output": [True, False]}


async def test_an_agent_runs_by_itself_with_its_own_tools(place: Workspace) -> None:
    model = script(place, "alone", {"past": {"order": "A-1"}}, {"set_output": {"trusted": True}})
    agent = Agent(str, Verdict, prompt="?", name="alone", tools=[past], model=model)
    result = await AgentRun.start(place, agent, "A-1").work()
    assert (result["status"], result["outputs"], result["error"]) == ("done", {"trusted": True}, None)


async def test_messages_of_a_graph_and_models_of_a_function_are_outputs(place: Workspace) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda _: {"messages": [AIMessage("hello")]})
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    nodes = [
        NodeSpec(id="chat", system_prompt="", code=graph.compile(), input_keys=["messages"], output_keys=["messages"]),
        NodeSpec(id="judge", system_prompt="", code=lambda: Verdict(trusted=True), output_keys=["trusted"]),
    ]
    edges: Any = [{"source": "chat", "target": "judge", "on": "success"}]
    agent = AgentSpec(id="chat", goal="chat", entry="chat", nodes=nodes, edges=edges)
    asked = {"messages": [{"role": "user", "content": "hi"}]}
    result = await AgentRun.start(place, agent, asked, goal=Goal(id="chat", name="Chat")).work()
    assert result["outputs"]["trusted"] is True
    assert [(one["type"], one["content"]) for one in result["outputs"]["messages"]] == [
        ("human", "hi"),
        ("ai", "hello"),
    ]
