"""Embedding by a service that limits the number of texts a request, and their length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError


def embedded(
    texts: Sequence[str],
    request: Callable[[list[str]], NDArray[np.float64]],
    *,
    dimensions: int,
    longest: int,
    batch: int,
    at_once: int,
    without_direction: Callable[[], HiveError],
    progress: Callable[[int], None] | None = None,
) -> NDArray[np.float32]:
    """Return unit vectors, shape `(len(texts), dimensions)`.

    A text longer than `longest` characters gets the mean of its parts, weighted by length. `request` is called with up
    to `batch` parts, from `at_once` threads; `progress` gets the number of finished texts.

    Raises: `without_direction()` for a vector of zeros, and what `request` raises; no further batch is started then.
    """
    sums = np.zeros((len(texts), dimensions), np.float64)
    parts = [(row, part) for row, text in enumerate(texts) for part in _parts(text, longest)]
    batches = [parts[start : start + batch] for start in range(0, len(parts), batch)]
    with ThreadPoolExecutor(at_once) as pool:
        answers = pool.map(lambda sent: request([text for _, text in sent]), batches)
        try:
            for sent, vectors in zip(batches, answers, strict=True):
                for (row, text), vector in zip(sent, vectors, strict=True):
                    sums[row] += len(text) * vector / max(float(np.linalg.norm(vector)), 1e-12)
                if progress:
                    progress(sent[-1][0] + (1 if sent is batches[-1] else 0))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    if not np.all(norms > 0):
        raise without_direction()
    return np.asarray(sums / norms, np.float32)


def sendable(text: str) -> str:
    """Return the text as every service accepts it: not blank, without lone surrogates."""
    return text.encode(errors="replace").decode() if text.strip() else "."


def _parts(text: str, longest: int) -> list[str]:
    text = sendable(text)
    count = -(-len(text) // longest)
    edges = [len(text) * part // count for part in range(count + 1)]
    return [sendable(text[start:end]) for start, end in pairwise(edges)]
