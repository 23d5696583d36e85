"""Commands and questions without a model: what she understands, what she asks back, and what is no command."""

from __future__ import annotations

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.host.queen import Queen
from hive_agents.runs import RunStore
from hive_agents.supervision.queen.commands import understand
from tests.supervision.queen.conftest import DANA, OTTO, run_of, status_of, ticket_for, told, words_to


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("what is running", "list"),
        ("What's going on?", "list"),
        ("status", "list"),
        ("list the failed runs", "list"),
        ("is anything running?", "list"),
        ("runs", "list"),
        ("why is digest stuck", "why"),
        ("what happened to r0123456789?", "why"),
        ("why is r0123456789 waiting?", "why"),
        ("why is digest still paused", "why"),
        ("why was it stopped", "why"),
        ("why has digest failed?", "why"),
        ("what is it waiting for?", "why"),
        ("which tickets are open?", "tickets"),
        ("list the open tickets", "tickets"),
        ("which requests are pending?", "waiting"),
        ("list agents", "workers"),
        ("which agents do you have?", "workers"),
        ("what is wrong with digest", "why"),
        ("Queen, why did you stop it?", "why"),
        ("what is waiting for me", "waiting"),
        ("any approvals?", "waiting"),
        ("how much did it cost", "spend"),
        ("what have we spent", "spend"),
        ("tickets", "tickets"),
        ("are there problems", "tickets"),
        ("which agents are there", "workers"),
        ("who can write a digest", "workers"),
        ("what did you do", "actions"),
        ("help", "help"),
        ("Hello!", "help"),
        ("what can you do?", "help"),
        ("stop it", "stop"),
        ("Could you please stop r0123456789", "stop"),
        ("PAUSE digest", "pause"),
        ("ok, resume it please", "resume"),
        ("run digest", "start"),
        ("tell r0123456789: use the archive", "tell"),
        ("tell me what is running", "list"),
        ("approve a-1", "decide"),
        ("don't stop it", "unknown"),
        ("do not pause digest", "unknown"),
        ("never stop digest", "unknown"),
        ("stop digest and start curator", "unknown"),
        ("stop digest, then resume it", "unknown"),
        ("stop digest tomorrow", "unknown"),
        ("which runs are paused", "list"),
        ("what has happened to it", "why"),
        ("the weather is fine", "unknown"),
        ("", "unknown"),
        ("stopping is not what I want", "unknown"),
    ],
)
def test_what_she_understands(text: str, verb: str) -> None:
    assert understand(text).verb == verb


@pytest.mark.parametrize(
    "text", ['{"topic"', "[1]", "start x with {", "\x00" * 9, "[" * 9000, "stop " * 2000, "🐝" * 99]
)
def test_odd_texts_are_no_trouble(text: str) -> None:
    understand(text)
    understand(f"start digest with {text}")


async def test_what_runs_is_told_by_id(place: Workspace, queen: Queen) -> None:
    row, done = run_of(place), run_of(place, status="done")
    reply = await queen.ask("what is running?", DANA)
    assert reply["runs"] == [row.run_id]
    assert f"{row.run_id} digest: running" in reply["answer"]
    assert reply["usage"] == {"model_calls": 0, "input_tokens": 0, "output_tokens": 0, "usd": 0.0}
    assert (await queen.ask("which are done", DANA))["runs"] == [done.run_id]


async def test_it_is_the_run_last_spoken_of(place: Workspace, queen: Queen) -> None:
    row, other = run_of(place), run_of(place)
    told(place, ticket_for(row))
    for text in ("why is {} stuck", "how is {} doing?", "is {} ok", "status of {}"):
        reply = await queen.ask(text.format(row.run_id), DANA)
        assert "doom loop" in reply["answer"]
    # Another process, and another person in between.
    await Queen(place).ask(f"why is {other.run_id} stuck", OTTO)
    reply = await Queen(place).ask("stop it", DANA)
    assert reply["actions"] == [{"action": "stop", "run_id": row.run_id, "status": "running"}]
    assert (status_of(place, row), status_of(place, other)) == ("running, to stop", "running")


async def test_a_run_is_told_of_with_its_own_tickets_alone(place: Workspace, queen: Queen) -> None:
    row, other = run_of(place), run_of(place)
    told(place, ticket_for(row))
    assert "doom loop" in (await queen.ask(f"why is {row.run_id} stuck", DANA))["answer"]
    assert "doom loop" not in (await queen.ask(f"why is {other.run_id} stuck", DANA))["answer"]


async def test_words_to_a_run_that_rests_say_how_it_goes_on(place: Workspace, queen: Queen) -> None:
    working, resting = run_of(place), run_of(place, status="paused")
    assert "resume" not in (await queen.ask(f"tell {working.run_id}: be brief", DANA))["answer"]
    reply = await queen.ask(f"tell {resting.run_id}: be brief", DANA)
    assert f"It is paused: say resume {resting.run_id}." in reply["answer"]


