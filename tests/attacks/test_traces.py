"""LangSmith's variables in the environment send nothing: a canary, and a server on loopback that listens for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.trust import trust
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

    with ThreadingHTTPServer(("127.0.0.1", 0), Traces) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", heard
        finally:
            server.shutdown()
            thread.join()


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


@pytest.mark.parametrize("names", [(), ("LANGCHAIN_TRACING_V2",), ("LANGSMITH_TRACING",), ("LANGCHAIN_TRACING",)])
def test_variables_of_the_environment_send_no_prompt(place: Workspace, names: tuple[str, ...]) -> None:
    with listening() as (url, heard):
        told = ask(place, environment(url, *names))
        assert told.returncode == 0, told.stderr
    assert heard == []


def test_a_model_that_a_user_gives_a_judge_is_not_traced(place: Workspace) -> None:
    with listening() as (url, heard):
        told = run(["-c", JUDGED], environment(url))
        assert told.returncode == 0, told.stderr
    assert heard == []


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
