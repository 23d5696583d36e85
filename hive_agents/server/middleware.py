"""Middleware: the version in paths, the access log, compression, the configured host names, the limits of bodies."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from hive_agents.base import Diagnostic, safe_line
from hive_agents.server.address import is_loopback
from hive_agents.server.problems import problem
from hive_agents.server.shapes import OPENAI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hive_agents.workspace.settings import ServerSettings


UPLOADS = re.compile(r"/api/documents|/api/threads/[^/]+/files")
"""The paths that files are sent to."""
VERSION, UNVERSIONED = "/api/v1/", "/api/"
_COMPRESSED_FROM = 1000
DISCARDED, DISCARDING_SECONDS = 4, 1.0
"""How many times the limit is read, and discarded, and for how long, before a refusal closes the connection."""


class Versioned:
    """Answers `/api/v1/…` as `/api/…`; everything behind it knows one path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(VERSION):
            scope = {**scope, "path": UNVERSIONED + scope["path"].removeprefix(VERSION)}
        await self._app(scope, receive, send)


class Compressed:
    """Compresses long answers of the API for whoever takes that; event streams, and pages, stay as they are.

    Pages hold a CSRF token beside text from the link, and the compressed length would reveal the former by the latter
    (BREACH).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._compressing = app, GZipMiddleware(app, minimum_size=_COMPRESSED_FROM, compresslevel=5)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_api = scope["type"] == "http" and scope["path"].startswith((UNVERSIONED, OPENAI))
        if is_api and not takes_gzip(Headers(scope=scope).get("accept-encoding", "")):
            # Starlette's takes a weight of 0 for consent.
            scope = {**scope, "headers": [one for one in scope["headers"] if one[0] != b"accept-encoding"]}
        await (self._compressing if is_api else self._app)(scope, receive, send)


def takes_gzip(accepted: str) -> bool:
    """Return whether an Accept-Encoding header names gzip, with a weight above 0.

    >>> [takes_gzip(each) for each in ("gzip, br", "br, gzip;q=0.5", "gzip;q=0", "identity", "")]
    [True, True, False, False, False]
    """
    for part in accepted.lower().split(","):
        coding, _, weight = part.replace(" ", "").partition(";q=")
        if coding in ("gzip", "x-gzip"):
            return weight.strip("0.") != "" or not weight
    return False


class BodyLimit:
    """Refuses bodies of more than `body_bytes` with 413, whatever Content-Length says, slow ones with 408, and
    compressed ones, whose size is not the work's, with 415.

    Files may have `upload_bytes`, and for each `body_bytes` that came as much time as a whole other body.

    A body that would exceed `bodies_bytes`, the limit of all bodies together, is refused with 503.
    """

    def __init__(self, app: ASGIApp, limits: ServerSettings) -> None:
        self._app, self._limits = app, limits
        self._bytes_in_memory = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_upload = scope["method"] == "POST" and UPLOADS.fullmatch(scope["path"]) is not None
        max_bytes = self._limits.upload_bytes if is_upload else self._limits.body_bytes
        too_large = f"the body has more than {max_bytes} bytes"
        headers = dict(scope["headers"])
        size, complete = 0, headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers

        async def answered(message: Message) -> None:
            nonlocal complete
            # A client that is still sending would see a broken connection, and not the refusal. A slow one isn't
            # waited for, and one that asked first (Expect) sends nothing when it is refused.
            refused = message["type"] == "http.response.start" and 400 <= message["status"] != 408
            if refused and (size or b"expect" not in headers):
                discarded = 0
                with suppress(TimeoutError):
                    async with asyncio.timeout(DISCARDING_SECONDS):
                        while not complete and discarded <= DISCARDED * max_bytes:
                            part = await receive()
                            discarded += len(part.get("body", b""))
                            complete = not part.get("more_body", False)
            await send(message)

        coding = headers.get(b"content-encoding", b"identity").decode("latin-1")
        if coding.lower() != "identity":
            fix = "send the body without Content-Encoding"
            refused = Diagnostic("HIVE-409", f"the body is compressed ({safe_line(coding[:40])})", fix=fix)
            refusal = problem(415, None, [refused], {"Accept-Encoding": "identity"}, path=scope["path"])
            await refusal(scope, receive, answered)
            return
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > max_bytes:
            refusal = problem(413, too_large, headers={"Connection": "close"}, path=scope["path"])
            await refusal(scope, receive, answered)
            return
        began = asyncio.get_running_loop().time()

        async def limited() -> Message:
            nonlocal size, complete
            if complete:  # the only message that can follow is the disconnection
                return await receive()
            deadline = began + self._limits.body_seconds * (1 + size // self._limits.body_bytes if is_upload else 1)
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, headers={"Connection": "close"}) from None
            part = len(message.get("body", b""))
            size, self._bytes_in_memory = size + part, self._bytes_in_memory + part
            complete = not message.get("more_body", False)
            if size > max_bytes:
                raise HTTPException(413, too_large, headers={"Connection": "close"})
            if self._bytes_in_memory > self._limits.bodies_bytes:
                detail = "too many bodies are being received"
                raise HTTPException(503, detail, headers={"Connection": "close", "Retry-After": "5"})
            return message

        try:
            await self._app(scope, limited, answered)
        finally:
            self._bytes_in_memory -= size


_log = logging.getLogger("hive_agents.access")


class AccessLog:
    """Logs {method, route, ids, status, ms, user, tenant} when a response begins."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _log.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                _log.info("%s", json.dumps(_line(scope, message["status"], time.perf_counter() - began)))
            await send(message)

        await self._app(scope, receive, sent)


def _line(scope: Scope, status: int, seconds: float) -> dict[str, Any]:
    principal = scope.get("state", {}).get("principal")
    ids = {name: value for name, value in scope.get("path_params", {}).items() if name != "doc_id"}
    return {
        "method": scope["method"],
        "route": getattr(scope.get("route"), "path", None),
        "ids": ids,
        "status": status,
        "ms": round(1000 * seconds, 1),
        "user": principal.user if principal is not None else None,
        "tenant": principal.tenant if principal is not None else None,
    }


_PROBES = frozenset({"/healthz", "/readyz"})
"""Monitoring reaches a machine by its address."""


class KnownHosts:
    """Refuses requests whose Host header names none of `hosts` with 421, which stops DNS rebinding.

    On `loopback` the names of this machine are known, too; elsewhere without any `hosts` every name is accepted.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], loopback: bool) -> None:
        self._app, self._hosts, self._loopback = app, frozenset(map(name_of, hosts)), loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _PROBES:
            name = name_of(dict(scope["headers"]).get(b"host", b"").decode("latin-1"))
            if name not in self._hosts and not (is_loopback(name.strip("[]")) if self._loopback else not self._hosts):
                await problem(421, "this server has another name", path=scope["path"])(scope, receive, send)
                return
        await self._app(scope, receive, send)


def name_of(host: str) -> str:
    """Return the name in a Host header, without the port.

    >>> name_of("Hive.example.org:443"), name_of("[::1]:8787"), name_of("[::1]")
    ('hive.example.org', '[::1]', '[::1]')
    """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() and not name.endswith(":") else host).lower()
