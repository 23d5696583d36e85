"""A golden set's questions are embedded once, however often they are measured: over a server that counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_agents import Workspace, evaluate
from hive_agents.models.breaker import forget_breakers
from hive_agents.ranking import build_index
from tests.models.openai_server import ModelServer, model_server
from tests.models.trusting import endpoint_settings, workspace_with

QUESTIONS = ["how do I rotate a key?", "I lost my key", "balancing the centrifuge"]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    forget_breakers()
    with model_server() as server:
        yield server


@pytest.fixture
def place(text_workspace: Workspace, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    settings = endpoint_settings(server.url, models='embedding = "lab:embed-small"')
    workspace = workspace_with(text_workspace.root, settings, monkeypatch)
    label(workspace, QUESTIONS)
    build_index(workspace)
    server.requests.clear()
    return workspace


def label(workspace: Workspace, questions: list[str]) -> None:
    queries = [
        {"id": f"q{number}", "query": question, "relevant": ["faqs/rotate-key.md"], "distractors": []}
        for number, question in enumerate(questions)
    ]
    (workspace.root / "evals").mkdir(exist_ok=True)
    (workspace.root / "evals" / "golden.json").write_text(json.dumps({"collection": "kb", "queries": queries}))


def embedded(server: ModelServer) -> list[str]:
    found = sorted(text for body in server.bodies("/v1/embeddings") for text in body["input"])
    server.requests.clear()
    return found


def scores(root: Path, config: str = "v1") -> list[float]:
    """As a process of its own finds them."""
    return [query.nudcg for query in evaluate(Workspace(root), config=config).queries]


def kept(place: Workspace) -> list[Path]:
    return sorted((place.state / "questions").iterdir())


def test_a_question_is_embedded_once_for_all_measurements(place: Workspace, server: ModelServer) -> None:
    first = scores(place.root)
    assert embedded(server) == sorted(QUESTIONS)
    assert scores(place.root) == first
    scores(place.root, "meaning")
    assert embedded(server) == []
    label(place, [*QUESTIONS, "a new one"])
    scores(place.root)
    assert embedded(server) == ["a new one"]


def test_what_is_kept_has_no_text_and_is_its_owners(place: Workspace, server: ModelServer) -> None:
    scores(place.root)
    [file] = kept(place)
    assert file.stat().st_mode & 0o077 == 0
    assert not any(word.encode() in file.read_bytes() for word in ("rotate", "centrifuge"))


@pytest.mark.parametrize("damage", [b"", b"no archive", None])
def test_what_is_damaged_or_another_models_is_made_anew(
    place: Workspace, server: ModelServer, damage: bytes | None
) -> None:
    first = scores(place.root)
    [file] = kept(place)
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2] if damage is None else damage)
    embedded(server)
    assert scores(place.root) == first
    assert embedded(server) == sorted(QUESTIONS)


def test_words_alone_embed_no_question(place: Workspace, server: ModelServer) -> None:
    scores(place.root, "words")
    assert embedded(server) == []


def test_where_nothing_can_be_kept_it_costs_time_and_nothing_else(place: Workspace, server: ModelServer) -> None:
    (place.state / "questions").write_text("a file in the folder's place")
    assert scores(place.root) == scores(place.root)
    assert embedded(server) == sorted(2 * QUESTIONS)
