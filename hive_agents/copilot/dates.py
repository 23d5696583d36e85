"""Dates that readers type: "since March", "last 30 days", "in 2024", "between May and July"."""

from __future__ import annotations

import calendar
import datetime
import re
from dataclasses import dataclass
from typing import Literal

from hive_agents.copilot.language import Word, at, language, word_list, word_table

Bound = tuple[Literal["gte", "gt", "lte", "lt"], datetime.date]

_EN = language("en")["dates"]
_LEADS = word_table("dates.leads")
MONTHS = {name: n for n, names in enumerate(_EN["months"], start=1) for name in names.split()}
_DAYS: dict[str, int] = _EN["days"]
_MONTHS_IN: dict[str, int] = _EN["months_in"]
NUMBERS = {word: n for n, word in enumerate(_EN["numbers"].split(), start=1)} | {"a": 1, "an": 1}
_FEW = {"couple": 2, "few": 3}
_FILLERS, _JOINS, _ONWARDS = (word_list("dates", name) for name in ("fillers", "joins", "onwards"))
_YEAR, _DECADE = re.compile(r"(19|20)\d\d"), re.compile(r"(19|20)\d0s")
_OLD_YEAR = re.compile(r"1[5-8]\d\d")
"""A year behind "before" or "in" that ends the sentence; elsewhere it is mostly a number."""
_RECENT = 30
"""Days that "recently" reaches back."""


@dataclass(frozen=True)
class Period:
    """Days `start` to `end`; `after` is the place of the next word. `rolling`: up to today, as "last 30 days"."""

    start: datetime.date
    end: datetime.date
    after: int
    rolling: bool = False


@dataclass(frozen=True)
class DateSpan:
    """Words `first` to `last`, and the bounds they set; `led` is false for a plain year without "since" or "in"."""

    first: int
    last: int
    bounds: tuple[Bound, ...]
    led: bool = True


def date_spans(sentence: list[Word], today: datetime.date) -> list[DateSpan]:
    """Return every date that a sentence names, from left to right.

    >>> from hive_agents.copilot.language import words
    >>> [span.bounds for span in date_spans(words("since March"), datetime.date(2026, 2, 2))]
    [(('gte', datetime.date(2025, 3, 1)),)]
    """
    spans: list[DateSpan] = []
    place = 0
    while place < len(sentence):
        try:
            span = _span(sentence, place, today)
        except (ValueError, OverflowError):  # 31 February, or ten million years ago: words, not a date
            span = None
        if span is not None:
            spans.append(span)
        place = span.last + 1 if span else place + 1
    return spans


def to_come(sentence: list[Word], span: DateSpan, today: datetime.date) -> tuple[Bound, ...]:
    """Return the bounds of a date in the future: a month without a year is the next one.

    >>> from hive_agents.copilot.language import words
    >>> sentence, today = words("due before 1 December"), datetime.date(2026, 2, 2)
    >>> (span,) = date_spans(sentence, today)
    >>> span.bounds, to_come(sentence, span, today)
    ((('lt', datetime.date(2025, 12, 1)),), (('lt', datetime.date(2026, 12, 1)),))
    """
    named = [word.lower for word in sentence[span.first : span.last + 1]]
    has_year = any(map(_YEAR.fullmatch, named)) or not any(word in MONTHS for word in named)
    since = [op for op, _ in span.bounds] == ["gte"]
    if has_year or since or max(day for _, day in span.bounds) >= today:
        return span.bounds
    return tuple((op, _back(day, -1, "year")) for op, day in span.bounds)


