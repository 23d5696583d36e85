"""The documents: a list with uploads, a box to try a question, and the page of each document."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from hive_agents.access import LOCAL_TENANT, is_open, uses_local_key
from hive_agents.base import HiveError, NotFound
from hive_agents.documents import list_documents
from hive_agents.server import copilot, documents, sources
from hive_agents.server.api import checked
from hive_agents.server.auth import ADMIN, OPERATOR, READER, Call
from hive_agents.server.pages.documents import found_for, shown_document
from hive_agents.server.pages.passages import blocks
from hive_agents.server.pages.reading import reads_nothing
from hive_agents.server.pages.view import Pages
from hive_agents.sync import examine_documents

pages = Pages()
ROWS = 50
MOST_GROUPS, MOST_IN_GROUP = 20, 5
"""What is shown of a finding about documents: groups of them, and of each so many."""
READERS = READER | OPERATOR
WORKING, LOST = ("waiting", "converting"), ("failed", "skipped")
HIDDEN = frozenset({"source_file", "title"})
"""Fields that the page of a document shows elsewhere."""


@pages.get("/documents", READERS, "library.html")
def overview(call: Call) -> dict[str, Any]:
    """The documents that the caller may view, and for operators the uploads that are under way, and their sources."""
    operates = OPERATOR & call.principal.roles
    return (
        _rows(call)
        | dropped(call)
        | {"sources": sources.sources(call).sources if operates else [], "reads_all": _reads_all(call)}
    )


@pages.get("/documents/rows", READERS, "library_rows.html")
def rows(call: Call) -> dict[str, Any]:
    """A page of the documents, or of those that match a search."""
    return _rows(call)


@pages.get("/documents/try", READER, "library_tried.html")
async def tried(call: Call) -> dict[str, Any]:
    """What a question finds."""
    question = " ".join(call.request.query_params.get("query", "").split())[:1000]
    if not question:
        return {"results": [], "question": "", "notice": None}
    found = await copilot.query(call, copilot.SearchRequest(query=question))
    best = [next((one.marked for one in each.windows if one.best), each.excerpt) for each in found.results]
    results = await call.in_thread(lambda: list(zip(found.results, map(blocks, best), strict=True)))
    return {"results": results, "question": question, "notice": found.notice}


@pages.post("/documents/examine", OPERATOR, "library_examined.html")
async def examined(call: Call) -> dict[str, Any]:
    """What is odd about the documents, which are named: for the owner who reads all of them."""
    if not _reads_all(call):
        fix = "ask whoever reads every document"
        raise HiveError.of("HIVE-415", "this names documents that you may not read", fix=fix, exit_code=1)
    found = await call.in_thread(examine_documents, call.workspace)
    return {"findings": [(one, one.documents[:MOST_GROUPS]) for one in found], "most": MOST_IN_GROUP}


@pages.get("/documents/{doc_id:path}", READERS, "library_document.html")
def document(call: Call, doc_id: str) -> dict[str, Any]:
    """A document with its fields, for operators to change; one that isn't indexed yet has no text here."""
    row = documents.row_of(call, doc_id)
    if row is None:
        raise NotFound.of("HIVE-409", f"{doc_id} is not found", fix="look it up in the list")
    shown = None
    if row.status == "indexed" and READER & call.principal.roles:
        passages = found_for(call, doc_id, call.request.query_params.get("query", ""))
        shown = shown_document(doc_id, copilot.document(call, doc_id).text.strip(), passages)
    fields = [(name, _text(value), isinstance(value, list)) for name, value in row.fields.items() if name not in HIDDEN]
    return {"row": row, "shown": shown, "fields": fields, "writes": row.grants is not None}


def dropped(call: Call) -> dict[str, Any]:
    """Return what the box for uploads needs; `uploads` is None for those who may not upload.

    `others` says whether there are documents of other people: to the workspace's owner alone, who shares them. `unread`
    is an owner who reads nothing, and `may_open` one who may decide otherwise.
    """
    if not OPERATOR & call.principal.roles:
        return {"uploads": None, "most": 0, "others": False, "unread": False, "may_open": False}
    owns, unread = call.principal.tenant == LOCAL_TENANT and ADMIN & call.principal.roles, reads_nothing(call)
    under_way = [one for one in documents.imports(call).imports if one.ended_at is None]
    others = bool(owns and list_documents(call.workspace.documents).files)
    most, may_open = call.workspace.settings.server.upload_bytes, unread and uses_local_key(call.workspace)
    return {"uploads": under_way, "most": most, "others": others, "unread": unread, "may_open": may_open}


def _rows(call: Call) -> dict[str, Any]:
    parameters = call.request.query_params
    wanted = {name: parameters[name] for name in ("search", "cursor") if parameters.get(name)}
    page = documents.documents(call, checked(documents.DocumentsPage, {"limit": ROWS, **wanted}))
    shown = [one for one in page.documents if one.source != documents.UPLOAD or one.status not in WORKING]
    shown.sort(key=lambda one: one.status not in LOST)  # what asks for something stands first
    return {
        "rows": [(one, str(PurePosixPath(one.doc_id).parent)) for one in shown],
        "search": wanted.get("search", ""),
        "next_cursor": page.next_cursor,
        "begun": "cursor" not in wanted,
        "writes": bool(OPERATOR & call.principal.roles),
    }


def _reads_all(call: Call) -> bool:
    return call.principal.tenant == LOCAL_TENANT and is_open(call.workspace)


def is_empty(call: Call) -> bool:
    """Return whether the caller may view no document at all."""
    try:
        return not documents.readable(call)
    except HiveError:
        return False


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
