"""Who may read which folder: the grants of `access/*.json`."""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath
from typing import Any

from starlette.responses import Response

from hive_agents.access import AccessRules, Grant, grant_change, uses_local_key
from hive_agents.base import HiveError
from hive_agents.base.files import load_value
from hive_agents.documents import list_documents
from hive_agents.events import EventType
from hive_agents.host import folder_below, record_document
from hive_agents.server import documents
from hive_agents.server.account import tenant_of
from hive_agents.server.auth import ADMIN, Call
from hive_agents.server.pages.reading import labelled, open_change, open_now, reads_nothing
from hive_agents.server.pages.settings import changed, done_of, known_names, missing, names_in, tenants_in_use
from hive_agents.server.pages.view import Pages
from hive_agents.store import FileChange
from hive_agents.sync import editing

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
    """Share a folder with more people, or no more, with all or the one that is named. Documents of no tenant that are
    in it become those of the grant's tenant, which the workspace's owner alone may decide."""
    place, tenant = call.workspace, tenant_of(call) or call.sent("tenant")
    folder, less = call.sent("new_folder") or call.sent("folder"), call.sent("view")
    match = call.sent("match") or "/".join(filter(None, (folder_below(folder), ALL)))
    more: list[str] = []
    if call.sent("act") == "write":
        people, groups = names_in(call, "people"), names_in(call, "groups")
        more = ["tenant"] if call.sent("everybody") else [f"user:{one}" for one in people]
        more += [f"group:{one}" for one in groups]
        if not (folder and more):
            raise missing("people" if folder else "folder")

    def then_reads(held: list[str]) -> list[str]:
        return list(dict.fromkeys([*held, *more])) if more else [one for one in held if less and one != less]

    def made() -> list[FileChange]:
        view = then_reads(_held(call, tenant, match))  # as it is now: somebody may have shared it meanwhile
        change = grant_change(place, load_value(Grant, {"tenant": tenant, "match": match, "view": view}, "access"))
        return [change] if change.after != change.before else []

    held = _held(call, tenant, match)
    given = load_value(Grant, {"tenant": tenant, "match": match, "view": more or held}, "access")
    labels, joining = {"tenant": tenant}, _of_nobody(call, given) if more and tenant_of(call) is None else []

    def join() -> None:
        for doc_id in joining:
            editing.change_fields(place, doc_id, labels)
            record_document(place, EventType.DOCUMENT_CHANGED, call.principal, call.by, doc_id=doc_id, fields=labels)
        if joining:
            call.freshness.changed()

    stay = [one for one in held if one in then_reads(held) and one not in more]
    gone = [one for one in held if one not in then_reads(held)]
    told = [*_promised(call, given, bool(joining)), *_said("goes_on", stay)] if more else []
    told += [] if more else [*_said("unshares", gone), *_said("goes_on", stay)]
    values = {"tenant": tenant, "folder": match.removesuffix(ALL) or "documents/"}
    of_folder = [(name, values | said) for name, said in told]
    done = "written" if then_reads(held) else "removed"
    return changed(call, made, READERS, done, then=join, entries=True, joins=len(joining), told=of_folder)


@pages.post(f"{READERS}/owner", ADMIN, "settings_change.html")
def read_all(call: Call) -> dict[str, Any] | Response:
    """Let the workspace's owner read every document, whoever it belongs to.

    Not where tokens have keys of their own: others may reach such a server, and open mode is served to this machine
    alone.
    """
    place = call.workspace
    if not (reads_nothing(call) and uses_local_key(place)):
        fix = "sign in with a link of `hive open`, made on the machine that serves these pages to itself alone"
        raise HiveError.of("HIVE-415", "the workspace's owner may do this, who reads nothing", fix=fix, exit_code=1)
    told = [("opens", {"n": len(list_documents(place.documents).files)})]

    def made() -> list[FileChange]:
        return [open_change(call, mode="open")]

    return changed(call, made, "/documents", "written", then=partial(open_now, place), told=told)


def _held(call: Call, tenant: str, match: str) -> list[str]:
    """Return who reads by the grants of a tenant for what they match."""
    grants = AccessRules.load(call.workspace).grants
    return [view for one in grants if (one.tenant, one.match) == (tenant, match) for view in one.view]


def _said(name: str, view: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return (name, values) of a sentence about those who are named, and of another about everybody of the tenant."""
    who = ", ".join(one.partition(":")[2] for one in view if one != "tenant")
    return [*([(name, {"who": who})] if who else []), *([(f"{name}_all", {})] if "tenant" in view else [])]


def _promised(call: Call, grant: Grant, joins: bool) -> list[tuple[str, dict[str, Any]]]:
    """Return (name, values) of the sentences on who will read what a grant opens.

    People of another tenant read nothing by it, and documents of another are opened to nobody: who only administers one
    isn't told of either, as they are others'.
    """
    if tenant_of(call) is not None:
        return _said("shares", grant.view)
    known, rules = AccessRules.load(call.workspace).principals, AccessRules({}, {}, (grant,), "")
    foreign = [one for one in grant.view if (who := known.get(one.removeprefix("user:"))) and one.startswith("user:")
               and who.tenant != grant.tenant]  # fmt: skip
    owned = [labels.tenants for one, labels in labelled(call) if labels.tenants and rules.sharing([one])]
    apart = sum(grant.tenant not in tenants for tenants in owned)
    none_now = apart == len(owned) and apart and not joins
    told = _said("shares_later" if none_now else "shares", [one for one in grant.view if one not in foreign])
    told += _said("foreign", foreign)
    return [*told, ("apart", {"n": apart, "all": len(owned)})] if apart else told


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
