"""`hive index`: the incremental build of chunks, postings and vectors from the documents.

Embeddings are cached as they are computed; readers see a change in one transaction, which writes a new generation and
drops the old one. After a crash at any point the old index is usable, and the next call continues the work.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hive_agents import events
from hive_agents.base import Damaged, Diagnostic, HiveError, NewerRelease, did_you_mean
from hive_agents.base.files import disk_errors
from hive_agents.documents import (
    Collection,
    Document,
    DocumentFolder,
    analysis,
    chunking,
    collection_names,
    follow_moves,
    head_of,
    is_exact,
    load_collection,
    parse_document,
    terms,
)
from hive_agents.index import generation as store
from hive_agents.index.engine import Engine, ship, switch
from hive_agents.index.following import Contents, Former, IndexedDocument
from hive_agents.index.generation import Generation, State
from hive_agents.index.postings import TermVocabulary
from hive_agents.index.vectors import segment_vectors
from hive_agents.models.embedding import WordPieces, embedding_cache, open_embedder, providers
from hive_agents.store import connected, database, database_errors, transaction
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.store import Progress

FORMAT = "index-1"
_CHECKED_BYTES = 64 << 20
"""A larger database, and the vectors of one, are checked as a whole by a rebuild alone."""
_READ_PER_SECOND, _EMBEDDED_PER_SECOND = 500_000, 40_000  # bytes of Markdown, on one modest core
_A_LINK = "a link, and nothing in a workspace is read through one: put the file itself there"


@dataclass(frozen=True)
class PendingWork:
    """The number of documents to read, and a rough estimate of the time; `first` where there is no index yet."""

    documents: int
    seconds: float
    first: bool


@dataclass
class IndexReport:
    r"""The result of a call: `documents` and `chunks` are those of the live index, the other counts are this call's.

    `waiting` names the collections whose new generation is a candidate until the active config is proved on it.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from hive_agents import Workspace
    >>> from hive_agents.cli.sample import init_workspace
    >>> folder = TemporaryDirectory()
    >>> place = Workspace(init_workspace(Path(folder.name), empty=True))
    >>> _ = Path(folder.name, "hive.toml").write_text('[models]\nembedding = "none"')
    >>> _ = Path(folder.name, "documents", "bees.md").write_text("# Bees\nThey dance.")
    >>> report = place.index()
    >>> report.documents, report.added, place.index().unchanged
    (1, 1, 1)
    >>> folder.cleanup()
    """

    documents: int = 0
    chunks: int = 0
    added: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: list[dict[str, Any]] = field(default_factory=list)
    embedding_model: str | None = None
    embedded: int = 0
    waiting: list[str] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """The number of labels, by golden set, that followed documents whose files were renamed."""
    seconds: float = 0.0
    warnings: list[Diagnostic] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        names = ("documents", "chunks", "added", "updated", "deleted", "unchanged", "embedded")
        return {name: getattr(self, name) for name in names} | {"skipped": len(self.skipped)}

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"warnings": [warning.to_json() for warning in self.warnings]}


def bring_up_to_date(
    workspace: Workspace,
    open_engines: Callable[[], Sequence[Engine]],
    progress: Progress | None = None,
    *,
    write_seed: bool = False,
    accept: bool = False,
    quick: bool = False,
    rebuild: bool = False,
    plan: Callable[[PendingWork], None] | None = None,
    wait: float = 30.0,
) -> IndexReport:
    """Bring every collection's index, and its copies in the engines, up to date; see `build_index`."""
    started = time.perf_counter()
    if not workspace.documents.is_dir():
        fix = "make the folder and put Markdown files there, or run `hive import PATH`"
        raise HiveError.of(
            "HIVE-107", "the workspace has no documents/", file="documents", path="$", fix=fix, exit_code=2
        )
    progress = progress or (lambda *_: None)
    collections = [load_collection(workspace, name) for name in collection_names(workspace)]
    language = _language(workspace)

    def update(connection: sqlite3.Connection, report: IndexReport) -> None:
        embedder = _embedder(workspace, report)
        with database_errors(workspace.database), disk_errors(workspace.database):
            folder = _folder(workspace, connection, report, progress, thorough=rebuild)
            if not collections and folder.hashes:
                report.warnings.append(_NO_COLLECTION)
            live = [found for one in collections if (found := store.find_generation(connection, one.name)) is not None]
            known = {generation.number: store.document_hashes(connection, generation) for generation in live}
            indexed = {doc_id: digest for hashes in known.values() for doc_id, digest in hashes.items()}
            # Before a generation has the new names: were this the end, the next call would find the moves again.
            report.labels = follow_moves(workspace, _renamed(indexed, folder), grants=False)
            if plan is not None:
                number, seconds = _pending_work(indexed, folder, embedder)
                plan(PendingWork(number, len(collections) * seconds, not live))
            guarded = not accept and _has_deployed(workspace)
            engines = open_engines()
            how = _How(write_seed=write_seed, quick=quick, rebuild=rebuild)
            for collection in collections:
                indexer = _Indexer(workspace, connection, folder, report, progress, how, engines, known)
                indexer.bring_up_to_date(Recipe(collection, language, embedder), guarded)
                if indexer.sent:
                    switch(connection, engines, collection.name)
            if report.added or report.updated or report.deleted:
                with connected(workspace.records) as records, transaction(records):
                    events.EventLog.record(
                        records, [events.Event(events.EventType.INDEX_COMPLETED, payload=report.counts)]
                    )

    with workspace.exclusive("indexing", wait):
        report = IndexReport()
        connection = _open_or_set_aside(workspace, report, check=rebuild or (not quick and _is_small(workspace)))
        try:
            update(connection, report)
        except NewerRelease:
            raise
        except Damaged:
            connection.close()
            report = IndexReport()
            connection = _open_or_set_aside(workspace, report, check=not quick)
            if not report.warnings:  # the index is sound
                raise
            update(connection, report)
        finally:
            connection.close()
    report.seconds = round(time.perf_counter() - started, 3)
    return report


