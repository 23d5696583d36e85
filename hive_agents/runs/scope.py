"""Whose runs a principal sees and changes: one rule for the command line, the queen and pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_agents.access import LOCAL_TENANT, Principal
from hive_agents.errors import NotFound

if TYPE_CHECKING:
    from hive_agents.runs.row import RunRow
    from hive_agents.workspace import Workspace

OPERATORS = frozenset({"operator", "admin"})


@dataclass(frozen=True)
class Scope:
    """Readers and approvers see their own runs, operators and admins those of their tenant, the owner all.

    Whoever sees a run may change it. None is the workspace's owner, or a service of its own.

    >>> dana, otto = Principal("acme", "dana"), Principal("acme", "otto", roles=frozenset({"operator"}))
    >>> [(scope.tenant, scope.user) for scope in map(Scope, (dana, otto, None))]
    [('acme', 'dana'), ('acme', None), (None, None)]
    """

    principal: Principal | None

    @property
    def operates(self) -> bool:
        """Whether they may see and change runs that aren't their own."""
        return self.principal is None or bool(OPERATORS & self.principal.roles)

    @property
    def approves(self) -> bool:
        """Whether they hear of every request of their tenant."""
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

    def run(self, workspace: Workspace, run_id: str) -> RunRow:
        """The run of that id. Raises: HIVE-409 where there is none, and in the same words for one out of reach."""
        from hive_agents.runs.store import RunStore

        try:
            row = RunStore(workspace).get(run_id)
        except NotFound:
            if self.tenant is None:
                raise
            row = None  # what it suggests may be somebody else's run
        if row is None or not self.sees(row):
            raise NotFound.of("HIVE-409", f"there is no run {run_id}", fix="`hive runs` lists the runs")
        return row

    def sees(self, row: RunRow) -> bool:
        return self.tenant in (None, row.tenant) and self.user in (None, row.user)
