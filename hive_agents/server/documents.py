"""Documents: the list, uploads and their imports, and changes of single documents."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any

from anyio import from_thread
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from hive_agents.access import LOCAL_TENANT, RESERVED, AccessLabels, AccessRules, ViewGate, labels_in_file
from hive_agents.base import HiveError, NotFound, Unindexed
from hive_agents.base.files import AnyCase, FewEntries, Reference, ShortName, read_bytes
from hive_agents.copilot import open_scope
from hive_agents.documents import Document, collection_names, list_documents, load_collection, parse_document
from hive_agents.events import EventType
from hive_agents.host import (
    DocumentImport,
    DocumentImports,
    ImportedUpload,
    ImportStatus,
    document_deleted,
    folder_below,
    record_document,
)
from hive_agents.index import ScopedIndex
from hive_agents.ranking import find_active
from hive_agents.server import streams
from hive_agents.server.account import tenant_of
from hive_agents.server.api import Api, Body, Value
from hive_agents.server.auth import OPERATOR, READER, Call, CallContext
from hive_agents.server.forms import Form, SentFiles
from hive_agents.server.shapes import PageQuery, is_named
from hive_agents.server.uploads import seen_import, seen_imports
from hive_agents.sync import editing

api = Api("documents")
POLL_SECONDS = 0.25
UPLOAD = "upload"
"""The source of a document that was uploaded."""
FieldName = Annotated[str, Field(pattern=r"^[^\W\d][\w.-]{0,63}$")]
FieldScalar = Annotated[str, Field(max_length=1000)] | int | float | bool
FieldValue = FieldScalar | Annotated[list[FieldScalar], FewEntries]
SentFields = Annotated[dict[FieldName, FieldValue], Field(max_length=50, examples=[{"department": "quality"}])]
Subjects = Annotated[list[ShortName], FewEntries, Field(examples=[["group:quality", "user:dana"]])]


class DocumentsPage(PageQuery):
    """`search` is a part of a title or a doc_id; `folder` one below `documents/`."""

    search: ShortName | None = None
    folder: ShortName | None = None
    status: Annotated[ImportStatus, AnyCase] | None = None


class DocumentRow(Value):
    """`source` is "upload", the name of the imported file or folder, or null for a file of the documents folder.
    `message` says why a document failed, or was skipped. `grants` are those who may view it by its own front matter;
    null for callers who may not change it."""

    doc_id: str
    title: str
    fields: dict[str, Any]
    source: str | None
    status: ImportStatus
    message: str | None
    updated_at: str | None
    grants: list[str] | None


class DocumentList(Value):
    """`next_cursor` is null on the last page."""

    documents: list[DocumentRow]
    next_cursor: str | None


class UploadedRow(Value):
    """One file of an import; its `doc_id` is certain once it is indexed."""

    name: str
    doc_id: str
    status: ImportStatus
    message: str | None


class ImportShown(Value):
    """An import: `status` is indexed once any of its files is, and it is over when `ended_at` is set."""

    import_id: str
    status: ImportStatus
    by: str
    at: str
    folder: str
    files: list[UploadedRow]
    ended_at: str | None
    events: str

    @classmethod
    def of(cls, made: DocumentImport) -> ImportShown:
        files = [UploadedRow(name=one.name, doc_id=one.doc_id, status=one.status, message=one.message)
                 for one in made.files]  # fmt: skip
        events = f"/api/imports/{made.import_id}/events"
        return cls(
            import_id=made.import_id, status=made.status, by=made.by, at=made.at, folder=made.folder, files=files,
            ended_at=made.ended_at, events=events,
        )  # fmt: skip


class ImportList(Value):
    imports: list[ImportShown]


class Upload(Form):
    """Files, each a part `file`. `folder` is below `documents/`; `fields` are set on each document. `grants` are who
    may view them, in their tenant: by default the caller, and those whom a grant of the folder names. `tenant` is for
    the workspace's owner, who has none: by default that of the folder's grants, if it is one."""

    file: SentFiles
    folder: Reference = ""
    fields: SentFields | None = None
    grants: Subjects | None = None
    tenant: ShortName = ""


class DocumentChange(Body):
    """Fields to set, null to remove one; `grants` replaces who may view the document."""

    fields: Annotated[dict[FieldName, FieldValue | None], Field(max_length=50)] = {}
    grants: Subjects | None = None


class DocumentChanged(Value):
    doc_id: str
    title: str
    fields: dict[str, Any]


class DocumentDeleted(Value):
    deleted: str


@api.get("/api/documents", READER | OPERATOR)
def documents(call: CallContext, query: DocumentsPage) -> DocumentList:
    """The documents that the caller may view, by doc_id; for operators also files that are on their way to one."""
    found = _Documents(call)
    wanted = [doc_id for doc_id in found.doc_ids if found.matches(doc_id, query)]
    start = 0 if query.cursor is None else bisect_right(wanted, query.cursor)
    shown: list[DocumentRow] = []
    last = query.cursor
    while start < len(wanted) and len(shown) < query.limit:
        part = wanted[start : start + query.limit - len(shown)]
        start, last = start + len(part), part[-1]
        shown += [row for row in found.rows(part) if query.status in (None, row.status)]
    return DocumentList(documents=shown, next_cursor=last if start < len(wanted) else None)


@api.post("/api/documents", OPERATOR, status=202)
def add_documents(call: Call, form: Upload) -> ImportShown:
    """Upload files; each becomes a document below `folder`, or replaces the one that its earlier upload became."""
    fields = dict(form.fields or {})
    _require_free(fields)
    labels = _labels_of(call, form)
    made = DocumentImports(call.workspace).add(
        call.principal,
        call.by,
        [(one.name, one.data) for one in form.file],
        folder=folder_below(form.folder),
        fields=fields,
        labels=labels,
        chosen=form.grants is not None or bool(form.tenant),
    )
    from_thread.run_sync(call.host.uploads.ring)
    return ImportShown.of(made)


@api.get("/api/imports", OPERATOR)
def imports(call: Call) -> ImportList:
    """The imports of the last month with the files that the caller sent, or may view, newest first."""
    return ImportList(imports=[ImportShown.of(one) for one in seen_imports(call)])


@api.get("/api/imports/{import_id}", OPERATOR)
def show_import(call: Call, import_id: str) -> ImportShown:
    """An import, with what became of each file that the caller sent, or may view."""
    return ImportShown.of(seen_import(call, import_id))


@api.get("/api/imports/{import_id}/events", OPERATOR, media="text/event-stream")
async def follow_import(call: Call, import_id: str) -> Response:
    """A stream of the import: as it is now, then after each change until it is over."""
    first = await run_in_threadpool(show_import, call, import_id)
    return streams.response(call, _frames(call, first))


async def _frames(call: Call, shown: ImportShown) -> AsyncIterator[bytes]:
    sent, beat, begun = "", time.monotonic(), call.principal
    with suppress(HiveError):  # it was forgotten
        while True:
            text = shown.model_dump_json()
            if text != sent:
                sent = text
                yield streams.frame(text)
            if shown.ended_at is not None:
                return
            if time.monotonic() - beat > streams.HEARTBEAT_SECONDS:
                beat = time.monotonic()
                if not await run_in_threadpool(streams.has_rights_of, call, begun):
                    return
                yield streams.BEAT
            await asyncio.sleep(POLL_SECONDS)
            shown = await run_in_threadpool(show_import, call, shown.import_id)


@api.patch("/api/documents/{doc_id:path}", OPERATOR)
def change_document(call: CallContext, doc_id: str, body: DocumentChange) -> DocumentChanged:
    """Change a document's fields, and who may view it; the next import of its source keeps the changes."""
    _require_free(body.fields)
    _require_own(call, doc_id)
    changes: dict[str, Any] = dict(body.fields)
    if body.grants is not None:
        _require_labels({"view": body.grants})
        changes["view"] = body.grants
    if changes:
        editing.change_fields(call.workspace, doc_id, changes, partial(_require_own, call, doc_id))
        record_document(
            call.workspace, EventType.DOCUMENT_CHANGED, call.principal, call.by, doc_id=doc_id, fields=changes
        )
        call.freshness.changed()
    document = _parsed(call, doc_id)
    return DocumentChanged(doc_id=doc_id, title=document.title, fields=_shown(document.front_matter))


