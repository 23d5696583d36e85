from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption, open_workspace

if TYPE_CHECKING:
    from hive_agents.approvals import ApprovalRequest
    from hive_agents.approvals.request import Verb
    from hive_agents.workspace import Workspace

app = typer.Typer(help="Requests that wait for a person: read them, decide them.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The request's id, as `hive approvals list` shows it.")]
IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Requests.")]
AsOption = Annotated[str | None, typer.Option("--as", metavar="USER", help="Who decides (default: the local user).")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why; kept with the decision.")]
VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="The version that was read; a newer one is not decided.")
]
RuleOption = Annotated[str | None, typer.Option("--rule", metavar="RULE", help="All that are pending for one rule.")]
STYLES = {"pending": "yellow", "approved": "green", "edited": "green", "rejected": "red", "expired": "red"}


@app.command("list")
def list_(
    status: Annotated[str | None, typer.Option("--status", help="Only these, such as pending.")] = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Every request, newest first; finishes what was decided and not carried out."""
    from rich.markup import escape
    from rich.table import Table

    from hive_agents.approvals import ApprovalStore
    from hive_agents.runtime.decisions import finish

    place, surface = open_workspace(workspace), Surface(json, quiet)
    surface.warn(finish(place))
    wanted = status.lower() if status else None
    found = [one for one in ApprovalStore(place).list() if wanted in (None, one.status)]
    table = Table()
    table.add_column("id", no_wrap=True)
    for name in ("status", "kind", "title", "requester", "created", "due"):
        table.add_column(name)
    for one in found:
        cells = (one.id, one.status, one.kind, one.title, one.requester, one.created_at, one.due_at or "")
        table.add_row(*map(escape, cells), style=STYLES.get(one.status))
    surface.show({"items": [one.summary() for one in found]}, table if found else "nobody asked for anything yet")


@app.command()
def show(
    request: IdArgument, workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False
) -> None:
    """One request with all that a person needs to decide it."""
    from rich.markup import escape
    from rich.pretty import Pretty

    from hive_agents.approvals import ApprovalStore

    found = ApprovalStore(open_workspace(workspace)).get(request)
    parts: list[Any] = [
        f"[bold]{escape(found.title)}[/bold]",
        f"  {found.id}, version {found.version}, {found.status}; {found.kind}, risk {found.risk}",
        f"  asked by {escape(found.requester)} at {found.created_at}; due {found.due_at or 'never'}",
        f"  decide with: {', '.join(found.allowed_decisions)}; {found.remaining_approvals} approval(s) missing"
        + (", not the requester's" if found.approvers.exclude_requester else ""),
    ]
    if found.diff is not None:
        parts += [escape(f"  {step['op']} {step['path']} {step.get('value', '')}") for step in found.diff.json_patch]
    parts += [Pretty(found.context)]
    parts += [
        escape(f"  {one.verb} by {one.by} ({one.authn}) at {one.at}: {one.reason or ''}") for one in found.decisions
    ]
    Surface(json, quiet).show(found.to_json(), *parts)


@app.command()
def approve(
    requests: IdsArgument = None,
    by: AsOption = None,
    reason: ReasonOption = None,
    version: VersionOption = None,
    rule: RuleOption = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Agree: a deployment is made, a run that waits goes on."""
    _decide(Surface(json, quiet), workspace, requests, rule, "approve", by, reason=reason, version=version)


@app.command()
def reject(
    requests: IdsArgument = None,
    by: AsOption = None,
    reason: ReasonOption = None,
    version: VersionOption = None,
    rule: RuleOption = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Refuse."""
    _decide(Surface(json, quiet), workspace, requests, rule, "reject", by, reason=reason, version=version)


@app.command()
def edit(
    request: IdArgument,
    patch: Annotated[str, typer.Option("--patch", metavar="FILE", help="JSON patch of context.args; - reads stdin.")],
    by: AsOption = None,
    reason: ReasonOption = None,
    version: VersionOption = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Agree to changed arguments: RFC 6902 operations, or an object to merge."""
    answer = {"reason": reason, "version": version, "patch": _patch(patch)}
    _decide(Surface(json, quiet), workspace, [request], None, "edit", by, **answer)


@app.command()
def respond(
    request: IdArgument,
    message: Annotated[str, typer.Option("--message", help="The answer.")],
    by: AsOption = None,
    reason: ReasonOption = None,
    version: VersionOption = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Answer in words."""
    answer = {"reason": reason, "version": version, "message": message}
    _decide(Surface(json, quiet), workspace, [request], None, "respond", by, **answer)


@app.command()
def delegate(
    request: IdArgument,
    to: Annotated[str, typer.Option("--to", metavar="USER", help="Who decides instead.")],
    by: AsOption = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Hand a request to another person."""
    from hive_agents.approvals import ApprovalStore
    from hive_agents.verification.deploy import local_user

    found = ApprovalStore(open_workspace(workspace)).delegate(request, by=by or local_user(), to=to)
    last = found.delegations[-1]
    Surface(json, quiet).show(found.to_json(), f"{last.to} decides {found.id} in place of {last.by}")


@app.command()
def verify(workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Walk the audit log's chain: does every line still follow from the one before?"""
    from dataclasses import asdict

    from hive_agents import audit

    found = audit.verify(open_workspace(workspace))
    line = f"[green]intact[/green]: {found.entries} entries, head {found.head[:16]}"
    if not found.ok:
        line = f"[red]broken[/red]: line {found.first_bad} of {audit.FILE} doesn't follow from the line before"
    weak = "no HIVE_AUDIT_KEY is set: the chain detects accidents only, anybody who can write the file can redo it"
    Surface(json, quiet).show(asdict(found), line, *(() if found.keyed else (weak,)))
    raise typer.Exit(0 if found.ok else 1)


def _decide(
    surface: Surface,
    workspace: Path | None,
    requests: list[str] | None,
    rule: str | None,
    verb: Verb,
    by: str | None,
    **answer: Any,
) -> None:
    from rich.markup import escape

    from hive_agents.errors import HiveError
    from hive_agents.verification.deploy import local_user

    place, who = open_workspace(workspace), by or local_user()
    chosen = [*(requests or []), *(_pending_for(place, rule) if rule else [])]
    if not chosen and rule is None:
        raise HiveError.of("HIVE-409", "no request is named", fix="give an ID, or --rule RULE")
    if len(chosen) == 1:
        value, line = _decided(place, chosen[0], verb, who, answer)
        surface.show(value, line)
        return
    items, lines, code = [], [], 0
    for request in chosen:
        try:
            value, line = _decided(place, request, verb, who, answer)
        except HiveError as error:
            code = max(code, error.exit_code)
            value = {"id": request, "ok": False, "diagnostics": [found.to_json() for found in error.diagnostics]}
            line = escape(f"{request}: {error.diagnostics[0].message}")
        items.append(value)
        lines.append(line)
    surface.show({"items": items}, *(lines or [f"nothing is pending for {rule}"]))
    raise typer.Exit(code)


def _decided(place: Workspace, request: str, verb: Verb, by: str, answer: dict[str, Any]) -> tuple[dict[str, Any], str]:
    from hive_agents.runtime.decisions import decide

    found, run = decide(place, request, verb, by=by, **answer)
    mine = _answer_of(found, by)
    value = {
        "id": found.id,
        "status": found.status,
        "decision": verb,
        "by": mine.by,
        "authn": mine.authn,
        "decided_at": mine.at,
        "remaining_approvals": found.remaining_approvals,
        "run": run,
    }
    line = f"{found.id} is {found.status}"
    if found.remaining_approvals:
        line += f": {found.remaining_approvals} more approval(s) needed"
    if found.outcome:
        done = found.outcome.get("deployed") or found.outcome.get("status")
        line += f" ({'deployed ' if 'deployed' in found.outcome else 'its run is '}{done})"
    return value, line


def _answer_of(request: ApprovalRequest, by: str) -> Any:
    from hive_agents.approvals.people import person, same_person

    return next(one for one in reversed(request.decisions) if same_person(one.by, person(by)))


def _pending_for(place: Workspace, rule: str) -> list[str]:
    from hive_agents.approvals import ApprovalStore

    return [one.id for one in reversed(ApprovalStore(place).list("pending", rule))]


def _patch(source: str) -> Any:
    from hive_agents import jsontext
    from hive_agents.errors import HiveError

    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        message = f"cannot read {source}: {error.strerror}"
        raise HiveError.of("HIVE-409", message, fix="name a file, or - for stdin") from None
    file = "stdin" if source == "-" else source
    return jsontext.parse(jsontext.decode(data, file), file)
