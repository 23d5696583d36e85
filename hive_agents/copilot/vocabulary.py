"""The vocabulary of filters: fields, their values in documents that the reader may view, and synonyms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from hive_agents.copilot.forms import (
    VERSION,
    is_plural,
    is_version,
    one_edit,
    other_form,
    spaced,
    spelt,
    version_parts,
    word_key,
)
from hive_agents.copilot.language import word_list
from hive_agents.copilot.nouns import is_everyday, names_documents, names_of_documents, word_stems
from hive_agents.copilot.phrases import Phrases, groups, named_by, told_apart_by, unfinished, without_address
from hive_agents.copilot.plan import DocumentFilter, FilterValue, RouterDecision
from hive_agents.copilot.roles import (
    FOLDERS,
    JOINTS,
    FieldRole,
    are_alike,
    date_role_of,
    flag_of,
    holds,
    name_stems,
    parts,
    role_of,
    tells_rows,
)
from hive_agents.documents import Collection, FieldType, words as spell

LONGEST = 5
"""Words in the longest phrase that can be a value."""
_MISSPELT = range(8, 41)
"""Letters of a word that is found with one letter wrong, too."""
_ENDINGS = frozenset({"n", "en", "e", "s", "es"})
"""Endings of a value or a field's name in German."""
_TEXTS = ("keyword", "text")
_SIBILANT_PLURALS = ("ses", "xes", "zes")
_UMLAUTS = str.maketrans("äöü", "aou")
_SHORTEST_FORM, _SHORTEST_COMPOUND, _SHORTEST_PART = 6, 8, 4
"""Letters of a word in another form, of a compound, and of the part of it that names a field."""
_INSIDE_NAMES = frozenset({"of", "the", "in"})
"""Words between those of a field's name: "GB of memory" is `memory_gb`; "by" may stand for "de"."""
_YEAR, _YEARS = re.compile(r"(?:1\d{3}|20\d\d)(?: ?[(/].*)?"), 0.9
"""A year, with or without a remark, and the share of a column's cells that are years where it holds years."""


@dataclass(frozen=True)
class FieldWords:
    """A filterable field as a reader sees it.

    `values` are those of visible documents, the most frequent first; empty for dates and numbers.
    `synonyms` are other words for a value.
    """

    type: FieldType
    values: tuple[str, ...] = ()
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Meaning:
    """A meaning of a phrase: a value of a field."""

    field: str
    value: FilterValue
    role: FieldRole
    noun: bool
    """Whether the value names documents ("tutorials") rather than describes them ("effective")."""
    either: bool = False
    """Whether a phrase means all values of the field that it means one of: "1.12" of versions."""

    @property
    def is_topic(self) -> bool:
        """Whether the field's values may be topics of a text, and so content."""
        return self.role in ("topic", "other")


