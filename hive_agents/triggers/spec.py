"""Models of triggers: what starts an agent's runs, with which input and as whom."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeGuard
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, RootModel, model_validator

from hive_agents.access import is_name
from hive_agents.base import sha256
from hive_agents.base.files import AnyCase, FileFormat, Name
from hive_agents.runs import Limits
from hive_agents.triggers.payload import parse_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from cronsim import CronSim

YEAR_SECONDS = 366 * 86_400
MAX_SCHEDULE = 200


@lru_cache(maxsize=64)
def zone(name: str) -> ZoneInfo:
    """Raises: ValueError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("use an IANA name, such as Europe/Berlin or UTC") from None


@dataclass(frozen=True)
class Cron:
    """A cron schedule that was read; `days` tells which dates fit."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    fixed: bool
    sim: CronSim

    @classmethod
    @lru_cache(maxsize=256)
    def parse(cls, text: str) -> Cron:
        """Raises: ValueError for what is no schedule of five fields, and for one that never ticks."""
        from cronsim import CronSim, CronSimError

        parts = text.split()
        fields = "use five fields: minute hour day month weekday, as 0 2 * * *"
        if len(parts) != 5 or len(text) > MAX_SCHEDULE:
            raise ValueError(fields)
        try:
            sim = CronSim(text, dt.datetime(2024, 1, 1, tzinfo=dt.UTC))
            if next(sim, None) is None:
                raise ValueError("it never comes")
        except CronSimError as error:
            if _each_field_reads(parts):
                raise ValueError(f"it never comes: no month of {parts[3]} has a day {parts[2]}") from None
            raise ValueError(f"{str(error)[:1].lower()}{str(error)[1:]}; {fields}") from None
        fixed = not (parts[0].startswith("*") or parts[1].startswith("*"))
        return cls(tuple(sorted(sim.minutes)), tuple(sorted(sim.hours)), fixed, sim)

    def fits(self, day: dt.date) -> bool:
        return day.month in self.sim.months and self.sim.match_day(day)


def _each_field_reads(parts: list[str]) -> bool:
    """Return whether nothing is wrong with any field by itself: then there is no such day in such a month."""
    from cronsim import CronSim, CronSimError

    try:
        for place, part in enumerate(parts):
            CronSim(" ".join(part if n == place else "*" for n in range(5)), dt.datetime(2024, 1, 1, tzinfo=dt.UTC))
    except CronSimError:
        return False
    return True


def _read_by(parse: Callable[[str], object]) -> AfterValidator:
    def checked(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(checked)


def _printable(name: str) -> str:
    if not is_name(name):
        raise ValueError("a name is printable, at most 256 characters, without commas")
    return name


def _url(text: str) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable() and " " not in text
        known_user = parts.username is not None or parts.password is not None
        _ = parts.port
    except ValueError:
        fits, known_user = False, False
    if not fits:
        raise ValueError("use an http or https URL")
    if known_user:
        raise ValueError('a URL with a user or password shows it to all readers of the file: use "secret_ref"')
    return text


def _is_private(url: str) -> bool:
    """Return whether the connection to a URL can't be read on the way."""
    import ipaddress
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    try:
        return parts.scheme == "https" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"


InputPath = Annotated[str, _read_by(parse_path)]


class Trigger(FileFormat):
    """What every trigger says.

    `input` are constant inputs of the agent; what comes with an event is laid over them. `run_as` names the service
    that the run works for, `service:<id>` by default. `missed` says what becomes of a schedule's ticks that passed
    while nothing was there to see them: "skip" starts nothing, "once" starts one run for all of them. `budget` is what
    each of its runs may use up.
    """

    id: Name
    agent: Name
    input: dict[str, Any] = {}
    missed: Annotated[Literal["skip", "once"], AnyCase] = "skip"
    run_as: Annotated[str, AfterValidator(_printable)] | None = None
    enabled: bool = True
    budget: Limits | None = None

    @property
    def service(self) -> str:
        return self.run_as or f"service:{self.id}"

    @property
    def digest(self) -> str:
        """SHA-256 of what the file says; its white space doesn't matter."""
        text = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False)
        return sha256(text)

    def to_json(self) -> dict[str, Any]:
        """As in `triggers/<id>.json`."""
        value = self.model_dump(mode="json", exclude_none=True)
        return {key: value[key] for key in sorted(value, key=lambda key: key not in ("id", "type"))}


class CronTrigger(Trigger):
    """Five fields (minute, hour, day, month, weekday), read in `timezone`.

    >>> CronTrigger(id="nightly", type="cron", schedule="0 2 * * *", agent="digest").timezone
    'UTC'
    """

    type: Annotated[Literal["cron"], AnyCase]
    schedule: Annotated[str, _read_by(Cron.parse)]
    timezone: Annotated[str, _read_by(zone)] = "UTC"


class IntervalTrigger(Trigger):
    """A tick every so many seconds, counted from when the trigger was first seen."""

    type: Annotated[Literal["interval"], AnyCase]
    every_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)]


class EventTrigger(Trigger):
    """Takes its input from an event: `input_from` selects an object, whose keys are inputs of the agent.

    With `input_key` what is selected is the value of that one input, an object or not.
    """

    input_key: str | None = None


class WebhookTrigger(EventTrigger):
    """A signed HTTP request; `input_from` selects from `{"body", "id"}`."""

    type: Annotated[Literal["webhook"], AnyCase]
    secret_ref: str
    input_from: InputPath = "$.body"


class SseTrigger(EventTrigger):
    """Each event of a stream, or each of those named `event`; `input_from` selects from `{"data", "event", "id"}`.

    The secret is sent as a bearer token, and never over a line that others can read: by https, or on this machine.
    """

    type: Annotated[Literal["sse"], AnyCase]
    url: Annotated[str, AfterValidator(_url)]
    event: str | None = None
    secret_ref: str | None = None
    input_from: InputPath = "$.data"

    @model_validator(mode="after")
    def _keeps_its_secret(self) -> Self:
        if self.secret_ref is not None and not _is_private(self.url):
            raise ValueError("a secret is sent by https only, or to this machine: use an https URL")
        return self


TriggerSpec = CronTrigger | IntervalTrigger | WebhookTrigger | SseTrigger
ScheduledSpec = CronTrigger | IntervalTrigger
CLASSES: dict[str, type[CronTrigger] | type[IntervalTrigger] | type[WebhookTrigger] | type[SseTrigger]] = {
    "cron": CronTrigger,
    "interval": IntervalTrigger,
    "webhook": WebhookTrigger,
    "sse": SseTrigger,
}


class TriggerFile(RootModel[TriggerSpec]):
    """Any trigger, for the JSON Schema."""


def is_scheduled(spec: TriggerSpec) -> TypeGuard[ScheduledSpec]:
    return isinstance(spec, CronTrigger | IntervalTrigger)
