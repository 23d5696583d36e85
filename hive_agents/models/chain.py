"""Chains of models by name, of which each is a fallback for the one before it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from hive_agents.base import HiveError
from hive_agents.base.files import jsontext
from hive_agents.models.breaker import Breaker, breaker_of
from hive_agents.models.model import (
    PASSING,
    ChatDelta,
    ChatModel,
    ChatResult,
    Message,
    ModelError,
    Tool,
    Usage,
    sent,
    within,
)
from hive_agents.models.prices import list_price
from hive_agents.models.structured import json_schema, validated
from hive_agents.models.telemetry import Span, span
from hive_agents.workspace import Workspace, trusted
from hive_agents.workspace.settings import Price, Settings

if TYPE_CHECKING:
    from hive_agents.models.scripted import Script


@dataclass
class Meter:
    """The use of models in a run: `calls` of chains, and the `attempts` at models that they took."""

    calls: int = 0
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
    by_model: dict[str, Usage] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, usage: Usage) -> None:
        self.usage += usage
        self.by_model[name] = self.by_model.get(name, Usage()) + usage

    def failed(self, name: str, error: ModelError) -> None:
        self.add(name, error.usage)
        self.failures[error.kind] = self.failures.get(error.kind, 0) + 1

    @property
    def unpriced(self) -> list[str]:
        """Models without a known price, whose dollars count as 0."""
        return sorted(name for name, usage in self.by_model.items() if not usage.priced)

    def to_json(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "attempts": self.attempts,
            **self.usage.model_dump(exclude={"priced", "estimated"}),
            "unpriced": self.unpriced,
            "by_model": {name: usage.model_dump() for name, usage in self.by_model.items()},
            "failures": dict(self.failures),
        }


class Chain:
    """A `ChatModel` of several; `deadline` is for each of them, and `meter` counts them all.

    `breakers` are those of the models behind a network, by name; `rate` returns the price of a token.
    """

    def __init__(
        self,
        models: Sequence[ChatModel],
        deadline: float = 8.0,
        meter: Meter | None = None,
        breakers: Mapping[str, Breaker] | None = None,
        rate: Callable[[], float] = float,
    ) -> None:
        self.models = list(models)
        self._rate = rate
        self._breakers = dict(breakers or {})
        self.deadline = deadline
        self.meter = meter if meter is not None else Meter()

    @property
    def name(self) -> str:
        return ", ".join(model.name for model in self.models)

    @cached_property
    def rate(self) -> float:
        """Dollars for an input token of the most expensive model; 0 without a known price."""
        return self._rate()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | type[BaseModel] | None = None,
        tools: Sequence[Tool] = (),
        deadline: float | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> ChatResult:
        """Return the first usable answer; `result.usage` is that of all attempts of this call.

        Raises: ModelError, of the kind that all failures share or else `exhausted`.
        """
        self.meter.calls += 1
        sampling: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
        failed: list[tuple[str, ModelError]] = []
        for model in self.models:
            self.meter.attempts += 1
            try:
                with self._attempt(model), _chat_span(model) as traced:
                    _mark_sent(model)
                    result = await self._ask(model, messages, schema, tools, deadline or self.deadline, sampling)
                    traced.note(**_token_facts(result.usage))
            except ModelError as error:
                self.meter.failed(model.name, error)
                if error.kind not in PASSING:
                    raise
                failed.append((model.name, error))
            else:
                self.meter.add(model.name, result.usage)
                spent = sum((error.usage for _, error in failed), result.usage)
                return result.model_copy(update={"usage": spent})
        raise _all_failed(failed)

    async def stream(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), deadline: float | None = None
    ) -> AsyncGenerator[ChatDelta, None]:
        """Yield the pieces of the first model that gives any; a failure after that isn't tried with another model.

        Raises: ModelError, as `complete`.
        """
        self.meter.calls += 1
        failed: list[tuple[str, ModelError]] = []
        for model in self.models:
            self.meter.attempts += 1
            started, result = False, None
            try:
                stream = model.stream(messages, tools=tools, deadline=deadline or self.deadline)
                with self._attempt(model), _chat_span(model, current=False) as traced:
                    _mark_sent(model)
                    async with aclosing(stream) as deltas:
                        async for delta in deltas:
                            if delta.result is not None:
                                result = _finite(delta.result, model)
                                traced.note(**_token_facts(result.usage))
                                break
                            started = True
                            yield delta
                if result is None:
                    raise ModelError("garbage", f"{model.name} ended without an answer", usage=Usage(priced=False))
            except ModelError as error:
                self.meter.failed(model.name, error)
                if started or error.kind not in PASSING:
                    spent = sum((earlier.usage for _, earlier in failed), error.usage)
                    raise _with_usage(error, spent) from error
                failed.append((model.name, error))
            except (GeneratorExit, asyncio.CancelledError):
                if started:  # the listener left: the answer so far is paid for, but not counted
                    self.meter.add(model.name, Usage(priced=False))
                raise
            else:
                self.meter.add(model.name, result.usage)
                spent = sum((error.usage for _, error in failed), result.usage)
                yield ChatDelta(text="", result=result.model_copy(update={"usage": spent, "model": model.name}))
                return
        raise _all_failed(failed)

    def _attempt(self, model: ChatModel) -> AbstractContextManager[None]:
        breaker = self._breakers.get(model.name)
        return breaker.attempt(model.name) if breaker is not None else nullcontext()

    async def _ask(
        self,
        model: ChatModel,
        messages: Sequence[Message],
        schema: Any,
        tools: Sequence[Tool],
        deadline: float,
        sampling: dict[str, Any],
    ) -> ChatResult:
        plain_schema = json_schema(schema) if schema is not None else None
        async with within(deadline, model.name):
            result = await model.complete(messages, schema=plain_schema, tools=tools, deadline=deadline, **sampling)
        _finite(result, model)
        if schema is not None and (result.structured is not None or not result.tool_calls):
            answer = result.structured if result.structured is not None else result.text
            structured = validated(answer, schema, usage=result.usage)
            return result.model_copy(update={"structured": structured, "model": model.name})
        return result.model_copy(update={"model": model.name})


def _finite(result: ChatResult, model: ChatModel) -> ChatResult:
    """Return a model's answer. Raises: ModelError for a number that JSON doesn't have, which no record can keep."""
    for what, value in [("its answer", result.structured), *((call.name, call.args) for call in result.tool_calls)]:
        if jsontext.non_finite(value) is not None:
            raise ModelError("garbage", f"{model.name}: {what} has a number that is not JSON", usage=result.usage)
    return result


def _mark_sent(model: ChatModel) -> None:
    """Call `sent` now for a model that doesn't call it itself."""
    if not getattr(model, "tells_when_sent", False):
        sent()


