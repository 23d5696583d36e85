from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hive_agents.base import HiveError, spelled
from hive_agents.cli.surface import Surface, styled, with_surface

_STYLES = {"trusted": "green", "new": "yellow", "changed": "yellow", "gone": "dim"}


@with_surface()
def command(
    surface: Surface,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PART]...", help="Files, folders or keys, as --diff names them (default: all)."),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show what can act, and its changes; change nothing.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Set aside a .hive from another machine, and begin a new one.")
    ] = False,
    allow_env: Annotated[
        list[str] | None,
        typer.Option("--allow-env", metavar="NAME", help="Let this variable hold a secret that signs tokens."),
    ] = None,
) -> None:
    """Trust what can act in this workspace, as it is now, on this machine: settings, tools, models, triggers.

    Each part is trusted by itself: after a change of one tool's file only its tools are inert.
    """
    from hive_agents.agents import mcp_servers
    from hive_agents.workspace import machine, trusted as trust

    place = surface.unwarned_workspace
    state = place.root / ".hive"
    foreign = state.is_dir() and any(state.iterdir()) and machine.origin(state) is None
    aside = machine.set_aside(state) if rebuild and foreign and not diff else None
    accepted: list[str] = []
    for variable in allow_env or []:
        trust.allow_variable(variable)
    if not (diff or rebuild) and (names or not allow_env):
        chosen = [place.relative(Path(name)) if Path(name).exists() else name for name in names or []]
        accepted = [part.rpartition(".")[2] for part in trust.trust(place, chosen or None) if ": mcp.servers." in part]
    parts = trust.parts(place)
    trusted = all(part.status == "trusted" for part in parts)
    # Servers are asked only where they may be started: what `hive trust` accepts is what it shows.
    asks = not (foreign and diff) and bool(place.settings.mcp.servers)
    servers = mcp_servers.announced(place, accept=accepted) if asks else {}
    lines: list[Any] = [f"may sign tokens: env:{name}" for name in trust.allowed_variables()]
    if aside is not None:
        lines += [f"set aside as {aside.name}; `hive index` builds the index anew"]
    elif foreign:
        lines += [styled(".hive was not made on this machine" if diff else ".hive is accepted as made here", "yellow")]
    for part in parts:
        lines.append(styled(f"{part.status:8} ", _STYLES[part.status]) + spelled(part.name))
        if diff and part.status in ("new", "changed"):
            lines += [f"    {line}" for line in spelled(part.text).splitlines()]
    told = []
    for server, tools in servers.items():
        if isinstance(tools, HiveError):
            why = "it is trusted as it was, or as it is when it is first reached"
            lines.append(f"{tools.diagnostics[0].message}: {why}")
            continue
        for tool in tools:
            if diff and tool.status in ("new", "changed"):
                trusted = False
            name = f"mcp.servers.{server}: {tool.name}"
            told.append({"name": name, "status": tool.status, "text": tool.text})
            lines.append(styled(f"{tool.status:8} ", _STYLES[tool.status]) + spelled(name))
            if tool.status == "changed" or (diff and tool.status == "new"):
                lines += [f"    {line}" for line in spelled(tool.text).splitlines()]
    if not parts:
        lines.append("nothing in this workspace can act by itself")
    value = {
        "trusted": trusted and not (foreign and diff),
        "state": "foreign" if foreign and diff else "own",
        "set_aside": aside.name if aside is not None else None,
        "parts": [vars(part) for part in parts],
        "server_tools": told,
        "allowed_env": trust.allowed_variables(),
    }
    surface.show(value, *lines)
    raise typer.Exit(1 if diff and not value["trusted"] else 0)
