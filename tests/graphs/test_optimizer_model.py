"""The optimizer graph with a model that proposes: scripted, or a real client against a server on loopback."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.runs import load_graph
from hive_agents.workspace.trusted import trust
from tests.graphs.optimizing import OPTIMIZE, holdout_ids, run, started_runs
from tests.models.bedrock_server import DENIED, bedrock_server
from tests.models.environment import point_aws_at
from tests.sample import copied_sample, hive
from tests.topics import TOPICS, activate, in_wordings, make_topics, query as topic_query, write_golden

ONE_GUIDE = [
    {"op": "add", "path": "/boosts/category", "value": {"faqs": 0.3}},
    {"op": "replace", "path": "/retrieval/top_k", "value": 1},
]
SHORT = [{"op": "replace", "path": "/retrieval/top_k", "value": 2}]
MISSPELT = [{"op": "replace", "path": "/retrieval/topk", "value": 5}]
ANSWERS: list[dict[str, Any]] = [
    {"patches": [{"patch": ONE_GUIDE, "reason": "FAQs mislead"}, {"patch": MISSPELT, "reason": "too many results"}]},
    {"patches": [{"patch": MISSPELT, "reason": "still too many"}]},
    {"patches": [{"patch": SHORT, "reason": "two are enough"}]},
]
HAIKU = "bedrock:anthropic.claude-3-haiku-20240307-v1:0"


def advised(root: Path, model: str) -> Workspace:
    """A workspace whose optimizer has a model, and a holdout that gains without proof.

    Three of its 24 questions have an answer, ten only a guide that misleads.
    """
    workspace = make_topics(root)
    splits = ["train"] * 4 + ["validation"] * 2
    queries = [topic_query(topic, split=split) for topic, split in zip(TOPICS, splits, strict=False)]
    queries += in_wordings(TOPICS[6:], 6)
    for number, entry in enumerate(queries[9:]):
        entry |= {"relevant": [], "distractors": entry["relevant"] if number < 10 else []}
    write_golden(workspace, [entry | {"query": f"{entry['query']} {entry['split']}"} for entry in queries])
    activate(workspace, "naive")
    (workspace.configs / "careful.json").unlink()
    (root / "hive.toml").write_text(f'[models]\nembedding = "none"\noptimizer = ["{model}"]\n', encoding="utf-8")
    lines = [{"structured": answer} for answer in ANSWERS] + [{"error": "authentication"}]
    (root / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    trust(Workspace(root))
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
    stored = json.loads((workspace.configs / f"{accepted['config']}.json").read_text())
    assert stored["description"] == accepted["step"]
    (two,) = [row for row in rows if row["reason"] == "two are enough"]
    assert (two["n"], two["proposer"]) == (1, "model")
    assert (result["proposer"], result["usage"]["model_calls"]) == ("model+heuristic", 4)
    assert {one["iteration"] for one in result["fallbacks"]} == {2}
    assert "authentication" in result["fallbacks"][0]["reason"]
    page = (workspace.root / result["report"]).read_text(encoding="utf-8")
    assert "proposed by model+heuristic; 4 model calls" in page
    shown = hive("optimize", "--resume", result["run_id"], "-w", workspace.root).out
    assert "heuristic instead of the model in iteration 2: unavailable (authentication)" in " ".join(shown.split())


def test_runs_are_listed_with_what_their_models_cost(advised_once: tuple[Workspace, dict[str, Any]]) -> None:
    workspace, result = advised_once
    (run,) = hive("runs", "-w", workspace.root, "--json").json["runs"]
    usage = result["usage"]
    assert (run["steps"], run["tokens"]) == (4, usage["input_tokens"] + usage["output_tokens"])


def test_what_a_model_cost_survives_the_process(advised_once: tuple[Workspace, dict[str, Any]]) -> None:
    from hive_agents.runs.checkpoints import checkpointer

    workspace, result = advised_once
    with checkpointer(workspace) as saver:
        state = load_graph("optimizer", saver).get_state(
            {"configurable": {"thread_id": f"optimizer:{result['run_id']}"}}
        )
    assert (state.values["usage"], state.values["fallbacks"]) == (result["usage"], result["fallbacks"])


@pytest.mark.slow
def test_a_call_that_a_process_died_in_is_not_made_again(tmp_path: Path) -> None:
    workspace = advised(tmp_path / "w", "scripted:answers.jsonl")
    (workspace.root / "answers.jsonl").write_text('{"content": "late", "delay_seconds": 50}\n')
    with (workspace.root / "hive.toml").open("a", encoding="utf-8") as settings:
        settings.write("deadline_seconds = 60.0\n[optimizer]\nllm_calls = 1\n")
    command = [*OPTIMIZE, "-w", str(workspace.root), "--iterations", "1", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(workspace.state.glob("runs/*/usage.json")) and process.poll() is None:
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
    assert [one["iteration"] for one in result["fallbacks"]] == [2]
    assert result["usage"]["input_tokens"] == 3000
    assert result["usage"]["usd"] == pytest.approx(3 * (1000 * 0.25e-6 + 100 * 1.25e-6))
    turns = [[turn["role"] for turn in request.body["messages"]] for request in bedrock.requests]
    assert [len(roles) for roles in turns] == [1, 3, 5, 1]
    sent = json.dumps([request.body for request in bedrock.requests])
    assert " train" in sent
    assert " validation" not in sent.replace(" validation queries", "")
    assert not any(f"{topic} holdout" in sent or f"faqs/{topic}.md" in sent for topic in TOPICS[6:])


@pytest.fixture(scope="module")
def escalated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, dict[str, Any]]:
    """A run of one iteration that waits for a person; what nobody answers is rejected."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HIVE_APPROVALS__ON_TIMEOUT", "reject")
        workspace = advised(tmp_path_factory.mktemp("escalated") / "w", "scripted:answers.jsonl")
        return workspace, hive_optimize(workspace, "--json", "--iterations", "1").json


@pytest.mark.parametrize("ending", ["rejected", "expired", "superseded"])
def test_a_request_that_came_to_nothing_is_told_in_report_and_terminal(
    escalated: tuple[Workspace, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setenv("HIVE_APPROVALS__ON_TIMEOUT", "reject")
    result = escalated[1]
    workspace = Workspace(shutil.copytree(escalated[0].root, tmp_path / "w", symlinks=True))
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
