"""Seals on records that were moved away: a write to the old place fails with the new one.

The database itself refuses, so that a process which opened it before the move fails, too.
"""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

from hive_agents.store import audit
from hive_agents.store.copying import record_tables
from hive_agents.store.database import RecordsConnection
from hive_agents.store.postgres import MOVED
from hive_agents.store.schema import SEALS

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

_ACTS = ("INSERT", "UPDATE", "DELETE")
_FUNCTION = """
    CREATE OR REPLACE FUNCTION records_moved() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF coalesce(current_setting('hive.migrating', true), '') <> 'on' THEN
            RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = '{target}';
        END IF;
        RETURN coalesce(NEW, OLD);
    END $$
"""
_SEAL = re.compile(
    re.escape(_FUNCTION.partition("$$")[2].rpartition("$$")[0])
    .replace(re.escape("{code}"), MOVED)
    .replace(re.escape("{target}"), "(?:[^']|'')*")
)


def seal(workspace: Workspace, connection: RecordsConnection, target: str) -> None:
    """Refuse all writes to these records from now on; `target` describes the new place."""
    unseal(workspace, connection)
    quoted, tables = target.replace("'", "''"), [table.name for table in record_tables()]
    if isinstance(connection, sqlite3.Connection):
        for table in tables:
            for act in _ACTS:
                trigger = f"CREATE TRIGGER moved_{table}_{act} BEFORE {act} ON {table}"
                connection.execute(f"{trigger} BEGIN SELECT RAISE(ABORT, '{quoted}'); END")
        audit.seal_file(workspace, target)
        return
    connection.execute(_FUNCTION.format(code=MOVED, target=quoted))
    for table in (*tables, "audit_lines"):
        trigger = f"CREATE TRIGGER moved BEFORE {' OR '.join(_ACTS)} ON {table}"
        connection.execute(f"{trigger} FOR EACH ROW EXECUTE FUNCTION records_moved()")


def unseal(workspace: Workspace, connection: RecordsConnection) -> None:
    """Allow writes to these records again."""
    if not isinstance(connection, sqlite3.Connection):
        connection.execute("DROP FUNCTION IF EXISTS records_moved() CASCADE")
        return
    audit.unseal_file(workspace)
    for name, _ in connection.execute(SEALS).fetchall():
        connection.execute(f"DROP TRIGGER {name}")


def is_seal(body: str) -> bool:
    """Return whether this is the code of the trigger function that refuses writes."""
    return bool(_SEAL.fullmatch(body))


def moved_to(connection: RecordsConnection) -> str | None:
    """Return where the records were moved to, None where they are still here."""
    if isinstance(connection, sqlite3.Connection):
        match = re.search(r"RAISE\(ABORT, '(.*)'\)", next((sql for _, sql in connection.execute(SEALS)), ""))
    else:
        query = "SELECT prosrc FROM pg_proc WHERE oid = to_regproc('records_moved')"
        row = connection.execute(query).fetchone()
        match = re.search(r"MESSAGE = '(.*)';", row[0] if row else "")
    return match[1].replace("''", "'") if match else None
