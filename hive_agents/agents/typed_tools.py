"""Tools and effects in code: functions whose types are those of the tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from hive_agents.agents.tool import HERE, Call, Tool, ToolContext, make_tool
from hive_agents.approvals import ToolDecision
from hive_agents.base import HiveError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class FunctionTool(Tool, Generic[P, R]):
    """A tool that was made of a function, and can be called as it."""

    def __call__(self, *args: P.args, **named: P.kwargs) -> R:
        found: R = super().__call__(*args, **named)
        return found

    def call(self, *args: P.args, **named: P.kwargs) -> Call:
        """Return what a call with these arguments looks like to `never` and in a trial."""
        return Call(self.name, self.arguments(args, named))


class _ToolMark(Protocol):
    def __call__(self, function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(**options: Any) -> _ToolMark: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Return a function as a tool that agents can use; it can still be called as the function.

    Its parameters and docstring describe it. `options` are those of `ToolRegistry.register`: `side_effect` ("read",
    "write", "external"), `policy`, `name`, `description`, `credentials`.

    >>> @tool(side_effect="external")
    ... def refund(order: str, amount: float) -> str:
    ...     '''Pay an order back.'''
    ...     return f"{amount:.2f} for {order}"
    >>> refund.name, refund.side_effect, refund("o1", 3)
    ('refund', 'external', '3.00 for o1')

    Raises: HIVE-113, HIVE-105 and HIVE-409, as `ToolRegistry.register`.
    """
    if function is None:
        return lambda marked: FunctionTool(**vars(make_tool(marked, **options)))
    return FunctionTool(**vars(make_tool(function, **options)))


@dataclass(frozen=True)
class Effect(Tool, Generic[P, R]):
    """An async function with an effect outside of the run: in a flow it happens once, after a person agreed where
    `asks` says so. No file's policy is milder than that."""

    asks: Callable[..., bool] | None = field(default=None, repr=False)

    def __call__(self, *args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, R]:
        found: Coroutine[Any, Any, R] = super().__call__(*args, **named)
        return found

    def call(self, *args: P.args, **named: P.kwargs) -> Call:
        """Return what a call with these arguments looks like to `never` and in a trial."""
        return Call(self.name, self.arguments(args, named))

    def decide(self, arguments: Mapping[str, Any] | None = None) -> ToolDecision:
        if self.asks is None or arguments is None:
            return self.policy
        try:
            return "ask" if self.asks(**arguments) else "allow"
        except Exception:  # a person decides about what it can't
            return "ask"

    @property
    def binds(self) -> bool:
        return True


class _Effects(Protocol):
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Effect[P, R]: ...


@overload
def effect(function: Callable[P, Coroutine[Any, Any, R]], /) -> Effect[P, R]: ...
@overload
def effect(*, ask: bool, **options: Any) -> _Effects: ...
@overload
def effect(
    *, ask: Callable[P, bool], **options: Any
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Effect[P, R]]: ...
def effect(function: Any = None, /, *, ask: Any = True, **options: Any) -> Any:
    """Return an async function as an effect: a tool that a flow or an agent calls, and whose call happens once.

    `ask` says whether a person has to agree: True, False, or a function of the same arguments. `options` are those of
    `tool`. An effect that uses `idempotency_key()` is called again under the same key when its process died; about
    another one a person is asked first whether it happened.

    >>> def large(order: str, amount: float) -> bool:
    ...     return amount > 50
    >>> @effect(ask=large)
    ... async def refund(order: str, amount: float) -> str:
    ...     '''Pay money back; gives the receipt.'''
    ...     return f"receipt of {order}"
    >>> refund.call("A-2", 180), refund.decide({"order": "A-2", "amount": 20})
    (Call(tool='refund', args={'order': 'A-2', 'amount': 180}), 'allow')

    Raises: as `tool`; HIVE-409 for a function that isn't async.
    """
    if function is None:
        return lambda marked: _effect(marked, ask, options)
    return _effect(function, ask, options)


def _effect(function: Any, ask: Any, options: dict[str, Any]) -> Effect[Any, Any]:
    if not inspect.iscoroutinefunction(function):
        name = getattr(function, "__name__", "it")
        raise HiveError.of("HIVE-409", f'"{name}" cannot be an effect: it is not async', fix="write `async def`")
    policy: ToolDecision = "ask" if ask is True else "allow"
    made = make_tool(function, policy=policy, **({"side_effect": "external"} | options))
    keyed = made.keyed or idempotency_key.__name__ in function.__code__.co_names
    return Effect(**(vars(made) | {"keyed": keyed}), asks=ask if callable(ask) else None)


def idempotency_key() -> str:
    """Return the key of the tool call that is at work: the same when it is made again after a crash.

    >>> @effect(ask=False)
    ... async def pay(order: str, amount: float) -> str:
    ...     '''Pay; a provider pays once for each key.'''
    ...     return f"{order} {amount} {idempotency_key()}"
    >>> pay.keyed
    True

    Raises: HIVE-409 outside of the call of a tool or effect.
    """
    here = HERE.get()
    if not isinstance(here, ToolContext):
        fix = "call it in the function of a tool or an effect, while an agent or a flow runs it"
        raise HiveError.of("HIVE-409", "there is no idempotency key here", fix=fix)
    return here.idempotency_key
