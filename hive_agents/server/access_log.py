"""The access log: one line of JSON for each request, without any of its content."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
