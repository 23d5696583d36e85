"""Faults as application/problem+json (RFC 9457): {type, title, status, detail, code, diagnostics}."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from hive_agents.errors import Diagnostic, HiveError
from hive_agents.triggers import kind_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("hive_agents.server")
_STATUS = {2: 400, 3: 503}
"""By exit code: wrong usage is the caller's, the environment is ours; the rest can't be done as it was asked."""


def problem(
    status: int,
    detail: str | None = None,
    diagnostics: Sequence[Diagnostic] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """`code` is the first diagnostic's; `detail` its message, unless something else is said."""
    first = diagnostics[0] if diagnostics else None
    value: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail or (first.message if first else HTTPStatus(status).description),
        "code": first.code if first else None,
        "diagnostics": [one.to_json() for one in diagnostics],
    }
    return JSONResponse(value, status, headers=dict(headers or {}), media_type="application/problem+json")


async def of_http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    plain = error.detail if error.detail != HTTPStatus(error.status_code).phrase else None
    return problem(error.status_code, plain, headers=error.headers)


async def of_hive(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HiveError)
    status = _STATUS.get(error.exit_code, 422)
    return problem(status, None, error.diagnostics, {"Retry-After": "5"} if status == 503 else None)


class Faults:
    """Turns what nobody expected into a 500 that says nothing of the inside; the log gets the kind of fault."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def sent(message: Message) -> None:
            nonlocal began
            began = began or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except ClientDisconnect:
            pass  # nobody is left to answer
        except Exception as error:
            _log.error("a request failed: %s", kind_of(error))
            # An answer that began is broken off by the server; it would log what is raised, message and all.
            if scope["type"] == "http" and not began:
                await problem(500)(scope, receive, send)
