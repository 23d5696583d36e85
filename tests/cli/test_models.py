"""`hive models` and the models in `hive doctor`, against servers on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from tests.models.openai_server import KEY, ModelServer, Status, model_server
from tests.models.trusting import endpoint_settings, workspace_with
from tests.sample import copied_sample, hive

MODELS = 'chat = ["lab:small"]\njudge = ["lab:large", "lab:small"]\nembedding = "lab:embed"\nreranker = "lab:rerank"'


def answering(body: dict[str, Any]) -> Any:
    """A capable model: it calls the tool that it is asked to call."""
    if "tool_choice" not in body and body.get("tools"):
        return {"name": body["tools"][0]["function"]["name"], "arguments": {"place": "Lima"}}
    return None


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        server.structured = {"colour": "blue"}
        server.says = answering
        yield server


@pytest.fixture
def place(tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    place = copied_sample(tmp_path / "w")
    settings = endpoint_settings(server.url, models=MODELS, endpoint="price = {input = 1.0, output = 2.0}")
    return workspace_with(place.root, settings, monkeypatch)


def checks(place: Workspace, name: str) -> list[dict[str, Any]]:
    return [one for one in hive("doctor", "-w", place.root, "--json").json["checks"] if one["name"] == name]


def test_models_are_listed_with_roles_and_prices_and_none_is_asked(place: Workspace, server: ModelServer) -> None:
    ran = hive("models", "list", "-w", place.root, "--json")
    found = {one["name"]: one["roles"] for one in ran.json["models"]}
    assert found == {
        "lab:small": ["chat", "planner", "answer", "judge", "queen", "optimizer"],
        "lab:large": ["judge"],
        "lab:embed": ["embedding"],
        "lab:rerank": ["reranker"],
    }
    assert ran.json["models"][0]["price"] == {"input": 1.0, "output": 2.0}
    (endpoint,) = ran.json["endpoints"]
    assert (endpoint["name"], endpoint["base_url"], endpoint["trusted"]) == ("lab", server.url, True)
    assert server.requests == []


def test_what_an_endpoint_serves_can_be_asked(place: Workspace) -> None:
    ran = hive("models", "list", "--served", "-w", place.root, "--json")
    assert ran.json["endpoints"][0]["serves"] == ["large", "small"]


@pytest.mark.parametrize(
    ("flavour", "structured", "tools"),
    [("openai", "tool", True), ("ollama", "schema", True), ("bare", "prompt", False)],
)
def test_each_model_is_asked_what_it_can_do(
    place: Workspace, server: ModelServer, flavour: str, structured: str, tools: bool
) -> None:
    server.flavour = flavour
    ran = hive("models", "test", "lab:small", "-w", place.root, "--json")
    (found,) = ran.json["models"]
    assert (ran.code, found["ok"], found["error"]) == (0, True, "")
    assert (found["structured"], found["tools"], found["streams"], found["priced"]) == (structured, tools, True, True)
    assert ran.json["others"] == []


def test_embedding_model_and_reranker_are_asked_too(place: Workspace) -> None:
    ran = hive("models", "test", "-w", place.root, "--json")
    assert (ran.code, ran.json["ok"]) == (0, True)
    assert [(one["name"], one["kind"], one["dimensions"]) for one in ran.json["others"]] == [
        ("lab:embed", "embedding", 8),
        ("lab:rerank", "reranker", 0),
    ]


def test_a_model_that_cannot_be_asked_fails_the_test_with_its_fault(place: Workspace, server: ModelServer) -> None:
    server.fail(Status(401, f"bad key {KEY}"))
    ran = hive("models", "test", "lab:small", "-w", place.root, "--json")
    assert ran.code == 3
    assert ran.json["models"][0]["error"].startswith("authentication: lab:small: status 401")


def test_a_model_that_calls_no_tool_is_warned_of_with_what_it_is_no_good_for(
    place: Workspace, server: ModelServer
) -> None:
    server.says = lambda body: None
    ran = hive("models", "test", "lab:small", "-w", place.root)
    assert ran.code == 0
    assert ran.out.startswith("warn lab:small: ")
    assert "called no tool" in ran.out
    assert "fix: agents need tools" in ran.out


def test_the_doctor_calls_each_model(place: Workspace, server: ModelServer) -> None:
    found = checks(place, "chat models")
    assert [one["status"] for one in found] == ["ok", "ok"]
    assert "lab:small (chat, planner, answer, judge, queen, optimizer): answers in" in found[0]["message"]
    assert "structured output by tool, calls tools, streams, price known" in found[0]["message"]
    assert "8 dimensions" in checks(place, "model")[0]["message"]
    assert checks(place, "reranker")[0]["status"] == "ok"


def test_the_doctor_says_which_model_is_down_and_that_a_small_one_calls_no_tools(
    place: Workspace, server: ModelServer
) -> None:
    server.says = None
    assert checks(place, "chat models")[0]["status"] == "warn"
    server.missing = "small"
    down = checks(place, "chat models")[0]
    assert (down["status"], "try pulling it first" in down["message"]) == ("fail", True)


@pytest.mark.parametrize("command", ["doctor", "models test"])
def test_an_untrusted_endpoint_is_no_fault_of_its_server(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    copied_sample(tmp_path / "w")
    settings = endpoint_settings(server.url, models='chat = ["lab:small"]')
    place = workspace_with(tmp_path / "w", settings, monkeypatch, trusted=False)
    out = hive(*command.split(), "-w", place.root).out
    assert "not trusted on this machine" in out
    assert "allow it with `hive trust`" in out
    assert "server's own log" not in out
    assert server.requests == []


def test_a_script_is_not_asked(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "w")
    (place.root / "s.jsonl").write_text('{"content": "once"}\n')
    (place.root / "hive.toml").write_text('[models]\nchat = ["scripted:s.jsonl"]\n')
    ran = hive("models", "test", "scripted:s.jsonl", "-w", place.root, "--json")
    assert (ran.code, ran.json["models"][0]["ok"]) == (0, True)
