"""Level 3 of agents: what their goal's cases decide, and that to rehearse them has no effect."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import AgentSpec, ToolRegistry
from hive_agents.agents.deployed import serving_agent, versions
from hive_agents.agents.evolution.verdict import Rehearsed, decide
from hive_agents.agents.rehearsal import scratch
from hive_agents.agents.spec import load_agent
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.models import Chain, ModelError
from hive_agents.store import audit, connected
from tests.agents.conftest import write_json
from tests.agents.evolving import (
    ALL,
    agent_file,
    deploy,
    goal_file,
    models,
    prepared,
    proposed,
    served,
)
from tests.agents.loops import said, sets
from tests.models.openai_server import model_server
from tests.models.trusting import endpoint_settings, workspace_with


@pytest.fixture
def first(place: Workspace) -> Workspace:
    """Version 1 serves; it knows nothing."""
    return served(place)


def test_a_first_deployment_needs_its_own_cases_to_pass(place: Workspace) -> None:
    prepared(place, "ants", "bees")
    blocked = deploy(place)
    assert (blocked.verdict.decision, blocked.deployed) == ("blocked", None)
    assert {one["code"] for one in blocked.verdict.reasons} == {"HIVE-309"}
    assert versions(place, "digest") == []
    prepared(place, *ALL)
    passed = deploy(place).to_json()
    assert (passed["decision"], passed["deployed"], passed["approval_id"]) == ("first", 1, None)
    assert passed["evaluation"]["candidate"]["passed"] == len(ALL)
    assert deploy(place).to_json()["deployed"] == 1  # again, by a caller that died before it knew
    assert len(versions(place, "digest")) == 1


@pytest.mark.parametrize(
    ("before", "after", "decision", "code"),
    [
        (ALL[:2], ALL[1:], "blocked", "HIVE-309"),
        (ALL[:1], [*ALL[:1], "long"], "blocked", "HIVE-311"),
        (ALL[:1], [*ALL[:1], "more"], "inconclusive", "HIVE-306"),
        (ALL[:1], [*ALL[:2], "long"], "inconclusive", "HIVE-306"),
        ([], ALL, "passed", None),
    ],
)
def test_what_the_cases_decide(
    place: Workspace, before: list[str], after: list[str], decision: str, code: str | None
) -> None:
    prepared(place, *before)
    outcome = deploy(place, proposed(place, *after))
    assert outcome.verdict.decision == decision
    assert [one["code"] for one in outcome.verdict.reasons] == ([code] if code else [])
    pending = ApprovalStore(place).list("pending")
    assert [one.risk for one in pending] == {"blocked": [], "inconclusive": ["high"], "passed": ["medium"]}[decision]


def test_without_cases_nothing_is_known(first: Workspace) -> None:
    """Who takes the cases out of a goal can't hide it: it is told with the request."""
    write_json(first, "goals/digest.json", goal_file(eval_cases=[]))
    outcome = deploy(first, proposed(first, *ALL))
    assert outcome.verdict.decision == "inconclusive"
    assert "no eval_cases" in outcome.verdict.reasons[0]["message"]
    request = ApprovalStore(first).get(str(outcome.approval_id))
    assert (request.risk, request.context["more"]) == ("high", ["its goal was edited since version 1 was deployed"])


def test_a_violated_hard_constraint_blocks_whatever_is_gained(place: Workspace) -> None:
    prepared(place)
    constraint = {"id": "no_lice", "check": "'lice' not in result['text']"}
    write_json(place, "goals/digest.json", goal_file(constraints=[constraint]))
    outcome = deploy(place, proposed(place, *ALL))
    assert outcome.verdict.decision == "blocked"
    assert [one["code"] for one in outcome.verdict.reasons] == ["HIVE-310"]
    assert outcome.verdict.evaluation["cases"][2]["candidate"]["violated"] == ["no_lice"]


def test_criteria_of_a_case_are_measured(place: Workspace) -> None:
    prepared(place)
    measured = {"id": "named", "metric": "output_contains", "target": "ants"}
    judged = {"id": "nice", "metric": "llm_judge"}
    cases = [
        {"id": "measured", "input": {"topic": "ants"}, "expect": [measured]},
        {"id": "judged", "input": {"topic": "ants"}, "expect": [judged]},
        {"id": "unfit", "input": "ants", "expect": {"text": "on ants"}},
    ]
    write_json(place, "goals/digest.json", goal_file(eval_cases=cases))
    found = deploy(place, proposed(place, "ants")).verdict.evaluation["cases"]
    whys = {one["id"]: one["candidate"]["why"] for one in found}
    assert whys["measured"] is None
    assert "no model has to judge" in whys["judged"]
    assert "can't start" in whys["unfit"]


@pytest.mark.parametrize(("side_effect", "decision"), [("write", "allow"), ("external", "ask"), ("external", "allow")])
def test_a_rehearsal_has_no_effect(place: Workspace, side_effect: Any, decision: str) -> None:
    """Neither the tool runs nor a person is asked, and no trace is left but the audit log's lines and the request."""
    orders: list[str] = []
    tools = ToolRegistry()

    def order(what: str) -> str:
        """Order a thing."""
        orders.append(what)
        return "ordered"

    tools.register(order, side_effect=side_effect)
    policy = [{"match": "*", "decision": decision}]
    prepared(place)
    write_json(place, "agents/digest.json", agent_file("order", node={"tools": ["order"]}) | {"tool_policy": policy})
    cases = goal_file()["eval_cases"][:1]
    write_json(place, "goals/digest.json", goal_file(eval_cases=cases))
    outcome = deploy(place, tools=tools)
    assert outcome.verdict.decision == "blocked"
    why = outcome.verdict.evaluation["cases"][0]["candidate"]["why"]
    assert "would have called order" in why or "would have asked a person: digest wants to call order" in why
    assert orders == []
    assert _traces(place) == (0, 0, 0, 0, [])


