"""Who may read which folder: the grants of `access/*.json`."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from starlette.responses import Response

from hive_agents.access import AccessRules, Grant, grant_change
from hive_agents.base.files import load_value
from hive_agents.documents import list_documents
from hive_agents.events import EventType
from hive_agents.host import folder_below, record_document
from hive_agents.server import documents
from hive_agents.server.account import tenant_of
from hive_agents.server.auth import ADMIN, Call
from hive_agents.server.pages.settings import (
    changed,
    done_of,
    known_names,
    labelled,
    missing,
    names_in,
    tenants_in_use,
)
from hive_agents.server.pages.view import Pages
from hive_agents.store import FileChange
from hive_agents.sync import change_fields

pages = Pages()
READERS = "/settings/readers"
ALL = "**"


@pages.get(READERS, ADMIN, "settings_readers.html")
def readers(call: Call) -> dict[str, Any]:
    """The folders that are shared with people of the caller's tenant; the owner's are those of all tenants."""
    rules, tenant = AccessRules.load(call.workspace), tenant_of(call)
    mine = [one for one in rules.grants if tenant in (None, one.tenant)]
    return {
        "grants": [(one.match.removesuffix(f"/{ALL}"), one, _shown(one.view)) for one in mine],
        "faults": rules.faults,
        "tenants": tenants_in_use(call, rules),
        "whole": tenant is None,
        "folders": _folders(call),
        "folder": call.request.query_params.get("folder", ""),
        "person": call.request.query_params.get("person", ""),
        **known_names(call, rules),
        "done": done_of(call),
    }


@pages.post(READERS, ADMIN, "settings_change.html")
def change_readers(call: Call) -> dict[str, Any] | Response:
    """Share a folder, or share it no more. Documents of no tenant that are in it become those of the grant's tenant,
    which the workspace's owner alone may decide."""
    place, tenant = call.workspace, tenant_of(call) or call.sent("tenant")
    folder = call.sent("new_folder") or call.sent("folder")
    match = call.sent("match") or "/".join(filter(None, (folder_below(folder), ALL)))
    view: list[str] = []
    if call.sent("act") == "write":
        people, groups = names_in(call, "people"), names_in(call, "groups")
        view = ["tenant"] if call.sent("everybody") else [f"user:{one}" for one in people]
        view += [f"group:{one}" for one in groups]
        if not view:
            raise missing("people")
    grant = load_value(Grant, {"tenant": tenant, "match": match, "view": view}, "access")
    labels, joining = {"tenant": tenant}, _of_nobody(call, grant) if view and tenant_of(call) is None else []

    def made() -> list[FileChange]:
        change = grant_change(place, grant)
        return [change] if change.after != change.before else []

    def join() -> None:
        for doc_id in joining:
            change_fields(place, doc_id, labels)
            record_document(place, EventType.DOCUMENT_CHANGED, call.principal, call.by, doc_id=doc_id, fields=labels)
        if joining:
            call.freshness.changed()

    who = ", ".join(one.partition(":")[2] for one in view if one != "tenant")
    told: list[tuple[str, dict[str, Any]]] = [("shares", {"who": who})] if who else []
    told += [("shares_all", {"tenant": tenant})] if "tenant" in view else []
    of_folder = [(name, values | {"folder": match.removesuffix(ALL) or "documents/"}) for name, values in told]
    done = "written" if view else "removed"
    return changed(call, made, READERS, done, then=join, entries=True, joins=len(joining), told=of_folder)


def _folders(call: Call) -> list[str]:
    """Return the folders with documents, and those around them: the owner's are all, others' those that they read."""
    whole = tenant_of(call) is None
    doc_ids = list_documents(call.workspace.documents).files if whole else documents.readable(call)
    around = {str(one) for doc_id in doc_ids for one in PurePosixPath(doc_id).parents}
    return sorted(around - {"."})


def _of_nobody(call: Call, grant: Grant) -> list[str]:
    """Return the documents of no tenant that a grant matches."""
    rules = AccessRules({}, {}, (grant,), "")
    return [one for one, labels in labelled(call) if rules.sharing([one]) and not labels.tenants and not labels.fault]


def _shown(view: list[str]) -> list[tuple[str, str]]:
    """Return (kind, name) of each subject; everybody of the tenant has no name.

    >>> _shown(["tenant", "group:qa"])
    [('tenant', ''), ('group', 'qa')]
    """
    return [(kind, name) for kind, _, name in (one.partition(":") for one in view)]
