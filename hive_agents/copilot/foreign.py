"""Questions in another language than the documents: what is searched for, in the documents' language.

Word by word from a glossary of everyday words, without those that carry no meaning: they are rare in documents of
another language, so that they would weigh more than what is asked for. What the glossary hasn't stays: names, numbers,
and words that both languages write alike.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from weakref import WeakKeyDictionary

import numpy as np

from hive_agents.copilot.forms import unaccented
from hive_agents.copilot.language import in_english, word_list, words
from hive_agents.documents import LANGUAGES, function_words, language_of, spoken_language, terms
from hive_agents.index import BM25Params, ScopedIndex

_CODES = ("en", "de", "fr", "es")
_NAMES = {code: name for name, code in LANGUAGES.items()}
_COMMONEST = {"en": "the of and", "de": "der und das", "fr": "les des une", "es": "el los una"}
"""Words that most passages of a language have, and few of another one."""
_LEAST, _FEW = 0.1, 0.01
"""The share of the commonest words below which documents are in no language that is known, and of passages with two
of them from which some documents are in it."""
_SHORTEST_PART, _JOINTS = 3, ("", "s", "es", "n", "en")
_VERB = 2
"""The last place of a verb whose prefix ends a German question: "wie melde ich mich … an"."""
_WORD = re.compile(r"(?<![\w.:/@\\'’])(?:(?:[cdjlmnst]|qu)['’])?([^\W\d_]+(?:['’]s)?)(?![\w@/\\]|[.:]\w)", re.I)
"""A word by itself with what is elided before it: none of what is written joined, such as `max_tokens`."""

_shares: WeakKeyDictionary[ScopedIndex, tuple[Mapping[str, float], Mapping[str, float]]] = WeakKeyDictionary()


def searched_for(index: ScopedIndex, text: str) -> str:
    """Return the text to search for: a question in another language than the documents' in theirs, others unchanged.

    Where a few documents are in the question's language, it is searched for in both.
    """
    usual, whole = _languages(index)
    target = max(_CODES, key=lambda code: usual[code])
    asked = _asked_in(index, text, target) if usual[target] >= _LEAST else target
    if usual[asked] * 2 >= usual[target]:
        return text
    translated = _in_words(index, text, asked, target)
    return f"{text} {translated}" if whole[asked] >= _FEW and translated != text else translated


def in_terms(text: str, known: Callable[[str], bool]) -> str:
    """Return a message in another language by words for lists in English, and others by what they mean if that is
    `known`; one in English as it is."""
    english = in_english(text)

    def meant(found: re.Match[str]) -> str:
        word = found[1].lower()
        glosses = (gloss for code in _CODES[1:] * (not known(word)) for gloss in _glosses(word, code, "en"))
        return next((gloss for gloss in glosses if known(gloss)), found[0])

    return text if english == text else _WORD.sub(meant, english)


def _languages(index: ScopedIndex) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return of each language what share of the reader's passages has one of its commonest words, and two of them."""
    if index not in _shares:
        usual, whole = dict[str, float](), dict[str, float]()
        for code, commonest in _COMMONEST.items():
            wanted, every = terms(commonest, language_of(index.language)), np.arange(index.n_chunks)
            having = np.array(index.having(wanted, every, BM25Params()))
            usual[code] = float(np.mean(having)) if index.n_chunks else 0.0
            whole[code] = float(np.mean(having.sum(axis=0) > 1)) if index.n_chunks else 0.0
        _shares[index] = usual, whole
    return _shares[index]


def _asked_in(index: ScopedIndex, text: str, documents: str) -> str:
    """Return the language of a question, by its function words; of one without them, by words that no document has."""
    asked = [word.lower for word in words(text)]
    unknown = [word for word in asked if not all(index.frequencies(terms(word, index.language)))]
    if any(word in function_words(code) for word in asked for code in _CODES):
        code = spoken_language(text, _NAMES[documents])
        small = sum(word in function_words(code) for word in asked)
        return code if unknown or small > 1 else documents  # "die casting" is English
    found = {code: sum(bool(_glosses(word, code, documents)) for word in unknown) for code in _CODES}
    code = max(_CODES, key=lambda each: found[each])
    return code if found[code] * 2 > len(asked) else documents


def _in_words(index: ScopedIndex, text: str, asked: str, target: str) -> str:
    """Return a question in another language, without the words that mean nothing unless there are no others."""
    empty = function_words(asked) | (frozenset[str]() if asked == "en" else word_list("asked", "empty", asked))
    sentence = words(text)
    quoted = {word.start for word in sentence if word.quoted}
    verbs = [word.start for word in sentence[: _VERB + 1]] if asked == "de" else []
    told: set[str] = set()

    def in_target(found: re.Match[str]) -> str:
        word = found[1].lower()
        if found.start(1) in quoted:
            return found[0]
        meant = found.start() in verbs and _glossary("de", target).get(_key(sentence[-1].lower + word, "de"))
        meant = meant or (() if word in empty else _glosses(word, asked, target) or (found[1],))
        if meant and all(index.frequencies(terms(word, index.language))):
            meant = (found[1], *meant)  # they have the word itself, too, as English words stand in German pages
        new = [each for each in dict.fromkeys(meant) if each not in told]
        told.update(new)
        return " ".join(new)

    parts = (part.lstrip("¿¡").rstrip("?!,;:.") for part in _WORD.sub(in_target, text).split())
    return " ".join(part for part in parts if words(part)) or text


def _glosses(word: str, asked: str, target: str) -> tuple[str, ...]:
    """Return what a word means in another language; of a German compound what its two parts mean."""
    glossary = _glossary(asked, target)
    if asked != "de" or _key(word, asked) in glossary:
        return glossary.get(_key(word, asked), ())
    for place in range(len(word) - _SHORTEST_PART, _SHORTEST_PART, -1):
        right = glossary.get(_key(word[place:], asked))
        for joint in _JOINTS if right else ():
            left = glossary.get(_key(word[:place].removesuffix(joint), asked))
            if right and left and word[:place].endswith(joint):
                return (*left, *right)
    return ()


@cache
def _glossary(asked: str, target: str) -> Mapping[str, tuple[str, ...]]:
    """Return the words of one language that stand for those of another, by their stems."""
    glossary = defaultdict[str, tuple[str, ...]](tuple)
    for line in (files(__package__) / "glossary.txt").read_text("utf-8").splitlines()[1:]:
        columns = dict(zip(_CODES, (column.split() for column in line.split("|")), strict=True))
        for word in columns[asked]:
            if word not in function_words(asked):
                glossary[_key(word, asked)] += tuple(columns[target])
    return {word: tuple(dict.fromkeys(meant)) for word, meant in glossary.items()}


def _key(word: str, code: str) -> str:
    """Return the stem of a word; without accents but in German, where they make another word."""
    stem = terms(word, _NAMES[code])[0]
    return stem if code == "de" else unaccented(stem)
