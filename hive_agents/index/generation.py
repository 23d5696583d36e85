"""Generations of a collection's index in SQLite: each is written once, never changed, and replaced as a whole.

Searches read the `live` one. A `candidate` exists beside it after a change of chunking, fields, analyzer or model,
until it is promoted. `next` isn't read until each engine has a complete copy of it. Generations share segments; of what
is deleted no text stays once no generation has it.
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
from hive_agents.index.boilerplate import Lines, SharedLines, frequent
from hive_agents.index.following import Contents, IndexedDocument
from hive_agents.index.postings import TokenRuns, build_postings, document_lengths
from hive_agents.index.segments import Ints, SegmentPart, load_parts, save_parts
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
_TABLES = ("documents", "chunks", "postings", "term_stats", "field_values")


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


def parts_of(connection: sqlite3.Connection, generation: Generation) -> list[SegmentPart]:
    return load_parts(connection, generation.number, generation.n_documents, generation.n_chunks)


def document_rows(connection: sqlite3.Connection, generation: Generation, columns: str) -> list[Any]:
    """Return columns of every document, by doc_id: the value of one, or a row of several."""
    rows: list[Any] = [None] * generation.n_documents
    for part in parts_of(connection, generation):
        numbers = part.documents.tolist()
        sql = f"SELECT document, {columns} FROM documents WHERE generation = ?"
        for document, *values in connection.execute(sql, (part.segment,)):
            if numbers[document] >= 0:
                rows[numbers[document]] = values[0] if len(values) == 1 else tuple(values)
    return rows


def document_hashes(connection: sqlite3.Connection, generation: Generation) -> dict[str, str]:
    """Return the hash of each document's file, by doc_id and in its order."""
    return dict(document_rows(connection, generation, "doc_id, content_hash"))


def index_hash(recipe: str, model_id: str | None, hashes: Mapping[str, str]) -> str:
    """Return a hash of recipe, model and documents (`hashes` of their files by doc_id), the same on any machine."""
    lines = [recipe, model_id or "", *(f"{doc_id}\t{hashes[doc_id]}" for doc_id in sorted(hashes))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write_generation(
    workspace: Workspace,
    connection: sqlite3.Connection,
    contents: Contents,
    vectors: NDArray[np.float32] | None,
    *,
    state: State,
    schema: Collection,
    language: str,
    recipe: str,
    embedding_model: str | None,
    index_hash: str,
) -> None:
    """Write a generation and drop those that it replaces, in one transaction."""
    with transaction(connection):
        stale = _numbers(connection, schema.name, _REPLACED[state])
        number = connection.execute(
            "INSERT INTO corpus_stats (collection, state, schema, language, recipe, embedding_model, index_hash,"
            " n_documents, n_chunks, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                schema.name,
                state,
                schema.model_dump_json(),
                language,
                recipe,
                embedding_model,
                index_hash,
                len(contents.new) + sum(int(np.count_nonzero(part.documents >= 0)) for part in contents.kept),
                len(contents.order) + sum(part.live for part in contents.kept),
                dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            ),
        ).lastrowid
        assert number is not None
        parts = list(contents.kept)
        if contents.new or not parts:
            _write_segment(connection, number, contents)
            parts.append(SegmentPart(number, contents.documents, contents.chunks))
            if vectors is not None:
                save_vectors(workspace, number, vectors)
        save_parts(connection, number, parts)
        _drop(connection, stale)
    remove_leftovers(workspace, connection)


def _write_segment(connection: sqlite3.Connection, number: int, contents: Contents) -> None:
    documents, order = contents.new, contents.order
    body = _runs([documents[d].chunks[n][3] for _, d, n in order])
    title = _runs([documents[d].title_tokens for _, d, _ in order])
    chunk_documents = np.array([d for _, d, _ in order], np.int32)
    texts = ["".join(head_of(documents[d].chunks[n][1])) for _, d, n in order]
    lines = Lines.of(texts)
    shared = SharedLines.among(lines, texts, chunk_documents)
    elsewhere = _elsewhere(connection, contents, lines, shared, chunk_documents)
    connection.execute(
        "INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            document_lengths(body, title).tobytes(),
            chunk_documents.tobytes(),
            shared.to_blob(),
            shared.hashes.tobytes(),
            lines.to_blob(),
            elsewhere,
        ),
    )
    _write_documents(connection, number, documents)
    connection.executemany(
        "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((number, chunk, chunk_id, d, n, *documents[d].chunks[n]) for chunk, (chunk_id, d, n) in enumerate(order)),
    )
    _write_postings(connection, number, body, title)


def _elsewhere(
    connection: sqlite3.Connection, contents: Contents, lines: Lines, shared: SharedLines, chunk_documents: Ints
) -> bytes | None:
    """Return the occurrences that become shared lines only with what other segments have of the new one's lines.

    A segment without this has its lines in common with nothing older: none that is older shares more than it says.
    """
    wanted = np.unique(lines.hashes)
    if not contents.kept or not len(wanted):
        return None
    found = [(0, lines, contents.documents[chunk_documents[lines.chunks]], shared.hashes)]
    for part in contents.kept:
        sql = "SELECT lines, shared_hashes, chunk_documents FROM segments WHERE segment = ?"
        blob, known, of = connection.execute(sql, (part.segment,)).fetchone()
        there = Lines.from_blob(blob).among(wanted)
        there = there.at(part.chunks[there.chunks] >= 0)
        documents = part.documents[np.frombuffer(of, np.int32)[there.chunks]]
        found.append((part.segment, there, documents, np.frombuffer(known, "<u8")))
    common = frequent(
        np.concatenate([some.hashes for _, some, _, _ in found]), np.concatenate([of for _, _, of, _ in found])
    )
    told = [
        (segment, some.at(np.isin(some.hashes, common) & ~np.isin(some.hashes, known)))
        for segment, some, _, known in found
    ]
    return (
        np.repeat([segment for segment, _ in told], [len(some.hashes) for _, some in told]).astype(np.int32).tobytes()
        + Lines.joined([some for _, some in told]).to_blob()
    )


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


