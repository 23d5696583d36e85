"""Vectors in a real PostgreSQL: the same lists, sent whole or not at all, and nothing there but numbers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray
from psycopg.sql import SQL

from hive_agents import Workspace
from hive_agents.access import AccessLabels, AccessRules, known_principal
from hive_agents.errors import EngineFault, HiveError
from hive_agents.evaluation import load_golden
from hive_agents.retrieval import SqliteIndex, build_index, find_copy, load_collection
from hive_agents.retrieval.pgvector import PgLane
from hive_agents.retrieval.pgvector_copies import PART, Copies
from hive_agents.retrieval.postgres import REST, Database
from hive_agents.retrieval.vectors import VectorIndex
from hive_agents.settings import VectorSettings
from hive_agents.trust import trust
from tests.conftest import write_document
from tests.engines import Postgres, postgres, postgres_programs
from tests.sample import copied_sample, hive, write_config

KB = "knowledge-base"
NOBODY = "postgresql://127.0.0.1:1/hive"
DEBIAN = Path("/usr/lib/postgresql/15/bin")


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


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return copied_sample(tmp_path / "ws")


def with_vectors(place: Workspace, url: str, *, refresh: bool = False, **more: Any) -> Workspace:
    """Let its vectors be searched there; without `refresh` nothing is indexed by itself."""
    settings = place.root / "hive.toml"
    kept = settings.read_text(encoding="utf-8").partition("\n[vectors]")[0]
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    own = f"\n[vectors]\nurl = {json.dumps(url)}\n{lines}[index]\nauto_refresh = {json.dumps(refresh)}\n"
    settings.write_text(kept + own, encoding="utf-8")
    found = Workspace(place.root)
    trust(found)
    return found


def units(rows: int, seed: int = 0, dimensions: int = 48) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((rows, dimensions)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def database(server: Postgres, namespace: str, **more: Any) -> Database:
    return Database(None, VectorSettings(url=server.url, namespace=namespace, **more))  # type: ignore[arg-type]


def sent(held: Database, index_hash: str, vectors: NDArray[np.float32]) -> list[tuple[str, int, int]]:
    told: list[tuple[str, int, int]] = []
    with Copies.open(held) as copies:
        copies.complete("kb", index_hash, "model", VectorIndex(vectors), lambda *step: told.append(step))
    return told


def lane(held: Database, index_hash: str) -> PgLane:
    return PgLane(held, lambda: find_copy(held, "kb", index_hash))


def switched(held: Database, index_hash: str) -> None:
    with Copies.open(held) as copies:
        copies.switch("kb", index_hash, {index_hash})


def tables(server: Postgres, namespace: str) -> list[str]:
    """Those of vectors."""
    found = server.run(f"SELECT tablename FROM pg_tables WHERE schemaname = '{namespace}' AND tablename <> 'copy'")
    return found.split()


def fault(place: Workspace, question: str = "How do I rotate an API key?") -> str:
    with pytest.raises(EngineFault) as raised:
        place.engine().search(question)
    (found,) = raised.value.diagnostics
    assert (found.code, found.path, raised.value.exit_code) == ("HIVE-434", "vectors.url", 3)
    assert found.fix
    return found.message


# Without a server.


def test_a_server_that_is_not_there_is_a_diagnostic_and_words_are_searched_all_the_same(place: Workspace) -> None:
    write_config(place, "words", retrieval={"method": "keyword"})
    place = with_vectors(place, NOBODY)
    told = hive("query", "rotate an API key", "-w", place.root)
    assert told.code == 3
    assert "HIVE-434" in told.err
    assert "127.0.0.1:1/hive" in told.err
    assert "Traceback" not in told.err
    assert hive("query", "rotate an API key", "--config", "words", "-w", place.root).code == 0


def test_nothing_changes_here_where_nothing_can_be_sent_there(place: Workspace) -> None:
    index_hash = place.engine().index(KB).index_hash
    write_document(place, "faqs/new.md", "# New\n\nSomething new.\n")
    place = with_vectors(place, NOBODY)
    told = hive("index", "-w", place.root, "--json")
    assert (told.code, told.codes) == (3, {"HIVE-434"})
    assert SqliteIndex(place, load_collection(place, KB), engines=False).index_hash == index_hash


def test_words_are_searched_as_they_were_where_the_server_that_needs_the_changes_is_away(place: Workspace) -> None:
    write_config(place, "words", retrieval={"method": "keyword"})
    place = with_vectors(place, NOBODY, refresh=True)
    told = hive("query", "rotate an API key", "--config", "words", "-w", place.root)
    assert (told.code, told.err) == (0, "")
    write_document(place, "faqs/axolotl.md", "# The axolotl\n\nIt is fed at noon.\n")
    told = hive("query", "rotate an API key", "--config", "words", "-w", place.root)
    assert told.code == 0
    assert "warning[HIVE-434]" in told.err
    chat = hive("chat", "How do I rotate an API key?", "--as", "dana", "-w", place.root, "--json")
    assert (chat.code, chat.json["status"], bool(chat.json["results"])) == (0, "unavailable", True)
    assert "by meaning" in chat.json["notice"]


def test_nothing_is_asked_in_a_workspace_that_is_not_trusted(place: Workspace) -> None:
    place = with_vectors(place, NOBODY)
    (place.root / "hive.toml").write_text('[vectors]\nurl = "postgresql://elsewhere/hive"\n')
    told = hive("query", "rotate an API key", "-w", place.root, "--json")
    assert (told.code, told.codes) == (3, {"HIVE-431"})


def test_doctor_names_the_server_that_can_not_be_asked(place: Workspace) -> None:
    place = with_vectors(place, NOBODY)
    checks = hive("doctor", "-w", place.root, "--json").json["checks"]
    (found,) = [check for check in checks if check["name"] == "vectors"]
    assert found["status"] == "fail"
    assert "HIVE-434" in found["message"]
    assert found["fix"]


def test_a_missing_driver_is_named_with_the_extra_that_brings_it(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    place = with_vectors(place, NOBODY)
    told = hive("query", "rotate an API key", "-w", place.root, "--json")
    assert (told.code, told.codes) == (3, {"HIVE-411"})
    assert "hive-agents[postgres]" in told.json["diagnostics"][0]["fix"]


# The lane.


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# What is sent.


@pytest.mark.slow
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
                "import sys; from tests.retrieval import test_pgvector as t; from tests.engines import Postgres;"
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


@pytest.mark.slow
def test_vectors_that_stand_there_already_are_copied_there(server: Postgres) -> None:
    held, vectors = database(server, "carried"), units(2500)
    sent(held, "one", vectors)
    changed = np.concatenate([units(3, 8), vectors[5:]])
    told = sent(held, "two", changed)
    assert [(done, of) for _, done, of in told] == [(2495, 2498)], "three of them are new"
    query = units(1, 4)[0]
    assert lane(held, "two").top(query, 30)[1].tobytes() == VectorIndex(changed).top(query, 30)[1].tobytes()
    held.close()


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# A workspace over it.


@pytest.mark.slow
def test_commands_answer_as_over_the_embedded_engine(place: Workspace, server: Postgres) -> None:
    questions = [one.query for one in load_golden(place, None)][:12]
    ours = [hive("query", question, "-w", place.root, "--json").json for question in questions]
    evaluated = hive("evaluate", "v1", "-w", place.root, "--json").json
    place = with_vectors(place, server.url, namespace="commands")
    assert hive("index", "-w", place.root).code == 0
    assert [hive("query", question, "-w", place.root, "--json").json for question in questions] == ours
    over = hive("evaluate", "v1", "-w", place.root, "--json").json
    assert over["queries"] == evaluated["queries"]
    shutil.rmtree(place.state / "vectors")
    assert hive("query", questions[0], "-w", place.root, "--json").json == ours[0], "a search needs no matrix here"
    checks = hive("doctor", "-w", place.root, "--json").json["checks"]
    (told,) = [check for check in checks if check["name"] == "vectors"]
    assert told["status"] == "ok"
    assert "searched exactly" in told["message"]


@pytest.mark.slow
def test_changed_documents_are_searched_as_soon_as_indexed_by_an_engine_that_stays_open(
    place: Workspace, server: Postgres
) -> None:
    place = with_vectors(place, server.url, namespace="changed")
    place.index()
    engine = place.engine()
    write_config(place, "meaning", retrieval={"method": "vector"})
    assert engine.search("How do I rotate an API key?", "meaning").hits
    text = "# Feeding the axolotl\n\nThe axolotl of the office is fed at noon with bloodworms.\n"
    write_document(place, "faqs/axolotl.md", text)
    build_index(place)
    assert engine.search("when does the axolotl get its food?", "meaning").hits[0].doc_id == "faqs/axolotl.md"
    (place.documents / "faqs" / "axolotl.md").unlink()
    build_index(place)
    found = engine.search("when does the axolotl get its food?", "meaning")
    assert "faqs/axolotl.md" not in [hit.doc_id for hit in found.hits]
    assert server.run("SELECT count(*) FROM changed.copy").strip() == "1"


@pytest.mark.slow
def test_the_database_holds_numbers_and_no_text_of_a_document_nor_its_name(place: Workspace, server: Postgres) -> None:
    """The dump's every word is one of the schema, the collection's name, the model's or a digest."""
    place = with_vectors(place, server.url, namespace="dumped")
    write_document(place, "faqs/secret-merger.md", "# Merger\n\nThe password of the vault is xyzzy-plugh-hunter2.\n")
    place.index()
    place.engine().search("What is the password of the vault?")
    dump = server.dump()
    ours = "\n".join(line for line in dump.splitlines() if re.match(r"INSERT INTO dumped\.", line))
    assert len(ours) > 100_000
    assert set(re.findall(r"INSERT INTO dumped\.(\w+)", ours)) == {"copy", *tables(server, "dumped")}
    index = SqliteIndex(place, load_collection(place, KB), engines=False)
    allowed = {KB, *tables(server, "dumped"), index.index_hash, str(index.embedding_model), "true", "false"}
    for text in re.findall(r"'([^']*)'", ours):
        plain = re.fullmatch(r"\[[-0-9.,e]*\]|\\x[0-9a-f]{32}|\d{4}-\d\d-\d\d [\d:.+-]+", text)
        assert plain or text in allowed, text
    assert "hunter2" not in dump
    for doc_id, title, _ in index.documents():
        assert doc_id not in dump
        assert title not in dump


