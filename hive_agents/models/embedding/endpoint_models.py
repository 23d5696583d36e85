"""Embedding models and rerankers of an endpoint: OpenAI's `/embeddings`, and `/rerank` as of Jina and Cohere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.models.abilities import AbilityFile
from hive_agents.models.breaker import breaker_of
from hive_agents.models.embedding.batched_embedding import embedded, sendable
from hive_agents.models.embedding.wordpieces import WordPieces
from hive_agents.models.endpoint import Endpoint
from hive_agents.models.model import ModelError

_VERSION = "e1"
"""Part of the model id: raise it when a change of requests changes vectors."""

BATCH = 64
_LONGEST = 8_000  # characters of a text in a request
_AT_ONCE = 2
_MOST_DOCUMENTS = 500


class _Model:
    """One model of an endpoint, called without an event loop."""

    def __init__(self, endpoint: Endpoint, model: str, deadline: float) -> None:
        self.name = f"{endpoint.name}:{model}"
        self._endpoint, self._model, self._deadline = endpoint, model, deadline

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        """Return the server's answer. Raises: HIVE-401 for a failure, with its kind in the message."""
        try:
            with breaker_of(self._endpoint.url, self.name).attempt(self.name):
                body = {"model": self._model, **body}
                return self._endpoint.post_blocking(path, body, self._deadline, self.name)
        except ModelError as error:
            raise _unusable(f"{error.kind}: {error.message}") from error


class EndpointEmbedder(_Model, WordPieces):
    """An `Embedder` with the dimensions of the first answer, which `.hive/endpoints.json` remembers.

    Raises: HIVE-401 from all but the constructor for a failure of the server.
    """

    def __init__(self, endpoint: Endpoint, model: str, deadline: float) -> None:
        super().__init__(endpoint, model, deadline)
        self._abilities = AbilityFile(endpoint.memory, endpoint.url, model)

    @property
    def dimensions(self) -> int:
        if not self._abilities.known.dimensions:
            self._request(["dimensions"])
        return self._abilities.known.dimensions

    @cached_property
    def model_id(self) -> str:
        return f"endpoint-{self.name}-{self.dimensions}-{_VERSION}"

    def embed(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Return unit vectors; a text that is too long gets the mean of its parts, weighted by length."""
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        return embedded(
            texts,
            self._request,
            dimensions=self.dimensions,
            longest=_LONGEST,
            batch=BATCH,
            at_once=_AT_ONCE,
            without_direction=lambda: _unusable(f"{self.name} answered with a vector of zeros"),
            progress=progress,
        )

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed([text])[0]
        return vector

    def _request(self, texts: list[str]) -> NDArray[np.float64]:
        answer = self._post("/embeddings", {"input": texts})
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = np.asarray([row["embedding"] for row in rows], np.float64)
        except (LookupError, TypeError, ValueError):
            vectors = np.zeros(0)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.size or not np.all(np.isfinite(vectors)):
            raise _unusable(f"{self.name} answered with shape {vectors.shape}, expected {len(texts)} vectors")
        self._require_dimensions(vectors.shape[1])
        return vectors

    def _require_dimensions(self, dimensions: int) -> None:
        previous = self._abilities.known.dimensions
        if dimensions == previous:
            return
        self._abilities.learn(lambda old: old.model_copy(update={"dimensions": dimensions}))
        if previous:
            why = f"{self.name} answers with {dimensions} numbers a vector, and used to answer with {previous}"
            fix = "another model is served under this name: run `hive index`, which embeds everything again"
            raise HiveError.of("HIVE-401", why, file="hive.toml", path="models.embedding", fix=fix, exit_code=3)


class EndpointReranker(_Model):
    """A `Reranker` over `/rerank`. Raises: HIVE-401 from `relevance` for a failure of the server."""

    @property
    def model_id(self) -> str:
        return self.name

    def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the server's scores, in the order of `texts`."""
        scores: list[float] = []
        for start in range(0, len(texts), _MOST_DOCUMENTS):
            scores += self._scores(query, [sendable(text) for text in texts[start : start + _MOST_DOCUMENTS]])
        return scores

    def _scores(self, query: str, texts: list[str]) -> list[float]:
        answer = self._post("/rerank", {"query": sendable(query), "documents": texts, "top_n": len(texts)})
        scores: dict[int, float] = {}
        try:
            for result in answer["results"]:
                scores[int(result["index"])] = float(result["relevance_score"])
        except (LookupError, TypeError, ValueError):
            raise _unusable(f"{self.name} answered no relevance_score for each text") from None
        if sorted(scores) != list(range(len(texts))) or not np.all(np.isfinite(list(scores.values()))):
            raise _unusable(f"{self.name} scored {len(scores)} of {len(texts)} texts")
        return [scores[index] for index in range(len(texts))]


def _unusable(why: str) -> HiveError:
    fix = "check the server, its base_url and the model's name with `hive models test`, then try again"
    return HiveError.of("HIVE-401", why, file="hive.toml", path="models", fix=fix, exit_code=3)
