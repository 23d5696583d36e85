"""`hive storage`: show where the records are, and move them to another database."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import Surface, count, json_text, with_surface

if TYPE_CHECKING:
    from hive_agents import Workspace
    from hive_agents.store import DatabasePlace


app = typer.Typer(help="Records: show where they are, move them to a server or back.", invoke_without_command=True)
HERE = "here"


@app.callback()
@with_surface()
def storage(surface: Surface, context: typer.Context) -> None:
    if context.invoked_subcommand is not None:
        return
    from hive_agents.host import record_counts, where

    place = surface.workspace
    tables = record_counts(place)
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
    from hive_agents.host import move_records

    place = surface.workspace
    surface.asker.operator("move the records")
    target = _database(place, to)
    with surface.progress("what was copied is kept; the same command goes on from there") as progress:
        moved = move_records(place, target, replacing=replace, progress=progress)
    line = _setting(to)
    if write:
        _write(place, line)
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


@app.command("reopen")
@with_surface()
def reopen(surface: Surface) -> None:
    """Make the records that a move left behind here writable again."""
    from hive_agents.host import reopen_records, where

    place = surface.workspace
    surface.asker.operator("reopen the records")
    reopen_records(place)
    message = f"{safe_line(where(place))} can be written; what happened elsewhere since the move isn't here"
    surface.show({"records": where(place)}, message)


def _database(place: Workspace, to: str) -> DatabasePlace:
    """Return the database that --to names. Raises: HIVE-409."""
    from hive_agents.base import HiveError
    from hive_agents.workspace import RemoteDatabase
    from hive_agents.workspace.settings import StorageSettings

    if to == HERE:
        return place.database
    try:
        settings = StorageSettings(url=to)
    except ValueError as error:
        fault = str(error).splitlines()[2].strip().partition(" [type=")[0]
        fix = "name a server as postgresql://user@host:5432/database, or `here`"
        raise HiveError.of("HIVE-409", f"no place for records: {fault}", path="--to", fix=fix) from None
    return RemoteDatabase(settings.url, place.settings.storage.namespace, place.root)


def _setting(to: str) -> str:
    """Return the line for hive.toml; "" for the workspace's own database."""
    return "" if to == HERE else f"url = {json_text(to).strip()}"


def _write(place: Workspace, line: str) -> None:
    """Replace the address in hive.toml, and nothing else."""
    from hive_agents.base.files import atomic_write_text, read_bytes

    path = place.root / "hive.toml"
    text = read_bytes(path).decode() if path.exists() else ""
    atomic_write_text(path, with_address(text, line))


def with_address(text: str, line: str) -> str:
    """Return the text of a settings file with `line` as the only address under [storage].

    >>> with_address("[storage]\\nurl = 'old'\\nnamespace = 'x'\\n", 'url = "new"')
    '[storage]\\nurl = "new"\\nnamespace = \\'x\\'\\n'
    """
    setting = f"{line}\n" if line else ""
    head = re.search(r"^\[storage\][^\n]*\n?", text, re.MULTILINE)
    if head is None:
        return f"{text.rstrip()}\n\n[storage]\n{setting}".lstrip() if line else text
    end = re.search(r"^\[", text[head.end() :], re.MULTILINE)
    stop = head.end() + end.start() if end else len(text)
    body = re.sub(r"^[ \t]*url[ \t]*=[^\n]*\n?", "", text[head.end() : stop], flags=re.MULTILINE)
    return f"{text[: head.end()].rstrip()}\n{setting}{body}{text[stop:]}"


@with_surface()
def backup(
    surface: Surface,
    to: Annotated[
        Path | None, typer.Argument(help="A new file, or an existing folder (default: .hive/backups/).")
    ] = None,
) -> None:
    """Write files, records, checkpoints and index into one archive, also while other processes use them."""
    from hive_agents.host import back_up

    place = surface.workspace
    surface.asker.operator("back the workspace up")
    with surface.progress() as progress:
        backup = back_up(place, to, progress=progress)
    value = {"file": str(backup.path), "bytes": backup.bytes, "files": backup.files, "left_out": list(backup.left_out)}
    lines = [f"{backup.path} holds {count(backup.files, 'file')}, {backup.bytes:,} bytes"]
    lines += [f"  without {name}, which is rebuilt" for name in backup.left_out]
    lines.append(f"to restore: mkdir FOLDER; tar -xzf {backup.path} -C FOLDER; hive trust -w FOLDER")
    surface.show(value, *map(safe_line, lines))
