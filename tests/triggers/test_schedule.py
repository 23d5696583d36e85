from __future__ import annotations

import datetime as dt
import random
import time
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from hive_agents.triggers.schedule import next_tick, ticks_between
from hive_agents.triggers.spec import Cron, CronTrigger, IntervalTrigger
from tests.triggers.conftest import at

SINCE = at("2026-01-01")


def cron(schedule: str, timezone: str = "UTC") -> CronTrigger:
    return CronTrigger(id="t", type="cron", schedule=schedule, timezone=timezone, agent="digest")


def ticks(spec: CronTrigger | IntervalTrigger, after: dt.datetime, until: dt.datetime) -> list[dt.datetime]:
    found, tick = [], next_tick(spec, after, since=SINCE)
    while tick is not None and tick <= until:
        found.append(tick)
        tick = next_tick(spec, tick, since=SINCE)
    return found


@pytest.mark.parametrize(
    ("zone", "schedule", "day", "expected"),
    [
        # Spring, Berlin: 02:00 becomes 03:00 at 01:00 UTC.
        ("Europe/Berlin", "30 2 * * *", "2026-03-29", ["01:00"]),
        ("Europe/Berlin", "0,30 2,3 * * *", "2026-03-29", ["01:00", "01:30"]),
        ("Europe/Berlin", "30 * * * *", "2026-03-29", [f"{hour:02}:30" for hour in range(24)]),
        ("Europe/Berlin", "*/30 2 * * *", "2026-03-29", []),
        # Autumn, Berlin: 03:00 becomes 02:00 at 01:00 UTC.
        ("Europe/Berlin", "30 2 * * *", "2026-10-25", ["00:30"]),
        ("Europe/Berlin", "*/30 2 * * *", "2026-10-25", ["00:00", "00:30", "01:00", "01:30"]),
        # New York: at 07:00 UTC in spring, 06:00 UTC in autumn.
        ("America/New_York", "30 2 * * *", "2026-03-08", ["07:00"]),
        ("America/New_York", "30 1 * * *", "2026-11-01", ["05:30"]),
        ("America/New_York", "*/30 1 * * *", "2026-11-01", ["05:00", "05:30", "06:00", "06:30"]),
        # Lord Howe: half an hour, at 15:30 UTC of the day before in spring and 15:00 UTC in autumn.
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03", ["15:30"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04", ["14:45"]),
        ("Australia/Lord_Howe", "*/15 1-2 * * *", "2026-04-04",
         ["14:00", "14:15", "14:30", "14:45", "15:00", "15:15", "15:30", "15:45", "16:00", "16:15"]),
        ("UTC", "30 2 * * *", "2026-03-29", ["02:30"]),
    ],
)  # fmt: skip
def test_clock_changes_follow_debians_rules(zone: str, schedule: str, day: str, expected: list[str]) -> None:
    found = ticks(cron(schedule, zone), at(day) - dt.timedelta(seconds=1), at(f"{day} 23:59"))
    assert [f"{tick:%H:%M}" for tick in found] == expected


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Beirut", "America/Havana", "UTC"])
@pytest.mark.parametrize(
    "schedule", ["30 2 * * *", "0,30 0,1,2,3 * * *", "*/20 * * * *", "15 */5 * * 1-5", "0 0 1,29-31 * FRI", "5 4 L * *"]
)
def test_ticks_are_those_of_cronsim(zone: str, schedule: str) -> None:
    """Another implementation of the same rules agrees, wherever clocks change by whole hours."""
    spec = cron(schedule, zone)
    for first, last in (("2026-03-05", "2026-04-02"), ("2026-10-22", "2026-11-05")):
        expected = []
        for tick in CronSim(schedule, at(first).astimezone(ZoneInfo(zone))):
            if tick.astimezone(dt.UTC) > at(last):
                break
            expected.append(tick.astimezone(dt.UTC))
        found = ticks_between(spec, at(first), at(last), since=SINCE)
        assert (found.count, found.first, found.last) == (len(expected), expected[0], expected[-1])
        assert ticks(spec, at(first), at(last)) == expected


ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "UTC", "Pacific/Apia"]
SCHEDULES = ["30 2 * * *", "*/7 * * * *", "*/10 1-3 * * *", "0 0 * * *", "0 */6 * * 7", "59 23 28-31 * *"]


