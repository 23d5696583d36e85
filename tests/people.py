"""People of `access/*.json` and their tokens."""

from __future__ import annotations

import json

from hive_agents import Workspace
from hive_agents.access import AccessRules, Principal, mint


def token_of(place: Workspace, who: Principal, ttl: int = 600) -> str:
    """A token with all these rights; where `access/*.json` names somebody of that name and tenant, it grants them, too.

    A token never has more rights than its user's entry.
    """
    entry = AccessRules.load(place).principal(who.user)
    listed_here = entry is not None and entry.tenant == who.tenant
    if entry is not None and listed_here and not (who.groups <= entry.groups and who.roles <= entry.roles):
        for path in (place.root / "access").glob("*.json"):
            content = json.loads(path.read_text(encoding="utf-8"))
            listed = content.get("principals", {}).get(who.user)
            if listed is not None:
                listed["groups"] = sorted(entry.groups | who.groups)
                listed["roles"] = sorted(entry.roles | who.roles)
                path.write_text(json.dumps(content), encoding="utf-8")
    return mint(place, who, ttl).token
