"""Notifications of requests: webhooks of approvers, and the event log."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Literal
from urllib.parse import urlsplit

from hive_agents.approvals.request import ApprovalRequest
from hive_agents.base import spelled
from hive_agents.events import Event, EventLog, EventType, derived_id
from hive_agents.store import RecordsConnection
from hive_agents.workspace import Workspace, is_trusted

Occasion = Literal["requested", "reminder", "escalated", "delegated", "decided", "expired", "superseded"]
TIMEOUT_SECONDS = 5.0
_log = logging.getLogger(__name__)


def notify(workspace: Workspace, occasion: Occasion, request: ApprovalRequest) -> list[threading.Thread]:
    """POST `{"occasion", "request"}` to each address of `approvals.notify`, in the background.

    The request's context isn't sent: an address may belong to a chat with other readers. Its texts are `spelled`: they
    are shown as they come.
    """
    addresses = workspace.settings.approvals.notify
    if addresses and not is_trusted(workspace, "approvals.notify"):
        _log.warning("approvals.notify: nobody is told: the addresses are not trusted; see `hive trust --diff`")
        return []
    row = {name: spelled(value) if isinstance(value, str) else value for name, value in request.summary().items()}
    body = json.dumps({"occasion": occasion, "request": row}, ensure_ascii=False).encode()
    threads = [threading.Thread(target=_post, args=(address, body)) for address in addresses]
    for thread in threads:
        thread.start()
    return threads


def _post(address: str, body: bytes) -> None:
    where = "an address that can't be read"
    try:
        parts = urlsplit(address)
        where = parts.hostname or where  # its path is often a secret
        if parts.scheme not in ("http", "https"):
            raise ValueError("not an http address")
        asyncio.run(_answered(address, body))
    except TimeoutError:
        _log.warning("approvals.notify: %s was not told: no answer within %g s", where, TIMEOUT_SECONDS)
    except Exception as error:
        _log.warning("approvals.notify: %s was not told: %s", where, error)


async def _answered(address: str, body: bytes) -> None:
    """Send a message; what an address answers beside its status isn't read, and where it redirects isn't asked."""
    import httpx

    headers = {"content-type": "application/json"}
    async with asyncio.timeout(TIMEOUT_SECONDS), httpx.AsyncClient(timeout=None) as client:
        async with client.stream("POST", address, content=body, headers=headers) as response:
            if not response.is_success:
                raise ValueError(f"it answered with status {response.status_code}")


def record(connection: RecordsConnection, type: EventType, request: ApprovalRequest) -> None:
    """Ids and words that a list of requests shows; what was asked stays in the request."""
    last = request.decisions[-1] if request.decisions else None
    told = {
        "approval_id": request.id,
        "kind": request.kind,
        "title": request.title,
        "status": request.status,
        "by": last.by if last is not None else None,
        "decision": last.verb if last is not None else None,
    }
    id = derived_id("approval", request.id, type)
    event = Event(type, request.run_id, request.thread_id, tenant=request.tenant, payload=told, id=id)
    EventLog.record(connection, [event])
