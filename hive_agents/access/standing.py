"""Whether somebody who was known once still is: the one place where a principal is looked up again.

A run lasts for days and a conversation for hours; a token that was revoked, a principal who was removed, groups and
roles that were taken away count from the next turn and the next effect on. Nothing is gained in this way: what is given
later holds for what begins later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from hive_agents.access.principal import Principal
from hive_agents.access.rules import AccessRules
from hive_agents.access.tokens import is_revoked
from hive_agents.errors import HiveError, RightsWithdrawn
from hive_agents.files import Format
from hive_agents.workspace import Workspace


class Listed(Format):
    """What `access/*.json` said of a principal."""

    groups: list[str] = []
    roles: list[str] = []


class Standing(Format):
    """A principal as it was when something began, and what was known of it then; JSON, to be kept with a run."""

    tenant: str
    user: str
    groups: list[str] = []
    roles: list[str] = []
    token_id: str | None = None
    listed: Listed | None = None

    @classmethod
    def of(cls, workspace: Workspace, principal: Principal) -> Self:
        """Return the standing of a principal who begins something now."""
        entry = _entry(AccessRules.load(workspace), principal)
        listed = Listed(groups=sorted(entry.groups), roles=sorted(entry.roles)) if entry is not None else None
        return cls(**principal.to_json(), token_id=principal.token_id, listed=listed)

    @property
    def principal(self) -> Principal:
        """The principal as it was then: who somebody is, and nothing about what they may do now."""
        groups, roles = frozenset(self.groups), frozenset(self.roles)
        return Principal(self.tenant, self.user, groups, roles, token_id=self.token_id)

    def of_today(self, principal: Principal) -> Self:
        """Return the standing of the same person by another proof; what was listed at the beginning stays."""
        return self.model_validate({**principal.to_json(), "token_id": principal.token_id, "listed": self.listed})

    def now(self, workspace: Workspace) -> Principal:
        """Return the principal as far as it still stands.

        Raises: HIVE-417 where its token was revoked or `access/*.json` no longer names it; the faults of these files.
        """
        if self.token_id is not None and is_revoked(workspace, self.token_id):
            raise _withdrawn(f"the token of {self.user} was revoked")
        if self.listed is None:
            return self.principal
        rules = AccessRules.load(workspace)
        if rules.faults:
            raise HiveError(rules.faults, exit_code=3)
        entry = _entry(rules, self.principal)
        if entry is None:
            raise _withdrawn(f"access/*.json no longer names {self.user} of {self.tenant}")
        lost = frozenset(self.listed.groups) - entry.groups, frozenset(self.listed.roles) - entry.roles
        known = self.principal
        return replace(known, groups=known.groups - lost[0], roles=known.roles - lost[1])


def _entry(rules: AccessRules, principal: Principal) -> Principal | None:
    found = rules.principal(principal.user)
    return found if found is not None and found.tenant == principal.tenant else None


def _withdrawn(why: str) -> RightsWithdrawn:
    fix = "let somebody who may do this begin it anew"
    return RightsWithdrawn.of("HIVE-417", f"this goes no further: {why}", fix=fix, exit_code=3)
