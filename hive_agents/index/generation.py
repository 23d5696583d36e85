"""Generations of a collection's index in SQLite: each is written once, never changed, and replaced as a whole.

Searches read the `live` one. A `candidate` exists beside it after a change of chunking, fields, analyzer or model,
until it is promoted. `next` isn't read until each engine has a complete copy of it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hive_agents.base.files import remove
from hive_agents.documents import Collection, head_of
from hive_agents.index.boilerplate import SharedLines
from hive_agents.index.postings import TokenRuns, build_postings, document_lengths
from hive_agents.index.vectors import open_vectors, save_vectors, vectors_path
from hive_agents.store import transaction
from hive_agents.workspace import Workspace

State = Literal["live", "candidate", "next"]
_REPLACED: Mapping[State, Sequence[State]] = {
    "live": ("live", "candidate", "next"),
    "candidate": ("candidate",),
    "next": ("next",),
}
"""The states that are deleted when a generation of a state is written."""
_TABLES = ("corpus_stats", "documents", "chunks", "postings", "term_stats", "field_values")


@dataclass(frozen=True)
class Generation:
    """A generation's row of `corpus_stats`; `schema` is the collection as of the build."""

    number: int
    collection: str
    state: State
    schema: Collection
    language: str
    recipe: str
    embedding_model: str | None
    index_hash: str
    n_documents: int
    n_chunks: int
    created_at: str


@dataclass
class IndexedDocument:
    """The indexed parts of a document, newly parsed or from another generation."""

    doc_id: str
    content_hash: str
    title: str
    metadata: str
    front_matter: str
    title_tokens: bytes
    chunks: list[tuple[str, str, bytes, bytes]]  # heading path, stored text, hash of what is embedded, tokens


@dataclass(frozen=True)
class Contents:
    """The contents of a generation; `order` has (chunk_id, document, n) by chunk_id, which breaks ties."""

    documents: list[IndexedDocument]
    order: list[tuple[str, int, int]]
    vectors: NDArray[np.float32] | None


def chunk_order(documents: Sequence[IndexedDocument]) -> list[tuple[str, int, int]]:
    return sorted(
        (f"{document.doc_id}#{n}", number, n)
        for number, document in enumerate(documents)
        for n in range(len(document.chunks))
    )


def find_generation(connection: sqlite3.Connection, collection: str, state: State = "live") -> Generation | None:
    row = connection.execute(
        "SELECT generation, collection, state, schema, language, recipe, embedding_model, index_hash, n_documents,"
        " n_chunks, created_at FROM corpus_stats WHERE collection = ? AND state = ?",
        (collection, state),
    ).fetchone()
    if row is None:
        return None
    number, name, state, schema, *rest = row
    return Generation(number, name, state, Collection.model_validate_json(schema), *rest)


def candidates(connection: sqlite3.Connection) -> list[str]:
    """Return the names of collections that have a candidate."""
    rows = connection.execute("SELECT collection FROM corpus_stats WHERE state = 'candidate' ORDER BY collection")
    return [row[0] for row in rows]


def document_hashes(connection: sqlite3.Connection, generation: Generation) -> dict[str, str]:
    rows = connection.execute("SELECT doc_id, content_hash FROM documents WHERE generation = ?", (generation.number,))
    return dict(rows.fetchall())


def index_hash(recipe: str, model_id: str | None, hashes: Mapping[str, str]) -> str:
    """Return a hash of recipe, model and documents (`hashes` of their files by doc_id), the same on any machine."""
    lines = [recipe, model_id or "", *(f"{doc_id}\t{hashes[doc_id]}" for doc_id in sorted(hashes))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def load_documents(
    connection: sqlite3.Connection, generation: Generation, wanted: set[str]
) -> dict[str, IndexedDocument]:
    """Return the `wanted` documents of a generation, by doc_id."""
    loaded: dict[int, IndexedDocument] = {}
    for number, doc_id, digest, title, metadata, front_matter, title_tokens in connection.execute(
        "SELECT document, doc_id, content_hash, title, metadata, front_matter, title_tokens"
        " FROM documents WHERE generation = ?",
        (generation.number,),
    ):
        if doc_id in wanted:
            loaded[number] = IndexedDocument(doc_id, digest, title, metadata, front_matter, title_tokens, [])
    for number, heading, text, digest, tokens in connection.execute(
        "SELECT document, heading, text, text_hash, tokens FROM chunks WHERE generation = ? ORDER BY document, n",
        (generation.number,),
    ):
        if number in loaded:
            loaded[number].chunks.append((heading, text, digest, tokens))
    return {document.doc_id: document for document in loaded.values()}


def write_generation(
    workspace: Workspace,
    connection: sqlite3.Connection,
    contents: Contents,
    *,
    state: State,
    schema: Collection,
    language: str,
    recipe: str,
    embedding_model: str | None,
    index_hash: str,
) -> None:
    """Write a generation and drop those that it replaces, in one transaction."""
    documents, order = contents.documents, contents.order
    body = _runs([documents[d].chunks[n][3] for _, d, n in order])
    title = _runs([documents[d].title_tokens for _, d, _ in order])
    chunk_documents = np.array([d for _, d, _ in order], np.int32)
    shared = SharedLines.of(["".join(head_of(documents[d].chunks[n][1])) for _, d, n in order], chunk_documents)
    with transaction(connection):
        stale = _numbers(connection, schema.name, _REPLACED[state])
        number = connection.execute(
            "INSERT INTO corpus_stats (collection, state, schema, language, recipe, embedding_model, index_hash,"
            " n_documents, n_chunks, lengths, chunk_documents, created_at, shared_lines)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                schema.name,
                state,
                schema.model_dump_json(),
                language,
                recipe,
                embedding_model,
                index_hash,
                len(documents),
                len(order),
                document_lengths(body, title).tobytes(),
                chunk_documents.tobytes(),
                dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                shared.to_blob(),
            ),
        ).lastrowid
        assert number is not None
        _write_documents(connection, number, documents)
        connection.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((number, chunk, chunk_id, d, n, *documents[d].chunks[n]) for chunk, (chunk_id, d, n) in enumerate(order)),
        )
        _write_postings(connection, number, body, title)
        if contents.vectors is not None:
            save_vectors(workspace, number, contents.vectors)
        _drop(connection, stale)
    remove_leftovers(workspace, connection)


