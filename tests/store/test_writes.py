"""Whoever looks for writes hears of each, by any connection, and of nothing else."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents.base.errors import HiveError
from hive_agents.store import Writes
from hive_agents.store.database import connect


def write(path: Path) -> None:
    connection = connect(path)
    connection.execute("CREATE TABLE IF NOT EXISTS seen (n)")
    connection.execute("INSERT INTO seen VALUES (1)")
    connection.close()


def test_a_write_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "hive.db"
    write(path)
    writes = Writes(path)
    assert writes.since_last_look()
    assert not writes.since_last_look()
    write(path)
    assert writes.since_last_look()
    assert not writes.since_last_look()
    sqlite3.connect(path).execute("SELECT count(*) FROM seen").fetchone()
    assert not writes.since_last_look()
    writes.close()


def test_a_write_of_another_process_is_told(tmp_path: Path) -> None:
    path = tmp_path / "hive.db"
    write(path)
    writes = Writes(path)
    writes.since_last_look()
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('INSERT INTO seen VALUES (2)'); c.commit()"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert writes.since_last_look()
    assert not writes.since_last_look()
    writes.close()


def test_who_is_writing_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "hive.db"
    write(path)
    writes = Writes(path)
    writes.since_last_look()
    writer = connect(path)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO seen VALUES (3)")
    assert not writes.since_last_look()
    writer.execute("COMMIT")
    assert writes.since_last_look()
    writer.close()
    writes.close()


def test_a_database_that_was_replaced_is_looked_at_anew(tmp_path: Path) -> None:
    path, other = tmp_path / "hive.db", tmp_path / "other.db"
    write(path)
    writes = Writes(path)
    writes.since_last_look()
    write(other)
    shutil.move(other, path)
    assert writes.since_last_look()
    assert not writes.since_last_look()
    writes.close()
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(HiveError):
        writes.since_last_look()
