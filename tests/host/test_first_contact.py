"""What an operator meets first on a real PostgreSQL: wrong orders, missing rights and addresses that are none."""

from __future__ import annotations

import asyncio
import io
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from hive_agents import Workspace
from hive_agents.agents import AgentRun
from hive_agents.base.errors import HiveError
from hive_agents.engines.pgvector_copies import Copies
from hive_agents.engines.postgres import open_database
from hive_agents.runs import RunStore, at_work
from hive_agents.store import audit
from hive_agents.workspace import RemoteDatabase
from hive_agents.workspace.trusted import trust
from tests.host.hosting import HostProcess, prepared, queued, seams, until
from tests.ports import lasting_port
from tests.real_engines import Postgres
from tests.records import all_records
from tests.sample import hive

PASSWORD = "a word that stays secret"
pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """A workspace with a run that is done."""
    found = prepared(tmp_path / "ws")
    AgentRun.resume(found, queued(found), **seams(found.root)).go()
    return found


def with_settings(place: Workspace, text: str) -> Workspace:
    file = place.root / "hive.toml"
    file.write_text(file.read_text() + text)
    trust(Workspace(place.root))
    return Workspace(place.root)


def named(prefix: str) -> str:
    return f"{prefix}{uuid.uuid4().hex[:12]}"


def test_settings_that_name_a_server_before_the_move_say_so_and_the_move_goes_on(
    place: Workspace, server: Postgres
) -> None:
    """Nothing is made there, so that no second history begins; the settings need not be taken back."""
    before, namespace = all_records(place), named("t")
    there = with_settings(place, f'[storage]\nurl = "{server.url}"\nnamespace = "{namespace}"\n')
    for command in (["runs"], ["storage"], ["approvals", "list"]):
        told = hive(*command, "-w", there.root, "--json")
        assert (told.codes, "hive storage setup" in told.out) == ({"HIVE-403"}, True)
    assert server.run(f"SELECT to_regnamespace('{namespace}')").strip() == ""
    assert "hive storage setup" in hive("doctor", "-w", there.root).out
    moved = hive("storage", "migrate", "--to", server.url, "-w", there.root, "--json").json
    assert (moved["copied"], moved["source"]) == (True, ".hive/hive.db")
    assert all_records(Workspace(place.root)) == before
    assert len(hive("runs", "-w", there.root, "--json").json["runs"]) == 1
    assert hive("storage", "migrate", "--to", server.url, "-w", there.root, "--json").codes == {"HIVE-409"}


def test_a_host_with_own_records_replaces_no_shared_ones(place: Workspace, server: Postgres, tmp_path: Path) -> None:
    namespace = named("t")
    settings = f'[storage]\nurl = "{server.url}"\nnamespace = "{namespace}"\n'
    shared = with_settings(prepared(tmp_path / "shared"), settings)
    run = queued(shared)
    other = with_settings(place, settings)
    ran = hive("storage", "migrate", "--to", server.url, "--replace", "-w", other.root, "--json")
    assert ran.codes == {"HIVE-409"}
    assert [row.run_id for row in RunStore(shared).list()] == [run]


def test_only_what_is_missing_is_asked_of_the_databases_owner(place: Workspace, server: Postgres) -> None:
    """A user without CREATE on the database: a schema of its own is enough."""
    user, namespace = named("u"), named("t")
    server.run(f"CREATE ROLE {user} LOGIN")
    address = server.url.replace("hive@", f"{user}@")
    place = with_settings(place, f'[storage]\nnamespace = "{namespace}"\n')
    command = ("storage", "migrate", "--to", address, "-w", place.root, "--json")
    (told,) = hive(*command).json["diagnostics"]
    assert (told["code"], told["fix"].partition(": ")[2]) == (
        "HIVE-403",
        f'CREATE SCHEMA "{namespace}" AUTHORIZATION "{user}";',
    )
    server.run(told["fix"].partition(": ")[2])
    assert hive(*command).json["verified"]


