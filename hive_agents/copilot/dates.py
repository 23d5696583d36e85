"""Dates that readers type: "since March", "last 30 days", "in 2024", "between May and July"."""

from __future__ import annotations

import calendar
import datetime
import re
from dataclasses import dataclass
from typing import Literal

from hive_agents.copilot.wording import Word, at

Bound = tuple[Literal["gte", "gt", "lte", "lt"], datetime.date]

_MONTHS = {
    name.lower(): n for names in (calendar.month_name, calendar.month_abbr) for n, name in enumerate(names) if name
}
_MONTHS["sept"] = 9
_UNITS = {"day": 1, "week": 7, "fortnight": 14, "month": 0, "quarter": 0, "year": 0}
_MONTHS_IN = {"month": 1, "quarter": 3, "year": 12}
_NUMBERS = {
    word: n for n, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
} | {"a": 1, "an": 1, "couple": 2, "few": 3}
_SINCE = frozenset({"since", "starting"})
_AFTER = frozenset({"after"})
_BEFORE = frozenset({"before"})
_UNTIL = frozenset({"until", "till", "through", "by"})
_WITHIN = frozenset({"in", "during", "of", "on", "from", "for", "within", "over", "throughout", "at"})
_RECENT = 30
"""Days that "recently" reaches back."""
_COMPARED = {"newer": "gt", "later": "gt", "younger": "gt", "older": "lt", "earlier": "lt"}


@dataclass(frozen=True)
class Period:
    """Whole days from `start` to `end`; `after` is the place of the next word. Rolling: up to today, no end asked."""

    start: datetime.date
    end: datetime.date
    after: int
    rolling: bool = False


@dataclass(frozen=True)
class DateSpan:
    """Words `first` to `last`, and the bounds they set. `led`: "since", "in" …; a bare year isn't."""

    first: int
    last: int
    bounds: tuple[Bound, ...]
    led: bool = True


