"""Saying nothing: an empty list where nothing in the index is near a query, neither by meaning nor by words.

That is where the best cosine is below the floor of the index, no chunk among the keyword lane's first has half of what
the query's words weigh, and the query isn't in another language than the documents.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from weakref import WeakKeyDictionary

import numpy as np

from hive_agents.documents import (
    LANGUAGES,
    analysis,
    content_terms,
    function_words,
    language_of,
    names_in,
    spoken_language,
    terms,
    words,
)
from hive_agents.index import BM25Params, ChunkNumbers, LaneIndex
from hive_agents.ranking.excerpts import plain_sentences
from hive_agents.ranking.lift import idf, kept_by_index

_SENTENCES = 200
"""Fewer give a floor that depends on which they are."""
_ENOUGH = 100
_USUAL = (("all-MiniLM-L6-v2", 0.3), ("multilingual-e5-small", 0.83))
"""Floors of models: over four bodies of documents it was .28 to .37, and .827 to .846 in English, German, French and
Spanish."""
_QUANTILE = 0.05
_LEAST_WORDS = 5
_READ, _NEAREST = 64, 20
_FOREIGN = 4
"""The fewest terms by which a query in another language is known."""
_SHORT = 4

_floors: WeakKeyDictionary[LaneIndex, float] = WeakKeyDictionary()


def is_answered(index: LaneIndex, query: str, first: ChunkNumbers, params: BM25Params = BM25Params()) -> bool:
    """Return whether a list is right whatever the cosines: the words are there, or they are of another language.

    `first` are the first chunks of the keyword lane.
    """
    return has_half(index, query, first, params) or is_foreign(index, query)


def has_half(index: LaneIndex, query: str, first: ChunkNumbers, params: BM25Params = BM25Params()) -> bool:
    """Return whether one of these chunks has half of the idf of the query's content; unknown words weigh most.

    What is a name by its form weighs twice: "when was KX67 bought" is about KX67, whatever is told of it. What is
    written of parts, as `maxRetries`, is there or not, whatever its parts weigh.
    """
    if not len(first):
        return False
    weights = _decisive_words(index, query, params)
    if weights is None:
        return True
    found = np.zeros(len(first))
    for weight, has in zip(weights.values(), index.having([*weights], first, params), strict=True):
        found += weight * has
    return bool(2 * found.max() >= sum(weights.values()))


@kept_by_index
def _decisive_words(index: LaneIndex, query: str, params: BM25Params) -> dict[str, float] | None:
    """Return the weight of each word of a query's content; None where one alone decides that half of them is there."""
    written, names = analysis.exact_writings(query, index.language), names_in(query, index.language)
    content = list(dict.fromkeys([*content_terms(query, index.language), *written]))
    if any(index.frequencies(sorted(analysis.whole_writings(query, index.language)), params)):
        return None
    counted = dict(zip(content, index.frequencies(content, params), strict=True))
    weights = {term: idf(index, count) * (2 if term in names else 1) for term, count in counted.items()}
    # A chunk has such a word, however far down common words put that chunk.
    alone = any(counted[term] and 2 * weight >= sum(weights.values()) for term, weight in weights.items())
    return None if alone else weights


def is_foreign(index: LaneIndex, query: str) -> bool:
    """Return whether a query is a sentence of another language, not all of whose words are known.

    Most function words of it are those of the other language. Of one without a list it has several words, fewer than
    half of them known, and most short ones are no function words of the index's language.
    """
    language = language_of(index.language)
    asked = sorted(set(terms(query, language)))
    unknown = {term for term, count in zip(asked, index.frequencies(asked, BM25Params()), strict=True) if not count}
    if unknown and language in LANGUAGES and spoken_language(query, language) != LANGUAGES[language]:
        return True
    if len(asked) < _FOREIGN or 2 * len(unknown) <= len(asked):
        return False
    small = function_words(LANGUAGES[language]) if language in LANGUAGES else frozenset[str]()
    own = [word for word in words(query) if word in small]
    short = {term for term in unknown if len(term) <= _SHORT and term.isalpha()}
    return len(short.difference(own)) > len(own)


def floor_of(index: LaneIndex) -> float:
    """Return the cosine below which nothing is near: of 200 sentences, one in twenty is less near to another document.

    It is measured on what the reader may view, when it is needed first. Of few sentences it is no less than is usual
    for the model; without any, and for a model that nothing is known of, it is -inf.
    """
    if index not in _floors:
        _floors[index] = _measured(index)
    return _floors[index]


def _measured(index: LaneIndex) -> float:
    usual = next((floor for name, floor in _USUAL if (index.embedding_model or "").startswith(name)), -np.inf)
    sampled = list(_sentences(index))
    if not sampled:
        return usual
    vectors = index.stored_vectors([sentence for _, sentence in sampled])
    lanes = index.vector_by(vectors, _NEAREST, None)
    own = index.document_numbers(np.array([chunk for chunk, _ in sampled], np.intp))
    best = []
    for vector, lane, document in zip(vectors, lanes, own.tolist(), strict=True):
        others = lane.scores[index.document_numbers(lane.chunks) != document]
        if not len(others):
            mask = index.document_numbers(np.arange(index.n_chunks)) != document
            others = index.vector_by(vector[None], 1, mask)[0].scores
        best += others[:1].tolist()
    measured = float(np.quantile(best, _QUANTILE)) if best else -np.inf
    return measured if len(best) >= _ENOUGH else max(measured, usual)


def _sentences(index: LaneIndex) -> Iterator[tuple[int, str]]:
    """Yield (chunk, sentence) of at most `_SENTENCES` chunks: the same ones as long as their texts stay."""
    ids = index.chunk_ids(np.arange(index.n_chunks))
    drawn = sorted((zlib.crc32(chunk_id.encode()), number) for number, chunk_id in enumerate(ids))
    left = _SENTENCES
    for start in range(0, len(drawn), _READ):
        part = drawn[start : start + _READ]
        for (draw, number), row in zip(part, index.rows([number for _, number in part]), strict=True):
            told = [text for _, text in plain_sentences(row.text) if len(words(text)) >= _LEAST_WORDS]
            if told and left:
                left -= 1
                yield number, told[draw % len(told)]
        if not left:
            return
