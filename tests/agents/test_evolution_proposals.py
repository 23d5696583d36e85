"""Proposals: what is written down, whose it is, and what more a version may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import AgentSpec, ToolRegistry
from hive_agents.agents.evolution.capabilities import more_than
from hive_agents.agents.evolution.proposals import find_proposal, propose
from hive_agents.approvals import ApprovalStore
from hive_agents.approvals.patch import patched
from hive_agents.base.errors import HiveError
from hive_agents.host import decisions
from hive_agents.store import audit
from tests.agents.conftest import agent_json, node, write_json
from tests.agents.evolving import (
    ALL,
    deploy,
    prepared,
    proposed,
    served,
    teaches,
)


@pytest.fixture
def first(place: Workspace) -> Workspace:
    """Version 1 serves; it knows nothing."""
    return served(place)


def refused(place: Workspace, *codes: str, **given: Any) -> HiveError:
    with pytest.raises(HiveError) as caught:
        propose(place, "digest", **({"by": "agent:queen", "reason": "why", "tools": ToolRegistry()} | given))
    assert [one.code for one in caught.value.diagnostics] == list(codes)
    assert not (place.root / "agents" / "proposals").exists()
    return caught.value


def test_a_faulty_proposal_writes_nothing(first: Workspace) -> None:
    lines = len(list(audit.entries(first)))
    bad = [{"op": "replace", "path": "/entry", "value": "x"}, {"op": "add", "path": "/pause_nodes/-", "value": "y"}]
    error = refused(first, "HIVE-107", "HIVE-107", "HIVE-216", change=bad)
    assert [one.path for one in error.diagnostics][:2] == ["entry", "pause_nodes[0]"]
    refused(first, "HIVE-103", change={"entri": "x"})
    refused(first, "HIVE-105", change=[{"op": "remove", "path": "/nope"}])
    refused(first, "HIVE-107", change=[{"op": "replace", "path": "/nodes/0/system_prompt", "value": "prompts/nope.md"}])
    refused(first, "HIVE-409", change=[])
    refused(first, "HIVE-409", change=teaches("ants"), reason=" ")
    assert len(list(audit.entries(first))) == lines


def test_nobody_chooses_the_own_exam(first: Workspace) -> None:
    write_json(first, "goals/easy.json", {"id": "easy", "name": "Easy"})
    refused(first, "HIVE-409", change=[{"op": "replace", "path": "/goal", "value": "easy"}])
    refused(first, "HIVE-409", change={"goal": "easy"}, by="user:dana")
    refused(first, "HIVE-409", change={"id": "other"})


def test_an_edited_proposal_is_nobodys(first: Workspace) -> None:
    """Who wrote into a proposal's file that an agent made it could agree to it."""
    number = proposed(first, *ALL)
    file = first.root / find_proposal(first, "digest", number).file
    file.write_text(file.read_text().replace("user:dana", "agent:queen"))
    with pytest.raises(HiveError, match="somebody edited it"):
        deploy(first, number)


def test_what_more_an_agent_may_do_is_told_first() -> None:
    tools = ToolRegistry()
    for name, effect in (("look", "read"), ("send", "external"), ("drop", "write")):
        tools.register(lambda: None, name=name, description=name, side_effect=effect)
    named = {name: tools[name] for name in tools.names}
    parts = {"tools": ["look", "send"], "requires_approval": True, "success_criteria": "good"}
    before = agent_json(node("a", **parts), tool_policy=[{"match": "*", "decision": "ask"}])

    def more(*patch: Any) -> list[str]:
        old = AgentSpec.model_validate(before)
        return more_than(old, AgentSpec.model_validate(patched(old.to_json(), list(patch))), named)

    def put(path: str, value: Any) -> dict[str, Any]:
        return {"op": "replace", "path": path, "value": value}

    assert more(put("/nodes/0/system_prompt", "Do it better."), put("/nodes/0/max_iterations", 9)) == []
    assert more(put("/tool_policy/0/decision", "deny")) == []
    assert more(put("/tool_policy/0/decision", "allow")) == [
        "edit_data (write): ask -> allow",
        "look (read): ask -> allow",
        "save_data (write): ask -> allow",
        "send (external): ask -> allow",
    ]
    assert more(put("/nodes/0/tools", ["look", "send", "drop"])) == [
        "drop (write): not used -> ask", "a may use drop",
    ]  # fmt: skip
    assert more(put("/nodes/0/requires_approval", False)) == ["a begins without asking a person"]
    assert more(put("/nodes/0/success_criteria", None)) == ["nobody judges a any more"]
    assert more(put("/capability", "best_fit")) == ["capability: can_handle -> best_fit"]
    assert more(put("/model", "openai:x")) == ["model: the settings name it -> openai:x"]


def test_a_looser_version_is_of_high_risk_however_well_it_does(place: Workspace) -> None:
    prepared(place)
    patch = [*teaches(*ALL), {"op": "replace", "path": "/capability", "value": "best_fit"}]
    made = propose(place, "digest", patch, by="agent:queen", reason="why", tools=ToolRegistry())
    outcome = deploy(place, made.version)
    request = ApprovalStore(place).get(str(outcome.approval_id))
    assert (outcome.verdict.decision, request.risk, next(iter(request.context))) == ("passed", "high", "more")
    assert request.diff is not None
    assert request.diff.json_patch[0]["path"] == "/capability"


def test_a_refused_version_stays_refused(first: Workspace) -> None:
    outcome = deploy(first, proposed(first, *ALL))
    decisions.decide(first, str(outcome.approval_id), "reject", by="kim")
    with pytest.raises(HiveError, match="was refused"):
        deploy(first, 2)


def test_a_number_is_never_another_proposals(first: Workspace) -> None:
    """Its file may be gone while a request waits for it."""
    assert proposed(first, "ants") == 2
    (first.root / "agents/proposals/digest-v2.json").unlink()
    assert proposed(first, "bees") == 3


def test_proposals_stay_in_the_workspace(first: Workspace, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (first.root / "agents/proposals").symlink_to(elsewhere)
    with pytest.raises(HiveError, match="HIVE-114"):
        proposed(first, "ants")
    assert list(elsewhere.iterdir()) == []
