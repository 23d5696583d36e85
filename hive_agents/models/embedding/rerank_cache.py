"""A cache of relevance on disk: a model scores each pair of question and text once.

`.hive/rerank/<model>/*.npz` holds a file for each question, with `texts` (n, 32) uint8, `scores` (n,) and `seconds`
(n,), the time that the model took for each text. Only hashes of questions and texts are stored.
"""

from __future__ import annotations

import io
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hive_agents.base import sha256
from hive_agents.base.files import atomic_write, guarded, opened
from hive_agents.models.embedding.embedding_cache import text_hash
from hive_agents.models.embedding.providers import Reranker
from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class Relevance:
    """A text's score; `seconds` is its share of the model's time."""

    score: float
    seconds: float


_Scored = dict[bytes, Relevance]
"""By hash of the text."""


class CachedReranker:
    """A `Reranker` that calls another one for uncached texts only; safe to share between threads.

    `on_call` gets the question and the texts of each call of the other reranker. `saved_seconds` is the time that the
    cache has saved so far.
    """

    def __init__(
        self,
        workspace: Workspace,
        reranker: Reranker,
        on_call: Callable[[str, Sequence[str]], None] = lambda query, texts: None,
    ) -> None:
        self.model_id = reranker.model_id
        self.saved_seconds = 0.0
        self._reranker, self._on_call = reranker, on_call
        workspace.state_folder("rerank")
        readable = re.sub(r"[^A-Za-z0-9._-]+", "-", self.model_id)
        mark = sha256(self.model_id)[:8]  # two names may be spelled alike
        self._folder = workspace.state_folder(f"rerank/{readable}-{mark}")
        self._by_query: dict[bytes, _Scored] = {}
        self._characters: dict[str, int] = {}
        self._lock = threading.Lock()

    def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text. Raises: as the other reranker."""
        started = time.perf_counter()
        scored = self.known_relevance(query, texts)
        with self._lock:
            self._characters[query] = len(query) * len(texts) + sum(map(len, texts))
            self.saved_seconds += max(0.0, sum(one.seconds for one in scored) - (time.perf_counter() - started))
        return [one.score for one in scored]

    def known_relevance(self, query: str, texts: Sequence[str]) -> list[Relevance]:
        """Return `relevance` with the time that scoring each text took."""
        key, hashes = text_hash(query), [text_hash(text) for text in texts]
        with self._lock:
            if key not in self._by_query:
                self._by_query[key] = self._read(key)
            scored = self._by_query[key]
            missing = {value: text for value, text in zip(hashes, texts, strict=True) if value not in scored}
        if missing:
            started = time.perf_counter()
            scores = self._reranker.relevance(query, list(missing.values()))
            share = (time.perf_counter() - started) / len(missing)
            with self._lock:
                scored.update(zip(missing, (Relevance(score, share) for score in scores), strict=True))
                self._write(key, scored)
            self._on_call(query, list(missing.values()))
        return [scored[value] for value in hashes]

    def characters_sent(self, queries: Sequence[str]) -> int:
        """Return the characters of the last `relevance` call of each of these questions, cached texts included."""
        return sum(self._characters.get(query, 0) for query in queries)

    def _path(self, key: bytes) -> Path:
        return self._folder / f"{key.hex()[:32]}.npz"

    def _read(self, key: bytes) -> _Scored:
        try:
            with os.fdopen(opened(self._path(key), os.O_RDONLY), "rb") as file:
                stored = guarded.load_arrays(file)
            texts, rows = stored["texts"], np.column_stack([stored["scores"], stored["seconds"]])
            if texts.dtype != np.uint8 or texts.shape != (len(rows), 32) or not np.isfinite(rows).all():
                return {}
            return {text.tobytes(): Relevance(*row) for text, row in zip(texts, rows.tolist(), strict=True)}
        except (OSError, ValueError, KeyError, TypeError):
            return {}  # an unreadable file is scored again

    def _write(self, key: bytes, scored: _Scored) -> None:
        data = io.BytesIO()
        np.savez(
            data,
            texts=np.frombuffer(b"".join(scored), np.uint8).reshape(len(scored), 32),
            scores=np.array([one.score for one in scored.values()], np.float64),
            seconds=np.array([one.seconds for one in scored.values()], np.float64),
        )
        atomic_write(self._path(key), data.getvalue(), mode=0o600)
