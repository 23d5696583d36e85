"""`hive agents propose|deploy|rollback|history`: fields, exit codes, and the way of a version into service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, mint
from tests.agents.conftest import write_json
from tests.agents.evolving import agent_file, goal_file, teaches
from tests.conftest import make_workspace
from tests.sample import Ran, hive

SETTINGS = '[models]\nembedding = "none"\nchat = ["scripted:script.jsonl"]\n[gate]\nalpha = 0.5\n'
ROW = "id agent version hash at by authn decision via reason evaluation active".split()


def sets(value: str, **when: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": value}}], **when}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """An agent that knows of ants, and a goal with one case about bees."""
    workspace = make_workspace(tmp_path / "ws", embedding=False, documents={})
    (workspace.root / "hive.toml").write_text(SETTINGS)
    lines = [sets("on bees", when={"contains": "You know: bees"}), sets("I don't know")]
    (workspace.root / "script.jsonl").write_text("\n".join(map(json.dumps, lines)))
    write_json(workspace, "goals/digest.json", goal_file(eval_cases=goal_file()["eval_cases"][1:2]))
    write_json(workspace, "agents/digest.json", agent_file("ants"))
    write_json(workspace, "patch.json", teaches("bees"))
    return workspace


def agents(place: Workspace, *arguments: object) -> Ran:
    return hive("agents", *arguments, "-w", place.root, "--json")


def proposed(place: Workspace, patch: Any = "patch.json") -> Ran:
    return agents(place, "propose", "digest", "--patch", place.root / patch, "--reason", "bees", "--as", "dana")


def test_a_version_comes_into_service_and_goes_again(place: Workspace) -> None:
    made = proposed(place)
    assert (made.code, made.json["version"], made.json["diagnostics"]) == (0, 2, [])
    assert set(made.json) == {"agent", "version", "file", "diagnostics", "diff"}
    assert made.json["file"] == "agents/proposals/digest-v2.json"
    assert [step["path"] for step in made.json["diff"]] == ["/nodes/0/system_prompt"]
    asked = agents(place, "deploy", "digest", "--version", 2, "--as", "dana")
    assert asked.code == 0
    assert set(asked.json) == {"decision", "reasons", "deployed", "previous", "evaluation", "approval_id"}
    assert (asked.json["decision"], asked.json["deployed"], asked.json["evaluation"]["wins"]) == ("passed", None, 1)
    approve = ("approvals", "approve", asked.json["approval_id"], "-w", place.root, "--json")
    assert hive(*approve, "--as", "dana").code == 1
    assert hive(*approve, "--as", "kim").json["status"] == "approved"
    run = hive("run", "digest", "--input", '{"topic": "bees"}', "-w", place.root, "--json")
    assert run.json["outputs"] == {"text": "on bees"}
    rows = agents(place, "history", "digest").json["versions"]
    assert [list(row) for row in rows] == [ROW, ROW]
    assert [(row["version"], row["via"], row["active"]) for row in rows] == [
        (2, "approval", True),
        (1, "deploy", False),
    ]
    back = agents(place, "rollback", "digest", "--reason", "worse")
    assert (back.code, back.json) == (0, {"agent": "digest", "deployed": 1, "previous": 2})
    assert agents(place, "rollback", "digest").code == 1
    assert "● " in hive("agents", "history", "digest", "-w", place.root).out


def test_an_edited_file_is_told_and_goes_through_the_gate(place: Workspace) -> None:
    write_json(place, "agents/digest.json", agent_file("bees"))
    told = agents(place, "deploy", "digest").json
    assert (told["decision"], told["deployed"], told["previous"], told["approval_id"]) == ("first", 1, None, None)
    write_json(place, "agents/digest.json", agent_file("ants"))
    (row,) = agents(place, "list").json["agents"]
    assert (row["version"], row["deployed"], row["edited"]) == (1, True, True)
    shown = agents(place, "show", "digest")
    assert "bees" in shown.json["agent"]["nodes"][0]["system_prompt"]
    assert (shown.json["deployed"]["version"], shown.json["edited"]) == (1, True)
    assert "HIVE-404" in shown.err
    blocked = agents(place, "deploy", "digest")
    assert (blocked.code, blocked.json["decision"], blocked.json["deployed"]) == (1, "blocked", None)
    assert "BLOCKED digest" in hive("agents", "deploy", "digest", "-w", place.root).out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("propose", "digest", "--reason", "x"), 2),
        (("propose", "digest", "--patch", "patch.json"), 2),
        (("propose", "digst", "--patch", "patch.json", "--reason", "x"), 2),
        (("propose", "digest", "--patch", "none.json", "--reason", "x"), 2),
        (("propose", "digest", "--patch", "bad.json", "--reason", "x"), 1),
        (("propose", "digest", "--file", "bad.json", "--reason", "x"), 1),
        (("propose", "digest", "--file", "agents/digest.json", "--reason", "x"), 1),
        (("deploy", "digst"), 2),
        (("deploy", "digest", "--version", 7), 2),
        (("rollback", "digest"), 1),
        (("history", "digst"), 2),
    ],
)
def test_exit_codes(
    place: Workspace, arguments: tuple[object, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(place, "bad.json", {"entry": "nowhere"})
    monkeypatch.chdir(place.root)
    ran = agents(place, *arguments)
    assert (ran.code, ran.json["ok"]) == (code, False)
    assert not (place.root / "agents/proposals").exists()


def test_the_health_judges_criteria_are_aligned(place: Workspace) -> None:
    ran = agents(place, "align", "digest")
    assert (ran.code, ran.json["criteria"]["agent"]) == (0, "digest")


def test_a_token_takes_the_role_of_an_operator(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for role, codes in (("reader", [1, 1, 1]), ("operator", [0, 0, 1])):
        monkeypatch.setenv("HIVE_TOKEN", mint(place, Principal("acme", "ann", roles=frozenset({role}))).token)
        given = ("--patch", place.root / "patch.json", "--reason", "bees")
        ran = [agents(place, *asked) for asked in (("propose", "digest", *given), ("deploy", "digest", "--version", 2))]
        ran.append(agents(place, "rollback", "digest"))
        assert [one.code for one in ran] == codes
        told = "HIVE-415" if role == "reader" else "HIVE-412"
        assert ran[-1].json["diagnostics"][0]["code"] == told
