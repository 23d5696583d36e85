"""Which words of a sentence name a value of a field, before it is asked whether they filter."""

from __future__ import annotations

from dataclasses import dataclass

from hive_agents.copilot.synonyms import Role
from hive_agents.copilot.vocabulary import LONGEST, Meaning, Vocabulary
from hive_agents.copilot.wording import EMPTY, Word

_INSIDE_PHRASES = frozenset({"", "-", "&", "/", "'", "’", "_"})


@dataclass(frozen=True)
class Mention:
    """Words `first` to `last`; `shy`: they are also a word of grammar or a number, so that only a clear cue counts."""

    first: int
    last: int
    meanings: tuple[Meaning, ...]
    noun: bool
    shy: bool

    def meaning(self, *roles: Role) -> Meaning | None:
        """The first meaning whose field has one of these roles; without roles the likeliest."""
        return next((meaning for meaning in self.meanings if not roles or meaning.role in roles), None)


def mentions(sentence: list[Word], vocabulary: Vocabulary, taken: frozenset[int]) -> list[Mention]:
    """Values that a sentence names, from left to right, the longest phrase at each place, none across `taken` ones."""
    shouted = sum(word.text.isupper() for word in sentence) * 2 > len(sentence) > 2
    found: list[Mention] = []
    place = 0
    while place < len(sentence):
        mention = _longest(sentence, place, vocabulary, taken, shouted)
        if mention is not None:
            found.append(mention)
        place = mention.last + 1 if mention else place + 1
    return found


def _longest(
    sentence: list[Word], place: int, vocabulary: Vocabulary, taken: frozenset[int], shouted: bool
) -> Mention | None:
    longest = 0
    while longest < LONGEST and place + longest < len(sentence) and place + longest not in taken:
        if longest and sentence[place + longest].gap.strip() not in _INSIDE_PHRASES:
            break
        longest += 1
    for length in range(longest, 0, -1):
        phrase = sentence[place : place + length]
        meanings = vocabulary.meanings([word.lower for word in phrase])
        if meanings:
            return _mention(phrase, place, meanings, shouted)
    return None


def _mention(phrase: list[Word], place: int, meanings: tuple[Meaning, ...], shouted: bool) -> Mention:
    only = phrase[0]
    plain = len(phrase) == 1 and (only.lower in EMPTY or len(only.lower) == 1)
    typed_as_name = only.text.isupper() and not shouted and len(only.text) > 1
    number = all(word.lower.replace(".", "").isdigit() for word in phrase)
    plural = (
        meanings[0].role == "status" and only.lower.endswith("s") and not str(meanings[0].value).lower().endswith("s")
    )
    noun = meanings[0].noun or plural
    return Mention(place, place + len(phrase) - 1, meanings, noun, (plain and not typed_as_name) or number)
