"""All requests of a workspace as they stand, and what of them can't be trusted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hive_agents.approvals import log, rows
from hive_agents.approvals.request import ApprovalRequest
from hive_agents.errors import Diagnostic, HiveError
from hive_agents.workspace import Workspace


@dataclass
class Inbox:
    """`damaged` are the others, by id, with what is wrong: HIVE-413.

    While the log is broken nothing can be told apart: `requests` are the rows as they are, to be read and no more.
    """

    requests: list[ApprovalRequest] = field(default_factory=list)
    damaged: dict[str, Diagnostic] = field(default_factory=dict)


def inbox(workspace: Workspace, found: Iterable[rows.Row]) -> Inbox:
    """`found` were read before this is called: entries come before rows, so none of them looks like a forgery."""
    try:
        histories = log.histories(workspace)
    except HiveError:
        histories = None
    told = Inbox()
    for row in found:
        try:
            request = rows.request_of(row)
            if histories is not None:
                request = log.standing(request, histories.get(request.id, []))
            told.requests.append(request)
        except HiveError as error:
            told.damaged[str(row[0])] = error.diagnostics[0]
    return told
