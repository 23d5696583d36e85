"""Embedding models of Amazon Bedrock: Titan takes one text a request, Cohere up to 96."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hive_agents.errors import HiveError
from hive_agents.llm import ModelError, attempts_until, failure, open_client
from hive_agents.retrieval.minilm_tokens import WordPieces

TITAN, COHERE = "amazon.titan-embed-text-v2", "cohere.embed-"
_VERSION = "r1"
"""Part of the model id: raise it whenever requests change so that vectors would."""

_BATCH = {TITAN: 1, COHERE: 96}
_LONGEST = {TITAN: 20_000, COHERE: 2048}  # characters that the service is sure to take
_AT_ONCE = 4

Purpose = Literal["search_document", "search_query"]


class BedrockEmbedder(WordPieces):
    """An `Embedder` over InvokeModel; no attempt of a request starts after `deadline` seconds, or lasts longer.

    Raises: HIVE-401, here for a model that isn't known, from `embed` for a service that fails.
    """

    def __init__(self, model: str, deadline: float = 8.0) -> None:
        family = next((name for name in (TITAN, COHERE) if model.startswith(name)), None)
        if family is None:
            raise unusable(f"bedrock:{model} is not an embedding model that this release knows")
        self._model, self._family, self._deadline = model, family, deadline
        self.dimensions = 1536 if model.startswith("cohere.embed-v4") else 1024
        self.model_id = f"bedrock-{model}-{self.dimensions}-{_VERSION}"

    def embed(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """A text longer than the service takes gets the mean of its parts, weighted by length, as a unit vector."""
        return self._embed(texts, "search_document", progress)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """A question's vector; Cohere's models read it otherwise than a document."""
        vector: NDArray[np.float32] = self._embed([text], "search_query", None)[0]
        return vector

    def _embed(
        self, texts: Sequence[str], purpose: Purpose, progress: Callable[[int], None] | None
    ) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimensions), np.float64)
        parts = [(row, part) for row, text in enumerate(texts) for part in _parts(text, _LONGEST[self._family])]
        size = _BATCH[self._family]
        batches = [parts[start : start + size] for start in range(0, len(parts), size)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = pool.map(lambda batch: self._request([text for _, text in batch], purpose), batches)
            try:
                for batch, answer in zip(batches, answers, strict=True):
                    for (row, text), vector in zip(batch, answer, strict=True):
                        vectors[row] += len(text) * vector / max(float(np.linalg.norm(vector)), 1e-12)
                    if progress:
                        progress(batch[-1][0] + (1 if batch is batches[-1] else 0))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(norms > 0):
            raise unusable(f"bedrock:{self._model} answered with a vector of zeros")
        return np.asarray(vectors / norms, np.float32)

    def _request(self, texts: list[str], purpose: Purpose) -> NDArray[np.float64]:
        body: dict[str, Any] = {"texts": texts, "input_type": purpose, "truncate": "END"}
        if self._family == TITAN:
            body = {"inputText": texts[0], "dimensions": self.dimensions, "normalize": True}
        elif self._model.startswith("cohere.embed-v4"):
            body |= {"embedding_types": ["float"], "output_dimension": self.dimensions}
        with attempts_until(self._deadline):
            answer = invoke(self._client, f"bedrock:{self._model}", self._model, body)
        found = [answer.get("embedding")] if self._family == TITAN else answer.get("embeddings")
        if isinstance(found, dict):
            found = found.get("float")
        try:
            vectors = np.asarray(found, np.float64)
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
    """The JSON object that InvokeModel answers. Raises: HIVE-401."""
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
    """HIVE-401 for a failure of the service; any other error as it is."""
    known = failure(error, name)
    if isinstance(known, ModelError):
        return unusable(f"{known.kind}: {known.message}")
    return known or error


def unusable(why: str) -> HiveError:
    fix = "check the model's name, AWS_REGION, credentials and network, then try again"
    return HiveError.of("HIVE-401", why, file="hive.toml", path="models", fix=fix, exit_code=3)


def _parts(text: str, longest: int) -> list[str]:
    """Neither an empty text nor half of a character is taken by the service."""
    text = text.encode(errors="replace").decode() if text.strip() else "."
    count = -(-len(text) // longest)
    edges = [len(text) * part // count for part in range(count + 1)]
    parts = [text[start:end] for start, end in pairwise(edges)]
    return [part if part.strip() else "." for part in parts]
