from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from hive_agents.base import UNSEEN, count, safe_line
from hive_agents.cli.answering import batch_name, give_answer, read_patch
from hive_agents.cli.surface import WHO_READS, Surface, json_text, styled, with_surface

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from hive_agents.approvals import ApprovalRequest

app = typer.Typer(help="Requests that wait for a person's decision: list, read and decide them.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The request's id, as `hive approvals list` shows it.")]
IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Requests.")]
WHO_DECIDES = "Decide as USER (default: the local user)."
ReasonOption = Annotated[str | None, typer.Option("--reason", help="The reason, kept with the decision.")]
VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="Decide only this version of the request, not a newer one.")
]
RuleOption = Annotated[str | None, typer.Option("--rule", metavar="RULE", help="All pending requests of one rule.")]
BatchOption = Annotated[
    str | None, typer.Option("--batch", metavar="BATCH", help="The calls that `hive approvals review RUN` showed.")
]
ForRunOption = Annotated[
    bool, typer.Option("--for-run", help="Allow the same call with the same arguments for the rest of the run.")
]
STYLES = {"pending": "yellow", "approved": "green", "edited": "green", "rejected": "red", "expired": "red"}


@app.command("list")
@with_surface(as_user=WHO_READS)
def list_(
    surface: Surface,
    status: Annotated[str | None, typer.Option("--status", help="Only this status, such as pending.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant's requests.")] = None,
) -> None:
    """List the requests that you may read, newest first, and carry out decisions that were interrupted."""
    from hive_agents.approvals import ApprovalStore, RequestReader, Status
    from hive_agents.base import HiveError
    from hive_agents.host import decisions

    place = surface.workspace
    wanted = status.lower() if status is not None else None
    if wanted is not None and wanted not in get_args(Status):
        fix = f"use one of {', '.join(get_args(Status))}"
        raise HiveError.of("HIVE-409", f'there is no status "{safe_line(status)}"', fix=fix)
    reader = RequestReader(place, surface.asker.viewer())
    findings = decisions.finish(place)
    if reader.is_owner:  # they name requests of every tenant
        surface.warn(findings)
    store = ApprovalStore(place)
    requests = [
        reader.shown(request)
        for request in store.list(tenant=tenant)
        if wanted in (None, request.status) and reader.may_read(request)
    ]
    table = _table(requests, list(store.damaged()) if wanted is None and reader.is_owner else [])
    items = [request.summary() for request in requests]
    surface.show({"items": items}, table if table.rows else "nobody asked for anything yet", *_warning(*items))


def _warning(*shown: dict[str, Any]) -> list[Text]:
    """Return a line that says that signs are shown as escapes, where that is so."""
    return [styled(f"  warning: {UNSEEN}", "yellow")] if any("warning" in one for one in shown) else []


