"""`hive runs`: what a person does with runs, whose runs they are, and what was said in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Asker, Principal
from hive_agents.agents.run import AgentRun
from hive_agents.runs import RunStore, Scope
from tests.agents.conftest import GOAL, agent_json, node, write_json
from tests.cli.test_run import ASK, INPUT, command, running, script, sets
from tests.conftest import make_workspace

FIELDS = set("run_id thread_id graph status tenant started_at ended_at node steps tokens usd stopped_by error".split())
PEOPLE = {
    "tenants": {"acme": {"admins": []}, "globex": {"admins": []}},
    "principals": {
        "dana": {"tenant": "acme", "groups": [], "roles": ["reader"]},
        "kim": {"tenant": "acme", "groups": [], "roles": ["reader", "operator"]},
        "amy": {"tenant": "acme", "groups": [], "roles": ["reader", "approver"]},
        "eve": {"tenant": "globex", "groups": [], "roles": ["reader", "admin"]},
    },
}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    workspace = make_workspace(tmp_path / "ws", embedding=False, documents={})
    write_json(workspace, "goals/digest.json", GOAL)
    write_json(workspace, "agents/digest.json", agent_json())
    script(workspace, sets("items", [1]), sets("text", "bees"))
    return workspace


def queued(place: Workspace) -> str:
    return str(command(place, "run", "digest", *INPUT, "--queue", "--json").json["run_id"])


def status(place: Workspace, run: str) -> str:
    return RunStore(place).get(run).status


def test_a_run_is_paused_resumed_stopped_and_deleted(place: Workspace) -> None:
    run = queued(place)
    steps = [("pause", "paused"), ("resume", "queued"), ("stop", "stopped"), ("resume", "queued"), ("stop", "stopped")]
    for verb, then in steps:
        ran = command(place, "runs", verb, run, "--as", "dana", "--json")
        (row,) = ran.json["runs"]
        assert (ran.code, set(row), row["status"]) == (0, FIELDS, then)
        assert command(place, "runs", verb, run).code == 0, "asked again, it stays so"
    assert RunStore(place).get(run).summary["stopped_by"] == "user:dana"
    deleted = command(place, "runs", "delete", run, "--json")
    assert (deleted.code, deleted.json["runs"][0]["run_id"]) == (0, run)
    assert command(place, "runs", "--json").json == {"runs": []}


def test_the_list_names_the_agent_of_each_run(place: Workspace) -> None:
    queued(place)
    RunStore(place).insert("worker", {})
    rows = command(place, "runs", "list", "--json").json["runs"]
    assert [set(row) for row in rows] == [FIELDS | {"agent"}] * 2
    assert [(row["graph"], row["agent"]) for row in rows] == [("worker", None), ("event_loop", "digest")]


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        ("pause", "paused"),
        ("stop", "stopped"),
        ("resume", "queued; `hive serve --headless` takes it, or `hive run --resume"),
        ("say", "queued; read when it goes on"),
    ],
)
def test_what_happens_next_is_told(place: Workspace, verb: str, told: str) -> None:
    run = queued(place)
    if verb == "resume":
        command(place, "runs", "stop", run)
    words = ["wild ones"] if verb == "say" else []
    assert f"{run}: {told}" in command(place, "runs", verb, run, *words).out.replace("\n", " ")


@pytest.mark.slow
def test_a_run_that_is_worked_on_ends_its_step_first(place: Workspace) -> None:
    script(place, sets("items", [1]) | {"delay_seconds": 6.0}, sets("text", "bees"))
    worker = threading.Thread(target=AgentRun.start(place, "digest", {"topic": "bees"}).go)
    worker.start()
    run = running(place)
    said = command(place, "runs", "say", run, "wild ones")
    paused = command(place, "runs", "pause", run)
    worker.join()
    assert (said.code, "read before its next turn" in said.out) == (0, True)
    assert (paused.code, "paused after its present step" in paused.out) == (0, True)
    assert status(place, run) == "paused"


@pytest.mark.parametrize(("verb", "then"), [("stop", "stopped"), ("pause", "paused")])
def test_a_run_that_a_dead_process_left_rests_at_once(place: Workspace, verb: str, then: str) -> None:
    run = queued(place)
    RunStore(place).update(run, "running")
    ran = command(place, "runs", verb, run, "--json")
    assert (ran.code, ran.json["runs"][0]["status"]) == (0, then)
    assert RunStore(place).get(run).control is None
    assert command(place, "runs", "delete", run).code == 0


def test_only_runs_that_rest_are_deleted(place: Workspace) -> None:
    run = queued(place)
    ran = command(place, "runs", "delete", run, "--json")
    assert (ran.code, ran.codes, status(place, run)) == (2, {"HIVE-409"}, "queued")


def test_each_of_several_runs_counts_for_itself(place: Workspace) -> None:
    first, second = queued(place), queued(place)
    ran = command(place, "runs", "stop", first, "r0", second, second, "--json")
    assert (ran.code, ran.codes, ran.json["ok"]) == (2, {"HIVE-409"}, False)
    assert [row["run_id"] for row in ran.json["runs"]] == [first, second]
    assert {status(place, first), status(place, second)} == {"stopped"}
    assert "r0: there is no run r0" in command(place, "runs", "resume", first, "r0").out


@pytest.mark.parametrize(
    ("verb", "words"), [("pause", []), ("stop", []), ("resume", []), ("say", ["hello"]), ("say", [" "])]
)
def test_what_can_not_be_done_is_wrong_usage(place: Workspace, verb: str, words: list[str]) -> None:
    run = command(place, "run", "digest", *INPUT, "--json").json["run_id"]
    for named in (run, "r0"):
        ran = command(place, "runs", verb, named, *words, "--json")
        assert (ran.code, ran.codes) == (2, {"HIVE-409"})


def test_words_to_a_queued_run_are_read_when_it_runs(place: Workspace) -> None:
    wild = sets("items", [1]) | {"when": {"contains": "only wild ones"}}
    script(place, wild, sets("text", "wild bees"))
    run = queued(place)
    assert command(place, "runs", "say", run, "only wild ones").code == 0
    assert command(place, "run", "--resume", run, "--json").json["outputs"]["text"] == "wild bees"


def test_the_logs_tell_who_said_what(place: Workspace) -> None:
    script(place, ASK, {"content": "They\x1b[2J are\nwild."} | sets("items", [1]), sets("text", "bees"))
    waits = command(place, "run", "digest", *INPUT, "--json").json
    run = waits["run_id"]
    command(place, "runs", "say", run, "think of wasps")
    command(place, "approvals", "respond", waits["approval_ids"][0], "--message", "wild ones", "--as", "dana")
    found = command(place, "runs", "logs", run, "--json").json
    assert (found["runs"][0]["status"], set(found["runs"][0])) == ("done", FIELDS)
    told = [(one["speaker"], one["node"], one["tool"]) for one in found["messages"]]
    assert told == [
        ("task", "collect", None),
        ("agent", "collect", None),
        ("person", None, None),
        ("tool", "collect", "ask_user"),
        ("agent", "collect", None),
        ("tool", "collect", "set_output"),
        ("task", "write", None),
        ("agent", "write", None),
        ("tool", "write", "set_output"),
    ]
    shown = command(place, "runs", "logs", run).out
    for line in ("person: think of wasps", 'collect calls ask_user {"question": "Which bees?"}', "wild ones", "wild."):
        assert line in shown
    assert "\x1b" not in shown
    followed = command(place, "runs", "logs", run, "--follow")
    assert followed.out == shown + f"{run} is done\n"


@pytest.mark.parametrize("options", [(), ("--follow",), ("--follow", "--json")], ids=" ".join)
def test_a_log_whose_reader_has_gone_ends_well(place: Workspace, options: tuple[str, ...]) -> None:
    """Also of a run that is at work: nobody would see what comes."""
    store = RunStore(place)
    run = command(place, "run", "digest", *INPUT, "--json").json["run_id"]
    if options:
        store.update(run, "queued")
    reading, writing = os.pipe()
    os.close(reading)
    called = [sys.executable, "-m", "hive_agents", "runs", "logs", run, *options, "-w", str(place.root)]
    ran = subprocess.run(called, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writing)
    assert (ran.returncode, b"Traceback" in ran.stderr) == (0, False)


def test_an_isolated_agents_log_holds_each_word_once(place: Workspace) -> None:
    write_json(place, "agents/digest.json", agent_json(mode="isolated"))
    written = sets("text", "bees") | {"when": {"contains": "Do write."}}
    script(place, {"content": "hm"} | sets("items", [1]), written, {"content": "a summary", "repeat": True})
    run = queued(place)
    command(place, "runs", "say", run, "think of wasps")
    command(place, "run", "--resume", run)
    messages = command(place, "runs", "logs", run, "--json").json["messages"]
    assert [one["text"] for one in messages].count("think of wasps") == 1
    assert [one["text"] for one in messages if one["speaker"] == "agent"] == ["hm", ""]


def test_what_a_sub_agent_says_stands_between_its_task_and_what_came_of_it(place: Workspace) -> None:
    nodes = [
        node("collect", input_keys=["topic"], output_keys=["items"], sub_agents=["check"]),
        node("check", output_keys=["verdict"]),
    ]
    write_json(place, "agents/digest.json", agent_json(*nodes, edges=[]))
    task = {"name": "delegate_to_sub_agent", "args": {"agent": "check", "task": "look", "inputs": {}}}
    script(place, {"tool_calls": [task]}, sets("verdict", "holds"), sets("items", [1]))
    run = command(place, "run", "digest", *INPUT, "--json").json["run_id"]
    messages = command(place, "runs", "logs", run, "--json").json["messages"]
    told = [(one["node"], one["speaker"]) for one in messages]
    sub = [("check", "task"), ("check", "agent"), ("check", "tool")]
    mine = [("collect", "agent"), ("collect", "tool")]
    assert told == [("collect", "task"), mine[0], *sub, mine[1], *mine]


@pytest.mark.slow
def test_following_goes_on_until_the_run_rests(place: Workspace) -> None:
    script(place, sets("items", [1]) | {"delay_seconds": 4.0}, sets("text", "bees"))
    worker = threading.Thread(target=AgentRun.start(place, "digest", {"topic": "bees"}).go)
    worker.start()
    ran = command(place, "runs", "logs", running(place), "--follow", "--json")
    worker.join()
    *messages, end = (json.loads(line) for line in ran.out.splitlines())
    assert end["runs"][0]["status"] == "done"
    assert [one["tool"] for one in messages if one["speaker"] == "tool"] == ["set_output", "set_output"]
    assert ran.err == ""


@pytest.fixture
def shared(place: Workspace) -> tuple[Workspace, str]:
    """A run that dana of acme started."""
    write_json(place, "access/principals.json", PEOPLE)
    run = AgentRun.start(place, "digest", {"topic": "bees"}, principal=Principal("acme", "dana"), hold=False)
    return place, run.run_id


@pytest.mark.parametrize(
    ("who", "may"), [("dana", True), ("kim", True), ("amy", False), ("eve", False), ("nobody", False)]
)
@pytest.mark.parametrize("token", [False, True])
def test_a_run_is_its_owners_and_its_tenants_operators(
    shared: tuple[Workspace, str], monkeypatch: pytest.MonkeyPatch, who: str, may: bool, token: bool
) -> None:
    """To anybody else it is as unknown as one that never was."""
    place, run = shared
    by: list[Any] = ["--as", who]
    if token and who != "nobody":
        made = command(place, "token", "--user", who, "--json")
        assert made.code == 0, made.out
        monkeypatch.setenv("HIVE_TOKEN", made.json["token"])
        by = []
        assert len(command(place, "runs", "--json").json["runs"]) == may
        for verb in ("show", "logs"):
            assert command(place, "runs", verb, run).code == (0 if may else 2)
    ran = command(place, "runs", "stop", run, *by, "--json")
    assert ran.code == (0 if may else 2), ran.out
    assert status(place, run) == ("stopped" if may else "queued")
    if not may and who != "nobody":
        unknown = command(place, "runs", "stop", "r0", *by, "--json")
        assert unknown.json == json.loads(ran.out.replace(run, "r0"))


@pytest.mark.parametrize("who", ["dana", "kim", "amy", "eve"])
def test_hive_runs_and_the_queen_have_one_rule(shared: tuple[Workspace, str], who: str) -> None:
    """What nobody's tenant started, such as a trigger's run, is the owner's alone."""
    place, run = shared
    own = queued(place)
    by_queen = command(place, "queen", "--as", who, "--json").json["runs"]
    scope = Scope(Asker(place, who, {}).caller().principal)
    seen = [row.run_id for row in RunStore(place).list() if scope.sees(row)]
    assert seen == [row["run_id"] for row in by_queen] == ([run] if who in ("dana", "kim") else [])
    assert (command(place, "runs", "stop", own, "--as", who).code, status(place, own)) == (2, "queued")


def test_the_list_is_narrowed_by_status_and_tenant(shared: tuple[Workspace, str]) -> None:
    place, run = shared
    other = queued(place)
    command(place, "runs", "stop", other)

    def listed(*options: str) -> list[str]:
        return [row["run_id"] for row in command(place, "runs", "list", *options, "--json").json["runs"]]

    assert listed() == [other, run]
    assert (listed("--tenant", "acme"), listed("--status", "stopped")) == ([run], [other])
    assert listed("--limit", "1") == [other]
