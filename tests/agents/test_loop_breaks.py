"""What must not happen: runs that don't end, budgets without effect, edits twice, policies passed by."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.effects import Effects
from hive_agents.agents.goal_judge import lost
from hive_agents.agents.guards.budget import Budget, Limits
from hive_agents.agents.guards.loops import fingerprint
from hive_agents.agents.node_end import End, fault
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore
from hive_agents.events import EventLog
from hive_agents.memory import DataBuffer, DataFiles, run_folder
from hive_agents.models import Chain, ModelError, ToolCall
from tests.agents.conftest import agent_json, edge, node, write_json
from tests.agents.loops import Told, agent, events, said, say, sets, start, words

ITEMS = [sets("items", [1])]
FILE = {"filename": "f.txt"}
EDIT = ("edit_data", {**FILE, "old": "1", "new": "1, 2"})
SAVE = ("save_data", {**FILE, "text": "count: 1"})
DELEGATE = ("delegate_to_sub_agent", {"agent": "checker", "task": "check it"})


def one(**changes: Any) -> Any:
    return agent(node("collect", output_keys=["items"], **changes.pop("node", {})), **changes)


def text_of(run: AgentRun) -> str:
    return DataFiles(run_folder(run.workspace, run.run_id)).read("f.txt")


@pytest.mark.parametrize("answer", ["Hm.", ModelError("authentication", "no")], ids=["words", "dead model"])
@pytest.mark.parametrize(
    "edges",
    [
        [edge("collect", "collect", on="failure")],
        [edge("collect", "fix", on="failure"), edge("fix", "collect", on="always")],
    ],
    ids=["itself", "by way of another"],
)
def test_a_budget_ends_a_run_whose_failures_lead_back(
    place: Workspace, answer: Any, edges: list[dict[str, Any]]
) -> None:
    nodes = [node("collect", output_keys=["items"], max_iterations=1), node("fix", output_keys=["items"])]
    spec = agent(*nodes[: len(edges)], edges=edges)
    model = Told(lambda *_: answer if isinstance(answer, ModelError) else say(answer))
    ended = start(place, spec, model, limits=Limits(steps=3)).go()
    assert (ended["status"], ended["stopped_by"], ended["error"]["code"]) == ("failed", "steps", "HIVE-423")


def test_no_failure_edge_makes_a_success_of_a_budget_that_is_used_up(place: Workspace) -> None:
    registry = ToolRegistry()

    def page() -> str:
        """A page."""
        return "page"

    registry.register(page)
    nodes = [node("collect", output_keys=["items"], tools=["page"]), node("fix")]
    spec = agent(*nodes, edges=[edge("collect", "fix", on="failure")])
    model = said([("page", {})] * 2, "Mended.")
    ended = start(place, spec, model, tools=registry, limits=Limits(tool_calls=1)).go()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "tool_calls")
    assert len(model.prompts) == 1


def test_a_sub_agent_that_uses_up_the_runs_budget_fails_the_run(place: Workspace) -> None:
    spec = agent(node("collect", output_keys=["items"], sub_agents=["checker"]), node("checker"), edges=[])
    run = start(place, spec, said([DELEGATE, *ITEMS]), limits=Limits(steps=1))
    ended = run.go()
    assert (ended["status"], ended["stopped_by"], ended["error"]["code"]) == ("failed", "steps", "HIVE-423")
    assert events(place, run, "subagent.completed")[0].payload["status"] == "failed"


@pytest.mark.parametrize("filename", ["f.txt", "adapt.md"])
@pytest.mark.parametrize("edited", [True, False], ids=["after the write", "before the write"])
def test_an_edit_is_made_once_though_the_process_dies_around_it(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, filename: str, edited: bool
) -> None:
    """The new text holds the old one, so that a second edit would succeed."""
    change = {"filename": filename, "old": "collector", "new": "collector of bees"}
    save = ("save_data", {**FILE, "text": "I am a collector."})
    spec = one(identity="I am a collector.", memory={"adapt": "run"})
    run = start(place, spec, said([save], [("edit_data", change)], [("load_data", {"filename": filename})], ITEMS))

    record = Effects._end

    def died(*_: Any) -> None:
        raise KeyboardInterrupt

    def unrecorded(effects: Effects, key: str, *rest: Any) -> None:
        (died if key.endswith("/2/0") else record)(effects, key, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(*(Effects, "_end", unrecorded) if edited else (DataFiles, "edit", died))
        run.go()
    assert run.go()["status"] == "done"
    (text,) = [one for one in words(run) if one.startswith(("I am", "## Identity"))]
    assert text.count("collector of bees") == text.count("of bees") == 1


def test_an_edit_that_others_came_between_is_not_guessed_at(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(place, one(), said([SAVE], [EDIT], ITEMS))

    def died(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DataFiles, "edit", died)
        run.go()
    DataFiles(run_folder(place, run.run_id)).save("f.txt", "count: 1, or so")
    assert run.go()["status"] == "done"
    assert any("HIVE-409" in one and "changed by others" in one for one in words(run))
    assert text_of(run) == "count: 1, or so"


def test_files_are_written_in_the_order_of_the_calls(place: Workspace) -> None:
    run = start(place, one(), said([SAVE, EDIT, *ITEMS]))
    assert run.go()["status"] == "done"
    assert text_of(run) == "count: 1, 2"


@pytest.mark.parametrize("verb", ["approve", "edit", "reject"])
def test_a_file_tool_waits_for_a_person_where_the_policy_asks(place: Workspace, verb: Any) -> None:
    spec = one(tool_policy=[{"match": "edit_*", "decision": "ask"}])
    run = start(place, spec, said([SAVE, EDIT], ITEMS))
    (id,) = run.go()["approval_ids"]
    assert text_of(run) == "count: 1"
    change = {"new": "3"} if verb == "edit" else None
    ApprovalStore(place).decide(id, verb, by="dana", patch=change, reason="so it is")
    assert run.go()["status"] == "done"
    assert text_of(run) == {"approve": "count: 1, 2", "edit": "count: 3", "reject": "count: 1"}[verb]


def test_a_parents_policy_binds_the_file_tools_of_a_sub_agent_of_another_file(place: Workspace) -> None:
    other = agent_json(node("work"), id="checker", tool_policy=[{"match": "save_data", "decision": "allow"}])
    write_json(place, "agents/checker.json", json.dumps(other))
    spec = one(node={"sub_agents": ["checker"]}, tool_policy=[{"match": "save_data", "decision": "deny"}])
    model = said([DELEGATE], [SAVE], "Done.", ITEMS)
    assert start(place, spec, model).go()["status"] == "done"
    assert "there is no save_data here" in model.prompts[2][-1].content


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), StopIteration()], ids=repr)
@pytest.mark.parametrize("blocking", [True, False])
def test_a_tool_that_raises_what_ends_programs_has_only_failed(
    place: Workspace, error: BaseException, blocking: bool
) -> None:
    registry = ToolRegistry()

    def page() -> str:
        """A page."""
        raise error

    async def awaited() -> str:
        """A page."""
        raise error

    registry.register(page if blocking else awaited, name="page")
    run = start(place, one(node={"tools": ["page"]}), said([("page", {})], ITEMS), tools=registry)
    assert run.go()["status"] == "done"
    assert any("page did not run or failed" in one for one in words(run))


async def test_a_run_that_is_cancelled_in_a_tool_stops(place: Workspace) -> None:
    registry, begun = ToolRegistry(), asyncio.Event()

    async def endless() -> str:
        """Never ends."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    registry.register(endless)
    run = start(place, one(node={"tools": ["endless"]}), said([("endless", {})], ITEMS), tools=registry)
    working = asyncio.create_task(run.work())
    await begun.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


