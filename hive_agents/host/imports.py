"""Imports of files that people upload: recorded, converted one by one, and indexed together.

The originals are kept below `uploads/`, apart for each tenant, and each is a source of `hive_agents.sync`; until its
import is carried out, a file waits apart from the original that it may replace. An import that is killed goes on with
the files that have no outcome yet.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from hive_agents.access import LOCAL_TENANT, OPERATORS, Principal, Standing, ViewGate
from hive_agents.base import Busy, EngineFault, HiveError, NotFound, Taken, Unwritable
from hive_agents.base.files import atomic_write, read_bytes
from hive_agents.events import Bell, Event, EventLog, EventType
from hive_agents.ranking import build_index
from hive_agents.runs import Hold, Lease, Leases, leases_of, taken
from hive_agents.store import audit, connected, transaction
from hive_agents.sync import editing, importing, places, unsupported_kind

if TYPE_CHECKING:
    from hive_agents.store import RecordsConnection
    from hive_agents.workspace import Workspace

_log = logging.getLogger("hive_agents.host")
POLL_SECONDS = 2.0
KEPT = dt.timedelta(days=30)
"""How long the record of an import stays after its end."""
AWAY = dt.timedelta(hours=1)
"""How long another host, on whose disk the uploaded file is, has for it."""
FOLDER = "uploads"
WAITING = f"{FOLDER}/.waiting"
LONGEST_PART = 180  # bytes of UTF-8; names of files have at most 255
DEEPEST = 20
"""Folders of an upload's name, and as many of the folder that it is put into."""
NO_DOCUMENT = frozenset({"failed", "skipped"})
ImportStatus = Literal["waiting", "converting", "indexed", "failed", "skipped"]
_ADDING = threading.Lock()
"""Held from the choice of a name to the record that takes it."""
_COLUMNS = "import_id, tenant, by, at, folder, fields, labels, status, files, ended_at"


@dataclass(frozen=True)
class ImportedUpload:
    """One uploaded file: `name` as it was sent, `path` of the original below `uploads/`, and its document so far."""

    name: str
    path: str
    doc_id: str
    status: ImportStatus
    message: str | None = None


@dataclass(frozen=True)
class DocumentImport:
    """Files that were uploaded together. `labels` are who may view them; a file that replaces one keeps its own,
    unless they were `chosen`. `sender` is who sent them, whose rights are looked up again before each one is read."""

    import_id: str
    tenant: str
    by: str
    at: str
    folder: str
    fields: Mapping[str, Any]
    labels: Mapping[str, Any]
    chosen: bool
    sender: Standing
    status: ImportStatus
    files: tuple[ImportedUpload, ...]
    ended_at: str | None


