"""The documents' files as they stand now, and which of them are still what they were when they were read.

A file whose stamp (size, times, inode) is the one that it was read under holds what it held then. A file that was
changed so shortly before it was read that another change could leave the same stamp is read again, until it can't.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from functools import cached_property

from hive_agents.errors import HiveError
from hive_agents.files import read_bytes, unlinked
from hive_agents.retrieval.documents import content_hash, list_documents
from hive_agents.store import transaction
from hive_agents.workspace import Workspace

COARSEST = 2_000_000_000
"""Nanoseconds by which times of files are told apart at the least: FAT's are even seconds."""

Looking = Callable[[int, int], None]
"""Called with how many files are read, of how many."""


class DocumentFolder:
    """What lies below `documents/` at one moment. Raises: as `list_documents`.

    With `thorough` every file is read, whatever its stamp says.
    """

    def __init__(
        self,
        workspace: Workspace,
        connection: sqlite3.Connection,
        looking: Looking = lambda done, total: None,
        *,
        thorough: bool = False,
    ) -> None:
        self._workspace = workspace
        self._connection = connection
        self._looking = looking
        self._began = time.time_ns()  # before the files are listed
        listed = list_documents(workspace.documents)
        self.links = listed.links
        """What would be a document, or a folder of documents, and is a link."""
        self.unreadable: dict[str, str] = {}
        """Why a file can't be read; complete once `hashes` is asked for."""
        self._listed = listed.files
        self._known: dict[str, tuple[str, str]] = {
            doc_id: (stamp, digest)
            for doc_id, stamp, digest in connection.execute("SELECT doc_id, stamp, content_hash FROM file_stamps")
        }
        self._trusted = {} if thorough else self._known

    @cached_property
    def hashes(self) -> dict[str, str]:
        """The hash of each file that can be read, by doc_id; one whose stamp is known is not opened."""
        stamps = self._stamps
        found = {
            doc_id: known[1]
            for doc_id, stamp in stamps.items()
            if (known := self._trusted.get(doc_id)) is not None and known[0] == stamp
        }
        unknown = [doc_id for doc_id in stamps if doc_id not in found]
        for number, doc_id in enumerate(unknown):
            self._looking(number, len(unknown))
            data = self.read(doc_id)
            if data is not None:
                found[doc_id] = content_hash(data)
        return {doc_id: found[doc_id] for doc_id in stamps if doc_id in found}

    def read(self, doc_id: str) -> bytes | None:
        """Return the file's content; None where it went away meanwhile, or is `unreadable`."""
        try:
            doc_id.encode()
            return read_bytes(self._workspace.documents / doc_id)
        except FileNotFoundError:
            return None
        except UnicodeEncodeError:
            self.unreadable[doc_id] = "the file's name is not UTF-8"
        except HiveError as error:
            self.unreadable[doc_id] = error.diagnostics[0].message
        except OSError as error:
            self.unreadable[doc_id] = f"cannot be read: {error.strerror}"
        return None

    def size(self, doc_id: str) -> int:
        return self._listed[doc_id].st_size

    def remember(self) -> None:
        """Keep the stamps that the files were read under, for the next look."""
        settled = self._began - _lag(self._workspace) - COARSEST
        kept = {
            doc_id: (self._stamps[doc_id], digest)
            for doc_id, digest in self.hashes.items()
            if max(self._listed[doc_id].st_mtime_ns, self._listed[doc_id].st_ctime_ns) < settled
        }
        gone = self._known.keys() - kept.keys()
        new = [(doc_id, *one) for doc_id, one in kept.items() if self._known.get(doc_id) != one]
        if gone or new:
            with transaction(self._connection):
                self._connection.executemany("DELETE FROM file_stamps WHERE doc_id = ?", [(one,) for one in gone])
                self._connection.executemany("INSERT OR REPLACE INTO file_stamps VALUES (?, ?, ?)", new)

    @cached_property
    def _stamps(self) -> dict[str, str]:
        return {doc_id: _stamp(status) for doc_id, status in self._listed.items()}


def _stamp(status: os.stat_result) -> str:
    # The time of the last change of any kind is the one that nobody can set back.
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _lag(workspace: Workspace) -> int:
    """Return by how many nanoseconds the file system's clock, which stamps the files, is behind ours."""
    with tempfile.TemporaryFile(dir=unlinked(workspace.state)) as probe:
        return time.time_ns() - os.fstat(probe.fileno()).st_mtime_ns
