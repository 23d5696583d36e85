"""`hive storage`: show where the records are, and move them to another database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import Surface, count, json_text, with_surface

if TYPE_CHECKING:
    from hive_agents import Workspace
    from hive_agents.workspace import RemoteDatabase


app = typer.Typer(help="Records: show where they are, move them to a server or back.", invoke_without_command=True)
HERE = "here"
CREDENTIAL = "records"
"""The name in the credential store of the password that `setup` was given."""


@app.callback()
@with_surface()
def storage(surface: Surface, context: typer.Context) -> None:
    if context.invoked_subcommand is not None:
        return
    from hive_agents.host import moving, where

    place = surface.workspace
    surface.asker.operator("count the records")
    tables = moving.record_counts(place)
    lines = [f"{name:20} {number:>9,}" for name, number in tables.items() if number]
    surface.show({"records": where(place), "tables": tables}, f"records in {safe_line(where(place))}", *lines)


@app.command("migrate")
@with_surface()
def migrate(
    surface: Surface,
    to: Annotated[str, typer.Option("--to", metavar="URL|here", help="postgresql://user@host/database, or here.")],
    write: Annotated[bool, typer.Option("--write", help="Write the address to hive.toml, once verified.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete records in the target, such as those from before the last move.")
    ] = False,
) -> None:
    """Copy the records to a server or back, and verify the copy by counts and hashes. Repeat it after a crash."""
    from hive_agents.host import moving

    place = surface.workspace
    surface.asker.operator("move the records")
    target = _database(place, to, place.settings.storage.namespace)
    with surface.progress("what was copied is kept; the same command goes on from there") as progress:
        moved = moving.move_records(place, target, replacing=replace, progress=progress)
    line = _setting(to)
    if write:
        _write(place, {"url": "" if to == HERE else to})
    value: dict[str, Any] = {
        "source": moved.source,
        "target": moved.target,
        "copied": moved.copied,
        "verified": True,
        "written": write,
        "setting": line,
        "parts": [vars(part) for part in moved.parts],
    }
    rows = sum(part.count for part in moved.parts)
    verified = f"{count(rows, 'record')} of {len(moved.parts)} tables are equal in {moved.source} and {moved.target}"
    setting = f"{line or 'no url'} under [storage]"
    switch = f"hive.toml has {setting} now" if write else f"to use them there, let hive.toml have {setting}"
    surface.show(value, safe_line(verified), safe_line(f"{switch}{'; then run `hive trust`' if line else ''}"))


@app.command("setup")
@with_surface()
def setup(
    surface: Surface,
    url: Annotated[str, typer.Argument(metavar="URL", help="postgresql://user@host:5432/database, no password in it.")],
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="The schema (default: that of the settings, hive).")
    ] = None,
    password_ref: Annotated[
        str | None, typer.Option("--password-ref", metavar="REF", help="Where the password is, such as env:NAME.")
    ] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input (default: ask if needed).")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Trust the server and change hive.toml unasked.")] = False,
) -> None:
    """Take the records to a PostgreSQL server, or join those that are there: look, ask, move, verify, write hive.toml.

    Whatever is missing ends it with the next step; then the same command goes on. Use it on each host.
    """
    from dataclasses import replace

    from hive_agents.base import HiveError
    from hive_agents.host import moving, where
    from hive_agents.store import own_schema
    from hive_agents.workspace import RemoteDatabase, trust

    place = surface.workspace
    surface.asker.require_role("set up the records", "admin")
    storage = place.settings.storage
    target = _database(place, url, namespace or storage.namespace)
    if not isinstance(target, RemoteDatabase):
        fix = "name a server; `hive storage migrate --to here` takes the records back"
        raise HiveError.of("HIVE-409", "`here` needs no setup", path="URL", fix=fix, exit_code=2)
    reference = storage.password_ref if password_ref is None else password_ref
    if password_stdin:
        reference = _kept_password(surface, stdin=True)
    target = replace(target, password_ref=reference, is_target=True)
    try:
        rights = own_schema.require_rights(target)
    except HiveError as error:
        if reference or "password" not in error.diagnostics[0].message:
            raise
        target = replace(target, password_ref=_kept_password(surface, stdin=False))
        rights = own_schema.require_rights(target)
    told = f"PostgreSQL {rights.release} at {where(place, target)}, as {rights.user}"
    _require_agreement(f"{told}: trust it with this workspace's records, and write it to hive.toml?", yes)
    with surface.progress("what was copied is kept; the same command goes on from there") as progress:
        moved = moving.set_up_records(place, target, progress=progress)
    values = {"url": target.url, "password_ref": target.password_ref or ""}
    _write(place, values if namespace is None else values | {"namespace": namespace})
    trust(type(place)(place.root), ["storage"])
    rows = None if moved is None else sum(part.count for part in moved.parts)
    value = {
        "records": where(place, target),
        "release": rights.release,
        "user": rights.user,
        "joined": moved is None,
        "moved": rows,
        "verified": True,
    }
    did = "this host shares what is there" if rows is None else f"{count(rows, 'record')} moved and verified"
    following = "on the next host: copy the workspace's files without .hive, run the same command, then `hive index`"
    surface.show(value, *map(safe_line, (told, f"{did}; hive.toml names the server, and is trusted", following)))


@app.command("reopen")
@with_surface()
def reopen(surface: Surface) -> None:
    """Make the records that a move left behind here writable again."""
    from hive_agents.host import moving, where

    place = surface.workspace
    surface.asker.operator("reopen the records")
    moving.reopen_records(place)
    message = f"{safe_line(where(place))} can be written; what happened elsewhere since the move isn't here"
    surface.show({"records": where(place)}, message)


def _kept_password(surface: Surface, *, stdin: bool) -> str:
    """Return the reference to a password that was given, encrypted in the credential store of this host."""
    from hive_agents.base import HiveError
    from hive_agents.cli.credentials import from_stdin, prompted
    from hive_agents.workspace.credentials import CredentialStore

    try:
        value = from_stdin() if stdin else prompted("Password of the database's user")
    except HiveError as error:
        fix = "give it with --password-stdin, or name where it is with --password-ref env:NAME"
        raise HiveError.of("HIVE-403", "the server asks for a password", fix=fix) from error
    CredentialStore(surface.workspace).set(CREDENTIAL, value)
    return f"credential:{CREDENTIAL}"


def _require_agreement(question: str, yes: bool) -> None:
    """Ask at a terminal. Raises: HIVE-409 without one, typer.Abort for no."""
    import sys

    from hive_agents.base import HiveError

    if yes:
        return
    if not sys.stdin.isatty():
        fix = "look at what it says; then run the command again with --yes"
        raise HiveError.of("HIVE-409", f"there is nobody to answer: {question}", fix=fix, exit_code=2)
    typer.confirm(safe_line(question), default=False, abort=True, err=True)


def _database(place: Workspace, to: str, namespace: str) -> Path | RemoteDatabase:
    """Return the database that --to names. Raises: HIVE-409."""
    from hive_agents.base import HiveError
    from hive_agents.workspace import RemoteDatabase
    from hive_agents.workspace.settings import keys

    if to == HERE:
        return place.database
    try:
        settings = keys.StorageSettings(url=to, namespace=namespace)
    except ValueError as error:
        fault = str(error).splitlines()[2].strip().partition(" [type=")[0]
        fix = "name a server as postgresql://user@host:5432/database, or `here`"
        raise HiveError.of("HIVE-409", f"no place for records: {fault}", path="--to", fix=fix) from None
    return RemoteDatabase(settings.url, settings.namespace, place.root)


def _setting(to: str) -> str:
    """Return the line for hive.toml; "" for the workspace's own database."""
    return "" if to == HERE else f"url = {json_text(to).strip()}"


