"""Embeddings and reranking through real boto3, against a server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.models.embedding.providers import open_embedder, open_reranker
from hive_agents.ranking import build_index
from hive_agents.workspace.trusted import trust
from tests.models.bedrock_server import DENIED, GARBAGE, BedrockServer, Slow, bedrock_server
from tests.models.environment import point_aws_at

TITAN = "bedrock:amazon.titan-embed-text-v2:0"
COHERE = "bedrock:cohere.embed-english-v3"
COHERE_4 = "bedrock:cohere.embed-v4:0"
RERANK = "bedrock:cohere.rerank-v3-5:0"


class Configured(Protocol):
    def __call__(self, **models: object) -> Workspace: ...


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    """A workspace with these keys of `[models]`."""

    def configured(**models: object) -> Workspace:
        root = tmp_path / "configured"
        (root / "collections").mkdir(parents=True)
        lines = [f"{key} = {json.dumps(value)}" for key, value in models.items()]
        (root / "hive.toml").write_text("\n".join(["[models]", *lines]), encoding="utf-8")
        trust(Workspace(root))
        return Workspace(root)

    return configured


@pytest.fixture
def bedrock(monkeypatch: pytest.MonkeyPatch) -> Iterator[BedrockServer]:
    with bedrock_server() as server:
        point_aws_at(server.url, monkeypatch)
        yield server


@pytest.mark.parametrize(("name", "dimensions"), [(TITAN, 1024), (COHERE, 1024), (COHERE_4, 1536)])
def test_texts_become_unit_vectors_whatever_they_are(
    bedrock: BedrockServer, name: str, dimensions: int, configured: Configured
) -> None:
    embedder, warning = open_embedder(configured(embedding=name))
    assert embedder is not None
    assert warning is None
    assert name.removeprefix("bedrock:") in embedder.model_id
    finished: list[int] = []
    texts = ["a key", "", "half \ud800 a sign", "a key", "long words " * 5000]
    vectors = embedder.embed(texts, finished.append)
    assert vectors.shape == (5, dimensions) == (5, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    assert np.array_equal(vectors[0], vectors[3])
    assert np.array_equal(vectors[0], embedder.embed(["a key"])[0])
    assert finished[-1] == 5
    assert finished == sorted(finished)
    assert embedder.embed([]).shape == (0, dimensions)


def test_cohere_reads_96_texts_a_request_and_knows_questions(bedrock: BedrockServer) -> None:
    from hive_agents.models.embedding.bedrock_embedding import BedrockEmbedder

    embedder = BedrockEmbedder("cohere.embed-english-v3")
    embedder.embed([f"text {number}" for number in range(200)])
    assert sorted(len(request.body["texts"]) for request in bedrock.requests) == [8, 96, 96]
    assert {request.body["input_type"] for request in bedrock.requests} == {"search_document"}
    embedder.embed_query("which text?")
    assert bedrock.requests[-1].body["input_type"] == "search_query"


@pytest.mark.parametrize(("failure", "words"), [(DENIED, "authentication"), (GARBAGE, "not JSON")])
def test_a_failing_service_is_an_environment_error(
    bedrock: BedrockServer, failure: object, words: str, configured: Configured
) -> None:
    embedder, _ = open_embedder(configured(embedding=COHERE))
    assert embedder is not None
    bedrock.fail(failure)
    with pytest.raises(HiveError, match=words) as caught:
        embedder.embed(["a key"])
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-401", 3)


def test_an_unknown_embedding_model_is_an_environment_error(configured: Configured) -> None:
    with pytest.raises(HiveError, match=r"HIVE-401.*nobody.embed"):
        open_embedder(configured(embedding="bedrock:nobody.embed"))


def test_an_index_is_built_and_searched_with_it(text_workspace: Workspace, bedrock: BedrockServer) -> None:
    (text_workspace.root / "hive.toml").write_text(f'[models]\nembedding = "{TITAN}"\n', encoding="utf-8")
    workspace = Workspace(text_workspace.root)
    trust(workspace)
    report = build_index(workspace)
    assert report.embedding_model == "bedrock-amazon.titan-embed-text-v2:0-1024-r1"
    assert report.embedded > 5
    asked = len(bedrock.requests)
    assert build_index(workspace).embedded == 0
    assert len(bedrock.requests) == asked
    hits = workspace.engine().search("Balancing the centrifuge", "meaning").hits
    assert hits[0].doc_id == "guides/centrifuge.md"
    assert bedrock.requests[-1].body["inputText"] == "Balancing the centrifuge"


def test_an_index_reads_documents_and_questions_each_in_their_way(
    text_workspace: Workspace, bedrock: BedrockServer
) -> None:
    (text_workspace.root / "hive.toml").write_text(f'[models]\nembedding = "{COHERE}"\n', encoding="utf-8")
    workspace = Workspace(text_workspace.root)
    trust(workspace)
    build_index(workspace)
    assert {request.body["input_type"] for request in bedrock.requests} == {"search_document"}
    workspace.engine().search("Balancing the centrifuge", "meaning")
    asked = bedrock.requests[-1].body
    assert (asked["texts"], asked["input_type"]) == (["Balancing the centrifuge"], "search_query")


def test_texts_are_scored_in_their_order(bedrock: BedrockServer, configured: Configured) -> None:
    reranker = open_reranker(configured(reranker=RERANK))
    assert reranker is not None
    assert "cohere.rerank-v3-5:0" in reranker.model_id
    assert reranker.relevance("rotate key", ["a pipette", "rotate the key", "", "a key"]) == [0.0, 1.0, 0.0, 0.5]
    sent = bedrock.requests[0].body["rerankingConfiguration"]["bedrockRerankingConfiguration"]["modelConfiguration"]
    assert sent == {"modelArn": "arn:aws:bedrock:us-east-1::foundation-model/cohere.rerank-v3-5:0"}
    assert reranker.relevance("rotate key", []) == []


def test_a_failing_reranker_is_an_environment_error(bedrock: BedrockServer, configured: Configured) -> None:
    reranker = open_reranker(configured(reranker=RERANK))
    assert reranker is not None
    bedrock.fail(DENIED)
    with pytest.raises(HiveError, match="authentication") as caught:
        reranker.relevance("key", ["a", "b"])
    assert caught.value.exit_code == 3


def test_a_slow_reranker_is_left_after_the_deadline(bedrock: BedrockServer, configured: Configured) -> None:
    reranker = open_reranker(configured(reranker=RERANK, deadline_seconds=0.2))
    assert reranker is not None
    bedrock.fail(Slow(0.4))
    with pytest.raises(HiveError, match="timeout"):
        reranker.relevance("key", ["a", "b"])
    assert len(bedrock.requests) == 1


def test_there_is_no_reranker_by_default_and_no_unknown_one(configured: Configured) -> None:
    place = configured(reranker="local:maxsim")
    with pytest.raises(HiveError, match="HIVE-401"):
        open_reranker(place)
    (place.root / "hive.toml").unlink()
    assert open_reranker(Workspace(place.root)) is None