def date_spans(sentence: list[Word], today: datetime.date) -> list[DateSpan]:
    """Every date that a sentence names, from left to right.

    >>> from hive_agents.copilot.wording import words
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


def _span(sentence: list[Word], place: int, today: datetime.date) -> DateSpan | None:
    word, following = at(sentence, place), _skip(sentence, place + 1)
    if word == "between" or (word == "from" and _joined(sentence, following, today)):
        return _range(sentence, place, following, today)
    operator = _operator(sentence, place)
    if operator is not None:
        kind, begin = operator
        period = _period(sentence, _skip(sentence, begin), today, named=True)
        if period is None:
            age = _age(sentence, _skip(sentence, begin), today) if kind in ("lt", "gt") else None
            return DateSpan(place, age[1] - 1, ((kind if kind == "lt" else "gte", age[0]),)) if age else None  # type: ignore[arg-type]
        if word == "from" and at(sentence, period.after) in ("on", "onwards", "onward"):
            return DateSpan(place, period.after, (("gte", period.start),))
        return DateSpan(place, period.after - 1, _bounds(kind, period))
    period = _period(sentence, place, today, named=False)
    if period is None:
        return None
    relative = period.rolling or not word.isdigit()
    return DateSpan(place, period.after - 1, _bounds("in", period), led=relative)


def _operator(sentence: list[Word], place: int) -> tuple[str, int] | None:
    word, following = at(sentence, place), at(sentence, place + 1)
    for lead, kind in ((_SINCE, "gte"), (_AFTER, "gt"), (_BEFORE, "lt"), (_UNTIL, "lte"), (_WITHIN, "in")):
        if word in lead:
            return kind, place + 1
    if word in _COMPARED and following == "than":
        return _COMPARED[word], place + 2
    if (word, following) == ("prior", "to"):
        return "lt", place + 2
    if (word, following) == ("up", "to"):
        return "lte", place + 2
    return ("gte", place + 2) if (word, following) == ("as", "of") else None


def _bounds(kind: str, period: Period) -> tuple[Bound, ...]:
    if kind == "gte" or (kind == "in" and period.rolling):
        return (("gte", period.start),)
    if kind == "gt":
        return (("gte", period.start),) if period.rolling else (("gt", period.end),)
    if kind == "lt":
        return (("lt", period.start),)
    return (("lte", period.end),) if kind == "lte" else (("gte", period.start), ("lte", period.end))


def _joined(sentence: list[Word], place: int, today: datetime.date) -> bool:
    first = _period(sentence, place, today, named=True)
    return first is not None and at(sentence, first.after) in ("to", "until", "till", "through", "–")


def _range(sentence: list[Word], place: int, begin: int, today: datetime.date) -> DateSpan | None:
    first = _period(sentence, begin, today, named=True)
    if first is None:
        return None
    second = _period(sentence, _skip(sentence, first.after + 1), today, named=True)
    if second is None:
        return None
    start = first.start
    if (
        start > second.end or at(sentence, first.after - 1) in _MONTHS
    ):  # "between March and May 2025": one year for both
        year = second.end.year if start.replace(year=second.end.year) <= second.end else second.end.year - 1
        start = start.replace(year=year)
    return DateSpan(place, second.after - 1, (("gte", start), ("lte", second.end)))


def _skip(sentence: list[Word], place: int) -> int:
    return place + 1 if at(sentence, place) in ("the", "early", "late", "about", "around") else place


def _period(sentence: list[Word], place: int, today: datetime.date, named: bool) -> Period | None:
    """The days that the words at `place` name; a month's name alone counts only where `named` (after "in", "since")."""
    word = at(sentence, place)
    if word in ("today", "yesterday"):
        day = today - datetime.timedelta(days=word == "yesterday")
        return Period(day, day, place + 1)
    if word in ("recently", "lately") or (word == "recent" and at(sentence, place + 1) in ("changes", "updates")):
        return Period(today - datetime.timedelta(days=_RECENT), today, place + 1, rolling=True)
    if word in ("last", "past", "previous", "this", "current", "next"):
        return _relative(sentence, place, today)
    age = _age(sentence, place, today)
    if age is not None and at(sentence, age[1]) == "ago":
        return Period(age[0], age[0], age[1] + 1)
    if re.fullmatch(r"q[1-4]", word) or (word == "quarter" and re.fullmatch(r"[1-4]", at(sentence, place + 1))):
        return _quarter(sentence, place, today)
    if re.fullmatch(r"(19|20)\d\d", word):
        return _from_year(sentence, place)
    return _with_month(sentence, place, today, named)


def _from_year(sentence: list[Word], place: int) -> Period:
    year = int(at(sentence, place))
    numbers: list[int] = []
    for n in (place + 1, place + 2):
        if (
            len(numbers) == n - place - 1
            and re.fullmatch(r"\d\d?", at(sentence, n))
            and sentence[n].gap in ("-", "/", ".")
        ):
            numbers.append(int(at(sentence, n)))
    if len(numbers) == 2:
        day = datetime.date(year, *numbers)
        return Period(day, day, place + 3)
    if numbers and 1 <= numbers[0] <= 12:
        return _month(year, numbers[0], place + 2)
    return Period(datetime.date(year, 1, 1), datetime.date(year, 12, 31), place + 1)


def _with_month(sentence: list[Word], place: int, today: datetime.date, named: bool) -> Period | None:
    """ "5 March 2025", "5th of March", "March 5, 2025", "March 2025", "March"."""
    day = _day(at(sentence, place))
    month_at = place + (day is not None) + (day is not None and at(sentence, place + 1) == "of")
    month = _MONTHS.get(at(sentence, month_at))
    if month is None:
        return None
    after = month_at + 1
    following = _day(at(sentence, after))
    if day is None and following is not None:
        day, after = following, after + 1
    spelt = re.fullmatch(r"(19|20)\d\d", at(sentence, after))
    if spelt is None and day is None and not named:
        return None
    year = int(spelt.group()) if spelt else today.year
    after += spelt is not None
    if day is None:
        period = _month(year, month, after)
    else:
        period = Period(datetime.date(year, month, day), datetime.date(year, month, day), after)
    if spelt is None and period.start > today:  # the latest March that has begun
        return Period(period.start.replace(year=year - 1), period.end.replace(year=year - 1), after)
    return period


