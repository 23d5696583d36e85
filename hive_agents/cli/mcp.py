"""`hive mcp`: the workspace's verbs for a coding agent, by MCP over stdio."""

from __future__ import annotations

from hive_agents.cli.surface import Surface, with_surface


@with_surface(as_user="Act as USER of access/*.json (default: HIVE_TOKEN's holder, else you).")
def command(surface: Surface) -> None:
    """Speak MCP over stdin and stdout until they are closed; every call is looked up anew."""
    from hive_agents.server import local_caller, mcp_server

    place = surface.workspace
    surface.asker.reader_or_owner()  # a token that is refused is told of before anybody speaks
    mcp_server(place, local_caller(place, surface.asker)).run("stdio")