def vectors_usable(
    workspace: Workspace, connection: sqlite3.Connection, generation: Generation, *, again: bool
) -> bool:
    """Return whether a generation's vectors can be read; see `open_vectors`."""
    if generation.embedding_model is None:
        return True
    try:
        open_vectors(workspace, parts_of(connection, generation), again=again)
    except (OSError, EOFError, ValueError):
        return False
    return True


def remove_leftovers(workspace: Workspace, connection: sqlite3.Connection) -> None:
    """Remove vectors of dropped generations, and temporary files of killed processes."""
    used = {str(row[0]) for row in connection.execute("SELECT segment FROM parts")}
    for path in vectors_path(workspace, 0).parent.glob("[0-9]*"):
        if path.name.partition(".")[0] not in used:
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
    """Delete generations, and of segments what no other generation has."""
    dropped = [part for number in generations for part in _stored_parts(connection, number)]
    for table in ("parts", "corpus_stats"):
        connection.executemany(f"DELETE FROM {table} WHERE generation = ?", [(number,) for number in generations])
    for part in {part.segment: part for part in dropped}.values():
        users = connection.execute("SELECT generation FROM parts WHERE segment = ?", (part.segment,)).fetchall()
        if not users:
            for table in _TABLES:
                connection.execute(f"DELETE FROM {table} WHERE generation = ?", (part.segment,))
            connection.execute("DELETE FROM segments WHERE segment = ?", (part.segment,))
            continue
        others = [one for row in users for one in _stored_parts(connection, row[0]) if one.segment == part.segment]
        in_use = np.logical_or.reduce([one.documents >= 0 for one in others])
        had = np.logical_or.reduce([one.documents >= 0 for one in dropped if one.segment == part.segment])
        _delete_documents(connection, part.segment, np.flatnonzero(had & ~in_use))


def _stored_parts(connection: sqlite3.Connection, number: int) -> list[SegmentPart]:
    sql = "SELECT n_documents, n_chunks FROM corpus_stats WHERE generation = ?"
    return load_parts(connection, number, *connection.execute(sql, (number,)).fetchone())


def _delete_documents(connection: sqlite3.Connection, segment: int, documents: NDArray[np.intp]) -> None:
    """Delete what a segment has of some documents, but for their postings and vectors."""
    if not len(documents):
        return
    sql = "SELECT chunk_documents FROM segments WHERE segment = ?"
    of = np.frombuffer(connection.execute(sql, (segment,)).fetchone()[0], np.int32)
    chunks = np.flatnonzero(np.isin(of, documents)).tolist()
    connection.executemany("DELETE FROM chunks WHERE generation = ? AND chunk = ?", [(segment, one) for one in chunks])
    for document in documents.tolist():
        where = (segment, document)
        sql = "SELECT metadata FROM documents WHERE generation = ? AND document = ?"
        (metadata,) = connection.execute(sql, where).fetchone()
        connection.executemany(
            "DELETE FROM field_values WHERE generation = ? AND field = ? AND value = ? AND document = ?",
            [(segment, field, value, document) for field, value, _ in _values(metadata)],
        )
        connection.execute("DELETE FROM documents WHERE generation = ? AND document = ?", where)


def _values(metadata: str) -> set[tuple[str, str, float | None]]:
    """Return (field, value, number) of each value in a document's metadata."""
    return {
        (name, *stored_value(item))
        for name, value in json.loads(metadata).items()
        for item in (value if isinstance(value, list) else [value])
    }


def _write_documents(connection: sqlite3.Connection, generation: int, documents: Sequence[IndexedDocument]) -> None:
    connection.executemany(
        "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (generation, number, d.doc_id, d.content_hash, d.title, d.metadata, d.front_matter, d.title_tokens)
            for number, d in enumerate(documents)
        ),
    )
    values = {
        (generation, *value, number)
        for number, document in enumerate(documents)
        for value in _values(document.metadata)
    }
    connection.executemany("INSERT OR IGNORE INTO field_values VALUES (?, ?, ?, ?, ?)", sorted(values, key=str))


def _write_postings(connection: sqlite3.Connection, generation: int, body: TokenRuns, title: TokenRuns) -> None:
    (highest,) = connection.execute("SELECT max(term_no) FROM terms").fetchone()
    for term_no, df, blob in build_postings(body, title, 0 if highest is None else highest + 1):
        (term,) = connection.execute("SELECT term FROM terms WHERE term_no = ?", (term_no,)).fetchone()
        posting = connection.execute(
            "INSERT INTO postings (generation, data) VALUES (?, ?)", (generation, blob)
        ).lastrowid
        connection.execute("INSERT INTO term_stats VALUES (?, ?, ?, ?)", (generation, term, df, posting))


def _runs(parts: list[bytes]) -> TokenRuns:
    tokens = np.frombuffer(b"".join(parts), np.int32)
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) // 4 for part in parts], out=offsets[1:])
    return TokenRuns(tokens, offsets)