def _span(sentence: list[Word], place: int, today: datetime.date) -> DateSpan | None:
    word = at(sentence, place)
    if word in ("between", "from"):
        joined = _range(sentence, place, today)
        if joined is not None or word == "between":
            return joined
    length = next((n for n in (2, 1) if " ".join(at(sentence, place + k) for k in range(n)) in _LEADS), 0)
    if not length:
        period = _period(sentence, place, today, named=False)
        if period is None:
            return None
        return DateSpan(place, period.after - 1, _bounds("in", period), led=period.rolling or not word.isdigit())
    bound = _LEADS[" ".join(at(sentence, place + n) for n in range(length))]
    begin = _skip(sentence, place + length)
    period = _period(sentence, begin, today, named=True)
    if period is None:
        age = _age(sentence, begin, today) if bound in ("lt", "gt") else None
        return DateSpan(place, age[1] - 1, (("lt" if bound == "lt" else "gte", age[0]),)) if age else None
    if word == "from" and at(sentence, period.after) in _ONWARDS:
        return DateSpan(place, period.after, (("gte", period.start),))
    return DateSpan(place, period.after - 1, _bounds(bound, period))


def _bounds(bound: str, period: Period) -> tuple[Bound, ...]:
    if bound == "gte" or (bound in ("in", "gt") and period.rolling):
        return (("gte", period.start),)
    if bound == "gt":
        return (("gt", period.end),)
    if bound == "lt":
        return (("lt", period.start),)
    return (("lte", period.end),) if bound == "lte" else (("gte", period.start), ("lte", period.end))


def _range(sentence: list[Word], place: int, today: datetime.date) -> DateSpan | None:
    """Return the span of "between March and May 2025", "from 2023 to 2024"."""
    first = _period(sentence, _skip(sentence, place + 1), today, named=True)
    if first is None or (at(sentence, place) == "from" and at(sentence, first.after) not in _JOINS):
        return None
    second = _period(sentence, _skip(sentence, first.after + 1), today, named=True)
    if second is None:
        return None
    start = first.start
    if start > second.end or at(sentence, first.after - 1) in MONTHS:  # the second year is meant for both
        year = second.end.year if start.replace(year=second.end.year) <= second.end else second.end.year - 1
        start = start.replace(year=year)
    return DateSpan(place, second.after - 1, (("gte", start), ("lte", second.end)))


def _skip(sentence: list[Word], place: int) -> int:
    return place + (at(sentence, place) in _FILLERS)


def _period(sentence: list[Word], place: int, today: datetime.date, named: bool) -> Period | None:
    """Return the days that the words at `place` name; a month alone only where `named` (after "in", "since")."""
    word = at(sentence, place)
    if word in ("today", "yesterday"):
        day = today - datetime.timedelta(days=word == "yesterday")
        return Period(day, day, place + 1)
    lately = word in ("recently", "lately") and at(sentence, place - 1) != "most"  # else an order, no time
    if lately or (word == "recent" and at(sentence, place + 1) in ("changes", "updates")):
        return Period(today - datetime.timedelta(days=_RECENT), today, place + 1, rolling=True)
    if word in ("last", "past", "previous", "this", "current", "next"):
        return _relative(sentence, place, today)
    age = _age(sentence, place, today)
    if age is not None and at(sentence, age[1]) == "ago":
        return Period(age[0], age[0], age[1] + 1)
    if re.fullmatch(r"q[1-4]", word):
        return _quarter(sentence, place, today)
    old = named and not at(sentence, place + 1) and _OLD_YEAR.fullmatch(word)
    if old or _YEAR.fullmatch(word):
        return _from_year(sentence, place)
    if _DECADE.fullmatch(word):
        return _months(int(word[:4]), 1, 120, place + 1)
    return _with_month(sentence, place, today, named)


def _from_year(sentence: list[Word], place: int) -> Period:
    """Return the days of "2025", "2025-03", "2025-03-31"."""
    year = int(at(sentence, place))
    numbers: list[int] = []
    for word in sentence[place + 1 : place + 3]:
        if not re.fullmatch(r"\d\d?", word.lower) or word.gap not in ("-", "/", "."):
            break
        numbers.append(int(word.lower))
    if len(numbers) == 2:
        day = datetime.date(year, *numbers)
        return Period(day, day, place + 3)
    if numbers and 1 <= numbers[0] <= 12:
        return _months(year, numbers[0], 1, place + 2)
    return _months(year, 1, 12, place + 1)


