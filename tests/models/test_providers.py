"""LangChain's providers `openai:` and `ollama:`, installed beside the project, over servers on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environments import python_with
from tests.models.openai_server import ModelServer, Slow, Status, model_server

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
VERDICT = {"good": True}
ASKING = """
import asyncio, json, os, sys
from hive_agents.models import Message, ModelError, Tool
from hive_agents.models.langchain import open_langchain

SCHEMA = {"title": "verdict", "type": "object", "properties": {"good": {"type": "boolean"}}, "required": ["good"]}
TEXT = {"type": "object", "properties": {"q": {"type": "string"}}}
TOOL = Tool(name="look_up", description="Look up.", parameters=TEXT)

async def ask(name, what):
    model = open_langchain(name, 3.0)
    turns = [Message(role="user", content="Is it good?")]
    if what == "stream":
        pieces = [delta async for delta in model.stream(turns, deadline=3.0)]
        result = pieces[-1].result
        return {"text": result.text, "pieces": len(pieces), "tokens": result.usage.input_tokens}
    how = {"structured": {"schema": SCHEMA}, "tool": {"tools": [TOOL]}}.get(what, {})
    result = await model.complete(turns, deadline=3.0, **how)
    calls = [[call.name, call.args] for call in result.tool_calls]
    return {"text": result.text, "structured": result.structured, "calls": calls, "tokens": result.usage.input_tokens}

runner = asyncio.Runner()  # the packages keep connections, which belong to one loop
for line in sys.stdin:
    environment, name, what = json.loads(line)
    os.environ.update(environment)
    try:
        print(json.dumps(runner.run(ask(name, what))), flush=True)
    except ModelError as error:
        print(json.dumps({"kind": error.kind, "outage": error.outage}), flush=True)
"""


@pytest.fixture(scope="module")
def python() -> Iterator[subprocess.Popen[str]]:
    """One process with the packages, that opens a model anew for each question."""
    pins = ("-c", str(ROOT / "constraints.txt"))
    program = python_with("langchain", "langchain-openai", "langchain-ollama", options=pins) / "python"
    beside = os.pathsep.join([str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))])
    command = [str(program), "-c", ASKING]
    environment = os.environ | {"PYTHONPATH": beside}
    asking = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield asking
    asking.communicate()
    assert asking.returncode == 0


@pytest.fixture(params=["openai", "ollama"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(provider: str) -> Iterator[ModelServer]:
    with model_server(provider) as server:
        yield server


def asked(python: subprocess.Popen[str], server: ModelServer, what: str) -> Any:
    assert python.stdin is not None
    assert python.stdout is not None
    address = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k", "OLLAMA_HOST": server.url.removesuffix("/v1")}
    python.stdin.write(json.dumps([address, f"{server.flavour}:small", what]) + "\n")
    python.stdin.flush()
    return json.loads(python.stdout.readline())


def test_text_tools_and_structured_answers_come_back(python: subprocess.Popen[str], server: ModelServer) -> None:
    found = asked(python, server, "text")
    assert (found["text"], found["tokens"]) == ("echo: Is it good?", 1000)
    found = asked(python, server, "stream")
    assert (found["text"], found["pieces"] > 1) == ("echo: Is it good?", True)
    server.says = lambda body: {
        "name": body["tools"][-1]["function"]["name"],
        "arguments": {"q": "it"} if body["tools"][-1]["function"]["name"] == "look_up" else VERDICT,
    }
    assert asked(python, server, "tool")["calls"] == [["look_up", {"q": "it"}]]
    assert asked(python, server, "structured")["structured"] == VERDICT


@pytest.mark.parametrize(
    ("failure", "kind", "outage"),
    [
        (Status(429), "throttling", True),
        (Status(401), "authentication", True),
        (Status(503), "server", True),
        (Slow(5), "timeout", True),
        (Status(400, "maximum context length is 8192 tokens", "context_length_exceeded"), "overflow", False),
    ],
    ids=["throttled", "login", "server", "deadline", "context"],
)
def test_a_fault_has_the_name_that_an_endpoint_gives_it(
    python: subprocess.Popen[str], server: ModelServer, failure: Any, kind: str, outage: bool
) -> None:
    server.fail(*[failure] * 4)
    assert asked(python, server, "text") == {"kind": kind, "outage": outage}


def test_a_server_that_is_gone_is_an_outage(python: subprocess.Popen[str], provider: str) -> None:
    gone = ModelServer(provider, "http://127.0.0.1:1/v1")
    assert asked(python, gone, "text") == {"kind": "server", "outage": True}
