"""A BM25 index of a few texts, in memory: for what is no document, and so in no generation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from hive_agents.documents import terms
from hive_agents.index.bm25 import BM25
from hive_agents.index.postings import Postings


class TextIndex:
    """Ranks texts by BM25, each named by its number; `language` is the analyzer's name.

    >>> index = TextIndex(["keys are rotated", "a lease ends in May", "keys and leases"], "english")
    >>> index.top(["key", "leas"], 2), index.frequencies(["key", "boat"])
    ([2, 0], [2, 0])
    """

    def __init__(self, texts: Sequence[str], language: str) -> None:
        found: Mapping[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = []
        for number, text in enumerate(texts):
            analyzed = terms(text, language)
            lengths.append(len(analyzed))
            for term, times in Counter(analyzed).items():
                found[term].append((number, times))
        self.n_chunks = self.n_docs = len(texts)
        self.lengths = np.array(lengths, np.int32)
        self._found = dict(found)
        self._ranked = BM25(self) if texts else None

    def postings(self, term: str) -> Postings | None:
        if term not in self._found:
            return None
        docs, times = (np.array(column, np.intp) for column in zip(*self._found[term], strict=True))
        nothing = np.empty(0, np.intp)
        return Postings(docs, times, nothing, nothing)

    def top(self, words: Sequence[str], k: int) -> list[int]:
        """Return the `k` best texts that have any of these terms, fewer if fewer have."""
        return [] if self._ranked is None else self._ranked.top(words, k)[0].tolist()

    def frequencies(self, words: Sequence[str]) -> list[int]:
        """Return the number of texts that have each term."""
        return [len(self._found.get(word, ())) for word in words]

    def has(self, number: int, word: str) -> bool:
        """Return whether a text has a term."""
        return any(number == one for one, _ in self._found.get(word, ()))
