"""The optimizer graph on the sample workspace: real documents, real SQLite, real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.events import EventLog
from hive_agents.optimizer.run import OptimizeRun
from hive_agents.ranking.deployed import active_config, versions
from hive_agents.runs import RunStore, load_graph, pause, stop
from hive_agents.store import audit
from tests.graphs.optimizing import OPTIMIZE, holdout_ids, run, small, started_runs
from tests.sample import copied_sample, hive
from tests.topics import TOPICS, declare, in_wordings, query as topic_query


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, dict[str, Any]]:
    """A run that went to its end; tests look at what it left."""
    workspace = copied_sample(tmp_path_factory.mktemp("finished") / "w", every=3)
    return workspace, run(workspace, iterations=1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of a run that nobody kills."""
    result: dict[str, Any] = json.loads(
        json.dumps(run(copied_sample(tmp_path_factory.mktemp("undisturbed") / "w", every=3)))
    )
    return result


def without_ids(result: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in result.items()
        if key not in ("run_id", "evaluations_per_second", "approval_id", "report")
    }


def split_topics(train: int, validation: int, holdout: int) -> list[dict[str, Any]]:
    """The held-out topics in four wordings each: six are enough to prove something."""
    splits = ["train"] * train + ["validation"] * validation
    named = [topic_query(topic, split=split) for topic, split in zip(TOPICS, splits, strict=False)]
    return named + in_wordings(TOPICS[len(splits) :][:holdout], 4)


def test_the_graph_reads_like_its_diagram() -> None:
    drawn = load_graph("optimizer").get_graph()
    edges = {(edge.source, edge.target) for edge in drawn.edges}
    loop = [
        "__start__",
        "diagnose",
        "propose",
        "validate",
        "evaluate",
        "judge",
        "finish",
        "certify",
        "deploy",
        "__end__",
    ]
    assert edges >= set(pairwise(loop))
    assert {("judge", "diagnose"), ("finish", "__end__"), ("certify", "escalate")} <= edges
    assert {("escalate", "decide"), ("decide", "deploy"), ("decide", "decide"), ("decide", "__end__")} <= edges


def test_a_run_ends_with_a_certificate_and_a_decision(finished: tuple[Workspace, dict[str, Any]]) -> None:
    workspace, result = finished
    assert result["status"] in ("deployed", "escalated")
    certificate = result["certificate"]
    assert certificate["n"] == sum(1 for _ in holdout_ids(workspace))
    assert {"watch", "needed_queries", "measurable"} <= set(certificate)
    assert result["best"]["train"] > result["baseline"]["train"]
    assert (result["status"] == "deployed") == (certificate["decision"] == "passed")
    if result["status"] == "deployed":
        assert active_config(workspace).stored.name == result["best"]["config"]
        assert versions(workspace)[0].via == "optimize"
    else:
        assert result["approval_id"]


def test_one_lever_is_moved_and_readers_keep_what_they_had(finished: tuple[Workspace, dict[str, Any]]) -> None:
    _, result = finished
    (accepted,) = (row for row in result["iterations"] if row["verdict"] == "accept")
    assert [change["path"] for change in result["best"]["changes"]] == ["boosts.status"]
    assert accepted["config"] == result["best"]["config"]
    figures = result["readers"]
    assert set(figures) == {"answered", "recall", "first", "reach", "hidden"}
    assert figures["answered"][1] >= figures["answered"][0] - 0.05
    assert (figures["reach"], figures["hidden"]) == ([1.0, 1.0], 0)


def test_nothing_abstains_hides_or_ranks_by_people(finished: tuple[Workspace, dict[str, Any]]) -> None:
    _, result = finished
    paths = {change["path"] for row in result["iterations"] for change in row["changes"]}
    assert {path for path in paths if path.startswith(("boosts.", "filters.", "abstain"))} == {"boosts.status"}


def test_what_is_worse_on_the_holdout_ends_the_run_and_nobody_is_asked(tmp_path: Path) -> None:
    """On the open questions the FAQ misleads; on those held out it is what answers."""
    queries = split_topics(4, 0, 6)
    for entry in queries[4:]:
        entry |= {"relevant": entry["distractors"], "distractors": entry["relevant"]}
    workspace = small(tmp_path / "w", queries)
    result = run(workspace)
    assert (result["status"], result["stopped_by"], result["approval_id"]) == ("stopped", "blocked", None)
    assert result["certificate"]["decision"] == "blocked"
    assert not versions(workspace)
    again = hive("deploy", result["best"]["config"], "-w", workspace.root, "--json")
    assert (again.code, again.json["decision"]) == (1, "blocked")


