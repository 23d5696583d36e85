"""One tool: a function, a LangChain tool or a tool of an MCP server, described and called in the same way."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, get_type_hints

from hive_agents import models
from hive_agents.approvals import ToolDecision
from hive_agents.base import HiveError, schemas
from hive_agents.memory import ToolResult
from hive_agents.models import in_thread, untraced
from hive_agents.workspace.credentials import Secret, is_reference

if TYPE_CHECKING:
    from pydantic import BaseModel

    from hive_agents.access import Principal
    from hive_agents.workspace import Workspace


Keyless = Callable[[Mapping[str, Any], Any, Mapping[str, Any]], Awaitable[Any]]
"""What calls a tool: with its arguments, the context that has the key, and its secrets."""

NAMES = ("idempotency_key", "idempotencyKey")
MARK = "x-idempotency"
MOST_ITEMS = 10_000
"""An iterator that a tool returns may give so many items; one without an end would fill the memory."""


def key_parameter(schema: Mapping[str, Any]) -> str | None:
    """Return the parameter that takes the key: one by that name, or marked in the schema; None without one.

    >>> key_parameter({"properties": {"amount": {}, "request": {"type": "string", "x-idempotency": True}}})
    'request'
    """
    properties = schema.get("properties") or {}
    marked = (name for name, held in properties.items() if isinstance(held, Mapping) and held.get(MARK))
    return next(marked, next((name for name in NAMES if name in properties), None))


def with_key(schema: Mapping[str, Any], call: Keyless) -> tuple[dict[str, Any], Keyless, bool]:
    """Return a tool's schema and call so that the key is filled in, and never the model's to choose; whether it is."""
    name = key_parameter(schema)
    if name is None:
        return dict(schema), call, False
    properties = {key: held for key, held in schema["properties"].items() if key != name}
    required = [key for key in schema.get("required", ()) if key != name]

    async def filled(arguments: Mapping[str, Any], context: Any, secrets: Mapping[str, Any]) -> Any:
        return await call({**arguments, name: context.idempotency_key}, context, secrets)

    return {**schema, "properties": properties, "required": required}, filled, True


SideEffect = Literal["read", "write", "external"]
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
RESERVED = ("set_output", "ask_user", "delegate_to_sub_agent", "report_to_parent")
"""Tools that the event loop makes itself."""

_ARGUMENT = re.compile(r"^\s+(?P<name>\w+)(?: \([^)]*\))?: (?P<text>.+)$")


@dataclass(frozen=True)
class ToolContext:
    """For whom a tool is called. A parameter annotated with this class gets it; the model never sees it.

    `idempotency_key` names the call. After a crash a call may come `again` under the same key, for nobody knows whether
    it was carried out: a tool with effects outside of the workspace passes the key on, so that they happen once.

    A tool adds to `documents` the ids of the workspace's documents that its result quotes: then what the run does with
    it is shown to those only who may view them.

    >>> def refund(order: str, context: ToolContext) -> str:
    ...     return f"{order} is refunded under {context.idempotency_key}"
    >>> refund("o1", ToolContext(workspace=None, idempotency_key="k1"))
    'o1 is refunded under k1'
    """

    workspace: Workspace
    principal: Principal | None = None
    run_id: str = ""
    agent_id: str = ""
    node_id: str = ""
    idempotency_key: str = ""
    again: bool = False
    documents: set[str] = field(default_factory=set, compare=False)


class Steps(Protocol):
    """A flow at work: what it calls becomes steps of its run."""

    def call(self, tool: Tool, arguments: dict[str, Any]) -> Coroutine[Any, Any, Any]: ...

    def read(self, tool: Tool, call: Callable[[], Any]) -> Any: ...


HERE: ContextVar[Steps | ToolContext | None] = ContextVar("the flow or the tool call that is at work", default=None)


@dataclass(frozen=True)
class Call:
    """A call of a tool: what `never` of a flow looks at, and what a trial says that a person was asked about.

    >>> Call("refund", {"order": "A-2", "amount": 180}).args["amount"]
    180
    """

    tool: str
    args: dict[str, Any]


ToolFunction = Callable[[Mapping[str, Any], ToolContext, Mapping[str, Secret]], Awaitable[Any]]


@dataclass(frozen=True)
class Tool:
    """`parameters` is a JSON schema of an object. `policy` decides where the agent's own has no rule, `credentials`
    are references by parameter, `sub_agents_only` keeps a tool from an agent's own nodes. One that was made of a
    `function` can be called as it. One that is `keyed` gets the key of its call: done again after a crash, its effect
    happens once."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    side_effect: SideEffect
    action: ToolFunction = field(repr=False)
    policy: ToolDecision = "ask"
    credentials: Mapping[str, str] = field(default_factory=dict)
    sub_agents_only: bool = False
    function: Callable[..., Any] | None = field(default=None, repr=False)
    keyed: bool = False
    hints: Mapping[str, Any] = field(default_factory=dict)
    inert: str = ""

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Within a flow a step of it, else a call of the function.

        Raises: TypeError for a tool that wasn't made of a function.
        """
        if self.function is None:
            raise TypeError(f"{self.name} was not made of a function: use ToolRegistry.call")
        steps = HERE.get()
        if steps is None or isinstance(steps, ToolContext):
            return self.function(*args, **named)
        if inspect.iscoroutinefunction(self.function):
            return steps.call(self, self.arguments(args, named))
        if self.side_effect == "read":  # it can't wait, so that it is read again when the flow is resumed
            return steps.read(self, partial(self.function, *args, **named))
        raise _unfit(self.name, "a flow awaits its effects, and this function can't be awaited", "write it async")

    def arguments(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call of its function by name, defaults included, as plain JSON."""
        assert self.function is not None, "only tools of functions are called with arguments of Python"
        bound = inspect.signature(self.function).bind_partial(*args, **named)
        bound.apply_defaults()
        known = self.parameters.get("properties") or {}
        return {key: _plain(value) for key, value in bound.arguments.items() if key in known}

    def decide(self, arguments: Mapping[str, Any] | None = None) -> ToolDecision:
        """Return its own decision on a call; without arguments the mildest that any call may get."""
        return self.policy

    @property
    def binds(self) -> bool:
        """Whether no policy of a file may be milder than its own decision."""
        return False

    def for_model(self) -> models.Tool:
        return models.Tool(name=self.name, description=self.description, parameters=dict(self.parameters))


