from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import count, safe_line
from hive_agents.cli.surface import AcceptOption, Surface, figure, with_surface

if TYPE_CHECKING:
    from hive_agents import Workspace
    from hive_agents.evaluation import GoldenSet, outside
    from hive_agents.gate import anybody
    from hive_agents.store import audit

_SOURCE = (
    "a run file, http://host/search?q={query}#$.hits[*].id, an endpoint's JSON file, module:attribute, or a config"
)


@with_surface()
def command(
    surface: Surface,
    before: Annotated[str, typer.Option("--before", metavar="A", help=f"What serves now: {_SOURCE}.")],
    after: Annotated[str, typer.Option("--after", metavar="B", help="What would replace it; as --before.")],
    qrels: Annotated[Path, typer.Option("--qrels", metavar="FILE", help="Labels: TREC qrels or a golden set.")],
    queries: Annotated[
        Path | None,
        typer.Option("--queries", metavar="FILE", help="Texts (and tags) of the queries in qrels: TSV or JSON lines."),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, max=1000, help="Depth (default: the golden set's, or 10).")
    ] = None,
    holdout: Annotated[
        Path | None,
        typer.Option(
            "--holdout", metavar="FILE", help="Queries not used for tuning: ids in --qrels, or a file of labels."
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", metavar="FILE", help="Log of looks at the holdout (default: beside its file)."),
    ] = None,
    relevant_from: Annotated[
        int, typer.Option("--relevant-from", metavar="GRADE", min=1, help="The lowest grade that is relevant.")
    ] = 1,
    accept_tag: Annotated[
        list[str] | None,
        typer.Option("--accept-tag", metavar="TAG", help="Accept this tag's loss; needs --reason."),
    ] = None,
    accept: AcceptOption = None,
    reason: Annotated[str | None, typer.Option("--reason", help="The reason, kept in the ledger.")] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget", metavar="METRIC=PERCENT", help="How much a mean may fall; repeatable. recall=2 is two percent."
        ),
    ] = None,
    cheap: Annotated[
        Path | None,
        typer.Option("--cheap", metavar="FILE", help="Labels by a model or clicks, for these queries and many more."),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="FOLDER", help="The documents: warn of queries that occur in one."),
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write a summary for a pull request.")
    ] = None,
    receipt: Annotated[
        Path | None,
        typer.Option("--receipt", metavar="FILE", help="Write a receipt, which `hive verify` checks."),
    ] = None,
) -> None:
    """Decide whether one search may replace another, from rankings of labelled queries. No workspace is needed."""
    from hive_agents.base import HiveError
    from hive_agents.evaluation import outside

    labels = outside.LabelFiles(qrels, queries, holdout, cheap, k, relevant_from)
    try:
        finding = _finding(
            surface,
            (before, after),
            labels,
            ledger=ledger,
            accept_tags=accept_tag or [],
            accept=accept or [],
            reason=reason,
            budgets=_budgets(budget or []),
            corpus=corpus,
        )
    except HiveError as error:
        # Exit code 1 means that the search isn't proved better; errors before that decision are 2 or 3.
        raise HiveError(error.diagnostics, exit_code=max(error.exit_code, 2)) from None
    _write_reports(finding, reason, junit, markdown)
    if receipt is not None:
        from hive_agents.base.files import atomic_write_text
        from hive_agents.gate.receipts import gate_receipt

        atomic_write_text(receipt, gate_receipt(finding, before, after, labels).text)
    surface.warn(finding.warnings)
    surface.show(finding.report() | {"accepted_reason": reason if accept_tag or accept else None}, *_parts(finding))
    raise typer.Exit(0 if finding.decision == "passed" else 1)


