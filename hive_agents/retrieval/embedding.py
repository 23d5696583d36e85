"""What a source of vectors gives the vector lane: unit vectors, and the pieces that it reads a text in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class TokenCounter(Protocol):
    """Word pieces of an embedding model, without special tokens and without truncation."""

    def count_tokens(self, text: str) -> int: ...

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each piece, in characters of `text`, ascending."""
        ...

    def piece_starts(self, text: str) -> NDArray[np.int64]:
        """Where the word of each piece begins, ascending; fast, for what only counts pieces between words."""
        ...


class Embedder(TokenCounter, Protocol):
    """Texts to vectors; safe to share between threads."""

    @property
    def model_id(self) -> str:
        """Changes whenever the vectors would: the model's name, its hash, the version of the pooling."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Shape `(len(texts), dimensions)`, rows of unit length, an empty text's too.

        A text's vector doesn't depend on the other texts. `progress` gets the number of texts finished so far.

        Raises: HIVE-401 if the model is missing or isn't the one expected.
        """
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """A question's vector, of shape `(dimensions,)` and unit length; some models read it otherwise than a document.

        Raises: HIVE-401, as `embed`.
        """
        ...


def cores() -> int:
    """Return how many texts are embedded side by side: one a core that this process may use, 8 at most."""
    available = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(available, 8)
