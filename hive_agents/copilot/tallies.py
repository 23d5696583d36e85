"""Figures over fields of documents: counts by a field's values, sums, averages, the largest and the smallest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

from hive_agents.base import count
from hive_agents.copilot.dates import NUMBERS
from hive_agents.copilot.forms import is_plural, word_key
from hive_agents.copilot.language import Word, at, word_list, word_table, words
from hive_agents.copilot.plan import FieldTally
from hive_agents.copilot.roles import deed, is_short_for, parts, tells_rows
from hive_agents.copilot.vocabulary import LONGEST, Vocabulary

MOST_GROUPS = 50
_AMOUNTS = word_list("tallies", "fewest") | {"most"}
_NEAR = 4
"""How many words behind "sum" or "highest" the name of the field may be."""

_SPANS = {"year": len("2026"), "month": len("2026-11"), None: None}
"""Characters of a date by which it is grouped."""

TitledRow = tuple[str, str, Mapping[str, Any]]
"""(doc_id, title, metadata) of a document."""


def tally_in(text: str, vocabulary: Vocabulary) -> tuple[FieldTally, str] | None:
    """Return what a message asks to be counted by a field or computed, and the list that it asks for besides.

    >>> from hive_agents.copilot.vocabulary import FieldWords
    >>> fields = {"kind": FieldWords("keyword", ("memo",)), "owner": FieldWords("keyword")}
    >>> fields["pages"] = FieldWords("number")
    >>> tally_in("how many memos per owner?", Vocabulary(fields))
    (FieldTally(of='count', field=None, by='owner', most=None, first=None, span=None), 'how many memos')
    >>> tally_in("sum of the pages of memos", Vocabulary(fields))
    (FieldTally(of='sum', field='pages', by=None, most=None, first=None, span=None), 'list memos')
    """
    sentence = words(text)
    used: set[int] = set()
    most = _how_many(sentence, vocabulary, used)
    measured = _measured(sentence, vocabulary, used) or (_first_by(sentence, vocabulary, used) if most else None)
    if most is not None and (measured is None or measured[0] not in ("max", "min")):
        return None
    best = None if measured is None or most else _best_group(sentence, vocabulary, used, measured)
    if best is not None:
        return best, _rest(sentence, used, True)
    by = _grouped(sentence, vocabulary, used, counted=measured is None)
    asked = None if measured is not None else _amount(sentence, vocabulary, used, by)
    if measured is None and asked is None and by is None:
        asked = _distinct(sentence, vocabulary, used)
    if measured is None and asked is None and by is None:
        return None
    kind, field = measured or asked or ("count", None)
    if asked is not None:  # "how many hours did Ines work": `hours_worked`
        used.update(
            n
            for n, word in enumerate(sentence)
            if word_key([word.lower]) in {word_key([part]) for part in parts(asked[1])}
        )
    fewest = kind == "count" and any(at(sentence, n) in _AMOUNTS - {"most"} for n in used)
    tally = FieldTally(of=cast("Any", kind), field=field, by=by, most=most, first="fewest" if fewest else None)
    if by in vocabulary.of_type("date"):
        span = "month" if any(word.lower == "month" for word in sentence) else "year"
        tally = tally.model_copy(update={"span": span})
    return tally, _rest(sentence, used, asked is not None)


def _best_group(
    sentence: list[Word], vocabulary: Vocabulary, used: set[int], measured: tuple[str, str]
) -> FieldTally | None:
    """Return the figures by the column that is asked for: "which team has the most hours", "… the lowest average age".

    Without a measure of its own "most" asks for a sum, or an average of a rating; "highest" for the largest.
    """
    kind, field = measured
    asks = at(sentence, 0) in ("which", "what") and kind in ("max", "min")
    names = _by_told(sentence, vocabulary, vocabulary.of_type("keyword", "text"))
    holder = _field(sentence, 1, vocabulary, names) if asks else None
    if holder is None or not used.isdisjoint(range(1, 1 + holder[1])) or vocabulary.calls(at(sentence, holder[1])):
        return None
    measures = word_table("tallies.measures")
    about = range(min(used), max(used) + 2)
    own = {n: of for n in about if (of := measures.get(at(sentence, n), "")) in ("sum", "average")}
    if (at(sentence, len(sentence) - 2), at(sentence, len(sentence) - 1)) == ("on", "average"):
        own |= {len(sentence) - 2: "average", len(sentence) - 1: "average"}
    used.update(own)
    of = next(iter(own.values()), None) or (_summed(field) if any(at(sentence, n) in _AMOUNTS for n in used) else kind)
    used.update(range(1 + holder[1]))
    return FieldTally(of=cast("Any", of), field=field, by=holder[0], first="most" if kind == "max" else "fewest")


def _summed(field: str) -> str:
    """Return the measure of a column's amounts: of a rating or an age an average, else a sum."""
    return "sum" if word_list("tallies", "rates").isdisjoint(parts(field)) else "average"


