"""Figures over fields of documents (counts by values, sums, averages, the largest, the smallest), and cells of one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from hive_agents.base import count
from hive_agents.copilot.foreign import in_terms
from hive_agents.copilot.language import word_list, word_table, words
from hive_agents.copilot.phrases import without_address
from hive_agents.copilot.plan import FieldTally
from hive_agents.copilot.roles import deed, holding, holds, parts, role_of, values_of
from hive_agents.copilot.vocabulary import LONGEST, Vocabulary

MOST_GROUPS = 50
_SPANS = {"year": len("2026"), "month": len("2026-11"), None: None}
"""Characters of a date by which it is grouped."""

TitledRow = tuple[str, str, Mapping[str, Any]]
"""(doc_id, title, metadata) of a document."""


def cell_in(text: str, vocabulary: Vocabulary, rows: Sequence[TitledRow]) -> str | None:
    """Return the value that a question asks of the one row that it names, where it says nothing else.

    >>> from hive_agents.copilot.vocabulary import FieldWords
    >>> fields, rows = {"melt": FieldWords("number")}, [("a.md", "Iron", {"melt": 1811})]
    >>> asked = ("What's the melting point of iron?", "What is the melting point of iron ore?")
    >>> [cell_in(text, Vocabulary(fields), rows) for text in asked]
    ['Iron, melt: 1811.', None]
    """
    asked, found = f" {' '.join(word.lower for word in words(in_terms(text, vocabulary.knows)))} ", list[str]()
    deeds = {deed(parts(one)[-1]): parts(one)[-1] for one in vocabulary.fields}  # "who directed …"
    people = vocabulary.in_role("person")  # "who wrote …"
    owners = {
        word: next(part for part in parts(name) if part in (hold, f"{hold}s"))
        for word, names in word_table("fields.owning").items()
        for hold in names.split()
        for name in people
        if holds(name, hold)
    }
    for _, title, metadata in rows:
        called = [" ".join(word.lower for word in words(title)), *_numbered(asked.split(), vocabulary, metadata)]
        told = next((one for one in called if f" {one} " in asked), called[0])
        before, name, after = asked.partition(f" {told} ")
        rest = [*before.split(), *after.split()] if name.strip() else []
        manner = word_table("tallies.adjectives").get(rest[1], "").split() if rest[:1] == ["how"] and rest[1:] else []
        if manner:  # "how tall is …"
            held = holding(vocabulary.of_type("number"), manner)
            rest = [*parts(held), *rest[2:]] if held else []
        counts = rest[:2] in (["how", "many"], ["how", "much"])
        rest = rest[2 * counts :]
        begin = next((n for n, word in enumerate(rest) if word not in word_list("tallies", "cell")), len(rest))
        measures = word_table("columns.measures").get(rest[begin], "").split() if counts and rest[begin:] else []
        if (held := holding(vocabulary.of_type("number"), measures)) is not None:  # "how much does … weigh"
            rest[begin : begin + 1] = parts(held)
        said = rest[begin : begin + LONGEST]
        said = [deeds.get(word, owners.get(word, word)) for word in said]
        alike = [one for one in vocabulary.fields if vocabulary.named_field(said, [one])]
        alike = [one for one in alike if vocabulary.fields[one].type == "date"] if "when" in rest else alike
        field = vocabulary.named_field(said, alike)
        clear = field is not None and (len(alike) == 1 or field[1] >= len(parts(field[0])))
        # "Which product was purchased in …" of `product_purchased`
        skipped = word_list("tallies", "cell").union(parts(field[0]) if field is not None else ())
        if field is not None and clear and skipped.issuperset(rest[begin + field[1] :]):
            values = _values(("", title, metadata), field[0])
            found += [f"{title}, {field[0].replace('_', ' ')}: {', '.join(map(str, values))}."] if values else [""]
    return found[0] or None if len(found) == 1 else None


def names_cells(content: Sequence[str], vocabulary: Vocabulary) -> bool:
    """Return whether words only name fields: "status", "wrote" of an author."""
    owning = word_table("fields.owning")
    return all(word in owning or vocabulary.named_field([word], vocabulary.fields) for word in content)


def _numbered(asked: Sequence[str], vocabulary: Vocabulary, metadata: Mapping[str, Any]) -> list[str]:
    """Return what a row is called by its number, such as "ticket 4211", where the words say that."""
    ids = [name for name in metadata if vocabulary.numbers(name)]
    return [
        f"{word} {number}"
        for word, number in pairwise(asked)
        for field in ids
        if number.lstrip("0") == str(metadata[field]).lower().lstrip("0") and vocabulary.named_field([word], [field])
    ]


def tallied(tally: FieldTally, rows: Sequence[TitledRow]) -> str:
    """Return a figure over these documents in words, which say over how many it is.

    >>> rows = [("a.md", "A", {"n": 2, "who": "mei"}), ("b.md", "B", {"n": 5, "who": "sam"}), ("c.md", "C", {})]
    >>> tallied(FieldTally(by="who"), rows)
    '3 documents by who: mei 1, sam 1; 1 without who.'
    >>> tallied(FieldTally(of="sum", field="n"), rows)
    'The sum of n is 7, over 2 of 3 documents; 1 has none.'
    >>> tallied(FieldTally(of="max", field="n"), rows[:2])
    'The largest n is 5 (B), over 2 documents.'
    """
    documents = count(len(rows), "document")
    if tally.by is None:
        return _figure(tally, rows)
    groups: dict[str, list[TitledRow]] = {}
    for row in rows:
        for value in _values(row, tally.by):
            of_value = str(value)[: _SPANS[tally.span]]
            pairs = (
                [of_value] if tally.beside is None else [f"{of_value} / {one}" for one in _values(row, tally.beside)]
            )
            for group in pairs:
                groups.setdefault(group, []).append(row)
    grouped = [tally.by] if tally.beside is None else [tally.by, tally.beside]
    without = sum(not all(_values(row, name) for name in grouped) for row in rows)
    names = [tally.span or tally.by, *grouped[1:]]
    named, either = (join.join(names).replace("_", " ") for join in (" and ", " or "))
    beside = f"; {without} without {either}" if without else ""
    if tally.of == "count":
        ranked = Counter({value: len(of_value) for value, of_value in groups.items()})
        order = ", fewest first" if tally.first == "fewest" else ""
        return f"{documents} by {named}{order}: {_frequencies(ranked, tally.most, rising=bool(order))}{beside}."
    listed = sorted(groups.items())
    if tally.first is not None:
        told = [pair for pair in listed if any(_values(row, str(tally.field)) for row in pair[1])]
        told.sort(key=lambda pair: _computed(tally, pair[1]), reverse=tally.first == "most")
        listed = told + [pair for pair in listed if pair not in told]
    lines = [f"{value}: {_figure(tally, of_value)}" for value, of_value in listed[: tally.most or MOST_GROUPS]]
    lines += [f"and {count(len(listed) - len(lines), 'more value')}"] if len(listed) > len(lines) else []
    return "\n".join([f"{documents} by {named}{beside}:", *lines])


def _frequencies(counts: Counter[str], most: int | None = None, *, rising: bool = False) -> str:
    """Return values with their counts, the most frequent first unless they are `rising`; of `most`, with those that
    have as many as the last."""
    ranked = sorted(counts.items(), key=lambda pair: (pair[1] if rising else -pair[1], pair[0]))
    last = ranked[most - 1][1] if most is not None and most < len(ranked) else None
    listed = [pair for n, pair in enumerate(ranked) if last is None or n < (most or 0) or pair[1] == last][:MOST_GROUPS]
    more = f", and {count(len(ranked) - len(listed), 'more value')}" if len(ranked) > len(listed) else ""
    return ", ".join(f"{value} {n}" for value, n in listed) + more


def _computed(tally: FieldTally, rows: Sequence[TitledRow]) -> Any:
    """Return the sum, the average or the extreme of a field's values, of which there is one."""
    values = [value for row in rows for value in _values(row, str(tally.field))]
    if tally.of in ("max", "min"):
        return (max if tally.of == "max" else min)(values)
    if tally.of == "median":
        return float(median(values))
    return math.fsum(values) / (len(values) if tally.of == "average" else 1)


