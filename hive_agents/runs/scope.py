"""The runs that a principal may see and change: one rule for the command line, the queen and pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hive_agents.access import LOCAL_TENANT, OPERATORS, Principal
from hive_agents.base import NotFound
from hive_agents.runs.leases import Leases
from hive_agents.runs.store import CHAT_GRAPH, STATUSES, RunRow, RunStore
from hive_agents.store import connected

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


class RunsOverview(NamedTuple):
    """How many runs stand how; of those begun since a time their number, tokens, dollars, and how many failed."""

    by_status: dict[str, int]
    begun: int
    tokens: int
    usd: float
    failed: int


@dataclass(frozen=True)
class Scope:
    """Readers and approvers see their own runs, operators and admins those of their tenant, the owner all.

    Seeing a run implies the right to change it. None is the workspace's owner, or one of its services.

    >>> dana, otto = Principal("acme", "dana"), Principal("acme", "otto", roles=frozenset({"operator"}))
    >>> [(scope.tenant, scope.user) for scope in map(Scope, (dana, otto, None))]
    [('acme', 'dana'), ('acme', None), (None, None)]
    """

    principal: Principal | None

    @property
    def operates(self) -> bool:
        """Whether they may see and change other users' runs."""
        return self.principal is None or not self.principal.roles.isdisjoint(OPERATORS)

    @property
    def approves(self) -> bool:
        """Whether they see every request of their tenant."""
        return self.operates or (self.principal is not None and "approver" in self.principal.roles)

    @property
    def administers(self) -> bool:
        return self.principal is None or "admin" in self.principal.roles

    @property
    def tenant(self) -> str | None:
        """The only tenant that they see; None for the workspace's owner, who sees all."""
        if self.principal is None or (self.operates and self.principal.tenant == LOCAL_TENANT):
            return None
        return self.principal.tenant

    @property
    def user(self) -> str | None:
        """The only user whose runs they see; None for all of the tenant."""
        return None if self.operates or self.principal is None else self.principal.user

    def runs(
        self,
        workspace: Workspace,
        status: str | Sequence[str] | None = None,
        tenant: str | None = None,
        limit: int = 100,
        before: str | None = None,
        graph: str | Sequence[str] | None = None,
        thread_id: str | None = None,
    ) -> list[RunRow]:
        """Return their runs, newest first, with `before` only those older than that run.

        A run whose worker died doesn't count as running.
        """
        wanted = {status} if isinstance(status, str) else set(status or STATUSES)
        among = None if wanted >= set(STATUSES) else sorted(wanted | {"running"})  # including those whose worker died
        runs: list[RunRow] = []
        while len(runs) < limit:
            rows = RunStore(workspace).list(
                status=among,
                tenant=tenant or self.tenant,
                user=self.user,
                graph=graph,
                thread_id=thread_id,
                limit=limit,
                before=before,
            )
            runs += [row for row in _current(workspace, rows) if row.status in wanted and self.sees(row)]
            if len(rows) < limit:
                break
            before = rows[-1].run_id
        return runs[:limit]

    def run(self, workspace: Workspace, run_id: str) -> RunRow:
        """Return the run of that id; one whose worker died doesn't count as running.

        Raises: HIVE-409 for an unknown run, and with the same message for one that they may not see.
        """
        try:
            row = RunStore(workspace).get(run_id)
        except NotFound:
            if self.tenant is None:
                raise
            row = None  # the suggestion may be another user's run
        if row is None or not self.sees(row):
            raise NotFound.of(
                "HIVE-409", f"there is no run {run_id}", fix="`hive runs`, or GET /api/runs, lists the runs"
            )
        return _current(workspace, [row])[0]

    def overview(self, workspace: Workspace, since: str) -> RunsOverview:
        """Return the figures of their runs; costs are of those begun `since`, a time in ISO 8601.

        A run whose worker died doesn't count as running.
        """
        asked = {"tenant = ?": self.tenant, "user = ?": self.user}
        among = " AND ".join(["TRUE", *(clause for clause, value in asked.items() if value is not None)])
        given = [value for value in asked.values() if value is not None]
        held = Leases(workspace).held()
        with connected(workspace.records) as connection:
            query = f"SELECT status, count(*) FROM runs WHERE {among} GROUP BY status"
            by_status = Counter({str(status): int(number) for status, number in connection.execute(query, given)})
            query = f"SELECT thread_id, graph FROM runs WHERE status = 'running' AND {among}"
            running = connection.execute(query, given).fetchall()
            failed = "coalesce(sum(CASE WHEN status = 'failed' THEN 1 ELSE 0 END), 0)"
            figures = f"count(*), coalesce(sum(tokens), 0), coalesce(sum(usd), 0), {failed}"
            query = f"SELECT {figures} FROM runs WHERE started_at >= ? AND {among}"
            begun, tokens, usd, lost = connection.execute(query, (since, *given)).fetchone()
        for thread, graph in running:
            if thread not in held:
                by_status["running"] -= 1
                by_status["stopped" if graph == CHAT_GRAPH else "queued"] += 1
        stand = {status: by_status[status] for status in STATUSES}
        return RunsOverview(stand, int(begun), int(tokens), float(usd), int(lost))

    def sees(self, row: RunRow) -> bool:
        return self.tenant in (None, row.tenant) and self.user in (None, row.user)


def _current(workspace: Workspace, rows: list[RunRow]) -> list[RunRow]:
    if all(row.status != "running" for row in rows):
        return rows
    held, store = Leases(workspace).held(), RunStore(workspace)
    now = []
    for row in rows:
        if row.status == "running" and row.thread_id not in held:
            row = store.get(row.run_id)  # it may have ended meanwhile, which gives its lease back
            row = row.left if row.status == "running" else row
        now.append(row)
    return now
