"""What may act in this workspace: its parts, each with what it says, and servers of tools, which are added here."""

from __future__ import annotations

import shlex
import tomllib
from typing import Any

from starlette.responses import Response

from hive_agents.base import HiveError, sha256
from hive_agents.base.files import load_value
from hive_agents.server.auth import ADMIN, Call
from hive_agents.server.pages.machine import TRUST, anew, is_owner, require_owner
from hive_agents.server.pages.reading import settings_text
from hive_agents.server.pages.settings import changed, done_of, missing, names_in
from hive_agents.server.pages.view import Pages, seen_other
from hive_agents.store import FileChange, audit
from hive_agents.workspace import trust, trusted
from hive_agents.workspace.settings import FILE, Settings, with_values

pages = Pages()


@pages.get(TRUST, ADMIN, "settings_trust.html")
def trust_of(call: Call) -> dict[str, Any]:
    """What may act here, first what waits; a line of the settings with the files that it lets run."""
    place = anew(call)
    every = {one.name: one for one in trusted.parts(place)}
    groups = []
    for line, files in trusted.let_run(place).items():
        found = [every.pop(name) for name in (line, *files) if name in every]
        waiting = [one for one in found if one.status != "trusted"]
        if waiting and waiting[0].name == line:  # what it names is decided with the line
            groups.append((found, True))
        else:
            groups += [([one], False) for one in found]
    groups += [([one], False) for one in every.values()]
    groups.sort(key=lambda group: all(one.status == "trusted" for one in group[0]))
    return {
        "groups": [([(one, f"{sha256(one.text)} {one.name}") for one in parts], whole) for parts, whole in groups],
        "stale": place.settings.mcp != call.workspace.settings.mcp,
        "owner": is_owner(call),
        "done": done_of(call),
    }


@pages.post(TRUST, ADMIN, "settings_trust.html")
def give_trust(call: Call) -> Response:
    """Trust the parts that were chosen as they were shown; where one has changed meanwhile, none."""
    require_owner(call)
    place = anew(call)
    read = {name: digest for digest, _, name in (one.partition(" ") for one in call.all_sent("part"))}
    now = {one.name: sha256(one.text) for one in trusted.parts(place)}
    if any(now.get(name) != digest for name, digest in read.items()):
        return seen_other(f"{TRUST}?done=another")
    given = {part for name, digest in read.items() for part in trust(place, [name], read=digest)}
    if given:
        audit.append(place, "trusted", parts=sorted(given), by=call.by)
    return seen_other(f"{TRUST}?done=trusted" if read else TRUST)


@pages.post("/settings/server", ADMIN, "settings_change.html")
def add_server(call: Call) -> dict[str, Any] | Response:
    """Write a server of tools to the settings, and trust the line; files that its command runs wait to be read."""
    require_owner(call)
    name, url = call.sent("name"), call.sent("url")
    credential = f"mcp-{name}" if call.sent("keyed") else None
    if not name:
        raise missing("name")
    if not (url or call.sent("command")):
        raise missing("address")
    try:
        command = shlex.split(call.sent("command"))
    except ValueError:
        fix = "close its quotation marks"
        raise HiveError.of("HIVE-409", "that is no command", path="command", fix=fix, exit_code=2) from None
    wanted: dict[str, str | list[str]] = {"url": url, "command": command, "read_only": names_in(call, "read_only")}
    header = {"Authorization": f"credential:{credential}" if credential else ""}

    def made() -> list[FileChange]:
        before = settings_text(call)
        after = with_values(before, f"mcp.servers.{name}", wanted)
        after = with_values(after, f"mcp.servers.{name}.headers_ref", header)
        load_value(Settings, tomllib.loads(after), FILE)
        return [FileChange(FILE, before, after)]

    return changed(call, made, TRUST, "added", trusts=[f"mcp.servers.{name}"], credential=credential)
