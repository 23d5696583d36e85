"""A COMMIT whose answer, or which itself, is lost on its way: what happened is known, and happens once."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.agents import Effects, versions
from hive_agents.agents.deployed import record, served_text
from hive_agents.agents.effects import Done
from hive_agents.agents.guards.budget import Budget
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.events import Event, EventLog, EventType
from hive_agents.models import Usage
from hive_agents.runs import Leases, Limits, RunStore
from hive_agents.store import audit, connected, exclusive, postgres as ours, transaction
from hive_agents.store.database import disconnect
from hive_agents.workspace.trusted import trust
from tests.approvals.asking import filing
from tests.host.hosting import prepared
from tests.real_engines import Postgres, postgres
from tests.records import all_records, execute
from tests.store.cutting import Wire, wired

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


@pytest.fixture(scope="module")
def wire(server: Postgres) -> Iterator[Wire]:
    with wired(server.socket) as found:
        yield found


@pytest.fixture
def place(tmp_path: Path, wire: Wire) -> Workspace:
    root = prepared(tmp_path / "ws").root
    with (root / "hive.toml").open("a", encoding="utf-8") as file:
        url = f"postgresql://hive@127.0.0.1:{wire.port}/postgres"
        file.write(f'[storage]\nurl = "{url}"\nnamespace = "t{uuid.uuid4().hex[:12]}"\n')
    found = Workspace(root)
    trust(found)
    with connected(found.records) as connection:  # makes the tables
        connection.execute("SELECT 1")
    return found


def begin_anew(place: Workspace, server: Postgres) -> None:
    disconnect(place.records)
    server.run(f"DROP SCHEMA {place.settings.storage.namespace} CASCADE")
    (place.state / "audit.head").unlink(missing_ok=True)


RUN = Event(EventType.RUN_COMPLETED, "r1", "t1")


def runs(place: Workspace) -> int:
    RunStore(place).insert("agent", {"input": 1}, key="once")
    return len(all_records(place).get("runs", []))


def leases(place: Workspace) -> int:
    lease = Leases(place).acquire("t1", "r1")
    assert lease is not None
    assert lease.renew()
    found = [row for row in all_records(place)["leases"] if row[3] == lease.fence]
    lease.release()
    return len(found)


def events(place: Workspace) -> int:
    ((event, _),) = EventLog(place).append([RUN])
    assert [found.seq for found in EventLog(place).replay()] == [event.seq]
    return 1


def filed(place: Workspace) -> int:
    ApprovalStore(place).file(filing(idempotency_key="once"))
    return len(ApprovalStore(place).list())


def decided(place: Workspace) -> int:
    request = ApprovalStore(place).file(filing(idempotency_key="once"))
    ApprovalStore(place).decide(request.id, "approve", by="dana")
    (found,) = ApprovalStore(place).list()
    assert found.status == "approved"
    log = [event for event in EventLog(place).replay() if event.type == EventType.APPROVAL_DECIDED]
    assert len(log) == 1
    return len(found.decisions)


def effect(place: Workspace) -> int:
    RunStore(place).insert("agent", {"input": 1}, run_id="r1", key="r1")
    effects = Effects(place, "r1", Budget(Limits()))

    async def do(_: bool) -> Done:
        execute(place, "INSERT INTO buffers VALUES ('local', 'global', ?, 'k', '1', 1, '')", uuid.uuid4().hex)
        return Done("done", Usage(input_tokens=7, output_tokens=5))

    assert asyncio.run(effects.once("a#1", "model", "m", do, tokens=100)) == "done"
    assert RunStore(place).get("r1").summary["tokens"] == 12
    assert [row[5] for row in all_records(place)["effects"]] == ["done"]
    return len(all_records(place)["buffers"])


def noted(place: Workspace) -> int:
    audit.append(place, "note", text="once")
    assert audit.verify(place).ok
    return len([*audit.entries(place, "note")])


def deployed(place: Workspace) -> int:
    with exclusive(place, "deploying"):
        changed = served_text(place, "toiler").model_copy(update={"version": 2, "identity": "Toils more."})
        record(place, changed, decision="approved", via="deploy", by="dana", evaluation={})
    assert served_text(place, "toiler").identity == "Toils more."
    assert audit.verify(place).ok
    return len(versions(place, "toiler"))


ACTS: dict[str, Callable[[Workspace], int]] = {
    "a run": runs,
    "a lease": leases,
    "events": events,
    "a request": filed,
    "a decision": decided,
    "an effect": effect,
    "a line of the log": noted,
    "a deployment": deployed,
}
MOST = 12
"""More commits than any of them makes."""


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_what_was_committed_counts_though_the_answer_is_lost(
    wire: Wire, place: Workspace, act: Callable[[Workspace], int], server: Postgres
) -> None:
    for passed in range(MOST):
        before = wire.cuts
        wire.cut(1, "after", after=passed)
        assert act(place) == 1, passed
        cut = wire.cuts - before
        wire.cut(0, "after")
        if not cut:
            assert passed
            return
        begin_anew(place, server)
    raise AssertionError("it never came to an end")


REPEATED = ("a run", "a lease", "events", "a request", "a decision", "an effect")
"""What whoever wanted it asks for again after a failure."""


@pytest.mark.parametrize("name", REPEATED)
def test_what_was_not_committed_is_told_and_done_once_when_it_is_asked_for_again(
    wire: Wire, place: Workspace, name: str, server: Postgres
) -> None:
    act = ACTS[name]
    for passed in range(MOST):
        before = wire.cuts
        wire.cut(1, "before", after=passed)
        try:
            told = ""
            assert act(place) == 1
        except HiveError as error:
            told = error.diagnostics[0].code
        cut = wire.cuts - before
        wire.cut(0, "before")
        if not cut:
            assert (passed > 0, told) == (True, "")
            return
        if name == "an effect" and not told:  # what came of it is recorded again, for a while
            begin_anew(place, server)
            continue
        assert told == "HIVE-402"
        execute(place, "UPDATE leases SET expires_at = 0")
        execute(place, "DELETE FROM buffers")
        assert act(place) == 1, passed
        begin_anew(place, server)
    raise AssertionError("it never came to an end")


def test_nothing_more_is_sent_over_a_lost_connection(wire: Wire, place: Workspace) -> None:
    """Whoever goes on in the same block has another connection."""
    with connected(place.records) as connection:
        wire.cut(1, "after")
        with transaction(connection):
            connection.execute("INSERT INTO consumers (name, seq) VALUES ('a', 1)")
        assert connection.execute("SELECT seq FROM consumers").fetchone() == (1,)


def test_a_server_that_vanishes_without_a_word_is_given_up_by_this_side(place: Workspace) -> None:
    """Unplugged, it closes nothing: the kernel ends the connection after so long, whether something was sent or not."""
    with connected(place.records) as connection, socket.socket(fileno=os.dup(connection.raw.fileno())) as open_:
        assert open_.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == ours.IDLE_SECONDS * 1_000
        assert open_.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        kept = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT]
        idle, every, times = (open_.getsockopt(socket.IPPROTO_TCP, option) for option in kept)
        assert idle + every * times <= ours.IDLE_SECONDS


def test_a_transaction_of_a_host_that_is_frozen_ends_and_others_write(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    disconnect(place.records)
    monkeypatch.setattr(ours, "IDLE_SECONDS", 6)

    def freezes() -> None:
        with connected(place.records) as frozen, transaction(frozen):
            frozen.execute("INSERT INTO consumers (name, seq) VALUES ('frozen', 1)")
            EventLog(place).append([RUN])  # waits for that turn, and gets it
            frozen.execute("SELECT 1")

    with pytest.raises(HiveError, match="silent for 6 s"):
        freezes()
    assert len(EventLog(place).replay()) == 1
    assert "consumers" not in all_records(place)


def test_a_transaction_that_says_that_it_is_long_may_rest(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    disconnect(place.records)
    monkeypatch.setattr(ours, "IDLE_SECONDS", 6)
    with connected(place.records) as connection, transaction(connection, long=True):
        found = connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()
    assert found == ("0",)
