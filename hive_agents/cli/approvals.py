from __future__ import annotations

from dataclasses import asdict
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption, one_line, open_workspace, styled

if TYPE_CHECKING:
    from rich.table import Table

    from hive_agents.approvals import ApprovalRequest
    from hive_agents.approvals.request import Verb

app = typer.Typer(help="Requests that wait for a person: read them, decide them.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The request's id, as `hive approvals list` shows it.")]
IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Requests.")]
AsOption = Annotated[str | None, typer.Option("--as", metavar="USER", help="Who decides (default: the local user).")]
PatchOption = Annotated[str, typer.Option("--patch", metavar="FILE", help="JSON patch of context.args; - reads stdin.")]
MessageOption = Annotated[str, typer.Option("--message", help="The answer.")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why; kept with the decision.")]
VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="The version that was read; a newer one is not decided.")
]
RuleOption = Annotated[str | None, typer.Option("--rule", metavar="RULE", help="All that are pending for one rule.")]
STYLES = {"pending": "yellow", "approved": "green", "edited": "green", "rejected": "red", "expired": "red"}


@app.command("list")
def list_(
    status: Annotated[str | None, typer.Option("--status", help="Only these, such as pending.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only what concerns this tenant.")] = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """The requests that you may read, newest first; finishes what was decided and not carried out."""
    from hive_agents.approvals import ApprovalStore
    from hive_agents.approvals.request import Status
    from hive_agents.errors import HiveError
    from hive_agents.runtime.decider import RequestReader
    from hive_agents.runtime.decisions import finish

    place, surface = open_workspace(workspace), Surface(json, quiet)
    wanted = status.lower() if status is not None else None
    if wanted is not None and wanted not in get_args(Status):
        fix = f"use one of {', '.join(get_args(Status))}"
        raise HiveError.of("HIVE-409", f'there is no status "{one_line(status)}"', fix=fix)
    reader = RequestReader(place)
    findings = finish(place)
    if reader.is_owner:  # they name requests of every tenant
        surface.warn(findings)
    store = ApprovalStore(place)
    found = [one for one in store.list(tenant=tenant) if wanted in (None, one.status) and reader.may_read(one)]
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
        table.add_row(*map(one_line, cells), style=STYLES.get(one.status))
    for request in damaged:
        table.add_row(one_line(request), "damaged", style="red")
    return table


@app.command()
def show(
    request: IdArgument, workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False
) -> None:
    """One request with all that a person needs to decide it."""
    from rich.pretty import Pretty

    from hive_agents.approvals import ApprovalStore
    from hive_agents.errors import HiveError
    from hive_agents.runtime.decider import RequestReader

    place, surface = open_workspace(workspace), Surface(json, quiet)
    reader = RequestReader(place)
    found, warnings = ApprovalStore(place).read(request)
    if not reader.may_read(found):  # as for an id that nobody has
        fix = "`hive approvals list` shows all of them"
        raise HiveError.of("HIVE-409", f"there is no approval request {request}", fix=fix)
    found = reader.shown(found)
    surface.warn(warnings)
    whom = f" for {found.on_behalf_of}" if found.on_behalf_of else ""
    lines = [
        f"  {found.id}, version {found.version}, {found.status}; {found.kind} of {found.tenant}, risk {found.risk}",
        f"  asked by {found.requester}{whom} at {found.created_at}; due {found.due_at or 'never'}",
        f"  decide with: {', '.join(found.allowed_decisions)}; {found.remaining_approvals} approval(s) missing"
        + (", not the requester's" if found.approvers.exclude_requester else ""),
    ]
    if found.diff is not None:
        lines += [f"  {' '.join(str(part) for part in step.values())}" for step in found.diff.json_patch]
    said = [f"  {one.verb} by {one.by} ({one.authn}) at {one.at}: {one.reason or ''}" for one in found.decisions]
    title, context = styled(one_line(found.title), "bold"), Pretty(found.context)
    surface.show(found.to_json(), title, *map(one_line, lines), context, *map(one_line, said))


def _verb(verb: Verb, help: str, *own: Parameter) -> None:
    """Register one of the four answers: the options that all take, and its `own` arguments before them."""

    def command(
        by: AsOption = None,
        reason: ReasonOption = None,
        version: VersionOption = None,
        workspace: WorkspaceOption = None,
        json: JsonOption = False,
        quiet: QuietOption = False,
        **given: Any,
    ) -> None:
        from hive_agents.cli.answering import give_answer, read_patch

        requests = [given.pop("request")] if "request" in given else given.pop("requests") or []
        rule = given.pop("rule", None)
        if "patch" in given:
            given["patch"] = read_patch(given["patch"])
        answer = given | {"reason": reason, "version": version}
        give_answer(Surface(json, quiet), open_workspace(workspace), requests, rule, verb, by, answer)

    shared = list(signature(command, eval_str=True).parameters.values())[:-1]
    setattr(command, "__signature__", Signature([*own, *shared]))  # noqa: B010 - a function has no such attribute
    app.command(verb, help=help)(command)


def _own(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=default)


ONE, MANY = _own("request", IdArgument), (_own("requests", IdsArgument, None), _own("rule", RuleOption, None))
_verb("approve", "Agree: a deployment is made, a run that waits goes on.", *MANY)
_verb("reject", "Refuse.", *MANY)
PATCH, MESSAGE = _own("patch", PatchOption), _own("message", MessageOption)
_verb("edit", "Agree to changed arguments: RFC 6902 operations, or an object to merge.", ONE, PATCH)
_verb("respond", "Answer in words.", ONE, MESSAGE)


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
    from hive_agents.runtime.decider import decider_for

    place = open_workspace(workspace)
    found = ApprovalStore(place).delegate(request, to=to, **asdict(decider_for(place, by)))
    last = found.delegations[-1]
    Surface(json, quiet).show(found.to_json(), one_line(f"{last.to} decides {found.id} in place of {last.by}"))


@app.command()
def verify(workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Walk the audit log's chain: does every line still follow from the one before, and is none missing?"""
    from hive_agents.store import audit
    from hive_agents.verification.certificate import log_verdict

    found, surface = log_verdict(open_workspace(workspace)), Surface(json, quiet)
    value = {name: part for name, part in asdict(found).items() if name != "reason"}
    line = styled("intact", "green") + f": {found.entries} entries, head {found.head[:16]}"
    if not found.ok:
        surface.warn(audit.broken(found).diagnostics)
        line = styled("broken", "red") + f": {found.reason}"
    weak = "no HIVE_AUDIT_KEY is set: the chain detects accidents only, anybody who can write the file can redo it"
    surface.show(value, line, *(() if found.keyed else (weak,)))
    raise typer.Exit(0 if found.ok else 1)
