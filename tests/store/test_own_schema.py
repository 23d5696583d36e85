"""A schema that a stranger had a hand in: nothing of theirs runs with this user's rights, and nothing is written."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.events import Event, EventLog, EventType
from hive_agents.host.moving import move_records
from hive_agents.runs.checkpoints import checkpointer
from hive_agents.store import audit, connected
from hive_agents.store.database import disconnect
from hive_agents.store.own_schema import require_own_schema
from hive_agents.workspace.trusted import trust
from hive_agents.workspace.workspace import RemoteDatabase
from tests.conftest import make_workspace
from tests.real_engines import Postgres, postgres
from tests.records import all_records, log_lines
from tests.sample import hive
from tests.store.lying import Lie, lying

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]

WORLD = """
    CREATE ROLE colony LOGIN;
    CREATE ROLE stranger LOGIN;
    GRANT CREATE ON DATABASE postgres TO colony, stranger;
    CREATE SCHEMA lair;
    GRANT USAGE, CREATE ON SCHEMA lair TO colony, stranger;
    CREATE TABLE lair.caught (who text);
    GRANT INSERT ON lair.caught TO PUBLIC;
    CREATE FUNCTION lair.trap() RETURNS bigint LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO lair.caught VALUES (current_user); RETURN 1; END $$;
    CREATE FUNCTION lair.trapped() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM lair.trap(); RETURN NEW; END $$;
    CREATE FUNCTION lair.trapped_text(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
        $$ BEGIN PERFORM lair.trap(); RETURN $1; END $$;
    CREATE FUNCTION lair.trapped_less(bigint, bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
        $$ BEGIN PERFORM lair.trap(); RETURN true; END $$;
    CREATE FUNCTION lair.trapped_event() RETURNS event_trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM lair.trap(); END $$;
    ALTER FUNCTION lair.trapped_event() OWNER TO stranger;
    CREATE DOMAIN lair.words AS text CHECK (lair.trap() = 1);
"""
HOSTILE = {
    "view for a table": """
        ALTER TABLE {0}.drift RENAME TO others;
        CREATE VIEW {0}.drift AS SELECT goal_type, lair.trap() AS e_value, alarmed_at FROM {0}.others""",
    "view for the version": """
        DROP TABLE {0}.schema_version; CREATE VIEW {0}.schema_version AS SELECT lair.trap()::int AS version""",
    "default": "ALTER TABLE {0}.runs ALTER steps SET DEFAULT lair.trap()",
    "default of PostgreSQL's own": """
        ALTER TABLE {0}.runs ALTER result SET DEFAULT query_to_xml('SELECT lair.trap()', true, true, '')""",
    "generated column": "ALTER TABLE {0}.runs ADD more text GENERATED ALWAYS AS (lair.trapped_text(graph)) STORED",
    "domain": "ALTER TABLE {0}.runs ALTER graph TYPE lair.words",
    "check": "ALTER TABLE {0}.runs ADD CHECK (lair.trap() = 1) NOT VALID",
    "rule": "CREATE RULE caught AS ON DELETE TO {0}.runs DO ALSO SELECT lair.trap()",
    "row security": """
        ALTER TABLE {0}.runs ENABLE ROW LEVEL SECURITY;
        CREATE POLICY caught ON {0}.runs USING (lair.trap() = 1)""",
    "trigger": "CREATE TRIGGER caught BEFORE INSERT ON {0}.runs FOR EACH ROW EXECUTE FUNCTION lair.trapped()",
    "trigger with the seal's name": """
        CREATE TRIGGER moved BEFORE INSERT ON {0}.runs FOR EACH ROW EXECUTE FUNCTION lair.trapped()""",
    "seal that does more": """
        CREATE FUNCTION {0}.records_moved() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM lair.trap(); RETURN NEW; END $$;
        CREATE TRIGGER moved BEFORE INSERT ON {0}.runs FOR EACH ROW EXECUTE FUNCTION {0}.records_moved()""",
    "index": "CREATE INDEX ON {0}.runs (lair.trapped_text(graph))",
    "part of an index": "CREATE INDEX ON {0}.runs (graph) WHERE lair.trapped_text(graph) = ''",
    "heir": "CREATE TABLE lair.{0} () INHERITS ({0}.runs)",
    "table without a log": "ALTER TABLE {0}.drift SET UNLOGGED",
    "function that fits better": """
        CREATE FUNCTION {0}.setval(regclass, integer, boolean) RETURNS bigint LANGUAGE sql AS
            $$ SELECT lair.trap() $$""",
    "count of its own": """
        CREATE FUNCTION {0}.octet_length(bigint) RETURNS integer LANGUAGE sql AS $$ SELECT lair.trap()::int $$""",
    "function of ours that does more": """
        CREATE OR REPLACE FUNCTION {0}.instr(whole text, part text) RETURNS integer LANGUAGE sql IMMUTABLE AS
            $$ SELECT strpos(lair.trapped_text(whole), part) $$""",
    "function of ours with other rights": "ALTER FUNCTION {0}.instr(text, text) SECURITY DEFINER",
    "operator": "CREATE OPERATOR {0}.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = lair.trapped_less)",
    "type": "CREATE TYPE {0}.regclass AS ENUM ('a')",
    "collation": "CREATE COLLATION {0}.\"C\" (LOCALE = 'POSIX')",
    "conversion": "CREATE DEFAULT CONVERSION {0}.c FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8",
    "owner of the schema": "ALTER SCHEMA {0} OWNER TO stranger",
    "owner of a table": "GRANT CREATE ON SCHEMA {0} TO stranger; ALTER TABLE {0}.runs OWNER TO stranger",
    "rights in the schema": "GRANT CREATE ON SCHEMA {0} TO PUBLIC",
    "rights to triggers": "GRANT TRIGGER ON {0}.runs TO stranger",
    "reference from elsewhere": """
        CREATE TABLE lair.{0} (run_id text COLLATE "C" REFERENCES {0}.runs ON DELETE CASCADE)""",
    "trigger of events": "CREATE EVENT TRIGGER {0} ON ddl_command_end EXECUTE FUNCTION lair.trapped_event()",
}
LATER = "DROP EVENT TRIGGER IF EXISTS {0}"
HARMLESS = {
    "what others look at": "CREATE VIEW {0}.report AS SELECT status, count(*) FROM {0}.runs GROUP BY 1",
    "an index of one's own": "CREATE INDEX ON {0}.runs (graph, status)",
    "who may read": "GRANT USAGE ON SCHEMA {0} TO stranger; GRANT SELECT ON ALL TABLES IN SCHEMA {0} TO stranger",
    "vectors beside them": "CREATE EXTENSION vector SCHEMA {0}",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        running.run(WORLD)
        yield running


def as_colony(place: Workspace, server: Postgres) -> RemoteDatabase:
    """A new schema of a user who isn't a superuser."""
    url = server.url.replace("hive@", "colony@")
    return RemoteDatabase(url, f"t{uuid.uuid4().hex[:12]}", place.root, is_target=True)


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    found = make_workspace(tmp_path / "ws", embedding=False, documents={})
    EventLog(found).append([Event(EventType.RUN_FAILED)])
    audit.append(found, "note", text="one\u2028line\x85only")
    return found


@pytest.fixture
def made(place: Workspace, server: Postgres) -> RemoteDatabase:
    """Its tables, those of checkpoints among them."""
    found = as_colony(place, server)
    other = Workspace(place.root)
    other.__dict__["records"] = found
    with checkpointer(other):
        pass
    disconnect(found)
    return found


def caught(server: Postgres) -> str:
    return server.run("SELECT * FROM lair.caught").strip()


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_a_stranger_left_in_a_schema_is_refused_and_never_runs(
    place: Workspace, made: RemoteDatabase, server: Postgres, hostile: str
) -> None:
    require_own_schema(made)
    server.run(HOSTILE[hostile].format(made.schema))
    server.run("DELETE FROM lair.caught")
    before, lines = all_records(place), log_lines(place)
    try:
        with pytest.raises(HiveError, match="none of this program's doing") as refused:
            move_records(place, made, replacing=True, progress=lambda *_: None)
    finally:
        server.run(LATER.format(made.schema))
    (told,) = refused.value.diagnostics
    assert (told.code, bool(told.fix)) == ("HIVE-407", True)
    assert caught(server) == ""
    assert (all_records(place), log_lines(place)) == (before, lines)


@pytest.mark.parametrize("harmless", HARMLESS)
def test_what_cannot_act_may_stand_beside_the_records(
    place: Workspace, made: RemoteDatabase, server: Postgres, harmless: str
) -> None:
    server.run(HARMLESS[harmless].format(made.schema))
    assert move_records(place, made, progress=lambda *_: None).copied
    assert not move_records(place, made, progress=lambda *_: None).copied, "a schema that is sealed is in order, too"
    server.run("DROP EXTENSION IF EXISTS vector")


def test_a_seal_of_ours_is_in_order(place: Workspace, made: RemoteDatabase) -> None:
    move_records(place, made, progress=lambda *_: None)
    there = on(place, made)
    EventLog(there).append([Event(EventType.RUN_FAILED)])
    assert move_records(there, place.database, replacing=True, progress=lambda *_: None).copied
    require_own_schema(made)


def on(place: Workspace, target: RemoteDatabase) -> Workspace:
    with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
        file.write(f'[storage]\nurl = "{target.url}"\nnamespace = "{target.schema}"\n')
    trust(Workspace(place.root))
    return Workspace(place.root)


def test_records_do_not_come_from_a_schema_that_would_act(
    place: Workspace, made: RemoteDatabase, server: Postgres
) -> None:
    """A trap that springs when rows are read."""
    move_records(place, made, progress=lambda *_: None)
    there = on(place, made)
    disconnect(made)
    server.run("DELETE FROM lair.caught;" + HOSTILE["row security"].format(made.schema))
    server.run(f"ALTER TABLE {made.schema}.runs FORCE ROW LEVEL SECURITY")
    with connected(place.database) as connection:
        before = connection.execute("SELECT count(*) FROM events").fetchone()
    ran = hive("storage", "migrate", "--to", "here", "--replace", "-w", there.root, "--json")
    assert (ran.code, ran.codes, caught(server)) == (3, {"HIVE-407"}, "")
    with connected(place.database) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == before


def test_a_log_that_was_edited_on_the_server_does_not_come_here(
    place: Workspace, made: RemoteDatabase, server: Postgres
) -> None:
    move_records(place, made, progress=lambda *_: None)
    there = on(place, made)
    audit.append(there, "note", text="two")
    audit.append(there, "note", text="three")
    whole = (place.root / audit.FILE).read_bytes()
    server.run(f"UPDATE {made.schema}.audit_lines SET line = replace(line, 'two', 'six')")
    ran = hive("storage", "migrate", "--to", "here", "--replace", "-w", there.root, "--json")
    assert (ran.code, ran.codes) == (1, {"HIVE-413"})
    assert (place.root / audit.FILE).read_bytes() == whole


BIG = [("runs", "result"), ("audit_lines", "line"), ("checkpoint_blobs", "blob")]


@pytest.mark.parametrize(("table", "column"), BIG)
def test_values_that_fill_the_memory_are_told_before_they_are_read(
    place: Workspace, made: RemoteDatabase, server: Postgres, table: str, column: str
) -> None:
    there = on(place, made)
    large = "repeat('x', 150000000)"
    columns = "run_id, thread_id, graph, input, status, started_at, result"
    rows = {
        "runs": f"({columns}) VALUES ('a', 'b', '', '', '', '', {large})",
        "audit_lines": f"VALUES (1, {large})",
        "checkpoint_blobs": f"VALUES ('a', '', 'b', 'c', 'd', convert_to({large}, 'UTF8'))",
    }
    server.run(f"INSERT INTO {made.schema}.{table} {rows[table]}")
    ran = hive("storage", "migrate", "--to", "here", "--replace", "-w", there.root, "--json")
    assert ran.codes == {"HIVE-407"}
    assert f"holds over 100 MB in {column}" in ran.json["diagnostics"][0]["message"]


EVENTS = ("seq", "seq", "id", "type")
LIES = {
    "a count that is none": Lie(("count",), lambda _: [(b"many",)]),
    "a count in words": Lie(("count",), lambda _: [(b"many",)], type=25),
    "no count": Lie(("count",), lambda _: []),
    "the same rows for ever": Lie(EVENTS, lambda row: [row] * 500),
    "more rows than were asked for": Lie(EVENTS, lambda row: [(b"%d" % n, b"%d" % n, *row[2:]) for n in range(2_000)]),
    "more rows than it counts": Lie(EVENTS, lambda row: [(b"%d" % n, b"%d" % n, *row[2:]) for n in range(7)]),
    "numbers without a limit": Lie(("seq", "seq"), lambda row: [(row[0], b"9" * 40, *row[2:])], type=1700),
    "words for numbers": Lie(EVENTS, lambda row: [row], type=25),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_a_lying_server_tells_does_not_come_here(
    place: Workspace, made: RemoteDatabase, server: Postgres, lie: str
) -> None:
    move_records(place, made, progress=lambda *_: None)
    disconnect(made)
    with connected(place.database) as connection:
        before = connection.execute("SELECT seq, id FROM events").fetchall()
    with lying(server.socket, LIES[lie]) as port:
        url = f"postgresql://colony@127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable"
        there = on(place, RemoteDatabase(url, made.schema, place.root))
        ran = hive("storage", "migrate", "--to", "here", "--replace", "-w", there.root, "--json")
        disconnect(there.records)
    assert (ran.code, ran.codes) == (3, {"HIVE-407"})
    with connected(place.database) as connection:
        assert {*connection.execute("SELECT seq, id FROM events").fetchall()} <= {*before}
