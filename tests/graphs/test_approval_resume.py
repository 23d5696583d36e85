"""A run that waits for a person: killed, decided in another process, resumed there, deployed once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.host.decisions import finish
from hive_agents.optimizer.run import OptimizeRun
from hive_agents.ranking.deployed import active_config, versions
from hive_agents.runs import RunStore
from hive_agents.store import audit
from tests.sample import copied_sample, hive, write_config

SETTINGS = '[approvals]\non_timeout = "reject"\n[gate]\nalpha = 0.0001\n'
"""With which nothing is proved, so that a person is asked."""
CHECKOUT = Path(__file__).parents[2]

KILLED = """
import os, signal, sys
from hive_agents import Workspace
from hive_agents.approvals import store
from hive_agents.host import decisions
from hive_agents.gate import approved, deploy

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

where, place, request = sys.argv[1], Workspace(sys.argv[2]), sys.argv[3]
if where == "before the row":
    store.rows.update = die
elif where == "before the deployment":
    decisions.carry_out = die
elif where == "before the switch":
    approved.switch = die
elif where == "before the outcome":
    store.ApprovalStore.record_outcome = die
decisions.decide(place, request, "approve", by="dana")
"""
PLACES = ["before the row", "before the deployment", "before the switch", "before the outcome"]
EVERYDAY = [("before the deployment", False), ("before the outcome", True)]
OTHERS = [(where, override) for where in PLACES for override in (False, True) if (where, override) not in EVERYDAY]


@pytest.fixture(scope="module")
def waiting_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that waits for a person, made by a process that was killed as soon as it did."""
    workspace = copied_sample(tmp_path_factory.mktemp("waiting") / "w")
    with (workspace.root / "hive.toml").open("a") as settings:
        settings.write(SETTINGS)
    command = [sys.executable, "-m", "hive_agents", "optimize", "-w", str(workspace.root), "--iterations", "1"]
    with (workspace.root.parent / "told").open("w+") as told:
        process = subprocess.Popen([*command, "--json"], stdout=told, cwd=CHECKOUT)
        while not pending(workspace) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        told.seek(0)
        assert pending(workspace), f"it ended with {process.returncode}: {told.read()}"
    return workspace.root


@pytest.fixture
def waiting(waiting_once: Path, tmp_path: Path) -> tuple[Workspace, str, str]:
    """(workspace, run, request), as a new process finds them."""
    shutil.copytree(waiting_once, tmp_path / "w", symlinks=True)
    workspace = Workspace(tmp_path / "w")
    (request,) = pending(workspace)
    return workspace, str(request.run_id), request.id


def pending(workspace: Workspace) -> list[Any]:
    return ApprovalStore(workspace).list("pending") if workspace.database.exists() else []


def approvals(workspace: Workspace, *arguments: object) -> Any:
    return hive("approvals", *arguments, "-w", workspace.root, "--json")


def deployments(workspace: Workspace) -> list[tuple[str, str]]:
    return [(version.via, version.by) for version in versions(workspace) if version.via != "deploy"]


@pytest.mark.slow
def test_a_killed_run_still_waits(waiting: tuple[Workspace, str, str]) -> None:
    workspace, run, request = waiting
    again = hive("optimize", "--resume", run, "-w", workspace.root, "--json")
    assert (again.code, again.json["status"], again.json["approval_id"]) == (1, "escalated", request)
    assert RunStore(workspace).get(run).status == "waiting"
    assert hive("optimize", "--resume", run, "-w", workspace.root, "--json").json == again.json
    assert len(ApprovalStore(workspace).list()) == 1
    assert deployments(workspace) == []


def test_another_process_approves_and_the_run_goes_on_and_deploys(waiting: tuple[Workspace, str, str]) -> None:
    workspace, run, request = waiting
    best = ApprovalStore(workspace).get(request).context["config"]
    decided = approvals(workspace, "approve", request, "--as", "dana", "--reason", "looks right")
    assert decided.code == 0, decided.out
    assert decided.json["run"] == {"run_id": run, "status": "done"}
    assert active_config(workspace).stored.name == best
    assert deployments(workspace) == [("approval", "user:dana")]
    assert versions(workspace)[0].reason == "looks right"
    after = hive("optimize", "--resume", run, "-w", workspace.root, "--json")
    assert (after.code, after.json["status"]) == (0, "deployed")
    assert approvals(workspace, "approve", request, "--as", "dana").code == 0
    assert deployments(workspace) == [("approval", "user:dana")]
    assert audit.verify(workspace).ok


@pytest.mark.slow
def test_resuming_a_run_approves_nothing(waiting: tuple[Workspace, str, str]) -> None:
    from langgraph.types import Command

    from hive_agents.optimizer import OptimizerContext
    from hive_agents.runs import load_graph
    from hive_agents.runs.checkpoints import checkpointer

    workspace, run, request = waiting
    hive("optimize", "--resume", run, "-w", workspace.root, "--json")
    config: Any = {"configurable": {"thread_id": RunStore(workspace).get(run).thread_id}}
    with checkpointer(workspace) as saver:
        graph = load_graph("optimizer", saver)
        graph.invoke(Command(resume={"status": "approved"}), config, context=OptimizerContext(str(workspace.root)))
        assert graph.get_state(config).interrupts
    assert deployments(workspace) == []
    assert approvals(workspace, "approve", request, "--as", "dana").json["run"]["status"] == "done"
    assert len(deployments(workspace)) == 1


