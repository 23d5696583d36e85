from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from hive_agents.cli.answering import batch_name, give_answer, read_patch
from hive_agents.cli.surface import WHO_READS, Surface, json_text, styled, with_surface
from hive_agents.text import count, safe_line

if TYPE_CHECKING:
    from rich.table import Table

    from hive_agents.approvals import ApprovalRequest

app = typer.Typer(help="Requests that wait for a person: read them, decide them.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The request's id, as `hive approvals list` shows it.")]
IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Requests.")]
WHO_DECIDES = "Who decides (default: the local user)."
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why; kept with the decision.")]
VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="The version that was read; a newer one is not decided.")
]
RuleOption = Annotated[str | None, typer.Option("--rule", metavar="RULE", help="All that are pending for one rule.")]
BatchOption = Annotated[
    str | None, typer.Option("--batch", metavar="BATCH", help="The calls that `hive approvals review RUN` showed.")
]
ForRunOption = Annotated[
    bool, typer.Option("--for-run", help="Let this very call through, with these arguments, for the rest of its run.")
]
STYLES = {"pending": "yellow", "approved": "green", "edited": "green", "rejected": "red", "expired": "red"}


@app.command("list")
@with_surface(as_user=WHO_READS)
def list_(
    surface: Surface,
    status: Annotated[str | None, typer.Option("--status", help="Only these, such as pending.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only what concerns this tenant.")] = None,
) -> None:
    """The requests that you may read, newest first; finishes what was decided and not carried out."""
    from hive_agents.approvals import ApprovalStore, RequestReader, Status
    from hive_agents.errors import HiveError
    from hive_agents.runtime import finish

    place = surface.workspace
    wanted = status.lower() if status is not None else None
    if wanted is not None and wanted not in get_args(Status):
        fix = f"use one of {', '.join(get_args(Status))}"
        raise HiveError.of("HIVE-409", f'there is no status "{safe_line(status)}"', fix=fix)
    reader = RequestReader(place, surface.asker.viewer())
    findings = finish(place)
    if reader.is_owner:  # they name requests of every tenant
        surface.warn(findings)
    store = ApprovalStore(place)
    every = [one for one in store.list(tenant=tenant) if wanted in (None, one.status) and reader.may_read(one)]
    found = [reader.shown(one) for one in every]
    table = _table(found, list(store.damaged()) if wanted is None and reader.is_owner else [])
    surface.show({"items": [one.summary() for one in found]}, table if table.rows else "nobody asked for anything yet")


