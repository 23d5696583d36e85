"""What all pages share: authentication, templates and texts, security headers, and error pages.

A page is a function `(call, …parameters of the path…) -> context` with a template. For a request of htmx only the
template's block `content` is rendered: one function serves the whole page and the part of it that changes. A form that
works without scripts is posted to a page, with the CSRF token as its field `csrf`; `call.sent` has its fields.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hive_agents.base import HiveError, spelled
from hive_agents.server.api import NEVER_KEPT
from hive_agents.server.auth import ADMIN, ANYBODY, OPERATOR, READER, REVIEWER, Call
from hive_agents.server.forms import fields
from hive_agents.server.pages.assets import address
from hive_agents.server.pages.effects import effects
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
PLACES = (
    ("chat", READER),
    ("documents", READER | OPERATOR),
    ("optimize", OPERATOR),
    ("approvals", REVIEWER),
    ("colony", ANYBODY),
    ("golden", OPERATOR),
    ("settings", ADMIN),
)
"""The pages that the header leads to, and the roles of which one is needed."""
THEMES = ("light", "dark")
"""What a reader may choose in place of what their system prefers."""
SIGNED_OUT = "hive:signed-out"
"""The event that a request of htmx without a session triggers in the browser."""


@dataclass(frozen=True)
class PageView:
    """One page: its path, the function that returns its context, the roles that may see it, its template, and whether
    a form is posted there."""

    path: str
    show: Callable[..., Any]
    roles: frozenset[str]
    template: str
    method: Literal["GET", "POST"] = "GET"

    async def __call__(self, request: Request) -> Response:
        call = None
        try:
            if self.method == "POST":
                media, body = request.headers.get("content-type", ""), await request.body()
                request.state.sent = await run_in_threadpool(fields, media, body)  # of anybody, and may be long
            call = await run_in_threadpool(Call, request)
            await run_in_threadpool(call.admit, self.roles)
            show = partial(self.show, call, **request.path_params)
            if not inspect.iscoroutinefunction(self.show):
                return await call.in_thread(self._answer, call, show)
            context = await show()
            if isinstance(context, Response):
                return context
            return await call.in_thread(self._answer, call, lambda: context)
        except HiveError as error:
            return await run_in_threadpool(_refused, request, error, call)

    def _answer(self, call: Call, show: Callable[[], Any]) -> Response:
        context = show()
        return context if isinstance(context, Response) else rendered(call.request, self.template, context, call)


class Pages:
    """The pages of one part, in the order in which they are matched."""

    def __init__(self) -> None:
        self.views: list[PageView] = []

    def get(self, path: str, roles: frozenset[str], template: str) -> Callable[..., Any]:
        return self._page(path, roles, template, "GET")

    def post(self, path: str, roles: frozenset[str], template: str) -> Callable[..., Any]:
        return self._page(path, roles, template, "POST")

    def _page(
        self, path: str, roles: frozenset[str], template: str, method: Literal["GET", "POST"]
    ) -> Callable[..., Any]:
        def register(show: Callable[..., Any]) -> Callable[..., Any]:
            self.views.append(PageView(path, show, roles, template, method))
            return show

        return register


def seen_other(address: str) -> Response:
    """Return a redirect to the page that shows what a form did; reloading that does nothing again."""
    return RedirectResponse(address, 303, headers=HEADERS)


def routes_of(pages: Pages) -> list[BaseRoute]:
    return [Route(view.path, _endpoint(view), methods=[view.method]) for view in pages.views]


def _endpoint(view: PageView) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        return await view(request)

    return endpoint


def rendered(
    request: Request, template: str, context: Mapping[str, Any], call: Call | None = None, status: int = 200
) -> HTMLResponse:
    """Return a template as a page; its block `content` alone for a request of htmx."""
    page = environment(decides=not template.startswith("chat")).get_template(template)
    language = preferred(request.headers.get("accept-language", ""), languages())
    values = {
        "t": partial(told, language),
        "word": partial(worded, language),
        "coded": partial(coded, language),
        "happened": partial(happened, language),
        "figure": partial(decimal, language),
        "fact": partial(fact, language),
        "effects": partial(effects, language),
        "language": language,
        "call": call,
        "me": call.principal if call is not None else None,
        "csrf": call.csrf() if call is not None else None,
        "here": request.url.path,
        "who": _named(call) if call is not None else None,
        "places": [one for one in PLACES if call is not None and one[1] & call.principal.roles],
        "theme": theme if (theme := request.cookies.get("theme")) in THEMES else None,
        "in_part": request.headers.get("hx-request") == "true",
        **context,
    }
    # A script drops a part where its page was opened by another user.
    named = {"X-Hive-Me": _named(call)} if values["in_part"] and call is not None else {}
    return HTMLResponse(page.render(values), status, headers=HEADERS | named)


def is_local(wanted: str) -> bool:
    """Return whether an address stays on this server: browsers drop tabs in it, and read a backslash as a slash."""
    return wanted.isprintable() and wanted.startswith("/") and not wanted.startswith(("//", "/\\"))


def _named(call: Call) -> str:
    """Return the caller's tenant and user, encoded for a header that a script compares."""
    return "/".join(quote(part, safe="!'()*") for part in (call.principal.tenant, call.principal.user))


def _refused(request: Request, error: HiveError, call: Call | None) -> Response:
    """Return a redirect to the sign-in page, or its event to htmx, without a session; else the error page."""
    status = status_of(error)
    if status == 401:
        if request.headers.get("hx-request") == "true":
            return Response(status_code=204, headers=HEADERS | {"HX-Trigger": SIGNED_OUT})
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        where = "/login" if wanted == "/" else f"/login?{urlencode({'next': wanted})}"
        return RedirectResponse(where, 303, headers=HEADERS)
    missing, diagnostics = status == 404, error.diagnostics
    if missing:  # its fix names a command or a route: the page has links instead
        diagnostics = [replace(one, fix=None) for one in diagnostics]
    return rendered(request, "fault.html", {"diagnostics": diagnostics, "missing": missing}, call, status)


@cache
def environment(*, decides: bool = True) -> Environment:
    """Return the environment of the templates; it escapes all values.

    Where a person `decides` every text is `spelled`; readers' pages show documents as they are written.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from hive_agents.copilot import document_status

    made = Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_finalized if decides else None,
    )  # fmt: skip
    made.globals |= {"asset": address}
    made.filters |= {"segment": lambda value: quote(str(value), safe=""), "json": _json, "dotted": _dotted}
    made.filters["document_status"] = document_status
    made.globals["ui"] = made.get_template("ui.html").module
    return made


def _finalized(value: object) -> object:
    return value if hasattr(value, "__html__") else spelled(value)


def _dotted(path: str) -> Markup:
    """Return a path that may break after each dot or slash."""
    return escape(spelled(path)).replace(".", Markup(".<wbr>")).replace("/", Markup("/<wbr>"))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