def make_tool(
    source: Any,
    *,
    name: str | None = None,
    description: str | None = None,
    side_effect: SideEffect = "read",
    policy: ToolDecision = "ask",
    credentials: Mapping[str, str] | None = None,
    sub_agents_only: bool = False,
    call: Callable[[str, dict[str, Any]], Any] | None = None,
) -> Tool:
    """Return a tool of a function, of a LangChain tool (`ainvoke`), or of an MCP tool (`input_schema`).

    A function's parameters and docstring describe it; parameters annotated `ToolContext` or `Secret` are filled in
    here. `call(name, arguments)` runs an MCP tool: a client's `call_tool`.

    Raises: HIVE-113 for a name that can't be one, HIVE-105 for a schema that can't be used, HIVE-409 for what is no
    tool and for a reference that is none.
    """
    found: tuple[str, str, dict[str, Any], Keyless]
    described = None
    if hasattr(source, "ainvoke") and hasattr(source, "name"):
        found = (source.name, source.description or "", _langchain_schema(source), partial(_invoked, source))
    elif hasattr(source, "input_schema"):
        found = (source.name, source.description or "", source.input_schema, partial(_remote, call, source.name))
        if call is None:
            raise _unfit(source.name, "an MCP tool needs `call`", "pass call=client.call_tool of its server")
    elif callable(source):
        described = _described(source, credentials or {})
        calling: Keyless = partial(_called, source, described.model, described.contexts)
        found = (described.name, described.text, described.schema, calling)
    else:
        raise _unfit(type(source).__name__, "it is neither a function nor a tool", "register one of these")
    own_name, own_description, schema, calling = found
    chosen = name or own_name
    if not NAME.fullmatch(chosen) or chosen in RESERVED:
        fix = 'use letters, digits, "_" and "-", at most 64; the event loop\'s own names are taken'
        raise HiveError.of("HIVE-113", f'"{chosen}" can\'t be the name of a tool', fix=fix)
    wrong = described.wrong if described is not None else unusable(schema)
    if wrong:
        raise HiveError.of("HIVE-105", f'the schema of "{chosen}" cannot be used: {wrong[0]}', fix="mend the schema")
    if not all(is_reference(reference) for reference in (credentials or {}).values()):
        raise _unfit(chosen, "one of its credentials is no reference", "use credential:NAME or env:NAME")
    text = (description or own_description).strip()
    function = source if described is not None else None
    schema, calling, keyed = with_key(schema, calling)
    # A function that takes the context is told the key with everything else of its call.
    keyed = keyed or (described is not None and bool(described.contexts) and inspect.isroutine(source))
    given = dict(credentials or {})
    return Tool(chosen, text, schema, side_effect, calling, policy, given, sub_agents_only, function, keyed)