def _is_small(workspace: Workspace) -> bool:
    """Return whether a check of the whole database takes no time to speak of."""
    return workspace.database.exists() and workspace.database.stat().st_size <= _CHECKED_BYTES


_NO_COLLECTION = Diagnostic(
    "HIVE-211",
    "the workspace has no collection, so none of its documents is indexed",
    "collections",
    "$",
    "add collections/<name>.json with the documents' fields, and run `hive index` again",
    severity="warning",
)


def _has_deployed(workspace: Workspace) -> bool:
    with connected(workspace.records) as records:
        return records.execute("SELECT 1 FROM config_versions LIMIT 1").fetchone() is not None


def _folder(
    workspace: Workspace, connection: sqlite3.Connection, report: IndexReport, progress: Progress, *, thorough: bool
) -> DocumentFolder:
    """Return the documents' files with their hashes; unreadable ones are added to the report."""
    folder = DocumentFolder(
        workspace, connection, lambda done, total: progress("looking for changes", done, total), thorough=thorough
    )
    folder.remember()
    for doc_id, why in (folder.unreadable | dict.fromkeys(folder.links, _A_LINK)).items():
        file = f"documents/{doc_id}".encode(errors="replace").decode()
        report.skipped.append({"file": file, "line": None, "message": why})
    return folder


def _renamed(indexed: Mapping[str, str], folder: DocumentFolder) -> dict[str, str]:
    """Return the new doc_id of each indexed document that is gone, where one new document alone has its content.

    `indexed` are the hashes of the live index. An empty document says nothing about what it was.
    """
    present = folder.hashes
    unread = folder.unreadable.keys() | folder.links
    gone, new = defaultdict(list), defaultdict(list)
    for doc_id in indexed.keys() - present.keys() - unread:
        gone[indexed[doc_id]].append(doc_id)
    for doc_id in present.keys() - indexed.keys() if gone else ():
        new[present[doc_id]].append(doc_id)
    return {
        old: new[digest][0]
        for digest, (old, *others) in gone.items()
        if not others and len(new[digest]) == 1 and folder.size(new[digest][0])
    }


def _pending_work(
    indexed: Mapping[str, str], folder: DocumentFolder, embedder: providers.Embedder | None
) -> tuple[int, float]:
    """Return the number of new and changed documents, and a rough estimate of the time for them in one collection."""
    changed = [doc_id for doc_id, digest in folder.hashes.items() if indexed.get(doc_id) != digest]
    pace = _READ_PER_SECOND if embedder is None else _EMBEDDED_PER_SECOND
    return len(changed), sum(map(folder.size, changed)) / pace


