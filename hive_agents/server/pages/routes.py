"""All pages, and the files that they load."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from hive_agents.server.pages import approvals, chat, colony, entrance, golden, optimize
from hive_agents.server.pages.assets import asset
from hive_agents.server.pages.view import routes_of

PARTS = (entrance.pages, chat.pages, golden.pages, approvals.pages, optimize.pages, colony.pages)
routes: list[BaseRoute] = [
    Route("/static/{name}", asset),
    *entrance.routes,
    *(route for pages in PARTS for route in routes_of(pages)),
]
