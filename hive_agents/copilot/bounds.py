"""Bounds on dates and numbers of documents in a sentence."""

from __future__ import annotations

from typing import cast

from hive_agents.copilot.dates import Bound, DateSpan, to_come
from hive_agents.copilot.language import word_table
from hive_agents.copilot.plan import DocumentFilter, Operator
from hive_agents.copilot.sentence import ADVERBS, ARTICLES, BE, PREPOSITIONS, Sentence
from hive_agents.copilot.vocabulary import date_role_of, parts
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
            field = [*_date_fields(s, cue), *plain][0] if cue is not None else plain[0]
            bounds = [
                DocumentFilter(field=field, op=op, value=day.isoformat()) for op, day in _bounds(s, span, field, cue)
            ]
            demands.append((bounds, {*inside, *_naming(s, field, cue)}))
    return demands


def _bounds(s: Sentence, span: DateSpan, field: str, cue: int | None) -> tuple[Bound, ...]:
    """Return the bounds of a date: "due by 1 May" means the next one, "reviewed by 1 May" the last."""
    happened = cue is not None and s.at(cue).endswith("ed")
    ahead = date_role_of(field) in ("due", "expires") and not happened
    return to_come(s.words, span, s.today) if ahead else span.bounds


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
        if verb in s.inside and _date_fields(s, verb):
            verbs.add(verb)
    return verbs


def _date_cue(s: Sentence, first: int, last: int) -> int | None:
    """Return the place of the word that says what happened on a date: "updated"."""
    cues = word_table("fields.date_cues")
    for place in (s.back(first, ADVERBS, BE), last + 1):
        if s.at(place) in cues or _date_fields(s, place):
            return place
    return next((n for n in range(first - 1, -1, -1) if cues.get(s.at(n)) == "changed"), None)


def _date_fields(s: Sentence, place: int) -> list[str]:
    """Return the date fields that a word means, by name ("reviewed" of `reviewed_on`) or by role."""
    role, stem = word_table("fields.date_cues").get(s.at(place)), s.stem(place)
    named = [name for name in s.vocabulary.of_type("date") if stem and stem in terms(" ".join(parts(name)))]
    return named or (s.vocabulary.date_fields(role) if role else [])


def number_bounds(s: Sentence) -> list[tuple[DocumentFilter, set[int]]]:
    """Return filters on numbers beside their field's name: "version 3", "pages over 20", "more than 20 pages"."""
    demands: list[tuple[DocumentFilter, set[int]]] = []
    for name in s.vocabulary.of_type("number") if s.filters_by_description else ():
        for place in range(len(s.words)):
            if s.at(place).removesuffix("s") != parts(name)[-1].removesuffix("s"):
                continue
            comparison = _number_after(s, place) or _number_before(s, place)
            if comparison is not None:
                op, number, places = comparison
                value = int(number) if number.isdecimal() else float(number)
                demands.append((DocumentFilter(field=name, op=op, value=value), places))
    return demands


def _number_after(s: Sentence, place: int) -> tuple[Operator, str, set[int]] | None:
    comparisons = word_table("fields.comparisons")
    last, op = place + 1, "eq"
    while s.at(last) in comparisons or s.at(last) in _COMPARING:
        op = comparisons.get(s.at(last), op)
        last += 1
    return (cast("Operator", op), s.at(last), set(range(place, last + 1))) if _is_number(s.at(last)) else None


def _number_before(s: Sentence, place: int) -> tuple[Operator, str, set[int]] | None:
    """Return a bound before the field's name; a number without comparison may count things in the text."""
    comparisons = word_table("fields.comparisons")
    first, op = place - 2, None
    while s.at(first) in comparisons or s.at(first) in _COMPARING:
        op = comparisons.get(s.at(first), op)
        first -= 1
    if op is None or not _is_number(s.at(place - 1)) or not (s.has_head() or any(m.noun for m in s.mentions)):
        return None
    return cast("Operator", op), s.at(place - 1), set(range(first + 1, place + 1))


def _is_number(word: str) -> bool:
    return len(word) <= 15 and word.replace(".", "", 1).isdecimal()
