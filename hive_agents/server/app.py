"""The ASGI application: its routes, middleware and exception handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from hive_agents.base import HiveError
from hive_agents.host import Host
from hive_agents.server import account, meta, pages, signin
from hive_agents.server.api import routes_of
from hive_agents.server.feed import Feed
from hive_agents.server.freshness import Freshness
from hive_agents.server.metrics import MeasuredRequests, Metrics
from hive_agents.server.middleware import AccessLog, BodyLimit, Compressed, KnownHosts, Versioned
from hive_agents.server.problems import Faults, of_hive
from hive_agents.server.protocols.mcp import McpEndpoint
from hive_agents.server.rates import RATE_HEADERS, Places, RateHeaders, Rates, Streams

if TYPE_CHECKING:
    from hive_agents.workspace.settings import ServerSettings

ROUTES = [*meta.routes, *pages.routes, *account.routes, *signin.routes, *routes_of(meta.OPERATIONS)]
PROBES = [*meta.probes, *routes_of([one for one in meta.OPERATIONS if one.path == "/metrics"])]
"""The routes of a host without the role http."""


SHOWN_TO_OTHER_SITES = ["ETag", "Location", "Retry-After", *RATE_HEADERS]


def create_app(host: Host, mcp: McpEndpoint | None = None, *, loopback: bool = False) -> Starlette:
    """Return the HTTP application of a host; `app.state` holds what its routes share, such as the feed of events.

    `mcp` serves another MCP server than the workspace's; `loopback` is whether this machine alone can reach it.
    """
    limits = host.workspace.settings.server
    metrics, mcp = Metrics(host.dispatcher.engine), mcp or McpEndpoint()
    routes = PROBES if "http" not in host.roles else [*ROUTES, Route("/mcp", mcp, methods=["POST"])]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(Versioned),
            Middleware(AccessLog),
            Middleware(MeasuredRequests, metrics=metrics),
            *_other_sites(limits),
            Middleware(Compressed),
            Middleware(RateHeaders),
            Middleware(Faults),
            Middleware(KnownHosts, hosts=limits.hosts, loopback=loopback),
            Middleware(BodyLimit, limits=limits),
        ],
        exception_handlers={HTTPException: pages.lost, HiveError: of_hive},
    )
    app.router.redirect_slashes = False  # a redirect would lead to the host of the Host header
    app.state.host = host
    app.state.metrics, app.state.mcp = metrics, mcp
    app.state.feed = Feed(host)
    app.state.rates, app.state.places = Rates(host.workspace), Places()
    app.state.streams = Streams(limits.streams_per_caller)
    app.state.freshness = Freshness(host.workspace)
    app.state.signin = signin.Provider(host.workspace)
    app.state.engine = host.dispatcher.engine
    return app


def _other_sites(limits: ServerSettings) -> list[Middleware]:
    """Return what lets scripts of `[server] origins` call with a token; a session's cookie is never let through."""
    if not limits.origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=limits.origins,
            allow_methods=["GET", "HEAD", "POST", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=SHOWN_TO_OTHER_SITES,
            allow_credentials=False,
        )
    ]
