"""`hive mcp`: an MCP server over stdio, for coding agents."""

from __future__ import annotations

from hive_agents.cli.surface import Surface, with_surface


@with_surface(as_user="Act as USER of access/*.json (default: HIVE_TOKEN's holder, else you).")
def command(surface: Surface) -> None:
    """Serve MCP over stdin and stdout until they are closed; permissions are checked at each call."""
    from hive_agents.server import local_caller, mcp_server

    place = surface.workspace
    surface.asker.reader_or_owner()  # raises for a refused token before the server starts
    mcp_server(place, local_caller(place, surface.asker)).run("stdio")
