"""`hive feedback`: readers' opinions on results and answers, and their review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line, safe_text
from hive_agents.cli.surface import Surface, count, with_surface

if TYPE_CHECKING:
    from hive_agents.copilot import feedback

app = typer.Typer(help="Readers' opinions on results, which another person reviews.", no_args_is_help=True)
WHO_ACTS = "Act as USER (default: HIVE_TOKEN's)."
STATUSES = ("pending", "accepted", "rejected")


@app.command("add")
@with_surface(as_user=WHO_ACTS)
def add(
    surface: Surface,
    run: Annotated[str, typer.Option("--run", metavar="R", help="The turn, by its run_id.")],
    verdict: Annotated[
        str,
        typer.Option(
            "--verdict",
            help="relevant, distractor, outdated or wrong_document; of an answer right, wrong, outdated or incomplete.",
        ),
    ],
    result: Annotated[int | None, typer.Option("--result", metavar="N", help="The result, by its rank.")] = None,
    doc: Annotated[
        str | None,
        typer.Option("--doc", metavar="DOC", help="Or a document by its id; as relevant also one that is missing."),
    ] = None,
    answer: Annotated[bool, typer.Option("--answer", help="Or the answer that a model wrote.")] = False,
    comment: Annotated[str | None, typer.Option("--comment", help="Why.")] = None,
) -> None:
    """Rate a result of one of your turns, or its answer by a model."""
    from hive_agents.base import HiveError
    from hive_agents.copilot import feedback

    verdicts: tuple[feedback.Opinion, ...] = feedback.ANSWER_VERDICTS if answer else feedback.VERDICTS
    chosen = next((name for name in verdicts if name == verdict.lower()), None)
    if chosen is None or (result is not None) + (doc is not None) + answer != 1:
        fix = f"--verdict is one of {', '.join(verdicts)}; name what it is of by --result N, --doc DOC or --answer"
        raise HiveError.of("HIVE-409", "a verdict on one result or answer is needed", fix=fix, exit_code=2)
    item = _queue(surface).add(run, result, chosen, doc_id=doc, comment=comment)
    what = item.doc_id or "the answer"
    surface.show(item.to_json(), safe_line(f"{item.id}: {what} is {item.verdict}; waits for a reviewer"))


@app.command("list")
@with_surface(as_user=WHO_ACTS)
def list_(
    surface: Surface,
    status: Annotated[str | None, typer.Option("--status", help="pending, accepted or rejected.")] = None,
) -> None:
    """List your opinions, and those that you may review."""
    from hive_agents.base import HiveError

    wanted = status.lower() if status is not None else None
    if wanted is not None and wanted not in STATUSES:
        fix = f"use one of {', '.join(STATUSES)}"
        raise HiveError.of("HIVE-409", f'there is no status "{status}"', fix=fix, exit_code=2)
    items = _queue(surface).items(wanted)
    surface.show({"items": [item.to_json() for item in items]}, _table(items), count(len(items), "opinion"))


@app.command("review")
@with_surface(as_user=WHO_ACTS)
def review(
    surface: Surface,
    item_id: Annotated[str | None, typer.Argument(metavar="ID", help="Default: list pending opinions.")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Accept it; of a result as a training label.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Reject it.")] = False,
) -> None:
    """Accept or reject an opinion that another person gave."""
    from hive_agents.base import HiveError

    queue = _queue(surface)
    if item_id is None:
        pending = queue.items("pending")
        value = {"items": [item.to_json() for item in pending]}
        surface.show(value, _table(pending), count(len(pending), "pending opinion"))
        return
    if accept == reject:
        raise HiveError.of("HIVE-409", "a review needs one decision", fix="add --accept or --reject", exit_code=2)
    item = queue.review(item_id, accept=accept)
    effect = "; the golden set's training queries have the label" if accept and item.doc_id else ""
    surface.show({"items": [item.to_json()]}, f"{item.id} is {item.status}{effect}")


def _queue(surface: Surface) -> feedback.FeedbackQueue:
    from hive_agents.access import ViewGate
    from hive_agents.copilot import feedback

    place = surface.workspace
    reader = surface.asker.reader()
    return feedback.FeedbackQueue(place, reader, ViewGate.of(place, reader))


def _table(items: list[feedback.Item]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("id", "status", "verdict", "by", "document or answer, question and comment"):
        table.add_column(heading, overflow="fold")
    for item in items:
        about = "\n".join(filter(None, (item.doc_id or item.answer, item.query, item.comment)))
        table.add_row(item.id, item.status, item.verdict, item.by, safe_text(about))
    return table
