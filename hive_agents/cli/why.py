from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import GoldenOption, Surface, count, figure, with_surface

if TYPE_CHECKING:
    from hive_agents.optimizer import why


@with_surface()
def command(
    surface: Surface,
    text: Annotated[str, typer.Argument(metavar="QUERY", help="The query.")],
    doc: Annotated[str, typer.Argument(help="The document that should be first: its path below documents/.")],
    config: Annotated[str | None, typer.Option("--config", "-c", help="Config (default: the active one).")] = None,
    only_config: Annotated[bool, typer.Option("--only-config", help="Don't suggest edits of the document.")] = False,
    golden: GoldenOption = None,
) -> None:
    """Find the smallest edits that rank a document first, and what each costs other queries."""
    from hive_agents.cli.configs import chosen_config
    from hive_agents.evaluation import FILE, viewable_golden
    from hive_agents.optimizer import document_ways, why

    place = surface.workspace
    viewer = surface.asker.operating_viewer("ask what would put a document first")
    surface.keep_fresh()
    program = chosen_config(place, config, surface, viewer=viewer)
    question = why.DocumentQuestion(place.engine(), text, doc, program, viewer)
    standing = question.standing()
    costs = None
    if golden is not None or (place.root / FILE).is_file():
        labels = viewable_golden(place, viewer, golden)
        if labels.collection == program.collection:
            costs = why.Costs(labels, question.engine, program, beside=text, reader=viewer)
    ways: list[why.Way] = []
    if standing.rank != 1:
        ways = why.config_ways(question, costs)
        if not only_config:
            ways += document_ways(question, costs)
    measured = len(costs.golden) if costs else 0
    value = {**asdict(standing), "ways": [way.to_json() for way in ways], "measured_on": measured}
    surface.show(value, *_parts(standing, ways, measured))


def _parts(standing: why.DocumentRank, ways: list[why.Way], measured: int) -> list[Any]:
    from rich.table import Table

    name = standing.doc_id
    if standing.rank == 1:
        return [f"{name} is first already"]
    where = f"at rank {standing.rank}" if standing.rank else "not returned"
    head = f"{name} is {where}" + (f"; {standing.first} is first" if standing.first else "; nothing is")
    if not ways:
        return [
            head,
            "no single setting, no pair of them, no value of its metadata and none of the query's words do it",
        ]
    table = Table(title="what would put it first", title_justify="left")
    for column in ("edit of", "what", "queries that lose", "by", "that win", "mean nUDCG"):
        table.add_column(column, justify="left" if column in ("edit of", "what") else "right")
    kinds = {"config": "config", "metadata": "metadata", "words": "document"}
    for way in ways:
        cost = way.cost
        figures = ("–", "–", "–", "–")
        if cost is not None:
            lost = figure(-cost.lost, 2, signed=True) if cost.lose else "0"
            figures = (str(cost.lose), lost, str(cost.win), figure(cost.difference, 4, signed=True))
        table.add_row(kinds[way.kind], safe_line(way.told), *figures)
    ending = f"costs are measured on {count(measured, 'other golden query')}, none of them held out"
    return [head, table, ending if measured else "there is no golden set to measure costs with"]
