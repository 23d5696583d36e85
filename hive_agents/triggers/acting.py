"""Whom a trigger's runs work for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_agents.access import AccessRules, Principal
from hive_agents.access.principal import LOCAL_TENANT
from hive_agents.errors import HiveError

if TYPE_CHECKING:
    from hive_agents.triggers.spec import TriggerSpec
    from hive_agents.workspace import Workspace

PREFIX = "service:"


def acting_principal(workspace: Workspace, spec: TriggerSpec) -> Principal:
    """The principal that `access/*.json` has for `service:NAME`, else for NAME.

    Without one it is a service of the workspace itself, without roles: it sees no document that is somebody's.

    Raises: the diagnostics of `access/*.json` where a file is faulty.
    """
    rules = AccessRules.load(workspace)
    if rules.faults:
        raise HiveError(rules.faults, exit_code=1)
    name = spec.service.removeprefix(PREFIX)
    found = rules.principal(PREFIX + name) or rules.principal(name)
    return found or Principal(LOCAL_TENANT, PREFIX + name, frozenset(), frozenset())