def _figure(tally: FieldTally, rows: Sequence[TitledRow]) -> str:
    """Return a sum, an average, or the largest or smallest value with the titles of its documents."""
    assert tally.field is not None
    found = [(value, row) for row in rows for value in _values(row, tally.field)]
    name, have = tally.field.replace("_", " "), len({row[0] for _, row in found})
    missing = len(rows) - have
    over = f"over {count(len(rows), 'document')}" if not missing else f"over {have} of {count(len(rows), 'document')}"
    over += f"; {missing} {'has' if missing == 1 else 'have'} none" if missing else ""
    if not found:
        return f"None of {count(len(rows), 'document')} has {name}."
    if tally.of == "values":
        values = Counter(str(value) for value, _ in found)
        return f"{count(len(values), 'value')} of {name}: {_frequencies(values)}, {over}."
    if tally.of in ("sum", "average", "median"):
        figure = _computed(tally, rows)
        return f"The {tally.of} of {name} is {int(figure) if figure.is_integer() else round(figure, 6)}, {over}."
    dated = isinstance(found[0][0], str)
    largest = ("latest" if dated else "largest") if tally.of == "max" else "earliest" if dated else "smallest"
    if tally.most is not None:
        ranked = sorted(found, key=lambda pair: pair[0], reverse=tally.of == "max")
        last = ranked[min(tally.most, len(ranked)) - 1][0]
        first = ranked[: tally.most] + [pair for pair in ranked[tally.most :] if pair[0] == last]
        told = ", ".join(f"{value} ({row[1]})" for value, row in first[:MOST_GROUPS])
        more = f" and {len(first) - MOST_GROUPS} more" if len(first) > MOST_GROUPS else ""
        return f"The {len(first)} {largest} of {name} are {told}{more}, {over}."
    extreme = _computed(tally, rows)
    titles = [row[1] for value, row in found if value == extreme]
    named = ", ".join(titles[:3]) + (f" and {len(titles) - 3} more" if len(titles) > 3 else "")
    return f"The {largest} {name} is {extreme} ({named}), {over}."


def _values(row: TitledRow, field: str) -> list[Any]:
    values = values_of(row[2], field)
    return [without_address(str(one)) for one in values] if role_of(field) == "person" else values
