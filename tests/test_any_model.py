"""With nothing but hive.toml changed: chat, planner, optimizer's proposer and an agent, over three kinds of servers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hive_agents import AgentRun, HiveError, Workspace
from hive_agents.agents.guards.budget import Limits
from hive_agents.models.breaker import forget_breakers
from hive_agents.runs import RunStore
from tests.agents.conftest import agent_json, node, write_json
from tests.copilot.chats import ask, copied_knowledge_base
from tests.graphs.optimizing import run as optimized, small
from tests.models.bedrock_server import bedrock_server
from tests.models.environment import point_aws_at
from tests.models.openai_server import model_server
from tests.models.trusting import endpoint_settings, workspace_with

TOOLS = '''
from hive_agents import tool

@tool
def weigh(part: str) -> int:
    """Weigh a part."""
    return 7

@tool(side_effect="write")
def price(grams: int) -> int:
    """Price a weight."""
    return 3 * grams
'''
AGENT = agent_json(
    node("weighing", tools=["weigh"], output_keys=["grams"]),
    node("pricing", tools=["price"], input_keys=["grams"], output_keys=["usd"]),
    node("filing", tools=["notes__write_note"], input_keys=["usd"], output_keys=["filed"]),
    tool_policy=[{"match": "*", "decision": "allow"}],
    mode="isolated",
)
TURNS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "Do weighing.": [("weigh", {"part": "bolt"}), ("set_output", {"key": "grams", "value": 7})],
    "Do pricing.": [("price", {"grams": 7}), ("set_output", {"key": "usd", "value": 21})],
    "Do filing.": [
        ("notes__write_note", {"name": "quote", "text": "21"}),
        ("set_output", {"key": "filed", "value": True}),
    ],
}
PLAN = {
    "rewritten_query": "rotate a key",
    "strategy": "ContentOnly",
    "search_value": "rotate a key",
    "route": "documents.search",
    "filters": [],
    "reason": "a question",
}
ANSWER = "Create a second key, deploy it, then revoke the first key [1]."
PATCH = [{"op": "replace", "path": "/retrieval/top_k", "value": 2}]
VERDICT = {"action": "accept", "confidence": 0.95, "reasoning": "as the passage says"}


@dataclass
class Lab:
    """A kind of server and the settings that lead to it."""

    settings: str
    names: list[str]


def turn(text: str, results: int) -> Any:
    """What a model of the lab does next: `text` is all of the prompt, `results` counts the tools' answers in it."""
    for prompt, calls in TURNS.items():
        if prompt in text:
            return calls[results] if results < len(calls) else "Done."
    return None


def structured(text: str) -> Any:
    if '"patches"' in text:
        return {"patches": [{"patch": PATCH, "reason": "two are enough"}]}
    if '"steps"' in text or "rewritten_query" in text:
        return {"steps": [PLAN]}
    return VERDICT if "confidence" in text else None


@pytest.fixture(params=["openai", "ollama", "bedrock"])
def lab(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    forget_breakers()
    if request.param == "bedrock":
        name = "bedrock:anthropic.claude-3-haiku-20240307-v1:0"

        def converses(body: dict[str, Any]) -> Any:
            text = json.dumps(body)
            choice = body.get("toolConfig", {}).get("toolChoice", {}).get("tool")
            if choice:
                return choice["name"], structured(json.dumps(body["toolConfig"]))
            return turn(text, text.count('"toolResult"')) or ANSWER

        with bedrock_server() as bedrock:
            point_aws_at(bedrock.url, monkeypatch)
            bedrock.says = converses
            yield Lab(f'[models]\nchat = ["{name}"]\n', [name])
        return

    def says(body: dict[str, Any]) -> Any:
        if "tool_choice" in body:
            arguments = structured(json.dumps(body["tools"]))
            return (
                {"name": body["tools"][-1]["function"]["name"], "arguments": arguments} if flavour == "openai" else None
            )
        if "response_format" in body:
            return json.dumps(structured(json.dumps(body["response_format"])))
        found = turn(json.dumps(body["messages"]), sum(one["role"] == "tool" for one in body["messages"]))
        return {"name": found[0], "arguments": found[1]} if isinstance(found, tuple) else found or ANSWER

    flavour = str(request.param)
    with model_server(flavour) as server:
        server.says = says
        yield Lab(endpoint_settings(server.url, models='chat = ["lab:small"]'), ["lab:small"])


def test_chat_plans_answers_and_judges(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = workspace_with(copied_knowledge_base(tmp_path / "w").root, lab.settings, monkeypatch)
    reply = ask(place, "dana", "swap my key please")
    assert (reply["planner"], reply["status"], reply["answer_source"]) == ("model", "answered", "model")
    assert (reply["answer"], reply["judgment"]["action"]) == (ANSWER, "accept")
    assert reply["usage"]["model_calls"] == 3


@pytest.fixture
def shop(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    root = tmp_path / "shop"
    (root / "tools").mkdir(parents=True)
    (root / "collections").mkdir()
    (root / "tools" / "shop.py").write_text(TOOLS)
    script = Path(__file__).parent / "agents" / "mcp_server.py"
    command = json.dumps([sys.executable, str(script), str(tmp_path)])
    env = f"{{PYTHONPATH = {json.dumps(':'.join(sys.path))}}}"
    rest = f'[tools]\npython = ["tools/*.py"]\n[mcp.servers.notes]\ncommand = {command}\nenv = {env}\n'
    place = workspace_with(root, lab.settings + rest, monkeypatch)
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Quotes"})
    write_json(place, "agents/digest.json", AGENT)
    return place


def test_an_agent_of_three_nodes_uses_two_own_tools_and_a_server(shop: Workspace, tmp_path: Path) -> None:
    run = AgentRun.start(shop, "digest", {})
    result = run.go()
    assert (result["status"], result["outputs"]) == ("done", {"grams": 7, "usd": 21, "filed": True})
    assert (tmp_path / "quote").read_text() == "21"
    again = AgentRun.resume(shop, run.run_id)
    assert {"weigh", "price", "notes__write_note"} <= set(again.tools.all_names)


def test_a_limit_in_dollars_is_refused_at_the_start_where_the_price_is_unknown(shop: Workspace, lab: Lab) -> None:
    if lab.names[0].startswith("bedrock:"):
        assert AgentRun.start(shop, "digest", {}, limits=Limits(usd=1.0)).row.status == "queued"
        return
    with pytest.raises(HiveError, match=r"max_usd can't be kept") as caught:
        AgentRun.start(shop, "digest", {}, limits=Limits(usd=1.0))
    assert "models.endpoints.lab.price" in str(caught.value.diagnostics[0].fix)
    assert RunStore(shop).list() == []


def test_the_proposer_of_the_optimizer_proposes(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = lab.settings.replace("[models]", '[models]\nembedding = "none"', 1)
    place = workspace_with(small(tmp_path / "topics").root, settings, monkeypatch)
    result = optimized(place, deploy=False, iterations=1)
    (row,) = [row for row in result["iterations"] if row["proposer"] == "model"]
    assert (row["reason"], row["step"], row["train"] is not None) == ("two are enough", "top_k 10 → 2", True)
    assert (result["fallbacks"], result["usage"]["model_calls"]) == ([], 1)
