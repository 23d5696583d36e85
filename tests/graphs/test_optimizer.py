"""The optimizer graph on the sample workspace: real documents, real SQLite, real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace, audit
from hive_agents.retrieval.deployed import active_config, versions
from hive_agents.runtime.graphs import load_graph
from hive_agents.runtime.optimize import OptimizeRun
from tests.llm.bedrock_server import DENIED, bedrock_server
from tests.llm.environment import point_aws_at
from tests.sample import copied_sample, hive
from tests.topics import TOPICS, activate, make_topics, write_golden
from tests.topics import query as topic_query

OPTIMIZE = [sys.executable, "-m", "hive_agents", "optimize"]
QUICK: dict[str, Any] = {"iterations": 2, "seconds": 30.0}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, dict[str, Any]]:
    """A run that went to its end; tests look at what it left."""
    workspace = copied_sample(tmp_path_factory.mktemp("finished") / "w")
    return workspace, run(workspace)


def run(workspace: Workspace, *, deploy: bool = True, **settings: Any) -> dict[str, Any]:
    return OptimizeRun.start(workspace, golden=None, deploy=deploy, settings=QUICK | settings).go()


def without_ids(result: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in result.items()
        if key not in ("run_id", "evaluations_per_second", "approval_id", "report")
    }


def shorten_golden(workspace: Workspace, keep: int) -> None:
    path = workspace.root / "evals" / "golden.json"
    golden = json.loads(path.read_text())
    golden["queries"] = [{**query, "split": None} for query in golden["queries"][:keep]]
    for query in golden["queries"]:
        del query["split"]
    path.write_text(json.dumps(golden))


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
    assert result["best"]["train"] > result["baseline"]["train"]
    assert (result["status"] == "deployed") == (certificate["decision"] == "passed")
    if result["status"] == "deployed":
        assert active_config(workspace).stored.name == result["best"]["config"]
        assert versions(workspace)[0].via == "optimize"
    else:
        assert result["approval_id"]


def holdout_ids(workspace: Workspace) -> set[str]:
    golden = json.loads((workspace.root / "evals" / "golden.json").read_text())
    return {query["id"] for query in golden["queries"] if query["split"] == "holdout"}


def test_accepted_ideas_are_files_with_a_reason_and_a_parent(finished: tuple[Workspace, dict[str, Any]]) -> None:
    workspace, result = finished
    named = [row for row in result["iterations"] if row["config"]]
    assert named
    for row in named:
        value = json.loads((workspace.configs / f"{row['config']}.json").read_text())
        assert value["description"] == row["reason"]
        assert value["parent"]
    assert hive("validate", named[0]["config"], "-w", workspace.root, "--json").code == 0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_result(tmp_path: Path) -> None:
    first = without_ids(run(copied_sample(tmp_path / "a"), deploy=False, seed=3))
    second = without_ids(run(copied_sample(tmp_path / "b"), deploy=False, seed=3))
    assert json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


@pytest.mark.slow
def test_no_deploy_stops_after_the_certificate_and_each_run_uses_the_holdout_once(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
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
    workspace = copied_sample(tmp_path / "w")
    shorten_golden(workspace, 12)
    result = run(workspace)
    assert result["certificate"] is None
    assert result["status"] in ("stopped", "no_improvement")
    if result["status"] == "stopped":
        assert result["stopped_by"] == "too_few_queries"
    assert not versions(workspace)


def test_a_spent_budget_ends_the_search_and_is_named(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
    result = run(workspace, evaluations=150, iterations=50)
    assert result["evaluations"] <= 150
    assert result["stopped_by"] == "evaluations"
    assert result["status"] in ("deployed", "escalated", "no_improvement")


@pytest.mark.slow
def test_nothing_better_is_no_improvement_after_an_honest_search(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
    path = workspace.root / "evals" / "golden.json"
    golden = json.loads(path.read_text())
    for query in golden["queries"]:
        query |= {"relevant": [], "distractors": [], "irrelevant": []}
    path.write_text(json.dumps(golden))
    silent = {"name": "silent", "collection": "knowledge-base", "retrieval": {"method": "hybrid", "top_k": 1}}
    (workspace.configs / "silent.json").write_text(json.dumps(silent | {"abstain": {"min_cosine": 1.0}}))
    assert hive("deploy", "silent", "--allow-inconclusive", "-w", workspace.root).code == 0
    result = run(workspace)
    assert result["status"] == "no_improvement"
    assert result["evaluations"] >= 64
    assert result["best"]["config"] == result["baseline"]["config"] == "silent"
    assert result["certificate"] is None


def test_a_finished_run_gives_its_result_again(finished: tuple[Workspace, dict[str, Any]]) -> None:
    workspace, first = finished
    assert OptimizeRun.resume(workspace, first["run_id"]).go() == json.loads(json.dumps(first))


def kill_and_resume(workspace: Workspace, after: float) -> dict[str, Any]:
    """Start `hive optimize` in a process, kill it, resume it here."""
    command = [*OPTIMIZE, "-w", str(workspace.root), "--iterations", "2", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not started_runs(workspace) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    runs = started_runs(workspace)
    assert len(runs) == 1
    resumed = hive("optimize", "--resume", runs[0], "-w", workspace.root, "--json")
    assert resumed.code in (0, 1), resumed.out
    result: dict[str, Any] = resumed.json
    return result


def started_runs(workspace: Workspace) -> list[str]:
    from hive_agents.database import connect

    connection = connect(workspace.database)
    try:
        return [row[0] for row in connection.execute("SELECT run_id FROM runs")]
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.3, *(n * 0.25 for n in range(20))])
def test_a_killed_run_is_resumed_and_does_nothing_twice(tmp_path: Path, after: float) -> None:
    workspace = copied_sample(tmp_path / "w")
    result = kill_and_resume(workspace, after)
    assert result["status"] in ("deployed", "escalated", "no_improvement")
    assert len(list(audit.entries(workspace, "holdout_use"))) <= 1
    assert len([version for version in versions(workspace) if version.via == "optimize"]) <= 1
    expected = run(copied_sample(tmp_path / "again"))
    for key in ("status", "best", "certificate", "iterations"):
        assert result[key] == json.loads(json.dumps(expected[key])), key


@pytest.mark.slow
def test_ctrl_c_prints_what_was_found(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
    command = [*OPTIMIZE, "-w", str(workspace.root), "--iterations", "200", "--patience", "100", "--json"]
    # A shell's background jobs ignore Ctrl-C, and so would their children.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ), preexec_fn=heed
    )
    deadline = time.monotonic() + 60
    while not list(workspace.configs.glob("v2.json")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)  # the step that wrote it must end, too: an interrupted one has found nothing yet
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    result = json.loads(out)
    assert (result["status"], result["stopped_by"]) == ("stopped", "interrupted")
    assert result["best"]["config"] != "v1-naive"
    assert b"Traceback" not in err


NO_FAQS = [{"op": "add", "path": "/filters/category", "value": {"not": ["faqs"]}}]
SHORT = [{"op": "replace", "path": "/retrieval/top_k", "value": 2}]
MISSPELT = [{"op": "replace", "path": "/retrieval/topk", "value": 5}]
ANSWERS: list[dict[str, Any]] = [
    {"patches": [{"patch": NO_FAQS, "reason": "FAQs mislead"}, {"patch": MISSPELT, "reason": "too many results"}]},
    {"patches": [{"patch": MISSPELT, "reason": "still too many"}]},
    {"patches": [{"patch": SHORT, "reason": "two are enough"}]},
]
HAIKU = "bedrock:anthropic.claude-3-haiku-20240307-v1:0"


def advised(root: Path, model: str) -> Workspace:
    """A workspace whose optimizer has a model, and too small a holdout for the gate to pass anything."""
    workspace = make_topics(root)
    splits = ["train"] * 4 + ["validation"] * 2 + ["holdout"] * 4
    queries = [topic_query(topic, split=split) for topic, split in zip(TOPICS, splits, strict=True)]
    write_golden(workspace, [entry | {"query": f"{entry['query']} {entry['split']}"} for entry in queries])
    activate(workspace, "naive")
    (workspace.configs / "careful.json").unlink()
    (root / "hive.toml").write_text(f'[models]\nembedding = "none"\noptimizer = ["{model}"]\n', encoding="utf-8")
    lines = [{"structured": answer} for answer in ANSWERS] + [{"error": "authentication"}]
    (root / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return Workspace(root)


def hive_optimize(workspace: Workspace, *arguments: object) -> Any:
    return hive("optimize", "--iterations", "3", "-w", workspace.root, *arguments)


@pytest.fixture(scope="module")
def advised_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, dict[str, Any]]:
    """A finished run that a scripted model proposed for; it waits for a person."""
    workspace = advised(tmp_path_factory.mktemp("advised") / "w", "scripted:answers.jsonl")
    return workspace, hive_optimize(workspace, "--json").json


def test_a_models_patches_are_tried_refused_and_replaced(advised_once: tuple[Workspace, dict[str, Any]]) -> None:
    workspace, result = advised_once
    rows = result["iterations"]
    accepted = next(row for row in rows if row["config"])
    assert (accepted["proposer"], accepted["reason"], accepted["train"]) == ("model", "FAQs mislead", 1.0)
    assert json.loads((workspace.configs / f"{accepted['config']}.json").read_text())["description"] == "FAQs mislead"
    (two,) = [row for row in rows if row["reason"] == "two are enough"]
    assert (two["n"], two["proposer"]) == (1, "model")
    assert (result["proposer"], result["usage"]["model_calls"]) == ("model+heuristic", 4)
    assert {one["iteration"] for one in result["fallbacks"]} == {2, 3}
    assert "authentication" in result["fallbacks"][0]["reason"]
    page = (workspace.root / result["report"]).read_text(encoding="utf-8")
    assert "proposed by model+heuristic; 4 model calls" in page
    shown = hive("optimize", "--resume", result["run_id"], "-w", workspace.root).out
    assert "heuristic instead of the model in iteration 2: authentication" in " ".join(shown.split())


def test_what_a_model_cost_survives_the_process(advised_once: tuple[Workspace, dict[str, Any]]) -> None:
    from hive_agents.runtime.checkpoints import checkpointer

    workspace, result = advised_once
    with checkpointer(workspace) as saver:
        state = load_graph("optimizer", saver).get_state(
            {"configurable": {"thread_id": f"optimizer:{result['run_id']}"}}
        )
    assert (state.values["usage"], state.values["fallbacks"]) == (result["usage"], result["fallbacks"])


def test_a_call_that_a_process_died_in_is_not_made_again(tmp_path: Path) -> None:
    workspace = advised(tmp_path / "w", "scripted:answers.jsonl")
    (workspace.root / "answers.jsonl").write_text('{"content": "late", "delay_seconds": 50}\n')
    with (workspace.root / "hive.toml").open("a", encoding="utf-8") as settings:
        settings.write("deadline_seconds = 60.0\n[optimizer]\nllm_calls = 1\n")
    command = [*OPTIMIZE, "-w", str(workspace.root), "--iterations", "1", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while (
        not list(workspace.state.glob("runs/*/usage.json")) and process.poll() is None and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (run_id,) = started_runs(workspace)
    result = hive("optimize", "--resume", run_id, "-w", workspace.root, "--json").json
    assert result["usage"]["model_calls"] == 1
    assert [one["reason"] for one in result["fallbacks"]] == ["llm_calls: all 1 model calls are used"]


def test_a_patch_that_stays_bad_is_a_row_of_its_own(tmp_path: Path) -> None:
    workspace = advised(tmp_path / "w", "scripted:answers.jsonl")
    stubborn = json.dumps({"structured": ANSWERS[1], "repeat": True})
    (workspace.root / "answers.jsonl").write_text(stubborn + "\n")
    result = hive_optimize(workspace, "--json", "--iterations", "1").json
    (row,) = [row for row in result["iterations"] if row["verdict"] == "invalid"]
    assert (row["proposer"], row["train"], row["feedback"]) == ("model", None, "there is no /retrieval/topk")
    assert (result["proposer"], result["usage"]["model_calls"], len(result["fallbacks"])) == ("heuristic", 3, 1)


def test_a_real_client_on_loopback_brings_the_same_iterations(
    advised_once: tuple[Workspace, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bedrock_server() as bedrock:
        point_aws_at(bedrock.url, monkeypatch)
        bedrock.answers = list(ANSWERS)
        bedrock.fail(None, None, None, DENIED)
        result = hive_optimize(advised(tmp_path / "w", HAIKU), "--json").json
    assert result["iterations"] == advised_once[1]["iterations"]
    assert [one["iteration"] for one in result["fallbacks"]] == [2, 3]
    assert result["usage"]["input_tokens"] == 3000
    assert result["usage"]["usd"] == pytest.approx(3 * (1000 * 0.25e-6 + 100 * 1.25e-6))
    turns = [[turn["role"] for turn in request.body["messages"]] for request in bedrock.requests]
    assert [len(roles) for roles in turns] == [1, 3, 5, 1]
    sent = json.dumps([request.body for request in bedrock.requests])
    assert " train" in sent
    assert " validation" not in sent.replace(" validation queries", "")
    assert not any(f"{topic} holdout" in sent or f"faqs/{topic}.md" in sent for topic in TOPICS[6:])


@pytest.mark.parametrize("ending", ["rejected", "expired", "superseded"])
def test_a_request_that_came_to_nothing_is_told_in_report_and_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setenv("HIVE_APPROVALS__ON_TIMEOUT", "reject")
    workspace = advised(tmp_path / "w", "scripted:answers.jsonl")
    result = hive_optimize(workspace, "--json", "--iterations", "1").json
    assert result["status"] == "escalated"
    if ending == "rejected":
        hive(
            "approvals",
            "reject",
            result["approval_id"],
            "--as",
            "dana",
            "--reason",
            "<too> risky",
            "-w",
            workspace.root,
        )
    elif ending == "expired":
        expire(workspace)
    else:
        write_golden(workspace)
        hive("approvals", "approve", result["approval_id"], "--as", "dana", "-w", workspace.root)
    told = " ".join(hive("optimize", "--resume", result["run_id"], "-w", workspace.root).out.split())
    page = (workspace.root / result["report"]).read_text(encoding="utf-8")
    said = {
        "rejected": "was rejected by user:dana: <too> risky",
        "expired": "has expired",
        "superseded": "was superseded: ",
    }
    assert f"request {result['approval_id']} {said[ending]}" in told
    assert "nothing was deployed" in told
    assert f"<h1>stopped (stopped by {ending})</h1>" in page
    assert "<h1>escalated" not in page
    assert "What was tried" in page


def expire(workspace: Workspace) -> None:
    from hive_agents.approvals import ApprovalStore

    ApprovalStore(workspace, now=lambda: "2100-01-01T00:00:00+00:00").sweep()
    hive("approvals", "list", "-w", workspace.root)


@pytest.mark.slow
def test_a_model_proposes_on_the_sample(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
    with (workspace.root / "hive.toml").open("a", encoding="utf-8") as settings:
        settings.write('[models]\noptimizer = ["scripted:answers.jsonl"]\n')
    patch = [
        {"op": "add", "path": "/filters/category", "value": {"not": ["changelogs"]}},
        {"op": "replace", "path": "/retrieval/rrf_k", "value": 12},
    ]
    line = {"structured": {"patches": [{"patch": patch, "reason": "changelogs repeat the words of guides"}]}}
    (workspace.root / "answers.jsonl").write_text(json.dumps(line | {"repeat": True}) + "\n")
    result = run(Workspace(workspace.root))
    assert result["proposer"] == "model+heuristic"
    assert result["iterations"][0]["reason"] == "changelogs repeat the words of guides"
    assert result["certificate"]["n"] == sum(1 for _ in holdout_ids(workspace))
