"""The agents that come with the sample workspace run to their end, with scripted models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.ranking import build_index
from tests.conftest import make_workspace
from tests.sample import hive

SHIPPED = Path(__file__).parents[2] / "workspace"
ACCEPT = {"structured": {"action": "accept"}}
SURE = {"structured": {"action": "accept", "confidence": 0.95, "reasoning": "read it"}}


def calls(*made: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": args} for name, args in made]}


def output(key: str, value: Any) -> tuple[str, dict[str, Any]]:
    return "set_output", {"key": key, "value": value}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    workspace = make_workspace(tmp_path / "ws", embedding=False)
    for folder in ("agents", "goals", "prompts"):
        shutil.copytree(SHIPPED / folder, workspace.root / folder)
    dana = {"tenant": "acme", "groups": [], "roles": ["reader"]}
    principals = {"tenants": {"acme": {"admins": []}}, "principals": {"dana": dana}}
    (workspace.root / "access").mkdir()
    (workspace.root / "access" / "principals.json").write_text(json.dumps(principals))
    build_index(workspace)
    return workspace


def scripted(place: Workspace, *lines: dict[str, Any]) -> None:
    settings = '[models]\nembedding = "none"\nchat = ["scripted:script.jsonl"]\n'
    (place.root / "hive.toml").write_text(settings)
    (place.root / "script.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


def test_the_curator_surveys_checks_discusses_and_reports(place: Workspace) -> None:
    """It asks a person in between; the answer is given, and the run goes on, by commands of their own."""
    finding = {"kind": "outdated", "doc_ids": ["faqs/lost-key.md"], "what": "a draft"}
    scripted(
        place,
        calls(("search_documents", {"query": "api key"})),
        calls(("delegate_to_sub_agent", {"agent": "checker", "task": "check", "inputs": {"claim": "it is a draft"}})),
        calls(output("verdict", "holds"), output("sources", ["faqs/lost-key.md"])),
        calls(output("findings", [finding])),
        ACCEPT,
        calls(("ask_user", {"question": "For whom is the report?"})),
        calls(output("wishes", "for support")),
        {"structured": {"target": "report"}},
        calls(("save_data", {"filename": "report.md", "text": "# Report"}), output("report", "# Report")),
        SURE,
    )
    first = hive("run", "curator", "--input", '{"topic": "api keys"}', "--as", "dana", "-w", place.root, "--json")
    assert (first.code, first.json["status"]) == (0, "waiting"), first.out
    (id,) = first.json["approval_ids"]
    ApprovalStore(place).decide(id, "respond", by="kim", message="for support")
    ended = hive("run", "--resume", first.json["run_id"], "-w", place.root, "--json")
    assert (ended.code, ended.json["status"]) == (0, "done"), ended.out
    assert ended.json["outputs"]["report"] == "# Report"
    assert ended.json["judgment"]["action"] == "accept"
    listed = hive("runs", "-w", place.root, "--json").json["runs"]
    told = [(row["status"], row["tenant"], row["node"], row["steps"]) for row in listed]
    assert told == [("done", "acme", "report", 7)]
    shown = hive("runs", "show", first.json["run_id"], "-w", place.root).out
    for line in ("sub-agent checker completed", "survey: ACCEPT (level 2)", "discuss: completed", "ACCEPT (the goal)"):
        assert line in shown


def test_the_optimizer_stops_where_nothing_gains_and_asks_before_it_deploys(place: Workspace) -> None:
    measured = [calls(output("baseline", {"name": "v1"}), output("losses", [])), ACCEPT]
    scripted(place, *measured, calls(output("comparison", "nothing gained"), output("candidate", None)), ACCEPT, SURE)
    run = ("run", "optimizer", "--input", '{"request": "improve"}', "-w", place.root, "--json")
    ended = hive(*run)
    assert (ended.code, ended.json["outputs"]["candidate"]) == (0, None), ended.out
    scripted(
        place,
        *measured,
        calls(output("comparison", "better"), output("candidate", "words")),
        ACCEPT,
        calls(("deploy_config", {"name": "words", "reason": "better"})),
    )
    waiting = hive(*run)
    assert (waiting.code, waiting.json["status"]) == (0, "waiting"), waiting.out
    request = ApprovalStore(place).get(waiting.json["approval_ids"][0])
    assert (request.kind, request.context["tool"]) == ("tool_call", "deploy_config")
