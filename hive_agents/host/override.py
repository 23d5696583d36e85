"""File requests to override the gate, one for each measurement."""

from __future__ import annotations

from typing import Any

from hive_agents.access import same_person
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.store import exclusive
from hive_agents.workspace import Workspace


def file_once(workspace: Workspace, filing: Filing) -> str:
    """Return the id of the pending request for the same override, else of a new one.

    The same override has the same requester, reason, decision of the gate and certificate (config, active config,
    golden set, index, model, release) but for timings. A new request supersedes the requester's pending ones for this
    config.
    """
    store = ApprovalStore(workspace)
    with exclusive(workspace, "asking for an override"):
        earlier = [one for one in store.list("pending", kind="deploy") if _same_config(one, filing)]
        for request in earlier:
            if _identity(request) == _identity(filing):
                return request.id
        filed = store.file(filing).id
        for request in earlier:
            store.supersede(request.id, f"asked for again as {filed}")
    return filed


def _same_config(one: Filing, other: Filing) -> bool:
    names = "via", "file"
    same = all(one.context.get(name) == other.context.get(name) for name in names)
    return same and same_person(one.requester, other.requester)


def _identity(filing: Filing) -> list[Any]:
    certificate = filing.context["evaluation"]["certificate"]
    measured = {name: value for name, value in certificate.items() if name not in ("at", "audit")}
    return [filing.context["reason"], filing.context["certificate"]["decision"], measured]
