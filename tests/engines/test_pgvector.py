"""A workspace whose vectors are in PostgreSQL: answers as ever, what stands there, and what fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hive_agents import Workspace
from hive_agents.access import AccessLabels, AccessRules, known_principal
from hive_agents.base.errors import EngineFault, HiveError
from hive_agents.documents import load_collection
from hive_agents.evaluation import load_golden
from hive_agents.index import SqliteIndex
from hive_agents.ranking import build_index
from hive_agents.workspace.trusted import trust
from tests.conftest import write_document
from tests.real_engines import Postgres, postgres
from tests.sample import copied_sample, hive, write_config
from tests.vectors_there import tables

KB = "knowledge-base"
NOBODY = "postgresql://127.0.0.1:1/hive"
DEBIAN = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as found:
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


def fault(place: Workspace, question: str = "How do I rotate an API key?") -> str:
    with pytest.raises(EngineFault) as raised:
        place.engine().search(question)
    (found,) = raised.value.diagnostics
    assert (found.code, found.path, raised.value.exit_code) == ("HIVE-434", "vectors.url", 3)
    assert found.fix
    return found.message


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
    assert SqliteIndex(place, load_collection(place, KB)).index_hash == index_hash


def test_words_are_searched_as_they_were_where_the_server_that_needs_the_changes_is_away(place: Workspace) -> None:
    write_config(place, "words", retrieval={"method": "keyword"})
    place = with_vectors(place, NOBODY, refresh=True)
    told = hive("query", "rotate an API key", "--config", "words", "-w", place.root)
    assert (told.code, "HIVE-" in told.err) == (0, False)
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
    index = SqliteIndex(place, load_collection(place, KB))
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
    place = with_vectors(place, server.url, namespace="mute", timeout_seconds=4.0, rest_seconds=0.1)
    place.index()
    engine = place.engine()
    assert engine.search("How do I rotate an API key?").hits
    backends = server.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'hive'").split()
    for process in [str(server.process), *backends]:
        os.kill(int(process), signal.SIGSTOP)
    try:
        # By the connection that stands, or by a new one where that was given up.
        with pytest.raises(EngineFault, match=r"no answer within 4 s|connection timeout expired"):
            engine.search("How do I rotate an API key?")
    finally:
        for process in [str(server.process), *backends]:
            os.kill(int(process), signal.SIGCONT)
    time.sleep(0.2)  # longer than `rest_seconds`
    assert engine.search("How do I rotate an API key?").hits


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
def test_what_the_server_refuses_is_told_with_what_to_do(place: Workspace, server: Postgres) -> None:
    place = with_vectors(place, server.url.replace("/postgres?", "/nothing?"))
    assert 'database "nothing" does not exist' in fault(place)
    server.run("CREATE EXTENSION IF NOT EXISTS vector; DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN;")
    place = with_vectors(place, server.url.replace("hive@", "reader@"), namespace="refused")
    told = hive("index", "-w", place.root, "--json")
    assert (told.code, told.codes) == (3, {"HIVE-434"})
    assert 'CREATE SCHEMA "refused" AUTHORIZATION "reader";' in told.json["diagnostics"][0]["fix"]
    place = with_vectors(place, server.url, namespace="never_sent")
    assert "no complete copy" in fault(place)


@pytest.mark.slow
@pytest.mark.parametrize("lie", ["chunks = 7", "chunks = 1000000000", "chunks = -1"])
def test_a_copy_that_is_told_of_wrongly_is_a_diagnostic(place: Workspace, server: Postgres, lie: str) -> None:
    found = with_vectors(place, server.url, namespace="told_wrongly")
    found.index()
    server.run(f"UPDATE told_wrongly.copy SET {lie}")
    assert "is told to have" in fault(found)
    server.run("DROP SCHEMA told_wrongly CASCADE")


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
