"""`hive index`: documents become chunks, postings and vectors, incrementally and all at once.

Work that costs (embedding) is cached as it is done; what readers see changes in one transaction that
writes a new generation and drops the old one. Killed at any instant, the old index stays usable and
the next call goes on where this one stopped.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.database import connect, database_errors, transaction
from hive_agents.errors import Diagnostic, HiveError
from hive_agents.files import disk_errors
from hive_agents.retrieval.analysis import ANALYZER, terms
from hive_agents.retrieval.chunking import Chunk, chunk_markdown
from hive_agents.retrieval.collection import Collection, collection_names, load_collection
from hive_agents.retrieval.documents import Document, content_hash, document_files, parse_document
from hive_agents.retrieval.embedding import Embedder
from hive_agents.retrieval.embedding_cache import EmbeddingCache, text_hash
from hive_agents.retrieval.minilm_tokens import WordPieces
from hive_agents.retrieval.postings import TokenRuns, build_postings, document_lengths
from hive_agents.retrieval.providers import TOKENIZER, open_embedder
from hive_agents.retrieval.vectors import VectorIndex
from hive_agents.workspace import Workspace

FORMAT = "index-1"
Progress = Callable[[str, int, int], None]
"""Called with (what is being done, how many are done, of how many)."""


@dataclass
class IndexReport:
    """`documents` and `chunks` are what the index holds now; the counts are this call's."""

    documents: int = 0
    chunks: int = 0
    added: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: list[dict[str, Any]] = field(default_factory=list)
    embedding_model: str | None = None
    embedded: int = 0
    seconds: float = 0.0
    warnings: list[Diagnostic] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"warnings": [warning.to_json() for warning in self.warnings]}


def build_index(workspace: Workspace, progress: Progress | None = None, *, write_seed: bool = False) -> IndexReport:
    """Bring every collection's index up to date with `documents/`.

    Raises: level 1 for a broken collection, HIVE-401 for a model whose hash is wrong, 402, 403.
    """
    started = time.perf_counter()
    report = IndexReport()
    names = collection_names(workspace)
    collections = [load_collection(workspace, name) for name in names]
    with workspace.exclusive("indexing"):
        connection = _open_or_set_aside(workspace, report)
        try:
            embedder = _embedder(workspace, report)
            for collection in collections:
                with database_errors(workspace.database), disk_errors(workspace.database):
                    _Build(workspace, connection, collection, embedder, report, progress, write_seed).run()
        finally:
            connection.close()
    report.seconds = round(time.perf_counter() - started, 3)
    return report


