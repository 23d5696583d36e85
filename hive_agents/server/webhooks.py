"""Webhooks: a signed request starts a run, once for each id of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Route

from hive_agents.server.problems import problem
from hive_agents.triggers import RefusedRequest, accept

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from hive_agents.host import Host


async def webhook(request: Request) -> Response:
    """Return 202 {run_id} for a new run, 200 with the earlier run's id for a repeated request."""
    host: Host = request.app.state.host
    body = await request.body()
    name = request.path_params["trigger"]
    outcome = await accept(host.workspace, name, request.headers.items(), body, fire=host.fire)
    if isinstance(outcome, RefusedRequest):
        headers = {"Retry-After": "5"} if outcome.status == 503 else None
        return problem(outcome.status, None, outcome.diagnostics, headers)
    return JSONResponse({"run_id": outcome.run_id}, outcome.status)


routes = [Route("/webhooks/{trigger}", webhook, methods=["POST"])]
