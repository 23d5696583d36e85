from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption, figure, open_workspace

if TYPE_CHECKING:
    from rich.table import Table

    from hive_agents.retrieval import Ranking


def command(
    text: Annotated[str, typer.Argument(help="What to search for.")],
    config: Annotated[str | None, typer.Option("--config", "-c", help="Config (default: the active one).")] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", "-f", help="field=value, field=a,b, field!=value, field>=value, field<value."),
    ] = None,
    explain: Annotated[str | None, typer.Option("--explain", metavar="DOC", help="Say why DOC is where it is.")] = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Search once."""
    from hive_agents.cli.configs import chosen_config
    from hive_agents.errors import HiveError
    from hive_agents.retrieval.explain import explain_hit, explain_text
    from hive_agents.retrieval.filters import parse_filters

    surface = Surface(json, quiet)
    place = open_workspace(workspace)
    program = chosen_config(place, config, surface)
    engine = place.engine()
    if filters:
        fields = engine.index(program.collection).collection.fields
        try:
            added = parse_filters(filters, {name: field.type for name, field in fields.items()})
            program = program.model_copy(update={"filters": program.filters | added})
            engine.index(program.collection).select(program.conditions)
        except HiveError as error:
            raise HiveError(error.diagnostics, exit_code=2) from None
    ranking = engine.search(text, program)
    value: dict[str, Any] = ranking.to_json()
    parts: list[Any] = [_table(ranking), f"{len(ranking.hits)} hits, ended by {ranking.cut.reason}"]
    if explain is not None:
        value["explanation"] = explain_hit(engine, text, program, explain)
        parts.append(explain_text(value["explanation"]))
    surface.show(value, *parts)


def _table(ranking: Ranking) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True, title=f"{ranking.query!r} with {ranking.config}", title_justify="left")
    table.add_column("#", justify="right")
    table.add_column("document", ratio=2, overflow="fold")
    table.add_column("passage", ratio=4)
    table.add_column("score", justify="right")
    table.add_column("bm25", justify="right")
    table.add_column("vector", justify="right")
    for hit in ranking.hits:
        where = Text(hit.chunk_id, style="bold") + Text(f"\n{hit.heading}", style="dim not bold")
        if hit.flagged:
            where += Text(f"\n! lanes disagree {hit.disagreement:.2f}", style="yellow not bold")
        table.add_row(
            str(hit.rank),
            where,
            Text(hit.excerpt),
            figure(hit.score, 4),
            _lane(hit.bm25_rank, hit.bm25_score),
            _lane(hit.vector_rank, hit.vector_score),
        )
    return table


def _lane(rank: int | None, score: float | None) -> str:
    return "–" if rank is None else f"{rank} ({figure(score, 2)})"
