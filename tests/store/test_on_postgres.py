"""The records on a real PostgreSQL: the contracts that hold over SQLite, and what only a server can do wrong."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from hive_agents import Workspace
from hive_agents.agents import AgentRun
from hive_agents.base.errors import HiveError
from hive_agents.events import Event, EventLog, EventType
from hive_agents.runs import RunStore
from hive_agents.store import audit, connected, postgres
from hive_agents.store.copying import record_tables
from hive_agents.store.schema import MIGRATIONS
from hive_agents.workspace.credentials import CredentialStore
from hive_agents.workspace.trusted import trust
from hive_agents.workspace.workspace import RemoteDatabase
from tests.conftest import write_document
from tests.copilot.chats import PAGES, ask, make_knowledge_base
from tests.host.hosting import prepared, seams
from tests.real_engines import Postgres, postgres as started
from tests.records import log_lines, rewrite_log
from tests.sample import hive

ROOT = Path(__file__).parents[2]
CONTRACTS = (
    "tests/access/test_revocations.py",
    "tests/runs",
    "tests/approvals/test_forgeries.py",
    "tests/approvals/test_four_eyes.py",
    "tests/approvals/test_decider.py",
    "tests/approvals/test_store.py",
    "tests/events/test_durable.py",
    "tests/events/test_told.py",
    "tests/judging/test_calibration.py",
    "tests/judging/test_damaged.py",
    "tests/judging/test_drift.py",
    "tests/judging/test_stages.py",
    "tests/memory/test_conversation.py",
    "tests/host/test_dispatcher.py",
    "tests/host/test_housekeeping.py",
    "tests/judging/test_requests.py",
    "tests/judging/test_judges.py",
    "tests/store/test_ledger.py",
)
"""Tests of what records promise, whichever database keeps them."""
GATE = (
    *(
        "tests/gate/test_gaming.py",
        "tests/gate/test_integrity.py",
        "tests/gate/test_holdout.py",
    ),
    *("tests/gate/test_approved.py", "tests/gate/test_receipts.py", "tests/gate/test_gate_receipts.py"),
)
"""Tests of what the deploy gate and receipts promise, which take the log and the history for proofs."""
pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]


@pytest.mark.parametrize("tests", [CONTRACTS, GATE], ids=["contracts", "gate"])
def test_what_records_promise_holds_on_a_server(tests: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--storage", "postgres", "-p", "no:cacheprovider"]
    ran = subprocess.run([*command, "-m", "not slow", *tests], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-8000:]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with started() as running:
        yield running


@pytest.fixture
def place(server: Postgres, tmp_path: Path) -> Workspace:
    return on(prepared(tmp_path / "ws"), server.url)


def on(place: Workspace, url: str) -> Workspace:
    file = place.root / "hive.toml"
    file.write_text(file.read_text() + f'[storage]\nurl = "{url}"\nnamespace = "t{uuid.uuid4().hex[:12]}"\n')
    trust(Workspace(place.root))
    return Workspace(place.root)


def schema_of(place: Workspace) -> str:
    assert isinstance(place.records, RemoteDatabase)
    return place.records.schema


def version(place: Workspace) -> int:
    with connected(place.records) as connection:
        return int(connection.execute("SELECT version FROM schema_version").fetchone()[0])


@pytest.mark.parametrize("earlier", range(1, len(MIGRATIONS)))
def test_an_earlier_schema_moves_forward_with_its_rows(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, earlier: int
) -> None:
    monkeypatch.setattr(postgres, "MIGRATIONS", MIGRATIONS[:earlier])
    row = ("r1", "t1", "agent", "{}", "done", "2026-01-01")
    with connected(place.records) as connection:
        insert = "INSERT INTO runs (run_id, thread_id, graph, input, status, started_at) VALUES (?, ?, ?, ?, ?, ?)"
        connection.execute(insert, row)
    assert version(place) == earlier
    monkeypatch.undo()
    forget(place)
    assert (RunStore(place).get("r1").status, version(place)) == ("done", len(MIGRATIONS))
    for table in record_tables():
        with connected(place.records) as connection:
            assert table.count(connection) == (table.name == "runs")


def forget(place: Workspace) -> None:
    """Close this thread's connection, so that the next one looks at the schema."""
    from hive_agents.store.database import disconnect

    disconnect(place.records)


