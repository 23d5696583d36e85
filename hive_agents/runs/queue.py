"""The queue: the runs that somebody should work on and nobody does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_agents.runs.leases import Lease, Leases
from hive_agents.store import connected

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

_DUE = """
    SELECT run_id, thread_id, graph, status, started_at FROM runs
    WHERE status IN ('queued', 'running') OR (status = 'waiting' AND wake_at <= ?) OR (status = 'waiting' AND EXISTS (
        SELECT 1 FROM approvals WHERE approvals.run_id = runs.run_id AND approvals.status <> 'pending'
        AND instr(runs.result, '"' || approvals.id || '"') > 0))
    ORDER BY started_at, rowid
"""


@dataclass(frozen=True, slots=True)
class DueRun:
    """`status` is queued, running where its worker died, or waiting where a request of it was decided, or its
    pause is over."""

    run_id: str
    thread_id: str
    graph: str
    status: str
    started_at: str


class RunQueue:
    """The queue of one workspace, among its records; leases say who works on what."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.workspace: Workspace = leases.workspace

    def due(self) -> list[DueRun]:
        """Oldest first, without those whose thread a living worker has.

        Whoever takes one needs its lease, and looks again: the list is a hint, and a request's row is, too.
        """
        with connected(self.workspace.records) as connection:
            found = [DueRun(*row) for row in connection.execute(_DUE, (self._leases.clock(),))]
        held = self._leases.held() if found else frozenset()
        return [run for run in found if run.thread_id not in held]

    def take(self, wanted: Sequence[DueRun]) -> list[Lease]:
        """Return the leases of those runs that nobody works on by now, in one transaction.

        So hosts that saw the same runs share them out by one statement each, before either has read a run.
        """
        return self._leases.acquire_each([(run.thread_id, run.run_id) for run in wanted])

    def progress(self, run_id: str) -> int:
        """Return how many effects of the run are recorded; a number that doesn't rise says that nothing comes of it."""
        with connected(self.workspace.records) as connection:
            query = "SELECT count(*) FROM effects WHERE run_id = ? AND status = 'done'"
            return int(connection.execute(query, (run_id,)).fetchone()[0])

    def attempts(self, run_id: str) -> int:
        """Return how often the effect that is under way was begun: each time but the last its worker died, or was
        cut off."""
        with connected(self.workspace.records) as connection:
            query = "SELECT max(attempts) FROM effects WHERE run_id = ? AND status = 'started'"
            return int(connection.execute(query, (run_id,)).fetchone()[0] or 0)