def _finding(
    surface: Surface,
    sides: tuple[str, str],
    files: outside.LabelFiles,
    *,
    ledger: Path | None,
    accept_tags: list[str],
    accept: list[str],
    reason: str | None,
    budgets: dict[str, float],
    corpus: Path | None,
) -> anybody.RankingsFinding:
    from dataclasses import replace

    from hive_agents.evaluation import ask_both, leaks_of, open_source
    from hive_agents.gate import anybody
    from hive_agents.workspace.settings import load_settings

    labels, measured = files.measured()
    user = ""
    if accept_tags or accept:
        from hive_agents.access import local_user
        from hive_agents.gate import require_acceptable

        user = local_user()
        require_acceptable(measured, accept_tags, accept, by=user, reason=reason)
    opened: list[Workspace] = []

    def workspace() -> Workspace:
        if not opened:
            opened.append(surface.workspace)
            surface.asker.operator("measure configs")
            surface.require_whole_view("measure configs on labels of a file")
            surface.refresh_index()
        return surface.workspace

    before, after = (open_source(reference, workspace) for reference in sides)
    log = _ledger(opened, measured, files.holdout or files.qrels, ledger)
    gate = opened[0].settings.gate if opened else load_settings(Path.cwd(), os.environ).gate
    old, new = ask_both(before, after, measured, gate)
    cheap = files.cheap_labels(measured.k)
    finding = anybody.gate_rankings(
        (before.name, old),
        (after.name, new),
        measured,
        gate,
        ledger=log,
        accept_tags=accept_tags,
        accept=accept,
        budgets=budgets,
        cheap=anybody.CheapLabels(cheap, *ask_both(before, after, cheap, gate)) if cheap is not None else None,
        known={query.id for query in labels},
        counted=None if files.holdout or labels.has_holdout else labels,
    )
    if user:
        anybody.record_acceptance(log, finding, user, str(reason))
    leaks = leaks_of(measured, labels, _texts(corpus) if corpus is not None else ())
    return replace(finding, warnings=(*finding.warnings, *leaks.warnings(measured, "")))


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the UTF-8 files below a folder. Raises: HIVE-107 where there is no folder."""
    from hive_agents.base import HiveError
    from hive_agents.base.files import read_bytes

    if not folder.is_dir():
        raise HiveError.of("HIVE-107", f"there is no folder {folder}", fix="name the folder of the documents")
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with contextlib.suppress(UnicodeDecodeError, OSError):
                yield path.relative_to(folder).as_posix(), read_bytes(path).decode()


def _budgets(options: list[str]) -> dict[str, float]:
    """Return the share, 0 to 1, that the mean of each metric may lose. Raises: HIVE-409."""
    from hive_agents.base import HiveError
    from hive_agents.gate import anybody

    budgets: dict[str, float] = {}
    for text in options:
        name, _, percent = text.partition("=")
        try:
            share = float(percent) / 100
        except ValueError:
            share = -1.0
        if name not in anybody.BUDGETED or not 0 <= share <= 1:
            fix = f"write METRIC=PERCENT, of {', '.join(anybody.BUDGETED)}"
            raise HiveError.of("HIVE-409", f'--budget "{text}" is no budget', fix=fix)
        budgets[name] = share
    return budgets


def _ledger(opened: list[Workspace], labels: GoldenSet, path: Path, chosen: Path | None) -> audit.Place:
    """Return where looks at the holdout in `path` are counted: for a workspace's own golden set, that workspace.

    Raises: HIVE-409 for another ledger than the workspace's.
    """
    from hive_agents.base import HiveError
    from hive_agents.evaluation import outside
    from hive_agents.gate import anybody
    from hive_agents.store import audit

    place = opened[0] if opened else outside.home_of(path, labels)
    if place is None:
        return audit.LogFile(chosen) if chosen else anybody.ledger_beside(path)
    if chosen is not None:
        why = f"the workspace {place.root.name} counts the looks at its holdout in audit/log.jsonl"
        raise HiveError.of("HIVE-409", why, fix="leave --ledger out")
    return place


def _write_reports(
    finding: anybody.RankingsFinding, reason: str | None, junit: Path | None, markdown: Path | None
) -> None:
    from hive_agents.base.files import atomic_write_text
    from hive_agents.cli.gate_reports import junit_text, markdown_text

    if junit is not None:
        atomic_write_text(junit, junit_text(finding))
    if markdown is not None:
        atomic_write_text(markdown, markdown_text(finding, reason))


def _parts(finding: anybody.RankingsFinding) -> list[Any]:
    from rich.table import Table

    from hive_agents.cli.deploy import gate_parts
    from hive_agents.cli.gate_reports import most_changed

    parts = gate_parts(finding)
    changed = most_changed(finding)
    if changed:
        table = Table(title="queries that change most", title_justify="left")
        for name in ("id", "query", "before", "after", "after − before"):
            table.add_column(name, justify="left" if name in ("id", "query") else "right")
        for query_id, text, old, new in changed:
            figures = (figure(old), figure(new), figure(new - old, signed=True))
            table.add_row(safe_line(query_id), safe_line(text), *figures)
        parts.append(table)
    if finding.use:
        left = count(finding.uses_left or 0, "look")
        parts.append(
            f"{left} at this holdout left; counted in {finding.ledger}, which belongs where the labels are kept"
        )
    return parts
