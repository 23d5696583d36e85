"""The optimizer with a reranker on loopback: a lever like the others, paid for once, slow, dear or out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_agents import HiveError, Workspace
from hive_agents.models.breaker import forget_breakers
from hive_agents.optimizer.run import OptimizeRun
from hive_agents.runs import RunStore
from tests.graphs.optimizing import run, small
from tests.models.openai_server import ModelServer, Status, model_server
from tests.models.trusting import endpoint_settings, workspace_with
from tests.sample import hive
from tests.topics import TOPICS

MODELS = 'embedding = "none"\nreranker = "lab:rank"\ndeadline_seconds = 5.0'
PRICE = "price = {input = 3.0, output = 0.0}"
PATIENT = "[gate]\nlatency_floor_ms = 60000.0"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    forget_breakers()
    with model_server() as server:
        server.ranks = lambda query, text: float(query.endswith("guide") == text.startswith("To set"))
        yield server


def two_wishes(root: Path) -> Workspace:
    """Half of the questions want the guide and half the FAQ: no filter, weight or length serves both."""
    queries: list[dict[str, Any]] = []
    for number, topic in enumerate(TOPICS):
        split = "train" if number < 3 else "validation" if number < 5 else "holdout"
        for wish, right, wrong in (("guide", "guides", "faqs"), ("answer", "faqs", "guides")):
            relevant, distractors = [f"{right}/{topic}.md"], [f"{wrong}/{topic}.md"]
            for polite in range(3 if split == "holdout" else 1):
                text = f"{'please ' * polite}{topic} {wish}"
                entry = {"id": f"{topic}-{wish}-{polite}", "query": text, "split": split}
                queries.append(entry | {"relevant": relevant, "distractors": distractors})
    return small(root, queries)


@pytest.fixture
def place(tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    settings = endpoint_settings(server.url, models=MODELS, endpoint=PRICE, rest=PATIENT)
    return workspace_with(two_wishes(tmp_path / "w").root, settings, monkeypatch)


def changed(place: Workspace, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    text = (place.root / "hive.toml").read_text().replace(old, new)
    return workspace_with(place.root, text, monkeypatch)


def pairs(server: ModelServer) -> list[tuple[str, str]]:
    bodies = server.bodies("/v1/rerank")
    return [(body["query"], text) for body in bodies for text in body["documents"]]


def test_reranking_is_found_certified_and_deployed_with_what_it_costs(place: Workspace, server: ModelServer) -> None:
    result = run(place)
    assert (result["status"], result["unavailable"]) == ("deployed", None)
    config = json.loads((place.configs / f"{result['best']['config']}.json").read_text())
    assert (config["rerank"]["enabled"], result["certificate"]["after"]) == (True, 1.0)
    found = result["certificate"]["rerank"]
    assert (found["model"], found["candidates"]) == ("lab:rank", config["rerank"]["candidates"])
    assert 0 < found["latency_ms_p50"] <= found["latency_ms_p95"]
    sent = sum(len(query) + len(text) for query, text in set(pairs(server)))
    assert (result["usage"]["input_tokens"] >= sent / 3, result["usage"]["model_calls"]) == (True, 0)
    assert 0 < found["usd_per_query"] < result["usage"]["usd"]
    assert {row["cause"] for row in result["iterations"] if "rerank" in row["step"]} == {"ranked_low"}


def test_no_pair_is_paid_twice_by_a_run_that_broke_off_and_is_resumed(place: Workspace, server: ModelServer) -> None:
    def break_off(state: dict[str, Any]) -> None:
        if state.get("rows"):
            raise MemoryError

    settings = {"iterations": 2, "seconds": 3_600.0}
    broken = OptimizeRun.start(place, golden=None, deploy=False, settings=settings)
    broken.on_update = break_off
    with pytest.raises(MemoryError):
        broken.go()
    assert len(pairs(server)) > 0
    resumed = OptimizeRun.resume(Workspace(place.root), broken.run_id).go()
    assert (resumed["stopped_by"], resumed["certificate"]["after"]) == ("no_deploy", 1.0)
    assert len(pairs(server)) == len(set(pairs(server)))


def test_without_a_reranker_nobody_proposes_to_rerank(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(changed(place, "lab:rank", "none", monkeypatch), deploy=False)
    assert [row["step"] for row in result["iterations"] if "rerank" in row["step"]] == []


def test_a_reranker_that_is_out_is_unavailable_and_no_bad_score(
    place: Workspace, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fail(*[Status(503)] * 500)
    result = run(changed(place, "5.0", "0.3", monkeypatch), iterations=1, deploy=False)
    *_, row = [row for row in result["iterations"] if "rerank" in row["step"]]
    assert (row["verdict"], row["train"], row["validation"]) == ("unavailable", None, None)
    assert "lab:rank" in row["feedback"]
    assert result["unavailable"] == row["feedback"]
    assert any(row["train"] is not None for row in result["iterations"])
    assert not any(change["path"].startswith("rerank") for change in result["best"]["changes"])


@pytest.mark.slow
def test_a_reranker_that_goes_out_before_the_certificate_uses_up_no_holdout(
    place: Workspace, server: ModelServer
) -> None:
    held_out = {f"please {topic} {wish}" for topic in TOPICS[5:] for wish in ("guide", "answer")}
    server.faulty = lambda body: Status(503) if body.get("query") in held_out else None
    result = run(place)
    assert (result["status"], result["stopped_by"], result["certificate"]) == ("stopped", "unavailable", None)
    server.faulty = None
    forget_breakers()
    assert run(place)["certificate"]["j"] == 1


def test_a_reranker_that_the_gate_would_find_slow_is_refused_before_it(
    place: Workspace, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = server.ranks
    assert ranks is not None

    def slowly(query: str, text: str) -> float:
        time.sleep(0.004)
        return ranks(query, text)

    server.ranks = slowly
    result = run(changed(place, "60000.0", "1.0", monkeypatch), iterations=1, deploy=False)
    assert not any(change["path"].startswith("rerank") for change in result["best"]["changes"])
    (refused,) = [one for one in result["rejected"] if any(c["path"] == "rerank.enabled" for c in one["changes"])][:1]
    assert "reranking takes" in refused["why"]
    assert f"hive deploy {refused['config']} --override" in refused["why"]


def test_a_limit_in_dollars_needs_the_rerankers_price(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = changed(place, PRICE, "", monkeypatch)
    ran = hive("optimize", "--max-usd", "1", "-w", unknown.root, "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})
    assert RunStore(unknown).list() == []
    with pytest.raises(HiveError, match="lab:rank"):
        run(unknown, max_usd=1.0)


def test_a_spent_limit_in_dollars_ends_the_search_and_not_the_run(place: Workspace) -> None:
    result = run(place, max_usd=0.0001, deploy=False)
    assert (result["stopped_by"], result["best"]["config"]) in [("max_usd", "naive"), ("no_deploy", "v1")]
    assert result["usage"]["usd"] < 0.01
