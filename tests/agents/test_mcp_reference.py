"""The reference servers of the Model Context Protocol, as their authors ship them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_agents import ToolResult, Workspace
from hive_agents.agents import ToolContext, ToolRegistry, workspace_tools
from tests.environments import node_with, python_with
from tests.models.trusting import workspace_with
from tests.ports import lasting_port

pytestmark = pytest.mark.slow


def toml(name: str, *command: object, rest: str = "") -> str:
    return f"[mcp.servers.{name}]\ncommand = {json.dumps([str(part) for part in command])}\n{rest}"


async def called(place: Workspace, name: str, /, **arguments: Any) -> ToolResult:
    return await workspace_tools(place).call(name, arguments, ToolContext(place), approved=True)


def loaded(place: Workspace) -> ToolRegistry:
    tools = workspace_tools(place)
    assert tools.missing == []
    return tools


@pytest.fixture
def everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    program = node_with("@modelcontextprotocol/server-everything") / "mcp-server-everything"
    return workspace_with(tmp_path / "ws", toml("all", program, rest='env = {GIVEN = "by us"}\n'), monkeypatch)


async def test_the_server_of_everything_lists_and_answers(everything: Workspace) -> None:
    tools = loaded(everything)
    assert {"all__echo", "all__get-sum", "all__get-structured-content"} <= set(tools.all_names)
    assert (await called(everything, "all__echo", message="well")).content == "Echo: well"
    assert "5" in (await called(everything, "all__get-sum", a=2, b=3)).content
    weather = await called(everything, "all__get-structured-content", location="New York")
    assert (weather.is_error, "temperature" in weather.content) == (False, True)


async def test_an_image_of_a_server_is_told_and_not_poured_into_the_text(everything: Workspace) -> None:
    found = await called(everything, "all__get-tiny-image")
    assert (found.is_error, len(found.content) < 1000) == (False, True)


async def test_arguments_that_do_not_fit_are_an_error_that_a_model_can_read(everything: Workspace) -> None:
    found = await called(everything, "all__get-sum", a="two", b=3)
    assert (found.is_error, bool(found.content)) == (True, True)


async def test_a_server_sees_what_it_is_given_of_the_environment(
    everything: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-7731")
    found = (await called(everything, "all__get-env")).content
    assert ("by us" in found, "canary-7731" in found) == (True, False)


async def test_a_long_call_can_be_given_up_and_the_server_goes_on(everything: Workspace) -> None:
    long = asyncio.create_task(called(everything, "all__trigger-long-running-operation", duration=60, steps=60))
    await asyncio.sleep(1.0)
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    assert (await called(everything, "all__echo", message="still there")).content == "Echo: still there"


async def test_a_server_that_is_killed_is_started_again(everything: Workspace) -> None:
    await called(everything, "all__echo", message="first")
    for pid in children(os.getpid(), "server-everything"):
        os.kill(pid, signal.SIGKILL)
    results = [await called(everything, "all__echo", message="again") for _ in range(2)]
    assert results[-1].content == "Echo: again"


def children(parent: int, word: str) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [int(pid) for pid, ppid, args in rows if int(ppid) == parent and word in args]


@pytest.fixture
def served() -> Iterator[str]:
    program = node_with("@modelcontextprotocol/server-everything") / "mcp-server-everything"
    port = lasting_port()
    with subprocess.Popen(
        [program, "streamableHttp"],
        env=os.environ | {"PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


async def test_the_same_server_over_http(served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = workspace_with(tmp_path / "ws", f'[mcp.servers.web]\nurl = "{served}"\n', monkeypatch)
    loaded(place)
    assert (await called(place, "web__echo", message="well")).content == "Echo: well"


async def test_the_clock_and_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = python_with("mcp-server-time", "mcp-server-git")
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "page.md").write_text("# Page\n")
    clock = toml("time", programs / "mcp-server-time", "--local-timezone", "UTC")
    reads = 'read_only = ["git_status"]\n'
    git = toml("git", programs / "mcp-server-git", "--repository", repository, rest=reads)
    place = workspace_with(tmp_path / "ws", clock + git, monkeypatch)
    tools = loaded(place)
    assert (tools["git__git_status"].side_effect, tools["git__git_commit"].side_effect) == ("read", "external")
    where = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo"}
    assert "21:00" in (await called(place, "time__convert_time", time="12:00", **where)).content
    wrong = await called(place, "time__convert_time", time="noon", **where)
    assert (wrong.is_error, bool(wrong.content)) == (True, True)
    assert "page.md" in (await called(place, "git__git_status", repo_path=str(repository))).content


async def test_files_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = node_with("@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-memory")
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "note.txt").write_text("a note")
    (tmp_path / "closed.txt").write_text("a secret")
    files = toml("files", programs / "mcp-server-filesystem", tmp_path / "open")
    memory = toml("memory", programs / "mcp-server-memory", rest=f'env = {{MEMORY_FILE_PATH = "{tmp_path / "m"}"}}\n')
    place = workspace_with(tmp_path / "ws", files + memory, monkeypatch)
    loaded(place)
    assert "a note" in (await called(place, "files__read_text_file", path=str(tmp_path / "open" / "note.txt"))).content
    outside = await called(place, "files__read_text_file", path=str(tmp_path / "closed.txt"))
    assert (outside.is_error, "a secret" in outside.content) == (True, False)
    bee = {"name": "bee", "entityType": "insect", "observations": ["it flies"]}
    await called(place, "memory__create_entities", entities=[bee])
    assert "it flies" in (await called(place, "memory__search_nodes", query="bee")).content
