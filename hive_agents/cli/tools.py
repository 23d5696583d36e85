"""`hive tools`: list, show and call the tools that agents of the workspace may use."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from hive_agents.cli.surface import Surface, count, with_surface

HELP = "Tools of this workspace: bundled, its own, and those of packages and MCP servers."
app = typer.Typer(help=HELP, no_args_is_help=True)
ToolArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tool's name.")]


@app.command("list")
@with_surface()
def list_(surface: Surface) -> None:
    """List the tools with their effects, and why others are missing."""
    from hive_agents.agents import workspace_tools

    registry = workspace_tools(surface.workspace, log=False)
    shown = registry.view(sub_agent=True)
    tools = [
        {
            "name": name,
            "description": shown[name].description.partition("\n")[0],
            "side_effect": shown[name].side_effect,
            "policy": shown[name].policy,
            "sub_agents_only": shown[name].sub_agents_only,
        }
        for name in shown.names
    ]
    lines = [f"{tool['name']} ({tool['side_effect']}, {tool['policy']}): {tool['description']}" for tool in tools]
    surface.warn(registry.missing)
    missing = [diagnostic.to_json() for diagnostic in registry.missing]
    surface.show({"tools": tools, "missing": missing}, *lines, count(len(tools), "tool"))


@app.command("show")
@with_surface()
def show(surface: Surface, name: ToolArgument) -> None:
    """Show a tool as models see it."""
    from hive_agents.agents import workspace_tools

    registry = workspace_tools(surface.workspace, log=False)
    surface.warn(registry.missing)
    tool = registry.view(sub_agent=True)[name]
    value = {
        "name": tool.name,
        "description": tool.description,
        "side_effect": tool.side_effect,
        "policy": tool.policy,
        "parameters": dict(tool.parameters),
        "hints": dict(tool.hints),
        "inert": tool.inert or None,
    }
    hints = [f"its server says, and nothing relies on it: {json.dumps(value['hints'])}"] if tool.hints else []
    lines = [f"inert: {tool.inert}"] if tool.inert else []
    parameters = json.dumps(value["parameters"], indent=2, ensure_ascii=False)
    lines += [f"{tool.name} ({tool.side_effect}, {tool.policy})", tool.description, *hints, parameters]
    surface.show(value, *lines)


@app.command("call")
@with_surface(as_user="Call as USER of access/*.json (default: no user).")
def call(
    surface: Surface,
    name: ToolArgument,
    args: Annotated[str, typer.Option("--args", metavar="JSON", help="An object with the arguments.")] = "{}",
) -> None:
    """Call a tool, without asking for approval; its effects are real."""
    import asyncio

    from hive_agents.agents import ToolContext, workspace_tools
    from hive_agents.base import HiveError
    from hive_agents.base.files import jsontext

    try:
        arguments = jsontext.parse(args, "--args")
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None
    if not isinstance(arguments, dict):
        raise HiveError.of("HIVE-409", "the arguments are not a JSON object", fix='write --args \'{"name": "value"}\'')
    place = surface.workspace
    registry = workspace_tools(place, log=False)
    surface.warn(registry.missing)
    tools = registry.view(sub_agent=True)
    tools[name]  # raises for an unknown name, which is wrong usage and not a failed call
    context = ToolContext(place, surface.asker.reader_if_named())
    result = asyncio.run(tools.call(name, arguments, context, approved=True))
    value: dict[str, Any] = {"tool": name, "content": result.content, "is_error": result.is_error}
    surface.show(value, result.content)
    raise typer.Exit(1 if result.is_error else 0)
