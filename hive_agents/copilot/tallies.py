"""What a message asks to be counted or computed over fields: counts by values, sums, averages, the largest."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, cast

from hive_agents.copilot.dates import NUMBERS
from hive_agents.copilot.forms import is_plural, word_key
from hive_agents.copilot.language import Word, at, word_list, word_table, words
from hive_agents.copilot.plan import FieldTally
from hive_agents.copilot.roles import holding, holds, parts
from hive_agents.copilot.vocabulary import LONGEST, Vocabulary

_AMOUNTS = word_list("tallies", "fewest") | {"most"}
_LAST = word_list("tallies", "fewest") | {"bottom", "worst", "lowest"}
_NEAR = 4
"""How many words behind "sum" or "highest" the name of the field may be."""


def tally_in(text: str, vocabulary: Vocabulary) -> tuple[FieldTally, str] | None:
    """Return what a message asks to be counted by a field or computed, and the list that it asks for besides.

    >>> from hive_agents.copilot.vocabulary import FieldWords
    >>> fields = {"kind": FieldWords("keyword", ("memo",)), "owner": FieldWords("keyword")}
    >>> fields["pages"] = FieldWords("number")
    >>> tally_in("how many memos per owner?", Vocabulary(fields))
    (FieldTally(of='count', field=None, by='owner', beside=None, most=None, first=None, span=None), 'how many memos')
    >>> tally_in("sum of the pages of memos", Vocabulary(fields))
    (FieldTally(of='sum', field='pages', by=None, beside=None, most=None, first=None, span=None), 'list memos')
    """
    sentence = words(text)
    if at(sentence, 1) in ("which", "what") and at(sentence, 0) in word_list("words", "prepositions"):
        sentence = sentence[1:]  # "in which year were most …"
    used: set[int] = set()
    most = _how_many(sentence, vocabulary, used)
    ranked = None if most is None else _ranked(sentence, vocabulary, used)
    measured = _measured(sentence, vocabulary, used, most)
    if ranked is not None:
        fewest = any(at(sentence, n) in _LAST for n in used)
        kind, field = measured or ("count", None)
        kind = _summed(field) if field is not None and kind in ("max", "min") else kind
        tally = FieldTally(
            of=cast("Any", kind), field=field, by=ranked, most=most, first="fewest" if fewest else "most"
        )
        return tally, _rest(sentence, used, True)
    if most is not None and (measured is None or measured[0] not in ("max", "min")):
        return None
    best = None if measured is None or most else _best_group(sentence, vocabulary, used, measured)
    if best is not None:
        return best, _rest(sentence, used, True)
    by, beside = _grouped(sentence, vocabulary, used, counted=measured is None)
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
    first: Literal["fewest"] | None = "fewest" if fewest else None
    tally = FieldTally(of=cast("Any", kind), field=field, by=by, beside=beside, most=most, first=first)
    if by in vocabulary.of_type("date"):
        span = "month" if any(word.lower == "month" for word in sentence) else "year"
        own = {word_key([part]) for part in parts(str(by))}  # "apps released per year"
        used.update(n for n, word in enumerate(sentence) if word_key([word.lower]) in own)
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
    own = {n: of for n in about if (of := measures.get(at(sentence, n), "")) in ("sum", "average", "median")}
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
    ordered = word_table("tallies.ordered").keys()
    extremes = word_table("tallies.measures").keys() | word_table("tallies.extremes").keys() | ordered
    tops = word_table("tallies.tops")
    for place, word in enumerate(sentence):
        number = int(word.lower) if word.lower.isdecimal() and len(word.lower) < 3 else NUMBERS.get(word.lower, 0)
        after = at(sentence, place + 1)
        if number > 1 and vocabulary.calls(after) and at(sentence, place + 2) in ("with", "by"):
            # "5 beers with the lowest price"
            after = next((at(sentence, n) for n in range(place + 3, place + 5) if at(sentence, n) in extremes), after)
        if number > 1 and at(sentence, place - 1) in ordered:  # "the latest 3 memos"
            used.add(place)
            return number
        held = _field(sentence, place + 1, vocabulary, vocabulary.of_type("keyword", "text")) if number > 1 else None
        if held is not None and any(at(sentence, n) in _AMOUNTS for n in range(place + 1 + held[1], len(sentence))):
            used.add(place)  # "the 3 authors with the most books"
            return number
        if number > 1 and (at(sentence, place - 1) in tops or after in extremes or after == "most"):
            used.update((place, place - (at(sentence, place - 1) in tops)))
            return number
    return None


def _ranked(sentence: list[Word], vocabulary: Vocabulary, used: set[int]) -> str | None:
    """Return the field of which the first values are asked for: "top 5 authors", "the 3 most common licences"."""
    before, place, common = min(used), max(used) + 1, word_list("tallies", "common")
    while at(sentence, place) in _AMOUNTS | common:
        place += 1
    found = _field(sentence, place, vocabulary, _by_told(sentence, vocabulary, vocabulary.of_type("keyword", "text")))
    if found is None or vocabulary.calls(at(sentence, place)):
        return None
    asking = {"the", "that", "who", "which", *_AMOUNTS, *common, *word_table("fields.owning")}
    used.update(range(before, place + found[1]))
    used.update(n for n in range(place + found[1], len(sentence)) if at(sentence, n) in asking)
    return found[0]


def _amount(sentence: list[Word], vocabulary: Vocabulary, used: set[int], by: str | None) -> tuple[str, str] | None:
    """Return the measure of a column of numbers that is asked for without one: "how many hours did …"."""
    asks = (at(sentence, 0), at(sentence, 1)) in (("how", "many"), ("how", "much"))
    begin = next((n for n in range(2 * asks, len(sentence)) if at(sentence, n) not in word_list("tallies", "leads")), 0)
    found = _field(sentence, begin, vocabulary, vocabulary.of_type("number")) if asks or by is not None else None
    if found is None or vocabulary.calls(at(sentence, begin)) or at(sentence, begin) in word_list("words", "document"):
        return None
    if by is not None and (begin + found[1] not in used or begin in used):
        return None
    used.update(range(begin + found[1]))
    return _summed(found[0]), found[0]


def _distinct(sentence: list[Word], vocabulary: Vocabulary, used: set[int]) -> tuple[str, str] | None:
    """Return the field whose values are asked for: "which teams are there", "how many different customers"."""
    lists, distinct = word_list("tallies", "lists"), word_list("tallies", "distinct")
    place = 2 if (at(sentence, 0), at(sentence, 1)) in (("how", "many"), ("number", "of")) else 0
    asked = place > 0 or (at(sentence, 0) in lists and (at(sentence, 0) != "who" or at(sentence, 1) == "are"))
    while at(sentence, place) in lists | distinct | {"are"}:
        place += 1
    found = _field(sentence, place, vocabulary, vocabulary.of_type("keyword", "text")) if asked else None
    if found is None or vocabulary.numbers(found[0]):
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


def _measured(sentence: list[Word], vocabulary: Vocabulary, used: set[int], most: int | None) -> tuple[str, str] | None:
    """Return the measure that is asked for and its field: ("sum", "amount") of "total amount".

    "At least", and a number before the field, bound the documents: "at least one vote", "a minimum of 50 votes".
    """
    measures, comparisons = word_table("tallies.measures"), word_table("fields.comparisons")
    for place, word in enumerate(sentence):
        if _inside_value(sentence, place, vocabulary):
            continue  # "in last call"
        kind = measures.get(word.lower) if at(sentence, place - 1) != "at" else None
        for at_field in range(place + 1, place + 1 + _NEAR) if kind is not None else ():
            if at(sentence, at_field)[:1].isdecimal() or at(sentence, at_field) in word_list("tallies", "groups"):
                break
            of_dates = kind in ("max", "min") and word.lower not in _AMOUNTS
            types = ("number", "date") if of_dates else ("number",)
            found = _field(sentence, at_field, vocabulary, vocabulary.of_type(*types))
            if found is not None and at(sentence, at_field + found[1]) in comparisons:
                break  # "with an average price over 30" bounds them
            if kind is not None and found is not None and not (not of_dates and vocabulary.numbers(found[0])):
                used.update((place, *range(at_field, at_field + found[1])))
                return kind, found[0]
            if at(sentence, at_field) in word_list("words", "prepositions") - {"of"}:
                break  # "lasted the longest in season 3"
        by = _measured_by(sentence, place, vocabulary, used)
        if by is not None:
            used.update((place, *range(by[2], by[2] + by[3])))
            return by[:2]
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
        # "The first mission", "the oldest draft", of "the last company to be added" the date itself
        noun = _row_after(sentence, place, vocabulary) if name is None and ordered and vocabulary.date else None
        if ordered and noun is not None and is_plural(at(sentence, noun)) == (most is not None):
            kind, name = ordered, vocabulary.date
            adding = (at(sentence, noun + 1), at(sentence, noun + 2)) == ("to", "be")
            told = _field(sentence, noun + 1 + 2 * adding, vocabulary, dates)
            used.update(range(noun + 1, noun + 1 + 2 * adding + told[1]) if told is not None else ())
        if name is not None:
            used.update(range(place - (at(sentence, place - 1) in ("most", "least")), place + 1))
            return kind, name
    return None


def _measured_by(
    sentence: list[Word], place: int, vocabulary: Vocabulary, used: set[int]
) -> tuple[str, str, int, int] | None:
    """Return the measure of "largest van by payload" or "top 3 by rating", its field, and where this is named."""
    word = at(sentence, place)
    told = (word_table(f"tallies.{name}").get(word, "").partition(" ")[0] for name in ("tops", "extremes", "measures"))
    kind = next((one for one in told if one in ("max", "min")), None)
    by = next((n for n in range(place + 2, place + 3 + _NEAR) if at(sentence, n) in ("by", "in")), None)
    if kind is None or by is None or not (vocabulary.calls(at(sentence, by - 1)) or by - 1 in used):
        return None
    names = [name for name in vocabulary.of_type("number", "date") if name not in vocabulary.years]
    found = _field(sentence, by + 1, vocabulary, names)
    return None if found is None else (kind, found[0], by, 1 + found[1])


def _inside_value(sentence: list[Word], place: int, vocabulary: Vocabulary) -> bool:
    """Return whether a word and one beside it are a value together."""
    pairs = ([at(sentence, n), at(sentence, n + 1)] for n in (place - 1, place))
    return any(all(pair) and bool(vocabulary.meanings(pair)) for pair in pairs)


def _row_after(sentence: list[Word], place: int, vocabulary: Vocabulary) -> int | None:
    """Return the place of what a row is called behind a word of order, with values before it: "oldest core rule"."""
    place += 1 + (at(sentence, place + 1).isdecimal() or at(sentence, place + 1) in NUMBERS)
    called = word_list("words", "document")
    for here in range(place, min(place + LONGEST, len(sentence))):
        word = at(sentence, here)
        if word in called or vocabulary.calls(word) or word_key([word]) in vocabulary.folders:
            return here
        if not vocabulary.meanings([word]):
            return here - 1 if here > place and word in word_list("words", "prepositions") else None
    return len(sentence) - 1 if place < len(sentence) else None


def _extreme(word: str, vocabulary: Vocabulary) -> tuple[str, str | None]:
    """Return the measure that an adjective asks for, and the column that holds it: the first kind that one does."""
    told = (one.split() for one in word_table("tallies.extremes").get(word, "none").split(" or "))
    names = vocabulary.of_type("number")
    return next(((kind, name) for kind, *ends in told if (name := holding(names, ends))), ("none", None))


def _named_before(sentence: list[Word], place: int, vocabulary: Vocabulary) -> tuple[str, int] | None:
    """Return the column of numbers that is named before a measure, and its first place: "salary average by team", "who
    lasted the longest"; where rows are told apart by another column ("which room is booked most"), none."""
    end, after = place - (at(sentence, place - 1) == "the"), at(sentence, place + 1)
    closed = not after or sentence[place + 1].opens_clause or vocabulary.calls(after)
    closed = closed or after in word_list("words", "prepositions") | {"the"}
    holds = at(sentence, 0) in ("which", "what") and _field(sentence, 1, vocabulary, vocabulary.of_type("keyword"))
    for start in range(max(0, end - LONGEST), end) if (closed or after in ("per", "each")) and not holds else ():
        found = _field(sentence, start, vocabulary, vocabulary.of_type("number"))
        if found is not None and found[1] == end - start:
            return found[0], start
    return None


