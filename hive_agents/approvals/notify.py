"""Notifications of requests: webhooks of approvers, and the event log."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal
from urllib.parse import urlsplit

from hive_agents.approvals.request import ApprovalRequest
from hive_agents.base import spelled
from hive_agents.events import Event, EventLog, EventType, derived_id
from hive_agents.store import RecordsConnection
from hive_agents.workspace import Workspace, is_trusted

Occasion = Literal["requested", "reminder", "escalated", "delegated", "decided", "expired", "superseded"]
TIMEOUT_SECONDS = 5.0
THREADS, WAITING = 16, 200
"""The addresses that are told at the same time, and the messages that may wait for one."""
_log = logging.getLogger(__name__)
_lock = threading.Lock()
_waiting: dict[str, list[bytes]] = {}
_telling: dict[str, Future[None]] = {}
_pool = ThreadPoolExecutor(THREADS, "approvals.notify")


class _Here(ThreadPoolExecutor):
    """Does what it is given at once: a program that ends gets no further threads, such as those that look names up."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **named))
        except Exception as error:
            done.set_exception(error)
        return done


def notify(workspace: Workspace, occasion: Occasion, request: ApprovalRequest) -> list[Future[None]]:
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
    with _lock:
        for number, address in enumerate(addresses):
            waiting = _waiting.setdefault(address, [])
            if len(waiting) >= WAITING:
                _log.warning("approvals.notify[%d] was not told of %s: %d wait for it", number, request.id, WAITING)
                continue
            waiting.append(body)
            if address not in _telling:
                _telling[address] = _pool.submit(_tell, address)
        return [_telling[address] for address in addresses]


def _tell(address: str) -> None:
    """Send what waits for an address, all of it at once, until nothing does."""
    where = "an address that can't be read"
    while True:
        with _lock:
            if not (bodies := _waiting.pop(address, [])):
                del _telling[address]
                return
        try:
            where = urlsplit(address).hostname or where  # its path is often a secret
            for why in asyncio.run(_posted(address, bodies)):
                _log.warning("approvals.notify: %s was not told: %s", where, why)
        except Exception as error:
            _log.warning("approvals.notify: %s was not told: %s", where, error)


async def _posted(address: str, bodies: Sequence[bytes]) -> list[str]:
    """Send messages and return why some weren't taken; what an address answers beside its status isn't read, and where
    it redirects isn't asked."""
    import httpx

    asyncio.get_running_loop().set_default_executor(_Here(1))

    async def failure(body: bytes) -> str | None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS), client.stream("POST", address, content=body) as response:
                return None if response.is_success else f"it answered with status {response.status_code}"
        except TimeoutError:
            return f"no answer within {TIMEOUT_SECONDS:g} s"

    async with httpx.AsyncClient(timeout=None, headers={"content-type": "application/json"}) as client:
        return [str(why) for why in await asyncio.gather(*map(failure, bodies), return_exceptions=True) if why]


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
