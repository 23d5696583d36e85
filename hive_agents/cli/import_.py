from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import PROGRESS_AFTER, Surface, console, count, styled, with_surface

if TYPE_CHECKING:
    from hive_agents.sync import ImportReport, LeftOut, Skipped
    from hive_agents.workspace import Workspace

SHOWN = 20
ALIKE = 5


@with_surface()
def command(
    surface: Surface,
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SOURCE]...", help="Files, folders or globs (default: all that were imported before)."),
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="The folder below documents/.")] = None,
    rev: Annotated[
        str | None, typer.Option("--rev", help="A revision of the git repository that SOURCE is in.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete documents of missing or forgotten files without asking.")
    ] = False,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Stop importing SOURCE; its documents stay as your own, unless with --delete."),
    ] = False,
    theirs: Annotated[
        bool, typer.Option("--theirs", help="Take the source's text where a document was edited by hand.")
    ] = False,
    bring: Annotated[
        str | None,
        typer.Option("--with", help="Bring comments, deleted (tracked changes) or hidden (rows, slides), too."),
    ] = None,
    declare: Annotated[
        bool, typer.Option("--declare", help="Declare the columns of tables, and who wrote mails when, as fields.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running: import whenever a source changes.")] = False,
    tenant: Annotated[list[str] | None, typer.Option("--tenant", help="The tenants of the documents.")] = None,
    view: Annotated[list[str] | None, typer.Option("--view", help="Who may view: user:ID, group:ID, tenant.")] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME=VALUE", help="A field of each document, such as version=v3.6."),
    ] = None,
) -> None:
    """Import or update documents from your files: Markdown, HTML, PDF, Office, notebooks, text and more."""
    from hive_agents.sync import importing

    place = surface.workspace
    require = partial(surface.asker.operator, "import documents")
    require()
    metadata = _labels(tenant or [], view or []) | _fields(field or [])
    brings = None if bring is None else {part.strip() for part in bring.split(",")} - {"nothing", ""}
    if forget:
        others = bool(rev or theirs or watch or metadata or brings)
        _forget(surface, sources or [], to, require, delete=delete, others=others)
        return

    def run_import(paths: Sequence[str], revision: str | None) -> ImportReport:
        with surface.progress("what is imported stays; run the command again to go on") as progress:
            report = importing.import_documents(
                place,
                paths,
                to=to,
                rev=revision,
                metadata=metadata,
                brings=brings,
                theirs=theirs,
                may_delete=deletion_check(surface, delete),
                progress=progress,
                tell=_skip_reporter(surface),
                require=require,  # each import of --watch asks anew, after it waited for others to write
            )
        fields, told = offered_fields(surface, report, declare=declare)
        surface.show(report_value(report) | {"fields": fields}, *report_lines(place, report), *told)
        return report

    report = run_import(sources or [], rev)
    if watch:
        console(stderr=True).print("watching; Ctrl-C ends it and what is imported stays")
        for _ in importing.changes(place):
            run_import([], None)
    raise typer.Exit(1 if report.skipped or report.conflicts else 0)


