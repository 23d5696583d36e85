"""Embeddings and reranking over HTTP with a server on loopback that speaks OpenAI's and Cohere's shapes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.models.breaker import forget_breakers
from hive_agents.models.embedding import open_embedder
from hive_agents.models.embedding.providers import Embedder, Reranker, open_reranker
from hive_agents.ranking import build_index
from tests.models.openai_server import Body, ModelServer, Slow, Status, model_server
from tests.models.trusting import endpoint_settings, workspace_with

EMBEDDING = 'embedding = "lab:embed-small"'
RERANKER = 'reranker = "lab:rerank-small"'


@pytest.fixture
def server() -> Iterator[ModelServer]:
    forget_breakers()
    with model_server() as server:
        yield server


@pytest.fixture
def deadline() -> float:
    return 30.0


IMPATIENT = pytest.mark.parametrize("deadline", [1.0])


@pytest.fixture
def place(
    text_workspace: Workspace, server: ModelServer, deadline: float, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    models = f"{EMBEDDING}\n{RERANKER}\ndeadline_seconds = {deadline}"
    return workspace_with(text_workspace.root, endpoint_settings(server.url, models=models), monkeypatch)


def embedder_of(place: Workspace) -> Embedder:
    embedder, warning = open_embedder(place)
    assert embedder is not None
    assert warning is None
    return embedder


def reranker_of(place: Workspace) -> Reranker:
    reranker = open_reranker(place)
    assert reranker is not None
    return reranker


def test_texts_become_unit_vectors_whatever_they_are(place: Workspace) -> None:
    embedder, finished = embedder_of(place), list[int]()
    vectors = embedder.embed(["a key", "", "half \ud800 a sign", "a key", "long words " * 5000], finished.append)
    assert vectors.shape == (5, 8) == (5, embedder.dimensions)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    assert np.array_equal(vectors[0], vectors[3])
    assert (finished[-1], finished) == (5, sorted(finished))
    assert embedder.embed([]).shape == (0, 8)


def test_texts_are_sent_in_batches_and_come_back_in_order(place: Workspace, server: ModelServer) -> None:
    texts = [f"text {'word ' * number}" for number in range(150)]
    embedder = embedder_of(place)
    together = embedder.embed(texts)
    assert max(len(body["input"]) for body in server.bodies("/v1/embeddings")) == 64
    assert np.allclose(together[140], embedder.embed([texts[140]])[0])


def test_dimensions_are_asked_for_once_and_remembered(place: Workspace, server: ModelServer) -> None:
    assert embedder_of(place).model_id == "endpoint-lab:embed-small-8-e1"
    asked = len(server.requests)
    assert embedder_of(place).model_id == "endpoint-lab:embed-small-8-e1"
    assert (asked, len(server.requests)) == (1, 1)


def test_an_index_is_built_searched_and_not_built_again(place: Workspace, server: ModelServer) -> None:
    report = build_index(place)
    assert report.embedding_model == "endpoint-lab:embed-small-8-e1"
    asked = len(server.requests)
    assert build_index(Workspace(place.root)).embedded == 0
    assert len(server.requests) == asked
    assert place.engine().search("Balancing the centrifuge", "meaning").hits


def test_another_model_under_the_same_name_is_noticed_and_indexed_anew(place: Workspace, server: ModelServer) -> None:
    build_index(place)
    server.dimensions = 12
    with pytest.raises(HiveError, match="12 numbers a vector, and used to answer with 8"):
        place.engine().search("Balancing the centrifuge", "meaning")
    report = build_index(Workspace(place.root))
    assert report.embedding_model == "endpoint-lab:embed-small-12-e1"
    assert report.embedded > 5


def test_what_passes_is_tried_again(place: Workspace, server: ModelServer) -> None:
    embedder = embedder_of(place)
    assert embedder.dimensions == 8
    server.fail(Status(429, headers={"Retry-After": "0.01"}), Status(503))
    assert embedder.embed(["a key"]).shape == (1, 8)
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Status(401), "authentication"),
        (Body(b"<html>"), "garbage"),
        (Body(b'{"data": [{"index": 0, "embedding": [1.0, "x"]}]}'), "expected 1 vectors"),
        (Body(b'{"data": []}'), "expected 1 vectors"),
        (Body(b'{"data": [{"index": 0, "embedding": [NaN, 1.0]}]}'), "expected 1 vectors"),
    ],
)
def test_a_failing_embedding_server_is_an_environment_error(
    place: Workspace, server: ModelServer, failure: object, words: str
) -> None:
    server.fail(failure)
    with pytest.raises(HiveError, match=words) as caught:
        embedder_of(place).embed(["a key"])
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-401", 3)


@IMPATIENT
def test_a_silent_embedding_server_is_an_environment_error(place: Workspace, server: ModelServer) -> None:
    server.fail(Slow(3))
    with pytest.raises(HiveError, match="timeout") as caught:
        embedder_of(place).embed(["a key"])
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-401", 3)


@IMPATIENT
def test_a_dead_embedding_server_is_not_waited_for_each_time(place: Workspace, server: ModelServer) -> None:
    server.fail(Slow(3), Slow(3))
    embedder = embedder_of(place)
    for words in ("timeout", "timeout", "unavailable"):
        with pytest.raises(HiveError, match=words):
            embedder.embed(["a key"])
    assert len(server.requests) == 2


def test_texts_are_scored_in_their_order(place: Workspace, server: ModelServer) -> None:
    reranker = reranker_of(place)
    assert reranker.relevance("rotate key", ["a pipette", "rotate the key", "", "a key"]) == [0.0, 1.0, 0.0, 0.5]
    assert server.bodies("/v1/rerank")[0]["model"] == "rerank-small"
    assert reranker.relevance("rotate key", []) == []


@pytest.mark.parametrize(
    "data",
    [b'{"results": [{"index": 0, "relevance_score": 1}]}', b'{"results": [{"index": 0}]}', b'{"scores": [1, 2]}'],
)
def test_scores_that_do_not_fit_the_texts_are_refused(place: Workspace, server: ModelServer, data: bytes) -> None:
    server.fail(Body(data))
    with pytest.raises(HiveError, match=r"scored 1 of 2|no relevance_score"):
        reranker_of(place).relevance("key", ["a", "b"])


def test_without_trust_there_is_no_model_of_an_endpoint(
    text_workspace: Workspace, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = endpoint_settings(server.url, models=f"{EMBEDDING}\n{RERANKER}")
    place = workspace_with(text_workspace.root, settings, monkeypatch, trusted=False)
    embedder, warning = open_embedder(place)
    assert (embedder, warning is not None and "not trusted" in warning.message) == (None, True)
    with pytest.raises(HiveError, match="not trusted"):
        open_reranker(place)
    assert server.requests == []
