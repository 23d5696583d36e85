"""Bounds on dates and numbers of documents in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import cast

from hive_agents.copilot.dates import MONTHS, NUMBERS, Bound, DateSpan, to_come
from hive_agents.copilot.language import language, word_table
from hive_agents.copilot.plan import DocumentFilter, Operator
from hive_agents.copilot.roles import date_role_of, parts
from hive_agents.copilot.sentence import ADVERBS, ARTICLES, BE, PREPOSITIONS, Sentence
from hive_agents.documents import terms

_COMPARING = frozenset({"is", "at", "than", "the"})


def date_bounds(s: Sentence, used: set[int]) -> list[tuple[list[DocumentFilter], set[int]]]:
    """Return bounds on dates of the documents, with their places; dates of the content ("tubes from 2023") are none."""
    demands: list[tuple[list[DocumentFilter], set[int]]] = []
    fields = s.vocabulary.of_type("date")
    for span in s.dates if fields and s.filters_by_description else ():
        cue = _date_cue(s, span.first, span.last)
        inside = range(span.first, span.last + 1)
        near = s.is_head(span.first - 1) or s.is_head(span.last + 1)
        alone = not any(s.is_content(n, used) for n in range(len(s.words)) if n not in inside)
        if near or alone or (span.led and (cue is not None or s.has_head())):
            plain = [name for name in fields if date_role_of(name) not in ("due", "expires")] or fields
            # "Sent in 2020" goes by `date`, not by `date_of_purchase`, whose name tells another event.
            plain = sorted(plain, key=lambda name: not word_table("fields.date_roles").keys() >= set(parts(name)))
            field = [*date_fields(s, cue), *plain][0] if cue is not None else plain[0]
            demands.append((bounds_of(s, span, field, cue), {*inside, *_naming(s, field, cue)}))
    return demands


def bounds_of(s: Sentence, span: DateSpan, field: str, cue: int | None) -> list[DocumentFilter]:
    """Return the filters of a date: "due by 1 May" means the next one, "reviewed by 1 May" the last. "In July" is the
    July of any year where no document is of the one that a reader would mean."""
    happened = cue is not None and s.at(cue).endswith("ed")
    ahead = date_role_of(field) in ("due", "expires") and not happened
    bounds: tuple[Bound, ...] = to_come(s.words, span, s.today) if ahead else span.bounds
    (_, start), (_, end) = bounds[0], bounds[-1]
    whole = s.at(span.last) in MONTHS and start.day == 1 and start < end
    months = s.vocabulary.months.get(field, frozenset())
    if whole and (start.year, start.month) == (end.year, end.month) and months and f"{start:%Y-%m}" not in months:
        return [DocumentFilter(field=field, op="month", value=start.month)]
    return [DocumentFilter(field=field, op=op, value=day.isoformat()) for op, day in bounds]


def _naming(s: Sentence, field: str, cue: int | None) -> set[int]:
    """Return the places of the cue and of words before it that name the field, too: "due for review"."""
    if cue is None:
        return set()
    before = s.back(cue, PREPOSITIONS, ARTICLES)
    named = before not in s.inside and s.stem(before) in terms(" ".join(parts(field)))
    return set(range(before if named else cue, cue + 1))


def date_verbs(s: Sentence) -> set[int]:
    """Return the places of words for a date field before a date: "effective since March" is about no status."""
    verbs: set[int] = set()
    for span in s.dates if s.filters_by_description else ():
        verb = s.back(span.first, ADVERBS, BE)
        if verb in s.inside and date_fields(s, verb):
            verbs.add(verb)
    return verbs


def _date_cue(s: Sentence, first: int, last: int) -> int | None:
    """Return the place of the word that says what happened on a date: "updated"."""
    cues = word_table("fields.date_cues")
    for place in (s.back(first, ADVERBS, BE), last + 1):
        if s.at(place) in cues or date_fields(s, place):
            return place
    return next((n for n in range(first - 1, -1, -1) if cues.get(s.at(n)) == "changed"), None)


def date_fields(s: Sentence, place: int) -> list[str]:
    """Return the date fields that a word means, by name ("reviewed" of `reviewed_on`) or by role."""
    role, stem = word_table("fields.date_cues").get(s.at(place)), s.stem(place)
    named = [name for name in s.vocabulary.of_type("date") if stem and stem in terms(" ".join(parts(name)))]
    return named or (s.vocabulary.date_fields(role) if role else [])


def value_at(s: Sentence, place: int) -> tuple[float, int]:
    """Return the number at a place and the place of its last word: "5,000" and "5 million" have two."""
    text, gap = str(NUMBERS.get(s.at(place), s.at(place))), s.words[place].gap
    while s.at(place + 1).isdecimal() and len(s.at(place + 1)) == 3 and s.words[place + 1].gap == ",":
        place += 1
        text += s.at(place)
    sign = -1 if gap.endswith(("-", "−")) and gap[:-1].isspace() else 1
    value = sign * (int(text) if text.isdecimal() else float(text))
    scale = word_table("columns.scales").get(s.at(place + 1))
    return (value, place) if scale is None else (value * int(scale), place + 1)


def compared(s: Sentence, place: int) -> tuple[int, Operator | None]:
    """Return the place before a number and the words that compare with it, and the comparison."""
    comparisons = word_table("fields.comparisons")
    first, op = place - 1, None
    while s.at(first) in comparisons or s.at(first) in _COMPARING:
        op = comparisons.get(s.at(first), op)
        first -= 1
    return first, cast("Operator | None", op)


def is_number(word: str) -> bool:
    return NUMBERS.get(word, 0) > 1 or (len(word) <= 15 and word.replace(".", "", 1).isdecimal())


@cache
def _sizes() -> Mapping[str, tuple[str, float]]:
    """Return the measure of each unit, and how many of the measure's smallest unit it is."""
    sizes = language("en")["columns"]["sizes"]
    return {
        unit: (measure, float(factor))
        for measure, of_factor in sizes.items()
        for factor, units in of_factor.items()
        for unit in units.split()
    }


def size_of(unit: str) -> tuple[str, float] | None:
    return _sizes().get(unit)


def units_of(name: str) -> list[tuple[str, float]]:
    """Return the units that a column's name ends with: none, mostly, or one."""
    return [size for part in parts(name)[1:] if (size := size_of(part)) is not None]


def in_units(value: float, unit: str, name: str) -> float | None:
    """Return a number in the unit that a column's name tells; None where that is one of another measure.

    >>> in_units(2, "hours", "playing_time_min"), in_units(2, "km", "playing_time_min"), in_units(2, "km", "range")
    (120, None, 2)
    """
    told, own = size_of(unit), units_of(name)
    if told is None or not own:
        return value
    factor = next((factor for measure, factor in own if measure == told[0]), None)
    if factor is None:
        return None
    converted = round(value * told[1] / factor, 9)
    return int(converted) if converted == int(converted) else converted
