"""What an index keeps of each chunk, for who takes it to another engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class StoredChunk:
    """One chunk in the order of the index; `words` and `title_words` are the terms that it is found by.

    `ancestors` are the headings above its text, `words` those of ancestors and text. `vector` is None where
    the index has no embedding model.
    """

    number: int
    chunk_id: str
    doc_id: str
    title: str
    ancestors: str
    text: str
    metadata: Mapping[str, Any]
    front_matter: Mapping[str, Any]
    words: tuple[str, ...]
    title_words: tuple[str, ...]
    vector: NDArray[np.float32] | None


def ancestors_of(path: list[str], own_words: int, words_of_path: int) -> list[str]:
    """Return the headings above a chunk's text: the whole path where its words are counted besides the text's own.

    >>> ancestors_of(["Guide", "Setup"], own_words=2, words_of_path=2), ancestors_of(["Guide", "Setup"], 1, 2)
    (['Guide', 'Setup'], ['Guide'])
    """
    return path if own_words == words_of_path else path[:-1]