def _grouped(
    sentence: list[Word], vocabulary: Vocabulary, used: set[int], *, counted: bool
) -> tuple[str | None, str | None]:
    """Return the field that is counted by: "per owner", "does each author have", "who wrote the most"; and the other of
    two: "by region and year"."""
    groups, ends = word_list("tallies", "groups"), word_list("tallies", "ends")
    ranked = next(
        (n for n, word in enumerate(sentence) if word.lower in _AMOUNTS and at(sentence, n - 1) != "at"), None
    )
    named = _by_told(sentence, vocabulary, vocabulary.of_type("keyword", "text", "number", "boolean"))
    if counted and ranked is not None and at(sentence, 0) in ("which", "what"):
        common = at(sentence, ranked + 1) in word_list("tallies", "common")
        telling = _field(sentence, ranked + 2, vocabulary, named) if common else None
        if telling is not None:  # "the most common colour"
            used.update(range(ranked, ranked + 2 + telling[1]))
            return telling[0], None
        holder = _field(sentence, 1, vocabulary, named) or _spanned(sentence, 1, vocabulary)
        between = {at(sentence, n) for n in range(1 + (holder[1] if holder else 0), ranked)}
        if holder is not None and between <= word_list("tallies", "leads") | word_list("tallies", "neutral"):
            own = {word_key([part]) for part in parts(holder[0])}  # "which borough has the fewest pickups"
            used.update(range(ranked + 1 + common))
            used.update(n for n, word in enumerate(sentence) if word_key([word.lower]) in own)
            return holder[0], None
    people = vocabulary.in_role("person")
    if people and at(sentence, 0) == "who" and ranked is not None:
        owning = word_table("fields.owning")
        deeds = next((owning[word.lower].split() for word in sentence if word.lower in owning), [])
        asking = {"who", "the", *_AMOUNTS, *owning}
        used.update(n for n, word in enumerate(sentence) if word.lower in asking)
        return next((name for hold in deeds for name in people if holds(name, hold)), people[0]), None
    for place, word in enumerate(sentence):
        groups_by = word.lower in groups and place not in used
        found = _field(sentence, place + 1, vocabulary, named) if groups_by else None
        found = found or (_spanned(sentence, place + 1, vocabulary) if groups_by else None)
        last = place + (found[1] if found is not None else 0)
        joint = last + 1 + (at(sentence, last + 2) in groups) if at(sentence, last + 1) == "and" else None
        beside = None if joint is None else _field(sentence, joint + 1, vocabulary, named)
        last = last if joint is None or beside is None else joint + beside[1]
        after = at(sentence, last + 1)
        if found is None or (after and after not in ends and not sentence[last + 1].opens_clause):
            continue
        used.update(range(place, last + 1))
        if after in ("have", "has", "own", "wrote"):
            used.add(last + 1)
        if at(sentence, place - 1) in ("does", "do", "did", "grouped", "counted"):
            used.add(place - 1)
        return found[0], None if beside is None else beside[0]
    return None, None


def _field(sentence: list[Word], place: int, vocabulary: Vocabulary, names: Collection[str]) -> tuple[str, int] | None:
    """Return the field that the words from there on name, and how many they are, unless the first is a value and they
    aren't the whole name."""
    asked = [word.lower for word in sentence[place : place + LONGEST]]
    found = vocabulary.named_field(asked, names) if asked else None
    whole = found is not None and word_key(asked[: found[1]]) == word_key(parts(found[0]))
    return found if whole or not vocabulary.meanings(asked[:1]) else None


def _spanned(sentence: list[Word], place: int, vocabulary: Vocabulary) -> tuple[str, int] | None:
    """Return the column of dates where the word there is a year or a month: "missions per year"."""
    return (vocabulary.date, 1) if vocabulary.date and at(sentence, place) in ("year", "month") else None


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
