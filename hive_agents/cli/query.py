from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import WHO_READS, FilterOption, Surface, count, figure, styled, with_surface

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from hive_agents.ranking import Ranking


@with_surface(as_user=WHO_READS)
def command(
    surface: Surface,
    text: Annotated[str, typer.Argument(help="The query.")],
    config: Annotated[str | None, typer.Option("--config", "-c", help="Config (default: the active one).")] = None,
    filters: FilterOption = None,
    explain: Annotated[str | None, typer.Option("--explain", metavar="DOC", help="Explain the rank of DOC.")] = None,
) -> None:
    """Search, and show the passages with their scores."""
    from hive_agents.base import HiveError
    from hive_agents.cli.configs import chosen_config
    from hive_agents.index import parse_filters
    from hive_agents.ranking import explain_hit, explain_text

    place = surface.workspace
    if (viewer := surface.asker.viewer()) is not None:
        if config is not None or explain is not None:
            message = f"{viewer.user} may search what their gate shows them, with the config that serves, and no more"
            fix = "leave --config and --explain out; in `hive chat`, /why 1 explains a result"
            raise HiveError.of("HIVE-415", message, fix=fix)
        _search_as_reader(surface, text, filters or [])
        return
    surface.keep_fresh()
    program = chosen_config(place, config, surface, refresh=not place.settings.index.auto_refresh)
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
    parts: list[Any] = [*_lines(ranking), f"{count(len(ranking.hits), 'hit')}{_ending(ranking)}"]
    if explain is not None:
        value["explanation"] = explain_hit(engine, text, program, explain)
        parts.append(explain_text(value["explanation"]))
    surface.show(value, *parts)


def _search_as_reader(surface: Surface, text: str, filters: list[str]) -> None:
    """Show the results that POST /api/query returns for the user of `--as`."""
    import asyncio

    from hive_agents.base import HiveError
    from hive_agents.cli.replies import results_table
    from hive_agents.copilot import LIMITED, Chat, search

    surface.keep_fresh()
    chat = Chat(surface.workspace, surface.asker.reader)
    try:
        pinned = chat.filters(filters) if filters else []
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None
    found = asyncio.run(search(chat.workspace, chat.reader, text, pinned, engine=chat.engine))
    value = {"query": text, "config": chat.active.name, "results": found.results, "notice": found.notice}
    told = [styled(found.notice, "yellow")] if found.notice else []
    surface.show(value, *told, *results_table(found.results), count(len(found.results), "document"), LIMITED)


_ENDINGS = {
    "none": "",
    "top_k": ": as many as top_k allows",
    "gap": ": the scores fall off behind them",
    "max_results": ": as many as dynamic_k.max_results allows",
    "floor": ": the rest is below the relevance floor",
    "exhausted": ": nothing else matches",
    "abstain": ": nothing is near enough, so the config abstains",
}


def _ending(ranking: Ranking) -> str:
    if not ranking.hits and ranking.cut.reason == "exhausted":
        return ": nothing matches"
    return _ENDINGS[ranking.cut.reason]


def _lines(ranking: Ranking) -> Iterator[RenderableType]:
    """Yield the query, and for each hit its chunk and its rank and score in both lanes, then the passage."""
    from rich.padding import Padding
    from rich.text import Text

    yield Text(f"{ranking.query!r} with {ranking.config}")
    for hit in ranking.hits:
        lanes = f"  score {figure(hit.score, 4)}{_lane('bm25', hit.bm25_rank, hit.bm25_score)}"
        lanes += _lane("vector", hit.vector_rank, hit.vector_score)
        line = Text(f"{hit.rank:>3}  ") + Text(hit.chunk_id, style="bold") + Text(lanes, style="dim")
        if hit.flagged:
            line += Text(f"  ! lanes disagree {hit.disagreement:.2f}", style="yellow")
        yield line
        yield Padding(Text(hit.heading or hit.title, style="cyan") + Text(f"\n{hit.excerpt}"), (0, 0, 0, 5))


def _lane(name: str, rank: int | None, score: float | None) -> str:
    return f"  {name} –" if rank is None else f"  {name} #{rank} ({figure(score, 2)})"
