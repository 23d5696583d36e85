"""Liveness and readiness probes, without authentication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Route

from hive_agents.models import resting
from hive_agents.server.problems import problem

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from hive_agents.host import Host


async def alive(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    host: Host = request.app.state.host
    faults = await host.faults()
    if faults:
        return problem(503, None, faults, {"Retry-After": "5"})
    # An unavailable model doesn't make the host unready: answers are made without it, and agents wait for it.
    return JSONResponse({"status": "ok", "roles": host.roles, "models": "resting" if resting() else "ok"})


routes = [Route("/healthz", alive, methods=["GET"]), Route("/readyz", ready, methods=["GET"])]