@pytest.mark.slow
def test_no_question_and_no_text_is_sent_to_the_server(place: Workspace) -> None:
    """It logs every statement with its values."""
    with postgres() as own:
        own.run("ALTER SYSTEM SET log_statement = 'all'; SELECT pg_reload_conf();")
        own.run("ALTER SYSTEM SET log_parameter_max_length = -1; ALTER SYSTEM SET log_min_duration_statement = 0;")
        own.run("SELECT pg_reload_conf()")
        place = with_vectors(place, own.url)
        place.index()
        place.engine().search("Where did the quetzalcoatl hide the protocol?")
        log = own.log()
        assert "embedding <#>" in log
        assert "quetzalcoatl" not in log
        assert "faqs/" not in log


@pytest.mark.slow
@pytest.mark.parametrize("search", ["exact", "hnsw"])
def test_a_reader_gets_what_an_index_without_hidden_documents_gives(
    place: Workspace, server: Postgres, search: str
) -> None:
    """Lists, scores and how many there are: nothing differs by what a reader may not see."""
    place = with_vectors(place, server.url, namespace=f"leaks_{search}", search=search)
    place.index()
    index = place.engine().index(KB)
    labels = [(doc_id, AccessLabels.of(front)) for doc_id, front in index.front_matter()]
    visible = AccessRules.load(place).visible(known_principal(place, "guest"), labels)
    hidden = {doc_id for doc_id, shown in zip(index.doc_ids(), visible.tolist(), strict=True) if not shown}
    assert hidden
    alone = Workspace(shutil.copytree(place.root, place.root.parent / "alone", symlinks=True))
    for doc_id in hidden:
        (alone.documents / doc_id).unlink()
    (alone.root / "hive.toml").write_text("")
    alone.index()
    scope, without = index.within(visible), alone.engine().index(KB)
    mask = scope.select({})
    for one in load_golden(place, None):
        ours, theirs = without.vector([one.query], 100, None)[0], scope.vector([one.query], 100, mask)[0]
        assert theirs.chunks.tolist() == ours.chunks.tolist()
        assert theirs.scores.tobytes() == ours.scores.tobytes()
        assert not set(scope.documents_of(theirs.chunks)) & hidden