def _with_month(sentence: list[Word], place: int, today: datetime.date, named: bool) -> Period | None:
    """Return the days of "5 March 2025", "5th of March", "March 5, 2025", "March 2025", "March"."""
    day = _day(at(sentence, place))
    month_at = place + (day is not None) + (day is not None and at(sentence, place + 1) == "of")
    month = MONTHS.get(at(sentence, month_at))
    if month is None:
        return None
    after = month_at + 1
    following = _day(at(sentence, after))
    if day is None and following is not None:
        day, after = following, after + 1
    spelt = _YEAR.fullmatch(at(sentence, after))
    if spelt is None and day is None and not named:
        return None
    year = int(spelt.group()) if spelt else today.year
    after += spelt is not None
    period = _months(year, month, 1, after)
    if day is not None:
        period = Period(datetime.date(year, month, day), datetime.date(year, month, day), after)
    if spelt is None and period.start > today:  # the latest March that has begun
        return Period(period.start.replace(year=year - 1), period.end.replace(year=year - 1), after)
    return period


def _day(word: str) -> int | None:
    match = re.fullmatch(r"([12]?\d|3[01]|0[1-9])(st|nd|rd|th)?", word)
    return int(match[1]) if match and int(match[1]) else None


def _quarter(sentence: list[Word], place: int, today: datetime.date) -> Period:
    """Return the days of "Q1", "Q1 2025", "Q1 of 2025"."""
    after = place + 1 + (at(sentence, place + 1) == "of")
    year = _YEAR.fullmatch(at(sentence, after))
    month = 3 * int(at(sentence, place)[1]) - 2
    return _months(int(year.group()) if year else today.year, month, 3, after + (year is not None))


def _relative(sentence: list[Word], place: int, today: datetime.date) -> Period | None:
    """Return the days of "last 30 days" and "the past year", back from today, or of a calendar's "last year"."""
    which = at(sentence, place)
    age = _age(sentence, place + 1, today)
    if age is not None:
        return Period(age[0], today, age[1], rolling=True) if which in ("last", "past", "previous") else None
    unit = at(sentence, place + 1)
    if unit not in _DAYS | _MONTHS_IN or unit == "fortnight":
        return None
    if which == "past" or (which == "last" and at(sentence, place - 1) == "the"):
        return Period(_back(today, 1, unit), today, place + 2, rolling=True)
    step = {"last": -1, "previous": -1, "next": 1}.get(which, 0)
    if unit in _DAYS:
        start = today - datetime.timedelta(days=today.weekday() if unit == "week" else 0)
        start += datetime.timedelta(days=step * _DAYS[unit])
        return Period(start, start + datetime.timedelta(days=_DAYS[unit] - 1), place + 2)
    length = _MONTHS_IN[unit]
    first = (today.month - 1) // length * length + step * length
    return _months(today.year + first // 12, first % 12 + 1, length, place + 2)


def _months(year: int, month: int, length: int, after: int) -> Period:
    last = year * 12 + month - 1 + length - 1
    year_of_last, month_of_last = last // 12, last % 12 + 1
    end = datetime.date(year_of_last, month_of_last, calendar.monthrange(year_of_last, month_of_last)[1])
    return Period(datetime.date(year, month, 1), end, after)


def _age(sentence: list[Word], place: int, today: datetime.date) -> tuple[datetime.date, int] | None:
    """Return the day "30 days" or "a couple of weeks" ago, and the place after these words."""
    word = at(sentence, place)
    number = int(word) if re.fullmatch(r"\d{1,4}", word) else NUMBERS.get(word, _FEW.get(word))
    after = place + 1
    if word == "a" and at(sentence, after) in _FEW:
        number, after = _FEW[at(sentence, after)], after + 1
    after += at(sentence, after) == "of"
    unit = at(sentence, after).removesuffix("s")
    if number is None or unit not in _DAYS | _MONTHS_IN:
        return None
    return _back(today, number, unit), after + 1


def _back(today: datetime.date, number: int, unit: str) -> datetime.date:
    if unit in _DAYS:
        return today - datetime.timedelta(days=number * _DAYS[unit])
    months = today.year * 12 + today.month - 1 - number * _MONTHS_IN[unit]
    year, month = months // 12, months % 12 + 1
    return datetime.date(year, month, min(today.day, calendar.monthrange(year, month)[1]))
