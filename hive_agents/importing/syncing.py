"""An import is a sync: what changed in a source since the last time is changed in `documents/`, and nothing else.

Each document has three texts: the one that the import wrote last, the one that is there now, and the one that the
source's file gives now. Where only the source changed, the document follows; where only the document did, a person
edited it and it stays; where both did, it stays and a note says so.

Killed at any instant, the next import finishes: what is about to be written is recorded before, and a document that
holds either text is the import's own.
"""

from __future__ import annotations

import difflib
import glob
import hashlib
import json
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from hive_agents.importing.conversion import VERSION, convert_bytes, kind_of, unsupported
from hive_agents.importing.imported import Imported, ImportFailure
from hive_agents.importing.imported_files import ImportedFiles
from hive_agents.importing.including import with_includes
from hive_agents.importing.placing import ORIGIN, document_text, places
from hive_agents.importing.records import Record, Records, RememberedSource
from hive_agents.importing.report import ImportReport
from hive_agents.importing.sources import Listing, SourceFile, list_files
from hive_agents.importing.splitting import with_rows
from hive_agents.workspace import Workspace

BATCH, WRITERS = 64, 8
SyncProgress = Callable[[str, int, int], None]


class Sync:
    """One source brought up to date with its documents; whoever calls holds the workspace's lock.

    `theirs` takes the source's text where a document was edited by hand; the edited text is kept as a note.
    """

    def __init__(
        self,
        workspace: Workspace,
        connection: sqlite3.Connection,
        source: RememberedSource,
        report: ImportReport,
        *,
        theirs: bool = False,
        progress: SyncProgress | None = None,
    ) -> None:
        self._workspace = workspace
        self._documents = ImportedFiles(workspace)
        self._records = Records(connection)
        self._source = source
        self._report = report
        self._theirs = theirs
        self._progress = progress
        self._known = self._records.of(source)
        self._files: dict[PurePosixPath, SourceFile] = {}
        self._taken: set[str] = set()
        self._batch: list[tuple[Record, str, Record]] = []
        self._told_of: list[Record] = []
        self._recipe = hashlib.sha256(
            f"{VERSION}\0{json.dumps(dict(source.metadata), sort_keys=True)}".encode()
        ).hexdigest()

    def run(self, only: PurePosixPath | None = None) -> list[Record]:
        """Add, change and rename; return the records whose files are gone, for `delete`.

        `only` limits the sync to one file, or folder, of the source.
        Raises: ImportFailure where the source can't be listed.
        """
        self.settle()
        source = self._source
        listing = list_files(source.path, source.pattern, source.rev, workspace=self._workspace.root)
        self._files = {found.file: found for found in listing.found}
        listing = with_rows(listing if only is None else _limited(listing, only))
        for why, number in listing.ignored.items():
            self._report.ignored[why] = self._report.ignored.get(why, 0) + number
        self._refusals(listing)
        gone = self._gone(listing, only)
        if listing.found == [] and len(gone) > 1 and only is None:
            raise ImportFailure(f"holds no file any more; its {len(gone)} documents stay")
        moved: dict[str, list[Record]] = {}
        for record in gone:
            if record.file_hash and record.doc_id:
                moved.setdefault(record.file_hash, []).append(record)
        for number, found in enumerate(listing.found):
            if self._progress is not None:
                self._progress("importing", number, len(listing.found))
            self._file(found, moved)
            if len(self._batch) >= BATCH:
                self._write()
        self._write()
        # Not before: of an import that is interrupted, whoever waits for the report was told of nothing.
        self._records.change(self._source, put=self._told_of)
        if only is None:
            self._records.synced(self._source)
        left = self._records.of(self._source)
        return [record for record in gone if record.file in left and self._is_deletable(left[record.file])]

    def settle(self) -> None:
        """Finish what a killed import left half done."""
        self._clear_half_written()
        self._finish_moves()

    def everything(self) -> list[Record]:
        """Return the records whose documents nobody edited, of a source that is gone as a whole."""
        return [record for record in self._known.values() if self._is_untouched(record)]

    def there(self) -> list[str]:
        """Return the documents of this source that are in `documents/` now."""
        records = self._records.of(self._source).values()
        names = [one.doc_id for one in records if one.doc_id is not None]
        return [doc_id for doc_id in names if self._documents.text(doc_id) is not None]

    def delete(self, gone: Sequence[Record]) -> None:
        """Delete the documents of these records, and the folders that they leave empty."""
        for record in gone:
            if record.doc_id is not None:
                self._documents.remove(record.doc_id)
                self._report.deleted.append(record.doc_id)
        self._records.change(self._source, drop=[record.file for record in gone])

    def _clear_half_written(self) -> None:
        """Remove the temporary files of a killed import: what it was about to write is recorded."""
        for record in self._known.values():
            if record.doc_id is not None and (record.pending is not None or record.moved_from is not None):
                path = self._documents.path(record.doc_id)
                for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
                    temporary.unlink(missing_ok=True)

    def _finish_moves(self) -> None:
        """Finish what a killed import began to rename: the new document is there, or nothing of it is."""
        for record in [one for one in self._known.values() if one.moved_from is not None]:
            old = self._known.get(record.moved_from or "")
            there = record.doc_id is not None and self._documents.text(record.doc_id) is not None
            if there and record.doc_id and old is not None and old.doc_id:
                self._documents.remove(old.doc_id)
                self._report.renamed.append({"from": old.doc_id, "to": record.doc_id})
            drop = [record.moved_from or ""] if there else [record.file]
            put = [replace(record, moved_from=None)] if there else []
            self._records.change(self._source, put=put, drop=drop)
            self._known = self._records.of(self._source)
        self._taken = self._records.doc_ids()

    def _refusals(self, listing: Listing) -> None:
        for file, why in listing.refused.items():
            self._refuse(file, self._shown(file), why, None)

    def _gone(self, listing: Listing, only: PurePosixPath | None) -> list[Record]:
        there = {str(found.file) for found in listing.found} | set(listing.refused)
        gone = []
        for record in self._known.values():
            path = PurePosixPath(record.file)
            hidden = any(str(parent) in listing.refused for parent in path.parents)
            beside = only is not None and not path.is_relative_to(only)
            if record.file not in there and not hidden and not beside:
                gone.append(record)
        return gone

    def _is_deletable(self, record: Record) -> bool:
        """Return whether a gone file's document is there and nobody edited it; a record of anything else goes."""
        if self._is_untouched(record):
            return True
        self._records.change(self._source, drop=[record.file])
        if record.doc_id is not None and self._documents.text(record.doc_id) is not None:
            self._conflict(record.doc_id, "its file is gone, and it was edited by hand: it stays, as your own", None)
        return False

    def _is_untouched(self, record: Record) -> bool:
        text = self._documents.text(record.doc_id) if record.doc_id is not None else None
        return text is not None and text in (record.written, record.pending)

    def _file(self, found: SourceFile, moved: dict[str, list[Record]]) -> None:
        file = str(found.file)
        known = self._known.get(file)
        digest = None
        try:
            if kind_of(found.file.name) is None:
                raise unsupported(found.file.name)
            data, _ = with_includes(found.read(), found.file, self._files)
            digest = hashlib.sha256(data).hexdigest()
            if self._is_unchanged(known, digest):
                return
            text = self._converted(found, data)
        except ImportFailure as failure:
            self._refuse(file, found.shown, str(failure), digest)
            return
        old = next(iter(moved.get(digest, [])), None) if known is None or known.doc_id is None else None
        if old is not None:
            moved[digest].remove(old)
        try:
            self._place(found, digest, text, known, old)
        except ImportFailure as failure:  # of its place, which may be mended while the file stays as it is
            self._report.skip(found.shown, str(failure))

    def _is_unchanged(self, known: Record | None, digest: str) -> bool:
        if known is None or known.file_hash != digest or known.recipe != self._recipe:
            return False
        if known.doc_id is None:  # refused before, and it would be again
            self._report.still_skipped += 1
            return True
        there = self._documents.text(known.doc_id)
        if there != known.written:
            if self._theirs:
                return False
            self._report.kept.append(known.doc_id)
        else:
            self._report.unchanged += 1
        return True

    def _converted(self, found: SourceFile, data: bytes) -> str:
        root = self._workspace.documents.resolve()
        if self._source.rev is None and Path(found.shown).resolve().is_relative_to(root):
            raise ImportFailure("is in the documents folder already")
        row = found.row
        imported = Imported(row.markdown, row.title) if row else convert_bytes(found.file.name, data)
        return document_text(imported, found.origin, self._source.metadata)

    def _place(self, found: SourceFile, digest: str, text: str, known: Record | None, old: Record | None) -> None:
        """Decide what becomes of a file that is new, renamed or changed."""
        file = str(found.file)
        if known is None or known.doc_id is None:
            doc_id, there = self._free_place(found, text, old.doc_id if old else None)
            named = str(PurePosixPath(self._source.place, next(places(found.place))))
            if doc_id != named:
                self._report.beside.append({"doc_id": doc_id, "named": named, "file": found.shown})
            record = Record(file, doc_id, None, None)
            if old is not None and old.doc_id == doc_id:  # only its file's name changed
                self._records.change(self._source, put=[replace(old, file=file)], drop=[old.file])
                record, old = replace(old, file=file), None
        else:
            doc_id, record = known.doc_id, known
            there = self._documents.text(doc_id)
        done = Record(file, doc_id, digest, self._recipe, written=text)
        if old is not None and old.doc_id is not None and there is None:
            self._move(old, done)
        elif there is None and record.written is not None and record.file_hash == digest and not self._theirs:
            self._records.change(self._source, put=[done])
            self._report.kept.append(doc_id)
        elif there is None and record.written is not None and not self._theirs:
            self._told_of.append(done)
            self._conflict(doc_id, "it was deleted by hand, and its file changed: it stays away", None)
        elif there is None or (there in (record.written, record.pending) and there != text):
            self._batch.append((replace(record, pending=text), text, done))
        elif there == text:
            self._records.change(self._source, put=[done])
            self._report.unchanged += 1
        elif self._theirs:
            self._documents.note(doc_id, there, suffix=".mine.md")
            self._batch.append((replace(record, pending=text), text, done))
        else:
            base = record.written if record.written is not None else ""
            note = self._documents.note(doc_id, _difference(base, text, doc_id), suffix=".diff")
            self._told_of.append(done)
            what = "its file" if record.file_hash != digest else "what an import makes of its file"
            self._conflict(doc_id, f"edited by hand, and {what} changed: your text stays", note)
        self._taken.add(doc_id)

    def _move(self, old: Record, done: Record) -> None:
        """Put a renamed file's document where its new name says; what was edited in it goes along."""
        there = self._documents.text(old.doc_id or "")
        if there is None:  # deleted by hand: stays away under its new name, too
            self._records.change(self._source, put=[done], drop=[old.file])
            return
        edited = there not in (old.written, old.pending)
        self._records.change(self._source, put=[replace(done, moved_from=old.file)])
        self._documents.put(done.doc_id or "", there if edited else done.written or "")
        self._documents.remove(old.doc_id or "")
        self._records.change(self._source, put=[done], drop=[old.file])
        self._report.renamed.append({"from": old.doc_id or "", "to": done.doc_id or ""})

    def _free_place(self, found: SourceFile, text: str, own: str | None) -> tuple[str, str | None]:
        """Return the doc_id of a file that has none yet, and what is there already if it came from the same file.

        `own` is the document of a renamed file, which keeps its place where the new name leads there, too.
        """
        for doc_id in places(found.place):
            doc_id = str(PurePosixPath(self._source.place, doc_id))
            if doc_id in self._taken and doc_id != own:
                continue
            if self._documents.path(doc_id).is_dir():
                continue
            there = self._documents.text(doc_id)
            if there is None or there == text or doc_id == own or _origin(there) == found.origin.name:
                return doc_id, there
        raise AssertionError("places never ends")

    def _write(self) -> None:
        """Write a batch of documents: first that they are coming, then they, then that they are there."""
        batch, self._batch = self._batch, []
        if not batch:
            return
        self._records.change(self._source, put=[pending for pending, _, _ in batch])
        # Writing is waiting for the disk, twice a document: several wait at a time. Where one would be another's
        # folder, the document comes first.
        names = {pending.doc_id for pending, _, _ in batch}
        nested = any(str(folder) in names for name in names for folder in PurePosixPath(name or "").parents)
        if nested:
            batch.sort(key=lambda one: (one[0].doc_id or "").count("/"))
        with ThreadPoolExecutor(1 if nested else WRITERS) as writers:
            failures = list(writers.map(self._failure_to_put, batch))
        written = []
        for (pending, _, done), failure in zip(batch, failures, strict=True):
            doc_id = pending.doc_id or ""
            if failure is not None:
                self._records.change(self._source, drop=[pending.file])
                self._report.skip(self._shown(pending.file), str(failure))
                continue
            new = pending.written is None
            (self._report.added if new else self._report.changed).append(doc_id)
            self._report.imported.append(doc_id)
            written.append(done)
        self._records.change(self._source, put=written)

    def _failure_to_put(self, one: tuple[Record, str, Record]) -> ImportFailure | None:
        pending, text, _ = one
        try:
            self._documents.put(pending.doc_id or "", text)
        except ImportFailure as failure:
            return failure
        return None

    def _refuse(self, file: str, shown: str, why: str, digest: str | None) -> None:
        known = self._known.get(file)
        if known is not None and known.refused == why and known.file_hash == digest:
            self._report.still_skipped += 1
            return
        if known is not None and known.doc_id is not None:
            self._report.skip(shown, f"{why}; documents/{known.doc_id} stays as it was imported before")
            self._told_of.append(replace(known, file_hash=digest, recipe=self._recipe, refused=why))
            return
        self._report.skip(shown, why)
        self._told_of.append(Record(file, None, digest, self._recipe, refused=why))

    def _conflict(self, doc_id: str, message: str, note: str | None) -> None:
        self._report.conflicts.append({"doc_id": doc_id, "message": message, "note": note})

    def _shown(self, file: str) -> str:
        path = self._source.path
        if self._source.rev is not None:
            return f"{self._source.rev}:{file}"
        return str(path if path.name == file and path.is_file() else path / file)


def _limited(listing: Listing, only: PurePosixPath) -> Listing:
    found = [one for one in listing.found if one.file.is_relative_to(only)]
    refused = {file: why for file, why in listing.refused.items() if PurePosixPath(file).is_relative_to(only)}
    return Listing(found, refused)


def _origin(text: str) -> Any:
    from hive_agents.errors import HiveError
    from hive_agents.files import frontmatter

    try:
        return frontmatter.values(frontmatter.split(text, "")[0], "").get(ORIGIN)
    except HiveError:
        return None


def _difference(base: str, text: str, doc_id: str) -> str:
    """Return what changed in the source as a unified diff."""
    lines = difflib.unified_diff(
        base.splitlines(keepends=True), text.splitlines(keepends=True), f"{doc_id} (before)", f"{doc_id} (source now)"
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)
