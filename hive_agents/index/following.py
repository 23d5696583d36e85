"""What a generation takes over from the one before it: segments, documents of segments, and vectors of texts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hive_agents.index.segments import Ints, Numbering, SegmentPart, absorbed, renumbered


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
    """A generation to be written: what stays of former segments, and the documents of a new one, by doc_id.

    `order` has (chunk_id, document, n) of the new segment by chunk_id, which breaks ties. `documents` and `chunks` are
    the numbers of the new segment's in the generation.
    """

    kept: list[SegmentPart]
    new: list[IndexedDocument]
    order: list[tuple[str, int, int]]
    documents: Ints
    chunks: Ints


def chunk_order(documents: Sequence[IndexedDocument]) -> list[tuple[str, int, int]]:
    return sorted(
        (f"{document.doc_id}#{n}", number, n)
        for number, document in enumerate(documents)
        for n in range(len(document.chunks))
    )


@dataclass
class Former:
    """The generation that another one follows, and which of its parts and rows stay."""

    connection: sqlite3.Connection
    ids: list[str]
    """The doc_id of each document, by number."""
    parts: list[SegmentPart]
    chunk_documents: list[Ints]
    is_older: bool = False
    """Whether it was written by a release without segments."""

    @classmethod
    def of(cls, connection: sqlite3.Connection, parts: list[SegmentPart], doc_ids: Iterable[str]) -> Former:
        sql = "SELECT chunk_documents, lines IS NULL FROM segments WHERE segment = ?"
        rows = [connection.execute(sql, (part.segment,)).fetchone() for part in parts]
        documents = [np.frombuffer(row[0], np.int32) for row in rows]
        return cls(connection, list(doc_ids), parts, documents, any(row[1] for row in rows))

    def followed_by(self, fresh: Mapping[str, IndexedDocument], unchanged: set[str], *, anew: bool) -> Contents:
        """Return the next generation: the `unchanged` documents and the `fresh` ones.

        With `anew`, and where too much was deleted, all are in one segment.
        """
        stays = np.array([doc_id in unchanged for doc_id in self.ids], np.bool_)
        parts = []
        for part, of in zip(self.parts, self.chunk_documents, strict=True):
            live = part.documents >= 0
            gone = np.flatnonzero(live)[~stays[part.documents[live]]]
            parts.append(part.without(gone, of))
        size = sum(len(document.chunks) for document in fresh.values())
        n_kept = 0 if anew or self.is_older else absorbed(parts, size)
        carried = [one for part in parts[n_kept:] for one in load_documents(self.connection, part).values()]
        new = sorted([*fresh.values(), *carried], key=lambda document: document.doc_id)
        order = chunk_order(new)
        kept = [part for part in parts[:n_kept] if (part.documents >= 0).any()]
        before = Numbering([part.chunks for part in self.parts])

        def chunk_id(number: int) -> str:
            where = self.parts[before.part[number]].segment, int(before.local[number])
            row = self.connection.execute("SELECT chunk_id FROM chunks WHERE generation = ? AND chunk = ?", where)
            return str(row.fetchone()[0])

        ids = [document.doc_id for document in new]
        documents, new_documents = renumbered(
            len(self.ids), [part.documents for part in kept], self.ids.__getitem__, ids
        )
        chunk_ids = [chunk for chunk, _, _ in order]
        chunks, new_chunks = renumbered(len(before), [part.chunks for part in kept], chunk_id, chunk_ids)
        numbered = [SegmentPart(part.segment, *numbers) for part, *numbers in zip(kept, documents, chunks, strict=True)]
        return Contents(numbered, new, order, new_documents, new_chunks)

    def vector_rows(self, hashes: set[bytes], kept: Sequence[SegmentPart]) -> dict[bytes, tuple[int, int]]:
        """Return where the vectors of some texts are, as (segment, row), if a part had them that isn't `kept` whole."""
        whole = {part.segment: part.chunks for part in kept}
        found = {}
        for part in self.parts:
            stays = whole.get(part.segment, np.full(len(part.chunks), -1, np.int32))
            for row in np.flatnonzero((part.chunks >= 0) & (stays < 0)).tolist():
                sql = "SELECT text_hash FROM chunks WHERE generation = ? AND chunk = ?"
                (digest,) = self.connection.execute(sql, (part.segment, row)).fetchone()
                if digest in hashes:
                    found[digest] = (part.segment, row)
        return found


def load_documents(connection: sqlite3.Connection, part: SegmentPart) -> dict[int, IndexedDocument]:
    """Return what is left of a segment's documents, by their numbers in it."""
    if not (part.documents >= 0).any():
        return {}
    loaded: dict[int, IndexedDocument] = {}
    for number, doc_id, digest, title, metadata, front_matter, title_tokens in connection.execute(
        "SELECT document, doc_id, content_hash, title, metadata, front_matter, title_tokens"
        " FROM documents WHERE generation = ?",
        (part.segment,),
    ):
        if part.documents[number] >= 0:
            loaded[number] = IndexedDocument(doc_id, digest, title, metadata, front_matter, title_tokens, [])
    for number, *chunk in connection.execute(
        "SELECT document, heading, text, text_hash, tokens FROM chunks WHERE generation = ? ORDER BY document, n",
        (part.segment,),
    ):
        if number in loaded:
            loaded[number].chunks.append(tuple(chunk))
    return loaded
