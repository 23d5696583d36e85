"""The agents in the settings: those that there are, and the form of a new one."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from hive_agents.agents import AgentDraft, drafted_agent, workspace_tools
from hive_agents.server import colony
from hive_agents.server.auth import ADMIN, Call
from hive_agents.server.pages.machine import is_owner, require_owner
from hive_agents.server.pages.settings import changed, done_of, names_in
from hive_agents.server.pages.view import Pages
from hive_agents.workspace import Workspace

pages = Pages()
AGENTS = "/settings/agents"


@pages.get(AGENTS, ADMIN, "settings_agents.html")
def agents(call: Call) -> dict[str, Any]:
    """The agents of the workspace, and what a new one may use."""
    owner = is_owner(call)
    return {
        "agents": colony.list_agents(call).agents,
        "tools": _tools(call.workspace) if owner else [],
        "connected": bool(call.workspace.settings.models.chat),
        "owner": owner,
        "done": done_of(call),
    }


@pages.post(AGENTS, ADMIN, "settings_change.html")
def make_agent(call: Call) -> dict[str, Any] | Response:
    """Write a new agent and its goal. It serves everybody here, and acts as whoever starts it: the owner makes it."""
    require_owner(call)
    wanted = AgentDraft(
        name=call.sent("name"),
        purpose=call.sent("purpose"),
        instructions=call.sent("instructions").replace("\r\n", "\n"),
        inputs=names_in(call, "inputs"),
        outputs=names_in(call, "outputs"),
        tools=call.all_sent("tool"),
        good=call.sent("good"),
    )
    return changed(call, lambda: drafted_agent(call.workspace, wanted), AGENTS, "made")


def _tools(place: Workspace) -> list[tuple[str, str, bool]]:
    """Return the name of each tool, what it says of itself, and whether it only reads."""
    known = workspace_tools(place)
    return [(name, known[name].description.partition("\n")[0], known[name].side_effect == "read")
            for name in known.names]  # fmt: skip