def open_chain(
    names: Sequence[str],
    settings: Settings,
    *,
    meter: Meter | None = None,
    workspace: Workspace | None = None,
    scripts: dict[Path, Script] | None = None,
    by_user: bool = False,
) -> Chain:
    """Return a chain of the models `names`; endpoints and a relative `scripted:FILE` are the `workspace`'s.

    With `by_user` the names were typed, and need no trust.

    Chains with the same `scripts` share the lines of a script, as the roles of a run do.

    Raises: HIVE-401 without names or for a model that can't be opened or isn't trusted, HIVE-105 for an invalid name.
    """
    if not names:
        fix = 'set models.chat in hive.toml, for example ["bedrock:…"]'
        raise HiveError.of("HIVE-401", "no chat model is configured", file="hive.toml", path="models.chat", fix=fix)
    scripts = scripts if scripts is not None else {}
    models: list[ChatModel] = []
    breakers: dict[str, Breaker] = {}
    for name in names:
        if workspace is not None and not (by_user or trusted.is_trusted_model(workspace, name)):
            raise _untrusted(name)
        model, server = _open(name, settings, workspace, scripts)
        models.append(model)
        if server:
            breakers[model.name] = breaker_of(server, model.name)
    return Chain(models, settings.models.deadline_seconds, meter, breakers, partial(_dearest, settings, names))