def is_indexed(workspace: Workspace) -> bool:
    """Return whether every collection has an index, current or not."""
    if not workspace.database.exists():
        return False
    with connected(workspace.database) as connection:
        return all(store.find_generation(connection, name) is not None for name in collection_names(workspace))


def index_is_stale(workspace: Workspace) -> bool:
    """Return whether documents, collections or settings changed since the index was built."""
    if not workspace.database.exists():
        return True
    with connected(workspace.database) as connection:
        hashes = DocumentFolder(workspace, connection).hashes
        for name in collection_names(workspace):
            live = store.find_generation(connection, name)
            if live is None or store.document_hashes(connection, live) != hashes:
                return True
    return False


@dataclass(frozen=True)
class Recipe:
    """The inputs of an index besides the documents; `language` is its analyzer's name."""

    schema: Collection
    language: str
    embedder: providers.Embedder | None

    @property
    def model_id(self) -> str | None:
        return self.embedder.model_id if self.embedder else None

    @property
    def digest(self) -> str:
        parts = (FORMAT, analysis.ANALYZER, self.language, providers.TOKENIZER, self.schema.digest())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def made(self, generation: Generation) -> bool:
        """Return whether a generation was built by this recipe."""
        return generation.recipe == self.digest and generation.embedding_model == self.model_id


def _language(workspace: Workspace) -> str:
    language = workspace.settings.index.language.lower()
    if language not in analysis.languages():
        fix = did_you_mean(language, analysis.languages(), f"use one of: {', '.join(analysis.languages())}")
        raise HiveError.of(
            "HIVE-105", f'no stemmer is called "{language}"', file="hive.toml", path="index.language", fix=fix
        )
    return analysis.exact(language)


