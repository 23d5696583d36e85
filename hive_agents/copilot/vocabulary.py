"""The words that filter: values of the fields of documents that the reader may view, and other words for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TypeVar

from hive_agents.copilot.plan import FilterValue
from hive_agents.copilot.synonyms import CUE_NOUNS, GROUPS, KIND_NOUNS, Role, date_role_of, parts, role_of
from hive_agents.retrieval.analysis import terms
from hive_agents.retrieval.analysis import words as spell
from hive_agents.retrieval.collection import Collection, FieldType

_SHORTEST_MISSPELT, _LONGEST_MISSPELT = 8, 40
_INFLECTIONS = frozenset({"", "s", "es", "ies", "y"})
_VOWELS = frozenset("aeiouy")
_Found = TypeVar("_Found")
LONGEST = 5
"""Words in the longest phrase that can be a value."""


@dataclass(frozen=True)
class FieldWords:
    """One filterable field as a reader sees it.

    `values`: of visible documents, most documents first; empty for dates and numbers.
    `synonyms`: other words for a value.
    """

    type: FieldType
    values: tuple[str, ...] = ()
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Meaning:
    """What a phrase may stand for: a value of a field, `role` being what the field is to a reader."""

    field: str
    value: FilterValue
    role: Role
    noun: bool
    """Whether the value names documents ("tutorials") rather than describes them ("effective")."""


@dataclass(frozen=True)
class Vocabulary:
    """All filterable fields. Built from a scoped index it can't know what only hidden documents have."""

    fields: Mapping[str, FieldWords]

    @classmethod
    def of(cls, collection: Collection, values: Callable[[str], list[tuple[str, int]]]) -> Vocabulary:
        """`values(field)` gives the values that visible documents have, each with its number of documents."""
        fields: dict[str, FieldWords] = {}
        for name in collection.filterable:
            schema = collection.fields[name]
            if schema.type in ("date", "number"):
                fields[name] = FieldWords(schema.type)
                continue
            ranked = sorted(values(name), key=lambda pair: (-pair[1], pair[0]))
            visible = tuple(str(value) for value, _ in ranked)
            said = {value: tuple(schema.synonyms[value]) for value in visible if value in schema.synonyms}
            fields[name] = FieldWords(schema.type, visible, said)
        return cls(fields)

    def value(self, field: str, word: str) -> str | None:
        """The value of `field` that a word or phrase stands for, however it is inflected; None for any other word.

        >>> kb = Vocabulary({"kind": FieldWords("keyword", ("tutorials", "how-to"))})
        >>> kb.value("kind", "Tutorial"), kb.value("kind", "tutorails"), kb.value("kind", "recipe")
        ('tutorials', 'tutorials', None)
        """
        return next((str(m.value) for m in self.meanings(spell(word)) if m.field == field), None)

    def meanings(self, phrase: Sequence[str]) -> tuple[Meaning, ...]:
        """What lower-case words mean as one phrase; the value itself comes before synonyms and misspellings."""
        if not phrase:
            return ()
        found = _alike(phrase, self._phrases)
        if not found and len(phrase) == 1 and _SHORTEST_MISSPELT <= len(phrase[0]) + 1 <= _LONGEST_MISSPELT:
            near = (pair for shorter in _deletions(phrase[0]) for pair in self._misspelt.get(shorter, ()))
            found = list(dict.fromkeys(meaning for word, meaning in near if _one_edit(phrase[0], word)))
        return tuple(found)

    def of_type(self, *types: FieldType) -> list[str]:
        return [name for name, words in self.fields.items() if words.type in types]

    def in_role(self, role: Role) -> list[str]:
        return [name for name in self.of_type("keyword", "text") if role_of(name) == role]

    def date_fields(self, role: str | None = None) -> list[str]:
        return [name for name in self.of_type("date") if role is None or date_role_of(name) == role]

    def examples(self, most: int = 4) -> list[str]:
        """Values worth offering: of the field that sorts documents into kinds, else of any field with a choice."""
        fields = [*self.in_role("kind"), *self.in_role("status"), *self.of_type("keyword")]
        chosen = next((name for name in fields if len(self.fields[name].values) > 1), None)
        chosen = chosen or next((name for name in fields if self.fields[name].values), None)
        return list(self.fields[chosen].values[:most]) if chosen else []

    @cached_property
    def _phrases(self) -> dict[str, list[tuple[str, Meaning]]]:
        index: dict[str, list[tuple[str, Meaning]]] = {}
        for words, meaning in self._said:
            index.setdefault(_key(words), []).append(("".join(words), meaning))
        return index

    @cached_property
    def _misspelt(self) -> dict[str, list[tuple[str, Meaning]]]:
        index: dict[str, list[tuple[str, Meaning]]] = {}
        for words, meaning in self._said:
            if len(words) == 1 and _SHORTEST_MISSPELT <= len(words[0]) <= _LONGEST_MISSPELT:
                for shorter in _deletions(words[0]):
                    index.setdefault(shorter, []).append((words[0], meaning))
        return index

    @cached_property
    def _said(self) -> list[tuple[list[str], Meaning]]:
        """Every phrase and what it means, the surest first: values, the collection's synonyms, general ones."""
        values: list[tuple[str, Meaning]] = []
        own: list[tuple[str, Meaning]] = []
        general: list[tuple[str, Meaning]] = []
        for name, words in self.fields.items():
            role = role_of(name)
            if words.type == "boolean":
                values.append((" ".join(parts(name)), Meaning(name, True, "status", False)))
                continue
            for value in words.values:
                meaning = Meaning(name, value, role, role == "kind" or _names_documents(value))
                values.append((value, meaning))
                own += [(said, meaning) for said in words.synonyms.get(value, ())]
                general += [(said, meaning) for said in _general(value)]
        spelt = [(spell(said), meaning) for said, meaning in (*values, *own, *general)]
        return [(phrase, meaning) for phrase, meaning in spelt if 0 < len(phrase) <= LONGEST]


