"""OpenTelemetry spans of runs, nodes, model calls, tool calls and searches: how long, how many, how it ended.

Never what was said: no question, no prompt, no document, no argument or result of a tool, no message of an exception.
Nothing is sent unless `[telemetry] otlp_endpoint` names a collector and the workspace is trusted.

LangSmith's traces hold prompts and answers, and so documents. A variable of the environment turns them on in any
process: here they are off, unless `[telemetry] langsmith = true` in a trusted workspace leaves it to these variables.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

from hive_agents.errors import HiveError
from hive_agents.trust import is_trusted
from hive_agents.workspace import Workspace

_SECONDS = 3.0
"""How long a collector that doesn't answer is waited for, at the end of the process too."""

SpanValue = str | int | float | bool | None
T = TypeVar("T")

_DEAD = ("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER")
"""Of a protocol that is no more: LangChain only refuses to work while one of them is set."""

_lock = threading.Lock()
_providers: dict[str, Any] = {}
_current: ContextVar[Any] = ContextVar("tracer", default=None)
_traced: ContextVar[bool] = ContextVar("hive_langsmith", default=False)


class Span:
    """One span while it is open; without a collector it keeps nothing."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def note(self, **attributes: SpanValue) -> None:
        """Add attributes, `__` in their names standing for `.`; None is left out."""
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
    """Open a span beneath the one that is open here; an exception marks it as failed by its type.

    The first span of a piece of work names its `workspace`, whose settings say where spans go; those beneath follow.
    A generator opens one that isn't `current`: between its pieces its caller goes on, whose spans are none of its.

    Raises: HIVE-411 where a collector is named and the package isn't installed.
    """
    tracer = _tracer(workspace) if workspace is not None else _current.get()
    if tracer is None:
        yield Span()
        return
    from opentelemetry.trace import use_span

    opened = tracer.start_span(name)
    found = Span(opened)
    found.note(**attributes)
    token = _current.set(tracer) if current else None
    beneath = use_span(opened, record_exception=False, set_status_on_exception=False) if current else nullcontext()
    try:
        with beneath:
            yield found
    except BaseException as error:
        found.failed(str(getattr(error, "kind", None) or type(error).__name__))
        raise
    finally:
        opened.end()
        if token is not None:
            _current.reset(token)


def _tracer(workspace: Workspace) -> Any:
    endpoint = workspace.settings.telemetry.otlp_endpoint
    if not endpoint or not is_trusted(workspace):
        return None
    with _lock:
        if endpoint not in _providers:
            _providers[endpoint] = _opened(endpoint)
        return _providers[endpoint].get_tracer("hive_agents")


def flush() -> None:
    """Send what has ended by now; the end of the process does so by itself."""
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
    """Let what runs inside be traced as the workspace's settings say."""
    token = _traced.set(workspace.settings.telemetry.langsmith and is_trusted(workspace))
    try:
        with untraced():
            yield
    finally:
        _traced.reset(token)


@contextmanager
def untraced() -> Iterator[None]:
    """Let nothing that runs inside be traced, but for a workspace that allows it: see `tracing`."""
    if _traced.get():
        yield
        return
    import langsmith

    for name in _DEAD:
        os.environ.pop(name, None)
    with langsmith.tracing_context(enabled=False):
        yield


async def untraced_steps(pieces: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yield `pieces`, each of which is made as in `untraced`; whoever takes them is not affected."""
    async with aclosing(pieces):
        while True:
            with untraced():
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    return
            yield piece
