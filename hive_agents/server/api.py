"""Operations: typed functions with a path and roles, from which routes and the OpenAPI document are made.

A function gets the `Call`, the parameters of its path by name, and `body`, `form` or `query` where it has such a
parameter.
The OpenAPI document is made from the types of these and of the return value. A plain function runs in a thread.
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

from hive_agents.base import HiveError
from hive_agents.base.files import LONGEST_REFERENCE, Format, diagnostics_of, jsontext, load_value
from hive_agents.server.auth import Call
from hive_agents.server.forms import Form, form

if TYPE_CHECKING:
    from starlette.requests import Request

F = TypeVar("F", bound=Format)
M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=Callable[..., Any])
HttpMethod = Literal["GET", "POST", "PATCH", "DELETE"]
MOST = 2**53
"""The largest integer that may be sent: JSON readers, with doubles, and the database represent all up to it."""
NEVER_KEPT = "no-store, private"
"""The `Cache-Control` of every response that depends on the caller, errors included."""
KEY, LAST_ID = "Idempotency-Key", "Last-Event-ID"
PRIVATE = {"Cache-Control": NEVER_KEPT, "X-Content-Type-Options": "nosniff"}


class Body(Format):
    """Base of request bodies: strict types, no unknown keys."""


class Query(BaseModel):
    """Base of query parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Value(BaseModel):
    """Base of response bodies."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class ApiAnswer:
    """A response body with headers, or with another status than the operation's."""

    value: BaseModel
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One method of one path. `tagged` responses carry an ETag; they are the same for every caller."""

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
    """The type of a body that `run` reads by itself, of a foreign protocol."""

    @cached_property
    def hints(self) -> dict[str, Any]:
        return get_type_hints(self.run)

    @property
    def body(self) -> type[Format] | None:
        return self.hints.get("body")

    @property
    def form(self) -> type[Form] | None:
        """The type of a body with files."""
        return self.hints.get("form")

    @property
    def query(self) -> type[Query] | None:
        return self.hints.get("query")

    @property
    def answer(self) -> type[BaseModel] | None:
        """The type of the response body; None where that isn't JSON."""
        returned = self.hints.get("return")
        types = get_args(returned) or (returned,)
        return next((one for one in types if isinstance(one, type) and issubclass(one, BaseModel)), None)

    async def __call__(self, request: Request) -> Response:
        with request.app.state.host.dispatcher.precedence.first():
            call = await run_in_threadpool(self._admitted, request)
        sent = await request.body() if self.body or self.form else b""
        if not inspect.iscoroutinefunction(self.run):
            return await call.in_thread(self._done, call, sent)
        arguments = await call.in_thread(self._arguments, request, sent)
        # What was done is told, however many wait.
        return await run_in_threadpool(self._response, request, await self.run(call, **arguments))

    def _admitted(self, request: Request) -> Call:
        call = Call(request)
        call.admit(self.roles)
        return call

    def _done(self, call: Call, sent: bytes) -> Response:
        """Read what was sent, act and answer: bodies and answers may be long, so that none of it is for the loop."""
        return self._response(call.request, self.run(call, **self._arguments(call.request, sent)))

    def _arguments(self, request: Request, sent: bytes) -> dict[str, Any]:
        """Raises: HIVE-105 for an id in the path or a header that is too long; as `parsed` and `checked`."""
        require_references(request.path_params | {name: request.headers.get(name, "") for name in (KEY, LAST_ID)})
        arguments: dict[str, Any] = dict(request.path_params)
        if self.body is not None:
            arguments["body"] = parsed(self.body, request, sent)
        if self.form is not None:
            arguments["form"] = form(self.form, request, sent)
        if self.query is not None:
            arguments["query"] = checked(self.query, dict(request.query_params))
        return arguments

    def _response(self, request: Request, result: Response | BaseModel | ApiAnswer) -> Response:
        if isinstance(result, Response):
            return result
        answer = result if isinstance(result, ApiAnswer) else ApiAnswer(result)
        text = answer.value.model_dump_json(by_alias=True).encode()
        headers = PRIVATE | dict(answer.headers)
        if self.tagged:
            etag = f'"{hashlib.sha256(text).hexdigest()[:32]}"'
            headers |= {"ETag": etag, "Cache-Control": "private, no-cache"}
            known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
            if known & {etag, "*"}:
                return Response(status_code=304, headers=headers)
        return Response(text, answer.status or self.status, headers, "application/json")