def _day(word: str) -> int | None:
    found = re.fullmatch(r"([12]?\d|3[01]|0[1-9])(st|nd|rd|th)?", word)
    return int(found[1]) if found and int(found[1]) else None


def _month(year: int, month: int, after: int) -> Period:
    last = calendar.monthrange(year, month)[1]
    return Period(datetime.date(year, month, 1), datetime.date(year, month, last), after)


def _quarter(sentence: list[Word], place: int, today: datetime.date) -> Period:
    spelt = at(sentence, place) == "quarter"
    number = int(at(sentence, place + 1) if spelt else at(sentence, place)[1])
    after = place + 1 + spelt
    after += at(sentence, after) == "of"
    year = re.fullmatch(r"(19|20)\d\d", at(sentence, after))
    first = _month(int(year.group()) if year else today.year, 3 * number - 2, after)
    last = _month(first.start.year, 3 * number, after)
    return Period(first.start, last.end, after + (year is not None))


def _relative(sentence: list[Word], place: int, today: datetime.date) -> Period | None:
    """ "last 30 days" and "the past year" reach back from today; "last year" and "this month" are of the calendar."""
    which = at(sentence, place)
    age = _age(sentence, place + 1, today)
    if age is not None:
        return Period(age[0], today, age[1], rolling=True) if which in ("last", "past", "previous") else None
    unit = at(sentence, place + 1)
    if unit not in _UNITS or unit == "fortnight":
        return None
    if which == "past" or (which == "last" and at(sentence, place - 1) == "the"):
        return Period(_back(today, 1, unit), today, place + 2, rolling=True)
    step = {"last": -1, "previous": -1, "next": 1}.get(which, 0)
    start, end = _calendar(today, unit, step)
    return Period(start, end, place + 2)


def _calendar(today: datetime.date, unit: str, step: int) -> tuple[datetime.date, datetime.date]:
    if unit in ("day", "week"):
        length = _UNITS[unit]
        start = today - datetime.timedelta(days=today.weekday() if unit == "week" else 0)
        start += datetime.timedelta(days=step * length)
        return start, start + datetime.timedelta(days=length - 1)
    months = _MONTHS_IN[unit]
    first = (today.year * 12 + today.month - 1) // months * months + step * months
    start = datetime.date(first // 12, first % 12 + 1, 1)
    last = first + months
    return start, datetime.date(last // 12, last % 12 + 1, 1) - datetime.timedelta(days=1)


def _age(sentence: list[Word], place: int, today: datetime.date) -> tuple[datetime.date, int] | None:
    """ "30 days", "a couple of weeks": the day that long ago and the place after it."""
    word = at(sentence, place)
    number = int(word) if re.fullmatch(r"\d{1,4}", word) else _NUMBERS.get(word)
    after = place + 1
    if word == "a" and at(sentence, after) in ("couple", "few"):
        number, after = _NUMBERS[at(sentence, after)], after + 1
    after += at(sentence, after) == "of"
    unit = at(sentence, after).removesuffix("s")
    if number is None or unit not in _UNITS:
        return None
    return _back(today, number, unit), after + 1


def _back(today: datetime.date, number: int, unit: str) -> datetime.date:
    if unit not in _MONTHS_IN:
        return today - datetime.timedelta(days=number * _UNITS[unit])
    months = today.year * 12 + today.month - 1 - number * _MONTHS_IN[unit]
    year, month = months // 12, months % 12 + 1
    return datetime.date(year, month, min(today.day, calendar.monthrange(year, month)[1]))
