"""Servers on loopback that speak OpenAI's HTTP interface: chat completions, embeddings, rerank, models.

`flavour` is who it is like: "openai" takes forced tools and JSON schemas and counts tokens in streams when asked to;
 "ollama" ignores a forced tool choice, gives arguments as objects, calls no ids and counts nothing in streams; "bare"
refuses tools and JSON schemas. `fail(…)` queues what goes wrong before the next success, `faulty` says it of a request.
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

KEY = "sk-loopback-7731"


@dataclass
class Status:
    code: int
    message: str = "served by the test"
    kind: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Slow:
    """Nothing for so long, and then no answer."""

    seconds: float


@dataclass
class Body:
    """These bytes with status 200, whatever was asked for."""

    data: bytes
    type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Dripping:
    """A stream that pauses before each event, one that breaks off after some, or one that counts no tokens."""

    pause: float = 0.0
    events: int | None = None
    silent: bool = False


@dataclass
class Request:
    path: str
    body: dict[str, Any]
    authorization: str


Answer = Callable[[dict[str, Any]], Any]


@dataclass
class ModelServer:
    flavour: str = "openai"
    url: str = ""
    key: str = ""
    """Required of every request, where there is one."""
    requests: list[Request] = field(default_factory=list)
    failures: list[Any] = field(default_factory=list)
    structured: Any = None
    """What a structured answer is; text is sent as it is."""
    says: Answer | None = None
    """(request body) -> a text, a dict of tool name and arguments, or several of them, or None for an echo."""
    ranks: Callable[[str, str], float] | None = None
    """(query, text) -> its relevance; by shared words where there is none."""
    faulty: Answer | None = None
    """(request body) -> what goes wrong with it, None for nothing."""
    count: Callable[[dict[str, Any], dict[str, Any]], dict[str, int]] | None = None
    """(request body, answered message) -> {prompt_tokens, completion_tokens}; without it always the same."""
    finish: str = ""
    missing: str = ""
    """A model that isn't there."""
    dimensions: int = 8

    def fail(self, *failures: Any) -> None:
        self.failures += failures

    def bodies(self, path: str = "/v1/chat/completions") -> list[dict[str, Any]]:
        return [request.body for request in self.requests if request.path == path]