@api.delete("/api/documents/{doc_id:path}", OPERATOR)
def delete_document(call: CallContext, doc_id: str) -> DocumentDeleted:
    """Delete a document and its uploaded original, or a failed upload; other sources' files stay, without it."""
    if labels_in_file(call.workspace, doc_id) is None and _can_forget(call, doc_id):
        DocumentImports(call.workspace).dismiss(doc_id, tenant_of(call))
        return DocumentDeleted(deleted=doc_id)
    _require_own(call, doc_id)
    document_deleted(call.workspace, doc_id, call.principal, call.by, partial(_require_own, call, doc_id))
    call.freshness.changed()
    return DocumentDeleted(deleted=doc_id)


@dataclass(frozen=True)
class _Place:
    """Where an upload stands, in place of a document or beside it."""

    file: ImportedUpload
    at: str


class _Documents:
    """What the caller sees: indexed documents, files that aren't indexed yet, and uploads."""

    def __init__(self, call: CallContext) -> None:
        self._call, workspace = call, call.workspace
        self._gate = ViewGate.of(workspace, call.principal)
        self._scope = _scope(call)
        indexed = self._scope.doc_ids() if self._scope is not None else []
        self._titles: dict[str, str] = {}
        self._fields: Mapping[str, Mapping[str, Any]] = {}
        if self._scope is not None:
            self._titles = {doc_id: title for doc_id, title, _ in self._scope.documents()}
            self._fields = dict(call.engine.index(self._scope.collection.name).front_matter())
        fresh = [doc_id for doc_id in list_documents(workspace.documents).files if doc_id not in self._fields]
        self._fresh = self._gate.allowed(fresh)
        self._uploads = self._open_uploads() if call.principal.roles & OPERATOR else {}
        self.doc_ids = sorted({*indexed, *self._fresh, *self._uploads})

    def _open_uploads(self) -> dict[str, _Place]:
        """Return uploads that are no document yet, or none any more, by the doc_id that is meant for them."""
        found: dict[str, _Place] = {}
        for made in reversed(seen_imports(self._call)):
            for file in made.files:
                found.pop(file.doc_id, None)
                if file.status != "indexed":
                    found[file.doc_id] = _Place(file, made.ended_at or made.at)
        return found

    def matches(self, doc_id: str, query: DocumentsPage) -> bool:
        if query.folder and not doc_id.startswith(f"{query.folder.rstrip('/')}/"):
            return False
        upload = self._uploads.get(doc_id)
        if query.status in ("converting", "failed", "skipped") and upload is None and doc_id not in self._fresh:
            return False
        title = upload.file.name if upload is not None else self._titles.get(doc_id, "")
        return not query.search or is_named(query.search, doc_id, title)

    def rows(self, doc_ids: list[str]) -> list[DocumentRow]:
        asked = [doc_id for doc_id in doc_ids if doc_id not in self._uploads]
        allowed = self._gate.allowed(asked)
        sources = editing.sources_of(self._call.workspace, sorted(allowed))
        uploads = self._call.workspace.root / "uploads"
        rows = []
        for doc_id in doc_ids:
            if doc_id in self._uploads:
                rows.append(self._uploaded(doc_id))
            elif doc_id in allowed:
                path = sources.get(doc_id)
                source = None if path is None else UPLOAD if path.is_relative_to(uploads) else path.name
                rows.append(self._document(doc_id, source))
        return rows

    def _uploaded(self, doc_id: str) -> DocumentRow:
        place = self._uploads[doc_id]
        return DocumentRow(
            doc_id=doc_id, title=place.file.name, fields={}, source=UPLOAD, status=place.file.status,
            message=place.file.message, updated_at=place.at, grants=None,
        )  # fmt: skip

    def _document(self, doc_id: str, source: str | None) -> DocumentRow:
        title, fields = self._titles.get(doc_id, ""), self._fields.get(doc_id, {})
        status: ImportStatus = "indexed" if doc_id in self._titles else "waiting"
        message = None
        if status == "waiting":
            try:
                document = _parsed(self._call, doc_id)
                title, fields = document.title, document.front_matter
            except HiveError as error:
                status, message = "failed", error.diagnostics[0].message
        return DocumentRow(
            doc_id=doc_id, title=title or doc_id, fields=_shown(fields), source=source, status=status, message=message,
            updated_at=_changed_at(self._call, doc_id), grants=self._grants(doc_id),
        )  # fmt: skip

    def _grants(self, doc_id: str) -> list[str] | None:
        who = self._call.principal
        labels = labels_in_file(self._call.workspace, doc_id) if who.roles & OPERATOR else None
        if labels is None or (who.tenant != LOCAL_TENANT and labels.tenants != {who.tenant}):
            return None
        return sorted(labels.view)