def test_a_standby_says_what_to_name_instead(place: Workspace, server: Postgres) -> None:
    user = named("u")
    server.run(f"CREATE ROLE {user} LOGIN; ALTER ROLE {user} SET default_transaction_read_only = on")
    ran = hive("storage", "migrate", "--to", server.url.replace("hive@", f"{user}@"), "-w", place.root, "--json")
    assert (ran.codes, "target_session_attrs=read-write" in ran.out) == ({"HIVE-403"}, True)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://hive@db:99999/x",
        "postgresql://hive@[::1/x",
        "postgresql://hive@h1,h2:0/x",
        "postgresql://hive@%zz/x",
        "postgresql://hive@127.0.0.1/x?nonsense=1",
        "postgresql://hive@127.0.0.1:9/x?sslmode=foo",
    ],
)
def test_an_address_that_is_none_is_no_damaged_database(place: Workspace, address: str) -> None:
    ran = hive("storage", "migrate", "--to", address, "-w", place.root, "--json")
    assert ran.codes == {"HIVE-409"}
    assert "address" in ran.out or "postgresql://user@host:5432/database" in ran.out


def test_nothing_is_moved_under_a_host_that_only_answers(place: Workspace, server: Postgres) -> None:
    process = HostProcess(place)
    try:
        process.up()
        while not at_work(place):
            assert process.process.poll() is None
        ran = hive("storage", "migrate", "--to", server.url, "-w", place.root, "--json")
        (told,) = ran.json["diagnostics"]
        assert told["code"] == "HIVE-402"
        assert f"1 living host on this machine (process {process.process.pid})" in told["message"]
    finally:
        process.end(signal.SIGTERM)
    assert hive("storage", "migrate", "--to", server.url, "-w", place.root, "--json").json["verified"]


def test_records_that_a_host_elsewhere_has_open_are_not_moved_from_under_it(place: Workspace, server: Postgres) -> None:
    place = with_settings(place, f'[storage]\nnamespace = "{named("n")}"\n')
    assert hive("storage", "migrate", "--to", server.url, "--write", "-w", place.root).code == 0
    trust(Workspace(place.root))
    elsewhere = place.root.with_name("elsewhere")
    shutil.copytree(place.root, elsewhere, ignore=shutil.ignore_patterns("holders"))
    other = Workspace(elsewhere)
    trust(other)
    process = HostProcess(other)
    try:
        process.up()
        clients = "SELECT application_name FROM pg_stat_activity"
        while f"{process.process.pid}@" not in server.run(clients):
            assert process.process.poll() is None
        ran = hive("storage", "migrate", "--to", "here", "--replace", "-w", place.root, "--json")
        (told,) = ran.json["diagnostics"]
        assert told["code"] == "HIVE-402"
        assert f"{process.process.pid}@{platform.node()}" in told["message"]
    finally:
        process.end(signal.SIGTERM)
    assert hive("storage", "migrate", "--to", "here", "--replace", "-w", place.root, "--json").json["verified"]


def test_vectors_name_what_their_user_lacks(place: Workspace, server: Postgres) -> None:
    """The extension first, which only a superuser may install here, then the schema."""
    user, database, namespace = named("u"), named("d"), named("v")
    server.run(f"CREATE ROLE {user} LOGIN;")
    server.run(f"CREATE DATABASE {database};")
    address = server.url.replace("hive@/postgres", f"{user}@/{database}")
    place = with_settings(place, f'[vectors]\nurl = "{address}"\nnamespace = "{namespace}"\n')

    def fix() -> str:
        with pytest.raises(HiveError) as raised, Copies.open(open_database(place)) as copies:
            copies._prepare()
        (told,) = raised.value.diagnostics
        return str(told.fix).partition(": ")[2]

    assert fix() == "CREATE EXTENSION vector;"
    server.run(f"\\connect {database}\nCREATE EXTENSION vector;")
    assert fix() == f'CREATE SCHEMA "{namespace}" AUTHORIZATION "{user}";'
    server.run(f"\\connect {database}\n{fix()}")
    with Copies.open(open_database(place)) as copies:
        copies._prepare()