@pytest.mark.slow
def test_a_chat_never_shows_what_its_reader_may_not_view(place: Workspace, server: Postgres) -> None:
    place = with_vectors(place, server.url, namespace="chat")
    place.index()
    index = place.engine().index(KB)
    labels = [(doc_id, AccessLabels.of(front)) for doc_id, front in index.front_matter()]
    visible = AccessRules.load(place).visible(known_principal(place, "guest"), labels)
    hidden = {doc_id for doc_id, shown in zip(index.doc_ids(), visible.tolist(), strict=True) if not shown}
    rows = dict(zip(index.doc_ids(), (title for _, title, _ in index.documents()), strict=True))
    for doc_id in sorted(hidden)[:6]:
        told = hive("chat", rows[doc_id], "--as", "guest", "-w", place.root, "--json")
        assert told.code in (0, 1), told.err
        assert doc_id not in told.out + told.err


@pytest.mark.slow
def test_a_look_before_each_search_asks_the_server_nothing_until_something_changed(
    place: Workspace, server: Postgres
) -> None:
    place = with_vectors(place, server.url, namespace="looks", refresh=True)
    place.index()
    write_config(place, "words", retrieval={"method": "keyword"})
    server.run("DROP TABLE looks.copy")
    assert hive("query", "rotate an API key", "--config", "words", "-w", place.root).code == 0
    assert server.run("SELECT to_regclass('looks.copy')").strip() == "", "nobody made it again"
    write_document(place, "faqs/axolotl.md", "# The axolotl\n\nIt is fed at noon.\n")
    assert hive("query", "when is the axolotl fed?", "-w", place.root, "--json").json["hits"]
    assert server.run("SELECT count(*) FROM looks.copy WHERE complete AND current").strip() == "1"


