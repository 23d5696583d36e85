"""Agents as graphs: edges, branches, the judgement of the goal, and checkpoints that stay small."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from graphs.event_loop import build, compiled
from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.effects import Effects
from hive_agents.agents.guards.budget import Budget
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.base.text import fenced
from hive_agents.memory import ConversationStore
from hive_agents.models import Chain, Message, Tool
from hive_agents.runs import Limits
from tests.agents.conftest import GOAL, edge, node, write_json
from tests.agents.loops import Answer, Told, agent, events, goal, said, say, sets, start, words
from tests.conftest import make_workspace
from tests.sample import hive


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    workspace = make_workspace(tmp_path / "ws", embedding=False, documents={})
    write_json(workspace, "goals/digest.json", GOAL)
    return workspace


def by_node(**plans: list[Any]) -> Told:
    """A model that answers each node from a list of its own."""

    def answer(messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        text = "\n".join(message.content for message in messages)
        name = next((one for one in plans if f"Do {one}." in text), "other")
        return say(plans[name].pop(0))

    return Told(answer)


def sequence(place: Workspace, run: AgentRun) -> list[str]:
    return [str(one.node_id) for one in events(place, run, "node.completed", "node.failed")]


def test_the_graph_reads_like_the_diagram() -> None:
    spec = agent(
        node("a", output_keys=["x"]),
        node("b"),
        node("c"),
        node("helper"),
        edges=[edge("a", "b"), edge("a", "c", on="failure")],
    )
    drawn = build(spec).compile().get_graph(xray=1).draw_mermaid()
    for part in ("a\\3aenter", "a\\3athink", "a\\3aact", "a\\3ajudge", "GOAL", "PERSON"):
        assert part in drawn
    assert "helper" not in drawn


def test_agents_of_one_shape_share_a_compiled_graph() -> None:
    ways = [edge("a", "b")]
    one, other = agent(node("a"), node("b"), edges=ways), agent(node("a", output_keys=["x"]), node("b"), edges=ways)
    assert compiled(one) is compiled(other)
    assert compiled(one) is not compiled(agent(node("a"), node("b"), edges=[*ways, edge("b", "a", on="failure")]))


async def test_two_agents_of_one_shape_run_at_once_each_with_its_own_prompts(place: Workspace) -> None:
    specs = [agent(node("a", system_prompt=f"Do {name}.", output_keys=["x"])) for name in ("this", "that")]
    models = [said([sets("x", 1)]), said([sets("x", 2)])]
    runs = [start(place, spec, model) for spec, model in zip(specs, models, strict=True)]
    results = await asyncio.gather(*(run.work() for run in runs))
    assert [result["outputs"] for result in results] == [{"x": 1}, {"x": 2}]
    prompts = [model.prompts[0][0].content for model in models]
    assert ["Do this." in prompts[0], "Do that." in prompts[1]] == [True, True]


async def test_a_run_rests_after_its_present_step_and_goes_on_with_the_next_one(place: Workspace) -> None:
    def answer(messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        run.drain()
        return say([sets("x", 1)])

    model = Told(answer)
    spec = agent(node("a", output_keys=["x"]))
    run = start(place, spec, model)
    assert (await run.work())["status"] == "queued"
    assert not events(place, run, "tool.started"), "the turn's calls are the next step"
    again = AgentRun.resume(place, run.run_id, tools=ToolRegistry(), models=lambda role: Chain([model]))
    assert (await again.work())["outputs"] == {"x": 1}
    assert len(model.prompts) == 1


@pytest.mark.parametrize(("value", "way"), [(1, ["a", "b"]), (0, ["a", "c"])])
def test_conditions_decide_and_priority_comes_first(place: Workspace, value: int, way: list[str]) -> None:
    spec = agent(
        node("a", output_keys=["x"]),
        node("b"),
        node("c"),
        edges=[
            edge("a", "c", on="success", priority=0),
            edge("a", "b", on="condition", condition="result['x'] > 0", priority=5),
        ],
    )
    run = start(place, spec, by_node(a=[[sets("x", value)]], b=["b"], c=["c"]))
    assert run.go()["status"] == "done"
    assert sequence(place, run) == way


def test_a_condition_that_cannot_be_evaluated_fails_closed(place: Workspace) -> None:
    spec = agent(
        node("a", output_keys=["x"]), node("b"), edges=[edge("a", "b", on="condition", condition="result['y'] > 0")]
    )
    assert start(place, spec, by_node(a=[[sets("x", 1)]])).go()["stopped_by"] == "condition_error"


@pytest.mark.parametrize(("on", "status"), [("failure", "done"), ("always", "done"), ("success", "failed")])
def test_a_failed_node_goes_on_where_an_edge_says_so(place: Workspace, on: str, status: str) -> None:
    spec = agent(node("a", output_keys=["x"], max_iterations=1), node("b"), edges=[edge("a", "b", on=on)])
    run = start(place, spec, by_node(a=["no"], b=["mended"]))
    assert run.go()["status"] == status


def test_a_model_chooses_among_its_edges(place: Workspace) -> None:
    spec = agent(node("a"), node("b"), node("c"), edges=[edge("a", "b", on="model"), edge("a", "c", on="model")])
    run = start(place, spec, said("I looked.", {"target": "c"}, "c it is"))
    assert run.go()["status"] == "done"
    assert sequence(place, run) == ["a", "c"]


def test_branches_run_at_once_and_meet_once(place: Workspace) -> None:
    spec = agent(
        node("a", output_keys=["x"]),
        node("b", input_keys=["x"], output_keys=["y"]),
        node("c", input_keys=["x"], output_keys=["z"]),
        node("c2", input_keys=["z"], output_keys=["w"]),
        node("d", input_keys=["y", "w"], output_keys=["end"]),
        edges=[edge("a", "b"), edge("a", "c"), edge("c", "c2"), edge("b", "d"), edge("c2", "d")],
    )
    plans = {name: [[sets(key, name)]] for name, key in {"a": "x", "b": "y", "c": "z", "c2": "w", "d": "end"}.items()}
    model = by_node(**plans)
    run = start(place, spec, model)
    assert run.go()["outputs"] == {"x": "a", "y": "b", "z": "c", "w": "c2", "end": "d"}
    assert sorted(sequence(place, run)[1:3]) == ["b", "c"]
    assert sequence(place, run)[3:] == ["c2", "d"]
    joined = model.prompts[-1]
    assert "The phase b, c2 is completed" in joined[-1].content
    assert [one for one in words(run) if one.startswith("[b]")] == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_node_begins_once_a_round_and_after_all_that_lead_to_it(place: Workspace, seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    names = [f"n{number}" for number in range(8)]
    ways = {
        (one, name) for number, name in enumerate(names[1:], 1) for one in chance.sample(names[:number], min(number, 2))
    }
    ends = [name for name in names if name not in {source for source, _ in ways}]
    edges = [edge(source, target) for source, target in sorted(ways)]
    edges += [edge(name, "last") for name in ends]
    back = edge("last", "n0", on="condition", condition=f"result['last'] < {rounds}")
    begun: list[str] = []

    def answer(messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        name = next(one for one in [*names, "last"] if f"Do {one}." in messages[0].content)
        begun.append(name)
        return say([sets(name, begun.count(name))])

    spec = agent(*(node(name, output_keys=[name]) for name in [*names, "last"]), edges=[*edges, back])
    run = start(place, spec, Told(answer))
    assert run.go()["outputs"] == dict.fromkeys([*names, "last"], rounds)
    each = [begun[at : at + 9] for at in range(0, len(begun), 9)]
    assert [sorted(one) for one in each] == [sorted([*names, "last"])] * rounds
    assert all(one.index(source) < one.index(target) for one in each for source, target in ways)


def test_two_branches_that_write_one_key_are_refused(place: Workspace) -> None:
    spec = agent(
        node("a"), node("b", output_keys=["y"]), node("c", output_keys=["y"]), edges=[edge("a", "b"), edge("a", "c")]
    )
    with pytest.raises(HiveError, match="HIVE-217"):
        start(place, spec, said())


def test_branches_that_wait_are_answered_one_by_one(place: Workspace) -> None:
    spec = agent(
        node("a"),
        node("b", output_keys=["y"], requires_approval=True),
        node("c", output_keys=["z"], requires_approval=True),
        edges=[edge("a", "b"), edge("a", "c")],
    )
    run = start(place, spec, by_node(a=["go"], b=[[sets("y", 1)]], c=[[sets("z", 2)]]))
    first, second = run.go()["approval_ids"]
    ApprovalStore(place).decide(first, "approve", by="dana")
    assert run.go()["approval_ids"] == [second]
    ApprovalStore(place).decide(second, "approve", by="dana")
    assert run.go()["outputs"] == {"y": 1, "z": 2}


def test_isolated_nodes_get_a_handoff_and_the_agents_conversation_mirrors_them(place: Workspace) -> None:
    spec = agent(
        node("a", output_keys=["x"]),
        node("b", input_keys=["x"], output_keys=["y"]),
        mode="isolated",
        edges=[edge("a", "b")],
    )
    plans = {"a": ["I found bees.", [sets("x", "bees")]], "b": ["Written.", [sets("y", "text")]]}
    model = by_node(**plans, other=["Bees were found."])
    run = start(place, spec, model)
    assert run.go()["status"] == "done"
    assert "I found bees." in model.prompts[2][0].content
    begun = model.prompts[3]
    assert [message.role for message in begun] == ["system", "user"]
    assert "Bees were found." in begun[1].content
    assert "I found bees." not in begun[1].content
    assert "- x: bees" in begun[1].content
    assert {"[a]: I found bees.", "[b]: Written."} <= {one for n in range(3) for one in words(run, n)}


CRITERIA = {
    "success_criteria": [
        {"id": "good", "metric": "llm_judge", "weight": 0.6},
        {"id": "bees", "metric": "output_contains", "target": "bees", "weight": 0.4},
    ],
    "constraints": [{"id": "plain", "constraint_type": "hard", "check": "'secret' not in str(result)"}],
}
SURE = {"confidence": 0.95, "reasoning": "read it"}


def two(**changes: Any) -> Any:
    edges = [edge("plan", "work"), *changes.pop("edges", [])]
    return agent(
        node("plan", output_keys=["idea"]), node("work", input_keys=["idea"], output_keys=["text"]), edges=edges
    )


def shown(place: Workspace, run: AgentRun) -> str:
    found = hive("runs", "show", run.run_id, "-w", place.root)
    assert found.code == 0
    return found.out


def test_a_stronger_judge_is_asked_of_the_result_and_counts_for_the_budget(place: Workspace) -> None:
    (place.root / "hive.toml").write_text('[models]\nembedding = "none"\nstronger_judge = ["scripted:x.jsonl"]\n')
    place = Workspace(place.root)
    work = said([sets("idea", 1)], [sets("text", "bees")], {"action": "accept", "confidence": 0.6, "reasoning": "?"})
    judge = said(say({"action": "accept"} | SURE, tokens=50))
    run = AgentRun.start(
        place,
        two(),
        {},
        tools=ToolRegistry(),
        models=lambda role: Chain([judge if role == "stronger_judge" else work]),
        goal=goal(**CRITERIA),
    )
    ended = run.go()
    assert (ended["status"], ended["judgment"]["action"], ended["judgment"]["confidence"]) == ("done", "accept", 0.95)
    assert [one["confidence"] for one in ended["judgment"]["signals"]] == [0.6, 0.95]
    assert Effects(place, run.run_id, Budget(Limits())).budget.spent.tokens >= 50


def test_accept_ends_the_run(place: Workspace) -> None:
    model = said([sets("idea", 1)], [sets("text", "bees")], {"action": "accept"} | SURE)
    run = start(place, two(), model, goal=goal(**CRITERIA))
    ended = run.go()
    assert (ended["status"], ended["judgment"]["action"], ended["judgment"]["satisfaction"]) == ("done", "accept", 1.0)
    assert "ACCEPT (the goal)" in shown(place, run)


def test_retry_sends_the_last_node_back_with_feedback(place: Workspace) -> None:
    model = said(
        [sets("idea", 1)],
        [sets("text", "bees")],
        {"action": "retry", "feedback": "Say more."} | SURE,
        [sets("text", "bees and more")],
        {"action": "accept"} | SURE,
    )
    run = start(place, two(), model, goal=goal(**CRITERIA))
    assert run.go()["outputs"]["text"] == "bees and more"
    assert model.prompts[3][-1].content.endswith(fenced("Say more."))
    assert sequence(place, run) == ["plan", "work", "work"]
    assert "RETRY (the goal): Say more." in shown(place, run)


def test_an_accept_with_a_measured_criterion_at_zero_is_sent_back(place: Workspace) -> None:
    model = said(
        [sets("idea", 1)],
        [sets("text", "ants")],
        {"action": "accept"} | SURE,
        [sets("text", "bees")],
        {"action": "accept"} | SURE,
    )
    run = start(place, two(), model, goal=goal(**CRITERIA))
    assert run.go()["outputs"]["text"] == "bees"
    assert "bees" in model.prompts[3][-1].content


def test_replan_goes_where_the_edge_leads_with_the_context(place: Workspace) -> None:
    model = said(
        [sets("idea", 1)],
        [sets("text", "bees")],
        {"action": "replan", "feedback": "Another idea."} | SURE,
        [sets("idea", 2)],
        [sets("text", "wild bees")],
        {"action": "accept"} | SURE,
    )
    run = start(place, two(edges=[edge("work", "plan", on="replan")]), model, goal=goal(**CRITERIA))
    assert run.go()["outputs"] == {"idea": 2, "text": "wild bees"}
    told = model.prompts[3][-1].content
    assert told.startswith("[Replan feedback]:\n")
    context = json.loads(told.splitlines()[-2])
    assert told.endswith(fenced(told.splitlines()[-2]))
    assert context["completed_steps"] == ["plan", "work"]
    assert context["accumulated_context"] == {"idea": 1, "text": "bees"}
    assert context["feedback"] == "Another idea."
    assert sequence(place, run) == ["plan", "work", "plan", "work"]
    assert "REPLAN (the goal)" in shown(place, run)


def test_replan_without_an_edge_escalates_and_a_person_sends_it_back(place: Workspace) -> None:
    model = said(
        [sets("idea", 1)],
        [sets("text", "bees")],
        {"action": "replan"} | SURE,
        [sets("text", "the person's bees")],
        {"action": "accept"} | SURE,
    )
    run = start(place, two(), model, goal=goal(**CRITERIA))
    waiting = run.go()
    assert waiting["judgment"]["escalation_reason"] == "replans_exhausted"
    (id,) = waiting["approval_ids"]
    assert [one.payload["approval_id"] for one in events(place, run, "approval.requested")] == [id]
    ApprovalStore(place).decide(id, "respond", by="dana", message="mine, please")
    assert run.go()["outputs"]["text"] == "the person's bees"
    assert model.prompts[3][-1].content == "[Judge feedback]: mine, please"
    assert "ESCALATE (the goal)" in shown(place, run)


def test_a_violated_hard_constraint_escalates_and_a_rejected_result_fails(place: Workspace) -> None:
    model = said([sets("idea", 1)], [sets("text", "bees and a secret")])
    run = start(place, two(), model, goal=goal(**CRITERIA))
    waiting = run.go()
    assert (waiting["status"], waiting["judgment"]["escalation_reason"]) == ("waiting", "hard_constraint")
    assert len(events(place, run, "run.waiting")) == 1
    ApprovalStore(place).decide(waiting["approval_ids"][0], "reject", by="dana")
    assert (run.go()["status"], run.go()["stopped_by"]) == ("failed", "rejected")


def test_retries_are_bounded_and_running_out_escalates(place: Workspace) -> None:
    turns: list[Any] = [[sets("idea", 1)]]
    for n in range(4):
        turns += [[sets("text", f"bees {n}")], {"action": "retry", "feedback": f"Again {n}."} | SURE]
    run = start(place, two(), said(*turns), goal=goal(**CRITERIA))
    assert run.go()["judgment"]["escalation_reason"] == "retries_exhausted"


def test_a_goal_that_needs_a_model_and_has_none_that_answers_escalates(place: Workspace) -> None:
    run = start(place, two(), said([sets("idea", 1)], [sets("text", "bees")]), goal=goal(**CRITERIA))
    assert run.go()["judgment"]["escalation_reason"] == "model_error"


def test_checkpoints_do_not_grow_with_the_conversation(place: Workspace) -> None:
    """Bytes of the last checkpoints of one step, with 50 messages behind it and with 2,000."""
    registry = ToolRegistry()

    def page(n: int) -> str:
        """A page."""
        return f"page {n}: " + "bees " * 20

    registry.register(page)
    spec = agent(node("a", output_keys=["x"], tools=["page"], max_iterations=1_000))
    sizes: dict[int, int] = {}
    for before in (50, 2_000, 50, 2_000):  # twice: now and then a write comes after its checkpoint, and stays
        turns = [[("page", {"n": n})] for n in range(4)]
        run = start(place, spec, said(*turns, [sets("x", 1)]), tools=registry)
        store = ConversationStore(place)
        conversation = store.create("digest", run.run_id, key="agent")
        for n in range(before):
            role: Any = "assistant" if n % 2 else "user"
            store.append(conversation, Message(role=role, content=f"message {n} " + "words " * 5))
        assert run.go()["status"] == "done"
        database = sqlite3.connect(place.state / "checkpoints.db")
        size = 0
        for query in (
            "SELECT checkpoint FROM checkpoints WHERE thread_id = ?",
            "SELECT value FROM writes WHERE thread_id = ?",
        ):
            # A channel's version ends in a random fraction, of as many digits as it needs.
            stored = [re.sub(rb"\.0\.\d+", b"", row[0]) for row in database.execute(query, (run.run_id,))]
            size += max(map(len, stored), default=0)  # writes that led to a checkpoint aren't kept
        database.close()
        sizes[before] = min(size, sizes.get(before, size))
    assert abs(sizes[2_000] - sizes[50]) <= 16
    assert sizes[2_000] < 4_000