@pytest.fixture
def password(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a user who has a password and a schema, and nothing else; this host can keep secrets."""
    user = named("u")
    server.run(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'; CREATE SCHEMA {user} AUTHORIZATION {user}")
    server.require_password(user)
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", Fernet.generate_key().decode())
    return server.url.replace("hive@", f"{user}@")


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Standard input with this text."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_setup_says_the_next_step_until_the_records_are_there(
    place: Workspace, password: str, server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a password, without agreement, and whole: verified, written, trusted, and no secret in hive.toml."""
    given(monkeypatch, "")
    user, before = password.partition("//")[2].partition("@")[0], all_records(place)
    command = ["storage", "setup", password, "--namespace", user, "-w", place.root, "--json"]
    text = (place.root / "hive.toml").read_text()
    (told,) = hive(*command).json["diagnostics"]
    assert (told["code"], "--password-stdin" in told["fix"]) == ("HIVE-403", True)
    given(monkeypatch, PASSWORD + "\n")
    (told,) = hive(*command, "--password-stdin").json["diagnostics"]
    assert (told["code"], "--yes" in told["fix"]) == ("HIVE-409", True)
    assert (place.root / "hive.toml").read_text() == text
    ran = hive(*command, "--password-ref", "credential:records", "--yes")
    assert {name: ran.json[name] for name in ("user", "joined", "verified")} == {
        "user": user,
        "joined": False,
        "verified": True,
    }
    storage = tomllib.loads((place.root / "hive.toml").read_text())["storage"]
    assert storage == {"url": password, "password_ref": "credential:records", "namespace": user}
    assert hive("trust", "--diff", "-w", place.root).code == 0
    there = Workspace(place.root)
    assert all_records(there) == before
    assert isinstance(there.records, RemoteDatabase)
    assert hive(*command, "--yes").json["joined"], "again, it changes nothing"
    assert tomllib.loads((place.root / "hive.toml").read_text())["storage"] == storage
    for file in place.root.rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes(), file
    monkeypatch.setenv("PATH", f"{server.programs}:{os.defpath}")
    assert hive("backup", place.root.parent / "whole.tar.gz", "-w", place.root).code == 0, "by the password kept"


def test_the_next_host_joins_with_the_same_command(place: Workspace, server: Postgres, tmp_path: Path) -> None:
    """It may have a copy of the audit log's file, as of all others; records of its own are not given up."""
    audit.append(place, "note", text="before")
    namespace = named("t")
    command = ["storage", "setup", server.url, "--namespace", namespace, "--yes", "--json"]
    assert not hive(*command, "-w", place.root).json["joined"]
    second = prepared(tmp_path / "second")
    shutil.copytree(place.root / "audit", second.root / "audit")
    assert hive(*command, "-w", second.root).json["joined"]
    assert all_records(Workspace(second.root)) == all_records(Workspace(place.root))
    third = prepared(tmp_path / "third")
    AgentRun.resume(third, queued(third), **seams(third.root)).go()
    assert hive(*command, "-w", third.root).codes == {"HIVE-409"}
    assert "storage" not in tomllib.loads((third.root / "hive.toml").read_text())


def test_setup_mends_settings_that_were_pasted_before_the_move(place: Workspace, server: Postgres) -> None:
    before, namespace = all_records(place), named("t")
    with_settings(place, f'[storage]\nurl = "{server.url}"\nnamespace = "{namespace}"\n')
    assert not hive("storage", "setup", server.url, "--yes", "-w", place.root, "--json").json["joined"]
    assert all_records(Workspace(place.root)) == before


def test_a_user_or_a_database_that_is_missing_is_told_with_what_makes_it(place: Workspace, server: Postgres) -> None:
    command = ("storage", "setup", "--yes", "-w", place.root, "--json")
    user, database = named("u"), named("d")
    address = server.url.replace("hive@/postgres", f"{user}@/{database}")
    (told,) = hive(*command, address).json["diagnostics"]
    assert (told["code"], f'CREATE ROLE "{user}" LOGIN' in told["fix"]) == ("HIVE-403", True)
    server.run(f"CREATE ROLE {user} LOGIN")
    (told,) = hive(*command, address).json["diagnostics"]
    makes = told["fix"].partition(": ")[2]
    assert (told["code"], makes) == ("HIVE-403", f'CREATE DATABASE "{database}" OWNER "{user}";')
    server.run(makes)
    assert hive(*command, address).json["verified"]


@contextmanager
def pooling(server: Postgres, tmp_path: Path, mode: str) -> Iterator[int]:
    """The port of a PgBouncer before the server."""
    if shutil.which("pgbouncer") is None:
        pytest.skip("PgBouncer is not installed")
    port, settings = lasting_port(), tmp_path / "pooler.ini"
    settings.write_text(
        f"[databases]\npostgres = host={Path(server.socket).parent} user=hive\n[pgbouncer]\nauth_type = any\n"
        f"pool_mode = {mode}\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
    )
    run_as = ["-u", "nobody"] if os.geteuid() == 0 else []
    process = subprocess.Popen(["pgbouncer", "-q", *run_as, str(settings)])
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            assert process.poll() is None
            time.sleep(0.05)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_keeps_no_session_is_refused_before_anything_is_made(
    place: Workspace, server: Postgres, tmp_path: Path, mode: str
) -> None:
    """A schema's name, locks and notices belong to a session: another client's statements would get them."""
    before, namespace = all_records(place), named("t")
    with pooling(server, tmp_path, mode) as port:
        command = ("storage", "setup", f"postgresql://hive@127.0.0.1:{port}/postgres", "--namespace", namespace)
        (told,) = hive(*command, "--yes", "-w", place.root, "--json").json["diagnostics"]
    assert (told["code"], "pool_mode = session" in told["fix"]) == ("HIVE-403", True)
    assert server.run(f"SELECT to_regnamespace('{namespace}')").strip() == ""
    assert all_records(Workspace(place.root)) == before


@pytest.fixture
def pooler(server: Postgres, tmp_path: Path) -> Iterator[int]:
    with pooling(server, tmp_path, "session") as port:
        yield port


def test_a_pooler_in_session_mode_and_a_server_that_is_down_are_no_hindrance(
    place: Workspace, pooler: int, server: Postgres
) -> None:
    """A host works through the one of two addresses that answers, and wakes for what is queued elsewhere."""
    hosts = f"127.0.0.1:{lasting_port()},127.0.0.1:{pooler}"
    address = f"postgresql://hive@{hosts}/postgres?target_session_attrs=read-write"
    before = all_records(place)
    command = ("storage", "setup", address, "--namespace", named("t"), "--yes", "-w", place.root, "--json")
    assert hive(*command).json["verified"]
    there = Workspace(place.root)
    assert all_records(there) == before
    direct = ("storage", "migrate", "--to", server.url, "-w", place.root, "--json")
    assert hive(*direct).codes == {"HIVE-409"}
    assert all_records(there) == before
    again = [word.replace(hosts, f"127.0.0.1:{pooler}") for word in map(str, command)]
    assert hive(*again).json["joined"], "another address of the same records"
    there = Workspace(place.root)
    assert isinstance(there.records, RemoteDatabase)
    assert f"@127.0.0.1:{pooler}/" in there.records.url
    assert all_records(there) == before
    process = HostProcess(there)
    process.up()
    try:
        asyncio.run(until(there, "done", queued(there), queued(there)))
    finally:
        assert process.end(signal.SIGTERM) == 0
