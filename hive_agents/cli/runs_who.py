"""Whose runs a caller sees and steers, proved as for requests: by a token, by a local name, or as the owner."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_agents.errors import NotFound

if TYPE_CHECKING:
    from hive_agents.runs import RunRow
    from hive_agents.runs.scope import Scope
    from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class Caller:
    """`by` is how the caller is named in rows and events, `scope` says which runs are in their reach.

    The owner gives neither token nor name; where `access/*.json` names nobody, any local name is the owner's.
    """

    by: str
    scope: Scope

    @classmethod
    def of(cls, place: Workspace, as_user: str | None = None, environ: Mapping[str, str] = os.environ) -> Caller:
        """Raises: HIVE-409 for a name that is no person's, or nobody's in `access/*.json` where that names people;
        HIVE-415 for a name beside another person's token, or where a token is required, HIVE-417 for a token that is
        refused; the faults of `access/*.json`."""
        from hive_agents.access import AccessRules, known_principal, verify
        from hive_agents.runs.scope import Scope
        from hive_agents.runtime.decider import TOKEN, decider_for, holds_token, requester_for

        if holds_token(environ):
            by = requester_for(place, environ, as_user=as_user)
            return cls(by, Scope(verify(place, environ[TOKEN].strip())))
        by, rules = decider_for(place, as_user, environ).by, AccessRules.load(place)
        if as_user is None or not (rules.principals or rules.faults):
            return cls(by, Scope(None))
        return cls(by, Scope(known_principal(place, by.removeprefix("user:"))))

    def get(self, place: Workspace, run_id: str) -> RunRow:
        """Raises: HIVE-409 (exit code 2) for a run that doesn't exist, and in the same words for one out of reach."""
        from hive_agents.runs import RunStore

        try:
            row = RunStore(place).get(run_id)
        except NotFound:
            if self.scope.tenant is None:
                raise
            row = None  # what it suggests may be somebody else's run
        if row is None or not self.scope.sees(row):
            fix = "`hive runs` lists the runs"
            raise NotFound.of("HIVE-409", f"there is no run {run_id}", fix=fix)
        return row
