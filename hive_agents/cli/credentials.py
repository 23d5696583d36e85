"""`hive credentials`: secrets by name, encrypted; a value is never an argument and never shown."""

from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption, count, open_workspace

app = typer.Typer(help="Secrets by name, kept encrypted; tools and settings refer to them.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The credential's name.")]


@app.command("set")
def set_(
    name: NameArgument,
    value_stdin: Annotated[
        bool, typer.Option("--value-stdin", help="Read the value from standard input (default: ask for it).")
    ] = False,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Store a secret; `credential:NAME` refers to it."""
    import sys

    from hive_agents.credentials import CredentialStore

    store = CredentialStore(open_workspace(workspace))
    if value_stdin:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    else:
        value = typer.prompt("Value", hide_input=True, err=True)
    store.set(name, value)
    Surface(json, quiet).show({"name": name, "stored": True}, f"stored {name}: refer to it as credential:{name}")


@app.command("list")
def list_(workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """List the names; values are never shown."""
    from hive_agents.credentials import CredentialStore

    names = CredentialStore(open_workspace(workspace)).names()
    Surface(json, quiet).show(
        {"credentials": [{"name": name} for name in names]}, *names, count(len(names), "credential")
    )


@app.command("delete")
def delete(
    name: NameArgument, workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False
) -> None:
    """Delete a secret."""
    from hive_agents.credentials import CredentialStore

    CredentialStore(open_workspace(workspace)).delete(name)
    Surface(json, quiet).show({"name": name, "deleted": True}, f"deleted {name}")
