"""`hive credentials`: encrypted secrets by name; a value is never an argument and never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hive_agents.cli.surface import Surface, count, with_surface

if TYPE_CHECKING:
    from hive_agents.workspace.credentials import CredentialStore

app = typer.Typer(help="Encrypted secrets by name; tools and settings refer to them.", no_args_is_help=True)
CredentialArgument = Annotated[str, typer.Argument(metavar="NAME", help="The credential's name.")]


@app.command("set")
@with_surface()
def set_(
    surface: Surface,
    name: CredentialArgument,
    value_stdin: Annotated[
        bool, typer.Option("--value-stdin", help="Read the value from standard input (default: ask for it).")
    ] = False,
) -> None:
    """Store a secret; `credential:NAME` refers to it."""
    store = _store(surface)
    store.set(name, from_stdin() if value_stdin else prompted())
    surface.show({"name": name, "stored": True}, f"stored {name}: refer to it as credential:{name}")


@app.command("list")
@with_surface()
def list_(surface: Surface) -> None:
    """List the names; values are never shown."""
    names = _store(surface).names()
    surface.show({"credentials": [{"name": name} for name in names]}, *names, count(len(names), "credential"))


@app.command("delete")
@with_surface()
def delete(surface: Surface, name: CredentialArgument) -> None:
    """Delete a secret."""
    _store(surface).delete(name)
    surface.show({"name": name, "deleted": True}, f"deleted {name}")


def _store(surface: Surface) -> CredentialStore:
    from hive_agents.workspace.credentials import CredentialStore

    surface.asker.require_role("use the credential store", "admin")
    return CredentialStore(surface.workspace)


def from_stdin() -> str:
    """Return the value on stdin without its line end. Raises: HIVE-112 if it is not UTF-8."""
    import sys

    from hive_agents.base import HiveError

    try:
        value = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:  # its message would quote a part of the secret
        fix = "store the secret as text, for instance in base64"
        raise HiveError.of("HIVE-112", "the value is not UTF-8", file="stdin", fix=fix, exit_code=2) from None
    return value.removesuffix("\n").removesuffix("\r")


def prompted(what: str = "Value") -> str:
    """Return the value that is typed at a prompt. Raises: HIVE-409 without a terminal."""
    import warnings

    from hive_agents.base import HiveError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of getpass, without a terminal, that the input is shown
        try:
            return str(typer.prompt(what, hide_input=True, err=True))
        except typer.Abort:
            import sys

            if sys.stdin.isatty():
                raise
            fix = "pipe the value in with --value-stdin"
            raise HiveError.of("HIVE-409", "there is nobody to ask for the value", fix=fix) from None