@pytest.mark.slow
def test_a_generation_that_waits_is_measured_over_its_own_copy_and_takes_over_with_it(
    place: Workspace, server: Postgres
) -> None:
    place = with_vectors(place, server.url, namespace="waits")
    place.index()
    write_config(place, "v2", description="the same once more")
    assert hive("deploy", "v2", "--allow-inconclusive", "-w", place.root).code == 0
    path = place.root / "collections" / f"{KB}.json"
    chunking = {"strategy": "by_heading", "max_tokens": 128, "heading_level": 2}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chunking": chunking}))
    build_index(place)
    assert server.run("SELECT count(*) FROM waits.copy WHERE complete").strip() == "2"
    assert place.engine().search("How do I rotate an API key?").hits
    told = hive("index", "--accept", "--reason", "smaller chunks", "-w", place.root)
    assert told.code == 0, told.err
    assert server.run("SELECT count(*) FROM waits.copy WHERE complete AND current").strip() == "1"
    assert len(tables(server, "waits")) == 1
    assert place.engine().search("How do I rotate an API key?").hits


# What fails.


@pytest.mark.slow
def test_a_server_that_is_stopped_and_started_again_costs_only_what_is_asked_meanwhile(
    place: Workspace, own_server: Postgres
) -> None:
    place = with_vectors(place, own_server.url)
    place.index()
    engine = place.engine()
    wanted = engine.search("How do I rotate an API key?")
    own_server.stop()
    try:
        with pytest.raises(EngineFault):
            engine.search("How do I rotate an API key?")
        told = hive("chat", "How do I rotate an API key?", "--as", "dana", "-w", place.root, "--json").json
        assert (told["status"], bool(told["results"])) == ("unavailable", True)
        assert "by meaning" in told["notice"]
    finally:
        own_server.start()
    assert engine.search("How do I rotate an API key?") == wanted