@pytest.mark.parametrize("text", ["stop {}?", "pause {} ?", "cancel {}？"])
async def test_a_command_with_a_question_mark_is_asked_back(place: Workspace, queen: Queen, text: str) -> None:
    row = run_of(place, status="queued")
    reply = await queen.ask(text.format(row.run_id), DANA)
    assert ("Do you mean this run?" in reply["answer"], status_of(place, row)) == (True, "queued")
    assert (await queen.ask("yes", DANA))["actions"] != []


async def test_an_ambiguous_command_asks_back_and_takes_the_answer(place: Workspace, queen: Queen) -> None:
    rows = [run_of(place, status="queued") for _ in range(2)]
    reply = await queen.ask("stop digest", DANA)
    assert reply["actions"] == []
    assert all(row.run_id in reply["answer"] for row in rows)
    reply = await queen.ask("2", DANA)  # the older one: newest first
    assert [one["run_id"] for one in reply["actions"]] == [rows[0].run_id]
    assert [status_of(place, row) for row in rows] == ["stopped", "queued"]
    await queen.ask("1", DANA)
    assert [status_of(place, row) for row in rows] == ["stopped", "queued"]


@pytest.mark.parametrize(
    "text",
    [
        "stop {id} if it fails again",
        "stop {id} tomorrow",
        "stop all runs",
        "stop everything",
        "stop {id} and pause it",
        "don't stop {id}",
        "should I stop {id}?",
        "was {id} stopped?",
        "why would you stop {id}?",
        "stop",
    ],
)
async def test_what_is_no_clear_command_changes_nothing(place: Workspace, queen: Queen, text: str) -> None:
    row = run_of(place, status="queued")
    reply = await queen.ask(text.format(id=row.run_id), DANA)
    assert (reply["actions"], status_of(place, row)) == ([], "queued")


@pytest.mark.parametrize("name", ["r00000", "r0123456789", "r1", "rdead00beef", "r1x"])
@pytest.mark.parametrize("text", ["stop {}", "why is {} stuck", "please pause {}"])
async def test_a_run_that_there_is_not_is_told_and_no_other_is_offered(
    place: Workspace, queen: Queen, text: str, name: str
) -> None:
    rows = [run_of(place, status="queued") for _ in range(2)]
    reply = await queen.ask(text.format(name), DANA)
    assert (reply["answer"], reply["actions"]) == (f"There is no run {name} that you may see.", [])
    assert [status_of(place, row) for row in rows] == ["queued", "queued"]


async def test_an_agent_whose_name_looks_like_a_runs_id_is_meant(place: Workspace, queen: Queen) -> None:
    row = run_of(place, status="queued", agent="r2d2")
    reply = await queen.ask("stop r2d2", DANA)
    assert [one["run_id"] for one in reply["actions"]] == [row.run_id]


async def test_words_for_a_worker(place: Workspace, queen: Queen) -> None:
    row = run_of(place)
    await queen.ask(f"tell {row.run_id}: use the archive, and stop searching", DANA)
    assert words_to(place, row) == ["use the archive, and stop searching"]
    RunStore(place).update(row.run_id, "done")
    reply = await queen.ask(f"tell {row.run_id}: more", DANA)
    assert "doesn't listen" in reply["answer"]


async def test_a_task_that_no_agent_can_do_is_said_to_be_one(place: Workspace, queen: Queen) -> None:
    fits = (await queen.ask("who can write a digest of the news?", OTTO))["answer"]
    assert fits.startswith("These fit best:")
    assert "idle" not in fits
    assert (await queen.ask("who can cook dinner?", OTTO))["answer"].startswith("No agent here can do that.")
    (place.root / "agents" / "digest.json").unlink()
    only = (await queen.ask("which agent can write a digest of the news?", OTTO))["answer"]
    assert only.startswith("No agent here can do that. There is 1 agent:")
    assert not (await queen.ask("list agents", OTTO))["answer"].startswith("No agent")


async def test_costs_and_what_waits(place: Workspace, queen: Queen) -> None:
    row = run_of(place, status="waiting")
    filing = Filing(
        kind="question", title="Which bees?\nAll?", requester="agent:digest", tenant="acme", run_id=row.run_id
    )
    request = ApprovalStore(place).file(filing)
    assert f'{request.id} (question): "Which bees? All?"' in (await queen.ask("what is waiting for me", DANA))["answer"]
    assert "1 run: 0 tokens, $0.0000" in (await queen.ask("what did it cost", DANA))["answer"]
    assert request.id in (await queen.ask("why is digest stuck", DANA))["answer"]
    assert "what is running" in (await queen.ask("sing a song", DANA))["answer"]
