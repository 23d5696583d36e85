"""Three-way sync of a source with its documents.

Each document has three texts: the one written last by an import, the current one, and the one that the source's file
gives now. If only the source changed, the document is updated; if only the document did, a person edited it and it
stays; if both did, it stays and a note has the difference.

An import that is killed is finished by the next one: texts are recorded before they are written, and a document with
the old or the new text counts as unedited.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from hive_agents.base import HiveError
from hive_agents.base.files import frontmatter
from hive_agents.documents import follow_moves
from hive_agents.readers import Imported, ImportFailure, conversion, kind_of, registry
from hive_agents.sync.imported_files import ImportedFiles, difference
from hive_agents.sync.including import with_includes
from hive_agents.sync.placing import ORIGIN, document_text, places
from hive_agents.sync.records import Record, Records, RememberedSource
from hive_agents.sync.report import ImportReport, LeftOut
from hive_agents.sync.sources import Listing, SourceFile, list_files
from hive_agents.sync.splitting import with_parts
from hive_agents.workspace import Workspace

BATCH, WRITERS = 64, 8
LONGEST_DOC_ID = 1_000
"""Bytes: a path has at most 4,096, and a document's texts are in folders elsewhere, too."""
_LABELS = ("tenant", "view")
SyncProgress = Callable[[str, int, int], None]