def promote(workspace: Workspace, connection: sqlite3.Connection, collection: str, state: State = "candidate") -> None:
    """Make the generation of `state` the live one, and drop the old one."""
    with transaction(connection):
        _drop(connection, _numbers(connection, collection, ["live"]))
        connection.execute(
            "UPDATE corpus_stats SET state = 'live' WHERE collection = ? AND state = ?", (collection, state)
        )
    remove_leftovers(workspace, connection)


def drop(workspace: Workspace, connection: sqlite3.Connection, collection: str, state: State) -> None:
    """Drop the generation of `state`."""
    with transaction(connection):
        _drop(connection, _numbers(connection, collection, [state]))
    remove_leftovers(workspace, connection)


def vectors_usable(workspace: Workspace, generation: Generation) -> bool:
    if generation.embedding_model is None:
        return True
    try:
        return len(open_vectors(workspace, generation.number, again=True)) == generation.n_chunks
    except (OSError, EOFError, ValueError):
        return False


def remove_leftovers(workspace: Workspace, connection: sqlite3.Connection) -> None:
    """Remove vectors of dropped generations, and temporary files of killed processes."""
    used = {f"{row[0]}.npy" for row in connection.execute("SELECT generation FROM corpus_stats")}
    for path in vectors_path(workspace, 0).parent.glob("[0-9]*"):
        if f"{path.stem}.npy" not in used:
            remove(path)
    for folder in ("vectors", "embeddings"):
        for path in (workspace.state / folder).glob(".*.tmp"):
            path.unlink(missing_ok=True)


def stored_value(value: Any) -> tuple[str, float | None]:
    """Return a metadata value as stored in `field_values`: a text for equality, a number for bounds.

    >>> stored_value(2.0), stored_value(1234567.5), stored_value(True)
    (('2', 2.0), ('1234567.5', 1234567.5), ('true', None))
    """
    if isinstance(value, bool):
        return ("true" if value else "false"), None
    if isinstance(value, (int, float)):
        whole = isinstance(value, float) and value.is_integer()
        return str(int(value) if whole else value), float(value)
    return str(value), None


def _numbers(connection: sqlite3.Connection, collection: str, states: Sequence[str]) -> list[int]:
    marks = ",".join("?" * len(states))
    rows = connection.execute(
        f"SELECT generation FROM corpus_stats WHERE collection = ? AND state IN ({marks})", (collection, *states)
    )
    return [row[0] for row in rows]


def _drop(connection: sqlite3.Connection, generations: Sequence[int]) -> None:
    for table in _TABLES:
        connection.executemany(f"DELETE FROM {table} WHERE generation = ?", [(number,) for number in generations])


def _write_documents(connection: sqlite3.Connection, generation: int, documents: Sequence[IndexedDocument]) -> None:
    connection.executemany(
        "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (generation, number, d.doc_id, d.content_hash, d.title, d.metadata, d.front_matter, d.title_tokens)
            for number, d in enumerate(documents)
        ),
    )
    values = {
        (generation, name, shown, amount, number)
        for number, document in enumerate(documents)
        for name, value in json.loads(document.metadata).items()
        for item in (value if isinstance(value, list) else [value])
        for shown, amount in [stored_value(item)]
    }
    connection.executemany("INSERT OR IGNORE INTO field_values VALUES (?, ?, ?, ?, ?)", sorted(values, key=str))


def _write_postings(connection: sqlite3.Connection, generation: int, body: TokenRuns, title: TokenRuns) -> None:
    names = dict(connection.execute("SELECT term_no, term FROM terms").fetchall())
    for term_no, df, blob in build_postings(body, title, max(names, default=-1) + 1):
        posting = connection.execute(
            "INSERT INTO postings (generation, data) VALUES (?, ?)", (generation, blob)
        ).lastrowid
        connection.execute("INSERT INTO term_stats VALUES (?, ?, ?, ?)", (generation, names[term_no], df, posting))


def _runs(parts: list[bytes]) -> TokenRuns:
    tokens = np.frombuffer(b"".join(parts), np.int32)
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) // 4 for part in parts], out=offsets[1:])
    return TokenRuns(tokens, offsets)
