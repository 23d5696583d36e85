"""Effects of a person's answer to the queen's request, once the store confirms the decision."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from hive_agents.approvals import ApprovalStore
from hive_agents.base import NotFound, WrongUsage, one_line
from hive_agents.events import ESCALATIONS, EventLog, EventType, tickets_of
from hive_agents.runs import ENDED
from hive_agents.supervision.queen.action_log import ActionEntry, ActionLog
from hive_agents.supervision.queen.colony import QUEEN, Colony

if TYPE_CHECKING:
    from hive_agents.approvals import ApprovalRequest

_ACTIONS = {"approved": "resume", "rejected": "stop", "responded": "steer+resume"}
PREFIX = "answer/"


class Rulings:
    """approve: the run is resumed; reject: it is stopped; respond: it gets the message and is resumed."""

    def __init__(self, colony: Colony, log: ActionLog) -> None:
        self.colony, self.log = colony, log

    def missed(self) -> list[str]:
        """Return her requests that were decided while no queen was running."""
        found = ApprovalStore(self.colony.workspace).list(kind="ticket", requester=QUEEN)
        return [one.id for one in found if _is_hers(one) and one.status in _ACTIONS and one.outcome is None]

    def decide(self, approval_id: str) -> list[str]:
        """Return the key of the action on a decision. The request in the store counts, not the event.

        Raises: HIVE-413 for a request that contradicts the audit log.
        """
        try:
            request = ApprovalStore(self.colony.workspace).get(approval_id)
        except NotFound:
            return []
        if not _is_hers(request) or request.status not in _ACTIONS:
            return []
        last = request.decisions[-1]
        entry = self.log.begin(
            f"{PREFIX}{request.id}",
            _ACTIONS[request.status],
            tenant=request.tenant,
            run_id=request.context["run_id"],
            ticket_id=request.context["ticket_id"],
            detail={"approval_id": request.id, "by": last.by, "words": last.message or "", "done": []},
        )
        if entry.status == "begun":
            return [entry.key]
        if request.outcome is None:  # she was killed before she could say so
            self._tell(entry)
        return []

    def act(self, key: str) -> list[dict[str, Any]]:
        """Carry out the answer, unless the run has ended; return {action, run_id, status} of each step.

        A run that hasn't come to rest yet is resumed when it does.
        """
        entry = self.log.find(key)
        if entry is None or entry.status == "done":
            return []
        made: list[dict[str, Any]] = []
        for action in entry.action.split("+"):
            try:
                row = self.colony.run(entry.run_id or "")
                if row.status in ENDED:
                    break
                if action == "resume" and row.status == "running" and row.control is not None:
                    return made
                if action == "steer":
                    self.colony.steer(row.run_id, entry.detail["words"], key=key)
                else:
                    row = getattr(self.colony, action)(row.run_id)
            except WrongUsage as error:
                entry = self.log.note(entry, fault=one_line(error.diagnostics[0].message))
                break
            made.append({"action": action, "run_id": row.run_id, "status": row.status})
        entry = self.log.note(entry, "done", made=made)
        self._close(entry)
        self._tell(entry)
        return made

    def _close(self, entry: ActionEntry) -> None:
        """Resolve the request's ticket; a fault that persists becomes a new one."""
        log = EventLog(self.colony.workspace)
        events = log.replay(types=ESCALATIONS, run_id=entry.run_id)
        ticket = tickets_of(events).get(entry.ticket_id or "")
        if ticket is not None and ticket.status == "open":
            over = ticket.over(f"{entry.detail['by']} answered {entry.detail['approval_id']}", _now())
            log.append([over.told(EventType.ESCALATION_RESOLVED, events[-1].thread_id)])

    def _tell(self, entry: ActionEntry) -> None:
        outcome = {"actions": entry.detail["made"]}
        ApprovalStore(self.colony.workspace).record_outcome(entry.detail["approval_id"], outcome)

    def left_for(self, run_id: str) -> list[str]:
        """Return answers that wait for the run to come to rest."""
        return [entry.key for entry in self.log.unfinished(run_id) if is_ruling(entry)]


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def is_ruling(entry: ActionEntry) -> bool:
    return entry.key.startswith(PREFIX)


def _is_hers(request: ApprovalRequest) -> bool:
    return request.kind == "ticket" and request.requester == QUEEN and "run_id" in request.context
