from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hive_agents.base.errors import HiveError
from hive_agents.store import briefly, connected, database, database_errors, file_identity, transaction, undone_by
from hive_agents.store.database import connect, disconnect, together
from hive_agents.store.schema import MIGRATIONS

ROOT = Path(__file__).parents[2]
TERM = "INSERT INTO terms (term) VALUES (?)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hive.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    made = connect(path)
    yield made
    made.close()


def terms(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT term FROM terms ORDER BY term")]


def failure(path: Path) -> HiveError:
    with pytest.raises(HiveError) as raised:
        connect(path).close()
    (found,) = raised.value.diagnostics
    assert found.file == ".hive/hive.db"
    assert found.fix
    return raised.value


def test_new_database_has_the_tables_and_belongs_to_its_owner(path: Path, connection: sqlite3.Connection) -> None:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"chunks", "postings", "term_stats", "corpus_stats", "config_versions", "eval_results"} <= tables
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.execute(TERM, ("a",))
    files = [path, *path.parent.glob("hive.db-*")]
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_schema_has_a_version_and_is_made_once(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute(TERM, ("kept",))
    again = connect(path)
    assert again.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert terms(again) == ["kept"]
    again.close()


def test_a_new_file_has_the_schema_that_migrations_make(path: Path) -> None:
    path.with_name("migrated.db").touch()  # a file that is there is never replaced
    schemas = []
    for name in ("migrated.db", "made.db", "again.db"):
        made = connect(path.with_name(name))
        master = made.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid").fetchall()
        pragmas = [made.execute(f"PRAGMA {of}").fetchone() for of in ("user_version", "auto_vacuum", "journal_mode")]
        schemas.append((master, pragmas, made.execute("SELECT * FROM sqlite_sequence").fetchall()))
        made.close()
    assert len(schemas[0][0]) > len(MIGRATIONS)
    assert schemas[0] == schemas[1] == schemas[2]


def test_a_new_file_beside_the_journal_of_one_that_is_gone_has_none_of_its_rows(path: Path) -> None:
    old = connect(path)
    old.execute(TERM, ("gone",))  # in the journal
    journal = path.with_name("hive.db-wal").read_bytes()
    old.close()
    path.unlink()
    path.with_name("hive.db-wal").write_bytes(journal)
    new = connect(path)
    assert new.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert terms(new) == []
    new.close()


def test_where_a_file_cannot_be_made_at_once_it_is_migrated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_links(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no hard links on this disk")

    monkeypatch.setattr(os, "link", without_links)
    made = connect(path)
    assert made.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert [one.name for one in path.parent.glob(".hive.db.*")] == []
    made.close()


def test_older_schema_moves_forward_with_its_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = connect(path)
    old.execute(TERM, ("kept",))
    old.close()
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE later (x); INSERT INTO later VALUES (7)"))
    new = connect(path)
    assert new.execute("SELECT x FROM later").fetchall() == [(7,)]
    assert terms(new) == ["kept"]
    new.close()


def test_migration_that_fails_leaves_the_old_schema(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(path).close()
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE later (x); CREATE TABLE later (x)"))
    assert failure(path).diagnostics[0].code == "HIVE-407"
    monkeypatch.undo()
    old = connect(path)
    assert old.execute("SELECT count(*) FROM sqlite_master WHERE name = 'later'").fetchone() == (0,)
    old.close()


def test_newer_schema_asks_for_an_upgrade(path: Path) -> None:
    made = connect(path)
    made.execute("PRAGMA user_version = 99")
    made.close()
    error = failure(path)
    assert (error.diagnostics[0].code, error.exit_code) == ("HIVE-407", 3)
    assert error.diagnostics[0].fix == "upgrade hive-agents"


def test_file_that_is_no_database_is_told(path: Path) -> None:
    path.write_bytes(b"not a database, and long enough to be read as one" * 50)
    error = failure(path)
    assert (error.diagnostics[0].code, error.exit_code) == ("HIVE-407", 3)
    assert "hive index" in str(error.diagnostics[0].fix)


def test_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    error = failure(tmp_path / "gone" / "hive.db")
    assert (error.diagnostics[0].code, error.exit_code) == ("HIVE-403", 3)


def test_second_writer_fails_clearly(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    first, second = connect(path), connect(path)
    with transaction(first):
        first.execute(TERM, ("first",))
        with pytest.raises(HiveError) as raised, database_errors(path), transaction(second):
            pass
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, raised.value.exit_code) == ("HIVE-402", ".hive/hive.db", 3)
    assert found.fix
    with transaction(second):
        second.execute(TERM, ("second",))
    assert terms(first) == ["first", "second"]
    first.close()
    second.close()


def test_reader_sees_the_old_rows_while_another_writes(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute(TERM, ("old",))
    reader = connect(path)
    with transaction(connection):
        connection.execute(TERM, ("new",))
        assert terms(reader) == ["old"]
    assert terms(reader) == ["new", "old"]
    reader.close()


def test_transaction_is_all_or_nothing(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError), transaction(connection):
        connection.executemany(TERM, [("lost",), ("lost",)])
    assert terms(connection) == []
    assert not connection.in_transaction
    with transaction(connection):
        connection.execute(TERM, ("kept",))
    assert terms(connection) == ["kept"]


def test_full_disk_is_told(path: Path, connection: sqlite3.Connection) -> None:
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(HiveError) as raised, database_errors(path), transaction(connection):
        connection.execute(TERM, ("x" * 100_000,))
    assert (raised.value.diagnostics[0].code, raised.value.exit_code) == ("HIVE-403", 3)
    assert terms(connection) == []


OPENER = """
import sys
from pathlib import Path
from hive_agents.store.schema import MIGRATIONS
from hive_agents.store import briefly, connected, database_errors, transaction
from hive_agents.store.database import connect
print("ready", flush=True)
sys.stdin.readline()
connection = connect(Path(sys.argv[1]))
with transaction(connection):
    connection.execute("INSERT INTO terms (term) VALUES (?)", (sys.argv[2],))
connection.close()
"""


def test_processes_that_open_a_new_database_at_once_all_succeed(tmp_path: Path) -> None:
    for attempt in range(3):
        path = tmp_path / str(attempt) / "hive.db"
        path.parent.mkdir()
        openers = [
            subprocess.Popen(
                [sys.executable, "-c", OPENER, str(path), str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            for number in range(4)
        ]
        assert [opener.stdout.readline() for opener in openers if opener.stdout] == ["ready\n"] * 4
        for opener in openers:
            assert opener.stdin
            opener.stdin.write("\n")
            opener.stdin.flush()
        errors = [opener.communicate()[1] for opener in openers]
        assert errors == [""] * 4
        connection = connect(path)
        assert terms(connection) == ["0", "1", "2", "3"]
        connection.close()


def test_a_connection_is_kept_for_the_thread_that_opened_it(tmp_path: Path) -> None:
    path = tmp_path / "hive.db"
    with connected(path) as first:
        pass
    with connected(path) as again:
        assert again is first
        with connected(path) as inner:  # its own: the outer one may be in a transaction
            assert inner is not first
    others: list[sqlite3.Connection] = []

    def elsewhere() -> None:
        with connected(path) as connection:
            others.append(connection)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert others[0] is not first


def test_a_replaced_database_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "hive.db"
    with connected(path) as connection, transaction(connection):
        connection.execute("INSERT INTO terms VALUES (1, 'old')")
    for file in tmp_path.glob("hive.db*"):
        file.rename(file.with_name("aside" + file.name.removeprefix("hive.db")))
    with connected(path) as connection:
        assert connection.execute("SELECT count(*) FROM terms").fetchone() == (0,)


def test_a_connection_whose_work_failed_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "hive.db"
    with pytest.raises(HiveError), connected(path) as first:
        first.execute("SELECT * FROM nowhere")
    with connected(path) as fresh:
        assert fresh is not first
        fresh.execute("BEGIN IMMEDIATE")  # and left open
    with connected(path) as again:
        assert not again.in_transaction


def test_rows_can_be_asked_for_by_name_and_are_not_left_to_the_next_use(path: Path) -> None:
    with connected(path, rows=True) as connection, transaction(connection):
        connection.execute(TERM, ("a",))
        assert [row["term"] for row in connection.execute("SELECT * FROM terms")] == ["a"]
    with connected(path) as connection:
        assert connection.execute("SELECT term FROM terms").fetchone() == ("a",)


def test_a_thread_that_disconnects_opens_a_new_connection(path: Path) -> None:
    disconnect(path)  # nothing is open yet
    with connected(path) as first:
        pass
    disconnect(path)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        first.execute("SELECT 1")
    with connected(path) as again:
        assert again is not first


def test_a_file_is_told_from_another_one_under_its_name(path: Path) -> None:
    assert file_identity(path) is None
    path.write_bytes(b"")
    first = file_identity(path)
    assert first == file_identity(path)
    path.rename(path.with_name("aside"))
    path.write_bytes(b"")
    assert file_identity(path) not in (None, first)


def tables(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """(kind, name, columns) of all that a schema holds."""
    found = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    return {(kind, name, str(connection.execute(f"PRAGMA table_info({name})").fetchall())) for kind, name in found}


@pytest.mark.parametrize("version", range(len(MIGRATIONS)))
def test_every_earlier_schema_moves_forward_to_that_of_a_new_database(
    tmp_path: Path, path: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(database, "MIGRATIONS", MIGRATIONS[:version])
    old = tmp_path / "old.db"
    connect(old).close()
    monkeypatch.undo()
    moved = connect(old)
    assert moved.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert tables(moved) == tables(connection)
    moved.close()


async def test_short_work_is_done_by_the_event_loop_and_by_a_thread_where_somebody_else_writes(path: Path) -> None:
    def work() -> str:
        with connected(path) as own, transaction(own):
            own.execute(TERM, (f"term{len(threads)}",))
        threads.append(threading.current_thread())
        return "done"

    threads: list[threading.Thread] = []
    assert await briefly(work) == "done"
    other = connect(path)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(briefly(work))
    await asyncio.sleep(0.05)  # the event loop goes on
    assert len(threads) == 1
    assert not waiting.done()
    other.execute("COMMIT")
    assert await waiting == "done"
    assert [thread is threading.current_thread() for thread in threads] == [True, False]
    assert terms(other) == ["term0", "term1"]
    other.close()


async def test_a_connection_that_did_not_wait_for_another_writer_waits_the_next_time(path: Path) -> None:
    def patience() -> int:
        with connected(path) as own:
            return int(own.execute("PRAGMA busy_timeout").fetchone()[0])

    assert [await briefly(patience), patience(), await briefly(patience)] == [0, 10_000, 0]


def test_what_a_block_does_together_is_one_transaction_whoever_connects_in_it(path: Path) -> None:
    def add(term: str) -> None:
        with connected(path) as own, transaction(own, "a turn"):
            own.execute(TERM, (term,))

    def fail() -> None:
        with together(path, "a turn"):
            undone_by(lambda: undone.append("undone"))
            add("third")
            raise RuntimeError

    add("before")
    undone: list[str] = []
    with connected(path) as other:
        with together(path, "a turn"):
            undone_by(lambda: undone.append("kept"))
            add("first")
            with connected(path, rows=True) as own:
                found = own.execute("SELECT term FROM terms ORDER BY term").fetchall()
            assert [row["term"] for row in found] == ["before", "first"]
            add("second")
            assert terms(other) == ["before"]
        assert terms(other) == ["before", "first", "second"]
        with pytest.raises(RuntimeError):
            fail()
        assert terms(other) == ["before", "first", "second"]
    assert undone == ["undone"]
    undone_by(lambda: undone.append("in no block"))
    add("fourth")
    assert undone == ["undone"]


def test_a_block_whose_commit_fails_is_undone(path: Path) -> None:
    def block() -> None:
        with together(path, "a turn") as own:
            undone_by(lambda: undone.append("undone"))
            own.execute(TERM, ("one",))
            own.execute("ROLLBACK")  # as SQLite does by itself where the disk is full

    undone: list[str] = []
    with pytest.raises(HiveError):
        block()
    assert undone == ["undone"]
    with connected(path) as own:
        assert terms(own) == []


@pytest.mark.parametrize(("text", "level"), [("", 1), ('[storage]\nsynchronous = "full"\n', 2), ("[storage", 1)])
def test_a_setting_says_when_the_disk_is_waited_for(tmp_path: Path, text: str, level: int) -> None:
    (tmp_path / "hive.toml").write_text(text)
    (tmp_path / ".hive").mkdir()
    with closing(connect(tmp_path / ".hive" / "hive.db")) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
