"""Document embeddings by content: an unchanged text is never embedded twice.

`.hive/embeddings/*.npz` is the cache; `embeddings/*.npz` in the workspace is a tracked seed, so that a
fresh clone embeds nothing. Both hold `hashes` (n, 32) uint8, `vectors` (n, dim) float32, `model` and a
`checksum` of the first two.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hive_agents.files import atomic_write, load_arrays, opened
from hive_agents.retrieval.providers import Embedder
from hive_agents.workspace import Workspace

SHARD = 256  # texts embedded between two writes: what an interruption can cost


def text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _checksum(hashes: NDArray[np.uint8], vectors: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(hashes).tobytes() + np.ascontiguousarray(vectors).tobytes()).hexdigest()


class EmbeddingCache:
    def __init__(self, workspace: Workspace, embedder: Embedder) -> None:
        self._embedder = embedder
        self._slug = re.sub(r"[^A-Za-z0-9._-]+", "-", embedder.model_id)
        self._folder = workspace.state_folder("embeddings")
        self._seed = workspace.root / "embeddings" / f"{self._slug}.npz"
        self._known: dict[bytes, NDArray[np.float32]] = {}
        self._read(self._seed)
        # What can't be read is replaced with the rest; another model's vectors wait for its return.
        self._shards = {path for path in self._folder.glob("*.npz") if self._read(path)}

    def _read(self, path: Path) -> bool:
        """Take over what `path` holds for this model; False where it is another model's."""
        try:
            with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
                stored = load_arrays(file)
            if str(stored["model"]) != self._embedder.model_id:
                return False
            hashes, vectors = stored["hashes"], stored["vectors"]
            if "checksum" in stored and str(stored["checksum"]) != _checksum(hashes, vectors):
                return True
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError):
            return True  # a damaged cache costs time, nothing else
        if vectors.shape == (len(hashes), self._embedder.dimensions) and vectors.dtype == np.float32:
            # A zeroed vector is like nothing, and would be served like any other.
            unit = np.abs(np.linalg.norm(vectors, axis=1) - 1) < 0.01
            self._known.update(zip((row.tobytes() for row in hashes[unit]), vectors[unit], strict=True))
        return True

    def missing(self, hashes: Sequence[bytes]) -> int:
        return len({value for value in hashes if value not in self._known})

    def vectors(
        self, hashes: Sequence[bytes], texts: Sequence[str], progress: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float32]:
        """Shape `(n, dimensions)`; embeds what isn't known yet, and saves it every `SHARD` texts."""
        wanted = {value: text for value, text in zip(hashes, texts, strict=True) if value not in self._known}
        todo = sorted(wanted.items(), key=lambda item: len(item[1]))
        shards = [todo[start : start + SHARD] for start in range(0, len(todo), SHARD)]
        random.Random(0).shuffle(shards)  # long texts among short ones: what is left takes as long as what was
        finished = 0
        for part in shards:
            report = None if progress is None else lambda done, base=finished: progress(base + done, len(todo))
            finished += len(part)
            new = self._embedder.embed([text for _, text in part], report)
            self._known.update(zip((value for value, _ in part), new, strict=True))
            shard = self._folder / f"{self._slug}-{part[0][0].hex()[:16]}.npz"
            self._write(shard, [value for value, _ in part])
            self._shards.add(shard)
        if not len(hashes):
            return np.zeros((0, self._embedder.dimensions), np.float32)
        return np.stack([self._known[value] for value in hashes])

    def compact(self, hashes: Sequence[bytes]) -> None:
        """Keep what of `hashes` is known, in one file; no other process may be writing."""
        whole = self._folder / f"{self._slug}.npz"
        if self._shards - {whole}:
            self._write(whole, hashes)
            for path in self._shards - {whole}:
                path.unlink(missing_ok=True)
            self._shards = {whole}

    def write_seed(self, hashes: Sequence[bytes]) -> Path:
        """Write the tracked seed cache, so that a fresh clone embeds nothing."""
        self._write(self._seed, hashes, mode=None)
        return self._seed

    def _write(self, path: Path, hashes: Iterable[bytes], mode: int | None = 0o600) -> None:
        hashes = sorted(self._known.keys() & set(hashes))
        data = io.BytesIO()
        rows = np.frombuffer(b"".join(hashes), np.uint8).reshape(len(hashes), 32)
        vectors = np.stack([self._known[value] for value in hashes])
        np.savez_compressed(
            data,
            hashes=rows,
            vectors=vectors,
            checksum=np.array(_checksum(rows, vectors)),
            model=np.array(self._embedder.model_id),
        )
        atomic_write(path, data.getvalue(), mode=mode)