def _by_told(sentence: list[Word], vocabulary: Vocabulary, names: Collection[str]) -> list[str]:
    """Return columns, first those of which the sentence names more words, last those that have one value and part
    nothing: that of the folder gives way to a column of the same name."""
    said = {word_key([word.lower]) for word in sentence}
    told = {name: sum(word_key([part]) in said for part in parts(name)) for name in names}
    return sorted(names, key=lambda name: (len(vocabulary.fields[name].values) == 1, -told[name]))


def _how_many(sentence: list[Word], vocabulary: Vocabulary, used: set[int]) -> int | None:
    """Return how many are asked for, if not one: "top 3", "the five cheapest"; its place is used."""
    extremes = word_table("tallies.measures").keys() | word_table("tallies.extremes").keys()
    tops = word_table("tallies.tops")
    for place, word in enumerate(sentence):
        number = int(word.lower) if word.lower.isdecimal() and len(word.lower) < 3 else NUMBERS.get(word.lower, 0)
        after = at(sentence, place + 1)
        if number > 1 and vocabulary.calls(after) and at(sentence, place + 2) in ("with", "by"):
            # "5 beers with the lowest price"
            after = next((at(sentence, n) for n in range(place + 3, place + 5) if at(sentence, n) in extremes), after)
        if number > 1 and (at(sentence, place - 1) in tops or after in extremes or after == "most"):
            used.update((place, place - (at(sentence, place - 1) in tops)))
            return number
    return None


def _first_by(sentence: list[Word], vocabulary: Vocabulary, used: set[int]) -> tuple[str, str] | None:
    """Return the extreme and the field of "top 3 by rating"."""
    tops = word_table("tallies.tops")
    top = next((n for n, word in enumerate(sentence) if word.lower in tops and n + 1 in used), None)
    for place in range(top + 2, len(sentence)) if top is not None else ():
        found = _field(sentence, place + 1, vocabulary, vocabulary.of_type("number", "date"))
        if at(sentence, place) in ("by", "in") and found is not None and top is not None:
            used.update((top, *range(place, place + 1 + found[1])))
            return tops[at(sentence, top)], found[0]
    return None


def _amount(sentence: list[Word], vocabulary: Vocabulary, used: set[int], by: str | None) -> tuple[str, str] | None:
    """Return the measure of a column of numbers that is asked for without one: "how many hours did …"."""
    asks = (at(sentence, 0), at(sentence, 1)) in (("how", "many"), ("how", "much"))
    begin = next((n for n in range(2 * asks, len(sentence)) if at(sentence, n) not in word_list("tallies", "leads")), 0)
    found = _field(sentence, begin, vocabulary, vocabulary.of_type("number")) if asks or by is not None else None
    if found is None or at(sentence, begin) in word_list("words", "document"):
        return None
    if by is not None and (begin + found[1] not in used or begin in used):
        return None
    used.update(range(begin + found[1]))
    return _summed(found[0]), found[0]


def _distinct(sentence: list[Word], vocabulary: Vocabulary, used: set[int]) -> tuple[str, str] | None:
    """Return the field whose values are asked for: "which teams are there", "how many different customers"."""
    lists, distinct = word_list("tallies", "lists"), word_list("tallies", "distinct")
    place = 2 if (at(sentence, 0), at(sentence, 1)) == ("how", "many") else 0
    asked = place > 0 or (at(sentence, 0) in lists and (at(sentence, 0) != "who" or at(sentence, 1) == "are"))
    while at(sentence, place) in lists | distinct | {"are"}:
        place += 1
    found = _field(sentence, place, vocabulary, vocabulary.of_type("keyword", "text")) if asked else None
    if found is None:
        return None
    after = place + found[1]
    told = {at(sentence, n) for n in (*range(place), after)} & distinct
    if not told and not any(is_plural(at(sentence, n)) for n in range(place, after)):
        return None
    used.update(range(after + (at(sentence, after) in distinct)))
    own = vocabulary.calls(at(sentence, len(sentence) - 1)) or vocabulary.calls(at(sentence, after + 1))
    if own and at(sentence, after) in word_list("tallies", "neutral"):
        used.add(after)  # "which departments offer courses"
    return "values", found[0]


