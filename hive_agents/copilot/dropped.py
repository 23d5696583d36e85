"""Files that a reader dropped into a conversation: only that reader has them, and only in that conversation.

What is kept is the text that the sandboxed readers made of a file, cut into passages. It is in no index, no document
and no event; a turn names its passages by ids, and they are read again whenever the turn is shown.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from hive_agents import runs
from hive_agents.base import Busy, HiveError, NotFound, TooMany, count, one_line
from hive_agents.copilot.asking import asked_terms
from hive_agents.copilot.passages import BETWEEN, CHUNKS, FOLDED, UNFOLDED, NearChunk, windows
from hive_agents.documents import chunking, head_of, terms
from hive_agents.index import ChunkRow, TextIndex
from hive_agents.models.embedding import Recent, WordPieces
from hive_agents.ranking import idf
from hive_agents.readers import ImportFailure, conversion
from hive_agents.store import audit, connected, transaction

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.store import RecordsConnection
    from hive_agents.workspace import Workspace

MOST_FILES = 20
"""Files of a conversation."""
MOST_TEXT = 2_000_000
"""Characters of the text of all files of a conversation: as much is indexed when it is asked."""
MOST_KEPT = 20_000_000
"""Characters of one reader's, in all conversations."""
SHOWN = 3
"""How many files a turn shows passages of."""
LONGEST_NAME = 120
_OF_THREAD = "WHERE tenant = ? AND user = ? AND thread_id = ?"
PATIENCE = 10.0
"""Seconds for which a turn is kept for who was told to come again, and doesn't."""
_read: Recent[tuple[str, ...], _Passages] = Recent(8)


@dataclass(frozen=True)
class DroppedFile:
    """A file of a conversation, `name` as the reader's browser has it, `characters` those of its text."""

    file_id: str
    name: str
    characters: int
    at: str


@dataclass(frozen=True)
class _Passages:
    """The passages of a conversation's files, and their index."""

    rows: Sequence[ChunkRow]
    """`doc_id` is the id of the file."""
    before: Mapping[str, list[int]]
    """How many lines of each file's text stand before each of its passages."""
    index: TextIndex

    @classmethod
    def of(cls, files: Sequence[tuple[str, str, str]], language: str) -> _Passages:
        rows, before = [], {}
        for file_id, name, passages in files:
            lines = []
            for n, (heading, stored) in enumerate(json.loads(passages)):
                head, text = head_of(stored)
                rows.append(ChunkRow(f"{file_id}#{n}", file_id, name, heading, head + text, {}, head=len(head)))
                lines.append(text.count("\n"))
            before[file_id] = list(accumulate(lines[:-1], initial=0))
        texts = [f"{row.title}\n{row.heading}\n{row.text}" for row in rows]
        return cls(rows, before, TextIndex(texts, language))


class _Turns:
    """Whose file is read. Readers of files need up to 2 GB of memory, so that it is one at a time; whoever comes
    meanwhile is told to come again, holds no thread, and has their turn before those who had theirs."""

    def __init__(self) -> None:
        self._lock, self._taken = threading.Lock(), False
        self._line: dict[tuple[str, str], float] = {}
        """When those who wait for their turn asked last, in the order in which they came."""

    @contextmanager
    def of(self, who: tuple[str, str]) -> Iterator[None]:
        """Raises: HIVE-402 where it isn't their turn."""
        with self._lock:
            now = time.monotonic()
            self._line = {one: at for one, at in self._line.items() if now - at < PATIENCE}
            if self._taken or next(iter(self._line), who) != who:
                self._line[who] = now
                raise Busy.of("HIVE-402", "another file is being read", fix="try again in a moment")
            self._line.pop(who, None)
            self._taken = True
        try:
            yield
        finally:
            self._taken = False


_turns = _Turns()


