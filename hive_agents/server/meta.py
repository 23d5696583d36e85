"""What machines ask for: the OpenAPI document, metrics, and without a token probes and webhooks.

A webhook is a signed request that starts a run, once for each id of a request.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hive_agents.models import resting
from hive_agents.server import account, approvals, changes, colony, configs, copilot, documents, golden, runs, sources
from hive_agents.server.api import PRIVATE, Api, Operation, Value
from hive_agents.server.auth import ANYBODY, OPERATOR, Call
from hive_agents.server.metrics import MEDIA
from hive_agents.server.openapi import document
from hive_agents.server.problems import problem
from hive_agents.server.protocols import agui, openai
from hive_agents.triggers import webhooks

if TYPE_CHECKING:
    from starlette.requests import Request

    from hive_agents.host import Host


async def webhook(request: Request) -> Response:
    """Return 202 {run_id} for a new run, 200 with the earlier run's id for a repeated request."""
    host: Host = request.app.state.host
    body = await request.body()
    name = request.path_params["trigger"]
    outcome = await webhooks.accept(host.workspace, name, request.headers.items(), body, fire=host.fire)
    if isinstance(outcome, webhooks.RefusedRequest):
        headers = {"Retry-After": "5"} if outcome.status == 503 else None
        return problem(outcome.status, None, outcome.diagnostics, headers)
    return JSONResponse({"run_id": outcome.run_id}, outcome.status)


async def alive(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    host: Host = request.app.state.host
    faults = await host.faults()
    if faults:
        return problem(503, None, faults, {"Retry-After": "5"})
    # Answers are made without a model or an engine that is away, and agents wait for a model.
    states = {"roles": host.roles, "models": "resting" if resting() else "ok", "engines": host.engines}
    return JSONResponse({"status": "ok", **states})


probes = [Route("/healthz", alive, methods=["GET"]), Route("/readyz", ready, methods=["GET"])]
routes = [*probes, Route("/webhooks/{trigger}", webhook, methods=["POST"])]


api = Api("meta")


class OpenApiDocument(Value):
    """An OpenAPI 3.1 document."""

    model_config = {"extra": "allow", "frozen": True}


@api.get("/api/openapi.json", ANYBODY, tagged=True)
def openapi(_: Call) -> OpenApiDocument:
    """This document."""
    return OpenApiDocument(**described())


@api.get("/metrics", OPERATOR, media=MEDIA)
def metrics(call: Call) -> Response:
    """Metrics in the text format of Prometheus."""
    state = call.request.app.state
    return Response(state.metrics.shown(call.host, state.feed, state.connections), headers=PRIVATE, media_type=MEDIA)


OPERATIONS: list[Operation] = [
    *runs.api.operations,
    *copilot.api.operations,
    *documents.api.operations,
    *sources.api.operations,
    *approvals.api.operations,
    *configs.api.operations,
    *golden.api.operations,
    *colony.api.operations,
    *changes.api.operations,
    *account.api.operations,
    *agui.api.operations,
    *openai.api.operations,
    *api.operations,
]


@cache
def described() -> dict[str, Any]:
    return document(OPERATIONS, version("hive-agents"))