def _measured(sentence: list[Word], vocabulary: Vocabulary, used: set[int]) -> tuple[str, str] | None:
    """Return the measure that is asked for and its field: ("sum", "amount") of "total amount".

    "At least", and a number before the field, bound the documents: "at least one vote", "a minimum of 50 votes".
    """
    measures, comparisons = word_table("tallies.measures"), word_table("fields.comparisons")
    for place, word in enumerate(sentence):
        kind = measures.get(word.lower) if at(sentence, place - 1) != "at" else None
        for at_field in range(place + 1, place + 1 + _NEAR) if kind is not None else ():
            if at(sentence, at_field)[:1].isdecimal() or at(sentence, at_field) in word_list("tallies", "groups"):
                break
            of_dates = kind in ("max", "min") and word.lower not in _AMOUNTS
            types = ("number", "date") if of_dates else ("number",)
            found = _field(sentence, at_field, vocabulary, vocabulary.of_type(*types))
            if found is not None and at(sentence, at_field + found[1]) in comparisons:
                break  # "with an average price over 30" bounds them
            if kind is not None and found is not None:
                used.update((place, *range(at_field, at_field + found[1])))
                return kind, found[0]
            if at(sentence, at_field) in word_list("words", "prepositions") - {"of"}:
                break  # "lasted the longest in season 3"
        before = _named_before(sentence, place, vocabulary) if kind is not None else None
        if kind is not None and before is not None:
            used.update(range(before[1], place + 1))
            return kind, before[0]
        kind, name = _extreme(word.lower, vocabulary)
        kind = {"max": "min", "min": "max"}.get(kind, kind) if at(sentence, place - 1) == "least" else kind
        row, dates = at(sentence, place + 1), vocabulary.of_type("date")
        ordered = "min" if word.lower == "soonest" else word_table("tallies.ordered").get(word.lower)
        dated = None if ordered is None else _field(sentence, place + 1 if row else place - 1, vocabulary, dates)
        if ordered and dated is not None:  # "expires first", "the latest date added"
            kind, name = ordered, dated[0]
            used.update(range(place + 1, place + 1 + dated[1]) if row else (place - 1,))
        # "The first mission", of "the last company to be added" the date itself
        called = vocabulary.calls(row) or word_key([row]) in vocabulary.folders
        if name is None and ordered and len(dates) == 1 and called and not is_plural(row):
            kind, name = ordered, dates[0]
            adding = (at(sentence, place + 2), at(sentence, place + 3)) == ("to", "be")
            told = _field(sentence, place + 2 + 2 * adding, vocabulary, dates)
            used.update(range(place + 2, place + 2 + 2 * adding + told[1]) if told is not None else ())
        if name is not None:
            used.update(range(place - (at(sentence, place - 1) in ("most", "least")), place + 1))
            return kind, name
    return None


def _extreme(word: str, vocabulary: Vocabulary) -> tuple[str, str | None]:
    """Return the measure that an adjective asks for, and the column that holds it: the first kind that one does."""
    told = (one.split() for one in word_table("tallies.extremes").get(word, "none").split(" or "))
    names = vocabulary.of_type("number")
    return next(((kind, name) for kind, *ends in told if (name := _holding(names, ends))), ("none", None))


def _named_before(sentence: list[Word], place: int, vocabulary: Vocabulary) -> tuple[str, int] | None:
    """Return the column of numbers that is named before a measure, and its first place: "salary average by team", "who
    lasted the longest"; where rows are told apart by another column ("which room is booked most"), none."""
    end, after = place - (at(sentence, place - 1) == "the"), at(sentence, place + 1)
    closed = not after or sentence[place + 1].opens_clause or after in word_list("words", "prepositions")
    holds = at(sentence, 0) in ("which", "what") and _field(sentence, 1, vocabulary, vocabulary.of_type("keyword"))
    for start in range(max(0, end - LONGEST), end) if (closed or after in ("per", "each")) and not holds else ():
        found = _field(sentence, start, vocabulary, vocabulary.of_type("number"))
        if found is not None and found[1] == end - start:
            return found[0], start
    return None


