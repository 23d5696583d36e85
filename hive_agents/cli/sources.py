"""`hive sources`: sources of documents elsewhere, named in hive.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.import_ import deletion_check, offered_fields, report_lines, report_value
from hive_agents.cli.surface import Surface, count, styled, with_surface

if TYPE_CHECKING:
    from hive_agents.sources import running

app = typer.Typer(help="Sources of documents: add, list, run, pause, remove them; their log.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A source of hive.toml.")]


@app.command("add")
@with_surface()
def add(
    surface: Surface,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, and its folder below documents/.")],
    kind: Annotated[
        str, typer.Option("--kind", help="folder, git, s3, azure, gcs, webdav, sftp, imap, web, loader or mcp.")
    ],
    url: Annotated[str, typer.Option("--url", help="Where it is, by kind: docs/sources.md.")],
    secret_ref: Annotated[
        str, typer.Option("--secret-ref", metavar="REF", help="What it is reached with: credential:NAME, env:NAME, ….")
    ] = "",
    schedule: Annotated[str, typer.Option("--schedule", metavar='"0 2 * * *"', help="When a host runs it.")] = "",
    tenant: Annotated[str, typer.Option("--tenant", help="The tenant of its documents.")] = "",
    view: Annotated[list[str] | None, typer.Option("--view", help="Who may view: user:ID, group:ID, tenant.")] = None,
    owner: Annotated[str, typer.Option("--owner", help="Who views what nobody else may: user:ID.")] = "",
    to: Annotated[str, typer.Option("--to", help="The folder below documents/.")] = "",
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="An option of its kind; a text or JSON.")
    ] = None,
) -> None:
    """Write a source into hive.toml and trust it; `hive sources run` brings its documents."""
    from hive_agents.sources import add_source

    surface.asker.operator("add sources")
    surface.require_whole_view("add sources")
    values = {
        "kind": kind,
        "url": url,
        "secret_ref": secret_ref,
        "schedule": schedule,
        "tenant": tenant,
        "view": [part.strip() for value in view or [] for part in value.split(",")],
        "owner": owner,
        "to": to,
        "options": dict(map(_option, option or [])),
    }
    add_source(surface.workspace, name, values)
    surface.show({"name": name, "file": "hive.toml"}, f"wrote sources.{name} into hive.toml", "next: hive sources run")


def _option(text: str) -> tuple[str, Any]:
    import json

    from hive_agents.base import HiveError

    name, equals, value = text.partition("=")
    if not equals:
        raise HiveError.of("HIVE-409", f"--option {text} names no option", fix="write NAME=VALUE", exit_code=2)
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value


@app.command("list")
@with_surface()
def list_(surface: Surface) -> None:
    """List the sources with their last runs."""
    from rich.table import Table

    from hive_agents.sources import showing

    surface.asker.operator("list sources")
    surface.require_whole_view("list sources")
    rows = showing.source_rows(surface.workspace)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "kind", "url", "documents", "failed", "last run", "next"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        last = row["last_run"]
        next_at = "paused" if row["paused"] else "not trusted" if not row["trusted"] else row["next_at"] or "–"
        ran = f"{last['status']} {last['started_at']}" if last else "–"
        table.add_row(row["name"], row["kind"], row["url"], str(row["documents"]), str(row["failed"]), ran, next_at)
    surface.show({"sources": rows}, table if rows else "no sources yet: hive sources add")


@app.command("run")
@with_surface()
def run(
    surface: Surface,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all.")] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the documents that left the source without asking, however many.")
    ] = False,
    declare: Annotated[
        bool, typer.Option("--declare", help="Declare the columns of tables, and who wrote mails when, as fields.")
    ] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="Only who is in a source's groups: no document is looked at.")
    ] = False,
) -> None:
    """Fetch what changed in sources, and bring their documents up to date."""
    from hive_agents.base import HiveError
    from hive_agents.sources import running, sync_groups

    place = surface.workspace
    surface.asker.operator("run sources")
    surface.require_whole_view("run sources")
    if not (chosen := names or list(place.settings.sources)):
        fix = "add one: hive sources add NAME --kind KIND --url URL"
        raise HiveError.of("HIVE-409", "the settings name no source", file="hive.toml", fix=fix, exit_code=2)
    if groups:
        synced = [{"name": name, "groups": sync_groups(place, name)} for name in chosen]
        told = [f"{each['name']}: {count(len(each['groups']), 'group')} with their members" for each in synced]
        surface.show({"sources": synced}, *told)
        return
    reports: list[running.SourceReport] = []
    fields: list[dict[str, Any]] = []
    lines: list[Any] = []
    with surface.progress("what was fetched stays; run the command again to go on") as progress:
        for name in chosen:
            asked = deletion_check(surface, delete, whole=True)
            report = running.run_source(place, name, may_delete=asked, progress=progress)
            reports.append(report)
            lines += [f"{name}: {report.status}", *report_lines(place, report.documents, theirs=False)]
            lines += [styled(f"{each['key']}: {each['message']}", "red") for each in report.failed[:20]]
            offered, told = offered_fields(surface, report.documents, declare=declare)
            fields, lines = fields + offered, lines + told
            if len(report.failed) > 20:
                lines.append(f"… and {len(report.failed) - 20} more: hive sources log {name}")
    lost = [fault for report in reports if (fault := report.fault) is not None]
    if not surface.as_json:
        surface.warn(lost)
    value = [
        {"name": each.name, "status": each.status, "message": each.message, "failed": each.failed}
        | report_value(each.documents)
        for each in reports
    ]
    surface.show({"sources": value, "fields": fields, "diagnostics": [each.to_json() for each in lost]}, *lines)
    kept = any(r.status != "done" or r.documents.gone or r.documents.skipped or r.documents.conflicts for r in reports)
    raise typer.Exit(3 if lost else 1 if kept else 0)


@app.command("pause")
@with_surface()
def pause(
    surface: Surface,
    name: NameArgument,
    off: Annotated[bool, typer.Option("--off", help="Take it into the schedule again.")] = False,
) -> None:
    """Leave a source out of the schedule; `hive sources run NAME` still runs it."""
    from hive_agents.sources import showing

    surface.asker.operator("pause sources")
    showing.pause_source(surface.workspace, name, paused=not off)
    surface.show({"name": name, "paused": not off}, f"{name} is {'on its schedule' if off else 'paused'}")


@app.command("remove")
@with_surface()
def remove(
    surface: Surface,
    name: NameArgument,
    keep: Annotated[bool, typer.Option("--keep-documents", help="Its documents stay, as your own.")] = False,
    delete: Annotated[
        bool, typer.Option("--delete-documents", help="Its documents go, except those that were edited by hand.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask; without a word on its documents they stay.")] = False,
) -> None:
    """Remove a source from hive.toml, with what is known of it; asks what shall become of its documents."""
    import sys

    from hive_agents.base import HiveError
    from hive_agents.sources import remove_source, showing

    surface.asker.operator("remove sources")
    surface.require_whole_view("remove sources")
    showing.source_log(surface.workspace, name)
    asks = not (yes or surface.as_json or surface.quiet) and sys.stdin.isatty()
    if keep and delete:
        raise HiveError.of("HIVE-409", "documents are kept or deleted", fix="name one of the two", exit_code=2)
    if not (keep or delete or yes or asks):
        fix = "name --keep-documents, or --delete-documents with --yes"
        raise HiveError.of("HIVE-409", "what shall become of its documents isn't said", fix=fix, exit_code=2)
    if asks and not (keep or delete):
        delete = typer.confirm(f"delete the documents of {name}, too? (otherwise they stay)", default=False, err=True)
    if delete and not yes:
        if not asks:
            raise HiveError.of("HIVE-409", "--delete-documents asks first", fix="agree to it with --yes", exit_code=2)
        typer.confirm(f"remove {name} and delete its documents?", default=False, abort=True, err=True)
    report = remove_source(surface.workspace, name, delete=delete, by=surface.asker.caller().by)
    lines = [f"removed sources.{name} from hive.toml", *(f"  deleted {doc_id}" for doc_id in report.deleted[:20])]
    if report.deleted:
        lines.append(f"deleted {count(len(report.deleted), 'document')}; next: hive index")
    if report.stay:
        lines.append(f"{count(len(report.stay), 'document')} of it now in documents/ as your own")
    surface.show({"name": name, "file": "hive.toml", "deleted": report.deleted, "stay": report.stay}, *lines)


@app.command("log")
@with_surface()
def log(surface: Surface, name: NameArgument) -> None:
    """Show the last runs of a source, and what it couldn't read."""
    from hive_agents.sources import showing

    surface.asker.operator("see the log of sources")
    surface.require_whole_view("see the log of sources")
    value = showing.source_log(surface.workspace, name)
    lines: list[Any] = []
    for each in value["runs"]:
        counted = ("added", "changed", "renamed", "deleted", "failed")
        did = ", ".join(f"{each[key]} {key}" for key in counted if each.get(key))
        did += f", {count(each['labels'], 'label')} moved along" if each.get("labels") else ""
        why = f": {each['message']}" if each["message"] else ""
        lines.append(f"{each['started_at']} {each['status']}{f', {did}' if did else ''}{why}")
    if value["failed"]:
        lines.append(f"{count(len(value['failed']), 'item')} can't be read:")
    for each in value["failed"]:
        tried = "given up; `hive sources run` tries it again" if each["given_up"] else f"again at {each['retry_at']}"
        lines.append(styled(f"  {each['key']}: {each['message']} (tried {each['attempts']} times, {tried})", "red"))
    surface.show(value, *(lines or ["it has not run yet"]))
