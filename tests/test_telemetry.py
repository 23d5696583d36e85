"""Spans at a collector on loopback: which there are, and that nothing that was said is in them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hive_agents import AgentRun, Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.models import Chain, ModelError, telemetry
from tests.agents.conftest import node
from tests.agents.loops import agent, goal, said, sets
from tests.copilot.chats import ask, copied_knowledge_base
from tests.listening import answering
from tests.models.openai_server import ModelServer, model_server
from tests.models.trusting import workspace_with

CANARY = "canary-4711"


@dataclass
class Collector:
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def spans(self) -> list[Any]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        telemetry.flush()
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            one
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for one in scope.spans
        ]

    def named(self, name: str) -> list[dict[str, Any]]:
        """The attributes of each span of that name."""
        return [
            {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in one.attributes}
            for one in self.spans()
            if one.name == name
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.bodies.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            found.paths.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as found.url:
        yield found


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        server.says = lambda body: f"To rotate a key, create a second key [1]. {CANARY}"
        yield server


def told(
    place: Workspace, collector: Collector, monkeypatch: pytest.MonkeyPatch, rest: str = "", **how: Any
) -> Workspace:
    settings = f'[telemetry]\notlp_endpoint = "{collector.url}"\n{rest}'
    return workspace_with(place.root, settings, monkeypatch, **how)


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return copied_knowledge_base(tmp_path / "w")


def lab(server: ModelServer) -> str:
    return f'[models]\nanswer = ["lab:small"]\n[models.endpoints.lab]\nbase_url = "{server.url}"\n'


def test_a_chat_is_a_run_with_its_nodes_and_model_calls(
    place: Workspace, collector: Collector, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = told(place, collector, monkeypatch, lab(server))
    reply = ask(place, "dana", f"how do I rotate a key? {CANARY}")
    spans = {one.name: one for one in collector.spans()}
    nodes = ["rewrite", "route", "retrieve", "rerank", "permission_gate", "finalize"]
    assert {"run worker", "chat lab:small", *(f"node {name}" for name in nodes)} <= set(spans)
    assert spans["chat lab:small"].parent_span_id == spans["node finalize"].span_id
    assert spans["node finalize"].parent_span_id == spans["run worker"].span_id
    assert collector.named("run worker") == [{"hive.run_id": reply["run_id"], "hive.status": "done"}]
    (call,) = collector.named("chat lab:small")
    assert (call["gen_ai.usage.input_tokens"], call["gen_ai.usage.output_tokens"]) == (1000, 100)
    assert set(collector.paths) == {"/v1/traces"}


def test_no_word_of_a_reader_a_document_a_model_or_a_tool_leaves(
    place: Workspace, collector: Collector, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = told(place, collector, monkeypatch, lab(server))
    ask(place, "dana", f"how do I rotate a key? {CANARY}")
    place.engine().search(f"rotate {CANARY}", "words")
    registry = ToolRegistry()

    def look(word: str) -> str:
        """Look."""
        raise ValueError(f"{word} {CANARY}")

    registry.register(look)
    made_up = (f"no-such-{CANARY}", {})
    failing = ModelError("garbage", CANARY)
    model = said([("look", {"word": CANARY}), made_up], [sets("items", [CANARY])], failing)
    spec = agent(node("collect", tools=["look"], output_keys=["items"], system_prompt=CANARY))
    AgentRun.start(place, spec, {}, models=lambda role: Chain([model]), tools=registry, goal=goal()).go()
    names = {one.name for one in collector.spans()}
    assert {"search", "run digest", "node collect", "execute_tool look", "execute_tool unknown"} <= names
    everything = b"".join(collector.bodies)
    for word in (CANARY, "rotate", "second key", "dana", "faqs/"):
        assert word.encode() not in everything


def test_how_a_span_failed_is_a_kind_and_no_message(
    place: Workspace, collector: Collector, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.missing = "small"
    reply = ask(told(place, collector, monkeypatch, lab(server)), "dana", "how do I rotate a key?")
    assert reply["status"] == "unavailable"
    assert collector.named("chat lab:small")[0]["error.type"] == "NoModel"


def test_nothing_is_sent_by_default_or_without_trust(
    place: Workspace, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    ask(place, "dana", "how do I rotate a key?")
    ask(told(place, collector, monkeypatch, trusted=False), "dana", "how do I rotate a key?")
    assert collector.spans() == []


def test_a_collector_that_is_down_is_nobodys_concern(
    place: Workspace, collector: Collector, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    collector.url = "http://127.0.0.1:1"
    assert ask(told(place, collector, monkeypatch), "dana", "how do I rotate a key?")["status"] == "results"
    telemetry.flush()
    assert capfd.readouterr() == ("", "")