def test_tools_that_hang_leave_the_run_its_threads(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the pool of the event loop may have threads; all the rest of the run needs that pool."""
    from concurrent.futures import ThreadPoolExecutor

    from hive_agents.agents import calls

    registry, free = ToolRegistry(), threading.Event()

    def hang() -> str:
        """Hangs."""
        free.wait(60)
        return ""

    monkeypatch.setattr(calls, "TOOL_SECONDS", 0.2)
    registry.register(hang)
    run = start(place, one(node={"tools": ["hang"]}), said([("hang", {})] * 2 + [SAVE], ITEMS), tools=registry)

    async def narrow() -> dict[str, Any]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        return await asyncio.wait_for(run.work(), 30)

    try:
        assert asyncio.run(narrow())["status"] == "done"
    finally:
        free.set()
    assert sum("gave no result within" in one for one in words(run)) == 2


def test_a_budget_that_is_used_up_decides_whatever_other_branches_came_to() -> None:
    ends = [
        End(node=name, visit=1, status="failed", outputs=[], targets=[], conversation="c", error=fault(code, why, why))
        for name, code, why in (("a", "HIVE-422", "stalled"), ("b", "HIVE-423", "tokens"), ("c", "HIVE-422", "prompt"))
    ]
    assert lost(ends) == ends[1]
    assert lost(ends[2:]) == ends[2]
    assert lost([]) is None


def test_nobody_is_asked_any_more_when_the_run_has_failed(place: Workspace) -> None:
    """One call of the turn waits for a person, another finds the budget used up."""
    registry = ToolRegistry()

    def page() -> str:
        """A page."""
        return "page"

    registry.register(page)
    calls = [("ask_user", {"question": "Which?"}), ("page", {}), ("page", {})]
    run = start(place, one(node={"tools": ["page"]}), said(calls), tools=registry, limits=Limits(tool_calls=1))
    ended = run.go()
    assert (ended["status"], ended["stopped_by"], ended["approval_ids"]) == ("failed", "tool_calls", [])
    (request,) = ApprovalStore(place).list()
    assert (request.status, request.note) == ("superseded", "the run has failed")


@pytest.mark.parametrize("link", ["", "own"], ids=["all runs", "one run"])
def test_a_runs_folder_is_no_link(place: Workspace, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    run = start(place, one(), said([SAVE], ITEMS))
    runs = place.state / "runs"
    folder = runs / run.run_id if link else runs
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(outside, target_is_directory=True)
    ended = run.go()
    assert (ended["status"], ended["error"]["code"]) == ("failed", "HIVE-114")
    assert not [path for path in outside.rglob("*") if path.is_file()]


def test_a_long_input_is_kept_behind_no_link(place: Workspace, tmp_path: Path) -> None:
    """The first node's message needs the folder before any call of a tool does."""
    outside = tmp_path / "outside"
    outside.mkdir()
    long = {"task": "x" * (place.settings.agents.spillover_chars + 1)}
    run = start(place, one(node={"input_keys": ["task"]}), said([SAVE], ITEMS), input=long)
    (place.state / "runs").symlink_to(outside, target_is_directory=True)
    ended = run.go()
    assert (ended["status"], ended["error"]["code"]) == ("failed", "HIVE-114")
    assert not [path for path in outside.rglob("*") if path.is_file()]


def test_events_show_which_calls_are_the_same(place: Workspace) -> None:
    """The order of arguments doesn't count; a refused call is one, too."""
    registry = ToolRegistry()

    def page(n: int, size: int = 1) -> str:
        """A page."""
        return "page"

    registry.register(page)
    calls = [("page", {"n": 1, "size": 2}), ("page", {"size": 2.0, "n": 1}), ("page", {"n": 2}), ("nowhere", {})]
    run = start(place, one(node={"tools": ["page"]}), said(calls, ITEMS), tools=registry)
    assert run.go()["status"] == "done"
    told = {one.payload["call"]: one.payload for one in events(place, run, "tool.completed", "tool.failed")}
    prints = [told[f"collect#1/1/{n}"]["fingerprint"] for n in range(4)]
    assert prints[0] == fingerprint([ToolCall(name="page", args={"n": 1, "size": 2})])
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_a_turn_that_sets_its_outputs_is_recorded_with_all_that_follows_or_not_at_all(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answer, messages, outputs, verdict, buffer and events are one transaction: none is there where its end fails."""
    heard: list[str] = []
    model = said(ITEMS, ITEMS)
    run = start(place, one(), model, on_event=lambda event: heard.append(str(event.type)))
    append = EventLog.append

    def fail(log: EventLog, events: Any) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr(EventLog, "append", fail)
    with pytest.raises(RuntimeError, match="no"):
        run.go()
    monkeypatch.setattr(EventLog, "append", append)
    assert Effects(place, run.run_id, Budget(Limits())).find("collect#1/1/model") is None
    assert [text.partition(" ")[0] for text in words(run)] == ["Begin"]
    assert DataBuffer(place, run_id=run.run_id).read_all("execution") == {}
    assert not {"model.completed", "output.set", "tool.completed", "node.completed"} & set(heard)
    resumed = AgentRun.resume(place, run.run_id, tools=ToolRegistry(), models=lambda _: Chain([model]))
    assert resumed.go()["outputs"] == {"items": [1]}
    once = ["output.set", "tool.completed", "judgment.made", "node.completed", "judgment.made"]
    assert [str(event.type) for event in events(place, run, *once)] == once
