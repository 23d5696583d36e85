"""Versions of agents: what serves, who has to agree, how it goes back, and what a crash leaves."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import AgentSpec, ToolRegistry
from hive_agents.agents.deployed import (
    deployment_warnings,
    find_sub_agent,
    known_agents,
    roll_back,
    serving_agent,
    versions,
)
from hive_agents.agents.evolution.proposals import find_proposal, propose
from hive_agents.agents.evolution.texts import agent_hash
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.events import EventLog, EventType
from hive_agents.host import decisions
from hive_agents.store import audit, connected
from hive_agents.store.ledger import Ledger
from tests.agents.conftest import write_json
from tests.agents.evolving import (
    ALL,
    agent_file,
    approve,
    deploy,
    goal_file,
    knows,
    models,
    prepared,
    prompt,
    proposed,
    served,
)
from tests.records import log_lines, rewrite_log


@pytest.fixture
def first(place: Workspace) -> Workspace:
    """Version 1 serves; it knows nothing."""
    return served(place)


def test_an_edited_file_changes_nothing_until_it_is_deployed(first: Workspace) -> None:
    assert deployment_warnings(first, "digest") == []
    write_json(first, "agents/digest.json", agent_file("ants"))
    run = AgentRun.start(first, "digest", {"topic": "ants"}, tools=ToolRegistry(), models=models(AgentSpec))  # type: ignore[arg-type]
    assert run.go()["outputs"] == {"text": "I don't know"}
    (warning,) = deployment_warnings(first, "digest")
    assert (warning.code, warning.severity, warning.file) == ("HIVE-404", "warning", "agents/digest.json")


def test_a_prompts_file_is_part_of_what_was_deployed(place: Workspace) -> None:
    """A prompt that looks like another file's name stays the text that it is, and names come back when the file
    follows an approved version."""
    for name, text in (("a", knows()), ("b", "prompts/c.md"), ("c", "Never read.")):
        (place.root / "prompts").mkdir(exist_ok=True)
        (place.root / "prompts" / f"{name}.md").write_text(text)
    changes = {"node": {"system_prompt": "prompts/a.md"}, "identity": "prompts/b.md"}
    prepared(place, **changes)
    write_json(place, "goals/digest.json", goal_file(eval_cases=[]))
    assert [one["code"] for one in deploy(place).verdict.reasons] == ["HIVE-306"]
    spec = serving_agent(place, "digest")[0]
    assert (spec.identity.strip(), prompt(place)) == ("prompts/c.md", knows())
    made = propose(place, "digest", {"mode": "isolated"}, by="dana", reason="why", tools=ToolRegistry())
    assert approve(place, deploy(place, made.version).approval_id) == "approved"
    written = json.loads((place.root / "agents/digest.json").read_text())
    assert (written["mode"], written["nodes"][0]["system_prompt"], written["version"]) == (
        "isolated",
        "prompts/a.md",
        2,
    )
    assert deployment_warnings(place, "digest") == []
    (place.root / "prompts" / "a.md").write_text(knows("ants"))
    assert prompt(place) == knows()
    assert [one.code for one in deployment_warnings(place, "digest")] == ["HIVE-404"]


def test_a_version_goes_from_proposal_to_approval_to_service(first: Workspace) -> None:
    number = proposed(first, *ALL)
    assert (number, proposed(first, *ALL)) == (2, 2)
    assert find_proposal(first, "digest", 2).by == "user:dana"
    outcome = deploy(first, 2)
    assert (outcome.verdict.decision, outcome.deployed, outcome.previous) == ("passed", None, 1)
    figures = outcome.verdict.evaluation
    assert (figures["n"], figures["wins"], figures["losses"], figures["p_value"]) == (3, 3, 0, 1 / 8)
    assert deploy(first, 2).approval_id == outcome.approval_id
    request = ApprovalStore(first).get(str(outcome.approval_id))
    assert (request.kind, request.risk, request.requester, request.approvers.exclude_requester) == (
        "deploy", "medium", "user:dana", True,
    )  # fmt: skip
    assert request.diff is not None
    assert [step["path"] for step in request.diff.json_patch] == ["/nodes/0/system_prompt"]
    with pytest.raises(HiveError, match="asked for"):
        approve(first, outcome.approval_id, by="Dana")
    assert prompt(first) == knows()
    assert approve(first, outcome.approval_id) == "approved"
    assert prompt(first) == knows(*ALL)
    newest, _ = versions(first, "digest")
    assert (newest.version, newest.by, newest.via, newest.decision) == (2, "user:kim", "approval", "passed")
    assert ApprovalStore(first).get(request.id).outcome == {"deployed": "version 2 of digest", "version": 2}
    decisions.carry_out(first, request)
    assert len(versions(first, "digest")) == 2


def test_an_agent_that_was_never_deployed_is_no_way_around_approval(place: Workspace) -> None:
    """What the file says is the version that a rollback goes back to."""
    prepared(place)
    outcome = deploy(place, proposed(place, *ALL, by="agent:queen"))
    assert (outcome.verdict.decision, outcome.deployed) == ("passed", None)
    assert approve(place, outcome.approval_id, by="dana") == "approved"
    assert [row.version for row in versions(place, "digest")] == [2, 1]
    roll_back(place, "digest", "user:dana")
    assert prompt(place) == knows()


def test_rollback_goes_back_one_version_each_time(first: Workspace) -> None:
    for topics in (ALL[:2], ALL):
        assert approve(first, deploy(first, proposed(first, *topics)).approval_id) == "approved"
    told = []
    for _ in range(2):
        row, before = roll_back(first, "digest", "user:dana", reason="worse")
        told.append((before.version, row.version, row.via, prompt(first)))
    assert told == [(3, 2, "rollback", knows(*ALL[:2])), (2, 1, "rollback", knows())]
    with pytest.raises(HiveError, match="no earlier version") as caught:
        roll_back(first, "digest", "user:dana")
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-412", 1)
    assert deployment_warnings(first, "digest") == []
    assert proposed(first, "ants") == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda place: write_json(place, "goals/digest.json", goal_file(description="other")),
        lambda place: approve(place, deploy(place, proposed(place, *ALL[:2])).approval_id),
        lambda place: next((place.root / "agents/proposals").iterdir()).unlink(),
    ],
)
def test_what_was_measured_has_to_be_what_is_there(first: Workspace, change: Any) -> None:
    outcome = deploy(first, proposed(first, *ALL))
    change(first)
    before = agent_hash(serving_agent(first, "digest")[0])
    with pytest.raises(HiveError) as caught:
        approve(first, outcome.approval_id)
    assert caught.value.diagnostics[0].code == "HIVE-307"
    assert "hive agents deploy digest --version 2" in str(caught.value.diagnostics[0].fix)
    assert ApprovalStore(first).get(str(outcome.approval_id)).status == "superseded"
    assert agent_hash(serving_agent(first, "digest")[0]) == before


@pytest.mark.parametrize(
    "moment",
    [
        "after the line",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("before the row", "before the line", "before the file")),
    ],
)
def test_a_deployment_that_dies_is_finished_by_the_next(
    first: Workspace, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """At each moment either the old version serves or the new one, and once the work is done again, all records
    agree."""
    from hive_agents.agents import deployed as module

    outcome = deploy(first, proposed(first, *ALL))
    append, write, follow = audit.append, Ledger._write, module.follow

    def die(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    def logged_then_die(place: Workspace, kind: str, **given: Any) -> Any:
        if kind != module.VERSIONS.kind:
            return append(place, kind, **given)
        if moment == "after the line":
            append(place, kind, **given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if moment == "before the row":
            patch.setattr(Ledger, "_write", die)
        elif moment == "before the file":
            patch.setattr(module, "follow", die)
        else:
            patch.setattr(audit, "append", logged_then_die)
        with pytest.raises(KeyboardInterrupt):
            approve(first, outcome.approval_id)
    assert (Ledger._write, module.follow) == (write, follow)
    assert prompt(first) == (knows(*ALL) if moment in ("after the line", "before the file") else knows())
    assert decisions.finish(first) == []
    assert prompt(first) == knows(*ALL)
    assert [row.version for row in versions(first, "digest")] == [2, 1]
    assert deployment_warnings(first, "digest") == []
    assert audit.verify(first).ok
    with connected(first.records) as connection:
        assert [row[0] for row in connection.execute("SELECT version FROM agent_versions ORDER BY id")] == [1, 2]


def test_the_audit_log_says_what_serves(first: Workspace) -> None:
    """A row that was edited or lost is restored, one that nobody logged serves nobody, a broken line doesn't count."""
    assert approve(first, deploy(first, proposed(first, *ALL)).approval_id) == "approved"
    with connected(first.records) as connection:
        connection.execute("UPDATE agent_versions SET text = replace(text, 'lice', 'mice') WHERE version = 2")
        connection.execute("DELETE FROM agent_versions WHERE version = 1")
    assert prompt(first) == knows(*ALL)
    with connected(first.records) as connection:
        texts = [row[0] for row in connection.execute("SELECT text FROM agent_versions ORDER BY id")]
        assert ["mice" in text for text in texts] == [False, False]
        connection.execute(
            "INSERT INTO agent_versions (id, agent, version, hash, text, at, by, authn, decision, via, evaluation)"
            " SELECT id + 10, agent, 9, hash, text, at, by, authn, decision, via, evaluation FROM agent_versions"
        )
    assert serving_agent(first, "digest")[0].version == 2
    assert [one.code for one in deployment_warnings(first, "digest")] == ["HIVE-413"]
    rewrite_log(first, [line.replace('"version": 2', '"version": 3') for line in log_lines(first)])
    assert serving_agent(first, "digest")[0].version == 1
    rewrite_log(first, [])
    with pytest.raises(HiveError) as caught:
        serving_agent(first, "digest")
    assert caught.value.diagnostics[0].code == "HIVE-413"


