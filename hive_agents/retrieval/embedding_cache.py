"""Document embeddings by content: an unchanged text is never embedded twice.

`.hive/embeddings/*.npz` is the cache; `embeddings/*.npz` in the workspace is a tracked seed, so that a
fresh clone embeds nothing. Both hold `hashes` (n, 32) uint8, `vectors` (n, dim) float32 and `model`.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hive_agents.files import atomic_write
from hive_agents.retrieval.embedding import Embedder
from hive_agents.workspace import Workspace

SHARD = 256  # texts embedded between two writes: what an interruption can cost


def text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class EmbeddingCache:
    def __init__(self, workspace: Workspace, embedder: Embedder) -> None:
        self._embedder = embedder
        self._slug = re.sub(r"[^A-Za-z0-9._-]+", "-", embedder.model_id)
        self._folder = workspace.state / "embeddings"
        self._seed = workspace.root / "embeddings" / f"{self._slug}.npz"
        self._known: dict[bytes, NDArray[np.float32]] = {}
        self._shards = sorted(self._folder.glob("*.npz"))
        for path in [self._seed, *self._shards]:
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as stored:
                if str(stored["model"]) != self._embedder.model_id:
                    return
                hashes, vectors = stored["hashes"], stored["vectors"]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return  # a damaged cache costs time, nothing else
        if vectors.shape == (len(hashes), self._embedder.dimensions) and vectors.dtype == np.float32:
            self._known.update(zip((row.tobytes() for row in hashes), vectors, strict=True))

    def missing(self, hashes: Sequence[bytes]) -> int:
        return len({value for value in hashes if value not in self._known})

    def vectors(
        self, hashes: Sequence[bytes], texts: Sequence[str], progress: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float32]:
        """Shape `(n, dimensions)`; embeds what isn't known yet, and saves it every `SHARD` texts."""
        wanted = {value: text for value, text in zip(hashes, texts, strict=True) if value not in self._known}
        todo = sorted(wanted.items(), key=lambda item: len(item[1]))
        for start in range(0, len(todo), SHARD):
            part = todo[start : start + SHARD]
            report = None if progress is None else lambda done, base=start: progress(base + done, len(todo))
            new = self._embedder.embed([text for _, text in part], report)
            self._known.update(zip((value for value, _ in part), new, strict=True))
            self._write(self._folder / f"{self._slug}-{part[0][0].hex()[:16]}.npz", [value for value, _ in part])
        if not len(hashes):
            return np.zeros((0, self._embedder.dimensions), np.float32)
        return np.stack([self._known[value] for value in hashes])

    def compact(self, hashes: Sequence[bytes]) -> None:
        """Keep what an index uses, in one file."""
        shards = sorted(self._folder.glob("*.npz"))
        whole = self._folder / f"{self._slug}.npz"
        if shards and shards != [whole]:
            self._write(whole, sorted(set(hashes)))
            for path in shards:
                if path != whole:
                    path.unlink(missing_ok=True)

    def write_seed(self, hashes: Sequence[bytes]) -> Path:
        """Write the tracked seed cache, so that a fresh clone embeds nothing."""
        self._write(self._seed, sorted(set(hashes)))
        return self._seed

    def _write(self, path: Path, hashes: Sequence[bytes]) -> None:
        data = io.BytesIO()
        np.savez_compressed(
            data,
            hashes=np.frombuffer(b"".join(hashes), np.uint8).reshape(len(hashes), 32),
            vectors=np.stack([self._known[value] for value in hashes]),
            model=np.array(self._embedder.model_id),
        )
        atomic_write(path, data.getvalue())
