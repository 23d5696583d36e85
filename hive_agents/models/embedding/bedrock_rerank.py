"""Amazon Bedrock's Rerank operation as a `Reranker`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from hive_agents.models.bedrock import attempts_until, open_client
from hive_agents.models.embedding.batched_embedding import sendable
from hive_agents.models.embedding.bedrock_embedding import as_diagnostic, unusable

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
