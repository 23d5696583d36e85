"""The queue: runs that are due and that no worker has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_agents.runs.leases import Lease, Leases
from hive_agents.runs.store import CHAT_GRAPH
from hive_agents.store import connected

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

_DUE = """
    SELECT run_id, thread_id, graph, status, started_at, tenant, user FROM runs
    WHERE status IN ('queued', 'running') OR (status = 'waiting' AND wake_at <= ?) OR (status = 'waiting' AND EXISTS (
        SELECT 1 FROM approvals WHERE approvals.run_id = runs.run_id AND approvals.status <> 'pending'
        AND instr(runs.result, '"' || approvals.id || '"') > 0))
    ORDER BY started_at, rowid
"""


@dataclass(frozen=True, slots=True)
class DueRun:
    """A due run: "queued", "running" if its worker died, or "waiting" if a request was decided or its pause is over."""

    run_id: str
    thread_id: str
    graph: str
    status: str
    started_at: str
    tenant: str = ""
    user: str = ""


def in_turns(due: Iterable[DueRun], at_work: Iterable[DueRun] = ()) -> list[DueRun]:
    """Return due runs in the order in which they are taken: questions first, then tenants, and users of each, by turns.

    `due` is in the order of age, which decides within a user. Who has runs `at_work` is served after who has none.

    >>> runs = [DueRun(name, name, "agent", "queued", "", "local", name[0]) for name in ("a1", "a2", "a3", "b1")]
    >>> [run.run_id for run in in_turns(runs)]
    ['a1', 'b1', 'a2', 'a3']
    """
    had: Counter[tuple[str, ...]] = Counter()
    for run in at_work:
        had.update([(run.tenant,), (run.tenant, run.user)])
    by_user = []
    for run in due:
        by_user.append((had[run.tenant, run.user], run))
        had[run.tenant, run.user] += 1
    by_user.sort(key=lambda turn: turn[0])
    by_tenant = []
    for _, run in by_user:
        by_tenant.append((run.graph != CHAT_GRAPH, had[(run.tenant,)], run))
        had[(run.tenant,)] += 1
    return [run for *_, run in sorted(by_tenant, key=lambda turn: turn[:2])]


class RunQueue:
    """The queue of one workspace, read from its runs and leases."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.workspace: Workspace = leases.workspace

    def due(self) -> list[DueRun]:
        """Return the due runs, oldest first, without those whose thread a living worker has.

        The list is a hint: a worker has to acquire the lease and check the run and its requests again.
        """
        with connected(self.workspace.records) as connection:
            due = [DueRun(*row) for row in connection.execute(_DUE, (self._leases.clock(),))]
        held = self._leases.held() if due else frozenset()
        return [run for run in due if run.thread_id not in held]

    def take(self, wanted: Sequence[DueRun]) -> list[Lease]:
        """Return the leases of those runs that are still free, acquired in one transaction.

        So hosts that read the same list share the runs before either has read one.
        """
        return self._leases.acquire_each([(run.thread_id, run.run_id) for run in wanted])

    def progress(self, run_id: str) -> int:
        """Return the number of the run's completed effects; it rises while the run makes progress."""
        with connected(self.workspace.records) as connection:
            query = "SELECT count(*) FROM effects WHERE run_id = ? AND status = 'done'"
            return int(connection.execute(query, (run_id,)).fetchone()[0])

    def attempts(self, run_id: str) -> int:
        """Return how often the current effect was begun: each time but the last its worker died or was cancelled."""
        with connected(self.workspace.records) as connection:
            query = "SELECT max(attempts) FROM effects WHERE run_id = ? AND status = 'started'"
            return int(connection.execute(query, (run_id,)).fetchone()[0] or 0)