def _table(requests: list[ApprovalRequest], damaged: list[str]) -> Table:
    """Return a table that fits 80 columns: long values wrap, and nothing is cut."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in ("id", "status", "kind", "due"):
        table.add_column(name, no_wrap=True)
    for name in ("requester", "title"):
        table.add_column(name, overflow="fold")
    for request in requests:
        due = (request.due_at or "")[:16].replace("T", " ")
        cells = (request.id, request.status, request.kind, due, request.requester, request.title)
        table.add_row(*map(safe_line, cells), style=STYLES.get(request.status))
    for request_id in damaged:
        table.add_row(safe_line(request_id), "damaged", style="red")
    return table


@app.command()
@with_surface(as_user=WHO_READS)
def show(surface: Surface, request: IdArgument) -> None:
    """Show a request with all that is needed to decide it."""
    from hive_agents.agents import changes_since
    from hive_agents.approvals import OWN_TENANT, ApprovalStore, RequestReader
    from hive_agents.base import NotFound

    place = surface.workspace
    reader = RequestReader(place, surface.asker.viewer())
    approval, warnings = ApprovalStore(place).read(request, reader.tenants)
    if not reader.may_read(approval):  # the same error as for an unknown id
        fix = "`hive approvals list` shows all of them"
        raise NotFound.of("HIVE-409", f"there is no approval request {request}", fix=fix)
    approval = reader.shown(approval)
    surface.warn(warnings)
    tenant = "the workspace itself" if approval.tenant == OWN_TENANT else approval.tenant
    on_behalf = f" for {approval.on_behalf_of}" if approval.on_behalf_of else ""
    lines = [
        f"  {approval.id}, version {approval.version}, {approval.status};"
        f" {approval.kind} of {tenant}, risk {approval.risk}",
        f"  asked by {approval.requester}{on_behalf} at {approval.created_at}; due {approval.due_at or 'never'}",
        f"  decide with: {', '.join(approval.allowed_decisions)}; {approval.remaining_approvals} approval(s) missing"
        + (", not the requester's" if approval.approvers.exclude_requester else ""),
    ]
    if approval.diff is not None:
        lines += [f"  {' '.join(map(str, step.values()))}" for step in approval.diff.json_patch]
    decisions = [
        f"  {decision.verb} by {decision.by} ({decision.authn}) at {decision.at}: {decision.reason or ''}"
        for decision in approval.decisions
    ]
    title, context = styled(safe_line(approval.title), "bold"), json_text(approval.context)
    changes = changes_since(place, approval)
    value = approval.to_json() | ({"changed": changes} if changes else {})
    warning, lines = _warning(value), [*map(safe_line, lines)]
    warning += [styled(safe_line(f"  since this was asked: {'; '.join(changes)}"), "yellow")] if changes else []
    surface.show(value, *warning, title, *lines, context, *map(safe_line, decisions))


@app.command()
@with_surface(as_user=WHO_READS)
def review(
    surface: Surface,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run that waits for answers about its tools.")],
) -> None:
    """Show the tool calls that a run waits to make, and the command that decides all of them."""
    from hive_agents.agents import changes_since
    from hive_agents.approvals import ApprovalStore, RequestReader

    place = surface.workspace
    reader = RequestReader(place, surface.asker.viewer())
    pending = ApprovalStore(place).batch(run)
    requests = [reader.shown(request) for request in pending if reader.may_read(request)]
    batch = batch_name(run, pending) if pending and len(requests) == len(pending) else None
    items = [
        request.summary()
        | {name: request.context.get(name) for name in ("tool", "args", "node")}
        | ({"changed": changes} if (changes := changes_since(place, request)) else {})
        for request in requests
    ]
    lines = []
    for item in items:
        lines.append(f"{item['id']}  {item['tool']}  {json.dumps(item['args'], ensure_ascii=False)}")
        lines += [f"  since this was asked: {change}" for change in item.get("changed", ())]
    if batch:
        lines.append(f"decide these {len(items)} as they are: hive approvals approve --batch {batch}")
    else:
        lines.append(f"no call of {run} waits that you may decide")
    surface.show({"run_id": run, "batch": batch, "items": items}, *_warning(*items), *map(safe_line, lines))


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
    """Approve requests: a deployment is made, a waiting run continues."""
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
    """Reject requests."""
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
    """Approve with changed arguments: an RFC 6902 patch, or an object to merge."""
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
    """Answer a question with a text."""
    give_answer(surface, [request], None, "respond", message=message, reason=reason, version=version)


@app.command()
@with_surface(as_user=WHO_DECIDES)
def delegate(
    surface: Surface,
    request: IdArgument,
    to: Annotated[str, typer.Option("--to", metavar="USER", help="The person who decides instead.")],
) -> None:
    """Hand a request to another person."""
    from hive_agents.approvals import ApprovalStore, RequestReader

    place, decider = surface.workspace, surface.asker.decider()
    approval = ApprovalStore(place).delegate(request, to=to, **decider.handing())
    approval = RequestReader(place, decider.principal).shown(approval)
    last = approval.delegations[-1]
    surface.show(approval.to_json(), safe_line(f"{last.to} decides {approval.id} in place of {last.by}"))


@app.command()
@with_surface()
def verify(surface: Surface) -> None:
    """Verify the hash chain of the audit log: that no line was changed, and none is missing."""
    from hive_agents.gate import log_verdict
    from hive_agents.store import audit

    verdict = log_verdict(surface.workspace)
    value = {name: part for name, part in asdict(verdict).items() if name != "reason"}
    head = f", head {verdict.head[:16]}" if verdict.head else ""
    line = styled("intact", "green") + f": {count(verdict.entries, 'entry')}{head}"
    if not verdict.ok:
        surface.warn(audit.broken(verdict).diagnostics)
        line = styled("broken", "red") + f": {verdict.reason}"
    weak = "no HIVE_AUDIT_KEY is set: the chain detects accidents only, anybody who can write the file can redo it"
    surface.show(value, line, *(() if verdict.keyed else (weak,)))
    raise typer.Exit(0 if verdict.ok else 1)
