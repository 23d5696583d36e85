"""An index that followed its documents equals one that is built anew, to the bit."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.documents import load_collection
from hive_agents.index import BM25Params, SqliteIndex, segments, vectors
from hive_agents.ranking import build_index
from hive_agents.store import database
from hive_agents.store.schema import MIGRATIONS
from tests.conftest import make_workspace, write_document

SEGMENTS = next(number for number, script in enumerate(MIGRATIONS) if "CREATE TABLE segments" in script)
WORDS = "lamp kettle bridge river otter ZX-81 error_code pump valve seal clock tower Straße naïve c++".split()
NOTICE = "this page may be copied by everybody without any warranty"
QUERIES = ["lamp", "otter river bridge", "ZX-81 pump", "kettle kettle clock", "everybody may be copied", "absent"]
REPOSITORY = str(Path(segments.__file__).parents[2])
STATUSES = ("draft", "effective", "retired")


def page(draw: random.Random) -> str:
    parts = [f"---\ntitle: {' '.join(draw.choices(WORDS, k=2))}\nstatus: {draw.choice(STATUSES)}\n---\n"]
    for _ in range(draw.choice((0, 1, 2, 2, 14))):
        parts.append(f"## {draw.choice(WORDS)}\n\n{' '.join(draw.choices(WORDS, k=draw.randint(1, 12)))}.\n")
        if draw.random() < 0.6:
            parts.append(f"{NOTICE}\n")
    return "\n".join(parts)


def change(place: Workspace, draw: random.Random) -> None:
    """Add, edit, rename and delete some documents."""
    paths = sorted(place.documents.rglob("*.md"))
    for path in draw.sample(paths, min(len(paths), draw.randint(0, 3))):
        what = draw.choice(("edit", "rename", "delete", "metadata"))
        if what == "edit":
            path.write_text(page(draw), "utf-8")
        elif what == "metadata":
            path.write_text(path.read_text("utf-8").replace("draft", "effective"), "utf-8")
        elif what == "rename":
            path.rename(path.with_name(f"moved{draw.randrange(1000)}.md"))
        else:
            path.unlink()
    for _ in range(draw.choice((0, 1, 1, 4))):
        name = draw.choice(("a", "b", "a.md#1", "faqs/a", "faqs/z"))
        write_document(place, f"{name}{draw.randrange(200)}.md", page(draw))


def told(place: Workspace) -> dict[str, Any]:
    """All that an index says, to the bit."""
    index = SqliteIndex(place, load_collection(place, "kb"))
    every = np.arange(index.n_chunks)
    masks = [None, every % 3 != 1]
    params = (BM25Params(), BM25Params(0.7, 0.2, 2.5), BM25Params(title_boost=0.0))
    visible = np.arange(index.n_documents) % 2 == 0
    scoped = index.within(visible)
    batch = index.keyword_batch(QUERIES).top(params[1], 20)
    lanes = [index.keyword(query, 30, one, mask) for query in QUERIES for one in params for mask in masks]
    lanes += [scoped.keyword(query, 30, params[0], None) for query in QUERIES]
    if index.embedding_model is not None:
        lanes += [lane for mask in masks for lane in index.vector(QUERIES, 30, mask)]
        lanes += [index.vector([query], 5, None)[0] for query in QUERIES]
        lanes += scoped.vector(QUERIES, 30, None)
    found = {
        "hash": index.index_hash,
        "documents": index.documents(),
        "front matter": index.front_matter(),
        "hashes": list(index.content_hashes.items()),
        "ids": index.chunk_ids(every),
        "of": index.documents_of(every),
        "rows": index.rows(every.tolist()),
        "hidden rows": scoped.rows(list(range(scoped.n_chunks))),
        "chunks": {doc_id: index.chunks_of(doc_id).tolist() for doc_id in index.doc_ids()},
        "boilerplate": index.boilerplate_shares(every).tolist(),
        "hidden boilerplate": scoped.boilerplate_shares(np.arange(scoped.n_chunks)).tolist(),
        "values": [index.values("status"), scoped.values("status")],
        "terms": list(index.index_terms()),
        "stored": [(one.chunk_id, one.words, one.title_words, one.ancestors, one.text) for one in index.stored()],
        "frequencies": index.frequencies([word.lower() for word in WORDS]),
        "batch": batch.tolist(),
        "lanes": [(lane.chunks.tolist(), lane.scores.tobytes()) for lane in lanes],
    }
    index.close()
    return found


def anew(place: Workspace) -> Workspace:
    """Return a copy of the workspace that is indexed for the first time."""
    copy = place.root.parent / "anew"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place.root, copy, ignore=shutil.ignore_patterns("vectors", "hive.db*", "*.lock"), symlinks=True)
    fresh = Workspace(copy)
    build_index(fresh)
    return fresh


def n_parts(place: Workspace) -> int:
    with sqlite3.connect(place.database) as connection:
        found = connection.execute("SELECT count(*) FROM parts").fetchone()[0]
    connection.close()
    return int(found)


@pytest.mark.parametrize(
    ("seed", "embedding"),
    [(1, False), (3, True), *(pytest.param(n, n % 4 == 0, marks=pytest.mark.slow) for n in range(4, 24))],
)
def test_an_index_that_followed_equals_one_built_anew(tmp_path: Path, seed: int, embedding: bool) -> None:
    draw = random.Random(seed)
    documents = {f"faqs/{n:02}.md": page(draw) for n in range(40)}
    place = make_workspace(tmp_path / "kb", embedding=embedding, documents=documents)
    build_index(place)
    most = 1
    for _ in range(4 if embedding else 8):
        change(place, draw)
        build_index(place)
        most = max(most, n_parts(place))
        assert told(place) == told(anew(place))
    assert most > 1


@pytest.mark.parametrize("seed", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 10))])
def test_an_index_with_codes_that_followed_equals_one_without_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(vectors, "_LEAST", 1)
    place = make_workspace(tmp_path / "kb", documents={f"faqs/{n:02}.md": page(draw) for n in range(40)})
    for _ in range(4):
        with monkeypatch.context() as codes:
            codes.setattr(vectors, "_CODED", draw.choice((1, 20)))
            build_index(place)
        assert list((place.state / "vectors").glob("*.codes.npy"))
        fresh = anew(place)
        assert not list((fresh.state / "vectors").glob("*.codes.npy"))
        assert told(place) == told(fresh)
        change(place, draw)


KILLED = """
import os, signal, sys, threading
from hive_agents import Workspace
from hive_agents.index import vectors
vectors._CODED = 20
WRITES = {"execute", "executemany", "commit", "write", "replace", "unlink", "fsync"}
steps, last = 0, int(sys.argv[2])
def seen(_, event, called):
    global steps
    if event == "c_call" and called.__name__ in WRITES:
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)
threading.setprofile(seen)
sys.setprofile(seen)
Workspace(sys.argv[1]).index()
sys.setprofile(None)
print(steps)
"""


def killed_at(place: Workspace, step: int) -> subprocess.CompletedProcess[str]:
    """Index in another process, which SIGKILL ends before a statement or a write; it prints their number otherwise."""
    command = [sys.executable, "-c", KILLED, str(place.root), str(step)]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": REPOSITORY}, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("embedding", [False, True])
def test_an_index_that_followed_and_was_killed_equals_one_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedding: bool
) -> None:
    draw = random.Random(0)
    monkeypatch.setattr(vectors, "_LEAST", 1)
    documents = {f"faqs/{n:02}.md": page(draw) for n in range(40)}
    place = make_workspace(tmp_path / "kb", embedding=embedding, documents=documents)
    build_index(place)
    write_document(place, "faqs/new.md", page(draw))
    whole = int(killed_at(place, 0).stdout)
    killed = 0
    for _ in range(25):
        change(place, draw)
        killed += killed_at(place, draw.randint(1, whole)).returncode == -signal.SIGKILL
        told(place)
        build_index(place)
        assert told(place) == told(anew(place))
    assert killed >= 15


def test_a_change_writes_what_changed(tmp_path: Path) -> None:
    draw = random.Random(5)
    documents = {f"faqs/{n:03}.md": page(draw) for n in range(60)}
    place = make_workspace(tmp_path / "kb", embedding=False, documents=documents)
    build_index(place)
    write_document(place, "faqs/010.md", "# Quokka\n\nIt is small.\n")
    build_index(place)
    with sqlite3.connect(place.database) as connection:
        written = connection.execute("SELECT doc_id FROM documents WHERE generation > 1").fetchall()
        left = connection.execute("SELECT count(*) FROM documents").fetchone()
    connection.close()
    assert written == [("faqs/010.md",)]
    assert left == (60,)  # the former text is gone at once


def test_many_changes_leave_few_segments(tmp_path: Path) -> None:
    draw = random.Random(6)
    documents = {f"faqs/{n:03}.md": page(draw) for n in range(60)}
    place = make_workspace(tmp_path / "kb", embedding=False, documents=documents)
    build_index(place)
    most = 0
    for n in range(30):
        write_document(place, f"faqs/{n:03}.md", page(draw))
        build_index(place, quick=True)
        most = max(most, n_parts(place))
    assert 1 < most <= 5


def test_an_index_of_an_older_release_is_read_and_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MIGRATIONS", MIGRATIONS[: SEGMENTS + 1])  # later ones are done once
    draw = random.Random(7)
    place = make_workspace(tmp_path / "kb", embedding=False, documents={f"faqs/{n}.md": page(draw) for n in range(30)})
    build_index(place)
    expected = told(place)
    with sqlite3.connect(place.database) as connection:
        connection.executescript(
            """
            ALTER TABLE corpus_stats ADD COLUMN lengths BLOB;
            ALTER TABLE corpus_stats ADD COLUMN chunk_documents BLOB;
            ALTER TABLE corpus_stats ADD COLUMN shared_lines BLOB;
            UPDATE corpus_stats SET (lengths, chunk_documents, shared_lines) =
                (SELECT lengths, chunk_documents, shared_lines FROM segments);
            DROP TABLE segments;
            DROP TABLE parts;
            """
        )
        connection.execute(f"PRAGMA user_version = {SEGMENTS}")
    connection.close()
    assert told(place) == expected
    for _ in range(2):
        change(place, draw)
        build_index(place)
        assert told(place) == told(anew(place))


def test_a_page_that_is_edited_again_and_again_leaves_the_large_segment_as_it_is(tmp_path: Path) -> None:
    draw = random.Random(6)
    documents = {f"faqs/{n:03}.md": page(draw) for n in range(60)}
    place = make_workspace(tmp_path / "kb", embedding=False, documents=documents)
    build_index(place)
    for number in range(6):
        write_document(place, f"faqs/{10 + number % 2:03}.md", f"# Quokka\n\nIt is small.\n\n## More\n\n{number}.\n")
        build_index(place)
        with sqlite3.connect(place.database) as connection:
            written = connection.execute("SELECT count(*) FROM documents WHERE generation > 1").fetchone()[0]
        connection.close()
        assert 1 <= written <= 2
    assert told(place) == told(anew(place))