def _holding(names: Collection[str], ends: Sequence[str]) -> str | None:
    """Return the one field with a word of the first of these ends that any has; of several that of the whole.

    >>> _holding(["unitprice", "depth_m", "area_km2"], ["price"]), _holding(["area_km2", "area_mi2"], ["area"])
    ('unitprice', None)
    """
    found = (
        [name for name in names if any(part.endswith(end) or is_short_for(part, end) for part in parts(name))]
        for end in ends
    )
    first = next((one for one in found if one), [])
    whole = [name for name in first if not word_list("columns", "whole").isdisjoint(parts(name))]
    return next((one[0] for one in (first, whole) if len(one) == 1), None)


def _grouped(sentence: list[Word], vocabulary: Vocabulary, used: set[int], *, counted: bool) -> str | None:
    """Return the field that is counted by: "per owner", "does each author have", "who wrote the most"."""
    groups, ends = word_list("tallies", "groups"), word_list("tallies", "ends")
    ranked = next(
        (n for n, word in enumerate(sentence) if word.lower in _AMOUNTS and at(sentence, n - 1) != "at"), None
    )
    named = _by_told(sentence, vocabulary, vocabulary.of_type("keyword", "text", "number"))
    if counted and ranked is not None and at(sentence, 0) in ("which", "what"):
        common = at(sentence, ranked + 1) in word_list("tallies", "common")
        telling = _field(sentence, ranked + 2, vocabulary, named) if common else None
        if telling is not None:  # "the most common colour"
            used.update(range(ranked, ranked + 2 + telling[1]))
            return telling[0]
        holder = _field(sentence, 1, vocabulary, named) or _spanned(sentence, 1, vocabulary)
        between = {at(sentence, n) for n in range(1 + (holder[1] if holder else 0), ranked)}
        if holder is not None and between <= word_list("tallies", "leads") | word_list("tallies", "neutral"):
            own = {word_key([part]) for part in parts(holder[0])}  # "which borough has the fewest pickups"
            used.update(range(ranked + 1 + common))
            used.update(n for n, word in enumerate(sentence) if word_key([word.lower]) in own)
            return holder[0]
    people = vocabulary.in_role("person")
    if people and at(sentence, 0) == "who" and ranked is not None:
        owning = word_table("fields.owning")
        holds = next((owning[word.lower].split() for word in sentence if word.lower in owning), [])
        asking = {"who", "the", *_AMOUNTS, *owning}
        used.update(n for n, word in enumerate(sentence) if word.lower in asking)
        return next((name for hold in holds for name in people if hold in parts(name)), people[0])
    for place, word in enumerate(sentence):
        groups_by = word.lower in groups and place not in used
        found = _field(sentence, place + 1, vocabulary, named) if groups_by else None
        found = found or (_spanned(sentence, place + 1, vocabulary) if groups_by else None)
        last = place + (found[1] if found is not None else 0)
        after = at(sentence, last + 1)
        if found is None or (after and after not in ends and not sentence[last + 1].opens_clause):
            continue
        used.update(range(place, last + 1))
        if after in ("have", "has", "own", "wrote"):
            used.add(last + 1)
        if at(sentence, place - 1) in ("does", "do", "did", "grouped", "counted"):
            used.add(place - 1)
        return found[0]
    return None


def _field(sentence: list[Word], place: int, vocabulary: Vocabulary, names: Collection[str]) -> tuple[str, int] | None:
    """Return the field that the words from there on name, and how many they are, unless the first is a value."""
    asked = [word.lower for word in sentence[place : place + LONGEST]]
    return vocabulary.named_field(asked, names) if asked and not vocabulary.meanings(asked[:1]) else None


def _spanned(sentence: list[Word], place: int, vocabulary: Vocabulary) -> tuple[str, int] | None:
    """Return the one column of dates where the word there is a year or a month: "missions per year"."""
    dates = vocabulary.of_type("date") if at(sentence, place) in ("year", "month") else []
    return (dates[0], 1) if len(dates) == 1 else None


