"""Copies of vectors in a real PostgreSQL: the embedded lists to the bit, sent whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.sql import SQL

from hive_agents.base.errors import EngineFault
from hive_agents.engines import find_copy
from hive_agents.engines.breaker import EngineBreaker
from hive_agents.engines.pgvector_copies import PART
from hive_agents.engines.postgres import Database
from hive_agents.index.vectors import VectorIndex
from hive_agents.workspace.settings.keys import VectorSettings
from tests.real_engines import Postgres, postgres, postgres_programs
from tests.vectors_there import database, lane, sent, switched, tables, units

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


@pytest.fixture(
    params=postgres_programs() or [None], ids=lambda found: "-".join(found.parts[-4:-1]) if found else "none"
)
def each_server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """Each of those on this machine: releases of pgvector differ in what HNSW can do."""
    with postgres(request.param) as found:
        yield found


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """One that a test may stop."""
    with postgres() as found:
        yield found


@pytest.mark.parametrize("dimensions", [3, 384, 1900])
def test_order_and_scores_are_the_embedded_ones_to_the_bit(server: Postgres, dimensions: int) -> None:
    rng = np.random.default_rng(7)
    vectors = units(3000, dimensions=dimensions)
    vectors[100:140] = vectors[7]  # ties
    vectors[200:230] = np.nextafter(vectors[8], np.float32(1))  # and what is nearly one
    vectors[300] = 0
    held = database(server, f"exact_{dimensions}")
    sent(held, "one", vectors)
    here, there = VectorIndex(vectors), lane(held, "one")
    for query in (vectors[7], vectors[8], *units(3, 9, dimensions)):
        for mask in (None, rng.random(3000) < 0.5, rng.random(3000) < 0.01, np.ones(3000, np.bool_)):
            for k in (1, 10, 100, 3000):
                ours, theirs = here.top(query, k, mask=mask), there.top(query, k, mask=mask)
                assert ours[0].tolist() == theirs[0].tolist()
                assert ours[1].tobytes() == theirs[1].tobytes()
        some = rng.integers(0, 3000, 50)
        assert here.scores(query, some).tobytes() == there.scores(query, some).tobytes()
    held.close()


def test_a_list_of_thousands_is_the_embedded_one_too(server: Postgres) -> None:
    vectors, held = units(9000), database(server, "thousands")
    sent(held, "one", vectors)
    query, mask = units(1, 5)[0], np.arange(9000) % 3 > 0
    for k in (5000, 9000):
        ours = VectorIndex(vectors).top(query, k, mask=mask)
        theirs = lane(held, "one").top(query, k, mask=mask)
        assert ours[0].tolist() == theirs[0].tolist()
        assert ours[1].tobytes() == theirs[1].tobytes()
    held.close()


def test_hnsw_finds_nearly_the_same_with_exact_scores_and_always_as_many(each_server: Postgres) -> None:
    vectors, held = units(6000), database(each_server, "graph", search="hnsw")
    sent(held, "one", vectors)
    here, there = VectorIndex(vectors), lane(held, "one")
    assert find_copy(held, "kb", "one").hnsw
    rng, found = np.random.default_rng(3), []
    for query in units(20, 11):
        for mask in (None, rng.random(6000) < 0.4, rng.random(6000) < 0.001):
            ours, theirs = here.top(query, 20, mask=mask), there.top(query, 20, mask=mask)
            assert len(theirs[0]) == len(ours[0])
            assert mask is None or mask[theirs[0]].all()
            assert here.scores(query, theirs[0]).tobytes() == theirs[1].tobytes()
            found.append(len(set(ours[0].tolist()) & set(theirs[0].tolist())) / max(1, len(ours[0])))
    assert np.mean(found) > 0.9
    held.close()


def test_a_filter_is_served_by_the_graph_where_its_scan_goes_on_behind_it(each_server: Postgres) -> None:
    """Told by the server's own count of the index's use."""
    held = database(each_server, "used", search="hnsw")
    sent(held, "one", units(6000))
    copy, query, mask = find_copy(held, "kb", "one"), units(1, 11)[0], np.arange(6000) % 2 > 0
    for some, by_graph in ((None, True), (mask, copy.iterative)):
        each_server.run("SELECT pg_stat_reset()")
        assert len(lane(held, "one").top(query, 20, mask=some)[0]) == 20
        held.rows(SQL("SELECT pg_stat_force_next_flush()").format(), {})
        used = each_server.run("SELECT idx_scan > 0 FROM pg_stat_user_indexes WHERE indexrelname LIKE '%hnsw'")
        assert used.strip() == ("t" if by_graph else "f")
    held.close()


def test_exact_search_is_exact_where_an_hnsw_index_stands_too(server: Postgres) -> None:
    vectors = units(4000)
    graph = database(server, "both", search="hnsw")
    sent(graph, "one", vectors)
    held = database(server, "both")
    query = units(1, 21)[0]
    assert lane(held, "one").top(query, 50)[0].tolist() == VectorIndex(vectors).top(query, 50)[0].tolist()
    assert sent(held, "one", vectors) == [], "nothing is sent again"
    assert not find_copy(held, "kb", "one").hnsw
    graph.close()
    held.close()


def test_a_killed_sending_goes_on_where_it_stopped_and_what_was_searched_is_searched_still(server: Postgres) -> None:
    """The second part is held up by the test, so that the kill comes between two parts on any machine."""
    held = database(server, "killed")
    before, after = units(1500, 1), units(5 * PART, 2)
    sent(held, "before", before)
    switched(held, "before")
    server.run(
        "CREATE FUNCTION killed.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF NEW.chunk = {PART} THEN PERFORM pg_advisory_xact_lock(4711); END IF; RETURN NEW; END $$;"
        "CREATE FUNCTION killed.watch() RETURNS event_trigger LANGUAGE plpgsql AS $$ DECLARE made record; BEGIN"
        " FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table'"
        " AND schema_name = 'killed' LOOP EXECUTE format("
        "'CREATE TRIGGER hold BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION killed.hold()',"
        " made.object_identity); END LOOP; END $$;"
        "CREATE EVENT TRIGGER watch ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION killed.watch();"
    )
    try:
        with psycopg.connect(server.url, autocommit=True) as holder:
            holder.execute("SELECT pg_advisory_lock(4711)")
            code = (
                "import sys; from tests import vectors_there as t;"
                "held = t.Database(None, t.VectorSettings(url=sys.argv[1], namespace='killed'));"
                f"t.sent(held, 'after', t.units({5 * PART}, 2))"
            )
            child = subprocess.Popen([sys.executable, "-c", code, server.url])
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 4711"
            while holder.execute(waiting).fetchone() == (0,):
                assert child.poll() is None
            child.send_signal(signal.SIGKILL)
            child.wait()
        with pytest.raises(EngineFault):
            find_copy(held, "kb", "after")
        query = units(1, 3)[0]
        assert lane(held, "before").top(query, 10)[0].tolist() == VectorIndex(before).top(query, 10)[0].tolist()
    finally:
        server.run("DROP EVENT TRIGGER watch")
    told = sent(held, "after", after)
    assert [done for _, done, _ in told] == [PART, 2 * PART, 3 * PART, 4 * PART], "the first part isn't sent again"
    assert lane(held, "after").top(query, 10)[0].tolist() == VectorIndex(after).top(query, 10)[0].tolist()
    switched(held, "after")
    assert server.run("SELECT count(*) FROM killed.copy").strip() == "1"
    assert len(tables(server, "killed")) == 1, "the former vectors are gone"
    held.close()


def test_vectors_that_stand_there_already_are_copied_there(server: Postgres) -> None:
    held, vectors = database(server, "carried"), units(2500)
    sent(held, "one", vectors)
    changed = np.concatenate([units(3, 8), vectors[5:]])
    told = sent(held, "two", changed)
    assert [(done, of) for _, done, of in told] == [(2495, 2498)], "three of them are new"
    query = units(1, 4)[0]
    assert lane(held, "two").top(query, 30)[1].tobytes() == VectorIndex(changed).top(query, 30)[1].tobytes()
    held.close()


def test_a_copy_that_somebody_damaged_is_mended(server: Postgres) -> None:
    held, vectors = database(server, "damaged"), units(1200)
    sent(held, "one", vectors)
    (table,) = tables(server, "damaged")
    server.run(f"DELETE FROM damaged.{table} WHERE chunk < 10")
    assert len(sent(held, "one", vectors)) == 1
    assert sent(held, "one", vectors) == []
    server.run(f"DROP TABLE damaged.{table}")
    sent(held, "one", vectors)
    query = units(1, 4)[0]
    assert lane(held, "one").top(query, 5)[0].tolist() == VectorIndex(vectors).top(query, 5)[0].tolist()
    held.close()


def test_former_states_stay_as_long_as_the_settings_say(server: Postgres) -> None:
    held = database(server, "kept", keep=1)
    for number, name in enumerate(["one", "two", "three"]):
        sent(held, name, units(40, number))
        switched(held, name)
    with pytest.raises(EngineFault):
        find_copy(held, "kb", "one")
    assert find_copy(held, "kb", "two").chunks == 40
    assert server.run("SELECT index_hash FROM kept.copy WHERE current").strip() == "three"
    held.close()


def test_a_search_finds_a_copy_that_was_made_anew_and_tells_of_one_that_is_gone(server: Postgres) -> None:
    held, vectors = database(server, "anew"), units(50)
    sent(held, "one", vectors)
    there, query = lane(held, "one"), units(1, 4)[0]
    wanted = there.top(query, 5)[0].tolist()
    server.run("DROP SCHEMA anew CASCADE")
    with pytest.raises(EngineFault, match="no complete copy"):
        there.top(query, 5)
    server.run("CREATE SCHEMA anew")
    sent(held, "zero", units(3))
    sent(held, "one", vectors)
    assert there.top(query, 5)[0].tolist() == wanted
    held.close()


def test_a_server_that_stays_silent_is_left_alone_for_a_while_and_asked_again(own_server: Postgres) -> None:
    now = [0.0]
    settings = VectorSettings(url=own_server.url, timeout_seconds=4.0)
    breaker = EngineBreaker(15.0, lambda: now[0])
    held = Database(None, settings, breaker)  # type: ignore[arg-type]
    sent(held, "one", units(50))
    there, query = lane(held, "one"), units(1, 4)[0]
    wanted = there.top(query, 5)[0].tolist()
    backends = own_server.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'hive'").split()
    for process in [str(own_server.process), *backends]:
        os.kill(int(process), signal.SIGSTOP)
    try:
        with pytest.raises(EngineFault, match="no answer within 4 s"):
            there.top(query, 5)
        with pytest.raises(EngineFault, match="isn't asked for 15 s"):
            there.top(query, 5)
    finally:
        for process in [str(own_server.process), *backends]:
            os.kill(int(process), signal.SIGCONT)
    with pytest.raises(EngineFault, match="isn't asked"):
        there.top(query, 5)
    now[0] = 16.0
    assert there.top(query, 5)[0].tolist() == wanted
    held.close()


def test_chunks_that_nobody_asked_for_are_no_result(server: Postgres) -> None:
    held = database(server, "lies")
    sent(held, "one", units(40))
    there, query = lane(held, "one"), units(1, 4)[0]
    (table,) = tables(server, "lies")
    server.run(f"UPDATE lies.{table} SET chunk = chunk + 4000")
    with pytest.raises(EngineFault, match="weren't asked for"):
        there.top(query, 5)
    held.close()


@pytest.mark.parametrize(
    "lie",
    [
        "UPDATE lies2.{table} SET embedding = '[1,2]' WHERE chunk = 3",
        "ALTER TABLE lies2.{table} DROP CONSTRAINT {table}_pkey; INSERT INTO lies2.{table} SELECT * FROM lies2.{table}",
        "ALTER TABLE lies2.{table} ALTER COLUMN chunk TYPE text",
        "ALTER TABLE lies2.{table} ALTER COLUMN embedding TYPE text",
    ],
)
def test_whoever_writes_there_gets_a_diagnostic_and_no_more(server: Postgres, lie: str) -> None:
    held = database(server, "lies2")
    server.run("DROP SCHEMA IF EXISTS lies2 CASCADE")
    sent(held, "one", units(40))
    (table,) = tables(server, "lies2")
    server.run(f"ALTER TABLE lies2.{table} ALTER COLUMN embedding TYPE vector")
    server.run(lie.format(table=table))
    query, rows = units(1, 4)[0], np.arange(40)
    with pytest.raises(EngineFault, match="HIVE-434"):
        lane(held, "one").scores(query, rows)
    held.close()


def test_two_hosts_that_send_the_same_state_at_once_make_one_copy(server: Postgres) -> None:
    helds, vectors = [database(server, "hosts") for _ in range(2)], units(3 * PART)
    told: list[Any] = []
    working = [threading.Thread(target=lambda held=held: told.append(sent(held, "one", vectors))) for held in helds]
    for one in working:
        one.start()
    for one in working:
        one.join()
    assert sorted(len(steps) for steps in told) == [0, 3], "one of them sent everything, the other nothing"
    assert server.run("SELECT count(*) FROM hosts.copy").strip() == "1"
    for held in helds:
        held.close()