@contextmanager
def model_server(flavour: str = "openai", port: int = 0) -> Iterator[ModelServer]:
    state = ModelServer(flavour)
    http = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"state": state}))
    with answering(http) as url:
        state.url = f"{url}/v1"
        yield state


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """Two hosts of twelve runs each ask at once; whom a full queue turns away comes again after seconds."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who gave up has closed the connection; nothing of it is worth a traceback."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: ModelServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [{"id": "small"}, {"id": "large"}]})

    def do_POST(self) -> None:
        state = self.state
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        path = urllib.parse.unquote(self.path)
        state.requests.append(Request(path, body, self.headers.get("Authorization", "")))
        failure = state.failures.pop(0) if state.failures else state.faulty(body) if state.faulty else None
        if state.key and self.headers.get("Authorization") != f"Bearer {state.key}":
            given = self.headers.get("Authorization", "")
            self._error(401, f"Incorrect API key provided: {given}", "invalid_api_key")
        elif isinstance(failure, Slow):
            time.sleep(failure.seconds)
            self.close_connection = True
        elif isinstance(failure, Status):
            self._error(failure.code, failure.message, failure.kind, failure.headers)
        elif isinstance(failure, Body):
            self._bytes(200, failure.data, {"Content-Type": failure.type, **failure.headers})
        elif body.get("model") == state.missing:
            self._error(404, f'model "{state.missing}" not found, try pulling it first', "not_found_error")
        elif path == "/v1/chat/completions":
            self._chat(body, failure if isinstance(failure, Dripping) else Dripping())
        elif path == "/api/chat":
            self._own_chat(body)
        elif path == "/v1/embeddings":
            vectors = [embed(text, state.dimensions) for text in body["input"]]
            data = [{"index": number, "embedding": vector} for number, vector in enumerate(vectors)]
            self._json(200, {"data": data[::-1], "usage": {"prompt_tokens": len(data)}})
        elif path == "/v1/rerank":
            self._json(200, {"results": rerank(body, state.ranks)})
        else:
            self._error(404, f"no route {path}", "")

    def _chat(self, body: dict[str, Any], dripping: Dripping) -> None:
        if self.state.flavour == "bare" and ("tools" in body or "response_format" in body):
            name = "tools" if "tools" in body else "response_format"
            self._error(400, f"{name} is not supported by this model", "invalid_request_error")
            return
        message, finish = self._message(body)
        counted = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        if self.state.count is not None:
            counted = self.state.count(body, message)
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            self._json(200, {"id": "c1", "choices": [choice], "usage": counted})
            return
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in _deltas(message)]
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        silent = self.state.flavour != "openai" or dripping.silent
        if body.get("stream_options", {}).get("include_usage") and not silent:
            events.append({"choices": [], "usage": counted})
        self._events([json.dumps(event) for event in events] + ["[DONE]"], dripping)

    def _own_chat(self, body: dict[str, Any]) -> None:
        """Ollama's own way: a line of JSON for each piece, the last one with the counts."""
        message, _ = self._message(body)
        words = [{"content": word} for word in re.findall(r"\s*\S+", message["content"] or "")]
        pieces: list[dict[str, Any]] = words or [{"content": "", "tool_calls": message["tool_calls"]}]
        lines: list[dict[str, Any]] = [{"message": {"role": "assistant", **piece}, "done": False} for piece in pieces]
        last = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
        lines.append(last | {"prompt_eval_count": 1000, "eval_count": 100})
        shared = {"model": body["model"], "created_at": "2026-01-01T00:00:00Z"}
        data = "".join(json.dumps(shared | line) + "\n" for line in lines)
        self._bytes(200, data.encode(), {"Content-Type": "application/x-ndjson"})

    def _message(self, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
        state = self.state
        choice, said = body.get("tool_choice"), state.says(body) if state.says else None
        forced = choice is not None and state.flavour != "ollama"
        if forced and not isinstance(said, dict):
            name = choice["function"]["name"] if isinstance(choice, dict) else body["tools"][-1]["function"]["name"]
            said = {"name": name, "arguments": state.structured}
        if isinstance(said, dict):
            said = [said]
        if isinstance(said, list):
            calls = []
            for number, one in enumerate(said, 1):
                arguments = one["arguments"]
                if state.flavour != "ollama" and not isinstance(arguments, str):
                    arguments = json.dumps(arguments)
                call: dict[str, Any] = {"id": "" if state.flavour == "ollama" else f"call_{number}", "type": "function"}
                calls.append(call | {"function": {"name": one["name"], "arguments": arguments}})
            return {"role": "assistant", "content": None, "tool_calls": calls}, state.finish or "tool_calls"
        if (
            said is None
            and state.structured is not None
            and ("response_format" in body or "JSON schema" in str(body["messages"][0]["content"]))
        ):
            said = state.structured if isinstance(state.structured, str) else json.dumps(state.structured)
        if said is None:
            said = "echo: " + str(body["messages"][-1]["content"])
        return {"role": "assistant", "content": said}, state.finish or "stop"

    def _error(self, status: int, message: str, kind: str, headers: dict[str, str] | None = None) -> None:
        error: Any = {"message": message, "type": kind, "code": kind}
        self._json(status, {"error": message if self.state.flavour == "ollama" else error}, headers)

    def _json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self._bytes(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _bytes(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        with suppress(ConnectionError):
            self.send_response(status)
            for key, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

    def _events(self, events: list[str], dripping: Dripping) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(ConnectionError):
            for event in events[: dripping.events]:
                time.sleep(dripping.pause)
                data = f"data: {event}\n\n".encode()
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                self.wfile.flush()
            if dripping.events is None:
                self.wfile.write(b"0\r\n\r\n")
                return
        self.close_connection = True


def _deltas(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message in the pieces of a stream; arguments come in two parts, objects as a whole and without an index."""
    if not message.get("tool_calls"):
        return [{"content": word} for word in re.findall(r"\s*\S+", message["content"])]
    deltas: list[dict[str, Any]] = []
    for index, call in enumerate(message["tool_calls"]):
        arguments = call["function"]["arguments"]
        if not isinstance(arguments, str):
            deltas.append({"tool_calls": [call]})
            continue
        half = len(arguments) // 2
        first = {"index": index, **call, "function": {"name": call["function"]["name"], "arguments": arguments[:half]}}
        rest = {"index": index, "function": {"arguments": arguments[half:]}}
        deltas += [{"tool_calls": [first]}, {"tool_calls": [rest]}]
    return deltas


def embed(text: str, dimensions: int) -> list[float]:
    """Words counted by the sum of their letters: equal texts get equal vectors, which have no unit length."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+|\S", text.lower()) or ["."]:
        vector[sum(map(ord, word)) % dimensions] += 1.0
    return vector


def shared_words(query: str, text: str) -> float:
    words, others = (set(re.findall(r"\w+", one.lower())) for one in (query, text))
    return len(words & others) / max(1, len(words))


def rerank(body: dict[str, Any], ranks: Callable[[str, str], float] | None) -> list[dict[str, Any]]:
    scores = [(ranks or shared_words)(body["query"], text) for text in body["documents"]]
    scored = sorted(((score, index) for index, score in enumerate(scores)), reverse=True)
    return [{"index": index, "relevance_score": score} for score, index in scored]
