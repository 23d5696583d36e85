"""Actions on tickets: decided once per severity, carried out in idempotent steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.base import HiveError, WrongUsage, fenced, one_line
from hive_agents.events import ESCALATIONS, SEVERITIES, EscalationTicket, EventLog, tickets_of
from hive_agents.runs import ENDED
from hive_agents.supervision.queen.action_log import ActionEntry, ActionLog
from hive_agents.supervision.queen.colony import QUEEN, Colony

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


EVIDENCE = 8
_ANSWERS = {
    "paused": "approve lets the run go on, reject stops it, respond tells it your words and lets it go on",
    "stopped": "approve lets the run go on, reject leaves it stopped, respond tells it your words and lets it go on",
    "over": "the run has ended: any answer closes this",
}


class Escalations:
    """Her policy, in every tenant. Decisions are recorded before she acts, each step after it."""

    def __init__(self, colony: Colony, log: ActionLog) -> None:
        self.colony, self.log = colony, log

    def current(self, received: Mapping[str, Any]) -> EscalationTicket:
        """Return a ticket's present state in the log, on which a late queen has to act; `received` is its JSON."""
        ticket = EscalationTicket.model_validate(received)
        events = EventLog(self.colony.workspace).replay(types=ESCALATIONS, run_id=ticket.run_id)
        return self.colony.clean(tickets_of(events).get(ticket.id, ticket))

    def is_due(self, ticket: EscalationTicket) -> bool:
        """Return whether a ticket needs a decision that wasn't made yet."""
        known = [_grade_of(entry) for entry in self.log.of_ticket(ticket.id)]
        wanted = grade(ticket)
        return wanted not in known and (wanted == "resolved" or rises(wanted, known))

    def decide(self, ticket: EscalationTicket, words: str = "") -> list[str]:
        """Return the keys of the unfinished and due actions; `words` are a model's."""
        if self.is_due(ticket):
            row = self._row(ticket.run_id)
            actions: tuple[str, ...] = actions_for(ticket.severity, row and row.status)
            if grade(ticket) == "resolved":
                actions = ("withdraw",)
            elif ticket.approval_id is not None:  # the run has asked a person itself, and waits
                actions = ("note",)
            shown = ticket.model_dump(mode="json")
            shown["evidence"] = [self._shown(one) for one in ticket.evidence[:EVIDENCE]]
            shown["suggested_action"] = self._shown(ticket.suggested_action)
            self.log.begin(
                f"{ticket.id}/{grade(ticket)}",
                "+".join(actions),
                tenant=row.tenant if row is not None else ticket.tenant,
                run_id=ticket.run_id,
                ticket_id=ticket.id,
                detail={"ticket": shown, "words": self._shown(words), "done": []},
            )
        return [entry.key for entry in self.log.of_ticket(ticket.id) if entry.status == "begun"]

    def act(self, key: str) -> list[dict[str, Any]]:
        """Carry out a decision from its last step; return {action, run_id, status} of each step."""
        entry = self.log.find(key)
        if entry is None or entry.status == "done":
            return []
        made = []
        for action in entry.action.split("+"):
            if action not in entry.detail["done"]:
                entry = getattr(self, f"_{action}")(entry)
                entry = self.log.note(entry, done=[*entry.detail["done"], action])
                row = self._row(entry.run_id or "")
                made.append({"action": action, "run_id": entry.run_id, "status": row.status if row else "gone"})
        self.log.note(entry, "done")
        return made

    def _note(self, entry: ActionEntry) -> ActionEntry:
        return entry

    def _withdraw(self, entry: ActionEntry) -> ActionEntry:
        """Withdraw the request about a resolved ticket, unless its run rests until the answer."""
        row = self._row(entry.run_id or "")
        if row is not None and row.status in ("paused", "stopped"):
            return entry
        store = ApprovalStore(self.colony.workspace)
        why = entry.detail["ticket"].get("resolution") or "it is resolved"
        for earlier in self.log.of_ticket(entry.ticket_id or ""):
            asked = earlier.detail.get("approval_id")
            if asked is not None and store.get(asked).status == "pending":
                with suppress(HiveError):  # it is being answered: then the answer counts
                    store.supersede(asked, f"the ticket is resolved: {why}")
        return entry

    def _steer(self, entry: ActionEntry) -> ActionEntry:
        ticket = entry.detail["ticket"]
        cause = ticket["cause"].replace("_", " ")
        lines = [f"- {one}" for one in ticket["evidence"]]
        lines += [f"Suggested: {ticket['suggested_action']}"] if ticket["suggested_action"] else []
        lines += [entry.detail["words"]] if entry.detail["words"] else []
        with suppress(WrongUsage):  # it is over or gone
            # Evidence quotes tools and documents, and a model may repeat it.
            words = f"From the queen: the health judge sees {cause}.\n{fenced(chr(10).join(lines))}"
            self.colony.steer(entry.run_id or "", words, key=f"queen/{entry.key}")
        return entry

    def _pause(self, entry: ActionEntry) -> ActionEntry:
        return self._rest(entry, "pause")

    def _stop(self, entry: ActionEntry) -> ActionEntry:
        return self._rest(entry, "stop")

    def _rest(self, entry: ActionEntry, verb: str) -> ActionEntry:
        with suppress(WrongUsage):  # it is over or gone
            row = getattr(self.colony, verb)(entry.run_id or "")
            # A pause takes no stop back that somebody asked for.
            return self.log.note(entry, state="stopped" if "stop" in (verb, row.control) else "paused")
        return entry

    def _ask(self, entry: ActionEntry) -> ActionEntry:
        if "state" not in entry.detail:
            row = self._row(entry.run_id or "")
            resting = row is not None and row.status not in ENDED
            # Written down first: the same filing must not come with another content when she is killed here.
            entry = self.log.note(entry, state="stopped" if resting else "over")
        store = ApprovalStore(self.colony.workspace)
        request = store.file(_filing(entry))
        for earlier in self.log.of_ticket(entry.ticket_id or ""):
            asked = earlier.detail.get("approval_id")
            if asked is not None and asked != request.id and store.get(asked).status == "pending":
                with suppress(HiveError):  # it is being answered: then the answer counts
                    store.supersede(asked, f"the ticket rose: see {request.id}")
        return self.log.note(entry, approval_id=request.id)

    def _row(self, run_id: str) -> Any:
        with suppress(WrongUsage):  # it is over or gone
            return self.colony.run(run_id)
        return None

    def _shown(self, text: str | None) -> str:
        return one_line(self.colony.quote(text or ""), 500)


def _grade_of(entry: ActionEntry) -> str:
    return entry.key.rsplit("/", 1)[1]


def _filing(entry: ActionEntry) -> Filing:
    ticket, state = entry.detail["ticket"], entry.detail["state"]
    cause = ticket["cause"].replace("_", " ")
    done = "has ended" if state == "over" else f"is {state}"
    names = ("agent", "node_id", "severity", "cause", "evidence", "suggested_action", "first_seen", "last_seen")
    context = {name: ticket[name] for name in names}
    context |= {"ticket_id": entry.ticket_id, "run_id": entry.run_id, "state": state, "answers": _ANSWERS[state]}
    context |= {"comment": entry.detail["words"]} if entry.detail["words"] else {}
    return Filing(
        kind="ticket",
        title=f"{one_line(ticket['agent'] or 'a run', 60)}: {cause}, {ticket['severity']}; run {entry.run_id} {done}",
        requester=QUEEN,
        tenant=entry.tenant,
        # Not the run's own request: a run that waits for one of its own goes on by itself when it is decided.
        context=context,
        risk="high" if ticket["severity"] == "critical" else "medium",
        allowed_decisions=["approve", "reject", "respond"],
        idempotency_key=f"queen/{entry.key}",
    )