class DroppedFiles:
    """The files of one conversation of one reader; of another's there are none."""

    def __init__(self, workspace: Workspace, reader: Principal, thread_id: str) -> None:
        self.workspace = workspace
        self._key = (reader.tenant, reader.user, thread_id)

    def files(self) -> list[DroppedFile]:
        """Return the files in the order in which they came."""
        query = f"SELECT file_id, name, characters, at FROM thread_files {_OF_THREAD} ORDER BY at, name"
        with connected(self.workspace.records) as connection:
            return [DroppedFile(*row) for row in connection.execute(query, self._key)]

    def convert(self, name: str, data: bytes) -> str:
        """Return the passages of a file, as `add` takes them.

        Raises: HIVE-105 with the reason why it can't be read, HIVE-402 while another file is being read.
        """
        with _turns.of(self._key[:2]):
            try:
                text = conversion.convert_bytes(_shown_name(name), data).markdown
            except ImportFailure as failure:
                raise _refused(str(failure)) from None
        if len(text) > MOST_TEXT:
            raise _refused(f"it has {len(text):,} characters, and {MOST_TEXT:,} are the most")
        chunks = chunking.chunk_markdown(text, chunking.Chunking(), WordPieces())
        return json.dumps([(chunk.heading, chunk.stored) for chunk in chunks], ensure_ascii=False)

    def add(self, name: str, passages: str) -> DroppedFile:
        """Keep a file, in place of one with the same name.

        Raises: HIVE-409 where the conversation is gone, HIVE-433 where it or its reader has as much as may be kept.
        """
        tenant, user, _ = self._key
        file = DroppedFile(f"d{uuid.uuid4().hex[:20]}", _shown_name(name), len(passages), audit.now())
        with connected(self.workspace.records) as connection, transaction(connection):
            if connection.execute(f"SELECT 1 FROM threads {_OF_THREAD}", self._key).fetchone() is None:
                raise NotFound.of("HIVE-409", "there is no such conversation", fix="begin another one", exit_code=2)
            connection.execute(f"DELETE FROM thread_files {_OF_THREAD} AND name = ?", (*self._key, file.name))
            sums = "SELECT count(*), coalesce(sum(characters), 0) FROM thread_files"
            files, here = connection.execute(f"{sums} {_OF_THREAD}", self._key).fetchone()
            _, kept = connection.execute(f"{sums} WHERE tenant = ? AND user = ?", (tenant, user)).fetchone()
            if files >= MOST_FILES:
                raise _too_much(f"this conversation has {count(files, 'file')}, and {MOST_FILES} are the most")
            if here + len(passages) > MOST_TEXT or kept + len(passages) > MOST_KEPT:
                raise _too_much("the files that are kept would have too much text")
            values = (*self._key, file.file_id, file.name, file.characters, passages, file.at)
            connection.execute("INSERT INTO thread_files VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        return file

    def remove(self, file_id: str) -> None:
        """Delete a file; answers that showed a passage of it no longer do. Raises: HIVE-409."""
        delete = f"DELETE FROM thread_files {_OF_THREAD} AND file_id = ? RETURNING file_id"
        with connected(self.workspace.records) as connection, transaction(connection):
            if connection.execute(delete, (*self._key, file_id)).fetchone() is None:
                fix = "list the files of the conversation"
                raise NotFound.of("HIVE-409", f"there is no file {file_id}", fix=fix, exit_code=2)

    def search(self, question: str, language: str) -> list[str]:
        """Return the ids of the passages that answer a question by its words, those of the best file first.

        A passage counts with at least half of the words that tell what the question is about: they stand before the
        documents', so that one that only shares a word must not.
        """
        found, wanted = self._passages(language), asked_terms(question, language)
        if found is None or not wanted:
            return []
        hits = [
            number
            for number in found.index.top(wanted, SHOWN * CHUNKS)
            if 2 * sum(found.index.has(number, word) for word in wanted) >= len(wanted)
        ]
        files = list(dict.fromkeys(found.rows[number].doc_id for number in hits))[:SHOWN]
        ids = [found.rows[number].chunk_id for number in hits]
        return [one for file_id in files for one in [id for id in ids if id.startswith(f"{file_id}#")][:CHUNKS]]

    def has(self, word: str, language: str) -> bool:
        """Return whether a file has a word, in any form."""
        found = self._passages(language)
        return found is not None and all(found.index.frequencies(terms(word, language)))

    def texts(self, ids: Sequence[str], language: str) -> list[str]:
        """Return the texts of passages, of those that are still there."""
        return [row.text for row in self._rows(ids, language)]

    def shown(self, ids: Sequence[str], question: str, language: str, *, unfold: bool = False) -> list[dict[str, Any]]:
        """Return the JSON of each file that these passages are of: {file_id, name, excerpt, windows}."""
        found = self._passages(language)
        if found is None:
            return []
        asked = asked_terms(question, language)
        counts = zip(asked, found.index.frequencies(asked), strict=True)
        weights = {term: idf(found.index, number) if number else 0.0 for term, number in counts}
        near: dict[str, list[NearChunk]] = {}
        for row in self._rows(ids, language):
            n = int(row.chunk_id.rpartition("#")[2])
            before = found.before[row.doc_id][n] - row.text[: row.head].count("\n")
            near.setdefault(row.doc_id, []).append(NearChunk(row, before=before))
        shown = []
        for file_id, chunks in near.items():
            length = UNFOLDED if unfold else FOLDED
            parts = windows(chunks, question, weights, language, length=length)
            excerpt = BETWEEN.join(one.marked for one in parts)
            listed = [one.to_json() for one in parts]
            shown.append({"file_id": file_id, "name": chunks[0].row.title, "excerpt": excerpt, "windows": listed})
        return shown

    def _rows(self, ids: Sequence[str], language: str) -> list[ChunkRow]:
        found = self._passages(language)
        rows = {row.chunk_id: row for row in found.rows} if found is not None and ids else {}
        return [rows[id] for id in ids if id in rows]

    def _passages(self, language: str) -> _Passages | None:
        """Return the passages of the files that are there now; None without any."""
        with connected(self.workspace.records) as connection:
            ids = connection.execute(f"SELECT file_id FROM thread_files {_OF_THREAD} ORDER BY file_id", self._key)
            known = tuple(file_id for (file_id,) in ids)
            if not known:
                return None

            def read() -> _Passages:
                query = f"SELECT file_id, name, passages FROM thread_files {_OF_THREAD} ORDER BY file_id"
                return _Passages.of([tuple(row) for row in connection.execute(query, self._key)], language)

            return _read.get((str(self.workspace.root), *self._key, language, *known), read)


def forget_files(connection: RecordsConnection, tenant: str, user: str, thread_id: str) -> None:
    """Delete the files of a conversation, in the transaction of its owner."""
    connection.execute(f"DELETE FROM thread_files {_OF_THREAD}", (tenant, user, thread_id))


def forget_unused_files(connection: RecordsConnection, before: str) -> None:
    """Delete the files of conversations without a question since a moment, and that weren't dropped since."""
    key = "t.tenant = thread_files.tenant AND t.user = thread_files.user AND t.thread_id = thread_files.thread_id"
    used = f"SELECT 1 FROM threads t WHERE {key} AND t.updated_at >= ?"
    connection.execute(f"DELETE FROM thread_files WHERE at < ? AND NOT EXISTS ({used})", (before, before))


def end_person(workspace: Workspace, user: str, tenant: str, by: str) -> dict[str, Any]:
    """Do what `runs.end_person` does, and delete the files that the person dropped into conversations."""
    ended = runs.end_person(workspace, user, tenant, by)
    with connected(workspace.records) as connection, transaction(connection):
        connection.execute("DELETE FROM thread_files WHERE tenant = ? AND user = ?", (tenant, user))
    return ended


def _shown_name(name: str) -> str:
    """Return a file's name without the folders that it was in.

    >>> _shown_name("C:\\\\mine\\\\lease 2024.pdf"), _shown_name("notes/"), _shown_name("x" * 200 + ".pdf")[-6:]
    ('lease 2024.pdf', 'unnamed', 'xx.pdf')
    """
    last = one_line(re.split(r"[/\\]", name)[-1], 10_000) or "unnamed"
    stem, dot, suffix = last.rpartition(".")
    return last if len(last) <= LONGEST_NAME else f"{stem[: LONGEST_NAME - 20]}{dot}{suffix[:19]}"


def _refused(why: str) -> HiveError:
    fix = "drop a text, Markdown, HTML, PDF, Office or mail file with text in it, or a part of it"
    return HiveError.of("HIVE-105", why, path="file", fix=fix, exit_code=2)


def _too_much(why: str) -> TooMany:
    return TooMany.of("HIVE-433", why, fix="remove files, here or in other conversations", exit_code=1)