def test_hosts_that_start_at_once_make_the_schema_once(place: Workspace) -> None:
    begin, found = threading.Barrier(4), []

    def starts() -> None:
        begin.wait()
        found.append(version(place))

    threads = [threading.Thread(target=starts) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [len(MIGRATIONS)] * 4


def test_a_schema_of_a_newer_release_is_refused_and_left_as_it_is(place: Workspace, server: Postgres) -> None:
    version(place)
    newer = len(MIGRATIONS) + 1
    server.run(f"UPDATE {schema_of(place)}.schema_version SET version = {newer}")
    forget(place)
    ran = hive("runs", "list", "-w", place.root, "--json")
    assert (ran.codes, ran.code) == ({"HIVE-407"}, 3)
    assert server.run(f"SELECT version FROM {schema_of(place)}.schema_version").strip() == str(newer)


@pytest.mark.parametrize("line", [1, 2, 3])
def test_an_edited_line_of_the_shared_log_shows(place: Workspace, line: int) -> None:
    for number in range(3):
        audit.append(place, "test", number=number)
    lines = log_lines(place)
    lines[line - 1] = lines[line - 1].replace(f'"number": {line - 1}', '"number": 9')
    rewrite_log(place, lines)
    assert audit.verify(place).first_bad == line


def test_a_cut_end_of_the_shared_log_shows(place: Workspace) -> None:
    for number in range(3):
        audit.append(place, "test", number=number)
    rewrite_log(place, log_lines(place)[:2])
    assert (audit.verify(place).ok, audit.verify(place).first_bad) == (False, 3)


def test_a_line_of_the_shared_log_is_there_before_anybody_expects_it(place: Workspace) -> None:
    def write() -> None:
        for number in range(100):
            audit.append(place, "test", number=number)

    writer = threading.Thread(target=write)
    writer.start()
    verdicts = []
    while writer.is_alive():
        verdicts.append(audit.verify(place).ok)
    writer.join()
    assert verdicts
    assert all(verdicts)
    assert audit.verify(place).entries == 100


def failure(place: Workspace, *, fails: bool = True) -> tuple[str, str]:
    """The code and the message of what reading the runs comes to; both "" where nothing is wrong."""
    forget(place)
    ran = hive("runs", "list", "-w", place.root, "--json")
    if not fails:
        assert ran.code == 0, ran.out
        return "", ""
    (found,) = ran.json["diagnostics"]
    assert found["fix"]
    return found["code"], found["message"]


def test_doctor_tells_how_the_server_is(place: Workspace) -> None:
    checks = {check["name"]: check for check in hive("doctor", "-w", place.root, "--json").json["checks"]}
    assert checks["records"]["status"] == "ok"
    assert f"schema {len(MIGRATIONS)}, writable" in checks["records"]["message"]


def test_a_wrong_password_is_told_without_it(
    place: Workspace, server: Postgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server.run("CREATE ROLE locked LOGIN PASSWORD 'right'")
    server.require_password("locked")
    monkeypatch.setenv("PGPASSWORD", "wrong-one")
    other = on(prepared(tmp_path / "other"), server.url.replace("hive@", "locked@"))
    code, message = failure(other)
    assert (code, "password" in message, "wrong-one" in message) == ("HIVE-403", True, False)


def test_an_unknown_database_is_told(server: Postgres, tmp_path: Path) -> None:
    code, message = failure(on(prepared(tmp_path / "other"), server.url.replace("/postgres?", "/nowhere?")))
    assert (code, "nowhere" in message) == ("HIVE-403", True)


def test_a_server_that_is_away_is_told_by_doctor_and_commands(tmp_path: Path) -> None:
    other = on(prepared(tmp_path / "other"), "postgresql://hive@127.0.0.1:9/hive")
    assert failure(other)[0] == "HIVE-402"
    ran = hive("doctor", "-w", other.root, "--json")
    (check,) = [check for check in ran.json["checks"] if "records" in check["name"].split(", ")]
    assert (ran.code, check["status"], "HIVE-402" in check["message"]) == (1, "fail", True)


def test_a_user_without_rights_is_told(server: Postgres, tmp_path: Path) -> None:
    server.run("CREATE ROLE guest LOGIN")
    other = on(prepared(tmp_path / "other"), server.url.replace("hive@", "guest@"))
    assert failure(other)[0] == "HIVE-403"


def test_a_server_that_is_read_only_is_told(place: Workspace, server: Postgres) -> None:
    version(place)
    server.run("CREATE ROLE reader LOGIN SUPERUSER; ALTER ROLE reader SET default_transaction_read_only = on")
    file = place.root / "hive.toml"
    file.write_text(file.read_text().replace("hive@", "reader@"))
    trust(Workspace(place.root))
    reading = Workspace(place.root)
    assert hive("runs", "list", "-w", reading.root).code == 0
    with pytest.raises(HiveError, match="HIVE-403"):
        EventLog(reading).append([Event(EventType.RUN_FAILED)])
    (check,) = [one for one in hive("doctor", "-w", reading.root, "--json").json["checks"] if one["name"] == "records"]
    assert (check["status"], "HIVE-403" in check["message"]) == ("fail", True)


def test_a_server_without_room_for_a_connection_is_told(server: Postgres, tmp_path: Path) -> None:
    server.run("CREATE ROLE crowded LOGIN SUPERUSER CONNECTION LIMIT 0; ALTER ROLE crowded NOSUPERUSER")
    code, message = failure(on(prepared(tmp_path / "other"), server.url.replace("hive@", "crowded@")))
    assert (code, "too many connections" in message) == ("HIVE-402", True)


def named(place: Workspace, name: str, root: Path) -> Workspace:
    """A folder of its own on the same schema, whose settings give that name."""
    found = prepared(root)
    file = found.root / "hive.toml"
    line = f'workspace = "{name}"\n' if name else ""
    storage = place.settings.storage
    file.write_text(f'{file.read_text()}[storage]\nurl = "{storage.url}"\nnamespace = "{storage.namespace}"\n{line}')
    trust(Workspace(found.root))
    return Workspace(found.root)


def test_two_workspaces_in_one_schema_are_told_apart_by_their_names(place: Workspace, tmp_path: Path) -> None:
    assert failure(place, fails=False) == ("", ""), "a schema that belongs to nobody is everybody's, as before"
    first, host = named(place, "handbook", tmp_path / "first"), named(place, "handbook", tmp_path / "host")
    assert failure(first, fails=False) == failure(host, fails=False) == ("", "")
    for number, name in enumerate(("novels", "")):
        code, message = failure(named(place, name, tmp_path / str(number)))
        assert (code, "handbook" in message, name in message) == ("HIVE-430", True, True)
    assert failure(first, fails=False) == ("", "")
    checks = {check["name"]: check for check in hive("doctor", "-w", first.root, "--json").json["checks"]}
    assert "of handbook" in checks["records"]["message"]


def test_workspaces_that_come_at_once_get_one_owner(place: Workspace, tmp_path: Path) -> None:
    places = [named(place, name, tmp_path / name) for name in ("a", "b", "c", "d")]
    begin, found = threading.Barrier(4), []

    def starts(one: Workspace) -> None:
        begin.wait()
        try:
            version(one)
            found.append("own")
        except HiveError as error:
            found.append(error.diagnostics[0].code)

    threads = [threading.Thread(target=starts, args=(one,)) for one in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["HIVE-430", "HIVE-430", "HIVE-430", "own"]


def test_a_character_that_no_text_there_can_hold_is_told(place: Workspace) -> None:
    with pytest.raises(HiveError, match="NUL") as raised:
        EventLog(place).append([Event(EventType.RUN_FAILED, thread_id="a\0b")])
    assert raised.value.diagnostics[0].code == "HIVE-409"


CANARIES = {
    "document": "zanzibarrel",
    "question": "quokkafrage",
    "comment": "wombatnotiz",
    "credential": "sk-narwhalschatz",
    "prompt": "lemurauftrag",
    "input": "okapieingabe",
}
READABLE = {
    "document": {"runs", "turns", "answers"},
    "question": {"feedback", "runs", "threads", "turns"},
    "comment": {"feedback"},
    "credential": set[str](),
    "prompt": {"runs"},
    "input": {"buffers", "messages", "runs"},
}
"""In which tables each may be read, as docs/scale.md says."""


def found_in(place: Workspace, server: Postgres) -> dict[str, set[str]]:
    """The tables in which each canary can be read, as text or in bytes."""
    schema, found = schema_of(place), {name: set[str]() for name in CANARIES}
    with psycopg.connect(server.url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
        for (table,) in tables:
            for row in connection.execute(f"SELECT * FROM {schema}.{table}".encode()).fetchall():
                told = b" ".join(one if isinstance(one, bytes) else str(one).encode() for one in row)
                for name, canary in CANARIES.items():
                    if canary.encode() in told:
                        found[name].add(table)
    return found


def test_no_more_can_be_read_in_the_tables_than_the_page_says(
    place: Workspace, server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that asks for an approval, and a question with its answer and feedback, among them all six canaries."""
    chat = make_knowledge_base(tmp_path / "kb")
    page = PAGES["faqs/rotate.md"].replace("revoke the first key", f"revoke the {CANARIES['document']} key")
    write_document(chat, "faqs/rotate.md", page)
    chat = Workspace(chat.root)
    chat.index()
    file = chat.root / "hive.toml"
    file.write_text(file.read_text() + f'[storage]\nurl = "{server.url}"\nnamespace = "{schema_of(place)}"\n')
    trust(Workspace(chat.root))
    chat = Workspace(chat.root)
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", base64.urlsafe_b64encode(b"k" * 32).decode())
    CredentialStore(chat).set("key", CANARIES["credential"])
    reply = ask(chat, "dana", f"{CANARIES['question']} how do I rotate a key?")
    assert reply["results"]
    given = ("--result", "1", "--verdict", "relevant", "--comment", CANARIES["comment"])
    assert hive("feedback", "add", "--run", reply["run_id"], *given, "--as", "dana", "-w", chat.root).code == 0
    agent = place.root / "agents" / "careful.json"
    spec = json.loads(agent.read_text())
    spec["nodes"][0]["system_prompt"] = f"You are {CANARIES['prompt']}."
    agent.write_text(json.dumps(spec))
    trust(place)
    run = AgentRun.start(place, "careful", {"what": CANARIES["input"], "seconds": 0.0}, **seams(place.root))
    assert run.go()["approval_ids"]
    found = found_in(place, server)
    assert {name for name, tables in found.items() if tables} >= {"question", "comment", "prompt", "input"}
    assert {name: tables - READABLE[name] for name, tables in found.items() if tables - READABLE[name]} == {}


def test_the_page_names_each_table_with_what_is_in_it() -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8").partition("## PostgreSQL for the colony")[2]
    for table in {one for tables in READABLE.values() for one in tables} | {one.name for one in record_tables()}:
        assert f"`{table}`" in page, table