def test_a_rehearsal_asks_nobody(place: Workspace) -> None:
    prepared(place, "ask")
    cases = goal_file()["eval_cases"][:1]
    write_json(place, "goals/digest.json", goal_file(eval_cases=cases))
    why = deploy(place).verdict.evaluation["cases"][0]["candidate"]["why"]
    assert why == "it would have asked a person: Which?"
    assert _traces(place) == (0, 0, 0, 0, [])


def test_a_rehearsals_workspace_is_whole_while_the_log_grows(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is written while the files are copied breaks nothing; secrets and what links lead to stay where
    they are."""
    served(place)
    (place.state / "credentials.json").write_text("{}")
    (place.root / "agents" / "loop").symlink_to(place.root)
    (place.root / "agents" / "nowhere.json").symlink_to("/nowhere")
    os.mkfifo(place.root / "agents" / "pipe.json")
    with pytest.raises(HiveError, match="no file"):
        load_agent(place, "pipe")
    copied = shutil.copy2

    def growing(source: Any, target: Any, **given: Any) -> Any:
        if Path(source).is_relative_to(place.root / "audit") or Path(source).name == "audit.head":
            audit.append(place, "note")
            done = copied(source, target, **given)
            audit.append(place, "note")
            return done
        return copied(source, target, **given)

    monkeypatch.setattr(shutil, "copy2", growing)
    with scratch(place) as other:
        assert audit.verify(other).ok
        assert serving_agent(other, "digest")[0].version == 1
        assert (other.root / "agents" / "loop").is_symlink()
        assert (other.state / "credentials.json").readlink() == place.state / "credentials.json"
    assert (place.state / "credentials.json").exists()


def test_cases_are_rehearsed_with_the_model_of_an_endpoint(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with model_server() as server:
        server.says = lambda body: {"name": "set_output", "arguments": sets("text", f"on {_topic(body)}")[1]}
        settings = endpoint_settings(server.url, models='embedding = "none"', rest="[gate]\nalpha = 0.125")
        prepared(place, *ALL, model="lab:small")
        first = deploy(workspace_with(place.root, settings, monkeypatch), models=None).to_json()
    assert (first["decision"], first["deployed"]) == ("first", 1)
    assert first["evaluation"]["candidate"]["tokens"] > 0


def _topic(body: dict[str, Any]) -> str:
    return re.findall(r"\[input topic\]: (\w+)", json.dumps(body["messages"]))[-1]


def _traces(place: Workspace) -> tuple[int, int, int, int, list[str]]:
    with connected(place.records) as connection:
        runs, events, effects, asked = (
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("runs", "events", "effects", "approvals")
        )
    left = [one.name for one in place.state.iterdir() if one.name in ("runs", "memory", "checkpoints.db")]
    return runs, events, effects, asked, left


def test_a_model_that_is_down_is_no_gain(first: Workspace) -> None:
    """The version that serves fails for want of a model: that proves nothing of the other."""

    def down(agent: AgentSpec) -> Any:
        failing = said(ModelError("authentication", "expired"))
        return (lambda role: Chain([failing])) if agent.version == 1 else models(agent)

    with pytest.raises(HiveError) as caught:
        deploy(first, proposed(first, *ALL), models=down)
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-401", 3)
    assert ApprovalStore(first).list() == []


def test_the_sign_test_decides_between_lost_and_gained() -> None:
    good, bad = Rehearsed(), Rehearsed("wrong")

    def sides(wins: int, losses: int) -> Any:
        pairs = [(good, bad)] * wins + [(bad, good)] * losses + [(good, good)]
        new, old = ({str(n): pair[side] for n, pair in enumerate(pairs)} for side in (0, 1))
        return decide(new, old).decision

    assert [sides(*found) for found in ((4, 0), (5, 0), (5, 1), (8, 1), (0, 0))] == [
        "inconclusive", "passed", "blocked", "passed", "inconclusive",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("passed", "failed", "decision"),
    [(1, 0, "first"), (4, 1, "blocked"), (7, 1, "first"), (12, 4, "first"), (9, 4, "blocked")],
)
def test_a_first_deployment_is_decided_by_the_same_test(passed: int, failed: int, decision: str) -> None:
    """One case that fails of many is told, and doesn't keep an agent from serving that does well on the others."""
    results = [Rehearsed()] * passed + [Rehearsed("wrong")] * failed
    found = decide({str(n): one for n, one in enumerate(results)}, None)
    assert found.decision == decision
    assert [one["code"] for one in found.reasons] == ["HIVE-309"] * failed
    assert (found.evaluation["p_value"] <= 0.05) == (decision == "first" and failed > 0)
    violated = [*results, Rehearsed(violated=["never_more"])] * 9
    assert decide({str(n): one for n, one in enumerate(violated)}, None).decision == "blocked"
