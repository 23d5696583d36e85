"""Whose runs a caller sees and steers, proved as for requests: by a token, by a local name, or as the owner."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_agents.errors import HiveError

if TYPE_CHECKING:
    from hive_agents.runs import RunRow
    from hive_agents.workspace import Workspace

OVERSEERS = frozenset({"approver", "operator", "admin"})


@dataclass(frozen=True)
class Caller:
    """`by` is how the caller is named in rows and events.

    The owner, who gives neither token nor name, reaches every run. Others reach what they started; approvers,
    operators and admins also what is their tenant's or the workspace's own, which any local name reaches.
    """

    by: str
    is_owner: bool = False
    tenants: frozenset[str] = frozenset()
    own: tuple[str, str] | None = None

    @classmethod
    def of(cls, place: Workspace, as_user: str | None = None, environ: Mapping[str, str] = os.environ) -> Caller:
        """Raises: HIVE-409 for a name that is no person's, HIVE-415 for a name beside another person's token, or
        where a token is required, HIVE-417 for a token that is refused."""
        from hive_agents.access import AccessRules, verify
        from hive_agents.approvals.request import OWN_TENANT
        from hive_agents.runtime.decider import TOKEN, decider_for, holds_token, requester_for

        if holds_token(environ):
            by = requester_for(place, environ, as_user=as_user)
            holder = verify(place, environ[TOKEN].strip())
            shared = {holder.tenant, OWN_TENANT} if OVERSEERS & holder.roles else set()
            return cls(by, tenants=frozenset(shared), own=(holder.tenant, holder.user))
        by, rules = decider_for(place, as_user, environ).by, AccessRules.load(place)
        if as_user is None or not (rules.principals or rules.faults):
            return cls(by, is_owner=True)
        known = rules.principal(by.removeprefix("user:"))
        if known is None:
            return cls(by, tenants=frozenset({OWN_TENANT}))
        shared = {OWN_TENANT} | ({known.tenant} if OVERSEERS & known.roles else set())
        return cls(by, tenants=frozenset(shared), own=(known.tenant, known.user))

    def reaches(self, row: RunRow) -> bool:
        return self.is_owner or row.tenant in self.tenants or (row.tenant, row.user) == self.own

    def get(self, place: Workspace, run_id: str) -> RunRow:
        """Raises: HIVE-409 (exit code 2) for a run that doesn't exist, and in the same words for one out of reach."""
        from hive_agents.runs import RunStore

        try:
            row = RunStore(place).get(run_id)
        except HiveError as error:
            if error.diagnostics[0].code != "HIVE-409" or self.is_owner:
                raise
            row = None  # what it suggests may be somebody else's run
        if row is None or not self.reaches(row):
            fix = "`hive runs` lists the runs"
            raise HiveError.of("HIVE-409", f"there is no run {run_id}", fix=fix, exit_code=2)
        return row