def _write(place: Workspace, values: dict[str, str]) -> None:
    """Replace settings of [storage] in hive.toml, and nothing else."""
    from hive_agents.base.files import atomic_write_text, read_bytes
    from hive_agents.workspace.settings import with_values

    path = place.root / "hive.toml"
    text = read_bytes(path).decode() if path.exists() else ""
    atomic_write_text(path, with_values(text, "storage", values))


@with_surface()
def backup(
    surface: Surface,
    to: Annotated[
        Path | None, typer.Argument(help="A new file, or an existing folder (default: .hive/backups/).")
    ] = None,
) -> None:
    """Write files, records, checkpoints and index into one archive, also while other processes use them."""
    from hive_agents.host import DUMP, back_up
    from hive_agents.workspace import RemoteDatabase

    place = surface.workspace
    surface.asker.operator("back the workspace up")
    with surface.progress() as progress:
        backup = back_up(place, to, progress=progress)
    value = {"file": str(backup.path), "bytes": backup.bytes, "files": backup.files, "left_out": list(backup.left_out)}
    lines = [f"{backup.path} holds {count(backup.files, 'file')}, {backup.bytes:,} bytes"]
    lines += [f"  without {name}, which is rebuilt" for name in backup.left_out]
    if isinstance(place.records, RemoteDatabase):
        lines.append(f"the records are in .hive/{DUMP}; to restore them: pg_restore --no-owner -d URL .hive/{DUMP}")
    lines.append(f"to restore: mkdir FOLDER; tar -xzf {backup.path} -C FOLDER; hive trust -w FOLDER")
    surface.show(value, *map(safe_line, lines))
