"""The settings of sign-in: the provider at which people sign in, and what its groups give here."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from hive_agents.access import AccessRules
from hive_agents.base.files import load_value
from hive_agents.server.auth import ADMIN, Call
from hive_agents.server.pages.machine import SIGN_IN, anew, require_owner
from hive_agents.server.pages.reading import settings_text
from hive_agents.server.pages.settings import RANKED, changed, done_of, known_names, missing, names_in
from hive_agents.server.pages.view import Pages
from hive_agents.server.signin import BACK, origin_of
from hive_agents.store import FileChange
from hive_agents.workspace import is_trusted
from hive_agents.workspace.settings import FILE, Settings, with_values

pages = Pages()
SIGN_IN_GROUP = "/settings/signin-group"
CREDENTIAL = "signin"


@pages.get(SIGN_IN, ADMIN, "settings_signin.html")
def sign_in(call: Call) -> dict[str, Any]:
    """The provider and the groups, as the file says now, and where the provider sends people back to."""
    require_owner(call)
    place = anew(call)
    now = place.settings.signin
    return {
        "provider": now,
        "groups": sorted(now.groups.items()),
        "back_to": f"{origin_of(call.request)}{BACK}",
        "waits": bool(now.issuer) and not is_trusted(place, "signin"),
        "stale": now != call.workspace.settings.signin,
        "ranked": RANKED,
        **known_names(call, AccessRules.load(call.workspace)),
        "done": done_of(call),
    }


@pages.post(SIGN_IN, ADMIN, "settings_change.html")
def change_provider(call: Call) -> dict[str, Any] | Response:
    """Write the provider, and trust what was written."""
    require_owner(call)
    credential = CREDENTIAL if call.sent("keyed") else None
    wanted = {name: call.sent(name) for name in ("issuer", "client_id", "tenant", "groups_claim")}
    for field in ("issuer", "client_id", "tenant"):
        if not wanted[field]:
            raise missing(field)
    wanted["secret_ref"] = f"credential:{credential}" if credential else ""

    trusts = [f"signin.{name}" for name, value in wanted.items() if value]
    return changed(call, _made(call, "signin", wanted), SIGN_IN, "written", trusts=trusts, credential=credential)


@pages.post(SIGN_IN_GROUP, ADMIN, "settings_change.html")
def change_group(call: Call) -> dict[str, Any] | Response:
    """Write what a group of the provider gives here. The groups are trusted where the others were."""
    require_owner(call)
    name = call.sent("name")
    if not name.isprintable() or not name:
        raise missing("name")
    given = {"groups": names_in(call, "groups"), "roles": call.all_sent("role")}
    trusts = ["signin.groups"] if is_trusted(anew(call), "signin.groups") else []
    written = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
    return changed(call, _made(call, f"signin.groups.{written}", given), SIGN_IN, "written", trusts=trusts)


def _made(call: Call, table: str, values: dict[str, Any]) -> Callable[[], list[FileChange]]:
    def made() -> list[FileChange]:
        before = settings_text(call)
        after = with_values(before, table, values)
        load_value(Settings, tomllib.loads(after), FILE)
        return [FileChange(FILE, before, after)]

    return made
