"""The queen's actions on a ticket, without a model: the least that its severity requires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from hive_agents.events import SEVERITIES
from hive_agents.runs import ENDED

if TYPE_CHECKING:
    from hive_agents.events import EscalationTicket

PolicyAction = Literal["note", "steer", "pause", "stop", "ask"]

_TABLE: dict[str, tuple[PolicyAction, ...]] = {
    "low": ("note",),
    "medium": ("steer",),
    "high": ("pause", "ask"),
    "critical": ("stop", "ask"),
}


def actions_for(severity: str, run_status: str | None) -> tuple[PolicyAction, ...]:
    """Return the actions in their order; `run_status` is None for a run that is gone.

    A run that has ended is neither paused nor steered; a person is asked if it is severe.

    >>> actions_for("high", "running"), actions_for("critical", "failed"), actions_for("medium", "done")
    (('pause', 'ask'), ('ask',), ('note',))
    """
    if run_status is None:
        return ("note",)
    kept = tuple(one for one in _TABLE[severity] if one == "ask" or not _over(one, run_status))
    return kept or ("note",)


def grade(ticket: EscalationTicket) -> str:
    """Return the key of her decisions: the severity of an open ticket, or "resolved"."""
    return "resolved" if ticket.status == "resolved" else ticket.severity


def rises(severity: str, before: Sequence[str]) -> bool:
    """Return whether a severity is higher than all that she has acted on.

    >>> rises("high", ["medium"]), rises("medium", ["high"]), rises("low", [])
    (True, False, True)
    """
    ranks: dict[str, int] = {one: rank for rank, one in enumerate(SEVERITIES)}
    return all(ranks[severity] > ranks[one] for one in before if one in ranks)


def _over(action: PolicyAction, status: str) -> bool:
    return action != "note" and (status in ENDED or (action == "pause" and status == "stopped"))
