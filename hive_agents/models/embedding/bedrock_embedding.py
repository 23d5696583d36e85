"""Models of Amazon Bedrock: embeddings by Titan, one text a request, and Cohere, up to 96; reranking."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.models.bedrock import attempts_until, failure, open_client
from hive_agents.models.embedding.batched_embedding import embedded, sendable
from hive_agents.models.embedding.wordpieces import WordPieces
from hive_agents.models.model import ModelError

TITAN, COHERE = "amazon.titan-embed-text-v2", "cohere.embed-"
_VERSION = "r1"
"""Part of the model id: raise it when a change of requests changes vectors."""

_BATCH = {TITAN: 1, COHERE: 96}
_LONGEST = {TITAN: 20_000, COHERE: 2048}  # characters that the service always accepts
_AT_ONCE = 4

Purpose = Literal["search_document", "search_query"]


class BedrockEmbedder(WordPieces):
    """An `Embedder` over InvokeModel; no attempt of a request starts after `deadline` seconds, or lasts longer.

    Raises: HIVE-401 from the constructor for an unknown model, from `embed` for a failure of the service.
    """

    def __init__(self, model: str, deadline: float = 8.0) -> None:
        family = next((name for name in (TITAN, COHERE) if model.startswith(name)), None)
        if family is None:
            raise unusable(f"bedrock:{model} is not an embedding model that this release knows")
        self._model, self._family, self._deadline = model, family, deadline
        self.dimensions = 1536 if model.startswith("cohere.embed-v4") else 1024
        self.model_id = f"bedrock-{model}-{self.dimensions}-{_VERSION}"

    def embed(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Return unit vectors; a text that is too long gets the mean of its parts, weighted by length."""
        return self._embed(texts, "search_document", progress)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return a question's vector; Cohere's models embed it differently from a document."""
        vector: NDArray[np.float32] = self._embed([text], "search_query", None)[0]
        return vector

    def _embed(
        self, texts: Sequence[str], purpose: Purpose, progress: Callable[[int], None] | None
    ) -> NDArray[np.float32]:
        return embedded(
            texts,
            lambda batch: self._request(batch, purpose),
            dimensions=self.dimensions,
            longest=_LONGEST[self._family],
            batch=_BATCH[self._family],
            at_once=_AT_ONCE,
            without_direction=lambda: unusable(f"bedrock:{self._model} answered with a vector of zeros"),
            progress=progress,
        )

    def _request(self, texts: list[str], purpose: Purpose) -> NDArray[np.float64]:
        body: dict[str, Any] = {"texts": texts, "input_type": purpose, "truncate": "END"}
        if self._family == TITAN:
            body = {"inputText": texts[0], "dimensions": self.dimensions, "normalize": True}
        elif self._model.startswith("cohere.embed-v4"):
            body |= {"embedding_types": ["float"], "output_dimension": self.dimensions}
        with attempts_until(self._deadline):
            answer = invoke(self._client, f"bedrock:{self._model}", self._model, body)
        rows = [answer.get("embedding")] if self._family == TITAN else answer.get("embeddings")
        if isinstance(rows, dict):
            rows = rows.get("float")
        try:
            vectors = np.asarray(rows, np.float64)
        except (TypeError, ValueError):
            vectors = np.zeros(0)
        if vectors.shape != (len(texts), self.dimensions) or not np.all(np.isfinite(vectors)):
            expected = f"{len(texts)} vectors of {self.dimensions} numbers"
            raise unusable(f"bedrock:{self._model} answered with shape {vectors.shape}, expected {expected}")
        return vectors

    @cached_property
    def _client(self) -> Any:
        return open_client("bedrock-runtime", self._deadline)


def invoke(client: Any, name: str, model: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON object that InvokeModel answers. Raises: HIVE-401."""
    try:
        response = client.invoke_model(
            modelId=model, body=json.dumps(body), contentType="application/json", accept="application/json"
        )
        answer = json.loads(response["body"].read())
    except ValueError as error:
        raise unusable(f"{name} answered what is not JSON: {error}") from None
    except Exception as error:
        raise as_diagnostic(error, name) from error
    if not isinstance(answer, dict):
        raise unusable(f"{name} answered {str(answer)[:80]}, expected an object")
    return answer


def as_diagnostic(error: Exception, name: str) -> Exception:
    """Return HIVE-401 for a failure of the service, any other error unchanged."""
    fault = failure(error, name)
    if isinstance(fault, ModelError):
        return unusable(f"{fault.kind}: {fault.message}")
    return fault or error


def unusable(why: str) -> HiveError:
    fix = "check the model's name, AWS_REGION, credentials and network, then try again"
    return HiveError.of("HIVE-401", why, file="hive.toml", path="models", fix=fix, exit_code=3)


_MOST = 1000  # texts in one request


class BedrockReranker:
    """A `Reranker` over Rerank; no attempt of a request starts after `deadline` seconds, or lasts longer.

    Raises: HIVE-401 from `relevance` for a failure of the service.
    """

    def __init__(self, model: str, deadline: float = 8.0) -> None:
        self._model, self._deadline = model, deadline
        self.model_id = f"bedrock:{model}"

    def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return scores from 0 to 1, in the order of `texts`."""
        scores: list[float] = []
        for start in range(0, len(texts), _MOST):
            scores += self._scores(query, texts[start : start + _MOST])
        return scores

    def _scores(self, query: str, texts: Sequence[str]) -> list[float]:
        model = {"modelConfiguration": {"modelArn": self._arn}, "numberOfResults": len(texts)}
        request: dict[str, Any] = {
            "queries": [{"type": "TEXT", "textQuery": {"text": sendable(query)}}],
            "sources": [_source(text) for text in texts],
            "rerankingConfiguration": {"type": "BEDROCK_RERANKING_MODEL", "bedrockRerankingConfiguration": model},
        }
        scores: dict[int, float] = {}
        while True:
            try:
                with attempts_until(self._deadline):
                    page = self._client.rerank(**request)
            except Exception as error:
                raise as_diagnostic(error, self.model_id) from error
            scores |= {result["index"]: float(result["relevanceScore"]) for result in page.get("results", [])}
            if not page.get("nextToken") or not page.get("results"):
                break
            request["nextToken"] = page["nextToken"]
        if sorted(scores) != list(range(len(texts))):
            raise unusable(f"{self.model_id} scored {len(scores)} of {len(texts)} texts")
        return [scores[index] for index in range(len(texts))]

    @cached_property
    def _client(self) -> Any:
        return open_client("bedrock-agent-runtime", self._deadline)

    @cached_property
    def _arn(self) -> str:
        if self._model.startswith("arn:"):
            return self._model
        meta = self._client.meta
        return f"arn:{meta.partition}:bedrock:{meta.region_name}::foundation-model/{self._model}"


def _source(text: str) -> dict[str, Any]:
    document = {"type": "TEXT", "textDocument": {"text": sendable(text)}}
    return {"type": "INLINE", "inlineDocumentSource": document}