class DocumentImports:
    """The imports of a workspace, among its records.

    Each document is deleted and changed through its own functions; these are about files on their way to one.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def add(
        self,
        who: Principal,
        by: str,
        files: Sequence[tuple[str, bytes]],
        *,
        folder: str = "",
        fields: Mapping[str, Any] | None = None,
        labels: Mapping[str, Any] | None = None,
        chosen: bool = False,
    ) -> DocumentImport:
        """Keep the originals and record their import, to be carried out by a host.

        `folder` is below `documents/`. A file of the same name replaces the one before, unless that one's document is
        hidden from `who`, or somebody else's waits to become one: the first import would read it with its own labels.

        Raises: HIVE-105 for a folder that leads elsewhere, HIVE-409 for one that is a file, HIVE-403 for a full disk.
        """
        with _ADDING:
            return self._added(who, by, files, folder_below(folder), fields, labels, chosen)

    def _added(
        self,
        who: Principal,
        by: str,
        files: Sequence[tuple[str, bytes]],
        place: str,
        fields: Mapping[str, Any] | None,
        labels: Mapping[str, Any] | None,
        chosen: bool,
    ) -> DocumentImport:
        root = PurePosixPath(FOLDER, _key(who.tenant))
        gate = ViewGate.of(self._workspace, who)
        waiting = {file.path: one.by for one in self.open() for file in one.files}
        kept: dict[str, ImportedUpload] = {}
        folders = {str(folder) for path in waiting for folder in PurePosixPath(path).parents}
        for name, _ in files:
            for below in _names(name):
                path = str(root / place / below)
                if path in kept or path in folders or (self._workspace.root / path).is_dir():
                    continue
                before, _ = editing.outcome_of(self._workspace, self._workspace.root / path)
                if waiting.get(path, by) == by and gate.shows_all(before):
                    break
            above = [str(folder) for folder in PurePosixPath(path).parents]
            for folder in above:
                if folder in kept or folder in waiting or (self._workspace.root / folder).is_file():
                    why, fix = f"{folder.rpartition('/')[2]!a} is a file, and no folder", "name another folder"
                    raise Taken.of("HIVE-409", why, path="file", fix=fix)
            folders.update(above)
            doc_id = before[0] if len(before) == 1 else str(PurePosixPath(place, next(places(below))))
            kept[path] = ImportedUpload(name, path, doc_id, "waiting")
        made = DocumentImport(
            *(f"i{uuid.uuid4().hex[:10]}", who.tenant, by, audit.now(), place, dict(fields or {}), dict(labels or {})),
            *(chosen, Standing.of(self._workspace, who), "waiting", tuple(kept.values()), None),
        )
        for number, (_, data) in enumerate(files):
            atomic_write(self._waiting(made, number), data, mode=0o600)
        about = {"import_id": made.import_id, "by": by}
        with connected(self._workspace.records) as connection, transaction(connection):
            oldest = (dt.datetime.now(dt.UTC) - KEPT).isoformat()
            over = "DELETE FROM document_imports WHERE ended_at < ? RETURNING import_id"
            Leases.forget(connection, *(_thread(id) for (id,) in connection.execute(over, (oldest,)).fetchall()))
            connection.execute(
                f"INSERT INTO document_imports ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(made)
            )
            _tell(connection, EventType.DOCUMENTS_UPLOADED, who.tenant, about | {"files": len(kept)})
            names = {"folder": place, "files": [one.path for one in made.files], "fields": dict(made.fields)}
            audit.append(self._workspace, EventType.DOCUMENTS_UPLOADED, tenant=who.tenant, **about, **names)
        return made

    def get(self, import_id: str, tenant: str | None = None) -> DocumentImport:
        """Return an import, of a tenant if given. Raises: HIVE-409 (404) for an unknown one."""
        found = self._found("import_id = ?", import_id)
        if not found or tenant not in (None, found[0].tenant):
            fix = "name one as POST /api/documents gave it"
            raise NotFound.of("HIVE-409", f"there is no import {import_id[:80]!a}", fix=fix)
        return found[0]

    def recent(self, tenant: str | None = None) -> list[DocumentImport]:
        """Return the imports of a tenant, None for all, newest first."""
        return [one for one in self._found("1 = 1") if tenant in (None, one.tenant)]

    def open(self) -> list[DocumentImport]:
        """Return the imports that aren't over, oldest first."""
        return self._found("ended_at IS NULL")[::-1]

    def dismiss(self, doc_id: str, tenant: str | None = None) -> bool:
        """Forget the failed uploads of a document; return whether there was one."""
        found = False
        for one in self.recent(tenant):
            rest = tuple(file for file in one.files if file.doc_id != doc_id or file.status not in NO_DOCUMENT)
            if one.ended_at is not None and rest != one.files:
                found = True
                self._put(replace(one, files=rest))
                for file in set(one.files) - set(rest):
                    if not editing.outcome_of(self._workspace, self._workspace.root / file.path)[0]:
                        (self._workspace.root / file.path).unlink(missing_ok=True)
        return found

    def carry_out(self, import_id: str, lease: Lease, stop: threading.Event) -> None:
        """Convert the files that have no outcome yet, until `stop`, then index them."""
        made = self.get(import_id)
        for number, file in enumerate(made.files):
            if stop.is_set():
                return
            if file.status in ("waiting", "converting"):
                made = self._with(made, number, replace(file, status="converting"), lease)
                made = self._with(made, number, self._converted(made, number), lease)
                self._waiting(made, number).unlink(missing_ok=True)
        faults = self._index_faults()
        files = [
            replace(file, status="failed" if faults else "indexed", message=faults)
            if file.status == "converting"
            else file
            for file in made.files
        ]
        status: ImportStatus = next((one for one in ("indexed", "failed") if _any(files, one)), "skipped")
        ended = replace(made, status=status, files=tuple(files), ended_at=audit.now())
        counts = {name: sum(file.status == name for file in files) for name in ("indexed", "failed", "skipped")}
        with connected(self._workspace.records) as connection, transaction(connection):
            lease.require(connection)
            _update(connection, ended)
            about = {"import_id": import_id, "by": made.by, **counts}
            _tell(connection, EventType.DOCUMENTS_IMPORTED, made.tenant, about)

    def is_here(self, made: DocumentImport) -> bool:
        """Return whether the originals are on this host's disk, or on none that took the import for an hour."""
        late = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(made.at) > AWAY
        places = ((self._waiting(made, number), file) for number, file in enumerate(made.files))
        return late or all(place.is_file() or (self._workspace.root / file.path).is_file() for place, file in places)

    def _waiting(self, made: DocumentImport, number: int) -> Path:
        """Return where a file of an import waits for it."""
        return self._workspace.root / WAITING / f"{made.import_id}-{number}"

    def _converted(self, made: DocumentImport, number: int) -> ImportedUpload:
        """Return the file with its document, to be indexed, or with why it has none."""
        file = made.files[number]
        path = self._workspace.root / file.path
        labels = made.labels if made.chosen or not editing.outcome_of(self._workspace, path)[0] else {}
        place = PurePosixPath(file.path).parent.relative_to(PurePosixPath(FOLDER, _key(made.tenant)))
        try:
            report = importing.import_documents(
                *(self._workspace, path),
                to=str(place),
                metadata={**made.fields, **labels},
                theirs=True,
                require=partial(self._take, made, number),
            )
        except Exception as error:
            return replace(file, status="failed", message=_fault(error))
        doc_ids, refused = editing.outcome_of(self._workspace, path)
        why = next((one["message"] for one in report.skipped), refused)
        if not doc_ids or why is not None:
            why = why or "there is nothing to read in it"
            return replace(file, status="failed" if unsupported_kind(why) is None else "skipped", message=why)
        return replace(file, doc_id=doc_ids[0], status="converting")

    def _take(self, made: DocumentImport, number: int) -> None:
        """Put a file in the place of its original. Raise HIVE-417 or HIVE-415 where its sender may no longer add it:
        it may have waited for long."""
        now, path = made.sender.now(self._workspace), self._workspace.root / made.files[number].path
        documents, _ = editing.outcome_of(self._workspace, path)
        if now.roles.isdisjoint(OPERATORS) or not ViewGate.of(self._workspace, now).shows_all(documents):
            fix = "let somebody who may add documents send it"
            raise HiveError.of("HIVE-415", f"{now.user} may no longer add this document", fix=fix, exit_code=1)
        with suppress(FileNotFoundError):  # it is in its place since an attempt that was killed
            atomic_write(path, read_bytes(self._waiting(made, number)), mode=0o600)

    def _index_faults(self) -> str | None:
        try:
            build_index(self._workspace, quick=True)
        except Exception as error:
            return _fault(error)
        return None

    def _with(self, made: DocumentImport, number: int, file: ImportedUpload, lease: Lease) -> DocumentImport:
        files = (*made.files[:number], file, *made.files[number + 1 :])
        changed = replace(made, status="converting", files=files)
        with connected(self._workspace.records) as connection, transaction(connection):
            lease.require(connection)
            _update(connection, changed)
        return changed

    def _put(self, made: DocumentImport) -> None:
        with connected(self._workspace.records) as connection, transaction(connection):
            _update(connection, made)

    def _found(self, where: str, *values: str) -> list[DocumentImport]:
        query = f"SELECT {_COLUMNS} FROM document_imports WHERE {where} ORDER BY at DESC, import_id"
        with connected(self._workspace.records) as connection:
            return [_import(row) for row in connection.execute(query, values).fetchall()]