def readable(call: CallContext) -> list[str]:
    """Return the documents that the caller may view; where none is indexed, those that are on their way."""
    scope = _scope(call)
    return (scope.doc_ids() if scope is not None else []) or _Documents(call).doc_ids


def row_of(call: CallContext, doc_id: str) -> DocumentRow | None:
    """Return the row of one document; None where the caller may not view it."""
    found = _Documents(call)
    return next(iter(found.rows([doc_id])), None) if doc_id in found.doc_ids else None


def _collection(call: CallContext) -> str | None:
    """Return the collection that answers questions, else the first; None where there is none."""
    active = None
    with suppress(HiveError):  # a faulty config is reported where it is used
        active = find_active(call.workspace)
    return active.stored.config.collection if active else next(iter(collection_names(call.workspace)), None)


def _scope(call: CallContext) -> ScopedIndex | None:
    """Return the index as far as the caller may view it; None where nothing is indexed yet."""
    name = _collection(call)
    if name is None:
        return None
    try:
        return open_scope(call.workspace, call.engine, call.principal, name)
    except Unindexed:
        return None


def _labels_of(call: CallContext, form: Upload) -> dict[str, Any]:
    """Return the front matter for permissions. Raises: HIVE-415 for another tenant, HIVE-409 for what is no reader."""
    who = call.principal
    if form.tenant and who.tenant not in (LOCAL_TENANT, form.tenant):
        fix = "leave the tenant out"
        raise HiveError.of("HIVE-415", "documents are added to one's own tenant", path="tenant", fix=fix, exit_code=1)
    doc_ids = [str(PurePosixPath(folder_below(form.folder), one.name)) for one in form.file]
    shared = AccessRules.load(call.workspace).sharing(doc_ids)
    tenant = form.tenant or (who.tenant if who.tenant != LOCAL_TENANT else shared)
    labels: dict[str, Any] = {"tenant": tenant} if tenant else {}
    if form.grants is not None:
        labels["view"] = form.grants
    elif who.tenant != LOCAL_TENANT:
        labels["view"] = [f"user:{who.user}"]
    _require_labels(labels)
    return labels


