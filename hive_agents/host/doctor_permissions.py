"""Checks of permissions: tenants, labels, grants, keys, the permission service."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from hive_agents.access import (
    AccessLabels,
    AccessRules,
    PermissionFault,
    Principal,
    RemotePermissions,
    is_open,
    keys_of,
    uses_local_key,
)
from hive_agents.base import Diagnostic, HiveError
from hive_agents.documents import collection_names
from hive_agents.index import find_generation, generation
from hive_agents.store import connected
from hive_agents.workspace import Workspace, is_trusted

CheckStatus = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    name: str
    status: CheckStatus
    message: str
    fix: str | None = None


def check_of(name: str, found: Diagnostic, status: CheckStatus = "fail") -> Check:
    place = f"{found.file}: {found.path}" if found.path not in (None, "$") else str(found.file)
    where = f" ({place})" if found.file and place not in found.message else ""
    return Check(name, status, f"{found.code}: {found.message}{where}", found.fix)


def permissions(workspace: Workspace, *, names_documents: bool = True) -> Iterator[Check]:
    """Yield the checks of what prevents reading, or one that nothing does."""
    # Without access to the folder nothing below it can be read.
    if stat.S_IMODE(workspace.state.stat().st_mode) & 0o077:
        yield Check("permissions", "warn", "others may read .hive", "run `chmod -R go-rwx .hive`")
    else:
        yield Check("permissions", "ok", ".hive is its owner's alone")
    rules = AccessRules.load(workspace)
    for fault in rules.faults:
        where = f"{fault.file}: {fault.path}" + (f" (line {fault.line})" if fault.line else "")
        message = f"{fault.code}: {where}: {fault.message}; until it is mended nobody sees anything"
        yield Check("permissions", "fail", message, fault.fix)
    if not rules.faults:
        yield from _readers(workspace, rules, names_documents)
    yield from _service(workspace)
    if not uses_local_key(workspace):
        yield from _keys(workspace)


def _readers(workspace: Workspace, rules: AccessRules, names_documents: bool) -> Iterator[Check]:
    """Yield undeclared tenants, invalid labels, and documents without readers."""
    if is_open(workspace):
        yield _open(workspace, rules)
        return
    if workspace.settings.access.mode == "open":
        message = "access.mode is open no longer, because access/ names people: each reads what is theirs"
        yield Check("permissions", "ok", message)
    documents = _labelled(workspace)
    named = {one.tenant for one in rules.principals.values()} | {one.tenant for one in rules.grants}
    for name in sorted(named - set(rules.admins)):
        message = f'the tenant "{name}" stands in no "tenants"; it may be misspelt'
        yield Check("permissions", "warn", message, 'add it to "tenants" in access/, if only with {}')
    for doc_id, labels in documents:
        if labels.fault:
            name = f"documents/{doc_id}" if names_documents else "a document"
            message = f"HIVE-108: {name}: {labels.fault}; only the tenant's admins see it"
            yield Check("permissions", "warn", message, "mend tenant and view in the front matter")
    hidden = rules.unseen(documents).tolist()
    unseen = [one for one, may_not in zip(documents, hidden, strict=True) if may_not and not one[1].fault]
    for of_tenant in (False, True):
        found = [doc_id for doc_id, labels in unseen if bool(labels.tenants) is of_tenant]
        if not found:
            continue
        who = "nobody but a tenant's admins" if of_tenant else "nobody"
        message = f"{who} can see {len(found)} of {len(documents)} documents"
        if names_documents:
            message += f": {_first(found)}"
        fix = "give them view (`hive import --view tenant`), or a grant in access/"
        if not of_tenant:
            fix = "give them tenant and view (`hive import --tenant T --view tenant`); a grant alone gives no tenant"
            granting = {one.tenant for one in rules.grants}
            if granting:
                tenant = granting.pop() if len(granting) == 1 else "T"
                fix = f"name their tenant (`hive import --tenant {tenant}`): then grants say who may view them"
        if not rules.principals:
            fix = 'access/ names nobody: set mode = "open" under [access] in hive.toml, and you see all of them'
        yield Check("permissions", "warn", message, fix)
    if documents and not unseen:
        yield Check("permissions", "ok", f"each of {len(documents)} documents has readers")


def _open(workspace: Workspace, rules: AccessRules) -> Check:
    """Return what open mode lets whom read: on one person's machine nothing more than its files do.

    Keys of tokens are for a server that others reach, whose machine may be worked on by people who may not read all.
    """
    message = "access.mode is open: whoever works on this machine reads every document"
    if not rules.principals:
        return Check("permissions", "ok", message)
    message += "; the people whom access/ names read what is theirs alone"
    if uses_local_key(workspace):
        return Check("permissions", "ok", f"{message}. A risk only where somebody else works with your account here")
    message += ". A risk, as access.keys are those of a server for others: it is kept to this machine until this ends"
    fix = 'take mode = "open" out of hive.toml, or let it end with until_named = true'
    return Check("permissions", "warn", message, fix)


def nobody_sees(workspace: Workspace) -> bool:
    """Return whether there are documents and none has a reader, apart from a tenant's admins."""
    if is_open(workspace):
        return False
    documents = _labelled(workspace)
    return bool(documents) and bool(AccessRules.load(workspace).unseen(documents).all())


def _labelled(workspace: Workspace) -> list[tuple[str, AccessLabels]]:
    """Return (doc_id, labels) of every document, as indexed."""
    if not workspace.database.exists():
        return []
    found = []
    with connected(workspace.database) as connection:
        for name in collection_names(workspace):
            live = find_generation(connection, name, "live")
            if live is not None:
                found += generation.document_rows(connection, live, "doc_id, front_matter")
    return [(doc_id, AccessLabels.of(json.loads(front_matter))) for doc_id, front_matter in found]


def _service(workspace: Workspace) -> Iterator[Check]:
    settings = workspace.settings.access
    if not settings.service_url:
        return
    trusted = partial(is_trusted, workspace, "access.service_url")
    try:
        RemotePermissions(settings.service_url, settings.timeout_seconds, trusted=trusted).ask(
            Principal("hive", "doctor"), []
        )
    except PermissionFault as fault:
        fix = "mend access.service_url or the service; until then nobody sees anything"
        yield Check("permissions", "fail", f"the permission service can't be relied on: {fault}", fix)
    else:
        yield Check("permissions", "ok", "the permission service answers")


def _keys(workspace: Workspace) -> Iterator[Check]:
    for key in keys_of(workspace).values():
        try:
            key.to_check()
        except HiveError as error:
            yield from (check_of("permissions", found) for found in error.diagnostics)
        else:
            yield Check("permissions", "ok", f"tokens of the key {key.kid} can be checked")


def _first(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
