"""All pages, and the files that they load."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from hive_agents.server.pages import chat, entrance, golden
from hive_agents.server.pages.assets import asset
from hive_agents.server.pages.view import routes_of

routes: list[BaseRoute] = [
    Route("/static/{name}", asset),
    *entrance.routes,
    *routes_of(entrance.pages),
    *routes_of(chat.pages),
    *routes_of(golden.pages),
]
