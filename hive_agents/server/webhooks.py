"""Webhooks: a signed request starts a run, once for its id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Route

from hive_agents.server.problems import problem
from hive_agents.triggers import RefusedRequest, accept

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from hive_agents.runtime import Host


async def webhook(request: Request) -> Response:
    """202 {run_id} for a new run, 200 with the first one's id for a request that came before."""
    host: Host = request.app.state.host
    body = await request.body()
    name = request.path_params["trigger"]
    found = await accept(host.workspace, name, request.headers.items(), body, fire=host.fire)
    if isinstance(found, RefusedRequest):
        return problem(found.status, None, found.diagnostics, {"Retry-After": "5"} if found.status == 503 else None)
    return JSONResponse({"run_id": found.run_id}, found.status)


routes = [Route("/webhooks/{trigger}", webhook, methods=["POST"])]