def _edit(place: Workspace) -> None:
    rewrite_log(place, [line.replace("user:dana", "user:dora") for line in log_lines(place)])


def _relabel(place: Workspace) -> None:
    rewrite_log(place, [line.replace('"agent": "digest"', '"agent": "other"') for line in log_lines(place)])


def _remove(place: Workspace) -> None:
    rewrite_log(place, [])


@pytest.mark.parametrize("broken", [_edit, _relabel, _remove])
@pytest.mark.parametrize("rows", ["DELETE FROM agent_versions", pytest.param(None, marks=pytest.mark.sqlite_file)])
def test_where_the_log_is_broken_and_the_rows_are_gone_no_file_serves(
    first: Workspace, broken: Any, rows: str | None
) -> None:
    write_json(first, "agents/digest.json", agent_file("ants"))
    if rows is None:
        first.database.unlink()
    else:
        with connected(first.records) as connection:
            connection.execute(rows)
    broken(first)
    for asked in (serving_agent, versions, deployment_warnings):
        with pytest.raises(HiveError) as caught:
            asked(first, "digest")
        assert caught.value.diagnostics[0].code == "HIVE-413"


def test_a_line_after_the_break_counts_for_nothing_whatever_its_number(first: Workspace) -> None:
    """Forged at the end of a log that was sound, with the number of a line before."""
    line = json.loads(log_lines(first)[-1])
    forged = line | {"seq": 1, "row": 9, "version": 9, "text": line["text"].replace("You know", "You invent")}
    rewrite_log(first, [*log_lines(first), json.dumps(forged)])
    assert (versions(first, "digest")[0].version, prompt(first)) == (1, knows())


