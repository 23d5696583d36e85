"""A cache of embeddings by the hash of the text, so that an unchanged text is never embedded twice.

`.hive/embeddings/*.npz` is the cache of documents' texts; `embeddings/*.npz` in the workspace is a tracked seed, so
that a fresh clone embeds nothing. `.hive/questions/*.npz` has the questions of golden sets. Each file has `hashes`
(n, 32) uint8, `vectors` (n, dim) float32, `model` and a `checksum` of the first two.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write, guarded, opened
from hive_agents.models.embedding.providers import Embedder
from hive_agents.workspace import Workspace, cores

SHARD = 256  # texts embedded between two writes: the most that an interruption loses

JOINED = 4
"""A file is joined with the smaller ones if it has at most so many times their texts."""

_Vectors = dict[bytes, NDArray[np.float32]]


def text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def question_vectors(workspace: Workspace, embedder: Embedder, questions: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of the questions of a golden set, shape `(len(questions), dimensions)`.

    They are cached by hash below `.hive/`, if that is writable.

    Raises: as `Embedder.embed_query`.
    """
    cached: _Vectors = {}
    path: Path | None = None
    with suppress(HiveError):
        path = workspace.state_folder("questions") / f"{_slug(embedder)}.npz"
        cached = _read(path, embedder) or {}
    hashes = [text_hash(question) for question in questions]
    missing = [(key, text) for key, text in dict(zip(hashes, questions, strict=True)).items() if key not in cached]
    for start in range(0, len(missing), SHARD):
        part = missing[start : start + SHARD]
        cached |= zip((key for key, _ in part), _embed_questions(embedder, [text for _, text in part]), strict=True)
        if path is not None:
            with suppress(HiveError):
                _write(path, embedder, (_read(path, embedder) or {}) | cached)  # another process may have written
    return np.stack([cached[key] for key in hashes])


def _embed_questions(embedder: Embedder, questions: Sequence[str]) -> list[NDArray[np.float32]]:
    """Return each question's vector, in parallel; not as a batch, in which a vector could depend on the others."""
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(embedder.embed_query, questions))


def _slug(embedder: Embedder) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", embedder.model_id)


