"""`hive status`: what runs, waits, fails and costs; people see their tenant's figures, readers none."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.runs import RunStore
from hive_agents.runs.store import STATUSES
from hive_agents.store import connected, transaction
from tests.agents.conftest import GOAL, agent_json, write_json
from tests.cli.test_run import command, script, sets
from tests.cli.test_runs import PEOPLE
from tests.cli.test_tokens import hold
from tests.conftest import make_workspace


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = make_workspace(tmp_path / "ws", embedding=False, documents={})
    write_json(place, "goals/digest.json", GOAL)
    write_json(place, "agents/digest.json", agent_json())
    write_json(place, "access/people.json", PEOPLE)
    script(place, sets("items", [1]), sets("text", "bees"))
    return place


def run_of(place: Workspace, status: str, tenant: str = "acme", usd: float = 0.0) -> str:
    store = RunStore(place)
    run = store.insert("event_loop", {}, owner=Principal(tenant, "kim"))[0].run_id
    if usd:
        with connected(place.records) as connection, transaction(connection):
            store.spend(connection, run, tokens=100, usd=usd)
    store.update(run, status)
    return run


def test_an_empty_workspace_has_nothing_to_tell(place: Workspace) -> None:
    told = command(place, "status", "--json").json
    assert told["runs"] == dict.fromkeys(STATUSES, 0)
    assert told["last_day"] == {"runs": 0, "failed": 0, "tokens": 0, "usd": 0.0}
    assert (told["due"], told["approvals_pending"], told["records"]) == (
        {"runs": 0, "oldest_seconds": 0.0}, 0, ".hive/hive.db"
    )  # fmt: skip
    assert command(place, "status").out.startswith("runs: none yet\n")


def test_it_counts_what_runs_waits_and_fails_and_what_it_costs(place: Workspace) -> None:
    for status, usd in (("queued", 0.0), ("running", 0.0), ("failed", 0.25), ("done", 0.5)):
        run_of(place, status, usd=usd)
    told = command(place, "status", "--json").json
    assert {status: number for status, number in told["runs"].items() if number} == {
        "queued": 2, "failed": 1, "done": 1
    }, "nobody works on the running one: it is due"  # fmt: skip
    assert told["due"]["runs"] == 2
    assert told["last_day"] == {"runs": 4, "failed": 1, "tokens": 200, "usd": 0.75}
    assert "2 queued, 1 done, 1 failed" in command(place, "status").out


def test_an_operator_sees_their_tenant_and_a_reader_nothing(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    run_of(place, "done", "acme", 0.5)
    run_of(place, "failed", "globex", 0.25)
    hold(monkeypatch, place, "kim", "operator")
    told = command(place, "status", "--json").json
    assert (told["runs"]["done"], told["runs"]["failed"], told["last_day"]["usd"]) == (1, 0, 0.5)
    assert told["state_megabytes"] is None, "what .hive holds grows with documents that they may not see"
    hold(monkeypatch, place, "dana")
    refused = command(place, "status", "--json")
    assert (refused.code, refused.codes) == (1, {"HIVE-415"})
