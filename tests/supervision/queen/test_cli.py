"""`hive queen`: the colony, one message, a talk."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable

import pytest

from hive_agents import Workspace
from hive_agents.host.queen import Queen
from tests.agents.conftest import write_json
from tests.sample import Ran, hive
from tests.supervision.queen.conftest import run_of, status_of, ticket_for, told

Command = Callable[..., Ran]
PRINCIPALS = {
    "tenants": {"acme": {"admins": []}, "globex": {"admins": []}},
    "principals": {"dana": {"tenant": "acme"}, "pete": {"tenant": "globex"}},
}


@pytest.fixture
def people(place: Workspace) -> Workspace:
    write_json(place, "access/people.json", PRINCIPALS)
    return place


@pytest.fixture
def command(people: Workspace) -> Command:
    return lambda *arguments: hive("queen", *arguments, "-w", people.root)


def test_the_colony_as_json_and_as_text(people: Workspace, command: Command) -> None:
    row = run_of(people, status="queued")
    asyncio.run(Queen(people).handle(told(people, ticket_for(row))))
    found = command("--as", "dana", "--json").json
    assert [one["run_id"] for one in found["runs"]] == [row.run_id]
    assert [one["severity"] for one in found["tickets"]] == ["high"]
    assert [(one["action"], one["status"]) for one in found["actions"]] == [("pause+ask", "done")]
    shown = command("--as", "dana").out
    assert row.run_id in shown
    assert "doom loop" in shown
    assert command("--as", "pete", "--json").json == {"runs": [], "tickets": [], "actions": []}


def test_one_message(people: Workspace, command: Command) -> None:
    row = run_of(people)
    reply = command("what is running", "--as", "dana", "--json").json
    assert set(reply) == {"answer", "runs", "actions", "usage"}
    assert reply["runs"] == [row.run_id]
    assert row.run_id in command("status", "--as", "dana").out
    assert row.run_id in command("status").out  # the workspace's owner, who can read its files, sees all


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["", "--as", "dana"], 2),
        (["x", "--as", "nobody"], 2),
        (["  ", "--as", "dana"], 2),
        (["x", "--chat", "--as", "dana"], 2),
    ],
)
def test_wrong_usage_is_told(command: Command, arguments: list[str], code: int) -> None:
    ran = command(*arguments)
    assert (ran.code, "HIVE-409" in ran.err) == (code, True)


def test_a_talk_until_the_end_of_input(people: Workspace, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    row = run_of(people, status="queued")
    monkeypatch.setattr(sys, "stdin", io.StringIO("what is running\n\nstop it\n\x1b[2J\nstatus"))
    shown = command("--chat", "--as", "dana").out
    assert (status_of(people, row), "No run is active." in shown, "\x1b" in shown) == ("stopped", True, False)
