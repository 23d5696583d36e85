"""`hive serve` hosts a workspace in a process of its own, and says what happens."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import ROLES, Principal
from hive_agents.agents.run import AgentRun
from hive_agents.runs import RunStore
from tests.agents.conftest import agent_json, node, write_json
from tests.host.hosting import CHECKOUT, prepared
from tests.people import token_of
from tests.sample import Ran, hive

SCRIPT = [{"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "insects"}}]}]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = prepared(tmp_path / "ws")
    write_json(place, "script.jsonl", "\n".join(map(json.dumps, SCRIPT)))
    agent = agent_json(node("write", output_keys=["text"]), id="writer", model="scripted:script.jsonl")
    write_json(place, "agents/writer.json", agent)
    return place


def serve(place: Workspace, *options: str, **pipes: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hive_agents", "serve", "-w", str(place.root), *options]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | pipes
    return subprocess.Popen(command, cwd=CHECKOUT, text=True, env=os.environ | {"COLUMNS": "200"}, **streams)


def test_it_runs_what_is_queued_tells_of_it_and_ends_with_0(place: Workspace) -> None:
    with serve(place, "--headless", "--port", "0", "--json") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["roles"] == ["runs", "judge", "queen", "triggers", "http", "imports", "housekeeping"]
        assert first["webhooks"].startswith("http://127.0.0.1:")
        run = AgentRun.start(place, "writer", {}, hold=False).run_id
        told: list[dict[str, Any]] = []
        while not told or told[-1]["type"] != "run.completed":
            told.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert {event["run_id"] for event in told} == {run}
    result = RunStore(place).get(run).result
    assert result is not None
    assert result["outputs"] == {"text": "insects"}


def opened(place: Workspace, *options: str) -> Ran:
    return hive("open", "--no-browser", *options, "-w", place.root)


def test_a_link_of_hive_open_signs_the_owner_in_once(place: Workspace) -> None:
    process = serve(place, "--headless", "--port", "0", "--json")
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["webhooks"].partition("/webhooks")[0]
        while httpx.get(f"{url}/readyz").status_code != 200:
            time.sleep(0.05)
        found = opened(place, "--json")
        assert (found.json.keys(), found.err) == ({"url"}, "")
        assert found.json["url"].startswith(f"{url}/login?code=")
        assert opened(place, "--json").json != found.json
        first, second = [httpx.get(found.json["url"]) for _ in range(2)]
        assert (first.status_code, second.status_code) == (303, 401)
        told = opened(place).out.splitlines()[-1]
        with httpx.Client(follow_redirects=True) as browser:
            assert browser.get(told).status_code == 200
            assert browser.get(f"{url}/api/session").json()["tenant"] == "local"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert not (place.state / "serving").exists()


def test_a_link_is_made_before_the_server_runs_and_says_so(place: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as of_another:
        port = of_another.getsockname()[1]
        with (place.root / "hive.toml").open("a") as file:
            file.write(f"[server]\nport = {port}\n")
        found = opened(place, "--json")
    assert (found.code, found.json["url"].partition("/login")[0]) == (0, f"http://127.0.0.1:{port}")
    assert f"no server of this workspace answers at http://127.0.0.1:{port}" in found.err


def test_a_tokens_holder_gets_no_link(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_TOKEN", token_of(place, Principal("acme", "dana", roles=ROLES)))
    assert opened(place, "--json").codes == {"HIVE-415"}
    monkeypatch.setenv("HIVE_TOKEN", "x.y.z")
    assert opened(place, "--json").codes == {"HIVE-417"}


@pytest.mark.slow
def test_people_read_a_line_an_event(place: Workspace) -> None:
    with serve(place, "--headless", "--roles", "runs") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"hosting runs, housekeeping of {place.root}\n"
        run = AgentRun.start(place, "writer", {}, hold=False).run_id
        lines = [process.stdout.readline()]
        while "run completed" not in lines[-1]:
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert any(line.endswith(f"{run}  write: sets text\n") for line in lines)


@pytest.mark.slow
def test_wrong_usage_is_a_diagnostic(place: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, code, words in (
            (["--roles", "runs", "--open"], 2, "nothing to sign in to"),
            (["--role", "worker", "--role", "judge,queen", "--open"], 2, "nothing to sign in to"),
            (["--headless", "--roles", "quean"], 2, "no such role"),
            (["--headless", "--host", "0.0.0.0"], 2, "access.keys"),
            (["--headless", "--port", port], 3, "in use"),
        ):
            with serve(place, *options) as process:
                _, errors = process.communicate(timeout=60)
            assert process.returncode == code
            assert words in errors
            assert "Traceback" not in errors
