"""A run that has ended goes once more with what was recorded: nothing is done, and where it parts is shown."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import AgentRun, ToolRegistry
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.host import Replay, replay
from hive_agents.runs import RunStore
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import agent_json, edge, node, write_json
from tests.sample import hive

TOOLS = '''
from pathlib import Path
from hive_agents import tool

LOG = Path(__file__).with_name("called.txt")


@tool(side_effect="external", policy="allow")
def order(what: str, count: int = 1) -> dict:
    """Order a thing."""
    with LOG.open("a") as log:
        log.write(f"{what} {count}\\n")
    return {"ordered": what}


@tool(policy="allow")
def stock(what: str) -> int:
    """How many there are."""
    with LOG.open("a") as log:
        log.write(f"stock {what}\\n")
    return 7
'''
POLICY = [
    {"match": "order", "when": "args.get('count', 1) > 5", "decision": "ask"},
    {"match": "*", "decision": "allow"},
]
GOAL = {"id": "digest", "name": "Digest"}


def turn(*calls: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    return {"content": text, "tool_calls": [{"name": name, "args": args} for name, args in calls]}


def sets(key: str, value: Any) -> tuple[str, dict[str, Any]]:
    return "set_output", {"key": key, "value": value}


def to(name: str) -> tuple[str, dict[str, Any]]:
    return "delegate_to_sub_agent", {"agent": name, "task": "count"}


SCRIPT = [
    turn(("stock", {"what": "tea"}), to("counter")),
    turn(("stock", {"what": "cups"})),
    turn(sets("cups", 7)),
    turn(sets("missing", ["tea"])),
    turn(("order", {"what": "tea", "count": 9})),
    turn(sets("done", True)),
]


@pytest.fixture
def place(tmp_path: Any) -> Workspace:
    root = tmp_path / "ws"
    (root / "collections").mkdir(parents=True)
    (root / "tools").mkdir()
    (root / "tools" / "shop.py").write_text(TOOLS)
    (root / "hive.toml").write_text('[models]\nembedding = "none"\n[tools]\npython = ["tools/*.py"]\n')
    workspace = Workspace(root)
    trust(workspace)
    write_json(workspace, "goals/digest.json", GOAL)
    (root / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in SCRIPT))
    nodes = [
        node("look", input_keys=["topic"], output_keys=["missing"], tools=["stock"], sub_agents=["counter"]),
        node("buy", input_keys=["missing"], output_keys=["done"], tools=["order"]),
        node("counter", output_keys=["cups"], tools=["stock"]),
    ]
    ways = [edge("look", "buy")]
    spec = agent_json(*nodes, edges=ways, tool_policy=POLICY, model="scripted:script.jsonl")
    write_json(workspace, "agents/digest.json", spec)
    return workspace


def ended(place: Workspace, verb: Any = "approve", **answer: Any) -> str:
    """A run of which a person answered the only question."""
    run = AgentRun.start(place, "digest", {"topic": "tea"})
    (id,) = run.go()["approval_ids"]
    ApprovalStore(place).decide(id, verb, by="dana", **answer)
    run.go()
    return run.run_id


def again(place: Workspace, run_id: str, **how: Any) -> Replay:
    """The replay, which leaves no trace: nothing is called, and nothing is stored."""
    before = (log(place), len(RunStore(place).list()), len(ApprovalStore(place).list()))
    found = asyncio.run(replay(place, run_id, **how))
    assert (log(place), len(RunStore(place).list()), len(ApprovalStore(place).list())) == before
    return found


def log(place: Workspace) -> list[str]:
    return (place.root / "tools" / "called.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("verb", "answer"), [("approve", {}), ("reject", {"reason": "no tea"}), ("edit", {"patch": {"count": 2}})]
)
def test_a_run_goes_again_as_it_went(place: Workspace, verb: Any, answer: dict[str, Any]) -> None:
    """With its sub-agent, and what a person said; its script is used up, and nobody is asked."""
    run_id = ended(place, verb, **answer)
    found = again(place, run_id)
    assert (found.same, found.parted, found.status, found.differing) == (True, None, "done", 0)
    assert found.outputs == {"missing": ["tea"], "done": True}
    assert found.compared > 10
    assert log(place)[2:] == {"approve": ["tea 9"], "reject": [], "edit": ["tea 2"]}[verb]


def test_a_failed_run_fails_again(place: Workspace) -> None:
    run = AgentRun.start(place, "digest", {"topic": "tea"})
    (id,) = run.go()["approval_ids"]
    (place.root / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in SCRIPT[:-1]))
    ApprovalStore(place).decide(id, "approve", by="dana")
    later = AgentRun.resume(place, run.run_id)
    assert later.go()["status"] == "failed"
    found = again(place, run.run_id)
    assert (found.same, found.status) == (True, "failed")


def test_a_patch_shows_where_the_changed_agent_parts(place: Workspace) -> None:
    run_id = ended(place)
    found = again(place, run_id, patch={"tool_policy": [{"match": "order", "decision": "deny"}, POLICY[1]]})
    assert found.parted is not None
    assert (found.parted.node, found.parted.at) == ("buy", "buy#1/1/0")
    assert found.parted.recorded == {"tool": "order", "gives": '{"ordered": "tea"}'}
    assert "the policy denies it" in str(found.parted.replayed)
    with pytest.raises(HiveError, match="can't be applied"):
        again(place, run_id, patch=[{"op": "remove", "path": "/nodes/9"}])
    with pytest.raises(HiveError) as caught:
        again(place, run_id, patch={"entry": "nowhere"})
    assert caught.value.diagnostics[0].code.startswith("HIVE-")


def test_a_question_that_nobody_answered_then_waits_and_asks_nobody(place: Workspace) -> None:
    run_id = ended(place)
    found = again(place, run_id, patch={"tool_policy": [{"match": "stock", "decision": "ask"}, POLICY[1]]})
    assert (found.status, found.same) == ("waiting", False)


def test_another_model_gets_what_the_tools_gave_and_nothing_else(place: Workspace) -> None:
    run_id = ended(place)
    other = [
        *SCRIPT[:4],
        turn(("order", {"what": "coffee", "count": 1})),
        turn(("order", {"what": "tea", "count": 9})),
        turn(sets("done", False)),
    ]
    (place.root / "other.jsonl").write_text("".join(json.dumps(line) + "\n" for line in other))
    found = again(place, run_id, model="scripted:other.jsonl")
    assert found.parted is not None
    assert (found.parted.node, found.parted.recorded) == (
        "buy",
        {"calls": [{"name": "order", "args": {"what": "tea", "count": 9}}]},
    )
    assert (found.status, found.outputs) == ("done", {"missing": ["tea"], "done": False})


def test_only_runs_that_have_ended_are_replayed(place: Workspace) -> None:
    run = AgentRun.start(place, "digest", {"topic": "tea"}, hold=False)
    with pytest.raises(HiveError, match="is queued"):
        asyncio.run(replay(place, run.run_id))
    row, _ = RunStore(place).insert("worker", {"input": {}}, status="done")
    with pytest.raises(HiveError, match="is a run of worker"):
        asyncio.run(replay(place, row.run_id))


def test_the_command_tells_where_it_parts_and_fails_there(place: Workspace) -> None:
    run_id = ended(place)
    ran = hive("runs", "replay", run_id, "-w", place.root, "--json")
    assert (ran.code, ran.json["same"], ran.json["parted"]) == (0, True, None)
    write_json(place, "patch.json", [{"op": "replace", "path": "/tool_policy/0/decision", "value": "deny"}])
    ran = hive("runs", "replay", run_id, "--patch", place.root / "patch.json", "-w", place.root)
    assert ran.code == 1
    assert "it parts in buy" in ran.out
    assert 'recorded: order gives: {"ordered": "tea"}' in ran.out
    assert "now:      order fails: order did not run or failed: the policy denies it" in ran.out


def test_a_run_becomes_an_eval_case_that_its_agent_passes(place: Workspace) -> None:
    run_id = ended(place)
    (place.root / "tools" / "called.txt").write_text("")
    made = hive("runs", "record", run_id, "--case", "--name", "tea", "-w", place.root, "--json")
    assert (made.code, made.json["file"]) == (0, "goals/digest.json")
    case = made.json["case"]
    assert (case["id"], case["input"], case["person"]) == ("tea", {"topic": "tea"}, "approve")
    assert case["expect"] == {"done": True}
    assert case["tools"] == {"stock": [{"returns": 7}], "order": [{"returns": {"ordered": "tea"}}]}
    ordered = {"tool": "order", "when": "args.get('what') == 'tea' and args.get('count') == 9"}
    assert case["calls"] == {"order": [ordered], "asks": [ordered]}
    ran = hive("agents", "eval", "digest", "-w", place.root, "--json")
    assert (ran.code, ran.json["passed"], log(place)) == (0, 1, [])
    twice = hive("runs", "record", run_id, "--case", "--name", "tea", "-w", place.root, "--json")
    assert (twice.code, twice.codes) == (1, {"HIVE-111"})


def test_what_a_run_refused_is_never_to_be_called(place: Workspace) -> None:
    (place.root / "script.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in [turn(sets("missing", [])), turn(sets("done", False))])
    )
    run = AgentRun.start(place, "digest", {"topic": "tea"})
    assert run.go()["status"] == "done"
    case = hive("runs", "record", run.run_id, "--case", "-w", place.root, "--json").json["case"]
    assert case["calls"] == {"never": [{"tool": "order"}]}


def test_a_tool_that_gave_this_and_then_that_does_so_in_the_case(place: Workspace) -> None:
    """Told apart by an argument where that does it; else in the order in which it was."""
    left = iter([1, 1, 2, 3])
    brought = ToolRegistry()

    def stock(what: str) -> int:
        """How many there are."""
        return next(left)

    brought.register(stock, policy="allow")
    calls = [turn(("stock", {"what": what})) for what in ("tea", "tea", "tea", "cups")]
    lines = [*calls, turn(sets("missing", [])), turn(sets("done", False))]
    (place.root / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = AgentRun.start(place, "digest", {"topic": "tea"}, tools=brought)
    assert run.go()["status"] == "done"
    case = hive("runs", "record", run.run_id, "--case", "-w", place.root, "--json").json["case"]
    assert case["tools"]["stock"] == [
        {"when": "args.get('what') == 'tea'", "times": 2, "returns": 1},
        {"when": "args.get('what') == 'tea'", "returns": 2},
        {"when": "args.get('what') == 'cups'", "returns": 3},
    ]
    assert hive("agents", "eval", "digest", "-w", place.root, "--json").json["passed"] == 1


def test_only_runs_that_are_done_become_cases(place: Workspace) -> None:
    run = AgentRun.start(place, "digest", {"topic": "tea"}, hold=False)
    ran = hive("runs", "record", run.run_id, "--case", "-w", place.root, "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})
    ran = hive("runs", "record", run.run_id, "-w", place.root, "--json")
    assert (ran.code, "--case" in ran.json["diagnostics"][0]["fix"]) == (2, True)
