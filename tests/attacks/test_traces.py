"""LangSmith's variables in the environment send nothing: a canary, and a server on loopback that listens for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import GOAL, agent_json, node, write_json
from tests.graphs.optimizing import small
from tests.listening import answering
from tests.models.bedrock_server import bedrock_server
from tests.models.environment import point_aws_at
from tests.models.trusting import workspace_with
from tests.sample import words_sample

ROOT = Path(__file__).parents[2]
CANARY = "canary4711"
JUDGED = f"""
import asyncio, sys
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from hive_agents import Goal, HybridJudge
model = FakeListChatModel(responses=["{{}}"])
async def main():
    try:
        await HybridJudge(llm=model).evaluate(Goal(id="g", name="g"), {{"text": "{CANARY}"}})
    except Exception as error:
        print(type(error).__name__, file=sys.stderr)
asyncio.run(main())
"""
LOOKING = f"""
from hive_agents import tool

@tool(policy="allow")
def look() -> str:
    "Look."
    return "{CANARY}-tool"
"""
HAIKU = "bedrock:anthropic.claude-3-haiku-20240307-v1:0"


@contextmanager
def listening() -> Iterator[tuple[str, list[bytes]]]:
    heard: list[bytes] = []

    class Traces(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.path.encode())
            self._answer(b'{"batch_ingest_config": {}}')

        def do_POST(self) -> None:
            heard.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            self._answer(b"{}")

        do_PATCH = do_POST

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Traces)) as url:
        yield url, heard


def environment(url: str, *names: str) -> dict[str, str]:
    variables = {
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_TRACING_V2": "true",
        "LANGCHAIN_TRACING_V2": "true",
        "LANGCHAIN_TRACING": "true",
        "LANGSMITH_ENDPOINT": url,
        "LANGCHAIN_ENDPOINT": url,
        "LANGSMITH_API_KEY": "key",
        "LANGCHAIN_API_KEY": "key",
        "LANGSMITH_TRACING_SAMPLING_RATE": "1",
    }
    kept = {name: value for name, value in variables.items() if not names or name in names or "TRACING" not in name}
    return {**os.environ, **kept, "PYTHONPATH": str(ROOT)}


def run(arguments: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=env, check=False)


def ask(place: Workspace, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    question = f"how do I rotate an API key {CANARY}"
    return run(["-m", "hive_agents", "chat", question, "--as", "dana", "-w", str(place.root)], env)


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return words_sample(tmp_path / "ws")


@pytest.mark.parametrize(
    "names",
    [
        ("LANGSMITH_TRACING",),
        *(
            pytest.param(names, marks=pytest.mark.slow)
            for names in [(), ("LANGCHAIN_TRACING_V2",), ("LANGCHAIN_TRACING",)]
        ),
    ],
)
def test_variables_of_the_environment_send_no_prompt(place: Workspace, names: tuple[str, ...]) -> None:
    with listening() as (url, heard):
        told = ask(place, environment(url, *names))
        assert told.returncode == 0, told.stderr
    assert heard == []


@pytest.mark.slow
def test_chat_agents_and_optimizer_with_a_model_send_no_word_to_anybody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over LangChain's client of Bedrock, which would trace itself; what it was asked shows that all three asked."""
    settings = (
        f'[models]\nembedding = "none"\nchat = ["{HAIKU}"]\n[tools]\npython = ["tools/*.py"]\n[access]\nmode = "open"\n'
    )
    topics = small(tmp_path / "topics")
    (topics.root / "tools").mkdir()
    (topics.root / "tools" / "look.py").write_text(LOOKING)
    write_json(topics, "goals/digest.json", GOAL)
    worker = node("look", system_prompt=f"Look. {CANARY}-agent", tools=["look"], output_keys=["seen"])
    write_json(topics, "agents/looker.json", agent_json(worker, id="looker"))
    topics = workspace_with(topics.root, settings, monkeypatch)
    golden = topics.root / "evals" / "golden.json"
    golden.write_text(golden.read_text().replace('"query": "', f'"query": "{CANARY}-query '))
    with bedrock_server() as bedrock, listening() as (url, heard):
        point_aws_at(bedrock.url, monkeypatch)
        bedrock.says = answered
        env = environment(url) | {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_TRACES_EXPORTER": "otlp"}
        where = ["-w", str(topics.root)]
        for arguments in (
            ["chat", f"how do I set the heater {CANARY}-chat"],
            ["run", "looker"],
            ["optimize", "--iterations", "1", "--no-deploy"],
        ):
            told = run(["-m", "hive_agents", *arguments, *where], env)
            assert told.returncode == 0, told.stdout + told.stderr
        asked = json.dumps([request.body for request in bedrock.requests])
    assert {one for one in ("chat", "agent", "tool", "query") if f"{CANARY}-{one}" not in asked} == set()
    assert heard == []


def answered(body: dict[str, Any]) -> Any:
    """What Bedrock's model says: a tool and an output to an agent, a patch to the optimizer, else a sentence."""
    text, choice = json.dumps(body), body.get("toolConfig", {}).get("toolChoice", {}).get("tool")
    if choice:
        patch = [{"op": "replace", "path": "/retrieval/top_k", "value": 2}]
        return choice["name"], {"patches": [{"patch": patch, "reason": "two are enough"}]}
    turns = [("look", {}), ("set_output", {"key": "seen", "value": True})]
    return (
        turns[text.count('"toolResult"')] if f"{CANARY}-agent" in text and text.count('"toolResult"') < 2 else "Done."
    )


@pytest.mark.slow
def test_a_model_that_a_user_gives_a_judge_is_not_traced(place: Workspace) -> None:
    with listening() as (url, heard):
        told = run(["-c", JUDGED], environment(url))
        assert told.returncode == 0, told.stderr
    assert heard == []


@pytest.mark.slow
def test_a_workspace_that_allows_it_is_traced_once_it_is_trusted(place: Workspace) -> None:
    """Which also shows that the listener would have heard it."""
    with (place.root / "hive.toml").open("a") as settings:
        settings.write("[telemetry]\nlangsmith = true\n")
    with listening() as (url, heard):
        assert ask(place, environment(url)).returncode == 0
        assert heard == []
        trust(place)
        assert ask(place, environment(url)).returncode == 0
    assert heard