def cue_stems(meaning: Meaning) -> frozenset[str]:
    """Stems of the words that name the meaning's field beside a value: "department", "tagged"."""
    named = parts(meaning.field)
    return frozenset(terms(" ".join((*CUE_NOUNS.get(meaning.role, ()), *named[:1], *named[-1:]))))


def _general(value: str) -> list[str]:
    words = spell(value)
    return [said for group in _alike(words, _groups()) for said in group if said != value]


def _names_documents(value: str) -> bool:
    return bool(_alike(spell(value)[-1:], _kind_nouns()))


def _alike(words: Sequence[str], index: Mapping[str, list[tuple[str, _Found]]]) -> list[_Found]:
    """What an index has for words that differ in number at most."""
    if not words:
        return []
    said = "".join(words)
    return list(dict.fromkeys(found for word, found in index.get(_key(words), ()) if _inflected(said, word)))


@cache
def _groups() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    index: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for group in GROUPS:
        for words in map(spell, group):
            index.setdefault(_key(words), []).append(("".join(words), group))
    return index


@cache
def _kind_nouns() -> dict[str, list[tuple[str, str]]]:
    return {_key([noun]): [(noun, noun)] for noun in KIND_NOUNS}


def _key(words: Sequence[str]) -> str:
    # Joined, so that "change log", "change-log" and "changelog" are one phrase.
    joined = "".join(words)
    if joined.endswith("s") and not _VOWELS.intersection(joined):  # Snowball leaves "rfcs" as it is
        joined = joined[:-1]
    return "".join(terms(joined))


def _inflected(word: str, value: str) -> bool:
    """Whether two words of one stem differ in number only: "retire" isn't "retired", nor "effect" "effective"."""
    differing = (n for n, (left, right) in enumerate(zip(word, value, strict=False)) if left != right)
    same = next(differing, min(len(word), len(value)))
    return {word[same:], value[same:]} <= _INFLECTIONS


def _deletions(word: str) -> list[str]:
    return [word, *dict.fromkeys(word[:n] + word[n + 1 :] for n in range(1, len(word)))]


def _one_edit(word: str, value: str) -> bool:
    """One letter more, less or other, or two swapped.

    >>> [_one_edit("tutorails", "tutorials"), _one_edit("efective", "effective"), _one_edit("abc", "cba")]
    [True, True, False]
    """
    if abs(len(word) - len(value)) > 1:
        return False
    n = next((n for n, pair in enumerate(zip(word, value, strict=False)) if pair[0] != pair[1]), None)
    if n is None:
        return len(word) != len(value)
    swapped = word[n : n + 2] == value[n : n + 2][::-1] and word[n + 2 :] == value[n + 2 :]
    return swapped or value[n + 1 :] in (word[n:], word[n + 1 :]) or value[n:] == word[n + 1 :]