def _untrusted(name: str) -> HiveError:
    why = f'the model "{name}" is not asked: it is not trusted on this machine'
    fix = "look with `hive trust --diff`, then allow it with `hive trust`"
    return HiveError.of("HIVE-401", why, file="hive.toml", path="models", fix=fix, exit_code=3)


def price_of(settings: Settings, name: str) -> Price | None:
    """Return the price of the model `name`, of its endpoint or else of the price lists; None if it isn't known."""
    endpoint = settings.models.endpoints.get(name.partition(":")[0])
    return (endpoint.price or list_price(name, endpoint.base_url)) if endpoint else list_price(name)


def _dearest(settings: Settings, names: Iterable[str]) -> float:
    return max(price.input / 1e6 if (price := price_of(settings, name)) else 0.0 for name in names)


def require_prices(settings: Settings, names: Iterable[str], max_usd: float) -> None:
    """Check that a limit in dollars can be enforced.

    Raises: HIVE-409 for a model without a known price, unless `max_usd` is 0, which is no limit.
    """
    unknown = [name for name in dict.fromkeys(names) if max_usd and price_of(settings, name) is None]
    if unknown:
        provider = unknown[0].partition(":")[0]
        fix = "set max_usd = 0, which is no limit"
        if provider in settings.models.endpoints:
            fix = f"set models.endpoints.{provider}.price = {{input = …, output = …}}, dollars for a million tokens"
        why = f'max_usd can\'t be kept: the price of "{unknown[0]}" is not known'
        raise HiveError.of("HIVE-409", why, file="hive.toml", path="models", fix=fix)


def _open(
    name: str, settings: Settings, workspace: Workspace | None, scripts: dict[Path, Script]
) -> tuple[ChatModel, str]:
    """Return the model and its server; "" for a script."""
    provider, colon, model = name.partition(":")
    if not (provider and colon and model.strip()):
        fix = "write provider:model, for example bedrock:… or scripted:FILE"
        raise HiveError.of("HIVE-105", f'"{name}" is not a model name', file="hive.toml", path="models", fix=fix)
    if provider == "scripted":
        from hive_agents.models.scripted import Script, ScriptedModel

        path = Path(os.path.abspath(workspace.root / model if workspace else model))
        if path not in scripts:
            scripts[path] = Script(path, model)
        return ScriptedModel(scripts[path]), ""
    if provider in settings.models.endpoints:
        from hive_agents.models.endpoint import open_endpoint
        from hive_agents.models.endpoint_chat import EndpointModel

        endpoint = open_endpoint(workspace or Workspace(Path()), provider)
        return EndpointModel(endpoint, model), endpoint.url
    from hive_agents.models.langchain import open_langchain

    opened = open_langchain(name, settings.models.deadline_seconds)
    return opened, opened.server


def _chat_span(model: ChatModel, *, current: bool = True) -> AbstractContextManager[Span]:
    name = model.name
    return span(f"chat {name}", current=current, gen_ai__operation__name="chat", gen_ai__request__model=name)


def _token_facts(usage: Usage) -> dict[str, int]:
    return {"gen_ai__usage__input_tokens": usage.input_tokens, "gen_ai__usage__output_tokens": usage.output_tokens}


def _with_usage(error: ModelError, usage: Usage) -> ModelError:
    return ModelError(error.kind, error.message, usage=usage, retry_after=error.retry_after, outage=error.outage)


def _all_failed(failed: Sequence[tuple[str, ModelError]]) -> ModelError:
    spent = sum((error.usage for _, error in failed), Usage())
    kinds = {error.kind for _, error in failed}
    why = "; ".join(error.message if name in error.message else f"{name}: {error.message}" for name, error in failed)
    if len(failed) > 1:
        why = f"all {len(failed)} models failed: {why}"
    outage = all(error.outage for _, error in failed)
    retry_after = min(error.retry_after for _, error in failed)
    kind = kinds.pop() if len(kinds) == 1 else "exhausted"
    return ModelError(kind, why, usage=spent, retry_after=retry_after, outage=outage)
