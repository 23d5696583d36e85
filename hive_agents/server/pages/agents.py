"""The agents in the settings: those that there are, the form of a new one, and the page of each."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from hive_agents.agents import draft, versions, workspace_tools
from hive_agents.base import HiveError
from hive_agents.server import colony
from hive_agents.server.auth import ADMIN, Call
from hive_agents.server.pages.machine import is_owner, require_owner
from hive_agents.server.pages.settings import changed, done_of, names_in
from hive_agents.server.pages.view import Pages
from hive_agents.triggers import all_triggers
from hive_agents.workspace import Workspace

pages = Pages()
AGENTS, AGENT = "/settings/agents", "/settings/agent"


@pages.get(AGENTS, ADMIN, "settings_agents.html")
def agents(call: Call) -> dict[str, Any]:
    """The agents of the workspace, and what a new one may use."""
    owner = is_owner(call)
    return {
        "agents": colony.list_agents(call).agents,
        "tools": _tools(call.workspace) if owner else [],
        "connected": bool(call.workspace.settings.models.chat),
        "owner": owner,
        "draft": draft.AgentDraft("", "", "", inputs=("task",)),
        "done": done_of(call),
    }


@pages.post(AGENTS, ADMIN, "settings_change.html")
def make_agent(call: Call) -> dict[str, Any] | Response:
    """Write a new agent and its goal. It serves everybody here, and acts as whoever starts it: the owner makes it."""
    require_owner(call)
    wanted = _wanted(call)
    return changed(call, lambda: draft.drafted_agent(call.workspace, wanted), AGENTS, "made")


@pages.get(AGENT, ADMIN, "settings_agent.html")
def agent(call: Call) -> dict[str, Any]:
    """One agent, to be changed as it was made, or where it was written by hand, as its text."""
    require_owner(call)
    place, name = call.workspace, call.request.query_params.get("name", "")
    text = draft.agent_file(place, name)
    return {
        "name": name,
        "draft": draft.draft_of(place, name),
        "text": text,
        "tools": _tools(place),
        "deployed": bool(versions(place, name)),
    }


@pages.post(AGENT, ADMIN, "settings_change.html")
def change_agent(call: Call) -> dict[str, Any] | Response:
    """Write another text of an agent, or remove it."""
    require_owner(call)
    place, name, act = call.workspace, call.sent("name"), call.sent("act")
    if act == "remove":
        _require_unscheduled(place, name)
        return changed(call, lambda: draft.removed_agent(place, name), AGENTS, "removed")
    if act == "text":
        text = call.sent("text").replace("\r\n", "\n").rstrip() + "\n"
        return changed(call, lambda: [draft.changed_agent(place, name, text)], AGENTS, "written")
    wanted = _wanted(call)
    return changed(call, lambda: draft.drafted_agent(place, wanted, is_new=False), AGENTS, "written")


def _wanted(call: Call) -> draft.AgentDraft:
    return draft.AgentDraft(
        name=call.sent("name"),
        purpose=call.sent("purpose"),
        instructions=call.sent("instructions").replace("\r\n", "\n"),
        inputs=names_in(call, "inputs"),
        outputs=names_in(call, "outputs"),
        tools=call.all_sent("tool"),
        good=call.sent("good"),
    )


def _require_unscheduled(place: Workspace, name: str) -> None:
    """Raise HIVE-409 for an agent that a trigger starts."""
    starting = [one.id for one in all_triggers(place)[0] if one.agent == name]
    if starting:
        what = f"{', '.join(starting)} starts this agent"
        raise HiveError.of("HIVE-409", what, path="name", fix="remove that schedule first", exit_code=2)


def _tools(place: Workspace) -> list[tuple[str, str, bool]]:
    """Return the name of each tool, what it says of itself, and whether it only reads."""
    known = workspace_tools(place)
    return [(name, known[name].description.partition("\n")[0], known[name].side_effect == "read")
            for name in known.names]  # fmt: skip