@pytest.mark.slow
def test_a_rejected_request_ends_its_run(waiting: tuple[Workspace, str, str]) -> None:
    workspace, run, request = waiting
    assert approvals(workspace, "reject", request, "--as", "dana").json["status"] == "rejected"
    after = hive("optimize", "--resume", run, "-w", workspace.root, "--json").json
    assert (after["status"], after["stopped_by"]) == ("stopped", "rejected")
    assert deployments(workspace) == []


@pytest.mark.slow
def test_an_expired_request_ends_its_run_and_deploys_nothing(waiting: tuple[Workspace, str, str]) -> None:
    workspace, run, request = waiting
    ApprovalStore(workspace, now=lambda: "2100-01-01T00:00:00+00:00").sweep()
    refused = approvals(workspace, "approve", request, "--as", "dana")
    assert (refused.code, refused.codes) == (1, {"HIVE-414"})
    (listed,) = approvals(workspace, "list").json["items"]
    assert listed["status"] == "expired"
    assert OptimizeRun.resume(workspace, run).go()["stopped_by"] == "expired"
    assert deployments(workspace) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "overtaken", ["golden", *(pytest.param(what, marks=pytest.mark.slow) for what in ("config", "active", "documents"))]
)
def test_figures_that_hold_no_more_are_not_deployed(waiting: tuple[Workspace, str, str], overtaken: str) -> None:
    workspace, run, request = waiting
    overtake(workspace, ApprovalStore(workspace).get(request).context["file"], overtaken)
    before = len(versions(workspace))
    refused = approvals(workspace, "approve", request, "--as", "dana")
    assert (refused.code, refused.codes) == (1, {"HIVE-307"})
    assert "measure again" in refused.json["diagnostics"][0]["fix"]
    assert ApprovalStore(workspace).get(request).status == "superseded"
    assert approvals(workspace, "approve", request, "--as", "dana").codes == {"HIVE-414"}
    assert OptimizeRun.resume(workspace, run).go()["stopped_by"] == "superseded"
    assert len(versions(workspace)) == before


def overtake(workspace: Workspace, file: str, what: str) -> None:
    if what == "config":
        path = workspace.root / file
        path.write_text(json.dumps(json.loads(path.read_text()) | {"retrieval": {"method": "keyword", "top_k": 3}}))
    elif what == "golden":
        path = workspace.root / "evals" / "golden.json"
        golden = json.loads(path.read_text())
        path.write_text(json.dumps(golden | {"queries": golden["queries"][1:]}))
    elif what == "active":
        write_config(workspace, "other")
        assert hive("deploy", "other", "--allow-inconclusive", "-w", workspace.root).code == 0
    else:
        (workspace.documents / "faqs" / "new.md").write_text("# New\n\nA page that nobody measured.\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "override"), [*EVERYDAY, *(pytest.param(*one, marks=pytest.mark.slow) for one in OTHERS)]
)
def test_killed_while_approving_the_next_command_finishes_once(
    waiting: tuple[Workspace, str, str], where: str, override: bool
) -> None:
    workspace, _, request = waiting
    if override:
        write_config(workspace, "same")
        asked = hive("deploy", "same", "--override", "--reason", "we know", "-w", workspace.root, "--json")
        request = asked.json["approval_id"]
    command = [sys.executable, "-c", KILLED, where, str(workspace.root), request]
    killed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, check=False, env=dict(os.environ))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if override:
        assert finish(workspace) == []
    else:
        assert approvals(workspace, "approve", request, "--as", "dana").code == 0
    assert deployments(workspace) == [("override" if override else "approval", "user:dana")]
    found = ApprovalStore(workspace).get(request)
    assert (found.status, len(found.decisions), bool(found.outcome)) == ("approved", 1, True)
    assert audit.verify(workspace).ok
    finish(workspace)
    assert len(deployments(workspace)) == 1


@pytest.mark.slow
def test_two_processes_that_resume_at_once_deploy_once(waiting: tuple[Workspace, str, str]) -> None:
    workspace, run, request = waiting
    ApprovalStore(workspace).decide(request, "approve", by="dana")
    resume = [sys.executable, "-m", "hive_agents", "optimize", "--resume", run, "-w", str(workspace.root), "--json"]
    both = [subprocess.Popen(resume, stdout=subprocess.PIPE, cwd=CHECKOUT) for _ in range(2)]
    results = [json.loads(one.communicate()[0]) for one in both]
    assert [one["status"] for one in results] == ["deployed", "deployed"]
    assert len(deployments(workspace)) == 1


def test_a_request_altered_in_the_database_deploys_nothing(waiting: tuple[Workspace, str, str]) -> None:
    from hive_agents.store.database import connect

    workspace, run, request = waiting
    connection = connect(workspace.database)
    connection.execute("UPDATE approvals SET status = 'approved'")
    connection.close()
    with pytest.raises(HiveError, match="HIVE-413"):
        OptimizeRun.resume(workspace, run).go()
    assert approvals(workspace, "approve", request, "--as", "dana").code == 1
    approvals(workspace, "list")
    assert deployments(workspace) == []