def _require_labels(labels: Mapping[str, Any]) -> None:
    if fault := AccessLabels.of(labels).fault:
        fix = "name user:ID, group:ID or tenant"
        raise HiveError.of("HIVE-409", fault, path="grants", fix=fix, exit_code=2)


def _require_free(fields: Mapping[str, Any]) -> None:
    """Raises: HIVE-409 for a field that says who may view a document."""
    for name in sorted(RESERVED & fields.keys()):
        fix = "send grants"
        raise HiveError.of("HIVE-409", f"{name} says who may view a document", path=name, fix=fix, exit_code=2)


def _require_own(call: CallContext, doc_id: str) -> None:
    """Raises: HIVE-409 (404) for a document that the caller may not view now, alike for an unknown one; HIVE-415 for
    one that other tenants have as well, and where the caller is no operator any more; HIVE-417 for who was ended."""
    call.require_still()
    now = call.principal
    if doc_id not in ViewGate.of(call.workspace, now).allowed([doc_id]):
        raise NotFound.of("HIVE-409", f"{doc_id} is not found", fix="GET /api/documents lists them", exit_code=2)
    labels = labels_in_file(call.workspace, doc_id)
    if now.tenant != LOCAL_TENANT and (labels is None or labels.tenants != {now.tenant}):
        fix = "the workspace's owner may"
        raise HiveError.of("HIVE-415", "this document can't be changed from here", path=doc_id, fix=fix, exit_code=1)


def _can_forget(call: CallContext, doc_id: str) -> bool:
    files = (file for one in seen_imports(call) for file in one.files)
    return any(file.doc_id == doc_id and file.status in ("failed", "skipped") for file in files)


def _parsed(call: CallContext, doc_id: str) -> Document:
    name = _collection(call)
    if name is None:
        raise HiveError.of("HIVE-211", "the workspace has no collection", fix="add one")
    return parse_document(doc_id, read_bytes(call.workspace.documents / doc_id), load_collection(call.workspace, name))


def _shown(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in RESERVED and name not in ("title", "content")}


def _changed_at(call: CallContext, doc_id: str) -> str | None:
    try:
        changed = os.lstat(call.workspace.documents / doc_id).st_mtime
    except OSError:
        return None
    return dt.datetime.fromtimestamp(changed, dt.UTC).isoformat(timespec="seconds")
