"""Relevance by content, kept on disk: a question and a text are scored by a model once, however often they meet.

`.hive/rerank/<model>/*.npz` holds a file a question, with `texts` (n, 32) uint8, `scores` (n,) and `seconds` (n,), the
time that each text took its model. Only hashes of questions and texts are kept.
"""

from __future__ import annotations

import io
import os
import re
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hive_agents.files import atomic_write, load_arrays, opened
from hive_agents.retrieval.embedding_cache import text_hash
from hive_agents.retrieval.providers import Reranker
from hive_agents.text import sha256
from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class Relevance:
    """`seconds` is this text's share of the time that its model took."""

    score: float
    seconds: float


_Known = dict[bytes, Relevance]


class CachedReranker:
    """A `Reranker` that asks another one for what it doesn't know; safe to share between threads.

    `on_call` gets the question and the texts of each call that the other one answered. `saved_seconds` is how much
    longer all answers so far would have taken without the cache.
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
        mark = sha256(self.model_id)[:8]  # two names may read alike
        self._folder = workspace.state_folder(f"rerank/{readable}-{mark}")
        self._by_query: dict[bytes, _Known] = {}
        self._characters: dict[str, int] = {}
        self._lock = threading.Lock()

    def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        """As the other reranker's, which raises what it raises."""
        started = time.perf_counter()
        found = self.known_relevance(query, texts)
        with self._lock:
            self._characters[query] = len(query) * len(texts) + sum(map(len, texts))
            self.saved_seconds += max(0.0, sum(one.seconds for one in found) - (time.perf_counter() - started))
        return [one.score for one in found]

    def known_relevance(self, query: str, texts: Sequence[str]) -> list[Relevance]:
        """As `relevance`, with the time that each text took when it was scored."""
        key, hashes = text_hash(query), [text_hash(text) for text in texts]
        with self._lock:
            if key not in self._by_query:
                self._by_query[key] = self._read(key)
            known = self._by_query[key]
            wanted = {value: text for value, text in zip(hashes, texts, strict=True) if value not in known}
        if wanted:
            started = time.perf_counter()
            scores = self._reranker.relevance(query, list(wanted.values()))
            share = (time.perf_counter() - started) / len(wanted)
            with self._lock:
                known.update(zip(wanted, (Relevance(score, share) for score in scores), strict=True))
                self._write(key, known)
            self._on_call(query, list(wanted.values()))
        return [known[value] for value in hashes]

    def characters_sent(self, queries: Sequence[str]) -> int:
        """Return how much text the last `relevance` of each of these questions took, paid for then or before."""
        return sum(self._characters.get(query, 0) for query in queries)

    def _path(self, key: bytes) -> Path:
        return self._folder / f"{key.hex()[:32]}.npz"

    def _read(self, key: bytes) -> _Known:
        try:
            with os.fdopen(opened(self._path(key), os.O_RDONLY), "rb") as file:
                stored = load_arrays(file)
            texts, rows = stored["texts"], np.column_stack([stored["scores"], stored["seconds"]])
            if texts.dtype != np.uint8 or texts.shape != (len(rows), 32) or not np.isfinite(rows).all():
                return {}
            return {text.tobytes(): Relevance(*row) for text, row in zip(texts, rows.tolist(), strict=True)}
        except (
            OSError,
            EOFError,
            ValueError,
            KeyError,
            TypeError,
            zipfile.BadZipFile,
            zlib.error,
            NotImplementedError,
        ):
            return {}  # what is lost is paid again

    def _write(self, key: bytes, known: _Known) -> None:
        data = io.BytesIO()
        np.savez(
            data,
            texts=np.frombuffer(b"".join(known), np.uint8).reshape(len(known), 32),
            scores=np.array([one.score for one in known.values()], np.float64),
            seconds=np.array([one.seconds for one in known.values()], np.float64),
        )
        atomic_write(self._path(key), data.getvalue(), mode=0o600)
