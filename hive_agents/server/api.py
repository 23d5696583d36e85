"""Routes as small typed functions: what they take, what they give and who may call them stands in one place.

A function gets the `Call`, the parts of its path by name, and `body` or `query` where it has such a parameter; the
types of these, and of what it returns, are the OpenAPI document. A plain function runs in a thread.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from hive_agents.errors import HiveError
from hive_agents.files import Format, diagnostics_of, jsontext, load_value
from hive_agents.server.auth import Call

if TYPE_CHECKING:
    from starlette.requests import Request

F = TypeVar("F", bound=Format)
M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=Callable[..., Any])
HttpMethod = Literal["GET", "POST", "PATCH", "DELETE"]
MOST = 2**53
"""The largest whole number that may be sent: up to it every reader of JSON has them all, and the database, too."""
NEVER_KEPT = "no-store, private"
"""The `Cache-Control` of all that depends on who asks, what isn't found included."""
PRIVATE = {"Cache-Control": NEVER_KEPT, "X-Content-Type-Options": "nosniff"}


class Body(Format):
    """Base of what is sent: strict types, no unknown keys."""


class Query(BaseModel):
    """Base of what stands behind the question mark."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Value(BaseModel):
    """Base of what is answered."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class ApiAnswer:
    """A value with another status than the operation's, or with headers."""

    value: BaseModel
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One method of one path. `tagged` answers carry an ETag: nothing in them depends on who reads."""

    method: HttpMethod
    path: str
    run: Callable[..., Any]
    roles: frozenset[str]
    status: int = 200
    tag: str = ""
    tagged: bool = False
    keyed: bool = False
    """Whether it takes an Idempotency-Key."""
    media: str = "application/json"
    takes: type[BaseModel] | None = None
    """The type of a body that it reads by itself, of somebody else's protocol."""

    @cached_property
    def hints(self) -> dict[str, Any]:
        return get_type_hints(self.run)

    @property
    def body(self) -> type[Format] | None:
        return self.hints.get("body")

    @property
    def query(self) -> type[Query] | None:
        return self.hints.get("query")

    @property
    def answer(self) -> type[BaseModel] | None:
        """The type of what it gives; None where that is no JSON."""
        given = self.hints.get("return")
        types = [one for one in get_args(given) or (given,) if isinstance(one, type) and issubclass(one, BaseModel)]
        return types[0] if types else None

    async def __call__(self, request: Request) -> Response:
        with request.app.state.host.dispatcher.precedence.first():
            call = await run_in_threadpool(self._called, request)
        given: dict[str, Any] = dict(request.path_params)
        if self.body is not None:
            given["body"] = parsed(self.body, request, await request.body())
        if self.query is not None:
            sent = request.query_params
            given["query"] = checked(self.query, {name: sent[name] for name in sent})
        if inspect.iscoroutinefunction(self.run):
            found = await self.run(call, **given)
        else:
            found = await run_in_threadpool(self.run, call, **given)
        return found if isinstance(found, Response) else self._answered(request, found)

    def _called(self, request: Request) -> Call:
        call = Call(request)
        call.admit(self.roles)
        return call

    def _answered(self, request: Request, found: BaseModel | ApiAnswer) -> Response:
        answer = found if isinstance(found, ApiAnswer) else ApiAnswer(found)
        text = answer.value.model_dump_json(by_alias=True).encode()
        headers = PRIVATE | dict(answer.headers)
        if self.tagged:
            etag = f'"{hashlib.sha256(text).hexdigest()[:32]}"'
            headers |= {"ETag": etag, "Cache-Control": "private, no-cache"}
            if etag in (part.strip() for part in request.headers.get("if-none-match", "").split(",")):
                return Response(status_code=304, headers=headers)
        return Response(text, answer.status or self.status, headers, "application/json")


class Api:
    """The operations of one part of the interface, in the order in which the document has them."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.operations: list[Operation] = []

    def get(self, path: str, roles: frozenset[str], **how: Any) -> Callable[[R], R]:
        return self._route("GET", path, roles, **how)

    def post(self, path: str, roles: frozenset[str], **how: Any) -> Callable[[R], R]:
        return self._route("POST", path, roles, **how)

    def patch(self, path: str, roles: frozenset[str], **how: Any) -> Callable[[R], R]:
        return self._route("PATCH", path, roles, **how)

    def delete(self, path: str, roles: frozenset[str], **how: Any) -> Callable[[R], R]:
        return self._route("DELETE", path, roles, **how)

    def _route(self, method: HttpMethod, path: str, roles: frozenset[str], **how: Any) -> Callable[[R], R]:
        def register(run: R) -> R:
            self.operations.append(Operation(method, path, run, roles, tag=self.tag, **how))
            return run

        return register


def routes_of(operations: list[Operation]) -> list[Route]:
    """Return a route for each path, which answers 405 to the methods that it doesn't have."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    # Plain paths first: `/api/approvals/batch` is no request of that name, and its `Allow` is its own.
    plain_first = sorted(by_path.items(), key=lambda item: "{" in item[0])
    return [Route(path, _dispatched(methods), methods=list(methods)) for path, methods in plain_first]


def _dispatched(methods: Mapping[str, Operation]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await methods[method](request)

    return endpoint


def parsed(model: type[F], request: Request, sent: bytes) -> F:
    """Return a body of JSON; nothing at all is `{}` where that is enough.

    Raises: as `json_of`, level 1 for what doesn't fit.
    """
    nothing = not sent and "content-type" not in request.headers and not needed(model)
    return load_value(model, {} if nothing else json_of(request, sent), "body")


def needed(model: type[BaseModel]) -> bool:
    """Return whether a body has to be sent."""
    return any(field.is_required() for field in model.model_fields.values())


def json_of(request: Request, sent: bytes) -> Any:
    """Raises: 415 for anything but JSON, HIVE-101 for what is no JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the body is not sent as JSON")
    try:
        return jsontext.parse(jsontext.decode(sent, "body"), "body")
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None


def checked(model: type[M], given: Mapping[str, Any]) -> M:
    """Return what stands behind a question mark. Raises: level 1 for what doesn't fit."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise HiveError(diagnostics_of(error, model, given, "query"), exit_code=2) from None