def as_result(value: Any) -> ToolResult:
    """Return what a tool returned: texts as they are, `ToolResult` and MCP's answers by their parts, all else as
    JSON."""
    if isinstance(value, ToolResult):
        return value
    if value is None or isinstance(value, str):
        return ToolResult(value or "")
    if hasattr(value, "is_error") and hasattr(value, "content"):
        parts = [getattr(part, "text", None) or f"[{getattr(part, 'type', 'data')}]" for part in value.content]
        if not parts and getattr(value, "structured_content", None) is not None:
            parts = [json.dumps(value.structured_content, ensure_ascii=False, default=str)]
        return ToolResult("\n".join(parts), bool(value.is_error))
    return ToolResult(json.dumps(_plain(value), ensure_ascii=False, default=str))


def as_json(value: Any) -> ToolResult:
    """Return what a tool returned as JSON, of which its value can be made again."""
    return value if isinstance(value, ToolResult) else ToolResult(json.dumps(_plain(value), ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Return models, dataclasses, enumerations, sets and iterators as JSON has them, at any depth."""
    from pydantic_core import to_jsonable_python

    try:
        value = _listed(value)
    except RecursionError:
        raise ValueError("Circular reference, or values nested too deeply, in what the tool returned") from None
    try:
        return to_jsonable_python(value, by_alias=False, fallback=str)
    except ValueError:  # bytes that are no text
        return value


def _listed(value: Any) -> Any:
    """Return the value with lists in the place of its iterators; raise ValueError for one that may have no end.

    >>> _listed({"lines": iter("ab")})
    {'lines': ['a', 'b']}
    """
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    if isinstance(value, Iterator):
        value = list(islice(value, MOST_ITEMS + 1))
        if len(value) > MOST_ITEMS:
            raise ValueError(f"the tool's iterator gives more than {MOST_ITEMS:,} items: return a list")
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class _Described:
    """What a function's parameters and docstring say of it as a tool."""

    name: str
    text: str
    schema: dict[str, Any]
    model: type[BaseModel]
    contexts: list[str]
    wrong: list[str]
    """Why its arguments can't be checked."""


def _described(function: Callable[..., Any], credentials: Mapping[str, str]) -> _Described:
    """Return the description of a function; that of a routine is made once a process, whatever object it is bound to.

    A host asks for all tools with every run, and a schema takes milliseconds.
    """
    if inspect.ismethod(function):
        return _kept_description(function.__func__, True, frozenset(credentials))
    described = _kept_description if inspect.isroutine(function) else _described_anew
    return described(function, False, frozenset(credentials))


def _described_anew(function: Callable[..., Any], bound: bool, credentials: frozenset[str]) -> _Described:
    from pydantic import create_model

    name = str(getattr(function, "__name__", type(function).__name__))
    hints = get_type_hints(function, include_extras=True)
    described, lines = _docstring(function)
    fields: dict[str, Any] = {}
    contexts, secrets = [], []
    for parameter in list(inspect.signature(function).parameters.values())[bound:]:
        hint = hints.get(parameter.name, Any)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise _unfit(name, f"its parameter {parameter.name} has no name of its own", "name every parameter")
        if hint is ToolContext:
            contexts.append(parameter.name)
        elif hint is Secret or Secret in get_args(hint):
            secrets.append(parameter.name)
        else:
            fields[parameter.name] = (hint, ... if parameter.default is parameter.empty else parameter.default)
    unfilled = [one for one in secrets if one not in credentials] + sorted(credentials - set(secrets))
    if unfilled:
        raise _unfit(name, f'"{unfilled[0]}" has to be a parameter annotated Secret, and a reference', "give both")
    model = create_model(name, **fields)
    schema = model.model_json_schema()
    for key, shown in schema.get("properties", {}).items():
        shown.pop("title", None)
        if key in lines:
            shown.setdefault("description", lines[key])
    schema.pop("title", None)
    return _Described(name, described, schema, model, contexts, unusable(schema))


_kept_description = lru_cache(maxsize=1_000)(_described_anew)


def unusable(schema: Mapping[str, Any]) -> list[str]:
    """Return why arguments can't be checked with a schema; nothing for a good one."""
    return schemas.defects(schema) or ([] if schema.get("type") == "object" else ["$ is no schema of an object"])


async def _called(
    function: Callable[..., Any],
    model: type[BaseModel],
    contexts: list[str],
    arguments: Mapping[str, Any],
    context: ToolContext,
    secrets: Mapping[str, Secret],
) -> Any:
    given = model.model_validate(dict(arguments))
    values = {key: getattr(given, key) for key in type(given).model_fields} | dict.fromkeys(contexts, context)
    token = HERE.set(context)
    try:
        return await answered(function, **values, **secrets)
    finally:
        HERE.reset(token)


async def answered(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Return what a function returns, also one that awaits.

    Blocking code gets a thread of its own: one that hangs must not hold up those that a pool would share.
    """
    if any(inspect.iscoroutinefunction(one) for one in (function, type(function).__call__)):
        return await function(*args, **named)

    def work() -> Any:
        try:
            return function(*args, **named)
        except StopIteration as error:  # which no future can carry
            raise RuntimeError("the tool raised StopIteration") from error

    found = await in_thread(work)
    return await found if inspect.isawaitable(found) else found


async def _invoked(tool: Any, arguments: Mapping[str, Any], _: ToolContext, __: Mapping[str, Secret]) -> Any:
    with untraced():
        if _blocks(tool):
            return await answered(tool.invoke, dict(arguments))
        return await tool.ainvoke(dict(arguments))


def _blocks(tool: Any) -> bool:
    """Return whether a LangChain tool has blocking code alone: its `ainvoke` would share a pool with all others."""
    if hasattr(tool, "func") and hasattr(tool, "coroutine"):
        return tool.func is not None and tool.coroutine is None
    inherited = getattr(type(tool), "_arun", None)
    return getattr(inherited, "__module__", "").startswith("langchain_core.") and hasattr(tool, "invoke")


async def _remote(call: Any, name: str, arguments: Mapping[str, Any], _: ToolContext, __: Mapping[str, Secret]) -> Any:
    return await answered(call, name, dict(arguments))


def _langchain_schema(tool: Any) -> dict[str, Any]:
    source = getattr(tool, "tool_call_schema", None) or tool.args_schema
    schema: dict[str, Any] = source if isinstance(source, dict) else source.model_json_schema()
    return schema


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return what the tool does, and what its `Args:` block says of each parameter."""
    text = inspect.getdoc(function) or ""
    described, _, block = text.partition("Args:\n")
    found = (_ARGUMENT.match(line) for line in block.split("\n\n")[0].splitlines())
    return described.strip(), {line["name"]: line["text"] for line in found if line}


def _unfit(name: str, why: str, fix: str) -> HiveError:
    return HiveError.of("HIVE-409", f'"{name}" cannot be a tool: {why}', fix=fix)
