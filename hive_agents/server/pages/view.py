"""What all pages share: who looks, templates and texts, the headers that keep foreign scripts out, and faults.

A page is a function `(call, …parts of the path…) -> context` with a template. For a request of htmx only the template's
block `content` is rendered, so that one function serves the whole page and the part of it that changes.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hive_agents.errors import HiveError
from hive_agents.server.api import NEVER_KEPT
from hive_agents.server.auth import Call
from hive_agents.server.pages.assets import address
from hive_agents.server.pages.language import coded, decimal, fact, happened, languages, preferred, told, worded
from hive_agents.server.problems import status_of

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request

HEADERS = {
    "Cache-Control": NEVER_KEPT,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
SIGNED_OUT = "hive:signed-out"
"""What a part of a page that is asked for by nobody triggers in its browser."""


@dataclass(frozen=True)
class PageView:
    """One page: where it is, who may look, its template, and what it shows."""

    path: str
    show: Callable[..., Any]
    roles: frozenset[str]
    template: str

    async def __call__(self, request: Request) -> Response:
        call = None
        try:
            call = await run_in_threadpool(Call, request)
            await run_in_threadpool(call.admit, self.roles)
            given = dict(request.path_params)
            if inspect.iscoroutinefunction(self.show):
                context = await self.show(call, **given)
            else:
                context = await run_in_threadpool(self.show, call, **given)
        except HiveError as error:
            return _refused(request, error, call)
        if isinstance(context, Response):
            return context
        return await run_in_threadpool(rendered, request, self.template, context, call)


class Pages:
    """The pages of one part, in the order in which they are matched."""

    def __init__(self) -> None:
        self.views: list[PageView] = []

    def get(self, path: str, roles: frozenset[str], template: str) -> Callable[..., Any]:
        def register(show: Callable[..., Any]) -> Callable[..., Any]:
            self.views.append(PageView(path, show, roles, template))
            return show

        return register


def routes_of(pages: Pages) -> list[BaseRoute]:
    return [Route(view.path, _endpoint(view), methods=["GET"]) for view in pages.views]


def _endpoint(view: PageView) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        return await view(request)

    return endpoint


def rendered(
    request: Request, template: str, context: Mapping[str, Any], call: Call | None = None, status: int = 200
) -> HTMLResponse:
    """Return a template as a page; its block `content` alone for a request of htmx."""
    found = environment().get_template(template)
    language = preferred(request.headers.get("accept-language", ""), languages())
    values = {
        "t": partial(told, language),
        "word": partial(worded, language),
        "coded": partial(coded, language),
        "happened": partial(happened, language),
        "figure": partial(decimal, language),
        "fact": partial(fact, language),
        "language": language,
        "call": call,
        "me": call.principal if call is not None else None,
        "csrf": call.csrf() if call is not None else None,
        "here": request.url.path,
        "who": _named(call) if call is not None else None,
        **context,
    }
    if request.headers.get("hx-request") == "true":
        text = "".join(found.blocks["content"](found.new_context(values)))
        # A part belongs to the page of who asks now, and to no page that was opened as somebody else.
        return HTMLResponse(text, status, headers=HEADERS | ({"X-Hive-Me": _named(call)} if call is not None else {}))
    return HTMLResponse(found.render(values), status, headers=HEADERS)


def _named(call: Call) -> str:
    """Return who looks, as a header can have it and a script compares it."""
    return "/".join(quote(part, safe="!'()*") for part in (call.principal.tenant, call.principal.user))


def _refused(request: Request, error: HiveError, call: Call | None) -> Response:
    """Send nobody to the sign-in page, or have the page that is open ask for it; else tell what is wrong."""
    status = status_of(error)
    if status == 401:
        if request.headers.get("hx-request") == "true":
            return Response(status_code=204, headers=HEADERS | {"HX-Trigger": SIGNED_OUT})
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        where = "/login" if wanted == "/" else f"/login?{urlencode({'next': wanted})}"
        return RedirectResponse(where, 303, headers=HEADERS)
    missing, told_of = status == 404, error.diagnostics
    if missing:  # its fix is for who types commands: the page links to what there is
        told_of = [replace(one, fix=None) for one in told_of]
    return rendered(request, "fault.html", {"diagnostics": told_of, "missing": missing}, call, status)


@cache
def environment() -> Environment:
    """Return the templates; all that they show is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from hive_agents.copilot import document_status

    found = Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    found.globals |= {"asset": address}
    found.filters |= {"segment": lambda value: quote(str(value), safe=""), "json": _json, "dotted": _dotted}
    found.filters["document_status"] = document_status
    return found


def _dotted(path: str) -> Markup:
    """Return a path that may go on in another line behind each dot or slash."""
    return escape(path).replace(".", Markup(".<wbr>")).replace("/", Markup("/<wbr>"))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