class Sync:
    """The sync of one source; the caller holds the workspace's lock.

    With `theirs` the source's text replaces documents that were edited by hand; the edited text is kept as a note.
    `listed` gives the files of a source that isn't on this disk; who may see its documents is the source's to say, also
    of those that were edited.
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
        listed: Callable[[], Listing] | None = None,
    ) -> None:
        self._workspace = workspace
        self._documents = ImportedFiles(workspace)
        self._records = Records(connection)
        self._source = source
        self._report = report
        self._theirs = theirs
        self._progress = progress
        self._listed = listed or partial(list_files, source.path, source.pattern, source.rev, workspace=workspace.root)
        self._labels: Mapping[str, Mapping[str, Any]] = {}
        self._known = self._records.of(source)
        self._files: dict[PurePosixPath, SourceFile] = {}
        self._taken: set[str] = set()
        self._batch: list[tuple[Record, str, Record]] = []
        self._moves: list[tuple[Record, Record]] = []
        self._reported: list[Record] = []
        self._recipes: dict[str, str] = {}

    def run(self, only: PurePosixPath | None = None) -> list[Record]:
        """Add, change and rename documents; return the records for `delete`, whose files are gone.

        `only` limits the sync to one file, or folder, of the source.
        Raises: ImportFailure where the source can't be listed.
        """
        self.settle()
        source = self._source
        listing = self._listed()
        self._labels = listing.labels
        self._files = {source_file.file: source_file for source_file in listing.found}
        listing = with_parts(listing if only is None else listing.below(only), source.brings)
        for why, number in listing.ignored.items():
            self._report.ignored[why] = self._report.ignored.get(why, 0) + number
        for file, why in listing.refused.items():
            self._refuse(file, self._shown(file), why)
        gone = self._gone(listing, only)
        if listing.found == [] and len(gone) > 1 and only is None:
            raise ImportFailure(f"holds no file any more; its {len(gone)} documents stay")
        moved: dict[str, list[Record]] = {}
        for record in gone:
            if record.file_hash and record.doc_id:
                moved.setdefault(record.file_hash, []).append(record)
        for number, source_file in enumerate(listing.found):
            if self._progress is not None:
                self._progress("importing", number, len(listing.found))
            self._file(source_file, moved)
            if len(self._batch) + len(self._moves) >= BATCH:
                self._write()
        self._write()
        # Last: an interrupted import returns no report, so that the next one must report these again.
        self._records.change(self._source, put=self._reported)
        if source.named:
            self._label()
        if only is None:
            self._records.synced(self._source)
        remaining = self._records.of(self._source)
        return [record for record in gone if record.file in remaining and self._is_deletable(remaining[record.file])]

    def _recipe(self, source_file: SourceFile) -> str:
        """Return a hash of what determines the document of a file, besides its bytes."""
        kind = kind_of((source_file.origin if source_file.row else source_file.file).name)
        reader = registry.READERS.get(kind or "")
        settings = (self._source.brings | source_file.settings) & reader.settings if reader else ()
        metadata = json.dumps(self._metadata(source_file), sort_keys=True)
        how = f"{kind}\0{reader.version if reader else 0}\0{sorted(settings)}\0{metadata}"
        if how not in self._recipes:
            self._recipes[how] = hashlib.sha256(how.encode()).hexdigest()
        return self._recipes[how]

    def _metadata(self, source_file: SourceFile) -> Mapping[str, Any]:
        return {**self._source.metadata, **self._labels.get(str(source_file.origin), {})}

    def _label(self) -> None:
        """Write the labels of the source into documents that were edited, or can't be made anew, being denied, say."""
        for record in self._records.of(self._source).values():
            text = self._text(record)
            around = (path := PurePosixPath(record.file), *path.parents)
            as_made = text == record.written and record.refused is None and any(each in self._files for each in around)
            if text is None or record.doc_id is None or as_made:
                continue
            own = next((self._labels[str(each)] for each in around if str(each) in self._labels), {})
            labels = {key: value for key, value in {**self._source.metadata, **own}.items() if key in _LABELS}
            values = _front_matter(text)
            if values.keys() >= labels.keys() and all(values[key] == value for key, value in labels.items()):
                continue
            labelled = frontmatter.render({**values, **labels}, frontmatter.split(text, "")[1])
            if text == record.written:
                anew = replace(record, written=labelled, file_hash=None)  # made again when it can be read again
                self._batch.append((replace(record, pending=labelled), labelled, anew))
            else:
                self._documents.put(record.doc_id, labelled)
        self._write()

    def settle(self) -> None:
        """Finish a killed import."""
        self._clear_half_written()
        self._finish_moves()

    def everything(self) -> list[Record]:
        """Return the records whose documents are unedited."""
        return [record for record in self._known.values() if self._is_untouched(record)]

    def there(self) -> list[str]:
        """Return the doc_ids of this source whose documents exist."""
        records = self._records.of(self._source).values()
        return [record.doc_id for record in records if record.doc_id and self._text(record) is not None]

    def delete(self, gone: Sequence[Record]) -> None:
        """Delete the documents of these records, and folders that become empty."""
        for record in gone:
            if record.doc_id is not None:
                self._documents.remove(record.doc_id)
                self._report.deleted.append(record.doc_id)
                self._report.deleted_contents[record.file_hash or ""] = record.doc_id
        self._records.change(self._source, drop=[record.file for record in gone])

    def _clear_half_written(self) -> None:
        """Remove the temporary files of a killed import; the texts to write are recorded."""
        for record in self._known.values():
            if record.doc_id is not None and (record.pending is not None or record.moved_from is not None):
                path = self._documents.path(record.doc_id)
                for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
                    temporary.unlink(missing_ok=True)

    def _finish_moves(self) -> None:
        """Finish, or undo, the renames of a killed import, by whether the new document exists."""
        undone = []
        for record in [known for known in self._known.values() if known.moved_from is not None]:
            old = self._known.get(record.moved_from or "")
            if self._text(record) is None:
                undone.append(record.file)
                continue
            if old is not None:
                self._documents.remove(old.doc_id or "")
            self._moves.append((old or record, replace(record, moved_from=None)))
        if undone or self._moves:
            self._records.change(self._source, drop=undone)
            self._follow()
            self._known = self._records.of(self._source)
        self._taken = self._records.doc_ids()

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
        """Return whether a gone file's document exists and is unedited; otherwise drop its record."""
        if self._is_untouched(record):
            return True
        self._records.change(self._source, drop=[record.file])
        if record.doc_id is not None and os.path.lexists(self._documents.path(record.doc_id)):
            why = "it was edited by hand" if self._text(record) is not None else "its place cannot be read"
            self._conflict(record.doc_id, f"its file is gone, and {why}: it stays, as your own", None)
        return False

    def _text(self, record: Record) -> str | None:
        """Return a record's document; None where there is none, or a person made its place unreadable, or a link."""
        try:
            return self._documents.text(record.doc_id) if record.doc_id is not None else None
        except ImportFailure:
            return None

    def _is_untouched(self, record: Record) -> bool:
        text = self._text(record)
        return text is not None and text in (record.written, record.pending)

    def _file(self, source_file: SourceFile, moved: dict[str, list[Record]]) -> None:
        file = str(source_file.file)
        known = self._known.get(file)
        digest = None
        try:
            if kind_of(source_file.file.name) is None:
                raise registry.unsupported(source_file.file.name)
            data, dropped = with_includes(source_file.read(), source_file.file, self._files)
            digest = hashlib.sha256(data).hexdigest()
            if self._is_unchanged(source_file, known, digest):
                if known is not None and source_file.part is not None:
                    row = source_file.row
                    self._report.front_matter.append(row.fields if row else _front_matter(known.written or ""))
                return
            text, left_out = self._converted(source_file, data)
        except ImportFailure as failure:
            self._refuse(file, source_file.shown, str(failure), digest, self._recipe(source_file))
            return
        if dropped:
            left_out = {**left_out, "includes": dropped}
        old = next(iter(moved.get(digest, [])), None) if known is None or known.doc_id is None else None
        if old is not None:
            moved[digest].remove(old)
        try:
            made = Record(file, None, digest, self._recipe(source_file), text, left_out=left_out)
            self._place(source_file, made, known, old)
        except ImportFailure as failure:  # not recorded: its place may become free while the file stays the same
            self._report.skip(source_file.shown, str(failure))

    def _is_unchanged(self, source_file: SourceFile, known: Record | None, digest: str) -> bool:
        if known is None or known.file_hash != digest or known.recipe != self._recipe(source_file):
            return False
        if known.doc_id is None:  # refused before, and would be again
            self._report.still_skipped += 1
            return True
        text = self._documents.text(known.doc_id)
        if text != known.written:
            if self._theirs:
                return False
            self._report.kept.append(known.doc_id)
        else:
            self._report.unchanged += 1
        return True

    def _converted(self, source_file: SourceFile, data: bytes) -> tuple[str, Mapping[str, int]]:
        """Return the text of a file's document, and what it lacks."""
        root = self._workspace.documents.resolve()
        imported = self._source.rev is None and not self._source.named
        if imported and Path(self._shown(str(source_file.origin))).resolve().is_relative_to(root):
            raise ImportFailure("is in the documents folder already")
        row = source_file.row
        settings = self._source.brings | source_file.settings
        made = (
            Imported(row.markdown, row.title, row.fields, left_out=row.left_out)
            if row
            else conversion.convert_bytes(source_file.file.name, data, settings=settings)
        )
        if source_file.part is not None:
            self._report.front_matter.append(made.metadata)
        return document_text(made, source_file.origin, self._metadata(source_file)), made.left_out

    def _place(self, source_file: SourceFile, made: Record, known: Record | None, old: Record | None) -> None:
        """Update the document of a file that is new, renamed or changed, or report a conflict.

        `made` is the record of what the file gives now, without a place.
        """
        file, text, digest = made.file, made.written or "", made.file_hash
        if known is None or known.doc_id is None:
            doc_id, current = self._free_place(source_file, text, old.doc_id if old else None)
            preferred = str(PurePosixPath(self._source.place, next(places(source_file.place))))
            if doc_id != preferred:
                self._report.beside.append({"doc_id": doc_id, "named": preferred, "file": source_file.shown})
            record = Record(file, doc_id, None, None)
            if old is not None and old.doc_id == doc_id:  # only its file's name changed
                self._records.change(self._source, put=[replace(old, file=file)], drop=[old.file])
                record, old = replace(old, file=file), None
        else:
            doc_id, record = known.doc_id, known
            current = self._documents.text(doc_id)
        final = replace(made, doc_id=doc_id)
        if old is not None and old.doc_id is not None and current is None:
            self._move(old, final)
        elif current is None and record.written is not None and record.file_hash == digest and not self._theirs:
            self._records.change(self._source, put=[final])
            self._report.kept.append(doc_id)
        elif current is None and record.written is not None and not self._theirs:
            self._reported.append(final)
            self._conflict(doc_id, "it was deleted by hand, and its file changed: it stays away", None)
        elif current is None or (current in (record.written, record.pending) and current != text):
            self._batch.append((replace(record, pending=text), text, final))
        elif current == text:
            self._records.change(self._source, put=[final])
            self._report.unchanged += 1
        elif self._theirs:
            self._documents.note(doc_id, current, suffix=".mine.md")
            self._batch.append((replace(record, pending=text), text, final))
        else:
            note = self._documents.note(doc_id, difference(record.written or "", text, doc_id), suffix=".diff")
            self._reported.append(final)
            cause = "its file" if record.file_hash != digest else "what an import makes of its file"
            self._conflict(doc_id, f"edited by hand, and {cause} changed: your text stays", note)
        self._taken.add(doc_id)

    def _move(self, old: Record, final: Record) -> None:
        """Move a renamed file's document; an edited one keeps its text."""
        current = self._documents.text(old.doc_id or "")
        if current is None:  # deleted by hand: stays away under its new name, too
            self._records.change(self._source, put=[final], drop=[old.file])
            return
        edited = current not in (old.written, old.pending)
        self._records.change(self._source, put=[replace(final, moved_from=old.file)])
        self._documents.put(final.doc_id or "", current if edited else final.written or "")
        self._documents.remove(old.doc_id or "")
        self._moves.append((old, final))

    def _follow(self) -> None:
        """End the moves of a batch: until their labels followed, their records say that they move."""
        pairs, self._moves = self._moves, []
        if not pairs:
            return
        moves = {old.doc_id or "": final.doc_id or "" for old, final in pairs if old.doc_id != final.doc_id}
        self._report.add_labels(follow_moves(self._workspace, moves))
        gone = {old.file for old, _ in pairs} - {final.file for _, final in pairs}
        self._records.change(self._source, put=[final for _, final in pairs], drop=gone)
        self._report.renamed += [{"from": old, "to": new} for old, new in moves.items()]

    def _free_place(self, source_file: SourceFile, text: str, renamed_from: str | None) -> tuple[str, str | None]:
        """Return a doc_id for a new file, and the text of a document there that came from the same file.

        `renamed_from` is the document of a renamed file, which keeps its place if that suits the new name, too.
        """
        for doc_id in places(source_file.place):
            doc_id = str(PurePosixPath(self._source.place, doc_id))
            if len(doc_id.encode("utf-8", "surrogateescape")) > LONGEST_DOC_ID:
                raise ImportFailure(f"its name has more than {LONGEST_DOC_ID:,} bytes with its folders")
            if doc_id in self._taken and doc_id != renamed_from:
                continue
            if self._documents.path(doc_id).is_dir():
                continue
            current = self._documents.text(doc_id)
            if (
                current is None
                or current == text
                or doc_id == renamed_from
                or _front_matter(current).get(ORIGIN) == source_file.origin.name
            ):
                return doc_id, current
        raise AssertionError("places never ends")

    def _write(self) -> None:
        """End moves, and write a batch of documents: record them as pending, write them, record them as written."""
        self._follow()
        batch, self._batch = self._batch, []
        if not batch:
            return
        self._records.change(self._source, put=[pending for pending, _, _ in batch])
        # Writers mostly wait for the disk, so several work at a time; but a document goes before those that would be in
        # a folder of its name.
        names = {pending.doc_id for pending, _, _ in batch}
        nested = any(str(folder) in names for name in names for folder in PurePosixPath(name or "").parents)
        if nested:
            batch.sort(key=lambda entry: (entry[0].doc_id or "").count("/"))
        with ThreadPoolExecutor(1 if nested else WRITERS) as writers:
            failures = list(writers.map(self._failure_to_put, batch))
        written = []
        for (pending, _, final), failure in zip(batch, failures, strict=True):
            doc_id = pending.doc_id or ""
            if failure is not None:
                self._records.change(self._source, drop=[pending.file])
                self._report.skip(self._shown(pending.file), str(failure))
                continue
            new = pending.written is None
            (self._report.added if new else self._report.changed).append(doc_id)
            self._report.imported.append(doc_id)
            if new:
                self._report.added_contents[final.file_hash or ""] = doc_id
            shown = self._shown(final.file)
            self._report.left_out += [LeftOut(file=shown, kind=kind, count=n) for kind, n in final.left_out.items()]
            written.append(final)
        self._records.change(self._source, put=written)

    def _failure_to_put(self, entry: tuple[Record, str, Record]) -> ImportFailure | None:
        pending, text, _ = entry
        try:
            self._documents.put(pending.doc_id or "", text)
        except ImportFailure as failure:
            return failure
        return None

    def _refuse(self, file: str, shown: str, why: str, digest: str | None = None, recipe: str | None = None) -> None:
        known = self._known.get(file)
        if known is not None and known.refused == why and known.file_hash == digest:
            self._report.still_skipped += 1
            return
        if known is not None and known.doc_id is not None:
            self._report.skip(shown, f"{why}; documents/{known.doc_id} stays as it was imported before")
            self._reported.append(replace(known, file_hash=digest, recipe=recipe, refused=why))
            return
        self._report.skip(shown, why)
        self._reported.append(Record(file, None, digest, recipe, refused=why))

    def _conflict(self, doc_id: str, message: str, note: str | None) -> None:
        self._report.conflicts.append({"doc_id": doc_id, "message": message, "note": note})

    def _shown(self, file: str) -> str:
        path = self._source.path
        if self._source.rev is not None:
            return f"{self._source.rev}:{file}"
        return str(path if path.name == file and path.is_file() else path / file)


def _front_matter(text: str) -> dict[str, Any]:
    try:
        return frontmatter.values(frontmatter.split(text, "")[0], "")
    except HiveError:
        return {}
