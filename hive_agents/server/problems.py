"""Errors as application/problem+json (RFC 9457): {type, title, status, detail, code, diagnostics}."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from hive_agents.base import Diagnostic, EngineFault, HiveError, NotFound, RefusedInput, RightsWithdrawn, Taken, TooMany
from hive_agents.server.api import NEVER_KEPT
from hive_agents.server.shapes import OPENAI, OpenAiError, OpenAiProblem, Problem
from hive_agents.triggers import firing

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("hive_agents.server")
_BY_CODE = {
    "HIVE-101": 400,
    "HIVE-307": 409,
    "HIVE-408": 409,
    "HIVE-413": 409,
    "HIVE-414": 409,
    "HIVE-415": 403,
    "HIVE-416": 409,
    "HIVE-417": 401,
    "HIVE-433": 429,
}
_BY_EXIT_CODE = {2: 400, 3: 503}
"""Wrong usage is a bad request, a failure of the environment the server's; anything else is 422."""
_BY_STATUS = {
    404: ("HIVE-409", "GET /api/openapi.json lists what there is"),
    405: ("HIVE-409", "the header Allow has the methods"),
    408: ("HIVE-409", "send the body without a pause"),
    413: ("HIVE-115", "send less at once, or raise server.body_bytes"),
    415: ("HIVE-409", "send the Content-Type that GET /api/openapi.json has for it, mostly application/json"),
    421: ("HIVE-409", "ask for a name that it has, or add this one to server.hosts"),
}
"""Code and fix for responses of these statuses that come without a diagnostic."""
CHALLENGE = {"WWW-Authenticate": "Bearer"}
AGAIN = {"Retry-After": "5"}
CUT_OFF = Diagnostic("HIVE-427", "this host ended before it could answer", fix="ask another one, or this one again")


def problem(
    status: int,
    detail: str | None = None,
    diagnostics: Sequence[Diagnostic] = (),
    headers: Mapping[str, str] | None = None,
    *,
    path: str = "",
) -> JSONResponse:
    """Return a response of `problem_of`; below the `path` `/v1/` with OpenAI's `error`."""
    value = problem_of(status, detail, diagnostics)
    if not path.startswith(OPENAI):
        del value["error"]
    headers = {"Cache-Control": NEVER_KEPT, **(headers or {})}
    return JSONResponse(value, status, headers=headers, media_type="application/problem+json")


def problem_of(status: int, detail: str | None = None, diagnostics: Sequence[Diagnostic] = ()) -> dict[str, Any]:
    """Return a problem whose `code` is the first diagnostic's, and `detail` its message by default.

    `error` is OpenAI's, the only part that clients of that protocol show.
    """
    if not diagnostics and status in _BY_STATUS:
        code, fix = _BY_STATUS[status]
        diagnostics = [Diagnostic(code, detail or HTTPStatus(status).description, fix=fix)]
    value = Problem.of(status, diagnostics, detail).model_dump()
    return OpenAiProblem(**value, error=_as_openai(value)).model_dump()


_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def _as_openai(value: dict[str, Any]) -> OpenAiError:
    """Return a problem as OpenAI's error object, its fix in the message."""
    first: dict[str, Any] = next(iter(value["diagnostics"]), {})
    message = "; ".join(part for part in (value["detail"], first.get("fix")) if part)
    kind = _KINDS.get(value["status"], "server_error" if value["status"] >= 500 else "invalid_request_error")
    return OpenAiError(message=message, type=kind, code=value["code"], param=first.get("path"))


async def of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = error.detail if error.detail != HTTPStatus(error.status_code).phrase else None
    return problem(error.status_code, detail, headers=error.headers, path=request.url.path)


async def of_hive(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HiveError)
    status = status_of(error)
    headers = CHALLENGE if status == 401 else AGAIN if status == 503 else None
    if isinstance(error, (EngineFault, TooMany)):
        headers = {"Retry-After": str(error.retry_after)}
    return problem(status, None, error.diagnostics, headers, path=request.url.path)


def status_of(error: HiveError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Taken):
        return 409
    if isinstance(error, RefusedInput):
        return 422
    code = error.diagnostics[0].code
    if code == "HIVE-417" and error.exit_code == 3 and not isinstance(error, RightsWithdrawn):
        return 503  # the server's key is at fault, not the token
    return _BY_CODE.get(code) or _BY_EXIT_CODE.get(error.exit_code, 422)


class Faults:
    """Turns unexpected exceptions into a 500 without internals, and what an ending host cuts off into a 503.

    The log gets the type of the exception.
    """

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
            pass  # there is no client to answer
        except asyncio.CancelledError:
            # Not raised: a server that ends cancels what is left, and would answer it with a 500 and a traceback.
            if scope["type"] == "http" and not began:
                await problem(503, None, [CUT_OFF], AGAIN, path=scope["path"])(scope, receive, send)
        except Exception as error:
            _log.error("a request failed: %s", firing.kind_of(error))
            # Not raised: uvicorn would log the message, which may quote documents. It breaks off a response that began.
            if scope["type"] == "http" and not began:
                await problem(500, path=scope["path"])(scope, receive, send)