class Api:
    """The operations of one part of the interface, in the order of the document."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.operations: list[Operation] = []

    def get(self, path: str, roles: frozenset[str], **options: Any) -> Callable[[R], R]:
        return self._route("GET", path, roles, **options)

    def post(self, path: str, roles: frozenset[str], **options: Any) -> Callable[[R], R]:
        return self._route("POST", path, roles, **options)

    def patch(self, path: str, roles: frozenset[str], **options: Any) -> Callable[[R], R]:
        return self._route("PATCH", path, roles, **options)

    def delete(self, path: str, roles: frozenset[str], **options: Any) -> Callable[[R], R]:
        return self._route("DELETE", path, roles, **options)

    def _route(self, method: HttpMethod, path: str, roles: frozenset[str], **options: Any) -> Callable[[R], R]:
        def register(run: R) -> R:
            self.operations.append(Operation(method, path, run, roles, tag=self.tag, **options))
            return run

        return register


def routes_of(operations: list[Operation]) -> list[Route]:
    """Return a route for each path; it answers 405 to other methods."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    # Plain paths first: `/api/approvals/batch` would match `/api/approvals/{request_id}`.
    plain_first = sorted(by_path.items(), key=lambda item: "{" in item[0])
    return [Route(path, _dispatched(methods), methods=list(methods)) for path, methods in plain_first]


def _dispatched(methods: Mapping[str, Operation]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await methods[method](request)

    return endpoint


def parsed(model: type[F], request: Request, sent: bytes) -> F:
    """Return a body of JSON; no body at all is `{}` where the model requires no field.

    Raises: as `json_of`; diagnostics of level 1 for a body that doesn't fit the model.
    """
    is_absent = not sent and "content-type" not in request.headers and not needed(model)
    return load_value(model, {} if is_absent else json_of(request, sent), "body")


def require_references(sent: Mapping[str, str]) -> None:
    """Raise HIVE-105 for one of these names that is longer than a doc_id may be."""
    for name, value in sent.items():
        if len(value) > LONGEST_REFERENCE:
            why = f"{name} has {len(value):,} characters, and {LONGEST_REFERENCE:,} are the most"
            raise HiveError.of("HIVE-105", why, path=name, fix="send it as an answer named it", exit_code=2)


def needed(model: type[BaseModel]) -> bool:
    """Return whether a model has a required field, so that a body has to be sent."""
    return any(field.is_required() for field in model.model_fields.values())


def json_of(request: Request, sent: bytes) -> Any:
    """Return a body's JSON. Raises: 415 for another media type, HIVE-101 for invalid JSON."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise HTTPException(415, "the body is not sent as JSON")
    try:
        return jsontext.parse(jsontext.decode(sent, "body"), "body")
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None


def foreign(model: type[M], request: Request, sent: bytes, exit_code: int | None = None) -> M:
    """Return a body of a foreign protocol, as `takes` has it. Raises: as `parsed`, with this `exit_code`."""
    value = json_of(request, sent)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise HiveError(diagnostics_of(error, model, value, "body"), exit_code) from None


def checked(model: type[M], parameters: Mapping[str, Any]) -> M:
    """Return query parameters as a model. Raises: diagnostics of level 1 for those that don't fit."""
    try:
        return model.model_validate(parameters)
    except ValidationError as error:
        raise HiveError(diagnostics_of(error, model, parameters, "query"), exit_code=2) from None
