"""The words of a question that carry its meaning, and where they stand in a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from hive_agents.retrieval.analysis import terms

_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
# Marked or counted as matches, they would make every sentence look like an answer.
_FUNCTION_WORDS = {
    "english": """a about after again all already also although am an and another any anybody anyone are as at
        be because been before being both but by can can't cannot could did didn't do does doesn't don't each
        either else ever every exactly for from get gets getting give got had has have he her him his how
        how's i i'd i'm i've if in into is isn't it it's its just know let's like many may me might more most
        much must my need needs no nobody not now of off ok okay on once one or other our out over own perhaps
        please quite rather really same she should show since so some somebody someone something still such
        tell than that that's the their them then there there's these they this those though through to too
        under until up us use used uses using very want wants was wasn't we were what what's when where which
        while who who's whom whose why will with without won't would yes yet you your""",
    "german": """aber alle als am an auch auf aus bei bin bis das dass dem den der des die dies diese diesem diesen
        dieser dieses doch du durch ein eine einem einen einer eines er es für haben hat hatte ich ihr im in ist kann
        kein keine können man mein meine mich mir mit muss müssen nach nicht noch nun nur ob oder ohne sein sie sind so
        soll sollte um und uns unter vom von vor wann war warum was weil welche welcher welches wenn wer werden wie wir
        wird wo wurde zu zum zur über""",
}


def content_terms(text: str, language: str) -> list[str]:
    """Stemmed words in order, each once, without function words; all of them where there are no others.

    >>> content_terms("How do I rotate the keys?", "english"), content_terms("Who is who?", "english")
    (['rotat', 'key'], ['who', 'is'])
    """
    found = list(dict.fromkeys(terms(text, language)))
    function_terms = _function_terms(language)
    return [term for term in found if term not in function_terms] or found


def spans(text: str, wanted: frozenset[str], language: str) -> list[tuple[int, int, str]]:
    """(start, end, term) of each word in `text` whose stem is wanted, in order.

    >>> spans("Rotated keys", frozenset({"key"}), "english")
    [(8, 12, 'key')]
    """
    found = []
    for start, end, own in _words(text, language):
        term = next((term for term in own if term in wanted), None)
        if term is not None:
            found.append((start, end, term))
    return found


@lru_cache(maxsize=4096)
def forms(text: str, language: str) -> Mapping[str, frozenset[str]]:
    """The terms of a text, each with the words that it stands for there; not to be changed.

    >>> forms("Keys: a key", "english")["key"] == {"keys", "key"}
    True
    """
    found: dict[str, set[str]] = {}
    for start, end, own in _words(text, language):
        for term in own:
            found.setdefault(term, set()).add(text[start:end].lower())
    return {term: frozenset(words) for term, words in found.items()}


@lru_cache(maxsize=4096)
def _words(text: str, language: str) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """A turn looks at the same sentences for its answer, its excerpts and its reasons."""
    return tuple((word.start(), word.end(), tuple(terms(word[0], language))) for word in _WORD.finditer(text))


@lru_cache(maxsize=32)
def _function_terms(language: str) -> frozenset[str]:
    """Those of the index's language; of English where the index stems none, or one without a list."""
    listed = _FUNCTION_WORDS.get(language, _FUNCTION_WORDS["english"])
    return frozenset(terms(listed, language))
