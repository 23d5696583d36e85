"""The OpenAPI document and the metrics of the interface."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from starlette.responses import Response

from hive_agents.server import account, approvals, changes, colony, configs, copilot, golden, runs
from hive_agents.server.api import PRIVATE, Api, Operation, Value
from hive_agents.server.auth import ANYBODY, OPERATOR, Call
from hive_agents.server.metrics import MEDIA
from hive_agents.server.openapi import document
from hive_agents.server.protocols import agui, openai

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
    return Response(state.metrics.shown(call.host, state.feed), headers=PRIVATE, media_type=MEDIA)


OPERATIONS: list[Operation] = [
    *runs.api.operations,
    *copilot.api.operations,
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
