"""How much people read, and the owner, who reads everything or nothing."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from typing import Any

from hive_agents.access import AccessLabels, AccessRules, ViewGate, is_open, labels_in_file
from hive_agents.base.files import jsontext, load_value, read_bytes
from hive_agents.documents import list_documents
from hive_agents.server.account import tenant_of
from hive_agents.server.auth import ADMIN, READER, Call
from hive_agents.store import FileChange
from hive_agents.workspace import Workspace
from hive_agents.workspace.settings import FILE, Settings, with_values


def labelled(call: Call) -> list[tuple[str, AccessLabels]]:
    """Return (doc_id, labels) of every document, as its file says now."""
    found = [(one, labels_in_file(call.workspace, one)) for one in list_documents(call.workspace.documents).files]
    return [(one, labels) for one, labels in found if labels is not None]


def settings_text(call: Call) -> str:
    """Return the text of `hive.toml`, "" where there is none."""
    with suppress(FileNotFoundError):
        return jsontext.decode(read_bytes(call.workspace.root / FILE), FILE)
    return ""


def opens_until_named(call: Call) -> bool:
    """Return whether the caller is the owner who reads everything, and no longer once somebody is named."""
    return tenant_of(call) is None and is_open(call.workspace) and call.workspace.settings.access.until_named


def open_change(call: Call, **values: str) -> FileChange:
    """Return the change of the settings by which the owner reads everything, whoever is named."""
    before = settings_text(call)
    after = with_values(before, "access", values | {"until_named": ""})
    load_value(Settings, tomllib.loads(after), FILE)
    return FileChange(FILE, before, after)


def open_now(place: Workspace) -> None:
    """Let the running server go by it at once, or the owner would read nothing until it begins again."""
    access = place.settings.access.model_copy(update={"mode": "open", "until_named": False})
    vars(place)["settings"] = place.settings.model_copy(update={"access": access})


def reads_nothing(call: Call) -> bool:
    """Return whether the caller is the workspace's owner, who reads nothing where people alone do.

    A service of permissions decides for itself.
    """
    owns = tenant_of(call) is None and bool(ADMIN & call.principal.roles)
    return owns and not is_open(call.workspace) and not call.workspace.settings.access.service_url


def told_of_person(call: Call, user: str, change: FileChange, *, keeps: bool) -> list[tuple[str, dict[str, Any]]]:
    """Return (name, values) of the sentences that tell the workspace's owner who will read how much."""
    place = call.workspace
    if tenant_of(call) is not None or place.settings.access.service_url:  # others aren't told how many there are
        return []
    reads = _reads(AccessRules.changed(place, change.file, change.after or ""), user, labelled(call))
    said: list[tuple[str, dict[str, Any]]] = [("reads", {"user": user, **reads})]
    if is_open(place):
        said.append(("loses" if opens_until_named(call) and not keeps else "keeps", {"n": reads["all"]}))
    return said


def reads_now(call: Call, rules: AccessRules, user: str) -> dict[str, int] | None:
    """Return how many of the documents that the caller may view a person reads; the owner is told of all.

    None where only a service knows.
    """
    if call.workspace.settings.access.service_url:
        return None
    found = labelled(call)
    if tenant_of(call) is not None:
        mine = ViewGate.of(call.workspace, call.principal).allowed([doc_id for doc_id, _ in found])
        found = [(doc_id, labels) for doc_id, labels in found if doc_id in mine]
    return _reads(rules, user, found)


def _reads(rules: AccessRules, user: str, documents: list[tuple[str, AccessLabels]]) -> dict[str, int]:
    """Return how many of the documents a person reads by these rules, and how many of those name everybody."""
    who = rules.principals[user]
    seen = rules.visible(who, documents) if who.roles & READER else [False] * len(documents)
    read = [labels for (_, labels), is_seen in zip(documents, seen, strict=True) if is_seen]
    everybody = sum("tenant" in labels.view for labels in read)
    return {"n": len(read), "all": len(documents), "everybody": everybody}