def _open_or_set_aside(workspace: Workspace, report: IndexReport, *, check: bool) -> sqlite3.Connection:
    try:
        connection = database.connect(workspace.database)
        with database_errors(workspace.database):
            if check and connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                connection.close()
                raise sqlite3.DatabaseError("the integrity check failed")
        return connection
    except NewerRelease:
        raise
    except Damaged:
        aside = workspace.database.with_name(f"hive.db.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
        workspace.database.rename(aside)
        for suffix in ("-wal", "-shm"):
            workspace.database.with_name("hive.db" + suffix).unlink(missing_ok=True)
        message = f"the database was damaged; it was set aside as .hive/{aside.name} and the index is built anew"
        fix = (
            "nothing to do for index and deployments; runs and approvals of the old file are only in the file set aside"
        )
        report.warnings.append(Diagnostic("HIVE-407", message, ".hive/hive.db", fix=fix, severity="warning"))
        return database.connect(workspace.database)


def _embedder(workspace: Workspace, report: IndexReport) -> providers.Embedder | None:
    embedder, why_not = open_embedder(workspace)
    if why_not is not None:
        report.warnings.append(why_not)
    report.embedding_model = embedder.model_id if embedder else None
    return embedder


@dataclass(frozen=True)
class _How:
    """The ways of a call, as of `build_index`."""

    write_seed: bool
    quick: bool
    rebuild: bool


@dataclass
class _Indexer:
    workspace: Workspace
    connection: sqlite3.Connection
    folder: DocumentFolder
    report: IndexReport
    progress: Progress
    how: _How
    engines: Sequence[Engine]
    known: Mapping[int, dict[str, str]]
    """The hashes of documents of live generations, by their numbers."""
    sent: bool = False
    """Whether copies were sent to the engines."""

    def bring_up_to_date(self, wanted: Recipe, guarded: bool) -> None:
        name = wanted.schema.name
        live = store.find_generation(self.connection, name)
        if live is None or wanted.made(live) or not guarded:
            if live is not None and not wanted.made(live):
                self._say_what_changed(live, wanted)
            self._build(wanted, "live", live)
            if store.find_generation(self.connection, name, "candidate"):
                store.drop(self.workspace, self.connection, name, "candidate")
            return
        served = Recipe(live.schema, live.language, wanted.embedder)
        if served.made(live):
            self._build(served, "live", live)
        else:
            self.report.documents += live.n_documents
            self.report.chunks += live.n_chunks
        self.report.waiting.append(name)
        if self.how.quick:  # no search reads the candidate
            return
        self._say_what_changed(live, wanted)
        candidate = replace(self, report=IndexReport())
        candidate._build(wanted, "candidate", store.find_generation(self.connection, name, "candidate"))
        self.sent |= candidate.sent
        self.report.embedded += candidate.report.embedded
        self.report.skipped += [file for file in candidate.report.skipped if file not in self.report.skipped]

    def _build(self, recipe: Recipe, state: State, old: Generation | None) -> None:
        """Write the generation of `state` again if documents or recipe differ from `old`."""
        old_hashes: dict[str, str] = {}
        if old is not None:
            old_hashes = self.known.get(old.number) or store.document_hashes(self.connection, old)
        hashes = self.folder.hashes
        same_recipe = old is not None and old.recipe == recipe.digest and not self.how.rebuild
        unchanged = {doc_id for doc_id in hashes if same_recipe and old_hashes.get(doc_id) == hashes[doc_id]}
        fresh = self._parse([doc_id for doc_id in hashes if doc_id not in unchanged], recipe)
        self.report.deleted += len(old_hashes.keys() - unchanged - fresh.keys())
        self.report.updated += len(fresh.keys() & old_hashes.keys())
        self.report.added += len(fresh.keys() - old_hashes.keys())
        self.report.unchanged += len(unchanged)
        indexed = {doc_id: hashes[doc_id] for doc_id in unchanged}
        indexed |= {doc_id: document.content_hash for doc_id, document in fresh.items()}
        new_hash = store.index_hash(recipe.digest, recipe.model_id, indexed)
        name = recipe.schema.name
        # Engines get their copy before searches read the new generation.
        written: State = "next" if state == "live" and self.engines else state
        anew = self.how.write_seed or self.how.rebuild
        up_to_date = self._holds(old, new_hash) and not anew
        if up_to_date:
            written = state
            store.drop(self.workspace, self.connection, name, "next")
        elif written != "next" or not self._holds(store.find_generation(self.connection, name, "next"), new_hash):
            usable = old is not None and self._usable(old) and old.embedding_model == recipe.model_id
            parts = store.parts_of(self.connection, old) if old else []
            former = Former.of(self.connection, parts, old_hashes)
            contents = former.followed_by(fresh, unchanged, anew=anew or not usable)
            vectors = self._embed(contents, recipe, None if anew or not usable else former)
            self.progress("writing the index", 0, 1)
            store.write_generation(
                self.workspace,
                self.connection,
                contents,
                vectors,
                state=written,
                schema=recipe.schema,
                language=recipe.language,
                recipe=recipe.digest,
                embedding_model=recipe.model_id,
                index_hash=new_hash,
            )
        if not (self.how.quick and up_to_date):  # a check before each search sends no request without a change
            ship(self.workspace, self.engines, recipe.schema, written, self.progress)
            self.sent = True
        if written == "next":
            store.drop(self.workspace, self.connection, name, "candidate")
            store.promote(self.workspace, self.connection, name, "next")
        now = store.find_generation(self.connection, name, state)
        assert now is not None
        self.report.documents += now.n_documents
        self.report.chunks += now.n_chunks

    def _holds(self, generation: Generation | None, new_hash: str) -> bool:
        """Return whether a generation has this hash, and vectors that can be read."""
        return generation is not None and generation.index_hash == new_hash and self._usable(generation)

    def _usable(self, generation: Generation) -> bool:
        again = self.how.rebuild or (not self.how.quick and _is_small(self.workspace))
        return store.vectors_usable(self.workspace, self.connection, generation, again=again)

    def _say_what_changed(self, old: Generation, wanted: Recipe) -> None:
        changes = []
        if old.recipe != wanted.digest:
            changes.append(
                "its fields, its chunking, the language or the reading of words changed: every document is read anew"
            )
        if old.embedding_model != wanted.model_id:
            changes.append(
                f"the embedding model was {old.embedding_model or 'none'} and is {wanted.model_id or 'none'}:"
                f" {'every chunk gets a new vector' if wanted.model_id else 'the vectors are dropped'}"
            )
        for change in changes:
            message = f'collection "{wanted.schema.name}": {change}'
            self.report.warnings.append(Diagnostic("HIVE-406", message, ".hive/hive.db", severity="info"))

    def _parse(self, doc_ids: Sequence[str], recipe: Recipe) -> dict[str, IndexedDocument]:
        vocabulary = TermVocabulary(self.connection)
        parsed: dict[str, IndexedDocument] = {}
        for number, doc_id in enumerate(doc_ids):
            self.progress("reading documents", number, len(doc_ids))
            raw = self.folder.read(doc_id)
            if raw is None:  # deleted since it was hashed
                continue
            try:
                document = parse_document(doc_id, raw, recipe.schema)
            except HiveError as error:
                first = error.diagnostics[0]
                self.report.skipped.append({"file": first.file, "line": first.line, "message": first.message})
                continue
            self.report.warnings.extend(document.warnings)
            heads = is_exact(recipe.language)
            chunks = chunking.chunk_markdown(document.body, recipe.schema.chunking, WordPieces(), heads=heads)
            if len(chunks) > chunking.MOST_CHUNKS:
                self.report.warnings.append(_too_many_chunks(doc_id))
                del chunks[chunking.MOST_CHUNKS :]
            if not document.title and not document.body.strip():
                chunks = []
            parsed[doc_id] = _indexed(document, chunks, vocabulary, recipe.language)
        vocabulary.save()
        return parsed

    def _embed(self, contents: Contents, recipe: Recipe, former: Former | None) -> NDArray[np.float32] | None:
        """Return the vectors of a new segment: those of the `former` generation, cached ones, or new ones."""
        if recipe.embedder is None:
            return None
        chunks = [(contents.new[d].chunks[n], contents.new[d].title) for _, d, n in contents.order]
        hashes = [chunk[2] for chunk, _ in chunks]
        known = {} if former is None else former.vector_rows(set(hashes), contents.kept)
        missing = [row for row, digest in enumerate(hashes) if digest not in known]
        vectors = np.zeros((len(hashes), recipe.embedder.dimensions), np.float32)
        if missing or self.how.write_seed or not contents.kept:
            cache = embedding_cache.EmbeddingCache(self.workspace, recipe.embedder)
            texts = [_embedded_text(*chunks[row]) for row in missing]
            wanted = [hashes[row] for row in missing]
            self.report.embedded += cache.missing(wanted)
            vectors[missing] = cache.vectors(wanted, texts, lambda done, n: self.progress("embedding", done, n))
            if hashes and not contents.kept:
                others = self.connection.execute("SELECT DISTINCT text_hash FROM chunks")
                used = [*hashes, *(row[0] for row in others)]
                cache.compact(used)
                if self.how.write_seed:
                    cache.write_seed(used)
            else:
                cache.join()
        for segment in {segment for segment, _ in known.values()}:
            matrix = segment_vectors(self.workspace, segment)
            rows = [row for row, digest in enumerate(hashes) if known.get(digest, (0, 0))[0] == segment]
            vectors[rows] = matrix[[known[hashes[row]][1] for row in rows]]
        return vectors


def _embedded_text(chunk: tuple[str, str, bytes, bytes], title: str) -> str:
    path, (head, text) = tuple(json.loads(chunk[0])), head_of(chunk[1])
    return chunking.Chunk(text, path, path, head).embedded(title)


def _too_many_chunks(doc_id: str) -> Diagnostic:
    most = f"{chunking.MOST_CHUNKS:,}"
    why = f"{doc_id} has more than {most} passages: only the first {most} are found and shown"
    fix = "split it, or cut it at fewer headings: chunking.heading_level of its collection"
    return Diagnostic("HIVE-115", why, f"documents/{doc_id}", "$", fix, severity="warning")


def _indexed(
    document: Document, chunks: Sequence[chunking.Chunk], vocabulary: TermVocabulary, language: str
) -> IndexedDocument:
    rows = []
    for chunk in chunks:
        tokens = vocabulary.numbers([*terms(" ".join(chunk.ancestors), language), *terms(chunk.searched, language)])
        hashed = embedding_cache.text_hash(chunk.embedded(document.title))
        rows.append((json.dumps(chunk.heading_path, ensure_ascii=False), chunk.stored, hashed, tokens))
    return IndexedDocument(
        document.doc_id,
        document.content_hash,
        document.title,
        json.dumps(document.metadata, ensure_ascii=False),
        json.dumps(document.front_matter, ensure_ascii=False),
        vocabulary.numbers(terms(document.title or _name(document.doc_id), language)),
        rows,
    )


def _name(doc_id: str) -> str:
    """Return the name of a file without a title, or that of its folder where the file's says nothing."""
    path = PurePosixPath(doc_id)
    return path.parent.name if path.stem.lower() in ("index", "readme") else path.stem
