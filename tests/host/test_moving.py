"""Records that move to a server and back, with a real one."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hive_agents import Workspace
from hive_agents.agents import AgentRun
from hive_agents.base.errors import HiveError
from hive_agents.events import Event, EventLog, EventType
from hive_agents.host.moving import move_records
from hive_agents.runs import Leases, RunStore
from hive_agents.store import audit, connected, database
from hive_agents.store.database import disconnect
from hive_agents.workspace.trusted import trust
from hive_agents.workspace.workspace import RemoteDatabase
from tests.host.hosting import prepared, queued, seams
from tests.real_engines import Postgres
from tests.records import all_records, execute, log_lines
from tests.sample import hive

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """One run that is done, one that waits for a person, and some lines of the log."""
    found = prepared(tmp_path / "ws")
    toml = found.root / "hive.toml"
    toml.write_text(toml.read_text() + f'[storage]\nnamespace = "t{uuid.uuid4().hex[:12]}"\n')
    trust(found)
    found = Workspace(found.root)
    AgentRun.resume(found, queued(found), **seams(found.root)).go()
    AgentRun.start(found, "careful", {"what": "work", "seconds": 0.0}, **seams(found.root)).go()
    return found


def at(place: Workspace, server: Postgres) -> RemoteDatabase:
    return RemoteDatabase(server.url, place.settings.storage.namespace, place.root)


def moved(place: Workspace, target: Any, **options: Any) -> Any:
    return move_records(place, target, progress=lambda *_: None, **options)


def on(place: Workspace, target: RemoteDatabase | Path) -> Workspace:
    """The workspace as it is when the settings name the other place."""
    text = (place.root / "hive.toml").read_text().split("url =")[0]
    if isinstance(target, RemoteDatabase):
        text += f'url = "{target.url}"\n'
    (place.root / "hive.toml").write_text(text)
    found = Workspace(place.root)
    trust(found)
    return found


def code_of(place: Workspace, target: Any, **options: Any) -> str:
    with pytest.raises(HiveError) as raised:
        moved(place, target, **options)
    (found,) = raised.value.diagnostics
    assert found.fix
    return found.code


def test_everything_gets_to_the_server_and_work_goes_on_there(place: Workspace, server: Postgres) -> None:
    before, lines = all_records(place), log_lines(place)
    result = moved(place, at(place, server))
    assert result.copied
    counts = {part.name: part.count for part in result.parts}
    assert counts["runs"] == counts["checkpoints"] == 2
    assert (counts["audit"], counts["approvals"]) == (len(lines), 1)
    there = on(place, at(place, server))
    assert isinstance(there.records, RemoteDatabase)
    assert (all_records(there), log_lines(there)) == (before, lines)
    assert audit.verify(there).ok
    (waiting,) = [row.run_id for row in RunStore(there).list() if row.status == "waiting"]
    (request,) = [row[0] for row in before["approvals"]]
    assert hive("approvals", "approve", request, "-w", there.root).code == 0
    assert AgentRun.resume(there, waiting, **seams(there.root)).go()["status"] == "done"


def test_numbers_go_on_after_the_last_that_was_given(place: Workspace, server: Postgres) -> None:
    log = EventLog(place)
    last = log.append([Event(EventType.RUN_FAILED)])[-1][0].seq
    assert last is not None
    execute(place, "DELETE FROM events WHERE seq = ?", last)
    moved(place, at(place, server))
    there = on(place, at(place, server))
    assert EventLog(there).append([Event(EventType.RUN_FAILED)])[-1][0].seq == last + 1


def test_they_come_back_with_what_was_done_there(place: Workspace, server: Postgres) -> None:
    moved(place, at(place, server))
    there = on(place, at(place, server))
    AgentRun.resume(there, queued(there), **seams(there.root)).go()
    before, lines = all_records(there), log_lines(there)
    assert code_of(there, there.database) == "HIVE-409", "the old ones are there still"
    assert moved(there, there.database, replacing=True).copied
    here = on(place, place.database)
    assert (all_records(here), log_lines(here)) == (before, lines)
    assert AgentRun.resume(here, queued(here), **seams(here.root)).go()["status"] == "done"


def test_the_same_again_copies_nothing(place: Workspace, server: Postgres) -> None:
    first = moved(place, at(place, server))
    again = moved(place, at(place, server))
    assert (first.copied, again.copied, again.parts) == (True, False, first.parts)


def test_a_move_that_was_killed_goes_on(place: Workspace, server: Postgres) -> None:
    """It is killed while it waits for one table, when those before it are copied."""
    target = at(place, server)
    with connected(replace(target, is_target=True)):
        pass  # makes the tables
    before, lines = all_records(place), log_lines(place)
    command = [sys.executable, "-m", "hive_agents", "storage", "migrate", "--to", server.url, "-w", str(place.root)]
    with psycopg.connect(server.url) as other:
        other.execute(f"LOCK TABLE {target.schema}.events IN EXCLUSIVE MODE".encode())
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        waits = f"SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{target.schema}.events'::regclass"
        while not int(server.run(waits)):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    counted = f"SELECT (SELECT count(*) FROM {target.schema}.runs), (SELECT count(*) FROM {target.schema}.events)"
    assert server.run(counted).strip() == "2|0"
    assert all_records(place) == before
    assert code_of(on_other(place), target) == "HIVE-409", "what is half there is somebody else's"
    disconnect(target)
    early = on(place, target)
    assert hive("runs", "-w", early.root, "--json").codes == {"HIVE-403"}, "nobody works with the half"
    on(place, place.database)
    assert moved(place, target).copied
    assert (all_records(on(place, target)), log_lines(place)) == (before, lines)


def on_other(place: Workspace) -> Workspace:
    root = place.root.parent / "other"
    (root / "collections").mkdir(parents=True)
    return Workspace(root)


def test_a_prefix_that_is_no_longer_true_is_copied_anew(place: Workspace, server: Postgres) -> None:
    target = at(place, server)
    moved(place, target)
    assert hive("storage", "reopen", "-w", place.root).code == 0
    execute(place, "UPDATE runs SET steps = steps + 1")
    assert code_of(place, target) == "HIVE-409"
    assert moved(place, target, replacing=True).copied
    before = all_records(place)
    assert all_records(on(place, target)) == before


@pytest.mark.parametrize("back", [False, True])
def test_whoever_still_uses_the_old_place_is_told_where_they_are(
    place: Workspace, server: Postgres, back: bool
) -> None:
    """A process that has had it open since before, and one that comes later; nothing is written there."""
    target: RemoteDatabase | Path = at(place, server)
    moved(place, target)
    if back:
        place, target = on(place, target), place.database
        EventLog(place).append([Event(EventType.RUN_FAILED)])
        assert moved(place, target, replacing=True).copied
    before, lines = all_records(place), log_lines(place)
    for write in (
        lambda: EventLog(place).append([Event(EventType.RUN_FAILED)]),
        lambda: audit.append(place, "note", text="late"),
        lambda: queued(place),
    ):
        with pytest.raises(HiveError, match="moved to") as raised:
            write()
        (told,) = raised.value.diagnostics
        assert (told.code, "hive.toml" in str(told.fix)) == ("HIVE-403", True)
    assert (all_records(place), log_lines(place)) == (before, lines)
    (check,) = [one for one in hive("doctor", "-w", place.root, "--json").json["checks"] if one["name"] == "records"]
    assert (check["status"], "HIVE-403" in check["message"]) == ("fail", True)
    there = on(place, target)
    EventLog(there).append([Event(EventType.RUN_FAILED)])
    there = on(place, place.records)
    assert code_of(place, target, replacing=True) == "HIVE-403", "newer records would make room for older ones"
    assert hive("storage", "reopen", "-w", there.root).code == 0
    queued(there)


def test_a_newer_release_brings_a_sealed_file_forward(place: Workspace, server: Postgres) -> None:
    moved(place, at(place, server))
    disconnect(place.records)
    with closing(sqlite3.connect(place.database, isolation_level=None)) as file:
        seals = file.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone()
        file.execute("PRAGMA user_version = 0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", ("UPDATE runs SET steps = 7",))
        with connected(place.records) as connection:
            assert connection.execute("SELECT min(steps) FROM runs").fetchone() == (7,)
            assert connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone() == seals


def test_what_somebody_works_on_stays(place: Workspace, server: Postgres) -> None:
    lease = Leases(place).acquire("t", "r")
    assert lease is not None
    assert code_of(place, at(place, server)) == "HIVE-402"
    lease.release()
    assert moved(place, at(place, server)).copied


def test_another_audit_log_is_never_replaced(place: Workspace, server: Postgres, tmp_path: Path) -> None:
    moved(place, at(place, server))
    other = on_other(place)
    audit.append(other, "note", text="ours")
    target = RemoteDatabase(server.url, place.settings.storage.namespace, other.root)
    assert code_of(other, target) == "HIVE-409"
    assert code_of(other, target, replacing=True) == "HIVE-413"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET input = 'a' || char(0)",
        "UPDATE runs SET steps = 'many'",
        "INSERT INTO messages VALUES ('nowhere', 1, 'k', 'user', '[]', 0, '')",
    ],
)
def test_what_a_server_cannot_hold_is_told_with_its_row(place: Workspace, server: Postgres, damage: str) -> None:
    execute(place, damage)
    with pytest.raises(HiveError, match="row") as raised:
        moved(place, at(place, server))
    assert raised.value.diagnostics[0].code == "HIVE-407"
    assert "runs" in str(raised.value) or "messages" in str(raised.value)


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id FROM c"


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE drift", f"CREATE VIEW drift AS {ENDLESS}"],
        ["CREATE TRIGGER t AFTER DELETE ON runs BEGIN DELETE FROM events; END"],
    ],
)
def test_what_a_file_has_beside_its_tables_is_not_asked(
    place: Workspace, server: Postgres, statements: list[str]
) -> None:
    """A view that answers without an end would hold the command, and everybody who waits for it."""
    for statement in statements:
        execute(place, statement)
    with pytest.raises(HiveError, match="none of this program's") as raised:
        moved(place, at(place, server))
    assert raised.value.diagnostics[0].code == "HIVE-407"


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE runs SET graph = zeroblob(150000000)", "holds over 100 MB in graph"),
        ("UPDATE sqlite_sequence SET seq = 'x'", "is no number"),
    ],
)
def test_what_is_too_large_or_no_number_is_told_before_anything_is_read(
    place: Workspace, server: Postgres, statement: str, told: str
) -> None:
    execute(place, "INSERT OR IGNORE INTO sqlite_sequence VALUES ('events', 1)")
    execute(place, statement)
    with pytest.raises(HiveError, match=told):
        moved(place, at(place, server))


def test_the_command_tells_what_to_write_or_writes_it(place: Workspace, server: Postgres) -> None:
    file = place.root / "hive.toml"
    text = file.read_text()
    ran = hive("storage", "migrate", "--to", server.url, "-w", place.root)
    assert (ran.code, f'url = "{server.url}"' in ran.out.replace("\n", "")) == (0, True)
    assert file.read_text() == text
    ran = hive("storage", "migrate", "--to", server.url, "--write", "-w", place.root, "--json")
    assert (ran.json["copied"], ran.json["verified"], ran.json["written"]) == (False, True, True)
    assert tomllib.loads(file.read_text()) == tomllib.loads(text) | {
        "storage": {"url": server.url, "namespace": place.settings.storage.namespace}
    }
    trust(Workspace(place.root))
    shown = hive("storage", "-w", place.root, "--json").json
    assert (shown["records"].startswith("postgresql://"), shown["tables"]["runs"]) == (True, 2)
    assert hive("storage", "migrate", "--to", "here", "--replace", "--write", "-w", place.root).code == 0
    assert tomllib.loads(file.read_text()) == tomllib.loads(text)
    assert hive("storage", "-w", place.root).out.startswith("records in .hive/hive.db")


@pytest.mark.parametrize("spelling", ["port", "twice", "user"])
def test_another_spelling_of_the_same_address_is_no_other_place(
    place: Workspace, server: Postgres, spelling: str
) -> None:
    """It is refused before anything waits or is written; records that are here still move there by either."""
    user = f"u{uuid.uuid4().hex[:12]}"
    server.run(f"CREATE ROLE {user} LOGIN SUPERUSER")
    folder = Path(server.socket).parent
    other = {
        "port": f"{server.url}&port={server.port}",
        "twice": server.url.replace(str(folder), f"{folder},{folder}"),
        "user": server.url.replace("hive@", f"{user}@"),
    }[spelling]
    moved(place, at(place, server))
    there = on(place, at(place, server))
    before, schema = all_records(there), server.dump(place.settings.storage.namespace)
    command = ("storage", "migrate", "-w", there.root, "--json", "--to")
    for options in ((), ("--replace",)):
        ran = hive(*command, other, *options)
        (told,) = ran.json["diagnostics"]
        assert (told["code"], "are in" in told["message"]) == ("HIVE-409", True)
        assert (told["file"], "storage setup" in told["fix"]) == (there.records.name, True)
    assert (all_records(there), server.dump(place.settings.storage.namespace)) == (before, schema)
    assert hive(*command, "here", "--replace").json["verified"]


def test_settings_that_spell_an_empty_server_otherwise_do_not_hide_the_records_here(
    place: Workspace, server: Postgres
) -> None:
    before = all_records(place)
    there = on(place, at(place, server))
    assert isinstance(there.records, RemoteDatabase)
    other = f"{server.url}&port={server.port}"
    ran = hive("storage", "migrate", "--to", other, "--write", "-w", there.root, "--json")
    assert (ran.json["source"], ran.json["copied"]) == (".hive/hive.db", True)
    trust(Workspace(place.root))
    assert all_records(Workspace(place.root)) == before
    assert hive("storage", "setup", server.url, "--yes", "-w", place.root, "--json").json["joined"]
    assert all_records(Workspace(place.root)) == before


@pytest.mark.parametrize(
    ("to", "code"),
    [
        ("mysql://x/y", "HIVE-409"),
        ("postgresql://u:secret@h/d", "HIVE-409"),
        ("here", "HIVE-409"),
        ("postgresql://nobody@127.0.0.1:9/d", "HIVE-402"),
    ],
)
def test_a_place_that_is_none_is_told(place: Workspace, to: str, code: str) -> None:
    ran = hive("storage", "migrate", "--to", to, "-w", place.root, "--json")
    assert ran.codes == {code}
    assert "secret" not in ran.out