def document_deleted(
    workspace: Workspace, doc_id: str, who: Principal, by: str, require: Callable[[], object] = lambda: None
) -> None:
    """Delete a document, and the original that was uploaded for it alone. Raises: as `delete_document`."""
    original = editing.delete_document(workspace, doc_id, require)
    if original is not None and original.is_relative_to(workspace.root / FOLDER):
        original.unlink(missing_ok=True)
    DocumentImports(workspace).dismiss(doc_id, who.tenant)
    record_document(workspace, EventType.DOCUMENT_DELETED, who, by, doc_id=doc_id)


def record_document(workspace: Workspace, type: EventType, who: Principal, by: str, **what: Any) -> None:
    """Record a change of a document: the event says who, the audit log also which one and what."""
    with connected(workspace.records) as connection, transaction(connection):
        _tell(connection, type, who.tenant, {"by": by})
        audit.append(workspace, type, tenant=who.tenant, by=by, **what)


async def carry_out_imports(workspace: Workspace, bell: Bell) -> None:
    """Carry out imports until cancelled, one at a time on all hosts."""
    imports, leases = DocumentImports(workspace), await asyncio.to_thread(leases_of, workspace)
    stop = threading.Event()
    try:
        while True:
            for made in await asyncio.to_thread(imports.open):
                if not await asyncio.to_thread(imports.is_here, made):
                    continue
                lease = await taken(partial(leases.acquire, _thread(made.import_id), made.import_id))
                if lease is not None:
                    async with Hold(lease, lambda _: stop.set()):
                        try:
                            await asyncio.to_thread(imports.carry_out, made.import_id, lease, stop)
                        except EngineFault as error:  # its documents are there, and are indexed when the engine is back
                            await asyncio.sleep(error.retry_after)
                    stop.clear()
            await bell.wait(POLL_SECONDS)
    finally:
        stop.set()