def test_without_a_step_it_looks_once_at_what_the_owner_could_declare(tmp_path: Path) -> None:
    workspace = small(tmp_path / "w", split_topics(4, 0, 6))
    declare(workspace, category={"ranks": False})
    result = run(workspace, iterations=2)
    assert (result["status"], result["stopped_by"]) == ("no_improvement", "patience")
    assert "accept" not in {row["verdict"] for row in result["iterations"]}
    told = [row for row in result["iterations"] if row["verdict"] == "undeclared"]
    assert {(row["n"], row["config"]) for row in told} == {(2, None)}
    assert {change["path"] for row in told for change in row["changes"]} == {
        "boosts.category",
        "boosts.effective",
        "boosts.status",
        "filters.category",
        "filters.status",
    }
    # To keep guides alone would bring most, and no schema allows it.
    assert [(one["field"], one["step"], one["declare"]) for one in result["undeclared"]] == [
        ("category", "category: faqs × 0.3", {"ranks": True}),
        ("category", "category: guides × 2", {"ranks": True}),
        ("status", "status: draft × 0.3", {"ranks": True}),
    ]
    gains = [one["gain"] for one in result["undeclared"]]
    assert gains == pytest.approx([0.738, 0.738, 0.369], abs=1e-3)
    printed = " ".join(hive("optimize", "--resume", result["run_id"], "-w", workspace.root).out.split())
    assert '(+0.738 on the open queries) would take "ranks": true at category: hive fields' in printed


def test_accepted_ideas_are_files_with_their_changes_and_a_parent(finished: tuple[Workspace, dict[str, Any]]) -> None:
    workspace, result = finished
    named = [row for row in result["iterations"] if row["config"]]
    assert named
    for row in named:
        value = json.loads((workspace.configs / f"{row['config']}.json").read_text())
        assert value["description"] == row["step"]
        assert value["parent"]
    assert hive("validate", named[0]["config"], "-w", workspace.root, "--json").code == 0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_result(tmp_path: Path) -> None:
    first = without_ids(run(copied_sample(tmp_path / "a", every=3), deploy=False, seed=3))
    second = without_ids(run(copied_sample(tmp_path / "b", every=3), deploy=False, seed=3))
    assert json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


