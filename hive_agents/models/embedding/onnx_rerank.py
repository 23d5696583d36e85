"""A `Reranker` of an ONNX cross-encoder: a folder with `model.onnx` and its `tokenizer.json`."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from hive_agents.base import HiveError
from hive_agents.base.files import read_bytes
from hive_agents.models.embedding.onnx_session import BoundedSession
from hive_agents.workspace import Workspace, trusted, trusted_bytes

FILES = ("model.onnx", "tokenizer.json")
BATCH = 16
LONGEST = 512
"""Most tokens of a pair, the limit of most cross-encoders; the text is truncated, the query isn't."""


class OnnxReranker:
    """A reranker that is safe to share between threads; `model_id` is a hash of the files.

    A computation may take `seconds`. Raises: HIVE-401 for missing or unusable files and a folder outside of the
    workspace, HIVE-431 for files that aren't trusted, HIVE-114 for links.
    """

    def __init__(self, workspace: Workspace, folder: str, seconds: float) -> None:
        self._shown, self._seconds = f"onnx:{folder}", seconds
        self._lock = threading.Lock()
        named_in_file = "reranker" in workspace.settings.in_file.get("models", {})
        place = Path(os.path.abspath(workspace.root / folder))
        if named_in_file and not place.is_relative_to(workspace.root):
            raise self._unusable("it is outside of the workspace")
        read = partial(trusted_bytes, workspace) if named_in_file else read_bytes
        try:
            self._model, self._tokens = (read(place / name, most=trusted.MODEL_BYTES) for name in FILES)
        except OSError as error:
            raise self._unusable(f"there is no {Path(str(error.filename)).name}") from None

    @cached_property
    def model_id(self) -> str:
        return f"onnx-{hashlib.sha256(self._model + self._tokens).hexdigest()[:16]}"

    def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the model's logits, in the order of `texts`; of several classes the last one."""
        # By length: pairs of a batch are padded to the longest.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        scores = np.zeros(len(texts))
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            scores[part] = self._scores(query, [texts[index] for index in part])
        return [float(score) for score in scores]

    def _scores(self, query: str, texts: list[str]) -> Any:
        try:
            with self._lock:  # padding is state of the tokenizer
                encoded = self._tokenizer.encode_batch([(query, text) for text in texts])
            rows = {
                "input_ids": [one.ids for one in encoded],
                "attention_mask": [one.attention_mask for one in encoded],
                "token_type_ids": [one.type_ids for one in encoded],
            }
            inputs = {one.name: np.asarray(rows[one.name], np.int64) for one in self._session.get_inputs()}
            logits = np.asarray(self._session.run(None, inputs)[0], np.float64)
        except HiveError:
            raise
        except Exception as error:  # the errors of runtime and tokenizer share no base
            raise self._unusable(f"{type(error).__name__}: {error}"[:300]) from None
        if logits.ndim not in (1, 2) or len(logits) != len(texts) or not np.all(np.isfinite(logits)):
            raise self._unusable(f"it gives shape {logits.shape} for {len(texts)} texts, and no score for each")
        return logits if logits.ndim == 1 else logits[:, -1]

    @cached_property
    def _session(self) -> BoundedSession:
        return BoundedSession(self._model, self._seconds)

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            why, fix = "an ONNX reranker needs tokenizers", 'pip install "hive-agents[rerank]"'
            raise HiveError.of("HIVE-411", why, file="hive.toml", path="models.reranker", fix=fix) from None
        tokenizer = Tokenizer.from_buffer(self._tokens)
        tokenizer.enable_truncation(LONGEST, strategy="only_second")
        padding = tokenizer.token_to_id("[PAD]")
        tokenizer.enable_padding(pad_id=0 if padding is None else padding)
        return tokenizer

    def _unusable(self, why: str) -> HiveError:
        fix = "name a folder with model.onnx and tokenizer.json of a cross-encoder"
        message = f'"{self._shown}" cannot be used: {why}'
        return HiveError.of("HIVE-401", message, file="hive.toml", path="models.reranker", fix=fix, exit_code=3)