def offered_fields(surface: Surface, report: ImportReport, *, declare: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the fields of rows and mails that can be declared, and lines that tell of them; declare them if wanted."""
    import sys

    from hive_agents.cli.fields import proposal_lines
    from hive_agents.documents import collection_names, load_collection, proposals, undeclared, undeclared_fields

    names = collection_names(surface.workspace) if report.front_matter else []
    if len(names) != 1:
        return [], []
    collection = load_collection(surface.workspace, next(iter(names)))
    found = undeclared_fields(collection, report.front_matter)
    fields = [{"name": field.name, "type": field.type, "values": list(field.values[:SHOWN])} for field in found]
    shown = ", ".join(f"{field.name} ({field.type}, {count(len(field.values), 'value')})" for field in found)
    offered = proposals.proposed_declarations(collection, found, report.front_matter)
    asks = not surface.as_json and not surface.quiet and sys.stdin.isatty()
    if found and not declare and asks:
        declare = typer.confirm(f"can be filtered and counted: {shown}; declare them?", default=False, err=True)
    known = {*collection.fields, *(field.name for field in found if declare)}
    agreed = (
        proposals.chosen_declarations(offered, [one.name for one in offered if one.key != "may_hide"]) if asks else []
    )
    agreed = [one for one in agreed if one.field in known]
    if agreed:
        keys = ", ".join(f'"{one.key}" at {one.field}' for one in agreed)
        question = f"an optimizer may use what you declare; the documents propose {keys}; agree?"
        agreed = agreed if typer.confirm(question, default=False, err=True) else []
    lines = []
    if (declare and found) or agreed:
        said = [(one.field, one.key, one.value) for one in agreed]
        where = undeclared.declare_fields(surface.workspace, collection, found if declare else [], said)
        names = [*([shown] if declare and found else []), *(one.name for one in agreed)]
        lines = [f"declared in {where}: {', '.join(names)}"]
    elif found:
        lines = [f"can be filtered and counted once they are declared (--declare): {shown}"]
    left = [one for one in offered if one not in agreed]
    return fields, [*lines, *(proposal_lines(left) if not asks or not agreed else [])]


def _forget(
    surface: Surface,
    sources: Sequence[str],
    to: str | None,
    require: Callable[[], object],
    *,
    delete: bool,
    others: bool,
) -> None:
    from hive_agents.base import HiveError
    from hive_agents.sync import forgetting

    if others or not sources:
        message = "--forget takes sources, and of the options --to and --delete alone"
        raise HiveError.of("HIVE-409", message, fix="hive import --forget SOURCE [--to PLACE] [--delete]", exit_code=2)
    report = forgetting.forget_sources(surface.workspace, sources, to=to, delete=delete, require=require)
    lines: list[Any] = [f"forgot {source}" for source in report.forgotten]
    lines += _some([f"  deleted {doc_id}" for doc_id in report.deleted])
    if report.stay:
        number, edited = count(len(report.stay), "document"), " that you edited" if delete else ""
        lines.append(f"{number}{edited} stay{'s' if len(report.stay) == 1 else ''} in documents/ as your own")
    if report.deleted:
        lines.append("next: hive index")
    surface.show({"forgotten": report.forgotten, "deleted": report.deleted, "stay": report.stay}, *lines)


def _skip_reporter(surface: Surface) -> Callable[[Skipped], None]:
    """Return a callback that prints, during a long import, the first file that is skipped for each reason."""
    from hive_agents.sync import unsupported_kind

    started = time.monotonic()
    reported = set()

    def report(skipped: Skipped) -> None:
        if time.monotonic() - started < PROGRESS_AFTER or skipped["message"] in reported:
            return  # a short import ends with its report soon enough
        if unsupported_kind(skipped["message"]) is not None:
            return  # such as pictures, which are expected
        reported.add(skipped["message"])
        surface.say(f"skipped {skipped['file']}: {skipped['message']}")

    return report


def deletion_check(surface: Surface, delete: bool, *, whole: bool = False) -> Callable[[Sequence[str], bool], bool]:
    """Return a callback that permits deletions: by `--delete`, or by asking at the terminal; otherwise it refuses.

    Only with `whole` `--delete` is enough where a source has nothing any more.
    """
    import sys

    def may_delete(doc_ids: Sequence[str], everything: bool) -> bool:
        if delete and (whole or not everything):
            return True
        if surface.as_json or surface.quiet or not sys.stdin.isatty():
            return False
        err = console(stderr=True)
        err.print(
            f"{count(len(doc_ids), 'document')} left the source" + (", which is gone" if everything else "") + ":"
        )
        for doc_id in doc_ids[:SHOWN]:
            err.print(f"  {doc_id}")
        if len(doc_ids) > SHOWN:
            err.print(f"  … and {len(doc_ids) - SHOWN} more")
        return typer.confirm("delete them from documents/?", default=False, err=True)

    return may_delete


def report_value(report: ImportReport) -> dict[str, Any]:
    return {
        "imported": report.imported,
        "skipped": report.skipped,
        "added": report.added,
        "changed": report.changed,
        "renamed": report.renamed,
        "labels": report.labels,
        "deleted": report.deleted,
        "gone": report.gone,
        "kept": report.kept,
        "beside": report.beside,
        "conflicts": report.conflicts,
        "unchanged": report.unchanged,
        "still_skipped": report.still_skipped,
        "ignored": report.ignored,
        "left_out": report.left_out,
    }


def report_lines(place: Workspace, report: ImportReport, *, theirs: bool = True) -> list[Any]:
    lines: list[Any] = [
        f"imported {count(len(report.imported), 'document')}: {len(report.added)} added, {len(report.changed)} changed;"
        f" {len(report.renamed)} renamed, {len(report.deleted)} deleted, {report.unchanged} unchanged"
    ]
    lines += _some([f"  {doc_id}" for doc_id in report.imported])
    if len(report.imported) > SHOWN:
        folders = Counter(doc_id.rpartition("/")[0] or "documents" for doc_id in report.imported[SHOWN:])
        lines[-1] += ": " + ", ".join(f"{number} in {folder}/" for folder, number in folders.most_common(5))
    lines += _some([f"  {moved['from']} -> {moved['to']}" for moved in report.renamed])
    lines += [f"  {count(number, 'label')} of {file} moved along" for file, number in report.labels.items()]
    lines += _some([f"  deleted {doc_id}" for doc_id in report.deleted])
    if report.beside:
        lines.append(styled("stored under another name, since another document has theirs:", "yellow"))
        lines += _some([f"  {moved['doc_id']} beside {moved['named']}, of {moved['file']}" for moved in report.beside])
    for conflict in report.conflicts:
        where = f"; what changed there: {conflict['note']}" if conflict["note"] else ""
        lines.append(styled(f"both changed: {conflict['doc_id']}: {conflict['message']}{where}", "yellow"))
    if theirs and any(conflict["note"] for conflict in report.conflicts):
        lines.append("  to take the source's text instead: hive import FILE --theirs")
    if report.kept:
        lines.append(f"kept {count(len(report.kept), 'document')} that you edited or deleted by hand")
    if report.gone:
        lines.append(
            styled(f"{count(len(report.gone), 'document')} left the source and stay until --delete:", "yellow")
        )
        lines += _some([f"  {doc_id}" for doc_id in report.gone])
    lines += [styled(line, "red") for line in _skipped(report.skipped)]
    if report.still_skipped:
        lines.append(f"still not readable, as reported before: {count(report.still_skipped, 'file')}")
    if report.ignored:
        why = ", ".join(f"{number} {reason}" for reason, number in sorted(report.ignored.items()))
        lines.append(f"ignored: {why}")
    if report.left_out:
        lines.append(f"left out: {_counts(report.left_out)} (by file: --json; what: docs/import.md)")
    unseen = _unseen(place, report.imported)
    if unseen:
        which = "it" if len(report.imported) == 1 else "them" if unseen == len(report.imported) else f"{unseen} of them"
        lines.append(f"nobody but a tenant's admins will see {which}: name --tenant and --view")
    if report.imported or report.deleted or report.renamed:
        lines.append("next: hive index")
    return lines


def _skipped(skipped: list[Skipped]) -> list[str]:
    """Return a line for each skipped file, and one line for each reason that more than `ALIKE` files share."""
    from hive_agents.sync import unsupported_kind

    by_message: dict[str, list[str]] = {}
    kinds: Counter[str] = Counter()
    for file in skipped:
        by_message.setdefault(file["message"], []).append(file["file"])
        if (kind := unsupported_kind(file["message"])) is not None:
            kinds[kind] += 1
    many = kinds.total() > ALIKE
    lines = []
    for message, files in sorted(by_message.items(), key=lambda item: len(item[1])):
        if many and unsupported_kind(message) is not None:
            continue
        if len(files) <= ALIKE:
            lines += [f"skipped {file}: {message}" for file in files]
        else:
            lines.append(f"skipped {len(files)} files: {message}; such as {files[0]} (all: --json)")
    if many:
        shown = [f"{number} {kind}" for kind, number in kinds.most_common(ALIKE)]
        shown += [f"{len(kinds) - ALIKE} kinds more"] if len(kinds) > ALIKE else []
        lines.append(f"skipped {kinds.total()} files of kinds that aren't supported: {', '.join(shown)} (all: --json)")
    return lines


def _counts(left_out: list[LeftOut]) -> str:
    """Return how many parts of each kind were left out, in how many files."""
    parts: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for entry in left_out:
        parts[entry["kind"]] += entry["count"]
        files[entry["kind"]] += 1
    return ", ".join(f"{number} {kind} in {count(files[kind], 'file')}" for kind, number in parts.most_common())


def _some(lines: list[str]) -> list[str]:
    return lines[:SHOWN] + ([f"  … and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else [])


def _labels(tenants: list[str], view: list[str]) -> dict[str, Any]:
    """Return the front matter of --tenant and --view; each may be repeated or have commas. Raises: HIVE-409."""
    from hive_agents.access import AccessLabels
    from hive_agents.base import HiveError

    options = {"tenant": tenants, "view": view}
    metadata = {
        key: [part.strip() for value in values for part in value.split(",")]
        for key, values in options.items()
        if values
    }
    fault = AccessLabels.of(metadata).fault
    if fault:
        fix = "use --tenant acme --view group:qa; a reader is user:ID, group:ID or tenant"
        raise HiveError.of("HIVE-409", f"--{fault}", fix=fix)
    return metadata


def _fields(options: list[str]) -> dict[str, Any]:
    """Return the front matter of --field; a repeated name has a list of values. Raises: HIVE-409."""
    from hive_agents.base import HiveError

    fields: dict[str, list[str]] = {}
    for text in options:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not re.fullmatch(r"[^\W\d][\w.-]{0,63}", name):
            raise HiveError.of(
                "HIVE-409", f"--field {text} names no field", fix="write NAME=VALUE, such as version=v3.6"
            )
        if name in ("tenant", "view"):
            raise HiveError.of("HIVE-409", f"{name} says who may see a document", fix=f"use --{name}")
        fields.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _unseen(place: Workspace, doc_ids: list[str]) -> int:
    """Return how many of the documents nobody may view, by their front matter and the grants."""
    from hive_agents.access import AccessLabels, AccessRules, is_open, labels_in_file

    if is_open(place):
        return 0
    documents = [(doc_id, labels_in_file(place, doc_id) or AccessLabels()) for doc_id in doc_ids]
    return int(AccessRules.load(place).unseen(documents).sum())
