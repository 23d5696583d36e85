"""Bedrock's wire format over HTTP on loopback: Converse, ConverseStream, InvokeModel of Titan and Cohere, Rerank.

`server.fail(…)` queues failures that are served before the next success: a status with an error type,
`Slow(seconds)`, `GARBAGE`, a body that is not JSON, or `Broken(…)`, a stream that ends otherwise than it should.
"""

from __future__ import annotations

import json
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.listening import answering
from tests.models.event_stream import CONTENT_TYPE, converse_events
from tests.models.openai_server import Request, embed

GARBAGE = "garbage"
THROTTLED = (429, "ThrottlingException")
UNAVAILABLE = (503, "ServiceUnavailableException")
DENIED = (403, "AccessDeniedException")


@dataclass
class Slow:
    seconds: float


@dataclass
class Broken:
    """A stream of which `events` events arrive, and then `last` instead of the others; or a pause before them."""

    events: int
    last: bytes = b""
    pause: float = 0.0
    closed: bool = True
    """False where the connection breaks: no end is sent."""


@dataclass
class BedrockServer:
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    failures: list[Any] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)
    """What a tool is called with; an offered one is called where there is an answer, a forced one always."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    """Taken before `answer`, one a call."""

    says: Callable[[dict[str, Any]], Any] | None = None
    """(request body) -> the tool that is called, as (name, arguments); or a text."""

    def converse(self, body: dict[str, Any]) -> dict[str, Any]:
        said = self.says(body) if self.says is not None else None
        if said is None:
            return converse(body, self.next_answer())
        content, stop = [{"text": said}], "end_turn"
        if isinstance(said, tuple):
            content, stop = [{"toolUse": {"toolUseId": "call_1", "name": said[0], "input": said[1]}}], "tool_use"  # type: ignore[dict-item]
        return converse(body, {}) | {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": stop,
        }

    def fail(self, *failures: Any) -> None:
        self.failures += failures

    def next_answer(self) -> dict[str, Any]:
        return self.answers.pop(0) if self.answers else self.answer

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


@contextmanager
def bedrock_server() -> Iterator[BedrockServer]:
    state = BedrockServer()
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    http.daemon_threads = True
    with answering(http) as state.url:
        yield state


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: BedrockServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        path = urllib.parse.unquote(self.path)
        self.state.requests.append(Request(path, body, self.headers.get("Authorization", "")))
        failure = self.state.failures.pop(0) if self.state.failures else None
        if isinstance(failure, Slow):
            time.sleep(failure.seconds)
            self.close_connection = True
        elif failure == GARBAGE:
            self._send(200, b"<html>not what you asked for")
        elif isinstance(failure, Broken):
            self._stream(list(converse_events(self.state.converse(body))), failure)
        elif failure is not None:
            status, kind, *message = failure
            said = {"message": message[0] if message else f"served {kind}"}
            self._send(status, json.dumps(said).encode(), {"x-amzn-ErrorType": kind})
        elif path.endswith("/converse"):
            self._send(200, json.dumps(self.state.converse(body)).encode())
        elif path.endswith("/converse-stream"):
            self._stream(list(converse_events(self.state.converse(body))), None)
        elif path.endswith("/invoke") and "/model/amazon.titan-embed" in path:
            vector = embed(body["inputText"], body["dimensions"])
            self._send(200, json.dumps({"embedding": vector, "inputTextTokenCount": 1}).encode())
        elif path.endswith("/invoke") and "/model/cohere.embed" in path:
            vectors = [embed(text, body.get("output_dimension", 1024)) for text in body["texts"]]
            found: Any = {"float": vectors} if "embedding_types" in body else vectors
            self._send(200, json.dumps({"id": "x", "embeddings": found, "texts": body["texts"]}).encode())
        elif path == "/rerank":
            self._send(200, json.dumps(rerank(body)).encode())
        else:
            self._send(404, json.dumps({"message": path}).encode(), {"x-amzn-ErrorType": "ResourceNotFoundException"})

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: list[bytes], broken: Broken | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        ahead = events if broken is None else events[: broken.events]
        behind = [] if broken is None else [broken.last] if broken.last else events[broken.events :]
        if broken is not None and not broken.closed:
            behind = []
        self._chunks(ahead)
        if broken is not None:
            time.sleep(broken.pause)
        with suppress(ConnectionError):  # who waited may have left
            self._chunks(behind)
            if broken is None or broken.closed:
                self.wfile.write(b"0\r\n\r\n")
                return
        self.close_connection = True

    def _chunks(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            self.wfile.flush()


def converse(body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    choice = body.get("toolConfig", {}).get("toolChoice", {})
    content: list[dict[str, Any]]
    tools = [tool["toolSpec"]["name"] for tool in body.get("toolConfig", {}).get("tools", ())]
    if "tool" in choice or "any" in choice or (tools and answer):
        name = choice.get("tool", {}).get("name", tools[0])
        content, stop = [{"toolUse": {"toolUseId": "call_1", "name": name, "input": answer}}], "tool_use"
    else:
        content, stop = [{"text": "echo: " + body["messages"][-1]["content"][0].get("text", "")}], "end_turn"
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop,
        "usage": {"inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100},
        "metrics": {"latencyMs": 5},
    }


def rerank(body: dict[str, Any]) -> dict[str, Any]:
    def words(text: str) -> set[str]:
        return set(re.findall(r"\w+", text.lower()))

    query = words(body["queries"][0]["textQuery"]["text"])
    texts = [source["inlineDocumentSource"]["textDocument"]["text"] for source in body["sources"]]
    scored = [(len(query & words(text)) / max(1, len(query)), index) for index, text in enumerate(texts)]
    return {"results": [{"index": index, "relevanceScore": score} for score, index in sorted(scored, reverse=True)]}