@pytest.mark.slow
def test_no_deploy_stops_after_the_certificate_and_each_run_uses_the_holdout_once(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w", every=3)
    result = run(workspace, deploy=False)
    assert (result["status"], result["stopped_by"]) == ("stopped", "no_deploy")
    assert result["certificate"]["j"] == 1
    assert active_config(workspace).stored.name == "v1-naive"
    assert len(list(audit.entries(workspace, "holdout_use"))) == 1
    assert run(workspace, deploy=False)["certificate"]["j"] == 2


def test_the_report_is_one_file_that_fetches_nothing(finished: tuple[Workspace, dict[str, Any]]) -> None:
    workspace, result = finished
    page = (workspace.root / result["report"]).read_text(encoding="utf-8")
    assert result["best"]["config"] in page
    assert not re.search(r"<(script|link|img|iframe)|url\(|https?://", page)
    golden = json.loads((workspace.root / "evals" / "golden.json").read_text())
    shown = {query["split"] for query in golden["queries"] if f"<td>{query['id']}</td>" in page}
    assert shown == {"train", "validation"}


def test_too_few_queries_are_optimized_on_and_certify_nothing(tmp_path: Path) -> None:
    workspace = small(tmp_path / "w")
    result = run(workspace)
    assert result["certificate"] is None
    assert (result["status"], result["stopped_by"]) == ("stopped", "too_few_queries")
    assert not versions(workspace)


def test_a_spent_budget_ends_the_search_and_is_named(tmp_path: Path) -> None:
    result = run(small(tmp_path / "w", split_topics(2, 2, 6)), evaluations=30, iterations=50)
    assert 0 < result["evaluations"] <= 30
    assert result["stopped_by"] == "evaluations"
    assert result["status"] in ("deployed", "escalated", "no_improvement")


def test_few_evaluations_are_left_in_part_to_try_what_was_found(tmp_path: Path) -> None:
    result = run(small(tmp_path / "w", split_topics(2, 2, 6)), evaluations=60, iterations=50)
    assert result["iterations"]
    assert all(row["train"] is not None for row in result["iterations"] if row["verdict"] != "invalid")
    assert result["evaluations"] <= 60


@pytest.mark.slow
def test_nothing_better_is_no_improvement_after_an_honest_search(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w", every=3)
    path = workspace.root / "evals" / "golden.json"
    golden = json.loads(path.read_text())
    for query in golden["queries"]:
        query |= {"relevant": [], "distractors": [], "irrelevant": []}
    path.write_text(json.dumps(golden))
    silent = {"name": "silent", "collection": "knowledge-base", "retrieval": {"method": "hybrid", "top_k": 1}}
    (workspace.configs / "silent.json").write_text(json.dumps(silent | {"abstain": {"min_cosine": 1.0}}))
    lost = ("--accept", "reach", "--accept", "hidden", "--reason", "nothing answers here")
    assert hive("deploy", "silent", "--allow-inconclusive", *lost, "-w", workspace.root).code == 0
    result = run(workspace)
    assert result["status"] == "no_improvement"
    assert result["evaluations"] >= 64
    assert result["best"]["config"] == result["baseline"]["config"] == "silent"
    assert result["certificate"] is None


def test_a_finished_run_gives_its_result_again(finished: tuple[Workspace, dict[str, Any]]) -> None:
    workspace, first = finished
    assert OptimizeRun.resume(workspace, first["run_id"]).go() == json.loads(json.dumps(first))


def told(workspace: Workspace, run_id: str) -> list[str]:
    """What the log says of how the run stood, in order."""
    return [event.type for event in EventLog(workspace).replay(run_id=run_id) if event.type.startswith("run.")]


def test_a_queued_run_that_is_stopped_at_work_is_asked_to_and_goes_on_later(tmp_path: Path) -> None:
    workspace = small(tmp_path / "w")
    run_id = OptimizeRun.start(workspace, golden=None, deploy=True, settings={"iterations": 1}).run_id
    RunStore(workspace).update(run_id, "queued")
    worker, asked = OptimizeRun.resume(workspace, run_id), []

    def stop_it(_: dict[str, Any]) -> None:
        asked.append(stop(workspace, run_id, "user:dana"))
        pause(workspace, run_id, "service:queen")
        worker.drain()

    worker.on_update = stop_it
    worker.go()
    assert [(row.status, row.control) for row in asked] == [("running", "stop")]
    row = RunStore(workspace).get(run_id)
    assert (row.status, row.summary["stopped_by"]) == ("stopped", "user:dana")
    assert told(workspace, run_id) == ["run.started", "run.stopped"]
    with pytest.raises(HiveError, match="just now"):
        OptimizeRun(workspace, replace(row, status="queued")).go()  # as a host saw it a moment ago
    assert not versions(workspace)

    result = OptimizeRun.resume(workspace, run_id).go()
    waits = result["status"] == "escalated"
    assert RunStore(workspace).get(run_id).status == ("waiting" if waits else "done")
    end = "run.waiting" if waits else "run.completed"
    assert told(workspace, run_id) == ["run.started", "run.stopped", "run.resumed", end]


def test_a_run_that_breaks_off_waits_for_another_worker(tmp_path: Path) -> None:
    workspace = small(tmp_path / "w")
    run_id = OptimizeRun.start(workspace, golden=None, deploy=True, settings={"iterations": 1}).run_id
    golden = workspace.root / "evals" / "golden.json"
    text = golden.read_text()
    golden.write_text("{")
    with pytest.raises(HiveError):
        OptimizeRun.resume(workspace, run_id).go()
    row = RunStore(workspace).get(run_id)
    assert row.status == "queued"
    assert row.summary["error"]["code"].startswith("HIVE-")
    golden.write_text(text)
    OptimizeRun.resume(workspace, run_id).go()
    assert told(workspace, run_id)[:2] == ["run.started", "run.queued"]


def kill_and_resume(workspace: Workspace, after: float) -> dict[str, Any]:
    """Start `hive optimize` in a process, kill it, resume it here."""
    command = [*OPTIMIZE, "-w", str(workspace.root), "--iterations", "2", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not started_runs(workspace) and process.poll() is None:
        time.sleep(0.02)
    with suppress(subprocess.TimeoutExpired):  # it may be done before
        process.wait(after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    runs = started_runs(workspace)
    assert len(runs) == 1
    resumed = hive("optimize", "--resume", runs[0], "-w", workspace.root, "--json")
    assert resumed.code in (0, 1), resumed.out
    result: dict[str, Any] = resumed.json
    return result


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.3, *(n * 0.25 for n in range(20))])
def test_a_killed_run_is_resumed_and_does_nothing_twice(
    tmp_path: Path, after: float, undisturbed: dict[str, Any]
) -> None:
    workspace = copied_sample(tmp_path / "w", every=3)
    result = kill_and_resume(workspace, after)
    assert result["status"] in ("deployed", "escalated", "no_improvement")
    assert len(list(audit.entries(workspace, "holdout_use"))) <= 1
    assert len([version for version in versions(workspace) if version.via == "optimize"]) <= 1
    for key in ("status", "best", "certificate", "iterations"):
        assert result[key] == undisturbed[key], key


def checkpoints(workspace: Workspace) -> int:
    """How many states of runs were saved."""
    with closing(sqlite3.connect(f"{(workspace.state / 'checkpoints.db').as_uri()}?mode=ro", uri=True)) as connection:
        found: int = connection.execute("SELECT count(*) FROM checkpoints").fetchone()[0]
    return found


@pytest.mark.slow
def test_ctrl_c_prints_what_was_found(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w", every=3)
    command = [*OPTIMIZE, "-w", str(workspace.root), "--json"]
    # A shell's background jobs ignore Ctrl-C, and so would their children.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ), preexec_fn=heed
    )
    # A step that is interrupted has found nothing yet: one that follows says that the first has ended.
    while not list(workspace.configs.glob("v2.json")) and process.poll() is None:
        time.sleep(0.02)
    before = checkpoints(workspace)
    while checkpoints(workspace) == before and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    result = json.loads(out)
    assert (result["status"], result["stopped_by"]) == ("stopped", "interrupted")
    assert result["best"]["config"] != "v1-naive"
    assert b"Traceback" not in err
