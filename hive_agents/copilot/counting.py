"""What a question counts, and the numbers of a sentence that count something."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hive_agents.copilot.language import answer_pattern
from hive_agents.copilot.wording import PlacedWord, is_small, placed_words

_DIGITS = re.compile(r"\d+")


def counted(question: str, language: str) -> frozenset[str]:
    """Return the stems of what a question counts: the noun behind "how many"."""
    found = answer_pattern("asks.how_many").search(question)
    if found is None or answer_pattern("asks.how_long").search(question):
        return frozenset()
    run: list[PlacedWord] = []
    for word in placed_words(question[found.end() :], language):
        if is_small(word.text):
            break
        run.append(word)
    capitals = [word for word in run if word.text[0].isupper()]
    plural = [word for word in run if word.text.endswith("s")]
    german = found[0].lower().startswith("wie")
    heads = (capitals or run[:1]) if german else (plural or run)[-1:]
    return frozenset(stem for word in heads for stem in word.stems)


def is_number(word: PlacedWord, sentence: str) -> bool:
    if answer_pattern("tells.number", r"(?:{})").fullmatch(word.text):
        return True
    before = sentence[: word.start]
    named = re.search(r"[\w.]-$|\w\.$|\($", before) or answer_pattern("asks.names", r"\b(?:{})\s$").search(before)
    return bool(_DIGITS.fullmatch(word.text)) and not named


def ends_phrase(sentence: str, found: Sequence[PlacedWord], number: int) -> bool:
    """Whether nothing else is counted by a number: it is followed by a sign, a small word or nothing."""
    if number + 1 == len(found):
        return True
    gap = sentence[found[number].end : found[number + 1].start]
    return gap.strip() != "" or is_small(found[number + 1].text)
