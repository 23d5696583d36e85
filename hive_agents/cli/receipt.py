"""`hive receipt` and `hive verify`: the evidence of deployments, decisions and answers, and its verification."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hive_agents.base import count, safe_line, safe_text
from hive_agents.cli.surface import WHO_READS, Surface, styled, with_surface
from hive_agents.cli.terminal import write

if TYPE_CHECKING:
    from hive_agents.copilot import Chat
    from hive_agents.gate.receipts import Receipt

app = typer.Typer(help="Export the evidence of a deployment, a decision or an answer.", no_args_is_help=True)

OutOption = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it to FILE, not stdout.")]
_STYLES = {"same": "green", "differs": "red", "unknown": "yellow"}


@app.command("deployment")
@with_surface()
def deployment(
    surface: Surface,
    number: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="Its id in `hive history` (default: the last).")
    ] = None,
    out: OutOption = None,
) -> None:
    """Write the receipt of a deployment: the config's hash, the measurements, the line of the audit log."""
    from hive_agents.cli.receipts import deployment_receipt

    surface.require_whole_view("have the receipt of a deployment")
    _write(surface, deployment_receipt(surface.workspace, number), out)


@app.command("decision")
@with_surface(as_user=WHO_READS, before="out")
def decision(
    surface: Surface,
    request: Annotated[str, typer.Argument(metavar="ID", help="The request's id, as `hive approvals list` shows it.")],
    out: OutOption = None,
) -> None:
    """Write the receipt of a person's decision: the content's hash, the answers, the lines of the audit log."""
    from hive_agents.cli.receipts import decision_receipt

    _require_readable(surface, request)
    _write(surface, decision_receipt(surface.workspace, request), out)


@app.command("answer")
@with_surface(as_user=WHO_READS, before="out")
def answer(
    surface: Surface,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run_id of one of your turns.")],
    out: OutOption = None,
) -> None:
    """Write the receipt of an answer: hashes of passages, config and documents in scope, and the judgment."""
    from hive_agents.cli.receipts import answer_receipt

    _write(surface, answer_receipt(_chat(surface), run), out)


@with_surface(as_user=WHO_READS)
def verify(
    surface: Surface,
    receipt: Annotated[
        Path, typer.Argument(metavar="RECEIPT", help="A file that `hive receipt` or `hive gate` wrote.")
    ],
) -> None:
    """Verify a receipt: what is still the same, what differs, and what can't be derived any more."""
    import asyncio

    from rich.table import Table

    from hive_agents.cli.receipts import verify_receipt
    from hive_agents.gate.receipts import Receipt

    recorded = Receipt.read(receipt)
    if recorded.kind == "decision":
        _require_readable(surface, str(recorded.facts.get("approval")))
    if recorded.kind == "deployment":
        surface.require_whole_view("verify the receipt of a deployment")
    checks = asyncio.run(verify_receipt(lambda: surface.workspace, recorded, lambda: _chat(surface)))
    table = Table(box=None, pad_edge=False)
    for name in ("what", "", "why"):
        table.add_column(name, overflow="fold")
    for check in checks:
        outcome = styled(check.outcome, _STYLES[check.outcome])
        table.add_row(safe_line(check.name), outcome, safe_text(check.told))
    differ = [check for check in checks if check.outcome == "differs"]
    unknown = sum(check.outcome == "unknown" for check in checks)
    summary = f"{count(len(differ), 'thing')} of {len(checks)} differ" if differ else "nothing differs"
    summary += f", {unknown} can't be derived any more" if unknown else ""
    surface.show({"ok": not differ, "checks": [check.to_json() for check in checks]}, table, summary)
    raise typer.Exit(1 if differ else 0)


def _require_readable(surface: Surface, request_id: str) -> None:
    """Raise the same HIVE-409 for an unknown request and for one that the asker may not read."""
    from hive_agents.approvals import ApprovalStore, RequestReader
    from hive_agents.base import HiveError

    try:
        reader = RequestReader(surface.workspace, surface.asker.viewer())
        may_read = reader.may_read(ApprovalStore(surface.workspace).get(request_id, reader.tenants))
    except HiveError as error:
        if "HIVE-409" not in {diagnostic.code for diagnostic in error.diagnostics}:
            raise
        may_read = False
    if not may_read:
        raise HiveError.of("HIVE-409", f"there is no request {request_id}", fix="`hive approvals list` shows yours")


def _write(surface: Surface, receipt: Receipt, out: Path | None) -> None:
    from hive_agents.base.files import atomic_write_text

    if out is None:
        write(receipt.text.rstrip("\n"))
    else:
        atomic_write_text(out, receipt.text)
        surface.show(receipt.to_json(), f"wrote {out}: `hive verify {out}` derives it again")


def _chat(surface: Surface) -> Chat:
    from hive_agents.copilot import Chat

    surface.keep_fresh(warnings=False)
    return Chat(surface.workspace, surface.asker.reader)
