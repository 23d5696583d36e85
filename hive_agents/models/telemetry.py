"""OpenTelemetry spans of runs, nodes, model calls, tool calls and searches, with durations, counts and outcomes.

They contain no content: no question, prompt, document, argument or result of a tool, or message of an exception.
Nothing is sent unless `[telemetry] otlp_endpoint` names a collector and the workspace is trusted.

LangSmith's traces contain prompts and answers, and so documents. Environment variables turn them on in any process:
here they are off, unless a trusted workspace has `[telemetry] langsmith = true`, which leaves it to these variables.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

from hive_agents.base import HiveError
from hive_agents.workspace import Workspace, is_trusted

_SECONDS = 3.0
"""Timeout of the collector, also at the end of the process."""

SpanValue = str | int | float | bool | None
T = TypeVar("T")

_DEAD = ("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER")
"""Variables of an obsolete protocol: LangChain raises an error while one of them is set."""

_lock = threading.Lock()
_providers: dict[str, Any] = {}
_current: ContextVar[Any] = ContextVar("tracer", default=None)
_traced: ContextVar[bool] = ContextVar("hive_langsmith", default=False)


class Span:
    """An open span; without a collector it records nothing."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def note(self, **attributes: SpanValue) -> None:
        """Add attributes, with `__` in names replaced by `.`; None is left out."""
        if self._span is not None:
            for name, value in attributes.items():
                if value is not None:
                    self._span.set_attribute(name.replace("__", "."), value)

    def failed(self, kind: str) -> None:
        """Mark the span as failed; `kind` is a name, never a message."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR))
            self._span.set_attribute("error.type", kind)


@contextmanager
def span(
    name: str,
    *,
    workspace: Workspace | None = None,
    current: bool = True,
    **attributes: SpanValue,
) -> Iterator[Span]:
    """Yield a child of the current span; an exception marks it as failed, with the exception's type.

    The root span names the `workspace`, whose settings name the collector; child spans use the same. A generator opens
    a span that isn't `current`, so that spans of its caller, which runs between its pieces, aren't children of it.

    Raises: HIVE-411 where a collector is named and OpenTelemetry isn't installed.
    """
    tracer = _tracer(workspace) if workspace is not None else _current.get()
    if tracer is None:
        yield Span()
        return
    from opentelemetry.trace import use_span

    opened = tracer.start_span(name)
    wrapped = Span(opened)
    wrapped.note(**attributes)
    token = _current.set(tracer) if current else None
    as_current = use_span(opened, record_exception=False, set_status_on_exception=False) if current else nullcontext()
    try:
        with as_current:
            yield wrapped
    except BaseException as error:
        wrapped.failed(str(getattr(error, "kind", None) or type(error).__name__))
        raise
    finally:
        opened.end()
        if token is not None:
            _current.reset(token)


def _tracer(workspace: Workspace) -> Any:
    endpoint = workspace.settings.telemetry.otlp_endpoint
    if not endpoint or not is_trusted(workspace, "telemetry.otlp_endpoint"):
        return None
    with _lock:
        if endpoint not in _providers:
            _providers[endpoint] = _opened(endpoint)
        return _providers[endpoint].get_tracer("hive_agents")


def flush() -> None:
    """Send all ended spans; at the end of the process this happens automatically."""
    for provider in list(_providers.values()):
        provider.force_flush(int(_SECONDS * 1000))


def _opened(endpoint: str) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        why, path = "telemetry.otlp_endpoint is set, and OpenTelemetry is not installed", "telemetry.otlp_endpoint"
        fix = 'pip install "hive-agents[otel]"'
        raise HiveError.of("HIVE-411", why, file="hive.toml", path=path, fix=fix) from None
    # A collector that is down must not write into every command's output.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    provider = TracerProvider(resource=Resource({"service.name": "hive-agents"}))
    url = endpoint if endpoint.endswith("/v1/traces") else f"{endpoint}/v1/traces"
    exporter = OTLPSpanExporter(endpoint=url, timeout=_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter, export_timeout_millis=_SECONDS * 1000))
    return provider


@contextmanager
def tracing(workspace: Workspace) -> Iterator[None]:
    """Allow LangSmith's traces inside if the workspace's settings do."""
    token = _traced.set(workspace.settings.telemetry.langsmith and is_trusted(workspace, "telemetry.langsmith"))
    try:
        with untraced():
            yield
    finally:
        _traced.reset(token)


@contextmanager
def untraced() -> Iterator[None]:
    """Turn LangSmith's traces off inside, unless within a `tracing` that allows them."""
    if _traced.get():
        yield
        return
    import langsmith

    for name in _DEAD:
        os.environ.pop(name, None)
    with langsmith.tracing_context(enabled=False):
        yield


async def untraced_steps(pieces: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yield `pieces`, each produced within `untraced`; the consumer runs outside of it."""
    async with aclosing(pieces):
        while True:
            with untraced():
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    return
            yield piece
