"""Webhooks: a signed, recent and new request starts a run."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from hive_agents.access import service_principal
from hive_agents.base import Diagnostic, HiveError
from hive_agents.base.files import jsontext
from hive_agents.triggers.files import sound_trigger, trigger_ids
from hive_agents.triggers.firing import Fire, is_refusal, key_of, kind_of
from hive_agents.triggers.payload import input_of
from hive_agents.triggers.spec import WebhookTrigger
from hive_agents.triggers.store import TriggerStore, iso
from hive_agents.workspace.credentials import Secret, resolve

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

TOLERANCE_SECONDS = 300
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"sha256=[0-9a-f]{64}")
_ID = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")
_NAMES = {"x-hive-timestamp": _TIMESTAMP, "x-hive-signature": _SIGNATURE, "x-hive-id": _ID}
_DUMMY = Secret(secrets.token_hex(32), "dummy")
_turns: WeakValueDictionary[tuple[Path, str, str], asyncio.Lock] = WeakValueDictionary()
_log = logging.getLogger(__name__)
Headers = Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Accepted:
    """`status` is 202 for a new run, 200 for a repeated request."""

    status: int
    run_id: str


@dataclass(frozen=True)
class RefusedRequest:
    """401 invalid signature, 404 no such webhook, 413 too large, 400 no JSON, 422 doesn't fit the agent's
    inputs, 503 not possible now."""

    status: int
    diagnostics: tuple[Diagnostic, ...]


def sign(secret: str, body: bytes, timestamp: int | str) -> str:
    """Return the value of `X-Hive-Signature`: HMAC-SHA256 over timestamp, a full stop and the raw body.

    >>> sign("s3cret", b'{"ticket": 7}', 1700000000)
    'sha256=080de15bb3756769b646545e45a4e36e358bf196681a5bc6c65e7f8cbd917792'
    """
    message = str(timestamp).encode() + b"." + body
    return f"sha256={hmac.new(secret.encode('utf-8', 'surrogateescape'), message, hashlib.sha256).hexdigest()}"


async def accept(
    workspace: Workspace,
    trigger_id: str,
    headers: Headers,
    body: bytes,
    now: dt.datetime | None = None,
    *,
    fire: Fire,
) -> Accepted | RefusedRequest:
    """Handle a POST to `/webhooks/{trigger_id}`, whose bytes are `body`.

    The body isn't parsed before its signature is verified. Unknown, disabled and other triggers take as long as a valid
    one.

    Raises: HIVE-402, HIVE-403, HIVE-407 when the database fails.
    """
    now = now or dt.datetime.now(dt.UTC)
    most = workspace.settings.server.body_bytes
    if len(body) > most:
        return _refused(413, f"the body has more than {most} bytes", "send less")
    spec = await asyncio.to_thread(_found, workspace, trigger_id)
    secret = await asyncio.to_thread(_secret, workspace, spec)
    event_id = await asyncio.to_thread(_verified, secret or _DUMMY, headers, body, now)
    if spec is None:
        return _refused(404, "there is no such webhook", "`hive trigger list` names those there are")
    if secret is None:
        return _refused(503, "signatures can't be checked now", "send it again later")
    if event_id is None:
        fix = "sign timestamp, full stop and raw body; see docs/triggers.md"
        return _refused(401, "the request is not signed as it has to be, or its time is not now", fix)
    # Concurrent duplicates take turns: the second gets the run of the first.
    async with _turns.setdefault((workspace.root, spec.id, event_id), asyncio.Lock()):
        return await _taken(workspace, spec, event_id, body, now, fire)


async def _taken(
    workspace: Workspace, spec: WebhookTrigger, event_id: str, body: bytes, now: dt.datetime, fire: Fire
) -> Accepted | RefusedRequest:
    store = TriggerStore(workspace)
    try:
        principal = await asyncio.to_thread(service_principal, workspace, spec.service)
    except HiveError as error:
        return _later(spec, error)
    wanted = (principal.tenant, key_of(spec.id, event_id), now)
    key, first = await asyncio.to_thread(store.key_of, *wanted)
    if first is not None:
        return Accepted(200, first)
    try:
        value = await asyncio.to_thread(lambda: jsontext.parse(jsontext.decode(body, "body"), "body"))
    except HiveError as error:
        return RefusedRequest(400, tuple(error.diagnostics))
    try:
        payload = {"body": value, "id": event_id}
        input = await asyncio.to_thread(input_of, spec.input, spec.input_from, spec.input_key, payload, "body")
        run_id = await fire(spec, input, key=key, scheduled=iso(now))
    except HiveError as error:
        _, first = await asyncio.to_thread(store.key_of, *wanted)
        if first is not None:  # a concurrent request had the same id and another body
            return Accepted(200, first)
        return RefusedRequest(422, tuple(error.diagnostics)) if is_refusal(error) else _later(spec, error)
    if run_id is None:
        return _refused(503, "no run could be started", "send it again later")
    await asyncio.to_thread(_remember, store, spec, run_id, now)
    return Accepted(202, run_id)


def _remember(store: TriggerStore, spec: WebhookTrigger, run_id: str, now: dt.datetime) -> None:
    store.begin(spec, now)
    store.fired(spec.id, run_id, at=now)


def _found(workspace: Workspace, trigger_id: str) -> WebhookTrigger | None:
    try:
        spec = sound_trigger(workspace, trigger_id) if trigger_id in trigger_ids(workspace) else None
    except HiveError as error:
        _log.warning("webhook %s is left out: %s", trigger_id, kind_of(error))
        return None
    return spec if isinstance(spec, WebhookTrigger) and spec.enabled else None


def _secret(workspace: Workspace, spec: WebhookTrigger | None) -> Secret | None:
    if spec is None:
        return _DUMMY
    try:
        return resolve(workspace, spec.secret_ref)
    except HiveError as error:
        _log.warning("webhook %s can't check signatures: %s", spec.id, kind_of(error))
        return None


def _verified(secret: Secret, headers: Headers, body: bytes, now: dt.datetime) -> str | None:
    """Return the request's id; None for an invalid request, after the same work."""
    given: dict[str, list[str]] = {name: [] for name in _NAMES}
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        given.get(name.lower(), []).append(value)
    sound = {
        name: values[0] if len(values) == 1 and _NAMES[name].fullmatch(values[0]) else None
        for name, values in given.items()
    }
    timestamp, signature, event_id = (sound[name] for name in _NAMES)
    expected = sign(secret.reveal(), body, timestamp or "0")
    same = hmac.compare_digest(expected, signature or "sha256=")
    in_time = timestamp is not None and abs(now.timestamp() - int(timestamp)) <= TOLERANCE_SECONDS
    return event_id if same and in_time and timestamp and signature else None


def _refused(status: int, message: str, fix: str) -> RefusedRequest:
    return RefusedRequest(status, (Diagnostic("HIVE-426", message, fix=fix),))


def _later(spec: WebhookTrigger, error: HiveError) -> RefusedRequest:
    # Faults of the workspace are for its owner, not the sender.
    _log.warning("webhook %s started nothing: %s", spec.id, kind_of(error))
    return _refused(503, "the request can't be taken now", "send it again later")