def _open_or_set_aside(workspace: Workspace, report: IndexReport) -> sqlite3.Connection:
    try:
        connection = connect(workspace.database)
        with database_errors(workspace.database):
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                connection.close()
                raise sqlite3.DatabaseError("the integrity check failed")
        return connection
    except HiveError as error:
        if error.diagnostics[0].code != "HIVE-407" or "newer release" in str(error):
            raise
        aside = workspace.database.with_name(f"hive.db.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
        workspace.database.rename(aside)
        for suffix in ("-wal", "-shm"):
            workspace.database.with_name("hive.db" + suffix).unlink(missing_ok=True)
        message = f"the database was damaged; it was set aside as .hive/{aside.name} and the index is built anew"
        fix = "nothing to do for the index; runs and approvals of the old file are only in the file set aside"
        report.warnings.append(Diagnostic("HIVE-407", message, ".hive/hive.db", fix=fix, severity="warning"))
        return connect(workspace.database)


def _embedder(workspace: Workspace, report: IndexReport) -> Embedder | None:
    embedder, why_not = open_embedder(workspace.settings.models)
    if why_not is not None:
        report.warnings.append(why_not)
    report.embedding_model = embedder.model_id if embedder else None
    return embedder


def recipe_of(collection: Collection) -> str:
    """Identity of everything but the documents and the model that decides what is indexed."""
    return hashlib.sha256("\0".join((FORMAT, ANALYZER, TOKENIZER, collection.digest())).encode()).hexdigest()


def index_hash(recipe: str, model_id: str | None, hashes: Mapping[str, str]) -> str:
    """The same for the same documents, schema, analyzer and model, on any machine."""
    lines = [recipe, model_id or "", *(f"{doc_id}\t{hashes[doc_id]}" for doc_id in sorted(hashes))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@dataclass
class _Indexed:
    """What the index needs of one document, freshly parsed or from the last generation."""

    doc_id: str
    content_hash: str
    title: str
    metadata: str
    front_matter: str
    title_tokens: bytes
    chunks: list[tuple[str, str, bytes, bytes]]  # heading, text, text_hash, tokens


@dataclass
class _Build:
    workspace: Workspace
    connection: sqlite3.Connection
    collection: Collection
    embedder: Embedder | None
    report: IndexReport
    progress: Progress | None
    write_seed: bool

    def run(self) -> None:
        old = self._live()
        recipe = recipe_of(self.collection)
        model_id = self.embedder.model_id if self.embedder else None
        known = self._hashes(old) if old else {}
        files = list(document_files(self.workspace.documents))
        data = {doc_id: raw for doc_id, path in files if (raw := self._bytes(doc_id, path)) is not None}
        hashes = {doc_id: content_hash(raw) for doc_id, raw in data.items()}
        kept = {doc_id for doc_id in hashes if old and old["recipe"] == recipe and known.get(doc_id) == hashes[doc_id]}
        fresh = self._parse({doc_id: data[doc_id] for doc_id in hashes if doc_id not in kept})
        skipped = hashes.keys() - kept - fresh.keys()
        self.report.deleted += len(known.keys() - kept - fresh.keys())
        self.report.updated += len(fresh.keys() & known.keys())
        self.report.added += len(fresh.keys() - known.keys())
        self.report.unchanged += len(kept)
        new_hash = index_hash(recipe, model_id, {d: h for d, h in hashes.items() if d not in skipped})
        if old and old["index_hash"] == new_hash and self._vectors_usable(old) and not self.write_seed:
            self.report.documents += old["n_documents"]
            self.report.chunks += old["n_chunks"]
            self._remove_leftovers()
            return
        self._say_what_changed(old, recipe, model_id)
        documents = {**self._load(old, kept), **fresh}
        self._write([documents[doc_id] for doc_id in sorted(documents)], recipe, new_hash)

    def _live(self) -> dict[str, Any] | None:
        self.connection.row_factory = sqlite3.Row
        row = self.connection.execute(
            "SELECT * FROM corpus_stats WHERE collection = ? AND state = 'live'", (self.collection.name,)
        ).fetchone()
        self.connection.row_factory = None
        return dict(row) if row else None

    def _hashes(self, old: dict[str, Any]) -> dict[str, str]:
        rows = self.connection.execute(
            "SELECT doc_id, content_hash FROM documents WHERE generation = ?", (old["generation"],)
        )
        return dict(rows.fetchall())

    def _vectors_usable(self, old: dict[str, Any]) -> bool:
        if old["embedding_model"] is None:
            return True
        try:
            return len(VectorIndex.open(vectors_path(self.workspace, old["generation"]))) == int(old["n_chunks"])
        except (OSError, EOFError, ValueError):
            return False

    def _bytes(self, doc_id: str, path: Path) -> bytes | None:
        """The file's content; None where it went away meanwhile or must be skipped."""
        try:
            doc_id.encode()
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except UnicodeEncodeError:
            why = "the file's name is not UTF-8"
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        file = f"documents/{doc_id}".encode(errors="replace").decode()
        self.report.skipped.append({"file": file, "line": None, "message": why})
        return None

    def _say_what_changed(self, old: dict[str, Any] | None, recipe: str, model_id: str | None) -> None:
        if old is None:
            return
        changes = []
        if old["recipe"] != recipe:
            changes.append("its fields, its chunking or the analyzer changed: every document is read anew")
        if old["embedding_model"] != model_id:
            changes.append(
                f"the embedding model was {old['embedding_model'] or 'none'} and is {model_id or 'none'}:"
                f" {'every chunk gets a new vector' if model_id else 'the vectors are dropped'}"
            )
        for change in changes:
            message = f'collection "{self.collection.name}": {change}'
            self.report.warnings.append(Diagnostic("HIVE-406", message, ".hive/hive.db", severity="info"))

    def _parse(self, data: Mapping[str, bytes]) -> dict[str, _Indexed]:
        vocabulary = _Vocabulary(self.connection)
        parsed: dict[str, _Indexed] = {}
        for number, (doc_id, raw) in enumerate(data.items()):
            self._tell("reading documents", number, len(data))
            try:
                document = parse_document(doc_id, raw, self.collection)
            except HiveError as error:
                first = error.diagnostics[0]
                self.report.skipped.append({"file": first.file, "line": first.line, "message": first.message})
                continue
            self.report.warnings.extend(document.warnings)
            chunks = chunk_markdown(document.body, self.collection.chunking, WordPieces().token_offsets)
            if not document.title and not document.body.strip():
                chunks = []
            parsed[doc_id] = self._indexed(document, chunks, vocabulary)
        vocabulary.save()
        return parsed

    def _indexed(self, document: Document, chunks: Sequence[Chunk], vocabulary: _Vocabulary) -> _Indexed:
        rows = []
        for chunk in chunks:
            tokens = vocabulary.numbers([*terms(" ".join(chunk.ancestors)), *terms(chunk.text)])
            embedded = embedding_text(document.title, chunk)
            rows.append((json.dumps(chunk.heading_path, ensure_ascii=False), chunk.text, text_hash(embedded), tokens))
        return _Indexed(
            document.doc_id,
            document.content_hash,
            document.title,
            json.dumps(document.metadata, ensure_ascii=False),
            json.dumps(document.front_matter, ensure_ascii=False),
            vocabulary.numbers(terms(document.title)),
            rows,
        )

    def _load(self, old: dict[str, Any] | None, kept: set[str]) -> dict[str, _Indexed]:
        """Unchanged documents, from the last generation."""
        if old is None or not kept:
            return {}
        generation = (old["generation"],)
        loaded: dict[int, _Indexed] = {}
        for number, doc_id, digest, title, metadata, front_matter, title_tokens in self.connection.execute(
            "SELECT document, doc_id, content_hash, title, metadata, front_matter, title_tokens"
            " FROM documents WHERE generation = ?",
            generation,
        ):
            if doc_id in kept:
                loaded[number] = _Indexed(doc_id, digest, title, metadata, front_matter, title_tokens, [])
        for number, *row in self.connection.execute(
            "SELECT document, heading, text, text_hash, tokens FROM chunks WHERE generation = ? ORDER BY document, n",
            generation,
        ):
            if number in loaded:
                loaded[number].chunks.append((row[0], row[1], row[2], row[3]))
        return {document.doc_id: document for document in loaded.values()}

    def _write(self, documents: list[_Indexed], recipe: str, new_hash: str) -> None:
        """A new generation, visible at COMMIT; chunk numbers ascend with chunk_id."""
        order = sorted(
            (f"{document.doc_id}#{n}", number, n)
            for number, document in enumerate(documents)
            for n in range(len(document.chunks))
        )
        vectors = self._embed(documents, order)
        body = _runs([documents[d].chunks[n][3] for _, d, n in order])
        title = _runs([documents[d].title_tokens for _, d, _ in order])
        chunk_documents = np.array([d for _, d, _ in order], np.int32)
        with transaction(self.connection):
            names = dict(self.connection.execute("SELECT term_no, term FROM terms").fetchall())
            generation = self.connection.execute(
                "INSERT INTO corpus_stats (collection, state, recipe, embedding_model, index_hash, n_documents,"
                " n_chunks, lengths, chunk_documents, created_at) VALUES (?, 'building', ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    self.collection.name,
                    recipe,
                    self.embedder.model_id if self.embedder else None,
                    new_hash,
                    len(documents),
                    len(order),
                    document_lengths(body, title).tobytes(),
                    chunk_documents.tobytes(),
                    dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                ),
            ).lastrowid
            assert generation is not None
            self._write_documents(generation, documents)
            self.connection.executemany(
                "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (generation, number, chunk_id, d, n, *documents[d].chunks[n])
                    for number, (chunk_id, d, n) in enumerate(order)
                ),
            )
            self._tell("writing the text index", 0, 1)
            for term_no, df, blob in build_postings(body, title, max(names, default=-1) + 1):
                posting = self.connection.execute(
                    "INSERT INTO postings (generation, data) VALUES (?, ?)", (generation, blob)
                ).lastrowid
                self.connection.execute(
                    "INSERT INTO term_stats VALUES (?, ?, ?, ?)", (generation, names[term_no], df, posting)
                )
            if vectors is not None:
                _save_vectors(self.workspace, generation, vectors)
            self._replace(generation)
        self._remove_leftovers()
        self.report.documents += len(documents)
        self.report.chunks += len(order)

    def _embed(self, documents: list[_Indexed], order: list[tuple[str, int, int]]) -> NDArray[np.float32] | None:
        if self.embedder is None:
            return None
        cache = EmbeddingCache(self.workspace, self.embedder)
        hashes = [documents[d].chunks[n][2] for _, d, n in order]
        texts = []
        for _, d, n in order:
            heading, text, *_ = documents[d].chunks[n]
            path = tuple(json.loads(heading))
            texts.append(embedding_text(documents[d].title, Chunk(text, path, path)))
        self.report.embedded += cache.missing(hashes)
        vectors = cache.vectors(hashes, texts, lambda done, total: self._tell("embedding", done, total))
        if hashes:
            others = self.connection.execute(
                "SELECT DISTINCT c.text_hash FROM chunks c JOIN corpus_stats s ON s.generation = c.generation"
                " WHERE s.collection != ?",
                (self.collection.name,),
            )
            used = [*hashes, *(row[0] for row in others)]
            cache.compact(used)
            if self.write_seed:
                cache.write_seed(used)
        return vectors

    def _write_documents(self, generation: int, documents: list[_Indexed]) -> None:
        self.connection.executemany(
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
        self.connection.executemany(
            "INSERT OR IGNORE INTO field_values VALUES (?, ?, ?, ?, ?)", sorted(values, key=str)
        )

    def _replace(self, generation: int) -> None:
        stale = [
            row[0]
            for row in self.connection.execute(
                "SELECT generation FROM corpus_stats WHERE collection = ? AND generation != ?",
                (self.collection.name, generation),
            )
        ]
        for table in ("corpus_stats", "documents", "chunks", "postings", "term_stats", "field_values"):
            self.connection.executemany(f"DELETE FROM {table} WHERE generation = ?", [(old,) for old in stale])
        self.connection.execute("UPDATE corpus_stats SET state = 'live' WHERE generation = ?", (generation,))

    def _remove_leftovers(self) -> None:
        """Vectors of older generations, and what a killed call left half written."""
        used = {f"{row[0]}.npy" for row in self.connection.execute("SELECT generation FROM corpus_stats")}
        for path in vectors_path(self.workspace, 0).parent.glob("*.npy"):
            if path.name not in used:
                path.unlink(missing_ok=True)
        for folder in ("vectors", "embeddings"):
            for path in (self.workspace.state / folder).glob(".*.tmp"):
                path.unlink(missing_ok=True)

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(what, done, total)


class _Vocabulary:
    """Term numbers, append-only: stored token runs stay valid."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers = dict(connection.execute("SELECT term, term_no FROM terms").fetchall())
        self._saved = len(self._numbers)

    def numbers(self, words: Sequence[str]) -> bytes:
        numbers = self._numbers
        return np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int32).tobytes()

    def save(self) -> None:
        new = list(self._numbers.items())[self._saved :]
        if new:
            with transaction(self._connection):
                self._connection.executemany("INSERT INTO terms (term, term_no) VALUES (?, ?)", new)


def embedding_text(title: str, chunk: Chunk) -> str:
    """What of a chunk is embedded: its place in the document, then its text."""
    place = [part for part in chunk.heading_path if part != title]
    return "\n".join(filter(None, [title, " > ".join(place), chunk.text.strip()]))


def stored_value(value: Any) -> tuple[str, float | None]:
    """A metadata value as `field_values` keeps it: text for equality, a number for bounds.

    >>> stored_value(2.0), stored_value(1234567.5), stored_value(True)
    (('2', 2.0), ('1234567.5', 1234567.5), ('true', None))
    """
    if isinstance(value, bool):
        return ("true" if value else "false"), None
    if isinstance(value, (int, float)):
        whole = isinstance(value, float) and value.is_integer()
        return str(int(value) if whole else value), float(value)
    return str(value), None


def vectors_path(workspace: Workspace, generation: int) -> Path:
    return workspace.state / "vectors" / f"{generation}.npy"


def _runs(parts: list[bytes]) -> TokenRuns:
    tokens = np.frombuffer(b"".join(parts), np.int32)
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) // 4 for part in parts], out=offsets[1:])
    return TokenRuns(tokens, offsets)


def _save_vectors(workspace: Workspace, generation: int, vectors: NDArray[np.float32]) -> None:
    import io

    from hive_agents.files import atomic_write

    data = io.BytesIO()
    np.save(data, vectors)
    atomic_write(vectors_path(workspace, generation), data.getvalue(), mode=0o600)
