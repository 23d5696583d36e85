"""Typing mistakes in a question, mended by the words of the documents that the reader may view."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hive_agents.copilot.asking import content_terms
from hive_agents.copilot.language import words
from hive_agents.retrieval import ScopedIndex, WordPieces, terms

SHORTEST, LONGEST = 5, 24
"""Letters of a word in which one may be wrong."""
_VOCABULARY = WordPieces()
"""Splits what isn't a frequent word of English into pieces."""
_SPELLINGS = (("our", "or"), ("([iy])s(?=e|ing|ation)", r"\1z"), ("tre$", "ter"), ("nc(?=e)", "ns"), ("ll", "l"))
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def corrections(index: ScopedIndex, text: str) -> dict[str, str]:
    """Return the words of a text that no document has, each with the word of the documents that was surely meant.

    One letter is missing, too many, another one or swapped with its neighbour, but not the first, nor the last unless
    swapped: a change there makes another word more often than it mends one. Of several words the most frequent is
    taken. Names, figures, what stands in quotes, and words of the language are left alone: who asks for bread where
    documents speak of a broad band asks for something else; but who asks for a licence wants a license, too.
    """
    content = set(content_terms(text, index.language))
    found: dict[str, str] = {}
    for word in words(text):
        stems = terms(word.text, index.language)
        if word.quoted or not _may_be_wrong(word.text) or not content.issuperset(stems) or _known(index, stems):
            continue
        variants = list(dict.fromkeys(_one_letter_away(word.lower)))
        if _VOCABULARY.count_tokens(word.lower) == 1:
            variants = [variant for variant in variants if _spelled_alike(variant) == _spelled_alike(word.lower)]
        if not variants:
            continue
        stemmed = [terms(variant, index.language) for variant in variants]
        counts = index.frequencies([stem[0] if len(stem) == 1 else "" for stem in stemmed])
        best = max(range(len(variants)), key=lambda n: counts[n])
        if counts[best]:
            found[word.text] = variants[best]
    return found


def still_known(index: ScopedIndex, corrected: Mapping[str, str]) -> bool:
    """Whether every word that mended another stands in a document that the reader may view now."""
    return all(_known(index, terms(word, index.language)) for word in corrected.values())


def mended(text: str, corrected: Mapping[str, str]) -> str:
    """Return the text with each of the words replaced.

    >>> mended("Rotate a tokne, please", {"tokne": "token"})
    'Rotate a token, please'
    """
    for wrong, right in corrected.items():
        text = re.sub(rf"\b{re.escape(wrong)}\b", right, text)
    return text


def _may_be_wrong(word: str) -> bool:
    return SHORTEST <= len(word) <= LONGEST and word.isalpha() and word[1:].islower()


def _spelled_alike(word: str) -> str:
    """Return what the spellings of a word on both sides of the Atlantic have in common.

    >>> [_spelled_alike(word) for word in ("licence", "license", "colours", "colors", "organise", "centre")]
    ['license', 'license', 'colors', 'colors', 'organize', 'center']
    """
    for here, there in _SPELLINGS:
        word = re.sub(here, there, word)
    return word


def _known(index: ScopedIndex, stems: list[str]) -> bool:
    return all(index.frequencies(stems))


def _one_letter_away(word: str) -> Iterator[str]:
    """Yield the words that one letter turns this one into; those with the same letters first."""
    inside = range(1, len(word) - 1)
    yield from (word[:n] + word[n + 1] + word[n] + word[n + 2 :] for n in inside)
    yield from (word[:n] + word[n + 1 :] for n in inside)
    yield from (word[:n] + letter + word[n:] for n in range(1, len(word)) for letter in _LETTERS)
    yield from (word[:n] + letter + word[n + 1 :] for n in inside for letter in _LETTERS if letter != word[n])