def _table(found: list[ApprovalRequest], damaged: list[str]) -> Table:
    """Whole at 80 columns: what is long wraps, and nothing is cut."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in ("id", "status", "kind", "due"):
        table.add_column(name, no_wrap=True)
    for name in ("requester", "title"):
        table.add_column(name, overflow="fold")
    for one in found:
        due = (one.due_at or "")[:16].replace("T", " ")
        cells = (one.id, one.status, one.kind, due, one.requester, one.title)
        table.add_row(*map(safe_line, cells), style=STYLES.get(one.status))
    for request in damaged:
        table.add_row(safe_line(request), "damaged", style="red")
    return table


@app.command()
@with_surface(as_user=WHO_READS)
def show(surface: Surface, request: IdArgument) -> None:
    """One request with all that a person needs to decide it."""
    from hive_agents.approvals import OWN_TENANT, ApprovalStore, RequestReader
    from hive_agents.errors import NotFound

    place = surface.workspace
    reader = RequestReader(place, surface.asker.viewer())
    found, warnings = ApprovalStore(place).read(request)
    if not reader.may_read(found):  # as for an id that nobody has
        fix = "`hive approvals list` shows all of them"
        raise NotFound.of("HIVE-409", f"there is no approval request {request}", fix=fix)
    found = reader.shown(found)
    surface.warn(warnings)
    whose = "the workspace itself" if found.tenant == OWN_TENANT else found.tenant
    whom = f" for {found.on_behalf_of}" if found.on_behalf_of else ""
    lines = [
        f"  {found.id}, version {found.version}, {found.status}; {found.kind} of {whose}, risk {found.risk}",
        f"  asked by {found.requester}{whom} at {found.created_at}; due {found.due_at or 'never'}",
        f"  decide with: {', '.join(found.allowed_decisions)}; {found.remaining_approvals} approval(s) missing"
        + (", not the requester's" if found.approvers.exclude_requester else ""),
    ]
    if found.diff is not None:
        lines += [f"  {' '.join(str(part) for part in step.values())}" for step in found.diff.json_patch]
    said = [f"  {one.verb} by {one.by} ({one.authn}) at {one.at}: {one.reason or ''}" for one in found.decisions]
    title = styled(safe_line(found.title), "bold")
    surface.show(found.to_json(), title, *map(safe_line, lines), json_text(found.context), *map(safe_line, said))


@app.command()
@with_surface(as_user=WHO_READS)
def review(
    surface: Surface,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run that waits for answers about its tools.")],
) -> None:
    """All calls of tools that a run waits to make, and how to decide just these at once."""
    from hive_agents.approvals import ApprovalStore, RequestReader

    place = surface.workspace
    reader = RequestReader(place, surface.asker.viewer())
    every = ApprovalStore(place).batch(run)
    shown = [reader.shown(one) for one in every if reader.may_read(one)]
    batch = batch_name(run, every) if every and len(shown) == len(every) else None
    items = [
        one.summary()
        | {"tool": one.context.get("tool"), "args": one.context.get("args"), "node": one.context.get("node")}
        for one in shown
    ]
    lines = [f"{one['id']}  {one['tool']}  {json.dumps(one['args'], ensure_ascii=False)}" for one in items]
    told = f"decide these {len(items)} as they are: hive approvals approve --batch {batch}"
    lines += [told] if batch else [f"no call of {run} waits that you may decide"]
    surface.show({"run_id": run, "batch": batch, "items": items}, *map(safe_line, lines))


@app.command()
@with_surface(as_user=WHO_DECIDES, before="reason")
def approve(
    surface: Surface,
    requests: IdsArgument = None,
    rule: RuleOption = None,
    batch: BatchOption = None,
    for_run: ForRunOption = False,
    reason: ReasonOption = None,
    version: VersionOption = None,
) -> None:
    """Agree: a deployment is made, a run that waits goes on."""
    answer = {"reason": reason, "version": version, "for_run": for_run}
    give_answer(surface, requests or [], rule, "approve", batch, **answer)


@app.command()
@with_surface(as_user=WHO_DECIDES, before="reason")
def reject(
    surface: Surface,
    requests: IdsArgument = None,
    rule: RuleOption = None,
    batch: BatchOption = None,
    reason: ReasonOption = None,
    version: VersionOption = None,
) -> None:
    """Refuse."""
    give_answer(surface, requests or [], rule, "reject", batch, reason=reason, version=version)


@app.command()
@with_surface(as_user=WHO_DECIDES, before="reason")
def edit(
    surface: Surface,
    request: IdArgument,
    patch: Annotated[str, typer.Option("--patch", metavar="JSON|FILE", help="Changes context.args; - reads stdin.")],
    reason: ReasonOption = None,
    version: VersionOption = None,
) -> None:
    """Agree to changed arguments: RFC 6902 operations, or an object to merge."""
    give_answer(surface, [request], None, "edit", patch=read_patch(patch), reason=reason, version=version)


@app.command()
@with_surface(as_user=WHO_DECIDES, before="reason")
def respond(
    surface: Surface,
    request: IdArgument,
    message: Annotated[str, typer.Option("--message", help="The answer.")],
    reason: ReasonOption = None,
    version: VersionOption = None,
) -> None:
    """Answer in words."""
    give_answer(surface, [request], None, "respond", message=message, reason=reason, version=version)


@app.command()
@with_surface(as_user=WHO_DECIDES)
def delegate(
    surface: Surface,
    request: IdArgument,
    to: Annotated[str, typer.Option("--to", metavar="USER", help="Who decides instead.")],
) -> None:
    """Hand a request to another person."""
    from hive_agents.approvals import ApprovalStore, RequestReader

    place = surface.workspace
    who = surface.asker.decider()
    found = ApprovalStore(place).delegate(request, to=to, by=who.by, authn=who.authn, tenant=who.tenant)
    found = RequestReader(place, surface.asker.token_holder()).shown(found)
    last = found.delegations[-1]
    surface.show(found.to_json(), safe_line(f"{last.to} decides {found.id} in place of {last.by}"))


@app.command()
@with_surface()
def verify(surface: Surface) -> None:
    """Walk the audit log's chain: does every line still follow from the one before, and is none missing?"""
    from hive_agents.store import audit
    from hive_agents.verification import log_verdict

    found = log_verdict(surface.workspace)
    value = {name: part for name, part in asdict(found).items() if name != "reason"}
    head = f", head {found.head[:16]}" if found.head else ""
    line = styled("intact", "green") + f": {count(found.entries, 'entry')}{head}"
    if not found.ok:
        surface.warn(audit.broken(found).diagnostics)
        line = styled("broken", "red") + f": {found.reason}"
    weak = "no HIVE_AUDIT_KEY is set: the chain detects accidents only, anybody who can write the file can redo it"
    surface.show(value, line, *(() if found.keyed else (weak,)))
    raise typer.Exit(0 if found.ok else 1)
