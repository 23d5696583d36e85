from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import count
from hive_agents.cli.evaluate import SplitOption
from hive_agents.cli.surface import GoldenOption, Surface, figure, with_surface

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rich.table import Table

    from hive_agents.evaluation import Comparison, EngineComparison


@with_surface()
def command(
    surface: Surface,
    a: Annotated[str | None, typer.Argument(help="Config: a name, a file name or a path.")] = None,
    b: Annotated[str | None, typer.Argument(help="The config to compare it with.")] = None,
    split: SplitOption = None,
    golden: GoldenOption = None,
    engine: Annotated[
        bool,
        typer.Option(
            "--engine", help="Compare one config (or the active one) on the settings' engines and the embedded one."
        ),
    ] = False,
) -> None:
    """Measure two configs side by side; every difference is B minus A."""
    from hive_agents.base import HiveError
    from hive_agents.cli.configs import chosen_config
    from hive_agents.evaluation import compare, compare_engines
    from hive_agents.gate import visible_part

    viewer = surface.asker.operating_viewer("measure configs")
    if engine and b is not None:
        raise HiveError.of("HIVE-409", "--engine compares one config with itself", fix="name one config, or none")
    if not engine and (a is None or b is None):
        raise HiveError.of("HIVE-409", "two configs are needed", fix="hive compare A B, or hive compare [A] --engine")
    place = surface.workspace
    surface.refresh_index()
    part = visible_part(place, golden, split, viewer)
    first = chosen_config(place, a, surface, part.golden, viewer)
    if engine:
        surface.warn(part.look(place.engine(), [first], "compare"))
        engines = compare_engines(place, first, part.golden, reader=viewer)
        surface.show(engines.to_json(hide=part.hidden), *_engine_parts(engines, part.hidden))
        return
    second = chosen_config(place, b, surface, part.golden, viewer)
    surface.warn(part.look(place.engine(), [first, second], "compare"))
    comparison = compare(place.engine(), first, second, part.golden, reader=viewer)
    surface.show(comparison.to_json(hide=part.hidden), *_parts(comparison, part.hidden))


def _engine_parts(comparison: EngineComparison, hidden: Collection[str]) -> list[Any]:
    from rich.table import Table

    title = f"{comparison.config}, {count(len(comparison.queries), 'query')}"
    columns = ("embedded", " and ".join(comparison.engines), "difference")
    metrics = _metrics_table(title, columns, comparison.embedded.metrics, comparison.engine.metrics)
    lanes = ", ".join(f"{name} {figure(share)}" for name, share in comparison.lanes.items())
    lines: list[Any] = [
        metrics,
        f"overlap at 10: {figure(comparison.overlap)} (lanes: {lanes});"
        f" {comparison.identical:.0%} of the lists are identical",
    ]
    lines += [f"  {count(n, 'query')}: {reason}" for reason, n in comparison.reasons.items()]
    different = [query for query in comparison.queries if query.overlap < 1 and query.query.id not in hidden]
    if different:
        table = Table(title="lists that differ most" + (" (holdout not shown)" if hidden else ""), title_justify="left")
        for name in ("id", "query", "overlap"):
            table.add_column(name, justify="right" if name == "overlap" else "left")
        for query in sorted(different, key=lambda query: query.overlap)[:8]:
            table.add_row(query.query.id, query.query.query, figure(query.overlap))
        lines.append(table)
    return lines


def _metrics_table(
    title: str,
    columns: tuple[str, str, str],
    a: Mapping[str, float | None],
    b: Mapping[str, float | None],
) -> Table:
    """Return the metrics of A, of B, and B minus A under the three `columns`."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for name in ("nudcg", "ndcg", "recall", "mrr", "distractors", "results", "latency_ms_p95"):
        x, y = a[name], b[name]
        delta = None if x is None or y is None else y - x
        table.add_row(name, figure(x), figure(y), figure(delta, signed=True))
    return table


def _parts(comparison: Comparison, hidden: Collection[str]) -> list[Any]:
    from rich.table import Table

    a, b, d = comparison.a, comparison.b, comparison.difference
    title, columns = f"{count(len(a.queries), 'query')}, k = {a.k}", (f"A: {a.config}", f"B: {b.config}", "B − A")
    lines: list[Any] = [_metrics_table(title, columns, a.metrics, b.metrics)]
    low, high = d.ci95
    lines.append(
        f"nUDCG {d.difference:+.3f}, 95 % interval {low:+.3f} to {high:+.3f}, p = {d.p_value:.4f} that B isn't better;"
        f" {d.wins} won, {d.losses} lost, {d.ties} tied"
    )
    if d.mde:
        lines.append(f"{d.n} queries can show gains from {d.mde:.3f} on")
    for change in comparison.changes:
        before, after = (json.dumps(change[side], ensure_ascii=False) for side in ("a", "b"))
        lines.append(f"  {change['path']}: {before} → {after}")
    changed = [
        (y.nudcg - x.nudcg, x.query.id, x.query.query, x.nudcg, y.nudcg)
        for x, y in zip(a.queries, b.queries, strict=True)
        if x.nudcg != y.nudcg and x.query.id not in hidden
    ]
    if changed:
        table = Table(
            title="queries that change most" + (" (holdout not shown)" if hidden else ""), title_justify="left"
        )
        for name in ("id", "query", "A", "B", "B − A"):
            table.add_column(name, justify="left" if name in ("id", "query") else "right")
        for delta, query_id, text, x, y in sorted(changed, key=lambda row: -abs(row[0]))[:8]:
            table.add_row(query_id, text, figure(x), figure(y), figure(delta, signed=True))
        lines.append(table)
    return lines