@pytest.mark.slow
def test_a_connection_that_was_cut_while_idle_is_replaced(place: Workspace, server: Postgres) -> None:
    place = with_vectors(place, server.url, namespace="cut")
    place.index()
    engine = place.engine()
    wanted = engine.search("How do I rotate an API key?")
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hive'")
    assert engine.search("How do I rotate an API key?") == wanted


@pytest.mark.slow
def test_a_server_that_answers_nothing_any_more_is_waited_for_no_longer_than_the_settings_say(
    place: Workspace, server: Postgres
) -> None:
    place = with_vectors(place, server.url, namespace="mute", timeout_seconds=1.0)
    place.index()
    engine = place.engine()
    assert engine.search("How do I rotate an API key?").hits
    backends = server.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'hive'").split()
    for process in [str(server.process), *backends]:
        os.kill(int(process), signal.SIGSTOP)
    try:
        with pytest.raises(EngineFault, match="no answer within 1 s"):
            engine.search("How do I rotate an API key?")
    finally:
        for process in [str(server.process), *backends]:
            os.kill(int(process), signal.SIGCONT)
    assert engine.search("How do I rotate an API key?").hits


@pytest.mark.slow
def test_a_server_that_stays_silent_is_left_alone_for_a_while_and_asked_again(own_server: Postgres) -> None:
    now = [0.0]
    settings = VectorSettings(url=own_server.url, timeout_seconds=0.5)
    held = Database(None, settings, lambda: now[0])  # type: ignore[arg-type]
    sent(held, "one", units(50))
    there, query = lane(held, "one"), units(1, 4)[0]
    wanted = there.top(query, 5)[0].tolist()
    backends = own_server.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'hive'").split()
    for process in [str(own_server.process), *backends]:
        os.kill(int(process), signal.SIGSTOP)
    try:
        for _ in range(2):
            with pytest.raises(EngineFault):
                there.top(query, 5)
        with pytest.raises(EngineFault, match="isn't asked for 15 s"):
            there.top(query, 5)
    finally:
        for process in [str(own_server.process), *backends]:
            os.kill(int(process), signal.SIGCONT)
    with pytest.raises(EngineFault, match="isn't asked"):
        there.top(query, 5)
    now[0] = REST + 1
    assert there.top(query, 5)[0].tolist() == wanted
    held.close()