def _thread(import_id: str) -> str:
    """Return whose lease a host holds while it carries the import out."""
    return f"import:{import_id}"


def folder_below(folder: str) -> str:
    """Return a folder below `documents/`, "" for that itself. Raises: HIVE-105 for one that is elsewhere.

    >>> folder_below("documents/handbook/"), folder_below("")
    ('handbook', '')
    """
    below = folder.strip().removeprefix("documents/").rstrip("/")
    parts = PurePosixPath(below).parts
    if below.startswith("/") or "\\" in below or len(parts) > DEEPEST or any(_part(part) != part for part in parts):
        why, fix = f"{folder[:80]!a} is no folder of documents", 'name a folder below documents/, such as "handbook"'
        raise HiveError.of("HIVE-105", why, path="folder", fix=fix, exit_code=2)
    return "" if below in ("", "documents") else str(PurePosixPath(*parts))


def _names(name: str) -> Iterator[PurePosixPath]:
    """Yield relative paths for an uploaded file, best first; none leaves its folder, is hidden or is a pattern."""
    given = re.split(r"[/\\]", name)
    outside = ".." in given or given[0] == "" or given[0].endswith(":") or len(given) > DEEPEST
    parts = [_part(part) for part in (given[-1:] if outside else given)]
    *folders, last = [part for part in parts if part] or ["unnamed"]
    yield PurePosixPath(*folders, last)
    path = PurePosixPath(last)
    number = 2
    while True:
        yield PurePosixPath(*folders, f"{path.stem}-{number}{path.suffix}")
        number += 1


def _part(part: str) -> str:
    """Return one name of a path as it is kept: printable, without wildcards, not hidden, and not too long."""
    shown = "".join(sign if sign.isprintable() and sign not in '*?[]{}:"<>|' else "-" for sign in part).strip(" ")
    stem, dot, suffix = shown.lstrip(".~").rpartition(".")
    stem, suffix = (stem, suffix[:20]) if dot else (suffix, "")
    short = stem.encode(errors="replace")[:LONGEST_PART].decode(errors="ignore")
    return f"{short}{dot}{suffix}".strip(" ")


def _key(tenant: str) -> str:
    """Return the folder of a tenant's originals, whose name any text may be."""
    return tenant if tenant == LOCAL_TENANT else f"t-{hashlib.sha256(tenant.encode()).hexdigest()[:12]}"


def _fault(error: Exception) -> str:
    """Return why a file has no document. Raises: the error itself for what may be over in a moment.

    A fault of the program costs the file as well: raised, it would let the host begin the import again without end.
    """
    if isinstance(error, (Busy, EngineFault, Unwritable)):
        raise error
    if isinstance(error, HiveError):
        return error.diagnostics[0].message
    kind = type(error).__name__  # its message may quote the file
    _log.warning("a file of an import failed: %s", kind)
    return f"the program failed at it ({kind}): please report it, with the file if you may"


def _any(files: Sequence[ImportedUpload], status: str) -> bool:
    return any(file.status == status for file in files)


def _row(made: DocumentImport) -> tuple[Any, ...]:
    sender = made.sender.model_dump(mode="json")
    labels = json.dumps({"labels": dict(made.labels), "chosen": made.chosen, "sender": sender})
    files = json.dumps([asdict(file) for file in made.files])
    head = (made.import_id, made.tenant, made.by, made.at, made.folder, json.dumps(dict(made.fields)))
    return (*head, labels, made.status, files, made.ended_at)


def _import(row: Sequence[Any]) -> DocumentImport:
    import_id, tenant, by, at, folder, fields, labels, status, files, ended_at = row
    given = json.loads(labels)
    uploads = tuple(ImportedUpload(**file) for file in json.loads(files))
    # Earlier releases didn't keep the sender: an import that waits since then needs somebody to send it again.
    sender = Standing.model_validate(given.get("sender") or {"tenant": tenant, "user": by, "listed": True})
    head = (import_id, tenant, by, at, folder, json.loads(fields), given["labels"], given["chosen"])
    return DocumentImport(*head, sender, status, uploads, ended_at)


def _update(connection: RecordsConnection, made: DocumentImport) -> None:
    *_, status, files, ended_at = _row(made)
    update = "UPDATE document_imports SET status = ?, files = ?, ended_at = ? WHERE import_id = ?"
    connection.execute(update, (status, files, ended_at, made.import_id))


def _tell(connection: RecordsConnection, type: EventType, tenant: str, payload: Mapping[str, Any]) -> None:
    EventLog.record(connection, [Event(type, tenant=tenant, payload=payload)])
