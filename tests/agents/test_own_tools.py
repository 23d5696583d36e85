"""Tools of one's own and of MCP servers, by configuration alone."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hive_agents import AgentRun, HiveError, Host, ToolResult, Workspace, tool
from hive_agents.agents import ToolContext, ToolRegistry, workspace_tools
from hive_agents.agents.bundled import NAMES
from hive_agents.agents.own_tools import _warn
from hive_agents.runs import RunRow, RunStore
from hive_agents.workspace import machine
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import agent_json, node, write_json
from tests.agents.loops import agent, goal, said, sets, start
from tests.conftest import make_workspace
from tests.models.trusting import workspace_with
from tests.sample import hive

REFUNDS = '''
from dataclasses import dataclass

from langchain_core.tools import tool as langchain_tool

from hive_agents import tool
from hive_agents.agents import ToolContext


@dataclass
class Receipt:
    order: str
    key: str


@tool(side_effect="external", policy="allow")
def refund(order: str, amount: float, context: ToolContext) -> dict:
    """Pay an order back.

    Args:
        order: The order's number.
    """
    return {"order": order, "amount": amount, "key": Receipt(order, context.idempotency_key).key}


@tool
def stock(part: str) -> int:
    """Count a part."""
    return len(part)


@langchain_tool
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


def helper(text: str) -> str:
    return text
'''
PRICE = """
from hive_agents import tool

@tool
def price() -> int:
    "Price."
    return 3
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    root = tmp_path / "ws"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "refunds.py").write_text(REFUNDS)
    return workspace_with(root, '[tools]\npython = ["tools/*.py"]\n', monkeypatch)


def notes(tmp_path: Path, rest: str = "") -> str:
    command = json.dumps([sys.executable, str(Path(__file__).with_name("mcp_server.py")), str(tmp_path)])
    path = json.dumps(":".join(sys.path))
    env = f'{{NOTES_KEY = "env:HIDDEN_KEY", PYTHONPATH = {path}}}'
    owner = 'read_only = ["read_note", "fingerprint"]\nidempotent = ["keep_note"]'
    return f"[mcp.servers.notes]\ncommand = {command}\nenv = {env}\n{owner}\n{rest}"


@pytest.fixture
def with_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("HIDDEN_KEY", "k-77")
    return workspace_with(tmp_path / "ws", notes(tmp_path), monkeypatch)


async def called(place: Workspace, name: str, /, **arguments: Any) -> ToolResult:
    return await workspace_tools(place).call(name, arguments, ToolContext(place), approved=True)


async def test_marked_functions_and_langchain_tools_of_files_are_tools(place: Workspace) -> None:
    registry = workspace_tools(place)
    assert set(registry.all_names) == NAMES | {"refund", "stock", "shout"}
    assert {name: registry[name].side_effect for name in ("refund", "stock", "shout")} == {
        "refund": "external",
        "stock": "read",
        "shout": "external",
    }
    assert registry["refund"].parameters["properties"]["order"]["description"] == "The order's number."
    assert registry.decide("refund") == "allow"
    assert await called(place, "stock", part="bolt") == ToolResult("4")
    assert await called(place, "shout", text="hi") == ToolResult("HI")


def test_a_marked_function_is_still_a_function() -> None:
    @tool
    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    assert (double(4), double.name, double.description) == (8, "double", "Twice.")


