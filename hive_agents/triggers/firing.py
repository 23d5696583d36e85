"""The interface of triggers to the code that starts runs, and its failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from hive_agents.base import HiveError, RefusedInput, WrongUsage

if TYPE_CHECKING:
    from hive_agents.triggers.spec import TriggerSpec


class Fire(Protocol):
    """Start a run of the trigger's agent and return its id, as `hive_agents.host.firing.fire`.

    The `key` of an existing run returns that run. `scheduled` is the time it was due, in UTC.

    Raises: HiveError; `is_refusal` tells inputs that the agent never accepts from transient faults.
    """

    async def __call__(self, spec: TriggerSpec, input: dict[str, Any], *, key: str, scheduled: str) -> str | None: ...


def key_of(trigger: str, occasion: str) -> str:
    """
    >>> key_of("nightly", "2026-03-29T01:00:00+00:00")
    'trigger/nightly/2026-03-29T01:00:00+00:00'
    """
    return f"trigger/{trigger}/{occasion}"


def is_refusal(error: HiveError) -> bool:
    """Return whether the same input would be refused again: it is invalid, or its key has another run."""
    return isinstance(error, RefusedInput | WrongUsage)


def kind_of(error: BaseException) -> str:
    """Return a fault for a log: its codes, or its type and origin. Messages may quote people.

    >>> kind_of(HiveError.of("HIVE-105", "Dear Kim, …")), kind_of(ValueError("Dear Kim, …"))
    ('HIVE-105', 'ValueError')
    """
    if isinstance(error, HiveError):
        return ", ".join(sorted({found.code for found in error.diagnostics}))
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" at {place.tb_frame.f_globals.get('__name__')}:{place.tb_lineno}" if place is not None else ""
    return type(error).__name__ + where