def _read(path: Path, embedder: Embedder) -> _Vectors | None:
    """Return the vectors of a file, none of a damaged one; None for another model's."""
    try:
        with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
            stored = guarded.load_arrays(file)
        if str(stored["model"]) != embedder.model_id:
            return None
        hashes, vectors = stored["hashes"], stored["vectors"]
        if hashes.dtype != np.uint8 or hashes.shape != (len(vectors), 32):
            return {}
        if "checksum" in stored and str(stored["checksum"]) != _checksum(hashes, vectors):
            return {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # the vectors of a damaged file are computed again
    if vectors.shape != (len(hashes), embedder.dimensions) or vectors.dtype != np.float32:
        return {}
    # Drop zeroed vectors, which match nothing.
    unit = np.abs(np.linalg.norm(vectors, axis=1) - 1) < 0.01
    return dict(zip((row.tobytes() for row in hashes[unit]), vectors[unit], strict=True))


def _prefixes(path: Path, embedder: Embedder) -> NDArray[np.uint64] | None:
    """Return the first bytes of the hashes in a file as numbers, none of a damaged one; None for another model's."""
    try:
        with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
            stored = guarded.load_arrays(file, "model", "hashes")
        if str(stored["model"]) != embedder.model_id:
            return None
        return np.ascontiguousarray(stored["hashes"][:, :8]).view(">u8").ravel().astype(np.uint64)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return np.empty(0, np.uint64)


def _write(path: Path, embedder: Embedder, by_hash: _Vectors, mode: int | None = 0o600) -> None:
    hashes = sorted(by_hash)
    data = io.BytesIO()
    rows = np.frombuffer(b"".join(hashes), np.uint8).reshape(len(hashes), 32)
    vectors = np.stack([by_hash[digest] for digest in hashes])
    np.savez_compressed(
        data,
        hashes=rows,
        vectors=vectors,
        checksum=np.array(_checksum(rows, vectors)),
        model=np.array(embedder.model_id),
    )
    atomic_write(path, data.getvalue(), mode=mode)


def _checksum(hashes: NDArray[np.uint8], vectors: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(hashes).tobytes() + np.ascontiguousarray(vectors).tobytes()).hexdigest()


class EmbeddingCache:
    """The cached vectors of documents' texts by one model: those of the seed and of `.hive/embeddings/`.

    Of a file whose texts aren't asked for only the hashes are read.
    """

    def __init__(self, workspace: Workspace, embedder: Embedder) -> None:
        self._embedder = embedder
        self._slug = _slug(embedder)
        self._folder = workspace.state_folder("embeddings")
        self._seed = workspace.root / "embeddings" / f"{self._slug}.npz"
        self._known: _Vectors = {}
        found = {path: _prefixes(path, embedder) for path in (self._seed, *self._folder.glob("*.npz"))}
        self._unread = {path: prefixes for path, prefixes in found.items() if prefixes is not None and len(prefixes)}
        # Damaged files are replaced by `compact`; those of other models stay.
        self._shards = {path: len(prefixes) for path, prefixes in found.items() if prefixes is not None}
        self._shards.pop(self._seed, None)

    def _look_up(self, hashes: Iterable[bytes]) -> None:
        """Read the files that have some of the hashes."""
        wanted = set(hashes) - self._known.keys()
        prefixes = np.array([int.from_bytes(digest[:8]) for digest in wanted], np.uint64)
        for path, inside in list(self._unread.items()):
            if np.isin(inside, prefixes).any():
                self._known |= _read(path, self._embedder) or {}
                del self._unread[path]

    def missing(self, hashes: Sequence[bytes]) -> int:
        """Return how many different texts aren't cached."""
        self._look_up(hashes)
        return len(set(hashes) - self._known.keys())

    def vectors(
        self, hashes: Sequence[bytes], texts: Sequence[str], progress: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float32]:
        """Return shape `(n, dimensions)`; embed the texts that aren't cached, and save them every `SHARD` texts."""
        self._look_up(hashes)
        missing = {digest: text for digest, text in zip(hashes, texts, strict=True) if digest not in self._known}
        todo = sorted(missing.items(), key=lambda item: len(item[1]))
        shards = [todo[start : start + SHARD] for start in range(0, len(todo), SHARD)]
        random.Random(0).shuffle(shards)  # mixed lengths, so that progress is even
        finished = 0
        for part in shards:
            report = None if progress is None else lambda done, base=finished: progress(base + done, len(todo))
            finished += len(part)
            new = self._embedder.embed([text for _, text in part], report)
            self._known.update(zip((digest for digest, _ in part), new, strict=True))
            shard = self._folder / f"{self._slug}-{part[0][0].hex()[:16]}.npz"
            self._write(shard, [digest for digest, _ in part])
            self._shards[shard] = len(part)
        if not len(hashes):
            return np.zeros((0, self._embedder.dimensions), np.float32)
        return np.stack([self._known[digest] for digest in hashes])

    def compact(self, hashes: Sequence[bytes]) -> None:
        """Replace the files by one with the cached vectors of `hashes`; no other process may be writing."""
        self._replace(list(self._shards), self._folder / f"{self._slug}.npz", hashes)

    def join(self) -> None:
        """Put small files together, so that there are few; no other process may be writing."""
        smallest = sorted(self._shards, key=self._shards.__getitem__)
        n, texts = 0, 0
        while n < len(smallest) and (not n or self._shards[smallest[n]] <= JOINED * texts):
            texts += self._shards[smallest[n]]
            n += 1
        if n > 1:
            vectors = [_read(path, self._embedder) or {} for path in smallest[:n]]
            for some in vectors:
                self._known |= some
            self._replace(smallest[:n], smallest[n - 1], [digest for some in vectors for digest in some])

    def _replace(self, paths: Sequence[Path], whole: Path, hashes: Sequence[bytes]) -> None:
        others = [path for path in paths if path != whole]
        if others and hashes:
            self._look_up(hashes)
            self._write(whole, hashes)
            for path in others:
                path.unlink(missing_ok=True)
                del self._shards[path]
            self._shards[whole] = len(hashes)

    def write_seed(self, hashes: Sequence[bytes]) -> Path:
        """Write the tracked seed cache, so that a fresh clone embeds nothing."""
        self._look_up(hashes)
        self._write(self._seed, hashes, mode=None)
        return self._seed

    def _write(self, path: Path, hashes: Iterable[bytes], mode: int | None = 0o600) -> None:
        vectors = {digest: self._known[digest] for digest in self._known.keys() & set(hashes)}
        _write(path, self._embedder, vectors, mode)