def _rest(sentence: list[Word], used: set[int], unnamed: bool) -> str:
    """Return the message without the words for the figure, as one that asks for documents, which may be `unnamed`."""
    kept = [n for n in range(len(sentence)) if n not in used]
    if [at(sentence, n) for n in kept[:2]] == ["how", "many"]:
        return " ".join(sentence[n].text for n in kept)
    leads = word_list("tallies", "leads")
    said = word_list("tallies", "participles")
    unnamed = unnamed or any(at(sentence, n) in said and n - 1 in used for n in kept)
    while kept and at(sentence, kept[0]) in leads:
        kept.pop(0)
    while kept and at(sentence, kept[-1]) in leads:
        kept.pop()
    prepositions = word_list("words", "prepositions") - {"of"}
    unnamed = unnamed or not kept or at(sentence, kept[0]) in prepositions
    head = "list documents " if unnamed else "list "
    return (head + " ".join(sentence[n].text for n in kept)).strip()


def cell_in(text: str, vocabulary: Vocabulary, rows: Sequence[TitledRow]) -> str | None:
    """Return the value that a question asks of the one row that it names, where it says nothing else.

    >>> from hive_agents.copilot.vocabulary import FieldWords
    >>> fields, rows = {"melt": FieldWords("number")}, [("a.md", "Iron", {"melt": 1811})]
    >>> asked = ("What's the melting point of iron?", "What is the melting point of iron ore?")
    >>> [cell_in(text, Vocabulary(fields), rows) for text in asked]
    ['Iron, melt: 1811.', None]
    """
    asked, found = f" {' '.join(word.lower for word in words(text))} ", list[str]()
    deeds = {deed(parts(one)[-1]): parts(one)[-1] for one in vocabulary.fields}  # "who directed …"
    for _, title, metadata in rows:
        called = [" ".join(word.lower for word in words(title)), *_numbered(asked.split(), vocabulary, metadata)]
        told = next((one for one in called if f" {one} " in asked), called[0])
        before, name, after = asked.partition(f" {told} ")
        rest = [*before.split(), *after.split()] if name.strip() else []
        begin = next((n for n, word in enumerate(rest) if word not in word_list("tallies", "cell")), len(rest))
        said = rest[begin : begin + LONGEST]
        said = [deeds.get(word, word) for word in said]
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


def _numbered(asked: Sequence[str], vocabulary: Vocabulary, metadata: Mapping[str, Any]) -> list[str]:
    """Return what a row is called by its number, such as "ticket 4211", where the words say that."""
    ids = [name for name in metadata if tells_rows(name)]
    return [
        f"{word} {number}"
        for word, number in pairwise(asked)
        for field in ids
        if number == str(metadata[field]).lower() and vocabulary.named_field([word], [field])
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
            groups.setdefault(str(value)[: _SPANS[tally.span]], []).append(row)
    without = sum(not _values(row, tally.by) for row in rows)
    name = tally.span or tally.by.replace("_", " ")
    beside = f"; {without} without {name}" if without else ""
    if tally.of == "count":
        ranked = Counter({value: len(of_value) for value, of_value in groups.items()})
        order = ", fewest first" if tally.first == "fewest" else ""
        return f"{documents} by {name}{order}: {_frequencies(ranked, rising=bool(order))}{beside}."
    listed = sorted(groups.items())
    if tally.first is not None:
        told = [pair for pair in listed if any(_values(row, str(tally.field)) for row in pair[1])]
        told.sort(key=lambda pair: _computed(tally, pair[1]), reverse=tally.first == "most")
        listed = told + [pair for pair in listed if pair not in told]
    lines = [f"{value}: {_figure(tally, of_value)}" for value, of_value in listed[:MOST_GROUPS]]
    return "\n".join([f"{documents} by {name}{beside}:", *lines])


def _frequencies(counts: Counter[str], *, rising: bool = False) -> str:
    """Return values with their counts, the most frequent first unless they are `rising`."""
    listed = sorted(counts.items(), key=lambda pair: (pair[1] if rising else -pair[1], pair[0]))[:MOST_GROUPS]
    more = f", and {count(len(counts) - MOST_GROUPS, 'more value')}" if len(counts) > MOST_GROUPS else ""
    return ", ".join(f"{value} {n}" for value, n in listed) + more


def _computed(tally: FieldTally, rows: Sequence[TitledRow]) -> Any:
    """Return the sum, the average or the extreme of a field's values, of which there is one."""
    values = [value for row in rows for value in _values(row, str(tally.field))]
    if tally.of in ("max", "min"):
        return (max if tally.of == "max" else min)(values)
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
    if tally.of in ("sum", "average"):
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
    value = row[2].get(field)
    return value if isinstance(value, list) else [] if value is None else [value]