def test_a_file_is_run_once_for_each_state_of_it(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    first = workspace_tools(place)["stock"]
    assert workspace_tools(place)["stock"] is first
    (place.root / "tools" / "refunds.py").write_text(REFUNDS.replace("len(part)", "7"))
    place = workspace_with(place.root, '[tools]\npython = ["tools/*.py"]\n', monkeypatch)
    assert workspace_tools(place)["stock"]("bolt") == 7


def test_without_trust_nothing_is_loaded_and_one_line_says_so(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HIVE_HOME", str(place.root / "another machine"))
    machine.adopt(place.root / ".hive")
    (place.root / "tools" / "more.py").write_text("open('acted', 'w')\n")
    _warn.cache_clear()
    registry = workspace_tools(Workspace(place.root))
    assert set(registry.all_names) == NAMES == set(workspace_tools(Workspace(place.root)).all_names)
    assert [one.code for one in registry.missing] == ["HIVE-431"]
    assert len(caplog.records) == 1
    assert "not trusted" in caplog.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing_of_this_name", "refunds.py can't be loaded (line 1): ModuleNotFoundError"),
        ("x = 1\ny = x / 0", "can't be loaded (line 2): ZeroDivisionError"),
        ("def f(:", "can't be loaded"),
        ("raise SystemExit", "can't be loaded"),
        ("x = 1", "there is no tool in tools/refunds.py"),
        ("from hive_agents import tool\n@tool(name='set_output')\ndef f() -> str: ...", "can't be the name of a tool"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_a_diagnostic_and_the_others_stay(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    (place.root / "tools" / "refunds.py").write_text(text)
    (place.root / "tools" / "sound.py").write_text("from hive_agents import tool\n@tool\ndef ok() -> str:\n  'Ok.'\n")
    place = workspace_with(place.root, '[tools]\npython = ["tools/*.py"]\n', monkeypatch)
    registry = workspace_tools(place)
    assert "ok" in registry.all_names
    (missing,) = registry.missing
    assert (missing.code, words in missing.message) == ("HIVE-432", True)


@pytest.mark.parametrize("what", ["criterion", "judge"])
def test_a_file_that_only_registers_something_is_no_fault(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    text = f"from hive_agents import register_{what}\nregister_{what}('mine', object())\n"
    (place.root / "tools" / "refunds.py").write_text(text)
    registry = workspace_tools(workspace_with(place.root, '[tools]\npython = ["tools/*.py"]\n', monkeypatch))
    assert registry.missing == []


def test_modules_are_found_and_patterns_that_lead_nowhere_or_outside_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_tools.py").write_text(PRICE)
    monkeypatch.syspath_prepend(tmp_path)
    settings = '[tools]\npython = ["shop_tools", "none/*.py", "../shop_tools.py"]\n'
    registry = workspace_tools(workspace_with(tmp_path / "ws", settings, monkeypatch))
    assert "price" in registry.all_names
    assert ["no file of the workspace" in one.message for one in registry.missing] == [True, True]


def test_installed_packages_offer_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_tools.py").write_text(PRICE)
    info = tmp_path / "acme_tools-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-tools\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hive_agents.tools]\nacme = acme_tools:price\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "price" in workspace_tools(workspace_with(tmp_path / "ws", "", monkeypatch)).all_names


def test_a_registry_of_the_caller_keeps_the_tools_of_the_workspace(place: Workspace) -> None:
    brought = ToolRegistry()
    brought.register(tool(name="mine", policy="allow")(_mine))
    spec = agent(node("collect", tools=["mine", "stock", "search_documents"]))
    run = start(place, spec, said("nothing"), tools=brought, goal=goal())
    assert {"mine", "stock", "search_documents"} <= set(run.tools.all_names)


def _mine() -> str:
    """Mine."""
    return "mine"


def test_an_agent_of_a_file_uses_tools_of_a_file(place: Workspace) -> None:
    model = said([("refund", {"order": "o1", "amount": 3.0})], [sets("items", [1])])
    run = start(place, agent(node("collect", tools=["refund"], output_keys=["items"])), model, tools=None, goal=goal())
    assert run.go()["status"] == "done"
    result = next(message.content for prompt in model.prompts for message in prompt if message.role == "tool")
    assert f'"key": "{run.run_id}/' in result


def test_a_tool_that_cannot_be_loaded_is_told_once_where_tools_are_listed(place: Workspace) -> None:
    (place.root / "tools" / "bad.py").write_text("import no_such_module\n")
    trust(place)
    ran = subprocess.run(
        [sys.executable, "-m", "hive_agents", "tools", "list", "-w", str(place.root)], capture_output=True, text=True
    )
    assert ran.stderr.count("no_such_module") == 1


def test_tools_are_listed_shown_and_called(place: Workspace) -> None:
    ran = hive("tools", "list", "-w", place.root, "--json")
    assert {"refund", "search_documents", "browser"} <= {each["name"] for each in ran.json["tools"]}
    assert ran.json["missing"] == []
    shown = hive("tools", "show", "refund", "-w", place.root, "--json").json
    assert (shown["side_effect"], shown["parameters"]["required"]) == ("external", ["order", "amount"])
    ran = hive("tools", "call", "stock", "--args", '{"part": "bolt"}', "-w", place.root, "--json")
    assert (ran.code, ran.json) == (0, {"tool": "stock", "content": "4", "is_error": False})
    assert hive("tools", "call", "stock", "--args", '{"part": 4}', "-w", place.root, "--json").code == 1
    ran = hive("tools", "call", "stok", "-w", place.root, "--json")
    assert (ran.code, 'did you mean "stock"' in str(ran.json)) == (2, True)


# MCP servers


async def test_tools_of_a_server_have_its_name_and_what_the_owner_says_of_their_side_effects(
    with_server: Workspace, tmp_path: Path
) -> None:
    registry = workspace_tools(with_server)
    assert registry.missing == []
    assert (registry["notes__read_note"].side_effect, registry["notes__write_note"].side_effect) == ("read", "external")
    assert registry.decide("notes__write_note") == "ask"
    assert registry["notes__read_note"].parameters["required"] == ["name"]
    written = await called(with_server, "notes__write_note", name="a", text="hello")
    assert (json.loads(written.content), written.is_error) == ({"written": 5}, False)
    assert await called(with_server, "notes__read_note", name="a") == ToolResult("hello")


async def test_errors_of_a_server_are_results(with_server: Workspace) -> None:
    missing = await called(with_server, "notes__read_note", name="none")
    assert (missing.is_error, "read_note" in missing.content) == (True, True)
    assert (await called(with_server, "notes__read_note", name=7)).is_error


async def test_a_server_gets_the_secrets_it_is_given_and_no_others(
    with_server: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(b"k-77").hexdigest()
    assert (await called(with_server, "notes__fingerprint", name="NOTES_KEY")).content == digest
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", "not its own")
    assert (await called(with_server, "notes__fingerprint", name="HIVE_CREDENTIAL_KEY")).content == "none"


async def test_what_a_server_tells_of_its_secrets_is_taken_out(with_server: Workspace) -> None:
    assert await called(with_server, "notes__secret") == ToolResult("the key is ***")


async def test_a_server_that_dies_is_a_failed_call_and_is_started_again(with_server: Workspace, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello")
    died = await called(with_server, "notes__die")
    assert (died.is_error, "the MCP server notes failed" in died.content) == (True, True)
    assert await called(with_server, "notes__read_note", name="a") == ToolResult("hello")


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server(with_server: Workspace, tmp_path: Path) -> None:
    calling = asyncio.create_task(called(with_server, "notes__wait"))
    await _there(tmp_path / "waiting")
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await _there(tmp_path / "cancelled")
    (tmp_path / "a").write_text("hello")
    assert await called(with_server, "notes__read_note", name="a") == ToolResult("hello")


async def _there(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.01)


async def test_a_call_that_broke_off_is_made_again_where_a_person_said_so(
    with_server: Workspace, tmp_path: Path
) -> None:
    """Whoever makes it again has asked, see test_effects_once; the server itself has no say in it."""
    tools, again = workspace_tools(with_server), ToolContext(with_server, again=True)
    written = await tools.call("notes__write_note", {"name": "b", "text": "x"}, again, approved=True)
    assert (written.is_error, (tmp_path / "b").read_text()) == (False, "x")


async def test_tools_that_the_owner_calls_idempotent_or_that_take_a_key_need_nobody_to_be_asked(
    with_server: Workspace,
) -> None:
    tools = workspace_tools(with_server)
    assert [tools[f"notes__{one}"].keyed for one in ("write_note", "keep_note", "pay")] == [False, True, True]
    assert list(tools["notes__pay"].parameters["properties"]) == ["amount"]
    under = ToolContext(with_server, idempotency_key="r1/k")
    assert (await tools.call("notes__pay", {"amount": 5}, under, approved=True)).content == "5 under r1/k"


@pytest.mark.parametrize(
    "server",
    [
        'command = ["no-such-program-here"]',
        f'command = ["{sys.executable}", "-c", "1"]',
        'url = "http://127.0.0.1:1/mcp"',
    ],
)
def test_a_server_that_cannot_be_had_is_a_diagnostic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    registry = workspace_tools(workspace_with(tmp_path / "ws", f"[mcp.servers.gone]\n{server}\n", monkeypatch))
    (missing,) = registry.missing
    assert (missing.code, "gone" in missing.message) == ("HIVE-432", True)
    assert set(registry.all_names) == NAMES


@pytest.fixture
def http_server(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    import uvicorn

    from tests.agents.mcp_server import make

    seen: list[str] = []
    served = make(tmp_path).streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(value.decode() for name, value in scope.get("headers", ()) if name == b"authorization")
        await served(scope, receive, send)

    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp", seen
    server.should_exit = True
    thread.join(5)


async def test_a_server_over_http_gets_its_headers(
    http_server: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, seen = http_server
    monkeypatch.setenv("NOTES_TOKEN", "Bearer t-9")
    settings = f'[mcp.servers.web]\nurl = "{url}"\nheaders_ref = {{Authorization = "env:NOTES_TOKEN"}}\n'
    place = workspace_with(tmp_path / "ws", settings, monkeypatch)
    (tmp_path / "a").write_text("hello")
    assert await called(place, "web__read_note", name="a") == ToolResult("hello")
    assert set(seen) == {"Bearer t-9"}


def test_a_secret_that_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = '[mcp.servers.web]\nurl = "http://127.0.0.1:1/mcp"\nheaders_ref = {Authorization = "env:NOT_SET"}\n'
    registry = workspace_tools(workspace_with(tmp_path / "ws", settings, monkeypatch))
    assert [each.code for each in registry.missing] == ["HIVE-421"]


def test_an_mcp_tool_without_its_client_is_refused() -> None:
    class Listed:
        name, description = "listed", "Listed."
        input_schema = {"type": "object", "properties": {}}

    with pytest.raises(HiveError, match="call_tool"):
        ToolRegistry().register(Listed())


# In other processes

DYING = '''
import os
import signal
from pathlib import Path

from hive_agents import ToolContext, tool

@tool(side_effect="external", policy="allow")
def refund(order: str, context: ToolContext) -> str:
    """Pay an order back."""
    log = context.workspace.root / "refunds.log"
    with log.open("a") as file:
        file.write(context.idempotency_key + chr(10))
    if os.environ.get("DIE") and len(log.read_text().splitlines()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"
'''
LINES = [
    {"tool_calls": [{"name": "refund", "args": {"order": "o1"}, "id": "1"}]},
    {"tool_calls": [{"name": "set_output", "args": {"key": "items", "value": [1]}, "id": "2"}]},
    {"content": "Done."},
]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    place = make_workspace(tmp_path / "shop", embedding=False)
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Refunds"})
    write_json(place, "agents/digest.json", agent_json(node("collect", tools=["refund"], output_keys=["items"])))
    (place.root / "s.jsonl").write_text("\n".join(json.dumps(line) for line in LINES))
    (place.root / "tools").mkdir()
    (place.root / "tools" / "refunds.py").write_text(DYING)
    settings = '[models]\nchat = ["scripted:s.jsonl"]\nembedding = "none"\n[tools]\npython = ["tools/*.py"]\n'
    return workspace_with(place.root, settings, monkeypatch)


def hive_process(place: Workspace, *arguments: str, die: bool = False) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"DIE": "1"} if die else {})
    command = [sys.executable, "-m", "hive_agents", *arguments, "-w", str(place.root), "--json"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_killed_run_goes_on_with_its_own_tools_under_the_same_key(shop: Workspace) -> None:
    killed = hive_process(shop, "run", "digest", die=True)
    assert killed.returncode == -9
    (run,) = RunStore(shop).list()
    again = hive_process(shop, "run", "--resume", run.run_id)
    assert (again.returncode, json.loads(again.stdout)["status"]) == (0, "done")
    keys = (shop.root / "refunds.log").read_text().splitlines()
    assert (len(keys), len(set(keys))) == (2, 1)


async def test_a_host_runs_an_agent_with_its_own_tools(shop: Workspace) -> None:
    run_id = AgentRun.start(shop, "digest", {}, hold=False).run_id
    async with Host(shop, roles=["runs"]):
        while RunStore(shop).get(run_id).status not in ("done", "failed"):
            await asyncio.sleep(0.02)
    assert RunStore(shop).get(run_id).status == "done"


@contextmanager
def served(place: Workspace, *, die: bool = False) -> Iterator[subprocess.Popen[str]]:
    environment = {key: value for key, value in os.environ.items() if key != "DIE"} | ({"DIE": "1"} if die else {})
    command = [sys.executable, "-m", "hive_agents", "serve", "--headless", "--roles", "runs", "-w", str(place.root)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def until(place: Workspace, run_id: str, status: str) -> RunRow:
    while (row := RunStore(place).get(run_id)).status != status:
        time.sleep(0.05)
    return row


@pytest.mark.slow
def test_a_host_that_is_killed_in_an_own_tool_leaves_a_run_that_the_next_one_ends(shop: Workspace) -> None:
    with (shop.root / "hive.toml").open("a") as file:
        file.write("[runs]\nlease_seconds = 2.0\n")
    trust(shop)
    run_id = json.loads(hive_process(shop, "run", "digest", "--queue").stdout)["run_id"]
    with served(shop, die=True) as first:
        assert first.wait(120) == -signal.SIGKILL
    assert RunStore(shop).get(run_id).status == "running"
    with served(shop) as second:
        assert (until(shop, run_id, "done").result or {})["outputs"] == {"items": [1]}
        second.send_signal(signal.SIGTERM)
        assert second.wait(120) == 0
    keys = (shop.root / "refunds.log").read_text().splitlines()
    assert (len(keys), len(set(keys))) == (2, 1)


@pytest.mark.slow
def test_a_host_of_tools_that_are_not_trusted_runs_none_of_them(shop: Workspace) -> None:
    run_id = json.loads(hive_process(shop, "run", "digest", "--queue").stdout)["run_id"]
    with (shop.root / "tools" / "refunds.py").open("a") as file:
        file.write("# changed since\n")
    with served(shop) as host:
        until(shop, run_id, "failed")
        host.send_signal(signal.SIGTERM)
        assert "hive trust" in host.communicate(timeout=120)[1]
    assert not (shop.root / "refunds.log").exists()
    trust(shop)
    assert hive_process(shop, "run", "digest").returncode == 0


def test_without_trust_the_agent_is_refused_and_nothing_runs(shop: Workspace) -> None:
    with (shop.root / "tools" / "refunds.py").open("a") as file:
        file.write("# changed since\n")
    ran = hive_process(shop, "run", "digest")
    assert ran.returncode != 0
    assert "HIVE-431" in ran.stdout
    assert "HIVE-107" not in ran.stdout
    assert not (shop.root / "refunds.log").exists()


def test_an_agent_whose_tools_are_not_trusted_is_told_where_that_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make_workspace(tmp_path / "w")
    workspace_with(place.root, '[tools]\npython = ["tools/*.py"]\n', monkeypatch, trusted=False)
    (place.root / "tools").mkdir()
    (place.root / "tools" / "price.py").write_text(PRICE)
    write_json(place, "agents/seller.json", agent_json(node("a", tools=["price"]), id="seller"))
    ran = hive("agents", "validate", "seller", "-w", place.root, "--json")
    (found,) = [one for one in ran.json["diagnostics"] if "price" in one["message"]]
    assert (found["code"], "hive trust --diff" in found["fix"]) == ("HIVE-431", True)


@pytest.mark.parametrize("command", ["show", "call"])
def test_a_tool_that_there_is_not_is_a_wrong_command(tmp_path: Path, command: str) -> None:
    place = make_workspace(tmp_path / "ws", embedding=False)
    ran = hive("tools", command, "nothing", "-w", place.root, "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-107"})


def test_arguments_that_can_not_be_read_are_a_wrong_command(tmp_path: Path) -> None:
    place = make_workspace(tmp_path / "ws", embedding=False)
    ran = hive("tools", "call", "search_documents", "--args", "{", "-w", place.root, "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-101"})