@pytest.mark.slow
def test_a_server_killed_in_mid_index_leaves_all_as_it_was(place: Workspace, own_server: Postgres) -> None:
    place = with_vectors(place, own_server.url)
    place.index()
    index_hash = place.engine().index(KB).index_hash
    for number in range(30):
        write_document(place, f"faqs/new{number}.md", f"# New {number}\n\nSomething new of the kind {number}.\n")
    own_server.run(
        "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$;"
        "CREATE FUNCTION watch() RETURNS event_trigger LANGUAGE plpgsql AS $$ DECLARE made record; BEGIN"
        " FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table'"
        " AND object_identity LIKE 'hive_vectors.%' LOOP"
        " EXECUTE format('CREATE TRIGGER hold BEFORE INSERT ON %s EXECUTE FUNCTION public.hold()',"
        " made.object_identity); END LOOP; END $$;"
        "CREATE EVENT TRIGGER watch ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION watch();"
    )
    told: list[Any] = []
    with psycopg.connect(own_server.url, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(4711)")
        working = threading.Thread(target=lambda: told.append(_failed(place)))
        working.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 4711"
        while holder.execute(waiting).fetchone() == (0,):
            assert working.is_alive()
        own_server.stop()
    working.join()
    own_server.start()
    assert [found.code for found in told[0].diagnostics] == ["HIVE-434"]
    own_server.run("DROP EVENT TRIGGER watch")
    assert place.engine().index(KB).index_hash == index_hash
    assert place.engine().search("How do I rotate an API key?").hits
    assert place.index().added == 30
    assert place.engine().index(KB).index_hash != index_hash
    assert own_server.run("SELECT count(*) FROM hive_vectors.copy WHERE complete").strip() == "1"


def _failed(place: Workspace) -> HiveError:
    with pytest.raises(HiveError) as raised:
        build_index(place)
    return raised.value


@pytest.mark.slow
def test_chunks_that_nobody_asked_for_are_no_result(server: Postgres) -> None:
    held = database(server, "lies")
    sent(held, "one", units(40))
    there, query = lane(held, "one"), units(1, 4)[0]
    (table,) = tables(server, "lies")
    server.run(f"UPDATE lies.{table} SET chunk = chunk + 4000")
    with pytest.raises(EngineFault, match="weren't asked for"):
        there.top(query, 5)
    held.close()


@pytest.mark.slow
def test_what_the_server_refuses_is_told_with_what_to_do(place: Workspace, server: Postgres) -> None:
    place = with_vectors(place, server.url.replace("/postgres?", "/nothing?"))
    assert 'database "nothing" does not exist' in fault(place)
    server.run("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN;")
    place = with_vectors(place, server.url.replace("hive@", "reader@"), namespace="refused")
    told = hive("index", "-w", place.root, "--json")
    assert (told.code, told.codes) == (3, {"HIVE-434"})
    assert "create schemas" in told.json["diagnostics"][0]["fix"]
    place = with_vectors(place, server.url, namespace="never_sent")
    assert "no complete copy" in fault(place)


@pytest.mark.slow
def test_a_password_comes_from_its_reference_and_stands_in_no_message(
    place: Workspace, own_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_server.run("CREATE ROLE dana LOGIN SUPERUSER PASSWORD 'hunter2'")
    own_server.require_password("dana")
    url = own_server.url.replace("hive@", "dana@")
    monkeypatch.setenv("VECTORS_PASSWORD", "hunter2")
    place = with_vectors(place, url, password_ref="env:VECTORS_PASSWORD")
    place.index()
    assert place.engine().search("How do I rotate an API key?").hits
    monkeypatch.setenv("VECTORS_PASSWORD", "hunter3")
    place = with_vectors(place, url, password_ref="env:VECTORS_PASSWORD", timeout_seconds=9.0)
    said = fault(place)
    assert "password authentication failed" in said
    assert "hunter" not in said


@pytest.mark.slow
@pytest.mark.skipif(not DEBIAN.is_dir(), reason="no PostgreSQL 15 of Debian on this machine")
def test_a_server_without_pgvector_is_told_so(place: Workspace) -> None:
    if Path("/usr/share/postgresql/15/extension/vector.control").exists():
        pytest.skip("this PostgreSQL has pgvector")
    folder = Path(tempfile.mkdtemp(prefix="hive-pg-", dir="/tmp"))
    bare = Postgres(DEBIAN, folder)
    try:
        bare.start()
        place = with_vectors(place, bare.url)
        told = hive("index", "-w", place.root, "--json")
        assert (told.code, told.codes) == (3, {"HIVE-434"})
        assert "pgvector" in told.json["diagnostics"][0]["fix"]
    finally:
        bare.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
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
