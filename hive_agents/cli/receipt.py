"""`hive receipt` and `hive verify`: what something rests on, and whether it still can be derived."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hive_agents.cli.surface import WHO_READS, Surface, styled, with_surface
from hive_agents.cli.terminal import write
from hive_agents.text import count, safe_line, safe_text

if TYPE_CHECKING:
    from hive_agents.receipts import Receipt
    from hive_agents.runtime import Chat

app = typer.Typer(help="What a deployment, a decision or an answer rests on, to be kept.", no_args_is_help=True)

OutOption = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it here, not to stdout.")]
_STYLES = {"same": "green", "differs": "red", "unknown": "yellow"}


@app.command("deployment")
@with_surface()
def deployment(
    surface: Surface,
    number: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="As in `hive history` (default: the last).")
    ] = None,
    out: OutOption = None,
) -> None:
    """The receipt of a deployment: the config's hash, what was measured on what, the audit log's line."""
    from hive_agents.receipts import deployment_receipt

    _give(surface, deployment_receipt(surface.workspace, number), out)


@app.command("decision")
@with_surface(as_user=WHO_READS, before="out")
def decision(
    surface: Surface,
    request: Annotated[str, typer.Argument(metavar="ID", help="The request's id, as `hive approvals list` shows it.")],
    out: OutOption = None,
) -> None:
    """The receipt of a person's decision: the content's hash, who answered how, the audit log's lines."""
    from hive_agents.receipts import decision_receipt

    _require_readable(surface, request)
    _give(surface, decision_receipt(surface.workspace, request), out)


@app.command("answer")
@with_surface(as_user=WHO_READS, before="out")
def answer(
    surface: Surface,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run_id of one of your turns.")],
    out: OutOption = None,
) -> None:
    """The receipt of an answer: hashes of its passages, of the config and the documents in scope, the judgment."""
    from hive_agents.receipts import answer_receipt

    _give(surface, answer_receipt(_chat(surface), run), out)


@with_surface(as_user=WHO_READS)
def verify(
    surface: Surface,
    receipt: Annotated[
        Path, typer.Argument(metavar="RECEIPT", help="A file that `hive receipt` or `hive gate` wrote.")
    ],
) -> None:
    """Derive a receipt again: what is the same, what differs, and what can't be known any more."""
    import asyncio

    from rich.table import Table

    from hive_agents.receipts import Receipt, verify_receipt

    found = Receipt.read(receipt)
    if found.kind == "decision":
        _require_readable(surface, str(found.facts.get("approval")))
    checks = asyncio.run(verify_receipt(lambda: surface.workspace, found, lambda: _chat(surface)))
    table = Table(box=None, pad_edge=False)
    for name in ("what", "", "why"):
        table.add_column(name, overflow="fold")
    for check in checks:
        outcome = styled(check.outcome, _STYLES[check.outcome])
        table.add_row(safe_line(check.name), outcome, safe_text(check.told))
    differ = [check for check in checks if check.outcome == "differs"]
    unknown = sum(check.outcome == "unknown" for check in checks)
    told = f"{count(len(differ), 'thing')} of {len(checks)} differ" if differ else "nothing differs"
    told += f", {unknown} can't be derived any more" if unknown else ""
    surface.show({"ok": not differ, "checks": [check.to_json() for check in checks]}, table, told)
    raise typer.Exit(1 if differ else 0)


def _require_readable(surface: Surface, request_id: str) -> None:
    """Raise HIVE-409 for a request that isn't there, and alike for one that the asker may not read."""
    from hive_agents.approvals import ApprovalStore, RequestReader
    from hive_agents.errors import HiveError

    try:
        may_read = RequestReader(surface.workspace, surface.asker.viewer()).may_read(
            ApprovalStore(surface.workspace).get(request_id)
        )
    except HiveError as error:
        if "HIVE-409" not in {one.code for one in error.diagnostics}:
            raise
        may_read = False
    if not may_read:
        raise HiveError.of("HIVE-409", f"there is no request {request_id}", fix="`hive approvals list` shows yours")


def _give(surface: Surface, receipt: Receipt, out: Path | None) -> None:
    from hive_agents.files import atomic_write_text

    if out is None:
        write(receipt.text.rstrip("\n"))
    else:
        atomic_write_text(out, receipt.text)
        surface.show(receipt.to_json(), f"wrote {out}: `hive verify {out}` derives it again")


def _chat(surface: Surface) -> Chat:
    from hive_agents.runtime import Chat

    surface.keep_fresh(told=False)
    return Chat(surface.workspace, surface.asker.reader)
