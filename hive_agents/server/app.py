"""The application: its routes, what all requests go through, and how a fault is told."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from hive_agents.errors import HiveError
from hive_agents.runtime import Host
from hive_agents.server import health, webhooks
from hive_agents.server.limits import BodyLimit
from hive_agents.server.problems import Faults, of_hive, of_http

ROUTES = [*health.routes, *webhooks.routes]


def create_app(host: Host) -> Starlette:
    """The HTTP side of a host; `app.state.host` is what its routes speak to."""
    limits = host.workspace.settings.server
    app = Starlette(
        routes=ROUTES,
        middleware=[Middleware(Faults), Middleware(BodyLimit, limits=limits)],
        exception_handlers={HTTPException: of_http, HiveError: of_hive},
    )
    app.router.redirect_slashes = False  # to where the Host header says
    app.state.host = host
    return app
