"""The refund desk of the examples: whole, over a server that fails, lies and injects, and under kills."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_agents import AgentRun, Workspace
from hive_agents.agents.guards.budget import Limits
from hive_agents.approvals import ApprovalStore
from hive_agents.models.breaker import forget_breakers
from hive_agents.runs import RunStore
from hive_agents.workspace.trusted import trust
from tests.examples.desk import WITHOUT_ASKING, Bookkeeper, Model, Ticket, letters, refunds, write_orders
from tests.host.forked import ForkedHost
from tests.models.openai_server import Dripping, ModelServer, model_server
from tests.sample import hive

DESK = Path(__file__).parents[2] / "examples" / "refund_desk"
SETTINGS = """
[models]
embedding = "none"
chat = ["desk:small"]
[models.endpoints.desk]
base_url = "{url}"
[tools]
python = ["tools/*.py"]
[runs]
lease_seconds = 3
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    forget_breakers()
    with model_server() as server:
        yield server


def desk(root: Path, server: ModelServer, tickets: list[Ticket]) -> Workspace:
    """The example as it is, but for its model, which is the server's."""
    shutil.copytree(DESK, root)
    write_orders(root, tickets)
    file = root / "agents" / "refund-desk.json"
    value = json.loads(file.read_text()) | {"model": None}
    file.write_text(json.dumps(value))
    (root / "hive.toml").write_text(SETTINGS.format(url=server.url))
    place = Workspace(root)
    trust(place)
    return place


def opened(server: ModelServer, tickets: list[Ticket], trouble: float = 0.0) -> Model:
    model = Model({one.order: one for one in tickets}, trouble)
    server.says, server.faulty, server.count = model.says, model.faulty, model.count
    return model


def worked(place: Workspace, ticket: Ticket, keeper: Bookkeeper) -> AgentRun:
    run = AgentRun.start(place, "refund-desk", ticket.input)
    while run.go()["status"] == "waiting":
        keeper.work()
    return run


def test_a_ticket_is_settled_and_its_tokens_are_what_the_server_counted(tmp_path: Path, server: ModelServer) -> None:
    tickets = [Ticket(0), Ticket(3), Ticket(4), Ticket(7)]
    place, model = desk(tmp_path / "desk", server, tickets), opened(server, tickets)
    keeper = Bookkeeper(place, model.tickets)
    for ticket in tickets:
        run = worked(place, ticket, keeper)
        assert run.row.status == "done", run.row.summary["error"]
        assert run.row.summary["tokens"] == model.counted[ticket.order]
    assert refunds(place) == [(one.order, one.paid, 1) for one in tickets if one.owed]
    assert letters(place) == {one.order: 1 for one in tickets}
    assert keeper.decided == {"refund approved": 2, "refund refused": 1}
    assert {len(words) for words in model.words} == {1}


