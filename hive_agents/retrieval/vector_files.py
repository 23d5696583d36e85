"""The vectors of a generation in `.hive/vectors`: written with their checksum, and read only if it holds.

To hash them at every opening would cost more than to open them: the record also says which file was found good, by
its size, time and number, and another file is hashed before it is used.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hive_agents.errors import HiveError
from hive_agents.files import atomic_write, opened, read_bytes
from hive_agents.retrieval.vectors import VectorIndex
from hive_agents.workspace import Workspace


def vectors_path(workspace: Workspace, generation: int) -> Path:
    return workspace.state_folder("vectors") / f"{generation}.npy"


def save_vectors(workspace: Workspace, generation: int, vectors: NDArray[np.float32]) -> None:
    data = io.BytesIO()
    np.save(data, vectors)
    path = vectors_path(workspace, generation)
    # The record first: without its file it is a file that is missing, and the other way round a file of unknown origin.
    digest = hashlib.sha256(data.getbuffer()).hexdigest()
    _record(path, digest, None)
    atomic_write(path, data.getvalue(), mode=0o600)
    _record(path, digest, _stamp(path))


def open_vectors(workspace: Workspace, generation: int, *, again: bool = False) -> VectorIndex:
    """Return the vectors, mapped and not read; `again` hashes them whatever was found before.

    Raises: OSError, ValueError or EOFError for a file that is missing, damaged or not the one that was written.
    """
    path = vectors_path(workspace, generation)
    vectors, stamp = VectorIndex.open(path), _stamp(path)
    digest, good = _recorded(path)
    if again or stamp != good:
        now = _digest(path)
        if digest is not None and now != digest:  # one of before there were checksums is taken as it is
            raise ValueError("their checksum is not the one they were written with")
        with suppress(HiveError):  # nobody can write here: then they are hashed each time
            _record(path, now, stamp)
    return vectors


def _beside(path: Path) -> Path:
    return path.with_suffix(".json")


def _record(path: Path, digest: str, stamp: list[int] | None) -> None:
    atomic_write(_beside(path), json.dumps({"sha256": digest, "good": stamp}).encode(), mode=0o600)


def _recorded(path: Path) -> tuple[str | None, list[int] | None]:
    try:
        told = json.loads(read_bytes(_beside(path)))
        return str(told["sha256"]), told["good"]
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError, LookupError, TypeError):
        return "", None  # a damaged record is borne out by nothing


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _digest(path: Path) -> str:
    with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