@pytest.mark.parametrize("seed", range(40))
def test_counts_over_any_split_add_up(seed: int) -> None:
    """No tick is lost or counted twice wherever a process stops and starts, and `next_tick` finds the same ones."""
    rng = random.Random(seed)
    spec: CronTrigger | IntervalTrigger = cron(rng.choice(SCHEDULES), rng.choice(ZONES))
    if rng.random() < 0.2:
        spec = IntervalTrigger(id="t", type="interval", every_seconds=rng.randint(600, 90_000), agent="digest")
    # Clocks change in March, April, October and November; Apia had no 30 December 2011.
    days = [at("2011-12-28"), at("2026-03-06"), at("2026-03-27"), at("2026-04-03"), at("2026-10-02"), at("2026-10-23")]
    start = rng.choice(days)
    moments = sorted(start + dt.timedelta(seconds=rng.randint(0, 4 * 86_400)) for _ in range(6))
    whole = ticks_between(spec, moments[0], moments[-1], since=SINCE)
    parts = [ticks_between(spec, a, b, since=SINCE) for a, b in pairwise(moments)]
    assert whole.count == sum(part.count for part in parts)
    one_by_one = ticks(spec, moments[0], moments[-1])
    assert len(one_by_one) == whole.count
    assert one_by_one == sorted(set(one_by_one))
    assert [*one_by_one[:1], *one_by_one[-1:]] == [tick for tick in (whole.first, whole.last) if tick is not None]


def test_a_day_that_a_zone_left_out_runs_when_the_next_one_begins() -> None:
    found = ticks(cron("30 2 * * *", "Pacific/Apia"), at("2011-12-29"), at("2011-12-31"))
    assert found == [at("2011-12-29 12:30"), at("2011-12-30 10:00"), at("2011-12-30 12:30")]


def test_a_time_of_a_day_that_was_left_out_is_not_counted_beside_the_same_one_of_the_next() -> None:
    """Midnight of the 30th moves to midnight of the 31st, which is there anyway."""
    spec, after, until = cron("0 0 * * *", "Pacific/Apia"), at("2011-12-29 12:00"), at("2011-12-31")
    assert ticks(spec, after, until) == [at("2011-12-30 10:00")]
    counted = ticks_between(spec, after, until, since=SINCE)
    assert (counted.count, counted.first, counted.last) == (1, at("2011-12-30 10:00"), at("2011-12-30 10:00"))


def test_a_long_outage_is_counted_without_walking_through_it() -> None:
    began = time.process_time()
    found = ticks_between(cron("* * * * *", "Europe/Berlin"), at("2025-01-01"), at("2026-01-01"), since=SINCE)
    assert found.count == 365 * 24 * 60
    decade = ticks_between(cron("* * * * *"), at("2016-01-01"), at("2026-01-01"), since=SINCE)
    assert decade.count == (at("2026-01-01") - at("2016-01-01")) // dt.timedelta(minutes=1)
    interval = IntervalTrigger(id="t", type="interval", every_seconds=1, agent="digest")
    assert ticks_between(interval, SINCE, at("2126-01-01"), since=SINCE).count == 3_155_673_600
    assert time.process_time() - began < 20


def test_intervals_do_not_drift() -> None:
    spec = IntervalTrigger(id="t", type="interval", every_seconds=90, agent="digest")
    assert next_tick(spec, at("2026-01-01 00:10:17"), since=SINCE) == at("2026-01-01 00:10:30")
    assert next_tick(spec, at("2025-01-01"), since=SINCE) == at("2026-01-01 00:01:30")


def test_a_rare_schedule_is_found() -> None:
    assert next_tick(cron("0 0 29 2 */7"), at("2026-01-01"), since=SINCE) == at("2032-02-29")


@pytest.mark.parametrize(
    "schedule",
    ["", "* * * *", "0 0 2 * * *", "60 * * * *", "@daily", "0 0 30 2 *", "*/0 * * * *", "a b c d e", "0 0 1 1 ²L",
     "1-0 * * * *", "0 0 * * 8", f"{','.join(['1'] * 200)} * * * *", "*/99999999999999999999 * * * x"],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Cron.parse(schedule)
