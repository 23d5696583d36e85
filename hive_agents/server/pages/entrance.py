"""The sign-in page and the 404 page; the routes of all pages, and of the files that they load."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hive_agents.base import Diagnostic, HiveError
from hive_agents.server import account
from hive_agents.server.auth import Call
from hive_agents.server.pages import (
    agents,
    approvals,
    chat,
    colony,
    find,
    golden,
    home,
    library,
    machine,
    optimize,
    provider,
    readers,
    settings,
    trust,
)
from hive_agents.server.pages.assets import asset
from hive_agents.server.pages.language import codes as codes_in, languages
from hive_agents.server.pages.view import HEADERS, is_local, rendered, routes_of
from hive_agents.server.problems import of_http

if TYPE_CHECKING:
    from starlette.requests import Request


async def sign_in(request: Request) -> Response:
    """Sign in with the code of a sign-in link, or show the form for a token."""
    if "code" in request.query_params:
        try:
            return await account.login(request)
        except HiveError as error:
            return await run_in_threadpool(_form, request, "/", error.diagnostics, 401)
    wanted = request.query_params.get("next", "/")
    return await run_in_threadpool(_form, request, wanted if is_local(wanted) else "/")


def _form(request: Request, then: str, diagnostics: Sequence[Diagnostic] = (), status: int = 200) -> Response:
    shown = {"next": then, "diagnostics": diagnostics, "provider": request.app.state.signin.is_named}
    return rendered(request, "login.html", shown, status=status)


async def lost(request: Request, error: Exception) -> Response:
    """Return a 404 page to browsers, and a problem to other clients."""
    assert isinstance(error, HTTPException)
    wants_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if error.status_code != 404 or not wants_page or request.url.path.startswith("/api/"):
        return await of_http(request, error)
    call = None
    with suppress(HiveError, HTTPException):
        call = await run_in_threadpool(Call, request)
    return await run_in_threadpool(rendered, request, "fault.html", {"diagnostics": (), "missing": True}, call, 404)


async def codes(request: Request) -> Response:
    """Return the titles of the diagnostics' codes for scripts; without authentication, like the static files."""
    language = request.path_params["language"]
    if language not in languages():
        raise HTTPException(404)
    return JSONResponse(codes_in(language), headers=HEADERS | {"Cache-Control": "no-cache"})


async def favicon(_: Request) -> Response:
    return RedirectResponse("/static/hive.svg", 303, headers=HEADERS)


PARTS = (home, find, chat, library, golden, approvals, optimize, colony, settings, machine, trust, agents, provider,
         readers)  # fmt: skip
routes: list[BaseRoute] = [
    Route("/static/{name}", asset),
    Route("/login", sign_in, methods=["GET"]),
    Route("/codes/{language}", codes, methods=["GET"]),
    Route("/favicon.ico", favicon),
    *(route for part in PARTS for route in routes_of(part.pages)),
]
