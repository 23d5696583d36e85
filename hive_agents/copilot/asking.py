"""The words of a question that tell what it is about, and their weights."""

from __future__ import annotations

from collections.abc import Mapping

from hive_agents.copilot.language import every_pattern
from hive_agents.documents import analysis, content, content_terms, function_terms, names_in, spoken_language
from hive_agents.index import ScopedIndex
from hive_agents.ranking import idf

FieldWeights = Mapping[str, float]
"""The weight of each content term of a question: higher where fewer of the reader's chunks have it, 0 where none."""


def asked_terms(question: str, language: str) -> list[str]:
    """Return the content terms of a question without the words that only give its kind.

    >>> asked_terms("How long is a key valid?", "english"), asked_terms("how many?", "english")
    (['key', 'valid'], ['how', 'mani'])
    """
    rest = every_pattern("form").sub(" ", question)
    small = function_terms(language, spoken_language(question, language))
    asked = [term for term in dict.fromkeys(content.word_terms(rest, language)) if term not in small]
    return asked or content_terms(question, language)


def weights_in(index: ScopedIndex, question: str) -> FieldWeights:
    """Return the weights of a question's words in the documents that the reader may view."""
    asked = asked_terms(question, index.language)
    counts = index.frequencies(asked)
    return {term: idf(index, count) if count else 0.0 for term, count in zip(asked, counts, strict=True)}


def passage_weights(index: ScopedIndex, question: str) -> FieldWeights:
    """Return `weights_in`, and those of the names in exact writing that documents have: pump-17 and not pump 17."""
    written = sorted(names_in(question, index.language))
    counts = zip(written, index.frequencies(written), strict=True)
    return {**{term: idf(index, count) for term, count in counts if count}, **weights_in(index, question)}


def unnamed(question: str) -> str | None:
    """Return the pronoun of a question that refers to an earlier message; None without one.

    >>> unnamed("how long is it valid?"), unnamed("Is it possible to run it twice?"), unnamed("What time is it?")
    ('it', None, None)
    """
    pronoun = every_pattern("elliptic").search(question)
    if pronoun is None or every_pattern("expletive").search(question):
        return None
    before = telling_words(question[: pronoun.start()])
    ends = not question[pronoun.end() :].strip(" ?!.")
    if len(before) > (1 if ends else 0):  # at the end a verb may come before it: "who approves it?"
        return None
    return pronoun[0].strip(" ?!.")


def telling_words(text: str) -> list[str]:
    """Return the words of a text that are function words of no language, without those that give a question's kind."""
    rest = every_pattern("form").sub(" ", text)
    return [word[0] for word in analysis.found_words(rest) if not content.is_small(word[0])]