@pytest.mark.slow
async def test_two_hundred_tickets_with_kills_every_second(tmp_path: Path, server: ModelServer) -> None:
    """Two hosts, one of which is killed each second: each refund once, none too large, nothing crosses, all counted."""
    chance, tickets = random.Random(7), [Ticket(number) for number in range(int(os.environ.get("TICKETS", "200")))]
    place, model = desk(tmp_path / "desk", server, tickets), opened(server, tickets, trouble=0.08)
    keeper, store = Bookkeeper(place, model.tickets), RunStore(place)
    runs = {one.order: AgentRun.start(place, "refund-desk", one.input, hold=False).run_id for one in tickets}
    hosts = [ForkedHost(place.root) for _ in range(2)]
    for one in hosts:
        await asyncio.to_thread(one.start)
    began, killed, left = time.monotonic(), 0, set(runs.values())

    async def kill() -> None:
        nonlocal killed
        while left:
            await asyncio.sleep(max(0.0, began + killed + 1 - time.monotonic()))
            victim = chance.choice(hosts)
            await asyncio.to_thread(victim.end, signal.SIGKILL)
            await asyncio.to_thread(victim.start)
            killed += 1

    killing = asyncio.create_task(kill())
    try:
        while left:
            await asyncio.to_thread(keeper.work)
            await asyncio.sleep(0.5)
            left -= {row.run_id for row in store.list(status=("done", "failed"), limit=10_000)}
            assert not killing.done()
            assert time.monotonic() - began < 3_600, [store.get(run).summary for run in left]
    finally:
        left.clear()
        await killing
        for one in hosts:
            await asyncio.to_thread(one.end, signal.SIGTERM)
            one.close()
    rows = {order: store.get(run) for order, run in runs.items()}
    assert {row.status for row in rows.values()} == {"done"}, [
        row.summary for row in rows.values() if row.status != "done"
    ]

    paid = refunds(place)
    assert [(order, amount) for order, amount, _ in paid] == [(one.order, one.owed) for one in tickets if one.owed]
    assert letters(place) == {one.order: 1 for one in tickets}
    approved = {
        one.context["args"]["order"] for one in ApprovalStore(place).list("approved") if one.kind == "tool_call"
    }
    assert {order for order, amount, _ in paid if amount > WITHOUT_ASKING} == approved
    crossed = {words: count for words, count in model.words.items() if len(words) > 1}
    assert crossed == {}
    hive, counted = sum(row.summary["tokens"] for row in rows.values()), sum(model.counted.values())
    off = {order: row.summary["tokens"] - model.counted[order] for order, row in rows.items()}
    below, above = (sum(one for one in off.values() if (one < 0) == side) for side in (True, False))
    print(
        f"\n{len(tickets)} tickets, {killed} kills in {time.monotonic() - began:.0f} s; {len(paid)} refunds, of which"
        f" {sum(times > 1 for *_, times in paid)} were called again under their key; {dict(keeper.decided)};"
        f" {model.answers} answers, trouble: {dict(model.done)};"
        f" tokens: {hive:,} by the runs, {counted:,} by the server ({hive / counted - 1:+.2%}:"
        f" {below:,} and {above:+,})"
    )
    # What is left: a request that was refused, and whose host was killed before it read that, counts as answered.
    assert abs(hive / counted - 1) <= 0.01


@pytest.mark.slow
def test_every_command_knows_the_desks_own_tools(tmp_path: Path) -> None:
    """As it is, with its script: it is checked, evaluated, deployed and run, and an approved run is gone on with."""
    root = tmp_path / "desk"
    shutil.copytree(DESK, root)
    place = Workspace(root)
    trust(place)
    for command in ("validate", "deploy"):
        assert hive("agents", command, "refund-desk", "-w", root, "--json").code == 0
    assert "HIVE-107" not in hive("doctor", "-w", root, "--json").out
    given = json.dumps({"order": "A-1002", "message": "The trailer of order A-1002 never came."})
    waiting = hive("run", "refund-desk", "--input", given, "-w", root, "--json").json
    (id,) = waiting["approval_ids"]
    assert refunds(place) == []
    ApprovalStore(place).decide(id, "approve", by="dana")
    ended = hive("run", "--resume", waiting["run_id"], "-w", root, "--json")
    assert (ended.code, ended.json["status"], refunds(place)) == (0, "done", [("A-1002", 180, 1)])


def test_a_rehearsal_says_nothing_of_tools_that_are_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The copy of the workspace that it works in has the tools of the workspace."""
    shutil.copytree(DESK, tmp_path / "desk")
    trust(Workspace(tmp_path / "desk"))
    assert hive("agents", "eval", "refund-desk", "-w", tmp_path / "desk", "--json").json["passed"] == 3
    assert "HIVE-432" not in caplog.text


def test_a_budget_holds_over_a_server_that_counts_nothing(tmp_path: Path, server: ModelServer) -> None:
    """What was sent is estimated, rather too high; before the call that wouldn't fit a person is asked for more."""
    place, model = desk(tmp_path / "desk", server, [Ticket(0)]), opened(server, [Ticket(0)])
    server.faulty = lambda _: Dripping(silent=True)
    run = AgentRun.start(place, "refund-desk", Ticket(0).input, limits=Limits(tokens=5_000))
    waiting = run.go()
    (id,) = waiting["approval_ids"]
    assert ApprovalStore(place).get(id).context["budget"] == "tokens"
    assert 0 < model.counted["B-0000"] <= run.row.summary["tokens"] <= 5_000
    assert refunds(place) == []
    keeper = Bookkeeper(place, model.tickets)
    while run.go()["status"] == "waiting":
        keeper.work()
    assert (run.row.status, refunds(place)) == ("done", [("B-0000", 20, 1)])
