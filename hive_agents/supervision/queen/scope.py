"""What an asker may see and change: their own runs, an operator or admin those of the tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_agents.access.principal import LOCAL_TENANT, Principal

if TYPE_CHECKING:
    from hive_agents.runs import RunRow

QUEEN = "service:queen"
OPERATORS = frozenset({"operator", "admin"})


@dataclass(frozen=True)
class Scope:
    """The scope of a principal; None is the colony itself, whose policy acts in every tenant.

    >>> dana = Scope(Principal("acme", "dana"))
    >>> dana.by, dana.operates, dana.tenant, dana.user
    ('user:dana', False, 'acme', 'dana')
    >>> Scope(Principal("acme", "root", roles=frozenset({"operator"}))).user is None
    True
    """

    principal: Principal | None

    @property
    def by(self) -> str:
        """The name that is kept with what is done."""
        if self.principal is None:
            return QUEEN
        return self.principal.user if ":" in self.principal.user else f"user:{self.principal.user}"

    @property
    def operates(self) -> bool:
        """Whether they may see and change runs that aren't their own."""
        return self.principal is None or bool(OPERATORS & self.principal.roles)

    @property
    def administers(self) -> bool:
        return self.principal is None or "admin" in self.principal.roles

    @property
    def tenant(self) -> str | None:
        """The only tenant that they see; None for the workspace's owner and for the colony, who see all."""
        if self.principal is None or (self.operates and self.principal.tenant == LOCAL_TENANT):
            return None
        return self.principal.tenant

    @property
    def user(self) -> str | None:
        """The only user whose runs they see; None for all of the tenant."""
        return None if self.operates or self.principal is None else self.principal.user

    def sees(self, row: RunRow) -> bool:
        return self.tenant in (None, row.tenant) and self.user in (None, row.user)
