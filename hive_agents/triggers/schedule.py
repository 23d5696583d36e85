"""Ticks of schedules: pure functions of a schedule and two times.

A cron schedule of fixed times (neither minute nor hour begins with `*`) ticks once a day for each of its times: at the
first of two where clocks go back, and as soon as the hour is over that was left out where they go forward, as Debian's
cron does. Any other one ticks at every minute that fits the wall clock, so that it follows real time.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from zoneinfo import ZoneInfo

from hive_agents.triggers.spec import Cron, IntervalTrigger, ScheduledSpec, zone

HORIZON_DAYS = 41 * 366
"""A leap day on a given weekday comes back within 40 years, also around 2100."""
_DAY, _HOUR, _MINUTE = dt.timedelta(days=1), dt.timedelta(hours=1), dt.timedelta(minutes=1)


@dataclass(frozen=True)
class Ticks:
    """The number of ticks, the first and the last."""

    count: int = 0
    first: dt.datetime | None = None
    last: dt.datetime | None = None


def next_tick(spec: ScheduledSpec, after: dt.datetime, *, since: dt.datetime) -> dt.datetime | None:
    """Return the first tick later than `after`, in UTC; intervals count from `since`. None where 41 years have none."""
    if isinstance(spec, IntervalTrigger):
        step = dt.timedelta(seconds=spec.every_seconds)
        return since.astimezone(dt.UTC) + (max(after - since, dt.timedelta()) // step + 1) * step
    cron, place = Cron.parse(spec.schedule), zone(spec.timezone)
    first = after.astimezone(place).date() - _DAY
    for number in range(HORIZON_DAYS):
        day = first + number * _DAY
        if cron.fits(day) or not _has_one_offset(place, day):
            found = next((tick for tick in _of_day(cron, place, day, after) if tick > after), None)
            if found is not None:
                return found
    return None


def ticks_between(spec: ScheduledSpec, after: dt.datetime, until: dt.datetime, *, since: dt.datetime) -> Ticks:
    """Return the ticks later than `after` and not later than `until`; days without a change of clocks are counted at
    once."""
    if isinstance(spec, IntervalTrigger):
        step, start = dt.timedelta(seconds=spec.every_seconds), since.astimezone(dt.UTC)
        low, high = max(after - start, dt.timedelta()) // step, max(until - start, dt.timedelta()) // step
        return Ticks(high - low, start + (low + 1) * step, start + high * step) if high > low else Ticks()
    cron, place = Cron.parse(spec.schedule), zone(spec.timezone)
    count, first, last = 0, None, None
    day, final = after.astimezone(place).date() - _DAY, until.astimezone(place).date() + _DAY
    while day <= final:
        if not _has_one_offset(place, day) or not after < _midnight(place, day) <= until - _DAY:
            for tick in _of_day(cron, place, day, after):
                if tick > until:
                    break
                # A skipped time can be moved to one that ticks anyway.
                if tick > after and tick != last:
                    count, first, last = count + 1, first or tick, tick
        elif cron.fits(day):
            whole = _of_whole_day(cron, place, day)
            count, first, last = count + whole.count, first or whole.first, whole.last
        day += _DAY
    return Ticks(count, first, last)


def _of_whole_day(cron: Cron, place: ZoneInfo, day: dt.date) -> Ticks:
    midnight = _midnight(place, day)
    first = midnight + dt.timedelta(hours=cron.hours[0], minutes=cron.minutes[0])
    last = midnight + dt.timedelta(hours=cron.hours[-1], minutes=cron.minutes[-1])
    return Ticks(len(cron.hours) * len(cron.minutes), first, last)


def _of_day(cron: Cron, place: ZoneInfo, day: dt.date, after: dt.datetime) -> Iterator[dt.datetime]:
    """Yield the ticks of a local day, in order, in UTC, without some of those up to `after`.

    With a clock change near the day one may belong to the next day as well.
    """
    start = _midnight(place, day)
    if _has_one_offset(place, day):
        for hour in cron.hours if cron.fits(day) else ():
            begin = start + dt.timedelta(hours=hour)
            if after < begin + _HOUR:
                for minute in cron.minutes:
                    yield begin + dt.timedelta(minutes=minute)
    elif cron.fixed:
        if cron.fits(day):
            times = [dt.time(hour, minute) for hour in cron.hours for minute in cron.minutes]
            yield from sorted({_moved(dt.datetime.combine(day, time), place) for time in times})
    else:
        tick, end = start, _midnight(place, day + _DAY)
        while tick < end:
            local = tick.astimezone(place)
            if local.minute in cron.minutes and local.hour in cron.hours and cron.fits(local.date()):
                yield tick
            tick += _MINUTE


def _moved(wall: dt.datetime, place: ZoneInfo) -> dt.datetime:
    """Return the first moment with that time on the wall, or, where clocks go past it, the first one after it."""
    moment = wall.replace(tzinfo=place).astimezone(dt.UTC)
    before, after = moment - _DAY, moment + _DAY
    if moment.astimezone(place).replace(tzinfo=None) == wall:
        return moment
    while after - before > _MINUTE:  # the change of clocks lies between these two
        middle = before + (after - before) // _MINUTE // 2 * _MINUTE
        if middle.astimezone(place).replace(tzinfo=None) < wall:
            before = middle
        else:
            after = middle
    return after


@lru_cache(maxsize=4096)
def _midnight(place: ZoneInfo, day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), place).astimezone(dt.UTC)


def _has_one_offset(place: ZoneInfo, day: dt.date) -> bool:
    """Return whether no clock changes on that day or on the one before."""
    ends = [_midnight(place, day + number * _DAY) for number in (-1, 0, 1)]
    return ends[1] - ends[0] == ends[2] - ends[1] == _DAY