@dataclass(frozen=True)
class Vocabulary:
    """All filterable fields; built from a scoped index, it has no value of hidden documents.

    `noun` is what every document is by the folder that holds them all, if that is a plural: `tickets/`, or by the name
    of the files and the field with their numbers: `rule-12.md`, `rule: 12`; else empty.
    `folders` are the stems of all plural names of folders and, beside a noun, what else is said for it; `flags` the two
    values of columns of yes and no, or 1 and 0, `years` the columns that hold years, `nonzero` those of numbers without
    a 0, `usual` the field that has a value of several fields in most documents, `months` those of columns of dates,
    `joined` the fields that are called alike, of the one that stands for all of them, `several` those of which a
    document may have several values.
    """

    fields: Mapping[str, FieldWords]
    noun: str = ""
    folders: frozenset[str] = frozenset()
    flags: Mapping[str, tuple[FilterValue, FilterValue]] = field(default_factory=dict)
    years: Mapping[str, tuple[FilterValue, ...]] = field(default_factory=dict)
    usual: Mapping[str, str] = field(default_factory=dict)
    nonzero: frozenset[str] = frozenset()
    months: Mapping[str, frozenset[str]] = field(default_factory=dict)
    joined: Mapping[str, Sequence[str]] = field(default_factory=dict)
    several: frozenset[str] = frozenset()
    held: Callable[[str, str], frozenset[str]] | None = None
    """Tells which fields the documents of a category have, of its field and value."""

    @classmethod
    def of(
        cls,
        collection: Collection,
        values: Callable[[str], list[tuple[str, int]]],
        doc_ids: Sequence[str] = (),
        held: Callable[[str, str], frozenset[str]] | None = None,
        several: frozenset[str] = frozenset(),
    ) -> Vocabulary:
        """Return the vocabulary of a collection; `values` counts the visible documents of each value of a field."""
        fields: dict[str, FieldWords] = {}
        flags: dict[str, tuple[FilterValue, FilterValue]] = {}
        years: dict[str, tuple[FilterValue, ...]] = {}
        months: dict[str, frozenset[str]] = {}
        holders: dict[str, list[tuple[int, str]]] = {}
        nonzero: set[str] = set()
        joined: dict[str, list[str]] = {}
        texts = [name for name in collection.filterable if collection.fields[name].type in _TEXTS]
        for name in collection.filterable:
            schema = collection.fields[name]
            alike = [one for one in texts if schema.type in _TEXTS and are_alike(one, name)] or [name]
            if name != alike[0]:
                continue  # `authors` beside `author`: one field to a reader
            joined |= {name: alike} if len(alike) > 1 else {}
            counted = list(sum((Counter(dict(values(one))) for one in alike), Counter[str]()).items())
            if schema.type == "date":
                months |= {name: frozenset(str(value)[:7] for value, _ in counted)} if counted else {}
                counted = []  # they are no values that a sentence names
            flag = flag_of(schema.type, [value for value, _ in counted])
            flags |= {} if flag is None else {name: flag}
            of_years = {value: number for value, number in counted if _YEAR.fullmatch(str(value))}
            if of_years and sum(of_years.values()) >= _YEARS * sum(number for _, number in counted):
                years[name] = tuple(of_years)
            if schema.type in ("date", "number"):
                nonzero |= {name} if counted and {"0", "0.0"}.isdisjoint(str(value) for value, _ in counted) else set()
                fields[name] = FieldWords(schema.type)
                continue
            ranked = sorted(counted, key=lambda pair: (-pair[1], pair[0]))
            for value, count in ranked:
                holders.setdefault(value.lower(), []).append((count, name))
            visible = tuple(str(value) for value, _ in ranked)
            synonyms = {value: tuple(schema.synonyms[value]) for value in visible if value in schema.synonyms}
            fields[name] = FieldWords(schema.type, visible, synonyms)
        noun, called = names_of_documents(doc_ids, fields, values)
        shared = {value: found for value, found in holders.items() if len(found) > 1}
        usual = {value: max(found, key=lambda pair: pair[0])[1] for value, found in shared.items()}
        return cls(
            fields, noun, called, flags, years, usual, frozenset(nonzero), months, joined, several | joined.keys(), held
        )

    def within(self, said: Sequence[str]) -> Vocabulary:
        """Return the vocabulary of the one category that these words name in the plural, such as "mails" of `mail/`:
        the columns of other tables say nothing of its documents. A version stays: it restricts what is named."""
        named = {
            (meaning.field, str(meaning.value))
            for word in said
            for meaning in (self._phrases.find([word]) if is_plural(word) else ())
            if meaning.role == "kind" and not FOLDERS.isdisjoint(parts(meaning.field))
        }
        if len(named) != 1 or self.held is None:
            return self
        ((category, value),) = named
        own = {category, *self.held(category, value), *(one for one in self.fields if role_of(one) == "version")}
        own |= {name for name, alike in self.joined.items() if not own.isdisjoint(alike)}
        fields = {name: words for name, words in self.fields.items() if name in own}
        flags = {name: values for name, values in self.flags.items() if name in own}
        years = {name: values for name, values in self.years.items() if name in own}
        months = {name: values for name, values in self.months.items() if name in own}
        return replace(self, fields=fields, flags=flags, years=years, months=months, held=None)

    def calls(self, word: str) -> bool:
        """Return whether a word is what every document is called."""
        return bool(self.noun) and not word_stems(word).isdisjoint((self.noun, *self.folders))

    def knows(self, word: str) -> bool:
        """Return whether a word is a value, names a field, or is what documents are called."""
        return bool(self.calls(word) or self.meanings([word]) or self.named_field([word], self.fields))

    def numbers(self, name: str) -> bool:
        """Return whether a field's values tell one document of the others: `ticket_id`, and `rule` of rules."""
        return tells_rows(name) or (bool(self.noun) and word_key(parts(name)) in (self.noun, *self.folders))

    def named_field(self, words: Sequence[str], names: Iterable[str]) -> tuple[str, int] | None:
        """Return which of these fields the words begin with, and how many of the words name it.

        A name that is there with all its words, however they are joined, goes before one of which more words are there;
        of a single word of a name, it is the first or the last, or one that no other field has.

        >>> fields = {"unitprice": FieldWords("number"), "memory_gb": FieldWords("number")}
        >>> kb = Vocabulary(fields | {"days_left": FieldWords("number"), "supplierID": FieldWords("number")})
        >>> asked = ("unit prices of", "gb of memory", "supplier 7", "days")
        >>> [kb.named_field(words.split(), kb.fields) for words in asked]
        [('unitprice', 2), ('memory_gb', 3), ('supplierID', 1), ('days_left', 1)]
        """
        best: tuple[int, int, str] | None = None
        for name in names:
            if name in self._parting_nothing:
                continue
            own, (joined, bare) = name_stems(name)
            longest = range(min(len(words), LONGEST), 0, -1)
            length = next((n for n in longest if word_key(words[:n]) in (joined, bare)), 0)
            whole, seen = length > 0, set[str]()
            for n, word in enumerate(words if not whole else ()):
                stem = next((stem for stem in own if stem in word_stems(word)), "")
                if stem and stem not in seen:
                    seen.add(stem)
                    length = n + 1
                elif not n or not (word in _INSIDE_NAMES or (word == "by" and not JOINTS.isdisjoint(parts(name)))):
                    break
            whole = whole or len(seen) == len(own)
            inner = len(seen) == 1 and not whole and seen.isdisjoint((own[0], own[-1]))
            if length == 1 and not whole and self.calls(words[0]):
                continue  # "which songs" asks for no `official_song`
            if inner and sum(not seen.isdisjoint(name_stems(other)[0]) for other in self.fields) > 1:
                continue
            if length and (best is None or (whole, length) > best[:2]):
                best = (whole, length, name)
        if best is None:
            return None
        _, length, name = best
        # "Boiling point" of `boil`, unless another column is called so.
        ends = length < len(words) and words[length] in word_list("tallies", "endings")
        called = ends and any(words[length] in parts(other) for other in self.fields if other != name)
        return name, length + (ends and not called)

    def meanings(self, phrase: Sequence[str]) -> tuple[Meaning, ...]:
        """Return the meanings of lower-case words as one phrase: of a value or synonym, else of a shorter or longer
        version, else of a misspelt word.

        >>> kb = Vocabulary({"kind": FieldWords("keyword", ("tutorials", "memos"))})
        >>> [[meaning.value for meaning in kb.meanings([word])] for word in ("tutorial", "tutorails", "recipe")]
        [['tutorials'], ['tutorials'], []]
        """
        meanings = self._phrases.find(phrase)
        if not meanings and phrase and phrase[-1].endswith(_SIBILANT_PLURALS):  # "noble gases", "buses"
            meanings = self._phrases.find([*phrase[:-1], phrase[-1][:-2]])
        if not meanings and len(phrase) == 1:
            meanings = self._kindred_versions(phrase[0]) or self._declined(phrase[0]) or self._compounded(phrase[0])
        if not meanings and len(phrase) == 1:
            near = self._long_words.get(phrase[0][:1], ())
            meanings = list(dict.fromkeys(meaning for word, meaning in near if one_edit(phrase[0], word)))
        fields = {one.field for one in meanings}
        bare = [word for word in phrase if word != "the" and not any(word in parts(name) for name in fields)]
        shorter = self._phrases.find(bare) if len(bare) < len(phrase) else []
        more = [one for one in shorter if one.field in fields and one not in meanings]
        if more:  # "the BSD license" is BSD of `license`, too
            meanings = [replace(one, either=True) for one in (*meanings, *more)]
        if len(meanings) > 1:
            meanings = sorted(meanings, key=lambda one: self.usual.get(str(one.value).lower(), one.field) != one.field)
        return tuple(meanings)

    def persons(self, word: str) -> tuple[Meaning, ...]:
        """Return the persons of whose names a word is a part: "lin" of "Mei Lin (@mei)"."""
        return self._persons.get(word, ())

    @cached_property
    def _persons(self) -> dict[str, tuple[Meaning, ...]]:
        found: dict[str, tuple[Meaning, ...]] = {}
        for name in self.in_role("person"):
            for value in self.fields[name].values:
                words = spell(without_address(value))
                for word in words if len(words) <= LONGEST else ():
                    found[word] = (*found.get(word, ()), Meaning(name, value, "person", False, either=True))
        return found

    def _declined(self, word: str) -> list[Meaning]:
        """Return the values of which a word is another form in German: "Limousinen", "Ärzte"."""
        if (len(word) < _SHORTEST_FORM and word.isascii()) or not word.isalpha() or is_everyday(word):
            return []
        written = (word, word.translate(_UMLAUTS))
        forms = (one.removesuffix(ending) for ending in sorted(_ENDINGS) for one in written if one.endswith(ending))
        return next((found for form in forms if (found := self._phrases.exact(form))), [])

    def _compounded(self, word: str) -> list[Meaning]:
        """Return the values that a word names together with their field: "Allradantrieb".

        >>> kb = Vocabulary({"antrieb": FieldWords("keyword", ("Allrad", "Heck")), "farbe": FieldWords("keyword")})
        >>> [[meaning.value for meaning in kb.meanings([word])] for word in ("allradantrieb", "antrieb")]
        [['Allrad'], []]
        """
        if len(word) < _SHORTEST_COMPOUND or not word.isalpha():
            return []
        for name, part in ((one, part) for one in self.of_type("keyword", "text") for part in parts(one)):
            value, found, ending = word.rpartition(part)
            if len(part) >= _SHORTEST_PART and found and value and ending in _ENDINGS | {""}:
                wholes = (value.removesuffix(joint) for joint in ("", "s", "es", "n", "en"))
                meant = [one for whole in wholes for one in self._phrases.exact(whole) if one.field == name]
                if meant:
                    return meant[:1]
        return []

    def _kindred_versions(self, word: str) -> list[Meaning]:
        """Return the versions that a shorter one covers ("1.12": 1.12.2), else the longest one that covers it.

        >>> kb = Vocabulary({"version": FieldWords("keyword", ("v1.11.0", "1.11.4", "2.0"))})
        >>> [[meaning.value for meaning in kb.meanings([word])] for word in ("1.11", "v2", "2", "2.0.7", "1.1")]
        [['v1.11.0', '1.11.4'], ['2.0'], [], ['2.0'], []]
        """
        if not is_version(word):
            return []
        asked = version_parts(word)
        versions = [
            (version_parts(value), Meaning(name, value, "version", False, either=True))
            for name in self.in_role("version")
            for value in self.fields[name].values
            if VERSION.fullmatch(value)
        ]
        narrower = [meaning for version, meaning in versions if version[: len(asked)] == asked]
        wider = [
            version
            for version, _ in versions
            if asked[: len(version)] == version and (len(version) > 1 or word.startswith("v"))
        ]
        nearest = max(wider, key=len, default=())
        return narrower or [meaning for version, meaning in versions if version == nearest]

    def of_type(self, *types: FieldType) -> list[str]:
        return [name for name, words in self.fields.items() if words.type in types]

    def in_role(self, role: FieldRole) -> list[str]:
        names = [name for name in self.of_type("keyword", "text") if role_of(name) == role]
        return sorted(names, key=lambda name: holds(name, "maintainer"))  # they wrote and own less than others

    def date_fields(self, role: str) -> list[str]:
        return [name for name in self.of_type("date") if date_role_of(name) == role]

    @property
    def date(self) -> str | None:
        """Return the field by which documents are older and newer: the only one, but for those of a time to come, else
        that of their creation; None where neither tells."""
        past = [name for name in self.of_type("date") if date_role_of(name) not in ("due", "expires")]
        found = (past or self.of_type("date"), self.date_fields("created"))
        return next((names[0] for names in found if len(names) == 1), None)

    def examples(self, most: int = 4) -> list[str]:
        """Return the values to offer a reader: of a kind or status field, else of another with several values."""
        fields = [*self.in_role("kind"), *self.in_role("status"), *self.of_type("keyword")]
        chosen = next((name for name in fields if len(self.fields[name].values) > 1), None)
        chosen = chosen or next((name for name in fields if self.fields[name].values), None)
        return list(self.fields[chosen].values[:most]) if chosen else []

    def named_in(self, decision: RouterDecision, text: str) -> dict[str, list[str]]:
        """Return the values, by field, that a decision filters by, or has in its texts and the reader's `text` not."""
        filtered = {(demand.field, str(value)) for demand in decision.filters for value in demand.values}
        texts = [decision.rewritten_query, decision.search_value or "", decision.question or "", *decision.options]
        asked, written = spaced(text), spaced(" ".join(texts))
        named = {
            name: [
                value
                for value, spaced in values
                if (name, value) in filtered or (spaced in written and spaced not in asked)
            ]
            for name, values in self._spaced_values.items()
        }
        return {name: values for name, values in named.items() if values}

    def shared(self, filters: Sequence[DocumentFilter], text: str) -> dict[str, list[str]]:
        """Return the other fields that have a value that is filtered by, unless the text names the field.

        >>> fields = {name: FieldWords("keyword", ("late", "sent")) for name in ("payment", "delivery")}
        >>> demand = DocumentFilter(field="payment", value="late")
        >>> [Vocabulary(fields).shared([demand], text) for text in ("how many are late", "late payments")]
        [{'delivery': ['late']}, {}]
        """
        said = {word_key([word]) for word in spell(text)}
        shared: dict[str, list[str]] = {}
        for demand in filters:
            if role_of(demand.field) == "kind" or not said.isdisjoint(word_key([one]) for one in parts(demand.field)):
                continue
            for name, words in self.fields.items():
                both = [value for value in map(str, demand.values) if value in words.values]
                if name != demand.field and both and demand.op in ("eq", "in") and words.type == "keyword":
                    shared.setdefault(name, []).extend(both)
        return shared

    @cached_property
    def _parting_nothing(self) -> frozenset[str]:
        """Return the names of folders that all documents share or none has, where another field is called so, too."""
        others = {name: {*parts(name)} for name in self.fields}
        single = (name for name, words in self.fields.items() if len(words.values) < 2 and name in FOLDERS)
        return frozenset(one for one in single if any(one in others[name] for name in others if name != one))

    @cached_property
    def _spaced_values(self) -> dict[str, list[tuple[str, str]]]:
        return {name: [(value, spaced(value)) for value in words.values] for name, words in self.fields.items()}

    @cached_property
    def _entries(self) -> list[tuple[list[str], Meaning]]:
        """Return every phrase with its meaning: first values, then the collection's synonyms, then general ones."""
        values: list[tuple[str, Meaning]] = []
        synonyms: list[tuple[str, Meaning]] = []
        general: list[tuple[str, Meaning]] = []
        nations: list[tuple[str, Meaning]] = []
        for name, words in self.fields.items():
            role = role_of(name)
            if words.type == "boolean":
                values.append((" ".join(parts(name)), Meaning(name, True, "status", False)))
                continue
            ongoing = unfinished(words.values) if role == "status" else []
            persons = Counter(without_address(value).lower() for value in words.values if role == "person")
            shared: dict[str, list[str]] = {}
            for value in words.values:
                shared.setdefault(told_apart_by(name, value), []).append(value)
            for value in words.values:
                alike = shared[told_apart_by(name, value)]
                either = role == "version" or value in ongoing or len(alike) > 1
                either = either or persons[without_address(value).lower()] > 1
                meaning = Meaning(name, value, role, names_documents(value, name, role), either)
                values.append((value, meaning))
                if value.isdecimal() and self.numbers(name):  # "rule 12" of 0012
                    values.append((str(int(value)), meaning))
                synonyms += [(phrase, meaning) for phrase in words.synonyms.get(value, ())]
                synonyms += [(phrase, meaning) for phrase in alike if phrase != value]
                synonyms += [(phrase, meaning) for phrase in other_form(value) if role == "version"]
                general += [("open", meaning)] if value in ongoing else []
                general += [(phrase, meaning) for group in groups("synonyms").find(spell(value)) for phrase in group]
                general += [(name, meaning) for name in named_by(value)]
                places = (group for group in groups("nations").find(spell(value)) if value.lower() in group)
                nations += [(phrase, meaning) for group in places for phrase in group]
        phrased = [(spelt(phrase), meaning) for phrase, meaning in (*values, *synonyms, *general, *nations)]
        return [(phrase, meaning) for phrase, meaning in phrased if 0 < len(phrase) <= LONGEST]

    @cached_property
    def _phrases(self) -> Phrases[Meaning]:
        return Phrases(self._entries)

    @cached_property
    def _long_words(self) -> dict[str, list[tuple[str, Meaning]]]:
        """Return the words that are found with one letter wrong, by their first letter, which has to be right."""
        by_letter: dict[str, list[tuple[str, Meaning]]] = {}
        for words, meaning in self._entries:
            if len(words) == 1 and len(words[0]) in _MISSPELT:
                by_letter.setdefault(words[0][0], []).append((words[0], meaning))
        return by_letter