@pytest.mark.parametrize("line", ["[]", '{"seq": 9, "kind": "agent_version", "digest": "x"}'])
def test_a_damaged_line_takes_nothing_from_those_before_it(first: Workspace, line: str) -> None:
    rewrite_log(first, [*log_lines(first), line])
    assert (known_agents(first), prompt(first)) == (["digest"], knows())
    with pytest.raises(HiveError, match="HIVE-413"):
        roll_back(first, "digest", "user:dana")


def test_deployments_and_rollbacks_are_told_as_they_are_made(first: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the transaction of the row: without it there is no event either."""
    from hive_agents.agents import deployed as module

    request = deploy(first, proposed(first, *ALL)).approval_id
    with monkeypatch.context() as patch:
        patch.setattr(audit, "append", _dies)
        with pytest.raises(KeyboardInterrupt):
            module.record(
                first, serving_agent(first, "digest")[0], decision="first", via="deploy", by="x", evaluation={}
            )
    assert approve(first, request) == "approved"
    roll_back(first, "digest", "user:dana")
    types = [EventType.CONFIG_DEPLOYED, EventType.CONFIG_ROLLED_BACK]
    with closing(EventLog(first)) as log:
        told = [(event.type, event.payload) for event in log.replay(types=types)]
    names = ("agent", "version", "by", "decision", "via")
    assert told == [
        (types[0], dict(zip(names, ("digest", 1, "user:dana", "first", "deploy"), strict=True))),
        (types[0], dict(zip(names, ("digest", 2, "user:kim", "passed", "approval"), strict=True))),
        (types[1], dict(zip(names, ("digest", 1, "user:dana", "rollback", "rollback"), strict=True))),
    ]


def _dies(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_a_sub_agent_whose_file_is_gone_serves_as_it_was_deployed(first: Workspace) -> None:
    (first.root / "agents/digest.json").unlink()
    parent = AgentSpec.model_validate(agent_file() | {"id": "parent"})
    assert find_sub_agent(first, parent, "digest").version == 1


def test_a_file_that_is_gone_is_written_again(first: Workspace) -> None:
    path: Path = first.root / "agents/digest.json"
    path.unlink()
    assert prompt(first) == knows()
    assert approve(first, deploy(first, proposed(first, *ALL)).approval_id) == "approved"
    assert json.loads(path.read_text())["version"] == 2
