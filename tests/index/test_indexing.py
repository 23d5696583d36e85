import ctypes
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hive_agents
from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.documents import chunking
from hive_agents.index import indexing
from hive_agents.models.embedding.minilm import LocalMiniLM
from hive_agents.ranking import build_index
from hive_agents.store import database
from tests.conftest import DOCUMENTS, config_json, make_workspace, write_document

QUERY = "How do I rotate an API key?"
REPOSITORY = Path(hive_agents.__file__).parents[1]


class CountingMiniLM(LocalMiniLM):
    """The real model, which counts the texts that it is given."""

    embedded = 0

    def embed(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        self.embedded += len(texts)
        return super().embed(texts, progress)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> CountingMiniLM:
    model = CountingMiniLM()
    monkeypatch.setattr(indexing, "open_embedder", lambda workspace: (model, None))
    return model


def counts(workspace: Workspace) -> tuple[int, int, int, int, int]:
    report = build_index(workspace)
    return report.added, report.updated, report.deleted, report.unchanged, report.embedded


def shown(workspace: Workspace, config: str = "v1") -> Any:
    return workspace.engine().search(QUERY, config).to_json()


def index_hash(workspace: Workspace) -> str:
    return workspace.engine().index("kb").index_hash


def refused(workspace: Workspace) -> tuple[str, int]:
    with pytest.raises(HiveError) as caught:
        build_index(workspace)
    assert caught.value.diagnostics[0].fix
    return caught.value.diagnostics[0].code, caught.value.exit_code


START = """
import json, os, shutil, sys
from hive_agents.base.errors import HiveError
from hive_agents import Workspace
"""


def python(code: str, *arguments: object, before: Sequence[str] = (), **options: Any) -> subprocess.Popen[str]:
    """A real process of its own, with what every program here needs; `before` starts it."""
    return subprocess.Popen(
        [*before, sys.executable, "-c", START + code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def output(process: subprocess.Popen[str]) -> Any:
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return json.loads(printed)


def test_the_report_counts_documents_and_chunks(workspace: Workspace) -> None:
    seen: list[str] = []
    report = build_index(workspace, lambda what, done, total: seen.append(what))
    assert (report.documents, report.chunks, report.added, report.embedded) == (8, 10, 8, 10)
    assert report.embedding_model == LocalMiniLM().model_id
    assert (report.skipped, report.warnings) == ([], [])
    assert list(dict.fromkeys(seen)) == ["looking for changes", "reading documents", "embedding", "writing the index"]
    assert json.loads(json.dumps(report.to_json()))["chunks"] == 10


def test_an_unchanged_corpus_is_indexed_again_without_embedding(workspace: Workspace, counting: CountingMiniLM) -> None:
    build_index(workspace)
    assert counting.embedded == 10
    before = (workspace.state / "vectors").iterdir()
    assert counts(workspace) == (0, 0, 0, 8, 0)
    assert counting.embedded == 10
    assert sorted(before) == sorted((workspace.state / "vectors").iterdir())


def test_an_edit_embeds_the_changed_chunks_alone(workspace: Workspace, counting: CountingMiniLM) -> None:
    build_index(workspace)
    text = DOCUMENTS["guides/webhooks.md"].replace("five times", "nine times")
    write_document(workspace, "guides/webhooks.md", text)
    assert counts(workspace) == (0, 1, 0, 7, 1)
    assert counting.embedded == 11
    hits = workspace.engine().search("tried again nine times", "words").hits
    assert hits[0].chunk_id == "guides/webhooks.md#1"


def test_an_edit_of_metadata_alone_embeds_nothing(workspace: Workspace, counting: CountingMiniLM) -> None:
    build_index(workspace)
    write_document(workspace, "faqs/lost-key.md", DOCUMENTS["faqs/lost-key.md"].replace("draft", "effective"))
    assert counts(workspace) == (0, 1, 0, 7, 0)
    assert counting.embedded == 10
    assert ("effective", 4) in workspace.engine().index("kb").values("status")


def test_deleted_documents_leave(workspace: Workspace, counting: CountingMiniLM) -> None:
    build_index(workspace)
    (workspace.documents / "faqs" / "rotate-key.md").unlink()
    assert counts(workspace) == (0, 0, 1, 7, 0)
    index = workspace.engine().index("kb")
    assert "faqs/rotate-key.md" not in index.doc_ids()
    assert not len(index.chunks_of("faqs/rotate-key.md"))
    assert "keys" not in dict(index.values("labels"))
    assert workspace.engine().search("rotate", "words").hits == []


def test_a_renamed_document_embeds_nothing(workspace: Workspace, counting: CountingMiniLM) -> None:
    build_index(workspace)
    (workspace.documents / "faqs" / "rotate-key.md").rename(workspace.documents / "rotation.md")
    assert counts(workspace) == (1, 0, 1, 7, 0)
    assert counting.embedded == 10
    hit = workspace.engine().search(QUERY, "v1").hits[0]
    assert (hit.doc_id, "category" in hit.metadata) == ("rotation.md", False)


def test_an_incremental_index_is_the_index_that_a_fresh_one_would_be(workspace: Workspace, tmp_path: Path) -> None:
    write_document(workspace, "faqs/old.md", "# Old\n\nRotate this away.\n")
    build_index(workspace)
    (workspace.documents / "faqs" / "old.md").unlink()
    write_document(workspace, "welcome.md", "# Welcome\n\nAPI keys are welcome.\n")
    build_index(workspace)
    fresh = make_workspace(tmp_path / "fresh")
    write_document(fresh, "welcome.md", "# Welcome\n\nAPI keys are welcome.\n")
    build_index(fresh)
    assert index_hash(workspace) == index_hash(fresh)
    assert shown(workspace) == shown(fresh)
    assert shown(workspace, "words") == shown(fresh, "words")


def test_front_matter_that_cannot_be_parsed_is_skipped_and_the_rest_indexed(text_workspace: Workspace) -> None:
    write_document(text_workspace, "faqs/bad.md", "---\ntitle: ok\nlabels: [a\n---\nx")
    (text_workspace.documents / "latin.md").write_bytes(b"one\nr\xe9sum\xe9\n")
    report = build_index(text_workspace)
    assert [(row["file"], row["line"]) for row in report.skipped] == [
        ("documents/faqs/bad.md", 4),
        ("documents/latin.md", 2),
    ]
    assert all(row["message"] for row in report.skipped)
    assert report.documents == 8
    assert len(build_index(text_workspace).skipped) == 2
    write_document(text_workspace, "faqs/bad.md", "---\ntitle: ok\n---\nx")
    assert [row["file"] for row in build_index(text_workspace).skipped] == ["documents/latin.md"]


def test_a_file_of_sixty_thousand_headings_costs_no_more_than_the_most_passages_and_hides_no_other(
    text_workspace: Workspace,
) -> None:
    write_document(text_workspace, "headings.md", "".join(f"# Heading {n}\n\n" for n in range(60_000)))
    before = build_index(text_workspace).chunks
    write_document(text_workspace, "bees.md", "# Bees\n\nThey dance.")
    report = build_index(text_workspace)
    assert before > chunking.MOST_CHUNKS
    assert report.chunks == before + 1
    index = text_workspace.engine().index("kb")
    assert len(index.chunks_of("headings.md")) == chunking.MOST_CHUNKS
    assert index.rows(index.chunks_of("bees.md").tolist())[0].text.strip().endswith("They dance.")


def test_a_file_with_too_many_passages_is_named(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunking, "MOST_CHUNKS", 3)
    for name, headings in (("three.md", 3), ("four.md", 4)):
        write_document(text_workspace, name, "".join(f"# Heading {n}\n\n" for n in range(headings)))
    warned = [one for one in build_index(text_workspace).warnings if one.code == "HIVE-115"]
    assert [one.file for one in warned] == ["documents/four.md"]
    assert warned[0].severity == "warning"


def test_a_document_that_breaks_leaves_the_index_until_it_is_mended(text_workspace: Workspace) -> None:
    build_index(text_workspace)
    write_document(text_workspace, "welcome.md", "---\ntitle: [\n---\nx")
    report = build_index(text_workspace)
    assert (len(report.skipped), report.documents) == (1, 7)
    assert "welcome.md" not in text_workspace.engine().index("kb").doc_ids()


def test_a_wrong_value_is_a_warning_and_the_document_is_indexed(text_workspace: Workspace) -> None:
    write_document(text_workspace, "a.md", "---\nversion: two\n---\nquokka\n")
    report = build_index(text_workspace)
    assert [(w.code, w.file) for w in report.warnings] == [("HIVE-401", None), ("HIVE-104", "documents/a.md")]
    (hit,) = text_workspace.engine().search("quokka", "words").hits
    assert "version" not in hit.metadata


def test_documents_without_body_count_with_or_without_a_title(text_workspace: Workspace) -> None:
    write_document(text_workspace, "stub.md", "---\ntitle: Stub\n---\n")
    write_document(text_workspace, "empty.md", "")
    report = build_index(text_workspace)
    assert (report.documents, report.chunks, report.skipped) == (10, 11, [])
    index = text_workspace.engine().index("kb")
    assert (len(index.chunks_of("stub.md")), len(index.chunks_of("empty.md"))) == (1, 0)


def test_a_file_name_that_is_not_utf8_is_skipped(text_workspace: Workspace) -> None:
    path = os.fsencode(text_workspace.documents) + b"/caf\xe9.md"
    Path(os.fsdecode(path)).write_text("x")
    report = build_index(text_workspace)
    assert [(row["file"], row["message"]) for row in report.skipped] == [
        ("documents/caf?.md", "the file's name is not UTF-8")
    ]
    assert json.dumps(report.to_json()).encode()


def test_a_change_of_chunking_reads_everything_anew_and_says_so(workspace: Workspace) -> None:
    build_index(workspace)
    path = workspace.root / "collections" / "kb.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"heading_level": 2', '"heading_level": 1'), "utf-8")
    report = build_index(workspace)
    assert (report.updated, report.unchanged, report.chunks, report.embedded) == (8, 0, 8, 1)
    assert [(w.code, w.severity) for w in report.warnings] == [("HIVE-406", "info")]
    assert "chunking" in report.warnings[0].message


def test_a_change_of_the_model_reindexes_and_says_so(indexed: Workspace) -> None:
    before = index_hash(indexed)
    (indexed.root / "hive.toml").write_text('[models]\nembedding = "none"\n', encoding="utf-8")
    report = build_index(Workspace(indexed.root))
    assert [(w.code, w.severity) for w in report.warnings] == [("HIVE-401", "warning"), ("HIVE-406", "info")]
    assert report.embedding_model is None
    assert index_hash(indexed) != before
    (indexed.root / "hive.toml").unlink()
    report = build_index(Workspace(indexed.root))
    assert (report.embedded, [w.code for w in report.warnings]) == (0, ["HIVE-406"])
    assert index_hash(indexed) == before


def test_the_state_is_readable_by_its_owner_alone(indexed: Workspace) -> None:
    assert indexed.state.stat().st_mode & 0o777 == 0o700
    for path in [indexed.database, *(indexed.state / "vectors").iterdir()]:
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_rebuild_reads_everything_embeds_nothing_and_says_the_same(
    workspace: Workspace, counting: CountingMiniLM
) -> None:
    build_index(workspace)
    write_document(workspace, "welcome.md", "# Welcome\n\nAPI keys are welcome.\n")
    build_index(workspace)
    expected, embedded, before = shown(workspace), counting.embedded, index_hash(workspace)
    report = build_index(workspace, rebuild=True)
    assert (report.updated, report.unchanged, report.embedded) == (8, 0, 0)
    assert (counting.embedded, index_hash(workspace)) == (embedded, before)
    assert shown(workspace) == expected
    with sqlite3.connect(workspace.database) as connection:
        assert connection.execute("SELECT count(*) FROM parts").fetchone() == (1,)
    connection.close()


def test_lost_vectors_are_made_again_from_the_cache(indexed: Workspace) -> None:
    expected = shown(indexed)
    for left in (None, b"", b"no matrix"):
        (path,) = (indexed.state / "vectors").glob("*.npy")
        path.unlink()
        if left is not None:
            path.write_bytes(left)
        with pytest.raises(HiveError) as caught:
            shown(indexed)
        assert caught.value.diagnostics[0].code == "HIVE-406"
        assert build_index(indexed).embedded == 0
        assert shown(indexed) == expected


# What goes wrong outside: damage, locks, rights, space.


@pytest.mark.parametrize("damage", ["garbage", "cut", "pages", "schema"])
def test_a_damaged_database_is_set_aside_and_rebuilt(indexed: Workspace, damage: str) -> None:
    expected = shown(indexed)
    with sqlite3.connect(indexed.database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray(indexed.database.read_bytes())
    if damage == "garbage":
        data = bytearray(os.urandom(len(data)))
    elif damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "pages":
        data[8192:] = os.urandom(len(data) - 8192)
    else:
        data[100:200] = bytes(100)
    indexed.database.write_bytes(data)
    with pytest.raises(HiveError) as caught:
        shown(indexed)
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-407", 3)
    report = build_index(indexed)
    assert [(w.code, w.severity) for w in report.warnings] == [("HIVE-407", "warning")]
    (aside,) = indexed.state.glob("hive.db.damaged-*")
    assert aside.read_bytes() == bytes(data)
    assert (report.added, report.embedded) == (8, 0)
    assert shown(indexed) == expected
    assert build_index(indexed).warnings == []


def test_a_database_of_a_newer_release_is_left_alone(indexed: Workspace) -> None:
    with sqlite3.connect(indexed.database) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert refused(indexed) == ("HIVE-407", 3)
    assert not list(indexed.state.glob("hive.db.damaged-*"))


def test_a_locked_database_is_an_error_that_says_so(indexed: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    expected = shown(indexed)
    write_document(indexed, "welcome.md", "# Welcome\n\nA locked quokka.\n")
    other = sqlite3.connect(indexed.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert refused(indexed) == ("HIVE-402", 3)
    assert shown(indexed) == expected  # readers never wait for a writer
    other.execute("ROLLBACK")
    other.close()
    assert build_index(indexed).updated == 1


def test_a_second_writer_waits_and_is_then_refused(text_workspace: Workspace) -> None:
    code = """
with Workspace(sys.argv[1]).exclusive("indexing"):
    print("[]", flush=True)
    sys.stdin.readline()
"""
    first = python(code, text_workspace.root, stdin=subprocess.PIPE)
    assert first.stdout is not None
    first.stdout.readline()
    with pytest.raises(HiveError) as caught, text_workspace.exclusive("indexing", timeout=0.1):
        pass
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-402", 3)
    first.communicate("\n", timeout=60)
    assert build_index(text_workspace).added == 8


@pytest.mark.slow
def test_two_processes_that_index_at_once_do_the_work_once(workspace: Workspace) -> None:
    code = "print(json.dumps(Workspace(sys.argv[1]).index().to_json()))"
    reports = [output(process) for process in [python(code, workspace.root) for _ in range(2)]]
    assert sorted((report["added"], report["unchanged"], report["embedded"]) for report in reports) == [
        (0, 8, 0),
        (8, 0, 10),
    ]
    assert shown(workspace)["hits"][0]["doc_id"] == "faqs/rotate-key.md"


ATTEMPT = """
workspace = Workspace(sys.argv[1])
def attempt(what):
    try:
        return what()
    except HiveError as error:
        return [error.diagnostics[0].code, error.exit_code]
"""


def obey_permissions() -> None:
    """Root, too, is refused what a file's mode forbids: drop CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="uses prctl")
def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(text_workspace: Workspace) -> None:
    code = ATTEMPT + "print(json.dumps(attempt(lambda: workspace.index().added)))"
    text_workspace.root.chmod(0o500)
    assert output(python(code, text_workspace.root, preexec_fn=obey_permissions)) == ["HIVE-403", 3]
    text_workspace.root.chmod(0o700)
    build_index(text_workspace)
    text_workspace.state.chmod(0o500)
    for path in text_workspace.state.iterdir():
        path.chmod(0o400)
    assert output(python(code, text_workspace.root, preexec_fn=obey_permissions)) == ["HIVE-403", 3]
    text_workspace.state.chmod(0o700)


@pytest.mark.skipif(sys.platform != "linux", reason="uses prctl")
def test_documents_that_cannot_be_read_are_skipped_and_folders_refused(text_workspace: Workspace) -> None:
    (text_workspace.documents / "welcome.md").chmod(0)
    code = ATTEMPT + "print(json.dumps(attempt(lambda: workspace.index().skipped)))"
    skipped = output(python(code, text_workspace.root, preexec_fn=obey_permissions))
    assert skipped == [{"file": "documents/welcome.md", "line": None, "message": "cannot be read: Permission denied"}]
    (text_workspace.documents / "faqs").chmod(0)
    assert output(python(code, text_workspace.root, preexec_fn=obey_permissions)) == ["HIVE-403", 3]
    (text_workspace.documents / "faqs").chmod(0o700)
    assert build_index(text_workspace).documents == 8


@pytest.mark.slow
def test_a_file_that_may_not_grow_leaves_the_old_index(text_workspace: Workspace) -> None:
    build_index(text_workspace)
    expected = shown(text_workspace, "words")
    for number in range(10):
        write_document(text_workspace, f"more/{number}.md", "".join(f"word{number}x{n}. " for n in range(300)))
    code = ATTEMPT + "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
    code += "print(json.dumps(attempt(lambda: workspace.index().added)))"
    assert output(python(code, text_workspace.root)) == ["HIVE-403", 3]
    assert shown(text_workspace, "words") == expected
    assert build_index(text_workspace).added == 10


def small_disk(folder: Path) -> list[str]:
    """The start of a command that runs another with a disk of 2 MB at `folder`, in a mount namespace of its own."""
    return ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=2m tmpfs "{folder}" && exec "$@"', "sh"]


FULL_DISK = (
    """
source, disk = sys.argv[1:]
sys.argv[1] = shutil.copytree(source, disk + "/ws")
"""
    + ATTEMPT
    + """
engine = workspace.engine()
def first(query):
    return engine.search(query, "v1").hits[0].doc_id
found = [first("How do I rotate an API key?")]
(workspace.documents / "new.md").write_text("# Quokka\\n\\nA quokka is small. " + "It eats leaves. " * 300)
with open(disk + "/filler", "wb", buffering=0) as filler:
    for size in (65536, 1):
        try:
            while filler.write(bytes(size)): pass
        except OSError:
            pass
found += [attempt(lambda: workspace.index().added), first("What is a quokka?")]
os.unlink(disk + "/filler")
found += [workspace.index().added, first("What is a quokka?")]
print(json.dumps(found))
"""
)


def test_a_full_disk_leaves_the_old_index_and_with_space_the_work_goes_on(indexed: Workspace, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if not shutil.which("unshare") or subprocess.run([*small_disk(disk), "true"], capture_output=True).returncode:
        pytest.skip("needs user namespaces to mount a small disk")
    first, refusal, other, added, new = output(python(FULL_DISK, indexed.root, disk, before=small_disk(disk)))
    assert (first, refusal, added, new) == ("faqs/rotate-key.md", ["HIVE-403", 3], 1, "new.md")
    assert other != "new.md"


# Killed at any instant.

KILLED = """
import signal
from hive_agents.ranking import build_index
from hive_agents.index import generation
from hive_agents.models.embedding.embedding_cache import EmbeddingCache

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

moment = sys.argv[2]
if moment == "vectors written":
    save = generation.save_vectors
    generation.save_vectors = lambda *given: die(save(*given))
elif moment == "committed":
    generation.remove_leftovers = die
elif moment == "cache compacted":
    compact = EmbeddingCache.compact
    EmbeddingCache.compact = lambda *given: die(compact(*given))
build_index(Workspace(sys.argv[1]), lambda what, done, total: what == moment and die())
"""
MOMENTS = [
    "reading documents",
    "embedding",
    "cache compacted",
    "writing the index",
    "vectors written",
    "committed",
]
EVERYDAY = ("embedding", "writing the index", "committed")


def killed(workspace: Workspace, moment: str) -> bool:
    process = python(KILLED, workspace.root, moment)
    process.communicate(timeout=60)
    return process.returncode == -signal.SIGKILL


def edit(workspace: Workspace) -> None:
    write_document(workspace, "faqs/rotate-key.md", "---\ntitle: Rotation\n---\nRotate an API key twice a year.\n")
    write_document(workspace, "faqs/third.md", "---\ntitle: Third\n---\nA third answer about keys.\n")
    (workspace.documents / "welcome.md").unlink()


@pytest.mark.parametrize(
    "moment", [moment if moment in EVERYDAY else pytest.param(moment, marks=pytest.mark.slow) for moment in MOMENTS]
)
def test_a_killed_index_leaves_the_old_one_and_the_next_call_finishes(
    indexed: Workspace, tmp_path: Path, moment: str
) -> None:
    before = shown(indexed)
    done = Workspace(shutil.copytree(indexed.root, tmp_path / "done"))
    edit(done)
    build_index(done)
    edit(indexed)
    assert killed(indexed, moment)
    assert shown(indexed) == (shown(done) if moment == "committed" else before)
    report = build_index(indexed)
    assert report.warnings == []
    assert report.embedded == (2 if moment in MOMENTS[:2] else 0)
    assert shown(indexed) == shown(done)
    assert index_hash(indexed) == index_hash(done)
    assert len(list((indexed.state / "vectors").glob("*.npy"))) == 1
    assert len(list((indexed.state / "embeddings").iterdir())) == 1


def test_a_first_index_that_is_killed_is_finished_by_the_next(workspace: Workspace) -> None:
    assert killed(workspace, "vectors written")
    with pytest.raises(HiveError) as caught:
        shown(workspace)
    assert caught.value.diagnostics[0].code == "HIVE-406"
    report = build_index(workspace)
    assert (report.documents, report.embedded) == (8, 0)


@pytest.mark.slow
def test_an_index_killed_at_forty_moments_never_loses_the_old_one(indexed: Workspace, tmp_path: Path) -> None:
    documents = {f"bulk/{n}.md": f"# Part {n}\n\n" + f"Sentence {n} about rotors. " * 40 for n in range(60)}
    code = "print('[]', flush=True)\nWorkspace(sys.argv[1]).index()"
    expected = shown(indexed, "words")
    for doc_id, text in documents.items():
        write_document(indexed, doc_id, text)
    # Not copied in this process: whoever opens and closes SQLite's file itself loses the locks of its connections.
    subprocess.run(["cp", "-R", indexed.root, tmp_path / "whole"], check=True)
    whole = Workspace(tmp_path / "whole")
    started = time.perf_counter()
    build_index(whole)
    duration = time.perf_counter() - started
    interrupted = 0
    for number in range(40):
        process = python(code, indexed.root)
        assert process.stdout is not None
        process.stdout.readline()
        with suppress(subprocess.TimeoutExpired):  # it may be done before
            process.wait(duration * 1.5 * number / 40)
        process.kill()
        interrupted += process.wait() == -signal.SIGKILL
        process.stdout.close()
        found = len(indexed.engine().index("kb").documents())
        assert found in (8, 68)
        assert shown(indexed, "words")["hits"][0]["doc_id"] == expected["hits"][0]["doc_id"]
        if found == 68:  # done: start over without the new documents
            for doc_id in documents:
                (indexed.documents / doc_id).unlink()
            build_index(indexed)
            for doc_id, text in documents.items():
                write_document(indexed, doc_id, text)
    assert interrupted
    build_index(indexed)
    assert index_hash(indexed) == index_hash(whole)
    assert shown(indexed) == shown(whole)


def test_documents_without_a_collection_are_told(text_workspace: Workspace) -> None:
    for file in (text_workspace.root / "collections").iterdir():
        file.unlink()
    report = text_workspace.index()
    assert report.documents == 0
    told = [(warning.code, warning.severity, warning.file) for warning in report.warnings]
    assert ("HIVE-211", "warning", "collections") in told


def test_an_index_of_many_collections_reports_their_sum(text_workspace: Workspace) -> None:
    text = (text_workspace.root / "collections" / "kb.json").read_text(encoding="utf-8").replace('"kb"', '"second"')
    (text_workspace.root / "collections" / "second.json").write_text(text, encoding="utf-8")
    report = build_index(text_workspace)
    assert (report.documents, report.added) == (16, 16)
    config = config_json("a", "keyword") | {"collection": "second"}
    assert text_workspace.engine().search(QUERY, config).hits
