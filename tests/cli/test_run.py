"""`hive run`, `hive runs` and `hive agents`: fields, exit codes, and a talk with an agent."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hive_agents import AgentRun, Workspace, runs
from hive_agents.cli.timeline import line_of
from hive_agents.events import Event, EventType
from hive_agents.host.decisions import HOST
from hive_agents.runs import RunStore, leases_of
from hive_agents.store import connected
from tests.agents.conftest import GOAL, agent_json, write_json
from tests.conftest import make_workspace
from tests.sample import Ran, hive

ASK = {"tool_calls": [{"name": "ask_user", "args": {"question": "Which bees?"}}]}
INPUT = ("--input", '{"topic": "bees"}')


def sets(key: str, value: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "set_output", "args": {"key": key, "value": value}}]}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    workspace = make_workspace(tmp_path / "ws", embedding=False, documents={})
    write_json(workspace, "goals/digest.json", GOAL)
    write_json(workspace, "agents/digest.json", agent_json())
    return workspace


def script(place: Workspace, *lines: dict[str, Any], settings: str = "") -> None:
    chat = f'[models]\nembedding = "none"\nchat = ["scripted:script.jsonl"]\n{settings}'
    (place.root / "hive.toml").write_text(chat)
    (place.root / "script.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


def command(place: Workspace, *arguments: object) -> Ran:
    return hive(*arguments, "-w", place.root)


def running(place: Workspace) -> str:
    """The id of the only run, as soon as its worker has it."""
    while not (found := RunStore(place).list(status="running")):
        time.sleep(0.01)
    return found[0].run_id


def test_a_run_that_is_done(place: Workspace) -> None:
    script(place, sets("items", [1]), sets("text", "bees"))
    ran = command(place, "run", "digest", *INPUT, "--json")
    assert ran.code == 0
    assert {"run_id", "status", "outputs", "judgment", "approval_ids"} <= set(ran.json)
    assert (ran.json["status"], ran.json["outputs"]) == ("done", {"items": [1], "text": "bees"})
    (row,) = command(place, "runs", "list", "--json").json["runs"]
    assert set(row) == set(
        "run_id thread_id graph agent status tenant started_at ended_at node steps tokens usd stopped_by error".split()
    )
    again = command(place, "run", "--resume", ran.json["run_id"], "--json")
    assert again.json == ran.json
    assert "digest" in command(place, "runs").out


def test_a_run_whose_budget_is_used_up(place: Workspace) -> None:
    script(place, sets("items", [1]), sets("text", "bees"), settings="[runs]\nmax_steps = 1\n")
    ran = command(place, "run", "digest", *INPUT, "--json")
    assert (ran.code, ran.json["status"], ran.json["stopped_by"]) == (1, "failed", "steps")
    (row,) = command(place, "runs", "--json").json["runs"]
    assert (row["error"]["code"], row["stopped_by"], row["steps"]) == ("HIVE-423", "steps", 1)
    assert "budget of steps exhausted" in command(place, "runs", "show", ran.json["run_id"]).out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nobody", "--json"), "HIVE-107"),
        (("digest", "--json"), "HIVE-106"),
        (("digest", "--input", "{", "--json"), "HIVE-101"),
        (("digest", "--input", "[1]", "--json"), "HIVE-104"),
        (("digest", "--input", '{"topic": "\udcff"}', "--json"), "HIVE-112"),
        (("digest", "--input", '{"topic": 1, "topc": 2}', "--json"), "HIVE-103"),
        (("--json",), "HIVE-409"),
        (("--resume", "r0", "--json"), "HIVE-409"),
    ],
)
def test_bad_input_is_wrong_usage_and_leaves_no_run(place: Workspace, arguments: tuple[str, ...], code: str) -> None:
    script(place)
    ran = command(place, "run", *arguments)
    assert (ran.code, ran.codes) == (2, {code})
    assert command(place, "runs", "--json").json == {"runs": []}


def test_without_a_model_nothing_runs(place: Workspace) -> None:
    ran = command(place, "run", "digest", *INPUT, "--json")
    assert (ran.code, ran.codes) == (3, {"HIVE-401"})


def test_a_run_whose_models_are_out_says_so_by_its_exit_code(place: Workspace) -> None:
    script(place, *[{"error": "server"}] * 20)
    ran = command(place, "run", "digest", *INPUT, "--json")
    assert (ran.code, ran.json["status"], ran.json["stopped_by"]) == (3, "failed", "unavailable")


def test_a_faulty_agent_does_not_run(place: Workspace) -> None:
    write_json(place, "agents/digest.json", agent_json(entry="nowhere"))
    script(place)
    ran = command(place, "run", "digest", *INPUT, "--json")
    assert (ran.code, "HIVE-107" in ran.codes) == (1, True)
    assert command(place, "agents", "validate", "digest", "--json").json["ok"] is False


def test_a_talk_goes_on_until_the_run_is_done(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    script(place, ASK, sets("items", [1]), sets("text", "wild bees"))
    monkeypatch.setattr(sys, "stdin", io.StringIO("wild ones\n"))
    ran = command(place, "run", "digest", *INPUT, "--chat")
    assert ran.code == 0
    assert "Which bees?" in ran.out
    assert "text: wild bees" in ran.out


def test_nobody_at_the_other_end_leaves_the_run_waiting(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    script(place, ASK, sets("items", [1]), sets("text", "wild bees"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    ran = command(place, "run", "digest", *INPUT, "--chat")
    assert ran.code == 0
    assert "is waiting" in ran.out


def test_a_question_that_somebody_else_answered_meanwhile_ends_nothing(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hive_agents.approvals import ApprovalStore

    class Late(io.StringIO):
        def readline(self, *_: Any) -> str:
            store = ApprovalStore(place)
            (request,) = store.list("pending")
            store.decide(request.id, "respond", by="kim", message="tame ones")
            return "wild ones\n"

    script(place, ASK, sets("items", [1]), sets("text", "tame bees"))
    monkeypatch.setattr(sys, "stdin", Late())
    ran = command(place, "run", "digest", *INPUT, "--chat")
    assert (ran.code, "somebody else" in ran.out, "tame bees" in ran.out) == (0, True, True), ran.out


def test_a_queued_run_is_left_for_a_host(place: Workspace) -> None:
    script(place, sets("items", [1]), sets("text", "bees"))
    ran = command(place, "run", "digest", *INPUT, "--queue", "--json")
    assert (ran.code, ran.json["status"]) == (0, "queued")
    (row,) = command(place, "runs", "--json").json["runs"]
    assert (row["status"], row["steps"]) == ("queued", 0)
    told = command(place, "run", "digest", *INPUT, "--queue").out
    assert "queued; `hive serve --headless` takes it" in told
    done = command(place, "run", "--resume", ran.json["run_id"], "--json")
    assert (done.code, done.json["status"]) == (0, "done")


@pytest.mark.parametrize("other", [("digest", "--chat"), ("--resume", "r0")])
def test_a_queued_run_is_nobodys_to_talk_with(place: Workspace, other: tuple[str, ...]) -> None:
    script(place)
    ran = command(place, "run", *other, "--queue", "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})


@pytest.mark.slow
@pytest.mark.parametrize(("control", "status", "code"), [("pause", "paused", 0), ("stop", "stopped", 1)])
def test_a_run_that_somebody_halts_says_how_to_go_on(place: Workspace, control: str, status: str, code: int) -> None:
    """They ask while its model speaks."""
    script(place, sets("items", [1]) | {"delay_seconds": 6.0}, sets("text", "bees"))
    asked = threading.Thread(target=lambda: getattr(runs, control)(place, running(place), "user:kim"))
    asked.start()
    ran = command(place, "run", "digest", *INPUT)
    asked.join()
    assert ran.code == code, ran.out
    assert f"run {status} by user:kim" in ran.out
    (row,) = RunStore(place).list()
    assert f"hive run --resume {row.run_id}" in ran.out
    assert command(place, "run", "--resume", row.run_id, "--json").json["status"] == "done"


def test_agents_are_listed_shown_and_checked(place: Workspace) -> None:
    (row,) = command(place, "agents", "list", "--json").json["agents"]
    assert (row["id"], row["ok"], row["nodes"], row["inputs"]) == ("digest", True, ["collect", "write"], ["topic"])
    assert command(place, "agents", "show", "digest", "--json").json["agent"]["entry"] == "collect"
    assert command(place, "agents", "validate", "digest", "--json").json == {"ok": True, "diagnostics": []}
    assert command(place, "agents", "validate", "digst", "--json").code == 2


def test_an_answer_wakes_the_run_that_asked(place: Workspace) -> None:
    script(place, ASK, sets("items", [1]), sets("text", "wild bees"))
    (id,) = command(place, "run", "digest", *INPUT, "--json").json["approval_ids"]
    decided = command(place, "approvals", "respond", id, "--message", "wild ones", "--as", "dana", "--json")
    assert (decided.code, decided.json["run"]["status"]) == (0, "done"), decided.out
    (row,) = command(place, "runs", "--json").json["runs"]
    assert (row["status"], row["steps"]) == ("done", 3)


def test_an_answer_that_woke_nobody_is_carried_out_by_the_next_command(place: Workspace) -> None:
    from hive_agents.approvals import ApprovalStore
    from hive_agents.host.decisions import finish

    script(place, ASK, sets("items", [1]), sets("text", "wild bees"))
    (id,) = command(place, "run", "digest", *INPUT, "--json").json["approval_ids"]
    ApprovalStore(place).decide(id, "respond", by="dana", message="wild ones")
    assert finish(place) == []
    (row,) = command(place, "runs", "--json").json["runs"]
    assert row["status"] == "done"


@pytest.mark.parametrize("damage", ["garbage", "cut to a half", "cut in a page"])
def test_damaged_checkpoints_are_set_aside_and_the_run_goes_on(place: Workspace, damage: str) -> None:
    script(place, sets("items", [1]), ASK, sets("text", "bees"))
    waits = command(place, "run", "digest", *INPUT, "--json").json
    (id,) = waits["approval_ids"]
    checkpoints = place.state / "checkpoints.db"
    with closing(sqlite3.connect(checkpoints)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = checkpoints.read_bytes()
    left = {"garbage": b"no database" * 1000, "cut to a half": whole[: len(whole) // 2], "cut in a page": whole[:5000]}
    checkpoints.write_bytes(left[damage])
    told = command(place, "approvals", "respond", id, "--message", "wild ones", "--as", "dana")
    assert "Traceback" not in told.err
    (aside,) = place.state.glob("checkpoints.db.damaged-*")
    assert aside.read_bytes() == left[damage]
    shown = command(place, "runs", "show", waits["run_id"], "--json").out
    assert aside.name in shown
    again = command(place, "run", "--resume", waits["run_id"], "--json")
    assert (again.code, again.json["outputs"]) == (0, {"items": [1], "text": "bees"}), again.out


def test_a_damaged_row_is_told_and_hides_no_other(place: Workspace) -> None:
    script(place, sets("items", [1]), sets("text", "bees"))
    id = command(place, "run", "digest", *INPUT, "--json").json["run_id"]
    with connected(place.records) as connection:
        connection.execute("UPDATE runs SET input = '{bad', result = '[', error = '{', status = 'waiting'")
    (row,) = command(place, "runs", "--json").json["runs"]
    assert (row["run_id"], row["error"]["code"]) == (id, "HIVE-407")
    for arguments in (("run", "--resume", id), ("runs", "show", id)):
        ran = command(place, *arguments, "--json")
        assert (ran.code, ran.codes) == (3, {"HIVE-407"})


def test_a_status_that_does_not_exist_is_wrong_usage(place: Workspace) -> None:
    ran = command(place, "runs", "list", "--status", "bogus", "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})
    assert command(place, "runs", "list", "--status", "DONE", "--json").json == {"runs": []}


def test_outputs_do_not_turn_the_terminal_around(place: Workspace) -> None:
    turned = "a\u202eb\x9b2J"
    script(place, sets("items", [turned]), sets("text", turned))
    ran = command(place, "run", "digest", *INPUT, "--json")
    assert ran.json["outputs"]["text"] == turned
    shown = command(place, "run", "--resume", ran.json["run_id"])
    for out in (ran.out, shown.out):
        assert "a" in out
        assert not {"\u202e", "\x9b"} & set(out)


def test_a_run_that_fails_asks_nobody_any_more(place: Workspace) -> None:
    from hive_agents.approvals import ApprovalStore

    script(place, ASK)
    waits = command(place, "run", "digest", *INPUT, "--json").json
    RunStore(place).update(waits["run_id"], "failed")
    assert ApprovalStore(place).get(waits["approval_ids"][0]).status == "superseded"


def test_an_answer_says_that_the_host_goes_on_where_there_is_one(place: Workspace) -> None:
    script(place, ASK, sets("items", [1]), sets("text", "bees"))
    run = command(place, "run", "digest", *INPUT, "--json").json
    (asked,) = run["approval_ids"]
    lease = leases_of(place).acquire(HOST, HOST)
    assert lease is not None
    ran = command(place, "approvals", "respond", asked, "--message", "wild bees")
    lease.release()
    assert f"the host that is running goes on with run {run['run_id']}" in ran.out.replace("\n", " ")
    assert "waiting" not in ran.out


def test_an_answer_says_what_became_of_the_run_without_a_host(place: Workspace) -> None:
    script(place, ASK, sets("items", [1]), sets("text", "bees"))
    run = command(place, "run", "digest", *INPUT, "--json").json
    ran = command(place, "approvals", "respond", run["approval_ids"][0], "--message", "wild bees")
    assert f"run {run['run_id']} is done" in ran.out.replace("\n", " ")


def test_an_answer_given_where_no_model_is_leaves_the_run_to_whoever_has_one(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ASK, sets("items", [1]), sets("text", "bees")
    (place.root / "script.jsonl").write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setenv("HIVE_MODELS__CHAT", '["scripted:script.jsonl"]')
    run = command(place, "run", "digest", *INPUT, "--json").json
    monkeypatch.delenv("HIVE_MODELS__CHAT")
    told = command(place, "approvals", "respond", run["approval_ids"][0], "--message", "wild bees").out
    assert f"run {run['run_id']} is waiting" in told.replace("\n", " ")
    assert "no chat model is configured" in told
    assert f"hive run --resume {run['run_id']}" in told
    refused = command(place, "run", "--resume", run["run_id"], "--json")
    assert (refused.code, refused.codes) == (3, {"HIVE-401"})
    monkeypatch.setenv("HIVE_MODELS__CHAT", '["scripted:script.jsonl"]')
    assert command(place, "run", "--resume", run["run_id"], "--json").json["outputs"]["text"] == "bees"


def test_a_run_that_a_host_fails_for_want_of_a_model_goes_on_where_it_was(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = command(place, "run", "digest", *INPUT, "--queue", "--json").json["run_id"]
    failed = AgentRun.resume(place, run_id).go()
    assert (failed["status"], failed["stopped_by"], failed["error"]["code"]) == ("failed", "unavailable", "HIVE-401")
    assert "set models.chat in hive.toml" in failed["error"]["message"]
    told = command(place, "run", "--resume", run_id).out.replace("\n", " ")
    assert "hive explain HIVE-401" in told
    assert f"hive runs retry {run_id}" in told
    command(place, "runs", "retry", run_id)
    script(place, sets("items", [1]), sets("text", "bees"))
    done = command(place, "run", "--resume", run_id, "--json").json
    assert (done["status"], done["outputs"]) == ("done", {"items": [1], "text": "bees"})
    assert "visit 2" not in command(place, "runs", "show", run_id).out


def test_a_sub_agent_without_a_task_is_told_without_one() -> None:
    started = Event(EventType.SUBAGENT_STARTED, node_id="desk", payload={"agent": "checker", "task": ""})
    assert line_of(started) == "desk: sub-agent checker started"
